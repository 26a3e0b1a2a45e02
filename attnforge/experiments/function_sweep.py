"""``af.sweep``: one's own function by networks of many sizes, each measured and certified."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import attnforge as af
from attnforge.compiler.targets import as_target
from attnforge.effort import Effort
from attnforge.errors import AttnforgeError, RefusalError, TargetError
from attnforge.experiments.experiment import Case, Row, crossed
from attnforge.experiments.sweep import Outcome
from attnforge.experiments.sweep import sweep as measured
from attnforge.experiments.sweep_result import Sweep
from attnforge.experiments.table import Table
from attnforge.outward import dtype_name
from attnforge.progress import Progress, watched
from attnforge.targets import Target
from attnforge.theorems import registry

POINTS = 10_000  # random ones at which a network is measured, before the climb from the worst
SIZES = (4, 8, 16, 32, 64, 128)  # anchors along an axis that are tried unless others are asked for
KEYS = 2**14  # in all, up to which these are
SENTINELS = 2  # a side of every one of several heads

Build = Callable[[Target, Case, Mapping[str, Any]], "af.Compiled"]


@dataclass(frozen=True)
class Sized:
    """A construction whose numbers are chosen: which of anchors, heads and sharpness it takes, and how it is built."""

    takes: tuple[str, ...]
    build: Build


def _cells(name: str, count: str) -> Build:
    def build(target: Target, case: Case, asked: Mapping[str, Any]) -> af.Compiled:
        sizes: dict[str, Any] = {count: case["anchors"], "sharpness": case["sharpness"], "dtype": case["dtype"]}
        made: af.Compiled = getattr(af.constructions, name)(target, None, **sizes, **asked)
        return made

    return build


def _fitted(target: Target, case: Case, asked: Mapping[str, Any]) -> af.Compiled:
    sizes: dict[str, Any] = {"anchors": case["anchors"], "dtype": case["dtype"], **asked}
    return af.constructions.tensor_grid(target, None, **sizes)


def _one_head(target: Target, case: Case, asked: Mapping[str, Any]) -> af.Compiled:
    sizes = {"anchors": case["anchors"], "sharpness": case["sharpness"], "dtype": case["dtype"]}
    return af.constructions.truncated_linear(**_clamp(target), **sizes, **asked)


def _several_heads(target: Target, case: Case, asked: Mapping[str, Any]) -> af.Compiled:
    sizes = {"heads": case["heads"], "sharpness": case["sharpness"], "dtype": case["dtype"]}
    tokens = case["anchors"] + 2 * SENTINELS
    row = {"tokens": tokens, "sentinels": SENTINELS, **_clamp(target)}
    return af.constructions.multihead_truncated_linear(**row, **sizes, **asked)


def _gate(target: Target, case: Case, asked: Mapping[str, Any]) -> af.Compiled:
    return af.constructions.gate(**_clamp(target), sharpness=case["sharpness"], dtype=case["dtype"], **asked)


SIZED: Mapping[str, Sized] = {
    "truncated_linear": Sized(("anchors", "sharpness"), _one_head),
    "multihead_truncated_linear": Sized(("anchors", "heads", "sharpness"), _several_heads),
    "gate": Sized(("sharpness",), _gate),
    "max_affine": Sized(("anchors", "sharpness"), _cells("max_affine", "cells")),
    "two_layer": Sized(("anchors", "sharpness"), _cells("two_layer", "grid")),
    "softmax_tail": Sized(("anchors", "sharpness"), _cells("softmax_tail", "grid")),
    "tensor_grid": Sized(("anchors",), _fitted),
}
CLAMPS = ("truncated_linear", "multihead_truncated_linear", "gate")


@dataclass(frozen=True, eq=False)
class Networks:
    """The networks for a target: one a case, built by sizes or to a tolerance, then measured."""

    target: Target
    points: int
    asked: Mapping[str, Any]

    def measure(self, case: Case) -> Sequence[Row]:
        """The largest error found, its root mean square, and what is certified."""
        if "tol" in case:
            named = {"construction": case["construction"], "dtype": case["dtype"]}
            net = af.compile(self.target, None, case["tol"], **named, **self.asked)
        else:
            net = SIZED[case["construction"]].build(self.target, case, self.asked)
        found, seen = af.measure(net, points=self.points), net.certificate.estimate
        sizes: dict[str, Any] = {"built": net.construction, "keys": net.anchors, "parameters": net.parameters}
        error = max(found.sup, 0.0 if seen is None else seen.error)
        known = {"bound": net.certificate.bound, "status": net.certificate.status}
        return [{**sizes, "error": error, "rms": found.rms, **known}]

    def alone(self, case: Case) -> bool:
        """No case measures time."""
        return False


def sweep(
    f: Any,
    domain: Any = None,
    *,
    anchors: int | Sequence[int] | None = None,
    heads: int | Sequence[int] | None = None,
    sharpness: Any = None,
    dtype: Any = "float64",
    tol: float | Sequence[float] | None = None,
    construction: str | Sequence[str] = "auto",
    lipschitz: Any = None,
    points: int = POINTS,
    effort: str | Effort | None = None,
    timeout: float | None = None,
    workers: int = 1,
    cluster: str | None = None,
    progress: Progress = False,
) -> Sweep:
    """One's own function by networks of many sizes: error and bound of each, with fitted rates.

    Every argument that says how a network is built may be one value or several; all combinations are built, measured
    (:func:`attnforge.measure`) and certified. What a construction refuses is a row with the reason, and stops nothing.

    Args:
        f: what :func:`attnforge.compile` takes: text, a callable, a network.
        domain: its domain; not needed where f brings one.
        anchors: p along every axis, ghosts and sentinels not counted; of several heads, those of one head.
        heads: H, of truncated linear functions, such as ``"clamp(x, -1, 1)"``.
        sharpness: ``"hard"``, ``"tuned"``, or numbers beta; both words where a construction takes them and None is
            given.
        dtype: one or several of ``"float64"``, ``"float32"``, ``"bfloat16"``, ``"float16"``.
        tol: instead of anchors, heads and sharpness: tolerances to compile to, by the construction.
        construction: ``"auto"``, a name, or several. Auto is, for a truncated linear function, one head, or several
            where ``heads`` are given; for others ``max_affine``, which selects cells, and ``tensor_grid``, which fits
            values; with ``tol`` it is what ``compile`` chooses.
        lipschitz: of a callable, a number (sup norm) or ``af.Lipschitz``: cells are then proved.
        points: random ones at which every network is measured, before a climb from the worst.
        effort, timeout: of every network, as ``compile`` takes them.
        workers: processes that share the networks; -1 for all cores.
        cluster: the address of a Dask scheduler, whose workers share them instead.
        progress: True shows how far it is; a callable is told (fraction, text).

    Returns:
        A :class:`Sweep`: ``rows``, ``rates``, ``to_latex()``, ``to_dataframe()``, ``plot()``; it prints as a table.

    >>> found = sweep("sin(3*x)", {"x": (-1, 1)}, anchors=[8, 16, 32], sharpness="hard", points=500)
    >>> [row["keys"] for row in found.rows], round(found.rates[0].error.value)
    ([8, 16, 32], -1)
    """
    target = as_target(f, domain, lipschitz)
    given = {"anchors": _several(anchors), "heads": _several(heads), "sharpness": _several(sharpness)}
    runs_in = tuple(dtype_name(each) for each in _several(dtype) or ())
    names = _several(construction) or ("auto",)
    cases = _to_tolerances(names, given, _several(tol), runs_in) if tol is not None else ()
    cases = cases or _by_sizes(target, names, given, runs_in)
    asked = {"effort": effort, "timeout": timeout}
    outcomes = list[Outcome]()
    with watched(progress) as watch:
        report = watch.step(f"sweeping {len(cases)} networks")
        for outcome in measured(Networks(target, points, asked), cases, workers=workers, cluster=cluster):
            outcomes.append(outcome)
            report(len(outcomes) / len(cases))
    return Sweep(target.describe(), Table.of(_rows(cases, outcomes)))


def _several(given: Any) -> tuple[Any, ...] | None:
    """One value as one of several; None stays."""
    if given is None or (not isinstance(given, str | os.PathLike) and isinstance(given, Sequence) and not len(given)):
        return None
    if isinstance(given, str) or np.ndim(given) == 0:
        return (given,)
    return tuple(each.item() if isinstance(each, np.generic) else each for each in given)


def _to_tolerances(
    names: tuple[str, ...], given: Mapping[str, Any], tols: tuple[Any, ...] | None, dtypes: tuple[str, ...]
) -> Sequence[Case]:
    sizes = [name for name, value in given.items() if value is not None]
    if sizes or not tols:
        got = f"tol and {', '.join(sizes)}" if sizes else "no tol"
        raise RefusalError("A sweep goes over tolerances, or over sizes", got, "Leave one of them out")
    for name in names:
        if name != "auto":
            registry.construction(name)
    return crossed(construction=names, dtype=dtypes, tol=tols)


def _by_sizes(
    target: Target, names: tuple[str, ...], given: Mapping[str, Any], dtypes: tuple[str, ...]
) -> Sequence[Case]:
    chosen = _automatic(target, given) if names == ("auto",) else names
    unknown = [name for name in chosen if name not in SIZED]
    if unknown:
        requirement = f"A sweep over sizes takes {', '.join(SIZED)}"
        raise RefusalError(requirement, repr(unknown[0]), "Choose one of these, or sweep over tol")
    for name in chosen:
        if name in CLAMPS:
            target.truncated_form()
    useless = [each for each, value in given.items() if value and not any(each in SIZED[n].takes for n in chosen)]
    if useless:
        requirement = f"`{useless[0]}` must be a size of what is built"
        raise RefusalError(requirement, f"{useless[0]} for {', '.join(chosen)}", "Leave it out")
    axes = target.domain.lower.size
    defaults = {
        "anchors": tuple(p for p in SIZES if p**axes <= KEYS) or SIZES[:1],
        "heads": (1, 2, 4, 8),
        "sharpness": ("hard", "tuned"),
    }
    cases = list[Case]()
    for name in chosen:
        sizes = {each: given[each] or defaults[each] for each in SIZED[name].takes}
        if name == "gate" and given["sharpness"] is None:
            sizes = {"sharpness": (None,)}  # the finest that the dtype can use
        cases += crossed(construction=name, dtype=dtypes, **dict(sorted(sizes.items(), key=_last)))
    return cases


def _last(size: tuple[str, Any]) -> int:
    """The order of columns: curves are along the last one."""
    return ("sharpness", "heads", "anchors").index(size[0])


def _automatic(target: Target, given: Mapping[str, Any]) -> tuple[str, ...]:
    try:
        target.truncated_form()
    except AttnforgeError:
        return ("max_affine",) if given["sharpness"] else ("max_affine", "tensor_grid")
    return ("multihead_truncated_linear",) if given["heads"] else ("truncated_linear",)


def _clamp(target: Target) -> dict[str, Any]:
    """Weights, offset, ends and domain of a truncated linear function."""
    form = target.truncated_form()
    ends = {"lower": float(form.lower.mid[()]), "upper": float(form.upper.mid[()])}
    return {"w": form.weights.mid[0], "t": float(form.offsets.mid[0]), **ends, "domain": target.domain}


def _rows(cases: Sequence[Case], outcomes: Sequence[Outcome]) -> list[Row]:
    """The rows in the order of the cases; a refusal is one, with its reason. Where all are refused, so is the sweep."""
    by_case = {tuple(outcome.case.items()): outcome for outcome in outcomes}
    ordered = [by_case[tuple(case.items())] for case in cases]
    defects = [outcome for outcome in ordered if outcome.entry is None and outcome.refusal is None]
    if defects:
        requirement = "A target must be a function that can be evaluated wherever it is asked for"
        raise TargetError(requirement, defects[0].failure[-2000:], "Correct the target")
    if all(outcome.entry is None for outcome in ordered):
        raise RefusalError(*(ordered[0].refusal or ("no cases", None, None)))
    return [
        {**outcome.case, "status": "refused", "reason": outcome.failure} if outcome.entry is None else row
        for outcome in ordered
        for row in (outcome.entry.rows if outcome.entry is not None else ({},))
    ]
