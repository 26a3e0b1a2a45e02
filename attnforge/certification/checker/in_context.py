"""Is the bound of a network that reads examples true, for every prompt of its data box?

What blocks add to exact steps adds up: an exact step expands no distance. Where that is more than the bound, a few
prompts are run: one whose error exceeds the bound refutes it.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
from flint import arb

from attnforge.certification.checker.in_context_kernel import average_error, sample_average, seen_error
from attnforge.certification.checker.in_context_reading import read
from attnforge.certification.checker.in_context_step import EXAMPLES, Box, Step
from attnforge.certification.checker.questions import BeyondReachError
from attnforge.effort import check_time
from attnforge.errors import DomainError
from attnforge.network import Network
from attnforge.outward import machine, precision, round_to, upper
from attnforge.targets.in_context import Iteration, KernelAverage

Array = npt.NDArray[np.float64]
OfExamples = Iteration | KernelAverage

PROMPTS = 8  # tried, to refute
KERNEL = (
    "weighted sums over keys are accumulated in the order of the keys, in one to sixteen interleaved running sums, at "
    "once or in blocks of 512, and normalised in the end; exponentials in float64 are within 1 unit in the last place"
)


def drift(network: Network, target: OfExamples, dtype: str, progress: Callable[[float], None]) -> float:
    """A bound of |network - target|, entry by entry, in the box; BeyondReachError where there is none."""
    if isinstance(target, KernelAverage):
        return average_error(network, target, dtype)
    if network.features != target.features.width or network.tokens is not None or network.context is not None:
        raise BeyondReachError("A prompt is any number of tokens of the target's features", "another network")
    length, rest = divmod(len(network.layers), target.steps)
    if rest:
        raise BeyondReachError("Every step is a block of as many layers", f"{len(network.layers)} layers")
    steps: dict[tuple[float, ...], Step] = {}
    with precision():
        box = Box(target, machine(dtype))
        cast = 0.0 if dtype == "float64" else machine(dtype).roundoff * (1 + 2.0**-10)
        tiny = arb(machine(dtype).underflow) * target.start.size if cast else arb(0)
        apart, mirror = arb(upper(box.first * cast + (tiny if box.first > 0 else 0))), arb(0)
        for t in range(target.steps):
            check_time(f"step {t + 1} of {target.steps}")
            layers = network.layers[t * length : (t + 1) * length]
            rate = target.at(t).learning_rate
            name = (rate, *map(id, layers))
            if name not in steps:
                steps[name] = Step(read(layers, target.features), box, rate)
            added, doubled = steps[name].error(box.weights(t), apart, mirror)
            apart, mirror = arb(upper(apart + added)), arb(upper(doubled))
            progress((t + 1) / target.steps)
            if not apart.is_finite():
                raise BeyondReachError("A bound is finite", f"infinity after {t + 1} of {target.steps} steps")
        return upper(apart)


def largest_error(network: Network, target: OfExamples, dtype: str) -> tuple[float, int]:
    """The largest error seen on a few prompts of the box, from below, and the seed of that prompt."""
    found = [(_error_of(network, target, dtype, seed), seed) for seed in range(PROMPTS)]
    return max(found, key=lambda each: (math.inf if math.isnan(each[0]) else each[0], each[1]))


def sample(target: OfExamples, seed: int) -> tuple[Array, ...]:
    """A prompt of the box: numbers of all sizes up to the bound, or its corners."""
    if isinstance(target, KernelAverage):
        return sample_average(target, seed)
    source, n = np.random.default_rng(seed), min(target.examples or 4, EXAMPLES)
    bound = 1.0 if target.data_bound is None else target.data_bound
    x = source.uniform(-bound, bound, (n, target.features.inputs - target.algorithm.free))
    y = source.uniform(-bound, bound, (n, target.features.outputs) if target.has_columns else n)
    if seed % 2:
        x, y = (np.copysign(bound, each) for each in (x, y))
    if not target.has_numbers:
        y = source.integers(0, max(target.features.outputs, 2), n).astype(np.float64)
    return x, np.abs(y) if target.algorithm.link == "exponential" else y


def _error_of(network: Network, target: OfExamples, dtype: str, seed: int) -> float:
    if isinstance(target, KernelAverage):
        return seen_error(network, target, dtype, sample(target, seed))
    x, y = sample(target, seed)
    if target.spectrum is not None and not _is_inside(target, x, y):
        return 0.0
    with np.errstate(all="ignore"):
        tokens = network(round_to(target.prompt(x, y), dtype))
        held = tokens[: target.features.outputs, target.features.slices["w"]].T
        wanted = target.weights(x, y)
        return float(np.abs((held if target.features.outputs > 1 else held[:, 0]) - wanted).max())


def _is_inside(target: Iteration, x: Array, y: Array) -> bool:
    """Whether the certificate is about this prompt."""
    try:
        target.check(x, y)
    except DomainError:
        return False
    return True


def assumptions_of(target: OfExamples) -> set[str]:
    """What a certificate must say it assumes, beside the arithmetic: how many examples, and how kernels add."""
    found = {f"prompts of {'' if target.examples else 'at most '}{target.examples or EXAMPLES:,} examples", KERNEL}
    return found | ({target.condition} if isinstance(target, Iteration) and target.spectrum else set())
