"""Error against sharpness, dtype by dtype: the optimum, underflow of weights, overflow of scores, lost argmax."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

import attnforge as af
from attnforge.experiments.experiment import Case, Experiment, Finding, Row
from attnforge.experiments.settings import Settings, setting
from attnforge.experiments.table import Table, markdown

Array = npt.NDArray[np.float64]

HEADS = {"authors": (25.0, 60), "fine": (1.0, 256)}  # clamp to [-reach, reach] with p anchors
BEYOND = 1.2  # queries reach so many times as far as the anchors
DTYPES = ("float64", "float32", "float16", "bfloat16")
SMALLEST = {"float64": 2.0**-1074, "float32": 2.0**-149, "float16": 2.0**-24, "bfloat16": 2.0**-133}  # above zero
LARGEST = 65504.0  # number of float16
FINE = (1.2, 1.4, 1.6, 2.0, 2.4, 2.7, 3.0)  # values of c around the optima
AROUND_TWO = (1.6, 2.0, 2.4)
ROW_SHARPNESS = 40.0  # of the heads whose winning keys are compared: hard in every dtype
LOST = 0.01  # of the queries with another winner: then the argmax counts as lost
FITTED, GHOSTS, CUT = 33, 10, 1e-13  # anchors, ghosts a side and relative cut of singular values of the fitted head


@dataclass(frozen=True)
class TemperatureSettings(Settings):
    """Which sharpness and how many queries."""

    named: tuple[float, ...] = setting(
        (10.0, 50.0, 100.0, 1000.0), explain="Values of beta that the papers' summary names."
    )
    lowest: float = setting(0.01, explain="The least c = beta h^2 of the curves.")
    highest: float = setting(1e5, explain="The largest c of the curves.")
    points: int = setting(
        33, 13, explain="Values of c from the least to the largest; some more lie around the optimum."
    )
    queries: int = setting(20_001, 2001, explain="Queries, equally spaced for the largest error, drawn for the mean.")
    anchors: tuple[int, ...] = setting(
        (16, 64, 256, 1024, 4096, 16384), (16, 64, 256, 1024, 4096), explain="Numbers p for which winners are compared."
    )
    fitted: tuple[float, ...] = setting(
        (0.01, 0.02, 0.04, 0.07, 0.1, 0.14, 0.2, 0.3, 0.4, 0.5, 0.7, 1.0, 1.4, 2.0, 2.7, 4.0, 7.0, 12.0, 20.0, 40.0),
        (0.02, 0.1, 0.3, 0.7, 2.0, 7.0, 40.0),
        explain="Values of c at which values are fitted anew.",
    )


class Temperature(Experiment[TemperatureSettings]):
    """How sharp attention should be, and how sharp a dtype lets it be."""

    name: ClassVar[str] = "temperature"
    summary: ClassVar[str] = "error against sharpness in every dtype, and where it breaks"
    question: ClassVar[str] = (
        "How does the error depend on the sharpness beta, in every dtype? Where is the optimum, and where do weights "
        "underflow, scores overflow, or another key win than in exact arithmetic? One head computes clamp(y, a, b): "
        "p = 60 on [-25, 25], the authors' setting, and p = 256 on [-1, 1]; a second one fits sin(8x)."
    )
    settings = TemperatureSettings

    def cases(self, settings: TemperatureSettings) -> Sequence[Case]:
        """Curves and named values for both heads and all dtypes; rows of more and more anchors; fitted values."""
        across = np.geomspace(settings.lowest, settings.highest, settings.points)
        curve = sorted(
            {float(f"{c:.4g}") for c in across} | {c for c in FINE if settings.lowest <= c <= settings.highest}
        )
        return [
            *(_curve_case(head, dtype, c, settings) for head in HEADS for dtype in DTYPES for c in curve),
            *(
                _named_case(head, dtype, beta, settings)
                for head in HEADS
                for dtype in DTYPES
                for beta in settings.named
            ),
            *(
                {"part": "row", "dtype": dtype, "p": p, "seed": settings.seed}
                for dtype in DTYPES
                for p in settings.anchors
            ),
            *({"part": "fitted", "c": c} for c in settings.fitted),
        ]

    def measure(self, case: Case) -> Sequence[Row]:
        """Errors in steps h and in squares of them, and what went wrong."""
        if case["part"] == "fitted":
            return [_fitted(case["c"])]
        if case["part"] == "row":
            return [_winners(case["dtype"], case["p"], case["seed"])]
        reach, p = HEADS[case["head"]]
        c = case["beta"] * _step(reach, p) ** 2 if case["part"] == "named" else case["c"]
        return [{"sharpness": c, **_errors(reach, p, c, case["dtype"], case["queries"], case["seed"])}]

    def findings(self, table: Table, settings: TemperatureSettings) -> Sequence[Finding]:
        """Optimum, named values, underflow, overflow, lost winners, fitted values."""
        return [
            _largest_optimum(table),
            _mean_optimum(table),
            _sharper_is_better(table),
            _underflow(table),
            _overflow(table),
            _argmax_and_sharpness(table),
            _argmax_and_anchors(table),
            _powers_of_two(table),
            _softer_fits(table),
        ]

    def notes(self, table: Table, settings: TemperatureSettings) -> Sequence[str]:
        """The named values."""
        rows = [
            [
                head,
                f"{beta:g}",
                f"{_first(at, 'sharpness'):.3g}",
                *(_cell(at.where(dtype=dtype)) for dtype in DTYPES),
            ]
            for head in HEADS
            for beta in settings.named
            for at in [table.where(part="named", head=head, beta=beta)]
        ]
        header = ["head", "beta", "c = beta h^2", *DTYPES]
        text = (
            "Largest errors, in steps h, and mean square errors, in h^2, at the values of beta that the papers' "
            "summary names; beta multiplies 2 y L - L^2. (In the paper's layout of padded sequences beta multiplies "
            "that divided by h, and c = beta h.) What counts is c: the same beta is hard for one row of anchors and "
            "blurs another."
        )
        return [text, markdown(header, rows)]

    def figures(self, table: Table, settings: TemperatureSettings) -> Mapping[str, Any]:
        """Errors against c; lost winners and fitted values."""
        return {"temperature": _error_figure(table, settings), "temperature-limits": _limits_figure(table)}


def _curve_case(head: str, dtype: str, c: float, settings: TemperatureSettings) -> Case:
    return {"part": "curve", "head": head, "dtype": dtype, "c": c, "queries": settings.queries, "seed": settings.seed}


def _named_case(head: str, dtype: str, beta: float, settings: TemperatureSettings) -> Case:
    return {
        "part": "named",
        "head": head,
        "dtype": dtype,
        "beta": beta,
        "queries": settings.queries,
        "seed": settings.seed,
    }


def _step(reach: float, p: int) -> float:
    return 2 * reach / (p - 1)


def _module(reach: float, p: int, c: float, dtype: str) -> tuple[Any, bool]:
    """The head in the dtype, and whether it was built for it: what is refused there is built in float64 and cast."""

    def built(kind: str) -> Any:
        beta, box = c / _step(reach, p) ** 2, af.Box(-BEYOND * reach, BEYOND * reach)
        return af.constructions.truncated_linear(
            [1.0], 0.0, -reach, reach, anchors=p, sharpness=beta, domain=box, dtype=kind
        )

    try:
        return built(dtype).module(), True
    except af.RefusalError:
        return built("float64").module(dtype=dtype), False


def _run(module: Any, y: Array) -> tuple[Array, Array]:
    """Outputs (N,) and attention weights (N, p), as the dtype has them."""
    import torch

    with torch.no_grad():
        x = torch.from_numpy(y[:, None, None])
        weights = module.attention(x)[0][0][:, 0].double().numpy()
        return module(x).double().numpy().ravel(), weights


def _rounded(y: Array, dtype: str) -> Array:
    """The nearest numbers of the dtype: rounding of inputs is not what is looked at here."""
    import torch

    return np.asarray(torch.from_numpy(y).to(getattr(torch, dtype)).double().numpy())


def _drawn(reach: float, count: int, seed: int) -> Array:
    """Queries that a mean is taken over: w . x + t of the authors' data, scaled from their reach of 25 to this one.

    Ten inputs uniform in [-5, 5], w and t standard normal.
    """
    rng = np.random.default_rng(seed)
    x, w, t = rng.uniform(-5, 5, (count, 10)), rng.standard_normal((count, 10)), rng.standard_normal(count)
    return np.asarray(((w * x).sum(axis=1) + t) * reach / HEADS["authors"][0])


def _near_ends(reach: float, h: float) -> Array:
    """Queries close together around both ends: the largest error is there, or between any two anchors."""
    steps = np.linspace(-1.0, 3.0, 401) * h
    return np.concatenate([-reach + steps, reach - steps])


def _errors(reach: float, p: int, c: float, dtype: str, queries: int, seed: int) -> Row:
    module, fits = _module(reach, p, c, dtype)
    h, even = _step(reach, p), _rounded(np.linspace(-BEYOND * reach, BEYOND * reach, queries), dtype)
    y = np.concatenate([even, _rounded(_near_ends(reach, h), dtype)])
    out, weights = _run(module, y)
    finite = np.isfinite(out)
    error = (out - np.clip(y, -reach, reach)) / h
    drawn = _rounded(_drawn(reach, queries, seed), dtype)
    missed = (_run(module, drawn)[0] - np.clip(drawn, -reach, reach)) / h
    # At the anchor from which keys are counted scores are exact: 0, and -c for its neighbours.
    at = _run(module, _rounded(np.array([-reach + h * (p // 2)]), dtype))[1][0]
    return {
        "error": float(np.abs(error).max()) if finite.all() else None,
        "mse": float(np.mean(missed**2)) if np.isfinite(missed).all() else None,
        "not_finite": float(1 - finite.mean()),
        "neighbour": float(np.sort(at)[-2]) if np.isfinite(at).all() else None,
        "lost": _share_lost(weights[: len(even)], even, reach, p),
        "built_for_dtype": fits,
    }


def _share_lost(weights: Array, y: Array, reach: float, p: int) -> float:
    """The share of queries whose winning key is not the nearest anchor; without a winner (NaN) it is lost as well."""
    broken = ~np.isfinite(weights).all(axis=1)
    winner = np.where(np.isfinite(weights), weights, -1.0).argmax(axis=1)
    place = np.clip((y + reach) / _step(reach, p), 0, p - 1)
    lost = np.abs(place - winner) > 0.5 + 1e-6  # half-way between two anchors either may win
    return float(np.mean(lost | broken))


def _winners(dtype: str, p: int, seed: int) -> Row:
    """Random queries against a hard row of p anchors on [-1, 1]."""
    y = _rounded(np.random.default_rng(seed).uniform(-1.0, 1.0, 1000), dtype)
    module, fits = _module(1.0, p, ROW_SHARPNESS, dtype)
    return {"lost": _share_lost(_run(module, y)[1], y, 1.0, p), "built_for_dtype": fits}


def _fitted(c: float) -> Row:
    """sin(8x) on [-1, 1] by values fitted at this sharpness, and by sampled ones, in float64."""
    from attnforge.anchors.axis import Axis

    axis = Axis.uniform(-1.0, 1.0, FITTED + 2 * GHOSTS, GHOSTS, c)
    x, fresh = np.linspace(-1, 1, 12 * FITTED + 1), np.linspace(-1, 1, 10_001)
    values, _, rank, singular = np.linalg.lstsq(axis.weights(x), np.sin(8 * x), rcond=CUT)
    weights = axis.weights(fresh)
    return {
        "error": float(np.abs(weights @ values - np.sin(8 * fresh)).max()),
        "sampled_error": float(np.abs(weights @ np.sin(8 * axis.positions) - np.sin(8 * fresh)).max()),
        "condition": float(singular[0] / singular[int(rank) - 1]),
        "largest_value": float(np.abs(values).max()),
    }


def _first(rows: Table, column: str) -> float:
    return float(rows.numbers(column)[0]) if len(rows) else math.nan


def _cell(rows: Table) -> str:
    error, mse = _first(rows, "error"), _first(rows, "mse")
    return f"{error:.3g}, {mse:.2g}".replace("nan", "overflow")


def _best(rows: Table, column: str) -> tuple[float, float]:
    """The c with the smallest number, and that number."""
    at = int(np.nanargmin(rows.numbers(column)))
    return float(rows.numbers("c")[at]), float(rows.numbers(column)[at])


def _largest_optimum(table: Table) -> Finding:
    from attnforge.anchors import tuned

    found = {(head, d): _best(_curve(table, head, d), "error") for head in HEADS for d in DTYPES}
    right = all(2.2 <= c <= 3.0 and 0.055 <= error <= 0.066 for (_, d), (c, error) in found.items() if d == "float64")
    seen = "; ".join(
        f"{head}: " + ", ".join(f"{d} {found[head, d][1]:.3g} h at {found[head, d][0]:.3g}" for d in DTYPES)
        for head in HEADS
    )
    claim = (
        f"in float64 the largest error is smallest at c = {tuned():.2g}, where it is 0.063 h: eight times below hard"
    )
    return Finding.judged(claim, right, seen)


def _mean_optimum(table: Table) -> Finding:
    found = {head: _best(_curve(table, head, "float64"), "mse") for head in HEADS}
    seen = "; ".join(f"{head}: {mse:.2g} h^2 at c = {c:.3g}, where hard has 1/12" for head, (c, mse) in found.items())
    claim = "the mean square error is smallest at c = 1.4 (authors' setting, float64)"
    return Finding.judged(claim, 1.2 <= found["authors"][0] <= 1.6, seen)


def _sharper_is_better(table: Table) -> Finding:
    """The papers let beta grow without bound."""
    rows = table.where(part="named", dtype="float64")
    errors = {head: rows.where(head=head).ordered("beta") for head in HEADS}
    falls = all(bool(np.all(np.diff(at.numbers("error")) < 0)) for at in errors.values())
    seen = "; ".join(
        f"{head}, beta = {', '.join(f'{beta:g}' for beta in at.numbers('beta'))}: "
        f"{', '.join(f'{error:.3g}' for error in at.numbers('error'))} h"
        for head, at in errors.items()
    )
    return Finding.judged("the larger beta, the smaller the largest error", falls, seen)


def _curve(table: Table, head: str, dtype: str) -> Table:
    return table.where(part="curve", head=head, dtype=dtype).ordered("c")


def _underflow(table: Table) -> Finding:
    """The neighbour's weight e^-c is zero in the dtype once it is below half its smallest number."""
    parts, right = [], True
    for dtype in DTYPES:
        rows = Table.of(_curve(table, "authors", dtype).having("neighbour").rows)
        predicted = math.log(2) - math.log(SMALLEST[dtype])
        zero, c = rows.numbers("neighbour") == 0, rows.numbers("c")
        right &= bool(np.all(zero[c > 1.3 * predicted])) and not bool(np.any(zero[c < predicted / 1.3]))
        before, after = c[~zero].max(initial=0.0), c[zero].min(initial=math.inf)
        parts.append(f"{dtype} between c = {before:.3g} and {after:.3g} (predicted {predicted:.3g})")
    claim = "an unselected neighbour's weight e^-c becomes zero where it is below the smallest number of the dtype"
    return Finding.judged(claim, right, "; ".join(parts) + ". Nothing is lost by it: the selected key has it all")


def _overflow(table: Table) -> Finding:
    """Scores are 2 c u kappa - c kappa^2, u up to 1.2 p / 2: the query 2 c u leaves float16 first."""
    parts, right = [], True
    for head, (_, p) in HEADS.items():
        limit = LARGEST / (BEYOND * p)
        rows = _curve(table, head, "float16")
        c, bad = rows.numbers("c"), rows.numbers("not_finite") > 0
        right &= bool(np.all(bad[c > 1.3 * limit])) and not bool(np.any(bad[c < limit / 1.3]))
        before, after = c[~bad].max(initial=0.0), c[bad].min(initial=math.inf)
        parts.append(f"{head}: NaN from between c = {before:.3g} and {after:.3g} on (predicted {limit:.3g})")
    others = [
        d for d in DTYPES if d != "float16" and table.where(part="curve", dtype=d).numbers("not_finite").max() > 0
    ]
    right &= not others
    text = "; ".join(parts) + f"; other dtypes up to c = {table.where(part='curve').numbers('c').max():.3g}: none"
    return Finding.judged("scores overflow in float16 alone, where queries 2 c u exceed 65504", right, text)


def _argmax_and_sharpness(table: Table) -> Finding:
    """Rounding of scores grows with c as their gaps do."""
    parts = []
    for head in HEADS:
        for dtype in DTYPES:
            rows = _curve(table, head, dtype).where(not_finite=0.0)
            lost = 100 * rows.numbers("lost")[rows.numbers("c") >= 1]
            if len(lost) and lost.max() > 0:
                parts.append(f"{head}, {dtype}: {lost.min():.2g} to {lost.max():.2g} % of the queries")
    claim = "lost argmax against sharpness, from c = 1 on until scores overflow: it depends on it little"
    return Finding(claim, "measured", "; ".join(parts) or "no query loses its key")


def _argmax_and_anchors(table: Table) -> Finding:
    parts, start = [], {}
    for dtype in DTYPES:
        rows = table.where(part="row", dtype=dtype).ordered("p")
        start[dtype] = rows.numbers("p")[rows.numbers("lost") > LOST].min(initial=math.inf)
        known = (
            f"from p = {start[dtype]:.0f} on" if start[dtype] < math.inf else f"not up to {rows.numbers('p').max():.0f}"
        )
        parts.append(f"{dtype} {known}")
    claim = "too many anchors lose the argmax (of more than 1 % of random queries): in float32 about 4000"
    return Finding.judged(claim, 1024 < start["float32"] <= 4096, "; ".join(parts))


def _powers_of_two(table: Table) -> Finding:
    """Multiplying by a power of two rounds nothing: one rounding of queries 2 c u less than beside it.

    The other, of u = y / h, stays unless 1 / h is a number of the dtype too, as 127.5 is for p = 256 on [-1, 1]; only
    there the gain is large.
    """
    parts = []
    for head in HEADS:
        for dtype in ("float16", "bfloat16"):
            rows = _curve(table, head, dtype)
            found = ", ".join(f"{_first(rows.where(c=c), 'mse'):.2g} at c = {c:g}" for c in AROUND_TWO)
            parts.append(f"{head}, {dtype}: {found}")
    claim = "narrow dtypes: mean square error / h^2 where c is a power of two, and beside"
    return Finding(claim, "measured", "; ".join(parts))


def _softer_fits(table: Table) -> Finding:
    rows = table.where(part="fitted").ordered("c")
    c, error = rows.numbers("c"), rows.numbers("error")
    best = int(np.argmin(error))
    falls = bool(np.all(np.diff(error[best:]) > 0))
    tuned = int(np.argmin(np.abs(np.log(c / 2.7))))
    evidence = (
        f"{error[best]:.2g} at c = {c[best]:g}, {error[tuned]:.2g} at {c[tuned]:g}, {error[-1]:.2g} at {c[-1]:g}; "
        f"at {c[0]:g}, where weights of neighbours hardly differ, {error[0]:.2g} with values up to "
        f"{rows.numbers('largest_value')[0]:.2g}; sampled values never reach "
        f"{rows.numbers('sampled_error').min():.2g}"
    )
    claim = f"fitted values ({FITTED} anchors, sin(8x)): the softer the better, until the fit is ill-conditioned"
    return Finding.judged(claim, falls and c[best] < 1, evidence)


def _error_figure(table: Table, settings: TemperatureSettings) -> Any:
    from matplotlib.figure import Figure

    from attnforge.plot.rates import Curve, draw_rates, legend_below
    from attnforge.plot.style import WIDTH

    figure = Figure(figsize=(WIDTH, 5.2), layout="constrained")
    panels = figure.subplots(2, 2, sharex=True, sharey="row")
    titles = {"authors": "p = 60 on [-25, 25]", "fine": "p = 256 on [-1, 1]"}
    for column, (head, (reach, p)) in enumerate(HEADS.items()):
        for line, (name, label) in enumerate({"error": "largest error / h", "mse": "mean square error / h^2"}.items()):
            axes = panels[line][column]
            rows = {dtype: _curve(table, head, dtype) for dtype in DTYPES}
            curves = [Curve(dtype, at.numbers("c"), at.numbers(name)) for dtype, at in rows.items()]
            title = titles[head] if not line else ""
            draw_rates(axes, curves, x_label="", y_label="" if column else label, title=title)
            h = _step(reach, p)
            _mark_named(axes, [beta for beta in settings.named if beta * h * h > settings.lowest], h)
            axes.set_xlabel("sharpness c = beta h^2" if line else "", fontsize=8)
            axes.lines[0].set(markersize=6, fillstyle="none")  # float32 lies upon float64
            axes.set_xlim(settings.lowest / 2, settings.highest * 2)
    legend_below(figure, panels[0][0], 4)
    return figure


def _mark_named(axes: Any, named: Sequence[float], h: float) -> None:
    """Where values of beta lie, in a panel whose axis is c."""
    for beta in named:
        c = beta * h * h
        axes.axvline(c, color="#000000", lw=0.6, ls=(0, (1, 2)), zorder=1)
        place = {"xycoords": ("data", "axes fraction"), "rotation": 90, "ha": "left", "va": "bottom"}
        axes.annotate(f"beta {beta:g}", (c, 0.03), fontsize=7, color="#333333", **place)


def _limits_figure(table: Table) -> Any:
    from matplotlib.figure import Figure

    from attnforge.plot.rates import Curve, draw_rates
    from attnforge.plot.style import WIDTH

    figure = Figure(figsize=(WIDTH, 3.0), layout="constrained")
    left, right = figure.subplots(1, 2)
    rows = {dtype: table.where(part="row", dtype=dtype).ordered("p") for dtype in DTYPES}
    curves = [Curve(dtype, at.numbers("p"), 100 * at.numbers("lost")) for dtype, at in rows.items()]
    draw_rates(
        left,
        curves,
        x_label="anchors p",
        y_label="queries that select another key, %",
        title=f"hard selection, c = {ROW_SHARPNESS:g}",
        logarithmic=(True, False),
    )
    left.legend(fontsize=7, frameon=False, loc="upper left")
    fitted = table.where(part="fitted").ordered("c")
    draw_rates(
        right,
        [
            Curve("values fitted", fitted.numbers("c"), fitted.numbers("error")),
            Curve("values sampled", fitted.numbers("c"), fitted.numbers("sampled_error")),
        ],
        x_label="sharpness c = beta h^2",
        y_label="largest error",
        title=f"sin(8x), {FITTED} anchors, {GHOSTS} ghosts a side",
    )
    right.legend(fontsize=7, frameon=False, loc="lower right")
    return figure
