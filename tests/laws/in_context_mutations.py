"""Networks that read the examples of a prompt, changed in every way: is a bound ever believed that is not true?

A change is drawn from its seed: of any array or field of a block, in all blocks or in one; a head and its opposite, or
a pair of arrays scaled against each other, which cancel but for roundings; or of the target: a level, an answer, steps,
step size, penalties, bound, bandwidth, kernel. The checker is handed a file of the changed network with the old bound
and fresh digests. The prover certifies it anew, for the data box and for single prompts. All of them are compared with
runs in the network's dtype, on prompts of the box, against the exact iteration or average in extended precision.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import attnforge as af
from attnforge.in_context import KernelNetwork
from attnforge.network import Attention, Head, Layer, Network, digest
from tests.attacks.files import target_digest
from tests.readers.mutations import FIELDS, Mutation, mutations

Array = npt.NDArray[np.float64]
Rng = np.random.Generator

ICL = af.in_context
PROMPTS, EXAMPLES = 6, 4  # of the box; examples where any number will do
ROUTES = ("small_sharpness", "interpolation")
ARRAYS = ("query", "key", "value", "output", "memory_keys", "memory_values")
WHOLE = {"construction", "tokens", "features", "context", "claims"}  # fields that are not those of a block
SAVED = "changed.safetensors"


def _kernel(kernel: Any) -> Callable[..., Any]:
    """Kernel regression has one route and no steps."""

    def made(route: str, dtype: str, **_: Any) -> Any:
        if route != ROUTES[0]:
            raise af.RefusalError("A kernel is one head, by no other route", route)
        return ICL.KernelRegression(0.7, kernel, dtype)

    return made


ALGORITHMS: dict[str, Callable[..., Any]] = {
    "least squares": ICL.LeastSquares,
    "ridge": lambda **more: ICL.Ridge(alpha=0.2, **more),
    "lasso": lambda **more: ICL.Lasso(alpha=0.1, **more),
    "elastic net": lambda **more: ICL.ElasticNet(alpha=0.2, **more),
    "Huber": lambda **more: ICL.Huber(delta=0.5, **more),
    "logistic": lambda **more: ICL.Logistic(alpha=0.1, **more),
    "softmax": lambda **more: ICL.SoftmaxRegression(classes=3, **more),
    "Poisson": lambda **more: ICL.Poisson(learning_rate=0.1, **more),
    "Gaussian kernel": _kernel("gaussian"),
    "softmax kernel": _kernel("softmax"),
}


def build(algorithm: str, route: str, dtype: str, steps: int = 2, anchors: int = 12) -> Any:
    """A small network; None where there is none."""
    more = {"anchors": anchors} if route == "interpolation" else {}
    try:
        made = ALGORITHMS[algorithm](steps=steps, route=route, dtype=dtype, **more)
        return made.build(features=2, examples=3, data_bound=1.0)
    except af.AttnforgeError:
        return None


@dataclass(frozen=True, eq=False)
class Mutant:
    """A changed network or target, and what was changed."""

    what: str
    network: Network
    target: Any


@dataclass(frozen=True)
class Outcome:
    """What was said of a mutant, and the largest error seen; ``bound`` and ``prompts`` are the prover's."""

    verdict: str
    error: float
    bound: float | None
    prompts: tuple[tuple[float, float], ...]

    def false_proofs(self, stored: float) -> list[str]:
        """Who believed a bound that is not true."""
        found = ["checker"] * (self.verdict == "confirmed" and not self.error <= stored)
        found += ["prover, box"] * (self.bound is not None and not self.error <= self.bound)
        return found + ["prover, prompt"] * any(not error <= bound for error, bound in self.prompts)


def mutants(net: Any, count: int, seed: int = 0) -> Iterator[Mutant]:
    """So many changes of a network or its target that can be made at all."""
    made, draw = 0, seed * 1_000_003
    while made < count:
        draw += 1
        rng = np.random.default_rng(draw)
        try:
            if rng.random() < 0.2:
                what, target = _changed_target(net.target, rng)
                yield Mutant(what, net.network, target)
            else:
                what, network = _changed_network(net, rng)
                yield Mutant(what, network, net.target)
        except (af.AttnforgeError, ValueError, IndexError, ZeroDivisionError):
            continue  # such a network cannot be made
        made += 1


def judged(net: Any, mutant: Mutant) -> Outcome:
    """What checker and prover say of a mutant, and what it does."""
    domain = mutant.target.domain
    ends = ((float(domain.lower), float(domain.upper)),)
    forged = {"digest": digest(mutant.network), "target": target_digest(mutant.target), "domain": ends}
    changed = [mutant.network, mutant.target, replace(net.certificate, **forged), net.construction, net.dtype]
    with tempfile.TemporaryDirectory() as folder:
        type(net)(*changed).save(Path(folder) / SAVED)
        verdict = af.check(Path(folder) / SAVED).verdict
    run = type(net)(*changed[:2], None, *changed[3:])
    prompts = [prompt(mutant.target, seed) for seed in range(PROMPTS)]
    errors = [_error(run, each) for each in prompts]
    try:
        proved = run.with_network(mutant.network).certificate
    except af.AttnforgeError:
        proved = None
    single = []
    for each, error in zip(prompts[:2], errors, strict=False):
        try:
            single.append((error, float(run.certify(*each).bound or math.inf)))
        except af.AttnforgeError:
            continue
    worst = max(errors, key=lambda error: math.inf if math.isnan(error) else error)
    return Outcome(verdict, worst, None if proved is None else proved.bound, tuple(single))


def prompt(target: Any, seed: int) -> tuple[Array, ...]:
    """A prompt of the box: numbers of all sizes up to the bound, or its corners."""
    rng, n = np.random.default_rng(seed), target.examples or EXAMPLES
    bound = 1.0 if target.data_bound is None else target.data_bound
    kernel = not hasattr(target, "algorithm")
    x = rng.uniform(-bound, bound, (n, target.features if kernel else target.features.inputs - target.algorithm.free))
    y = rng.uniform(-bound, bound, n)
    x, y = (np.copysign(bound, each) if seed % 2 else each for each in (x, y))
    if kernel:
        return x, y, rng.uniform(-bound, bound, (3, x.shape[1]))
    if target.algorithm.link in ("logistic", "softmax"):
        y = rng.integers(0, max(target.features.outputs, 2), n).astype(np.float64)
    return x, np.abs(y) if target.algorithm.link == "exponential" else y


def _error(run: Any, given: tuple[Array, ...]) -> float:
    exact = run.target.average if isinstance(run, KernelNetwork) else run.target.weights
    with np.errstate(all="ignore"):
        try:
            found = np.asarray(run(*given))
        except (af.AttnforgeError, IndexError, RuntimeError):
            return math.nan  # it does not run
        wanted = np.asarray(exact(*(each.astype(np.longdouble) for each in given)))
        return float(np.abs(found - wanted.reshape(found.shape)).max())


def _changed_target(target: Any, rng: Rng) -> tuple[str, Any]:
    factor = factor_of(rng)
    if not hasattr(target, "algorithm"):
        return _changed_average(target, factor, rng)
    algorithm, features = target.algorithm, target.features
    kinds = ["learning_rate", "l2", "l1", "delta", "data_bound", "steps", "examples"]
    kind = rng.choice(kinds + ["levels", "answers"] * bool(features.levels))
    if kind in ("learning_rate", "l2", "l1", "delta"):
        changed = replace(algorithm, **{kind: getattr(algorithm, kind) * factor})
        return f"{kind} * {factor:.3g}", replace(target, algorithm=changed)
    if kind == "data_bound":
        return f"data_bound * {factor:.3g}", replace(target, data_bound=abs((target.data_bound or 1.0) * factor))
    if kind == "steps":
        others = [1, target.steps - 1, target.steps + 1, target.steps * 2]
        return "steps", replace(target, steps=int(rng.choice(others)))
    if kind == "examples":
        return "examples", replace(target, examples=int(rng.choice([1, 2, 30])))
    held = list(getattr(features, kind))
    held[rng.integers(len(held))] *= factor
    return f"{kind} * {factor:.3g}", replace(target, features=replace(features, **{kind: tuple(held)}))


def _changed_average(target: Any, factor: float, rng: Rng) -> tuple[str, Any]:
    kind = str(rng.choice(["bandwidth", "data_bound", "examples", "kernel"]))
    if kind == "examples":
        return kind, replace(target, examples=int(rng.choice([1, 2, 30])))
    if kind == "kernel":
        return kind, replace(target, kernel="softmax" if target.kernel == "gaussian" else "gaussian")
    return f"{kind} * {factor:.3g}", replace(target, **{kind: abs(getattr(target, kind) * factor)})


def _changed_network(net: Any, rng: Rng) -> tuple[str, Network]:
    """One layer of the block is changed: in all blocks, or in one of them."""
    block, steps = (list(net.block), net.steps) if hasattr(net, "block") else (list(net.network.layers), 1)
    place = int(rng.integers(len(block)))
    what, layer = changed_layer(block[place], rng, net.network)
    layers, everywhere = list(net.network.layers), rng.random() < 0.5
    for t in range(steps) if everywhere else [int(rng.integers(steps))]:
        layers[t * len(block) + place] = layer
    where = f"layer {place} of {'all blocks' if everywhere else 'one block'}"
    return f"{what} in {where}", replace(net.network, layers=tuple(layers))


def changed_layer(layer: Layer, rng: Rng, network: Network) -> tuple[str, Layer]:
    """A change of a layer of the network, and what it is."""
    if isinstance(layer, Attention) and rng.random() < 0.25:
        return _cancelling(layer, rng)
    whole = replace(network, layers=(layer,), context_layers=())
    chosen: list[Mutation] = [each for each in mutations(whole, rng, 1) if each.what not in WHOLE & set(FIELDS)]
    mutation = chosen[rng.integers(len(chosen))]
    (changed,) = mutation.make().layers
    return mutation.what, changed


def _cancelling(layer: Attention, rng: Rng) -> tuple[str, Attention]:
    """What would change nothing, were there no roundings: heads that cancel, factors that do."""
    i = int(rng.integers(len(layer.heads)))
    head = layer.heads[i]
    if rng.random() < 0.5:
        large = head.output * 1.1 * 10.0 ** rng.integers(0, 13)
        more = replace(head, output=large), replace(head, output=-large)
        return "a head, and its opposite", replace(layer, heads=(*layer.heads, *more))
    factor = float(rng.choice([-1.0, 1.37, 2.0**40, 2.0**120, 2.0**1000, 2.0**1022]))
    names = [("query", "key", "memory_keys"), ("output", "value", "memory_values")][int(rng.integers(2))]
    changed: Head = replace(head, **_scaled(head, names, factor))
    what = f"{names[0]} / {factor:.3g}, {names[1]} * it"
    return what, replace(layer, heads=(*layer.heads[:i], changed, *layer.heads[i + 1 :]))


def _scaled(head: Head, names: tuple[str, ...], factor: float) -> dict[str, Array]:
    first, *others = names
    more = {name: getattr(head, name) * factor for name in others if getattr(head, name) is not None}
    return {first: getattr(head, first) / factor, **more}


def factor_of(rng: Rng) -> float:
    """What a number is multiplied by."""
    if rng.random() < 0.2:
        return float(rng.choice([-1.0, 0.0, 0.5, 1.5, 2.0, 100.0]))
    return 1.0 + float(rng.choice([-1, 1]) * 10.0 ** rng.uniform(-15.9, 0))
