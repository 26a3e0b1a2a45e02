"""One network read by everyone: by balls, by NumPy, by torch in four dtypes, by the checker and the prover.

The one file of these folders that looks inside: bare networks run in any dtype by any kernel, and are enclosed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from flint import arb

from attnforge.certification.certify import certify
from attnforge.certification.checker.layers import run
from attnforge.certification.checker.search import exactly
from attnforge.certification.checker.space import Space
from attnforge.certification.checker.taylor import Cell
from attnforge.certification.checker.values import Place, Value
from attnforge.certification.output_range import InputRows, run_outputs
from attnforge.effort import NORMAL, Effort
from attnforge.errors import AttnforgeError
from attnforge.network import Network, apply, rounded
from attnforge.outward import lower, machine, upper
from attnforge.runtime import AttentionNetwork
from attnforge.runtime.module import KERNELS as KERNELS
from attnforge.runtime.module import factors
from attnforge.targets import Box, Formula
from tests.readers.exact import exact_output
from tests.readers.judging import Tally
from tests.readers.networks import Case, fitted_case, random_case

Array = npt.NDArray[np.float64]

DTYPES = {"float64": torch.float64, "float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
POINTS, EXACT = 24, 2  # runs of every network, and those of them compared with its exact value
WIDEST = 1e3  # an enclosure that says something is narrower than this many times the values themselves


def compare_readers(seed: int, make: Callable[[int], Case] = random_case) -> Tally:
    """The random network of this seed: runs and exact values in every dtype against the checker's enclosures."""
    case, tally = make(seed), Tally()
    rng = np.random.default_rng([seed, 1])
    points = case.points(rng, POINTS)
    order = int(rng.choice([1, 1, 2]))
    tally.counts["networks"] += 1
    for dtype in DTYPES:
        try:
            _compare(case, dtype, points, order, tally, f"seed {seed}, {dtype}")
        except AttnforgeError:
            tally.counts[f"{dtype}: refused"] += 1
    return tally


def _compare(case: Case, dtype: str, points: Array, order: int, tally: Tally, where: str) -> None:
    network = rounded(case.network, dtype)
    runs = {"torch": _torch(case, dtype, points)}
    if any(factors(head) for head in case.network.heads):
        runs["torch, dense"] = _torch(case, dtype, points, "dense")
    if case.network.heads and all(head.is_small for head in case.network.heads):
        runs["torch, batched"] = _torch(case, dtype, points, "batched")
    if dtype == "float64":
        with np.errstate(all="ignore"):
            tokens, context = case.split(points)
            runs["numpy"] = apply(network, tokens, context).reshape(len(points), -1)
    model = replace(case, network=network)
    with exactly(order), np.errstate(all="ignore"):
        found = enclose(model, dtype, order)
        whole = _Enclosure.of(found)
        for i in range(EXACT):  # the exact function, where inputs are what the dtype makes of them
            _compare_exact(model, points[i], found, tally, where)
    for reader, outputs in runs.items():
        tally.counts[f"{dtype}: {reader}"] += 1
        inside = (outputs >= whole.low) & (outputs <= whole.high)
        unknown = ~np.isfinite(whole.off)
        if not np.all(inside | unknown):
            at = np.argwhere(~(inside | unknown))[0]
            tally.violations.append(
                f"{where}: {reader} gives {outputs[tuple(at)]!r} outside [{whole.low[at[1]]!r}, {whole.high[at[1]]!r}]"
            )
        scale = np.abs(outputs[np.isfinite(outputs)]).max(initial=1e-300)
        told = np.all(whole.high - whole.low < WIDEST * scale)
        tally.counts[f"{dtype}: {'narrow' if told else 'wide'} enclosures"] += 1
    if "numpy" in runs:
        _compare_runs(runs["numpy"], runs["torch"], whole, tally, where)


def _compare_runs(numpy: Array, module: Array, whole: _Enclosure, tally: Tally, where: str) -> None:
    """Both runs are within ``off`` of the same exact value, so of each other within twice that."""
    apart = np.abs(numpy - module)
    if np.any(apart > 2 * whole.off):
        tally.violations.append(f"{where}: NumPy and torch are {apart.max()!r} apart, beyond {2 * whole.off.max()!r}")


def _compare_exact(case: Case, point: Array, found: list[Value], tally: Tally, where: str) -> None:
    """The exact value at a point lies in the model's range over the cell, up to ``off``: keys may be left out of it."""
    tokens, context = case.split(point)
    balls = exact_output(case.network, tokens, context)
    tally.counts["exact values"] += 1
    for value, ball in zip(found, balls.ravel().tolist(), strict=True):
        span = value.model.over[0] + arb(0, value.off)
        if not (lower(ball) <= upper(span) and upper(ball) >= lower(span)) and span.is_finite():
            tally.violations.append(f"{where}: the exact value {ball} is outside {span}")


def _torch(case: Case, dtype: str, points: Array, kernel: str = "auto") -> Array:
    tokens, context = case.split(points)
    module = AttentionNetwork(case.network, DTYPES[dtype], kernel=kernel)
    given = [torch.from_numpy(tokens), *([] if context is None else [torch.from_numpy(context)])]
    with torch.no_grad():
        return module(*given).double().numpy().reshape(len(points), -1)


def module_of(network: Network, dtype: str, **options: Any) -> AttentionNetwork:
    """The network as a module of tokens, by the kernel that is asked for."""
    return AttentionNetwork(network, DTYPES[dtype], **options)


def off_at(network: Network, tokens: list[Array], dtype: str) -> float:
    """How far, at most, a run in the dtype may be from the exact function at one input: the checker says it."""
    rows = [len(each) for each in tokens]
    point = np.concatenate([each.ravel() for each in tokens])
    with exactly(1):
        return max(value.off for value in enclose(Case(network, *(*rows, 0)[:2], point, point), dtype, 1))


def range_of(case: Case, dtype: str, effort: Effort) -> tuple[Array, Array]:
    """What is proved of the outputs of a network of any inputs on the case's box."""
    state = InputRows.of(0, (case.tokens, case.network.features))
    told = None if not case.told else InputRows.of(case.inputs, (case.told, case.network.context[1]))
    outputs = run_outputs(case.network, (state, told), Box(case.lower, case.upper), machine(dtype), effort)
    (low,), (high,) = outputs.range(case.lower[None], case.upper[None])
    return low, high


def enclose(case: Case, dtype: str, order: int) -> list[Value]:
    """What the checker knows of the outputs on the box: exact functions, and the run's distance from them."""
    space = Space(case.lower.tolist(), case.upper.tolist())
    place = Place(space, Cell(tuple(case.lower.tolist()), tuple(case.upper.tolist()), order), machine(dtype))
    network = replace(
        case.network, context=None if case.network.context is None else (case.told, case.network.context[1])
    )
    return [value for row in run(place, network, case.tokens, 0.0) for value in row()]


@dataclass(frozen=True, eq=False)
class _Enclosure:
    low: Array
    high: Array
    off: Array

    @classmethod
    def of(cls, values: list[Value]) -> _Enclosure:
        ends = [(lower(value.run), upper(value.run), value.off) for value in values]
        return cls(*(np.array(part, dtype=np.float64) for part in zip(*ends, strict=True)))


def compare_prover(seed: int, effort: Effort = NORMAL) -> Tally:
    """A random network against a formula: no run is further off than is proved."""
    case, tally = fitted_case(seed), Tally()
    rng = np.random.default_rng([seed, 2])
    dtype = str(rng.choice(list(DTYPES)))
    names = tuple("xyz"[: case.network.features])
    text = str(rng.choice(["0*x", "x", "sin(3*x)"]))
    target = Formula(text, Box(case.lower, case.upper), names)
    tally.counts["networks for the prover"] += 1
    try:
        found = certify(case.network, target, dtype=dtype, effort=effort)
    except AttnforgeError:
        tally.counts["prover: refused"] += 1
        return tally
    tally.counts[f"prover: {found.status}"] += 1
    if found.bound is not None:
        points = case.points(rng, 200)
        error = np.abs(_torch(case, dtype, points)[:, 0] - target.values(points).ravel()).max()
        if not error <= found.bound:
            tally.violations.append(f"seed {seed}, {dtype}: error {error} above {found.bound}")
    return tally
