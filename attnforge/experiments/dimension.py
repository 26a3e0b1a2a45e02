"""Keys against the number of inputs: product grids, sparse grids, and constructions that use structure."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

import attnforge as af
from attnforge.experiments.claims import within_bounds
from attnforge.experiments.experiment import Case, Experiment, Finding, Row
from attnforge.experiments.settings import Settings, setting
from attnforge.experiments.slope import Slope, fit_slope
from attnforge.experiments.table import Table, markdown

Array = npt.NDArray[np.float64]

TARGETS = {
    "gaussian": "exp(-sum (x_j - 1/2)^2)",
    "decaying": "exp(-sum 4 (x_j - 1/2)^2 / j^2)",
    "additive": "sum sin(3 x_j + j)",
    "ridge": "sin(8 (x_1 - x_2 + x_3 - ...) / d)",
}
CELLS = ("hard cells", "two layers")  # the papers': one key a cell of a grid, G^d of them
BY_TOLERANCE = {
    "tensor grid": "tensor_grid",
    "sparse grid": "sparse_grid",
    "additive": "additive",
    "ridge": "ridge",
}
STRUCTURED = ("additive", "ridge")  # constructions, each for the target of its name
FEWEST = {"sparse grid": 5, "additive": 2, "ridge": 2}  # inputs below which there is nothing to gain, and a refusal
MOST = {  # inputs above which building is refused, or takes minutes
    "tensor grid": {"gaussian": 8, "decaying": 7, "additive": 5, "ridge": 6},
    "sparse grid": {"gaussian": 8, "decaying": 10, "additive": 10, "ridge": 7},
}
JUDGED = 4  # numbers of inputs from which on two fits of two numbers each are compared
EXACT = 2**53  # counts above are written as real numbers


@dataclass(frozen=True)
class DimensionSettings(Settings):
    """Which inputs and tolerances, and how large networks may be."""

    inputs: tuple[int, ...] = setting(
        (1, 2, 3, 4, 5, 6, 7, 8, 9, 10), (1, 2, 3, 5, 6, 7), explain="Numbers d of inputs."
    )
    many: tuple[int, ...] = setting(
        (15, 20, 30, 50), (10, 20), explain="Further numbers of inputs, for constructions that use structure."
    )
    tolerances: tuple[float, ...] = setting((1e-1, 1e-2, 1e-3, 1e-4), (1e-1, 1e-2), explain="Asked for.")
    cells: int = setting(4000, 1000, explain="Keys up to which hard cells and two layers are built, not just counted.")
    points: int = setting(10_000, 2000, explain="Fresh random points that errors are measured on.")


class Dimension(Experiment[DimensionSettings]):
    """What Hu et al. 2025 leave open: polynomial instead of exponential parameters, for some classes of functions."""

    name: ClassVar[str] = "dimension"
    summary: ClassVar[str] = "keys against the number of inputs: grids, sparse grids, structure"
    question: ClassVar[str] = (
        "How many keys does a tolerance cost in d inputs, and for which functions is it a polynomial in d instead of "
        "an exponential? Targets on [0, 1]^d: " + "; ".join(f"{name}, {text}" for name, text in TARGETS.items()) + "."
    )
    settings = DimensionSettings

    def cases(self, settings: DimensionSettings) -> Sequence[Case]:
        """Every construction for the targets it is made for, in as many inputs as make sense."""
        return [
            {"target": target, "construction": construction, "d": d, "tol": tol, "seed": settings.seed}
            | {"cells": settings.cells, "points": settings.points}
            for target in TARGETS
            for construction in (*CELLS, *BY_TOLERANCE)
            if construction not in STRUCTURED or construction == target
            for d in _inputs(construction, target, settings)
            for tol in settings.tolerances
        ]

    def measure(self, case: Case) -> Sequence[Row]:
        """Keys, weights, seconds of processor time to build, and the largest error at fresh points."""
        started = time.process_time()
        try:
            net, keys, parameters = _made(case)
        except af.RefusalError as refusal:
            return [_row(built=False, why=str(refusal).splitlines()[0][:200])]
        if net is None:
            return [
                _row(keys=keys, parameters=parameters, built=False, why=f"not built: would need {_short(keys)} keys")
            ]
        seconds = time.process_time() - started
        error = af.measure(net, points=case["points"], seed=case["seed"] + 1).sup
        sizes = _row(keys=net.anchors, parameters=net.parameters, heads=net.heads, built=True, why="")
        return [sizes | {"seconds": seconds, "error": error, "bound": net.certificate.bound}]

    def findings(self, table: Table, settings: DimensionSettings) -> Sequence[Finding]:
        """How keys grow with d, by construction and target."""
        return [
            _hard(table),
            *(_product_grid(table, target) for target in ("gaussian", "ridge")),
            _linear(table),
            _constant(table),
            *(_sparse(table, target) for target in ("decaying", "gaussian", "ridge", "additive")),
            _kept(table),
            within_bounds(table),
        ]

    def notes(self, table: Table, settings: DimensionSettings) -> Sequence[str]:
        """Keys of one tolerance, and what was not built."""
        tol = _middle(table)
        counts = [d for d in (2, 5, 8, 10, 20, 50) if len(table.where(d=d))]
        rows = [
            [
                target,
                construction,
                *(_cell(table.where(target=target, construction=construction, d=d, tol=tol)) for d in counts),
            ]
            for target in TARGETS
            for construction in (*CELLS, *BY_TOLERANCE)
            if len(table.where(target=target, construction=construction, tol=tol))
        ]
        said = (
            f"Keys for tol = {tol:g}. In brackets: not built, counted by the theorem's formula, "
            "G = L / (2 tol) cells an axis for the Lipschitz constant L; *refused*: too many values of f."
        )
        return [said, markdown(["target", "construction", *(f"d = {d}" for d in counts)], rows)]

    def figures(self, table: Table, settings: DimensionSettings) -> Mapping[str, Any]:
        """Keys against d by target, and by tolerance."""
        return {"dimension": _targets_figure(table), "dimension-tolerances": _tolerances_figure(table)}


def target(name: str, x: Array) -> Array:
    """The target at points (..., d).

    >>> target("gaussian", np.full((1, 3), 0.5)).tolist()
    [1.0]
    """
    j = np.arange(1, x.shape[-1] + 1)
    match name:
        case "gaussian":
            return np.asarray(np.exp(-((x - 0.5) ** 2).sum(axis=-1)))
        case "decaying":
            return np.asarray(np.exp(-(4 * (x - 0.5) ** 2 / j**2).sum(axis=-1)))
        case "additive":
            return np.asarray(np.sin(3 * x + j).sum(axis=-1))
    return np.asarray(np.sin(8 * (x * (-1.0) ** (j + 1)).sum(axis=-1) / x.shape[-1]))


def lipschitz(name: str, d: int) -> float:
    r"""Of the target in the sup norm: a bound of the sum of its |partial derivatives|.

    For $e^{-s}$, $s = \sum_j c_j t_j^2$, that sum is $2 e^{-s} \sum_j c_j |t_j| \le 2 e^{-s}\sqrt{Cs}$ with
    $C = \sum_j c_j$ by Cauchy and Schwarz, and $\sqrt s e^{-s} \le 1/\sqrt{2e}$.

    >>> lipschitz("additive", 4), lipschitz("ridge", 4)
    (12.0, 8.0)
    """
    if name in ("gaussian", "decaying"):
        weight = float(d) if name == "gaussian" else sum(4 / j**2 for j in range(1, d + 1))
        return math.sqrt(2 * weight / math.e)
    return 3.0 * d if name == "additive" else 8.0


def cells_an_axis(name: str, d: int, tol: float) -> int:
    """G with L h / 2 <= tol, h = 1 / G: what hard selection needs for the tolerance, L the Lipschitz constant.

    >>> cells_an_axis("ridge", 3, 0.1)
    40
    """
    return max(math.ceil(lipschitz(name, d) / (2 * tol) * (1 - 1e-12)), 1)


def base_of(inputs: npt.ArrayLike, keys: npt.ArrayLike) -> Slope:
    """The base b of keys ~ C b^d, with its confidence interval.

    >>> print(base_of([1, 2, 3, 4], [3, 9, 27, 81]))
    3.000 (95 % CI 3.000 to 3.000)
    """
    fit = fit_slope(np.exp(np.asarray(inputs, dtype=np.float64)), keys)
    return Slope(math.exp(fit.value), math.exp(fit.low), math.exp(min(fit.high, 700.0)), fit.points)


def misfits(*curves: tuple[npt.ArrayLike, npt.ArrayLike]) -> tuple[float, float]:
    """What is left of the logarithms of the keys, squared and summed, by powers of d and by exponentials.

    Each curve (d, keys) has its own power and its own base.

    >>> power, exponential = misfits(([1, 2, 3, 4], [2, 8, 18, 32]))
    >>> power < 1e-20, exponential > 0.1
    (True, True)
    """
    power, exponential = 0.0, 0.0
    for inputs, keys in curves:
        d, logarithms = np.asarray(inputs, dtype=np.float64), np.log(np.asarray(keys, dtype=np.float64))
        power += _misfit(np.log(d), logarithms)
        exponential += _misfit(d, logarithms)
    return power, exponential


def _misfit(x: Array, y: Array) -> float:
    """The sum of squares that a straight line leaves."""
    return float(np.sum((y - np.polyval(np.polyfit(x, y, 1), x)) ** 2))


def _inputs(construction: str, target: str, settings: DimensionSettings) -> list[int]:
    wanted = {*settings.inputs, *(settings.many if construction in STRUCTURED else ())}
    most = MOST.get(construction, {}).get(target, max(wanted))
    return sorted(d for d in wanted if FEWEST.get(construction, 1) <= d <= most)


def _made(case: Case) -> tuple[Any, int, int]:
    """The network, or None where it has too many cells to be built, with its keys and weights."""
    name, d, tol = case["target"], case["d"], case["tol"]
    box = af.Box(0, 1, shape=(d,))
    if case["construction"] in BY_TOLERANCE:
        build = getattr(af.constructions, BY_TOLERANCE[case["construction"]])
        return build(lambda x: target(name, x), box, tol=tol), 0, 0
    count = cells_an_axis(name, d, tol)
    keys, parameters = _counted(case["construction"], box, count)
    if keys > case["cells"]:
        return None, keys, parameters
    options: dict[str, Any] = {"sharpness": "hard", "lipschitz": lipschitz(name, d)}
    if case["construction"] == "hard cells":
        return af.constructions.max_affine(lambda x: target(name, x), box, cells=count, **options), keys, parameters
    return af.constructions.two_layer(lambda x: target(name, x), box, grid=count, **options), keys, parameters


def _counted(construction: str, box: Any, count: int) -> tuple[int, int]:
    """Keys and weights of G cells an axis, without building them."""
    from attnforge.targets import Function
    from attnforge.theorems.bumps import BumpPlan
    from attnforge.theorems.max_affine import selection_cost
    from attnforge.theorems.two_layer import TwoLayer

    function = Function(lambda x: x[..., 0], box)
    if construction == "two layers":
        cost = TwoLayer().cost(function, BumpPlan(count, 1.0))
    else:
        cost = selection_cost(function, count ** box.shape[0])
    return cost.anchors, cost.parameters


def _row(**cells: Any) -> dict[str, Any]:
    """All columns, those not given empty; counts that real numbers do not hold exactly become real numbers."""
    empty = dict.fromkeys(("keys", "parameters", "heads", "built", "seconds", "error", "bound", "why"))
    large = {k: float(v) for k, v in cells.items() if isinstance(v, int) and v > EXACT}
    return empty | cells | large


def _short(count: int) -> str:
    return f"{count:,}" if count < 1_000_000 else f"{float(count):.1e}"


def _middle(table: Table) -> float:
    """The tolerance that is shown where one must do: 1e-2, or the largest there is."""
    tols = table.distinct("tol")
    return 1e-2 if 1e-2 in tols else float(max(tols))


def _by_tolerance(table: Table, construction: str, target: str, built: bool = True) -> dict[float, Table]:
    """The rows with keys, in the order of d, by tolerance; only where a line can be fitted to them."""
    rows = table.where(target=target, construction=construction).having("keys")
    rows = rows.where(built=True) if built else rows
    found = {tol: rows.where(tol=tol).ordered("d") for tol in rows.distinct("tol")}
    return {tol: each for tol, each in found.items() if len(each) > 2}


def _base(rows: Table) -> Slope:
    return base_of(rows.numbers("d"), rows.numbers("keys"))


def _exponent(rows: Table, column: str = "keys") -> Slope:
    return fit_slope(rows.numbers("d"), rows.numbers(column))


def _weights(rows: Table) -> Slope:
    return _exponent(rows, "parameters")


def _misfits(found: Mapping[float, Table]) -> tuple[float, float]:
    return misfits(*((rows.numbers("d"), rows.numbers("keys")) for rows in found.values()))


def _polynomial(found: Mapping[float, Table]) -> bool:
    power, exponential = _misfits(found)
    return power < exponential


def _said(found: Mapping[float, Table], fit: Callable[[Table], Slope]) -> str:
    return "; ".join(f"{fit(rows)} at tol {tol:g}" for tol, rows in found.items())


def _hard(table: Table) -> Finding:
    """The count is a formula; that no fewer do is what errors close to the tolerance say."""
    cells = (
        table.where(construction="hard cells", target="gaussian").where(tol=_middle(table)).having("keys").ordered("d")
    )
    base = _base(cells)
    built = Table.of(row for kind in CELLS for row in table.where(construction=kind).having("error").rows)
    used = built.numbers("error") / built.numbers("tol")
    evidence = (
        f"gaussian, tol {_middle(table):g}: keys grow as {base}^d, {_short(int(cells.numbers('keys')[-1]))} at d = "
        f"{cells.numbers('d')[-1]:.0f}; {len(built)} networks small enough to be built use {used.min():.0%} to "
        f"{used.max():.0%} of the tolerance"
    )
    return Finding.judged(
        "hard cells and two layers: keys grow exponentially with d", not _polynomial({0.0: cells}), evidence
    )


def _product_grid(table: Table, target: str) -> Finding:
    found = _by_tolerance(table, "tensor grid", target)
    evidence = f"base {_said(found, _base)}; built up to d = {_reach(table, 'tensor grid', target)}"
    holds = bool(found) and not _polynomial(found)
    return Finding.judged(f"product grid, fitted, {target}: keys grow exponentially with d", holds, evidence)


def _linear(table: Table) -> Finding:
    found = _by_tolerance(table, "additive", "additive")
    slopes = [_exponent(rows) for rows in found.values()]
    evidence = (
        f"exponents {_said(found, _exponent)}; weights: {_said(found, _weights)}; up to d = "
        f"{_reach(table, 'additive', 'additive')}. Terms share the tolerance, which costs the part above 1"
    )
    claim = "sums of terms of one input: keys grow as d, up to a logarithm (exponent at most 1.3)"
    return Finding.judged(claim, all(each.high <= 1.3 for each in slopes), evidence)


def _constant(table: Table) -> Finding:
    found = _by_tolerance(table, "ridge", "ridge")
    slopes = [_exponent(rows) for rows in found.values()]
    evidence = (
        f"exponents {_said(found, _exponent)}; weights: {_said(found, _weights)}; up to d = "
        f"{_reach(table, 'ridge', 'ridge')}"
    )
    claim = "functions of one linear form: keys do not depend on d (exponents within 0.1 of 0)"
    return Finding.judged(claim, all(abs(each.value) <= 0.1 for each in slopes), evidence)


def _sparse(table: Table, target: str) -> Finding:
    """Judged where there are enough numbers of inputs to tell a power from an exponential."""
    found = _by_tolerance(table, "sparse grid", target)
    claim = f"sparse grid, {target}: keys grow polynomially with d"
    power, exponential = _misfits(found)
    better = f"exponent {_said(found, _exponent)}" if power < exponential else f"base {_said(found, _base)}"
    left = f"squares left by powers {power:.2g}, by exponentials {exponential:.2g}"
    evidence = "; ".join(filter(None, [better, left, _ends(found), _compared(table, target)]))
    if min((len(rows) for rows in found.values()), default=0) < JUDGED:
        return Finding(claim, "measured", evidence)
    return Finding.judged(claim, power < exponential, evidence)


def _ends(found: Mapping[float, Table]) -> str:
    inputs = [d for rows in found.values() for d in rows.distinct("d")]
    return f"d = {min(inputs)} to {max(inputs)}" if inputs else "not built for three numbers of inputs"


def _compared(table: Table, target: str) -> str:
    """Keys of the sparse grid over those of the full one, where both were built."""
    full, sparse = (
        table.where(target=target, construction=kind, built=True) for kind in ("tensor grid", "sparse grid")
    )
    ratios = [
        float(row["keys"]) / float(full.where(d=row["d"], tol=row["tol"]).numbers("keys")[0])  # type: ignore[arg-type]
        for row in sparse.rows
        if len(full.where(d=row["d"], tol=row["tol"]))
    ]
    return f"{min(ratios):.2g} to {max(ratios):.2g} times the keys of the full grid" if ratios else ""


def _kept(table: Table) -> Finding:
    rows = table.having("error")
    ratio = rows.numbers("error") / rows.numbers("tol")
    refused, counted = len(table.where(built=False)), len(table.where(built=False).having("keys"))
    evidence = f"{len(rows)} networks, largest error / tol {ratio.max():.2f}; {counted} more were only counted"
    evidence += f" and {refused - counted} refused"
    return Finding.judged("every network built keeps its tolerance at fresh points", bool(np.all(ratio <= 1)), evidence)


def _reach(table: Table, construction: str, target: str) -> int:
    return int(table.where(target=target, construction=construction, built=True).numbers("d").max())


def _cell(rows: Table) -> str:
    if not len(rows):
        return ""
    row = rows.rows[0]
    if row.get("keys") is None:
        return "*refused*"
    count = _short(int(rows.numbers("keys")[0]))
    return count if row["built"] else f"({count})"


def _targets_figure(table: Table) -> Any:
    from matplotlib.figure import Figure

    from attnforge.plot.rates import Curve, draw_rates, legend_below
    from attnforge.plot.style import WIDTH

    tol = _middle(table)
    figure = Figure(figsize=(WIDTH, 5.2), layout="constrained")
    panels = figure.subplots(2, 2, sharey=True)
    for axes, name in zip(panels.flat, TARGETS, strict=True):
        curves = []
        for construction, look in _looks().items():
            rows = table.where(target=name, construction=construction, tol=tol).having("keys").ordered("d")
            curves.append(Curve(construction, rows.numbers("d"), rows.numbers("keys"), look=look))
        draw_rates(axes, curves, x_label="inputs d", y_label="keys", title=f"{name}, tol {tol:g}")
        _hollow(axes, table.where(target=name, tol=tol))
        _ticks(axes, table.where(target=name).distinct("d"))
        axes.set_ylim(1, 1e12)
    panels[0, 0].plot([], [], "o", mfc="white", mec="black", ms=3.5, label="counted, not built")
    legend_below(figure, panels[0, 0], 4)
    return figure


def _looks() -> dict[str, tuple[str, str, str]]:
    """One a construction; two layers are dashed, since hard cells lie right below them."""
    from attnforge.plot.rates import SERIES
    from attnforge.plot.style import ORANGE

    return dict(zip((*CELLS, *BY_TOLERANCE), SERIES, strict=False)) | {"two layers": (ORANGE, "s", "--")}


def _hollow(axes: Any, table: Table) -> None:
    """White hearts for what was only counted."""
    for construction, (colour, marker, _) in _looks().items():
        rows = table.where(construction=construction, built=False).having("keys")
        axes.plot(
            rows.numbers("d"), rows.numbers("keys"), ls="", marker=marker, ms=3.5, mfc="white", mec=colour, zorder=4
        )


def _ticks(axes: Any, inputs: Sequence[int]) -> None:
    shown = [d for d in (1, 2, 3, 5, 7, 10, 20, 50) if min(inputs) <= d <= max(inputs)]
    axes.set_xticks(shown, [str(d) for d in shown])
    axes.minorticks_off()


def _tolerances_figure(table: Table) -> Any:
    from matplotlib.figure import Figure

    from attnforge.plot.rates import Curve, draw_rates, legend_below
    from attnforge.plot.style import WIDTH

    drawn = (
        ("tensor grid", "gaussian"),
        ("sparse grid", "gaussian"),
        ("sparse grid", "decaying"),
        ("additive", "additive"),
    )
    figure = Figure(figsize=(WIDTH, 2.7), layout="constrained")
    panels = figure.subplots(1, len(drawn))
    for axes, (construction, name) in zip(panels, drawn, strict=True):
        rows = table.where(target=name, construction=construction, built=True).ordered("d")
        curves = [
            Curve(f"tol {tol:g}", rows.where(tol=tol).numbers("d"), rows.where(tol=tol).numbers("keys"))
            for tol in table.distinct("tol")
        ]
        y_label = "keys" if axes is panels[0] else ""
        draw_rates(axes, curves, x_label="inputs d", y_label=y_label, title=f"{construction},\n{name} target")
        _ticks(axes, rows.distinct("d"))
    legend_below(figure, panels[0], 4)
    return figure
