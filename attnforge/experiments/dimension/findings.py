"""How keys grow with the number of inputs, by construction and target."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from attnforge.experiments.dimension.networks import CELLS, short
from attnforge.experiments.experiment import Finding
from attnforge.experiments.slope import Slope, fit_base, fit_slope
from attnforge.experiments.table import Array, Table, span

Points = tuple[Array, Array]  # (d, keys)

JUDGED = 4  # numbers of inputs from which on two fits of two numbers each are compared


def shown_tolerance(table: Table) -> float:
    """The tolerance that is shown where one must do: 1e-2, or the largest there is."""
    tols = table.distinct("tol")
    return 1e-2 if 1e-2 in tols else float(max(tols))


def cells_grow_exponentially(table: Table) -> Finding:
    """Whether those of the papers' grids do.

    The count is a formula; that no fewer do is what errors close to the tolerance say.
    """
    tol = shown_tolerance(table)
    cells = table.where(construction="hard cells", target="gaussian", tol=tol).having("keys").ordered("d")
    built = table.only(lambda row: row["construction"] in CELLS).having("error")
    d, keys = cells.points("d", "keys")
    used = span(built.ratios("error", "tol"), ".0%")
    evidence = (
        f"gaussian, tol {tol:g}: keys grow as {fit_base(d, keys)}^d, {short(int(keys[-1]))} at d = {d[-1]:.0f}; "
        f"{len(built)} networks small enough to be built use {used} of the tolerance"
    )
    power, exponential = misfits((d, keys))
    claim = "hard cells and two layers: keys grow exponentially with d"
    return Finding.judged(claim, power >= exponential, evidence)


def product_grid_grows_exponentially(table: Table, target: str) -> Finding:
    """Whether fitted values on all points of a grid do."""
    found, reach = _built(table, "tensor grid", target)
    power, exponential = misfits(*found.values())
    evidence = f"base {_fits(found, fit_base)}; built up to d = {reach}"
    holds = bool(found) and power >= exponential
    return Finding.judged(f"product grid, fitted, {target}: keys grow exponentially with d", holds, evidence)


def sums_grow_linearly(table: Table) -> Finding:
    """Whether the keys of a head a term do."""
    slopes, evidence = _exponents(table, "additive")
    evidence += ". Terms share the tolerance, which costs the part above 1"
    claim = "sums of terms of one input: keys grow as d, up to a logarithm (exponent at most 1.3)"
    return Finding.judged(claim, all(each.high <= 1.3 for each in slopes), evidence)


def one_form_does_not_grow(table: Table) -> Finding:
    """Whether the keys of a ridge function depend on the number of inputs."""
    slopes, evidence = _exponents(table, "ridge")
    claim = "functions of one linear form: keys do not depend on d (exponents within 0.1 of 0)"
    return Finding.judged(claim, all(abs(each.value) <= 0.1 for each in slopes), evidence)


def _exponents(table: Table, name: str) -> tuple[list[Slope], str]:
    """Of the keys of a construction for the target of its name, and a sentence about them and the weights."""
    found, reach = _built(table, name, name)
    weights, _ = _built(table, name, name, "parameters")
    evidence = f"exponents {_fits(found, fit_slope)}; weights: {_fits(weights, fit_slope)}; up to d = {reach}"
    return [fit_slope(*points) for points in found.values()], evidence


def sparse_grid_grows_polynomially(table: Table, target: str) -> Finding:
    """Whether they do, judged where there are enough numbers of inputs to tell a power from an exponential."""
    found, _ = _built(table, "sparse grid", target)
    claim = f"sparse grid, {target}: keys grow polynomially with d"
    power, exponential = misfits(*found.values())
    better = f"exponent {_fits(found, fit_slope)}" if power < exponential else f"base {_fits(found, fit_base)}"
    left = f"squares left by powers {power:.2g}, by exponentials {exponential:.2g}"
    inputs = [d for points in found.values() for d in points[0]]
    ends = f"d = {min(inputs):.0f} to {max(inputs):.0f}" if inputs else "not built for three numbers of inputs"
    evidence = "; ".join(filter(None, [better, left, ends, _compared(table, target)]))
    if min((len(d) for d, _ in found.values()), default=0) < JUDGED:
        return Finding(claim, "measured", evidence)
    return Finding.judged(claim, power < exponential, evidence)


def _compared(table: Table, target: str) -> str:
    """Keys of the sparse grid over those of the full one, where both were built."""
    built = table.where(target=target, built=True)
    ratios = [
        row["keys"] / same.value("keys")
        for row in built.where(construction="sparse grid").rows
        if len(same := built.where(construction="tensor grid", d=row["d"], tol=row["tol"]))
    ]
    return f"{span(ratios)} times the keys of the full grid" if ratios else ""


def tolerances_kept(table: Table) -> Finding:
    """Whether they were, by all that was built."""
    rows = table.having("error")
    ratio = rows.ratios("error", "tol")
    refused, counted = len(table.where(built=False)), len(table.where(built=False).having("keys"))
    evidence = f"{len(rows)} networks, largest error / tol {ratio.max():.2f}; {counted} more were only counted"
    evidence += f" and {refused - counted} refused"
    return Finding.judged("every network built keeps its tolerance at fresh points", bool(np.all(ratio <= 1)), evidence)


def _built(table: Table, construction: str, target: str, column: str = "keys") -> tuple[dict[float, Points], int]:
    """Points (d, keys) of what was built by tolerance, where a line can be fitted to them; and the largest d."""
    rows = table.where(target=target, construction=construction, built=True).having("keys").ordered("d")
    found = {tol: rows.where(tol=tol).points("d", column) for tol in rows.distinct("tol")}
    return {tol: each for tol, each in found.items() if len(each[0]) > 2}, int(rows.numbers("d").max(initial=0))


def _fits(found: Mapping[float, Points], fit: Callable[[Array, Array], Slope]) -> str:
    return "; ".join(f"{fit(*points)} at tol {tol:g}" for tol, points in found.items())


def misfits(*curves: Points) -> tuple[float, float]:
    """What is left of the logarithms of the keys, squared and summed, by powers of d and by exponentials.

    Each curve (d, keys) has its own power and its own base.

    >>> power, exponential = misfits((np.array([1.0, 2, 3, 4]), np.array([2.0, 8, 18, 32])))
    >>> power < 1e-20, exponential > 0.1
    (True, True)
    """

    def left(x: Array, y: Array) -> float:
        return float(np.sum((y - np.polyval(np.polyfit(x, y, 1), x)) ** 2))

    power = sum(left(np.log(d), np.log(keys)) for d, keys in curves)
    return power, sum(left(d, np.log(keys)) for d, keys in curves)
