"""Is the bound of a network that runs an algorithm on its prompt true, for every prompt of its data box?

What blocks add to exact steps adds up: an exact step expands no distance. Where that is more than the bound, a few
prompts are run: one whose error exceeds the bound refutes it.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
from flint import arb

from attnforge.balls import machine, precision, round_to, upper
from attnforge.certification.checker.in_context_reading import read
from attnforge.certification.checker.in_context_step import EXAMPLES, Box, Step
from attnforge.certification.checker.questions import BeyondReachError
from attnforge.effort import check_time
from attnforge.network import Network
from attnforge.targets.in_context import Iteration

Array = npt.NDArray[np.float64]

PROMPTS = 8  # tried, to refute
KERNEL = (
    "weighted sums over keys are accumulated in the order of the keys, in one to sixteen interleaved running sums, at "
    "once or in blocks of 512, and normalised in the end; exponentials in float64 are within 1 unit in the last place"
)


def drift(network: Network, target: Iteration, dtype: str, progress: Callable[[float], None]) -> float:
    """A bound of |network - exact weights|, entry by entry, in the box; BeyondReachError where there is none."""
    if network.features != target.features.width or network.tokens is not None or network.context is not None:
        raise BeyondReachError("A prompt is any number of tokens of the target's features", "another network")
    length, rest = divmod(len(network.layers), target.steps)
    if rest:
        raise BeyondReachError("Every step is a block of as many layers", f"{len(network.layers)} layers")
    steps: dict[tuple[int, ...], Step] = {}
    with precision():
        box = Box(target, machine(dtype))
        apart, mirror = arb(0), arb(0)
        for t in range(target.steps):
            check_time(f"step {t + 1} of {target.steps}")
            layers = network.layers[t * length : (t + 1) * length]
            name = tuple(map(id, layers))
            if name not in steps:
                steps[name] = Step(read(layers, target.features), box)
            added, doubled = steps[name].error(box.weights(t), apart, mirror)
            apart, mirror = arb(upper(apart + added)), arb(upper(doubled))
            progress((t + 1) / target.steps)
            if not apart.is_finite():
                raise BeyondReachError("A bound is finite", f"infinity after {t + 1} of {target.steps} steps")
        return upper(apart)


def largest_error(network: Network, target: Iteration, dtype: str) -> tuple[float, int]:
    """The largest error seen on a few prompts of the box, from below, and the seed of that prompt."""
    found = [(_error_of(network, target, dtype, seed), seed) for seed in range(PROMPTS)]
    return max(found, key=lambda each: (math.inf if math.isnan(each[0]) else each[0], each[1]))


def sample(target: Iteration, seed: int) -> tuple[Array, Array]:
    """A prompt of the box: numbers of all sizes up to the bound, or its corners."""
    source, n = np.random.default_rng(seed), min(target.examples or 4, EXAMPLES)
    bound = 1.0 if target.data_bound is None else target.data_bound
    x = source.uniform(-bound, bound, (n, target.features.inputs - target.algorithm.free))
    y = source.uniform(-bound, bound, n)
    if seed % 2:
        x, y = (np.copysign(bound, each) for each in (x, y))
    if not target.has_numbers:
        y = source.integers(0, max(target.features.outputs, 2), n).astype(np.float64)
    return x, np.abs(y) if target.algorithm.link == "exponential" else y


def _error_of(network: Network, target: Iteration, dtype: str, seed: int) -> float:
    x, y = sample(target, seed)
    with np.errstate(all="ignore"):
        tokens = network(round_to(target.prompt(x, y), dtype))
        held = tokens[: target.features.outputs, target.features.slices["w"]].T
        wanted = target.weights(x, y)
        return float(np.abs((held if target.features.outputs > 1 else held[:, 0]) - wanted).max())


def assumptions_of(target: Iteration) -> set[str]:
    """What a certificate must say it assumes, beside the arithmetic: how many examples, and how kernels add."""
    return {f"prompts of {'' if target.examples else 'at most '}{target.examples or EXAMPLES:,} examples", KERNEL}
