"""Precision: error and bound of every dtype against the number of anchors, and anchors lost to rounding."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

import attnforge as af
from attnforge.experiments.claims import within_bounds
from attnforge.experiments.clamp import LOWER, REACH, UPPER, one_head
from attnforge.experiments.experiment import Case, Experiment, Finding, Row, crossed
from attnforge.experiments.panels import Panel, curve, page
from attnforge.experiments.settings import Settings, setting
from attnforge.experiments.table import Array, Table, markdown, span
from attnforge.plot.rates import SERIES, no_minor_labels

DTYPES = ("float64", "float32", "bfloat16", "float16")
SMOOTH, LINE = "sin(8*x)", {"x": (-1.0, 1.0)}
NOTHING = 1e-300  # a tolerance that no dtype reaches: the refusal says which one it does
FRESH = 20_000
WAYS = {  # how scores are written; all differ from -c (u - k)^2, u = (y - a) / h, by a term common to all keys
    "paper": "k (2 u - k), k from 0 on: the paper's literal keys",
    "anchors": "2 y L - L^2 on [0, 1]",
    "centred": "kappa (2 u - kappa), kappa from the middle: ours",
}
SHORT = {"paper": "paper's keys k = 0, 1, ..", "anchors": "2 y L - L^2 on [0, 1]", "centred": "centred keys (ours)"}
CHUNK = 500  # queries at a time
QUERIES = 20_000
USEFUL = 1.5  # the floor has begun where the error is so many times that of float64


@dataclass(frozen=True)
class DtypesSettings(Settings):
    """Which dtypes, and how many anchors."""

    dtypes: tuple[str, ...] = setting(DTYPES, explain="Some of " + ", ".join(DTYPES) + ".")
    anchors: tuple[int, ...] = setting(
        (4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096), (8, 32, 128, 512), explain="Anchors p of one head."
    )
    fitted: tuple[int, ...] = setting((5, 9, 17, 33, 65), (9, 17, 33), explain="Anchors of fitted heads.")
    depths: tuple[int, ...] = setting((1, 2, 4), (1, 2), explain="Hidden layers of ReLU networks.")
    targets: tuple[str, ...] = setting(
        ("sin(8*x)", "abs(x)", "x^3 - x"), ("sin(8*x)",), explain="Formulas of x in [-1, 1] that are compiled."
    )
    selected: tuple[int, ...] = setting(
        (16, 64, 256, 1024, 4096, 16_384), (16, 256, 1024, 4096), explain="Anchors p among which one is to be selected."
    )


class Dtypes(Experiment[DtypesSettings]):
    """What rounding leaves of the constructions."""

    name = "dtype"
    summary = "error and bound against anchors in every dtype"
    question = (
        "Where does the floor of each dtype begin, how many anchors are best in it, how far above the error is the "
        "bound, which tolerances are refused that could be reached, and when do scores lose the anchor?"
    )
    settings = DtypesSettings

    def cases(self, settings: DtypesSettings) -> Sequence[Case]:
        """Anchored, gated and fitted heads, ReLU networks, compiled formulas, and selection, in every dtype."""
        cases: list[Case] = []
        for dtype in settings.dtypes:
            cases += crossed(kind="truncated_linear", dtype=dtype, p=settings.anchors)
            cases += crossed(kind="gate", dtype=dtype)
            cases += crossed(kind="tensor_grid", dtype=dtype, p=settings.fitted)
            cases += crossed(kind="relu_network", dtype=dtype, depth=settings.depths, seed=settings.seed)
            cases += crossed(kind="compile", dtype=dtype, target=settings.targets)
            cases += crossed(kind="selection", dtype=dtype, scores=WAYS, p=settings.selected, seed=settings.seed)
        return cases

    def measure(self, case: Case) -> Sequence[Row]:
        """Error, bound and keys, or that it was refused; or shares of wrong and lost anchors."""
        if case["kind"] == "selection":
            return [_selection(case["dtype"], case["scores"], case["p"], case["seed"])]
        if case["kind"] == "compile":
            return [_compiled(case["target"], case["dtype"])]
        try:
            net = _built(case)
        except af.RefusalError:
            return [{"refused": True}]
        return [{"refused": False, **_judged(net)}]

    def findings(self, table: Table, settings: DtypesSettings) -> Sequence[Finding]:
        """Bounds, floors, best numbers of anchors, refusals, lost anchors."""
        return [
            within_bounds(table),
            *(_floor(table, dtype) for dtype in settings.dtypes),
            _exact_gate(table),
            *(_fitted(table, dtype) for dtype in settings.dtypes),
            _refusals(table),
            *_lost(table),
        ]

    def notes(self, table: Table, settings: DtypesSettings) -> Sequence[str]:
        """Gate, ReLU networks and compiled formulas; shares of wrong anchors."""
        header = ["what", "dtype", "keys", "smallest tol", "error", "bound", "bound / error"]
        rows = [_line(row) for kind in ("gate", "relu_network", "compile") for row in table.where(kind=kind).rows]
        wrong = {"wrong": lambda row: f"{100 * row['wrong']:.2g} %", "lost": lambda row: f"{100 * row['lost']:.2g} %"}
        columns = {"dtype": "{dtype}", "scores": "{scores}", "anchors p": "{p:,}"} | wrong
        ways = "; ".join(f"*{way}*: {text}" for way, text in WAYS.items())
        explained = f"Scores: {ways}. Wrong: not the nearest anchor; lost: further than one step from y."
        return [markdown(header, rows), explained, table.where(kind="selection").to_markdown(columns)]

    def figures(self, table: Table, settings: DtypesSettings) -> Mapping[str, Any]:
        """Errors and bounds against anchors; lost anchors against anchors."""
        return {"dtype-error": _error_figure(table), "dtype-selection": _selection_figure(table)}


def _built(case: Case) -> af.Compiled:
    kind, dtype = case["kind"], case["dtype"]
    if kind == "truncated_linear":
        return one_head(case["p"], dtype=dtype)
    if kind == "gate":
        return af.constructions.gate([1.0], 0.0, LOWER, UPPER, domain=af.Box(-REACH, REACH), dtype=dtype)
    if kind == "tensor_grid":
        return af.constructions.tensor_grid(SMOOTH, LINE, anchors=case["p"], dtype=dtype)
    return af.constructions.relu_network(_stack(case["depth"], case["seed"]), af.Box(-1, 1), dtype=dtype)


def _stack(depth: int, seed: int, width: int = 16) -> Any:
    """A ReLU network of so many hidden layers, 4 inputs and one output, as torch makes it."""
    import torch
    from torch import nn

    with torch.random.fork_rng():
        torch.manual_seed(seed)
        inner = [each for _ in range(depth - 1) for each in (nn.Linear(width, width), nn.ReLU())]
        return nn.Sequential(nn.Linear(4, width), nn.ReLU(), *inner, nn.Linear(width, 1))


def _judged(net: af.Compiled) -> dict[str, Any]:
    return {"keys": net.anchors, "error": af.measure(net, points=FRESH).sup, "bound": net.certificate.bound}


def _compiled(target: str, dtype: str) -> Row:
    """What `compile` says is the smallest tolerance, and what the network that keeps it reaches."""
    least: float | None = NOTHING
    try:
        net = af.compile(target, LINE, tol=NOTHING, dtype=dtype)
    except af.RefusalError as refusal:
        least = refusal.smallest_tol
        if least is None:
            return {"refused": True}
        net = af.compile(target, LINE, tol=least, dtype=dtype)
    return {"refused": False, "smallest_tol": least, "construction": net.construction, **_judged(net)}


def _selection(dtype: str, way: str, p: int, seed: int) -> Row:
    """Shares of queries y in [0, 1] whose largest score is not the nearest anchor's, or is further than a step off."""
    u = np.random.default_rng([seed, p]).uniform(0, p - 1, QUERIES)
    chosen = np.concatenate([largest_score(part, p, way, dtype) for part in np.array_split(u, QUERIES // CHUNK)])
    return {"wrong": float(np.mean(chosen != np.rint(u))), "lost": float(np.mean(np.abs(chosen - u) > 1))}


def largest_score(u: Array, p: int, way: str, dtype: str) -> npt.NDArray[np.int64]:
    """The anchor with the largest score, at places u in steps: queries and keys in the dtype, products as kernels form.

    Half types are multiplied and added in float32, as attention kernels do.

    >>> largest_score(np.array([3.2, 6.9]), 9, "centred", "float64").tolist()
    [3, 7]
    """
    import torch

    kind = getattr(torch, dtype)
    wide = torch.float32 if kind in (torch.bfloat16, torch.float16) else kind
    query, keys = _features(u, p, way)
    q, k = (torch.from_numpy(array).to(kind).to(wide) for array in (query, keys))
    return np.asarray((q @ k.mT).argmax(dim=-1).numpy())


def _features(u: Array, p: int, way: str) -> tuple[Array, Array]:
    """Queries (N, 2) and keys (p, 2) whose products are the scores."""
    middle, width = {"paper": (0, 1), "anchors": (0, p - 1), "centred": (p // 2, 1)}[way]
    place, kappa = (u - middle) / width, (np.arange(p) - middle) / width
    return np.stack([2 * place, -np.ones_like(u)], axis=1), np.stack([kappa, kappa**2], axis=1)


def _floor(table: Table, dtype: str) -> Finding:
    """Where the errors of a dtype leave those of float64, its best p, and what is refused."""
    rows = table.where(kind="truncated_linear", dtype=dtype, refused=False).ordered("p")
    clean = {row["p"]: row["error"] for row in table.where(kind="truncated_linear", dtype="float64").rows}
    p, errors, bounds = (rows.numbers(name) for name in ("p", "error", "bound"))
    off = [int(n) for n, e in zip(p, errors, strict=True) if n in clean and e > USEFUL * float(clean[n] or np.nan)]
    refused = table.where(kind="truncated_linear", dtype=dtype, refused=True).distinct("p")
    evidence = (
        f"{_best(rows, '.3g')}; bound / error {span(bounds / errors, '.2f')}; "
        + (f"above {USEFUL:g} times float64's error from p = {min(off)} on; " if off else "no floor in the sweep; ")
        + (f"refused from p = {min(refused)} on" if refused else "nothing refused")
    )
    return Finding(f"truncated_linear in {dtype}: floor and best p", "measured", evidence)


def _exact_gate(table: Table) -> Finding:
    """The gate needs no anchors: is it more accurate than the best anchored head of its dtype?"""
    parts, holds = [], True
    for row in table.where(kind="gate").rows:
        anchored = table.where(kind="truncated_linear", dtype=row["dtype"], refused=False).numbers("error").min()
        holds &= bool(float(row["error"] or 0) < anchored)
        parts.append(f"{row['dtype']} {row['error']:.2g} (best anchored head {anchored:.2g})")
    return Finding.judged("in every dtype the gate errs less than any number of anchors", holds, "; ".join(parts))


def _fitted(table: Table, dtype: str) -> Finding:
    rows = table.where(kind="tensor_grid", dtype=dtype, refused=False).ordered("p")
    ends = ", ".join(f"{row['error']:.2g} at p = {row['p']}" for row in (rows.rows[0], rows.rows[-1]))
    return Finding(f"fitted head of {SMOOTH} in {dtype}", "measured", f"{_best(rows, '.2g')}; error {ends}")


def _best(rows: Table, form: str) -> str:
    row = min(rows.rows, key=lambda row: row["error"])
    return f"best p = {row['p']} with error {row['error']:{form}} (bound {row['bound']:{form}})"


def _refusals(table: Table) -> Finding:
    """Whether the smallest tolerance that a refusal names is kept, and how far above the error it is."""
    rows = table.where(kind="compile").having("smallest_tol")
    parts = [f"{dtype} {span(of.ratios('smallest_tol', 'error'))}" for dtype, of in rows.by("dtype").items()]
    said = "; {target} in {dtype}: named {smallest_tol:.2g}, measured {error:.2g}, proved {bound:.2g}"
    broken = [said.format_map(row) for row in rows.rows if row["error"] > row["smallest_tol"]]
    evidence = f"{len(rows)} networks; smallest tol / measured error: {', '.join(parts)}" + "".join(broken)
    return Finding.judged("compile keeps the smallest tolerance that its refusal names", not broken, evidence)


def _lost(table: Table) -> list[Finding]:
    """Wrong anchors in float32, way by way, whether centred scores lose the fewest, and what half types keep."""
    rows = table.where(kind="selection")
    single = rows.where(dtype="float32")
    no_more = [
        row["wrong"] <= single.where(p=row["p"], scores=way).value("wrong")
        for row in single.where(scores="centred").rows
        for way in ("paper", "anchors")
    ]
    evidence = f"{sum(no_more)} of {len(no_more)} comparisons, over numbers of anchors and the two uncentred forms"
    claim = "float32: centred coordinates choose a wrong anchor no more often than uncentred ones"
    # half types cannot even hold the place between many anchors
    halves = [dtype for dtype in rows.distinct("dtype") if dtype in ("bfloat16", "float16")]
    return [
        *(_wrong(single, "float32", way, f"scores {WAYS[way]}") for way in single.distinct("scores")),
        Finding.judged(claim, bool(no_more) and all(no_more), evidence),
        *(_wrong(rows, dtype, "centred", "centred scores") for dtype in halves),
    ]


def _wrong(rows: Table, dtype: str, way: str, text: str) -> Finding:
    of = rows.where(dtype=dtype, scores=way).ordered("p").rows
    evidence = ", ".join(f"{100 * row['wrong']:.2g} % at p = {row['p']:,}" for row in of)
    return Finding(f"{dtype}, {text}: wrong anchors", "measured", evidence)


def _line(row: Mapping[str, Any]) -> list[str]:
    what = {"relu_network": f"ReLU network, {row.get('depth')} hidden", "compile": f"compile {row.get('target')}"}
    name = what.get(row["kind"], row["kind"])
    if row["refused"]:
        return [name, row["dtype"], "", "", "refused", "", ""]
    least = f"{row['smallest_tol']:.2g}" if "smallest_tol" in row else ""
    bound, error = row["bound"], row["error"]
    ratio = f"{bound / error:.3g}" if bound is not None and error > 0 else ""
    stated = "" if bound is None else f"{bound:.2g}"
    return [name, row["dtype"], f"{row['keys']:,}", least, f"{error:.2g}", stated, ratio]


def _error_figure(table: Table) -> Any:
    titles = {"truncated_linear": "clamp(y, -1, 1), tuned head", "tensor_grid": f"{SMOOTH}, fitted head"}
    panels = [
        Panel(_error_curves(table.where(kind=kind, refused=False)), "anchors p", "largest error", title)
        for kind, title in titles.items()
    ]
    figure = page(panels, 3.3, legend=4)
    fitted = table.where(kind="tensor_grid").distinct("p")
    for axes in figure.axes:
        no_minor_labels(axes)
    figure.axes[1].set_xticks(fitted, [str(p) for p in fitted])
    return figure


def _error_curves(rows: Table) -> list[Any]:
    return [
        curve(f"{dtype}: {column}", rows.where(dtype=dtype).ordered("p"), "p", column, look)
        for dtype, (colour, marker, dash) in zip(rows.distinct("dtype"), SERIES, strict=False)
        for column, look in (("error", (colour, marker, dash)), ("bound", (colour, "x", ":")))
    ]


def _wrong_curves(rows: Table) -> list[Any]:
    return [curve(SHORT[way], rows.where(scores=way), "p", "wrong", floor=1 / QUERIES) for way in WAYS]


def _selection_figure(table: Table) -> Any:
    rows = table.where(kind="selection").ordered("p")
    shares = f"share of wrong anchors, at least 1/{QUERIES:,}"
    shown = [dtype for dtype in table.distinct("dtype") if rows.where(dtype=dtype).numbers("wrong").max() > 0]
    panels = [Panel(_wrong_curves(rows.where(dtype=dtype)), "anchors p", shares, dtype) for dtype in shown]
    figure = page(panels, 2.8, sharey=True)
    for axes in figure.axes:
        no_minor_labels(axes)
    return figure
