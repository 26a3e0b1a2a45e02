"""How keys grow with the number of inputs, by construction and target."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import numpy.typing as npt

from attnforge.experiments.dimension.networks import CELLS, short
from attnforge.experiments.experiment import Finding
from attnforge.experiments.slope import Slope, fit_base, fit_slope
from attnforge.experiments.table import Array, Table

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
    used = built.numbers("error") / built.numbers("tol")
    evidence = (
        f"gaussian, tol {tol:g}: keys grow as {_base(cells)}^d, {short(int(cells.numbers('keys')[-1]))} at d = "
        f"{cells.numbers('d')[-1]:.0f}; {len(built)} networks small enough to be built use {used.min():.0%} to "
        f"{used.max():.0%} of the tolerance"
    )
    claim = "hard cells and two layers: keys grow exponentially with d"
    return Finding.judged(claim, not _polynomial({tol: cells}), evidence)


def product_grid_grows_exponentially(table: Table, target: str) -> Finding:
    """Whether fitted values on all points of a grid do."""
    found = _by_tolerance(table, "tensor grid", target)
    evidence = f"base {_said(found, _base)}; built up to d = {_reach(table, 'tensor grid', target)}"
    holds = bool(found) and not _polynomial(found)
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


def sparse_grid_grows_polynomially(table: Table, target: str) -> Finding:
    """Whether they do, judged where there are enough numbers of inputs to tell a power from an exponential."""
    found = _by_tolerance(table, "sparse grid", target)
    claim = f"sparse grid, {target}: keys grow polynomially with d"
    power, exponential = _misfits(found)
    better = f"exponent {_said(found, _exponent)}" if power < exponential else f"base {_said(found, _base)}"
    left = f"squares left by powers {power:.2g}, by exponentials {exponential:.2g}"
    evidence = "; ".join(filter(None, [better, left, _ends(found), _compared(table, target)]))
    if min((len(rows) for rows in found.values()), default=0) < JUDGED:
        return Finding(claim, "measured", evidence)
    return Finding.judged(claim, power < exponential, evidence)


def tolerances_kept(table: Table) -> Finding:
    """Whether they were, by all that was built."""
    rows = table.having("error")
    ratio = rows.numbers("error") / rows.numbers("tol")
    refused, counted = len(table.where(built=False)), len(table.where(built=False).having("keys"))
    evidence = f"{len(rows)} networks, largest error / tol {ratio.max():.2f}; {counted} more were only counted"
    evidence += f" and {refused - counted} refused"
    return Finding.judged("every network built keeps its tolerance at fresh points", bool(np.all(ratio <= 1)), evidence)


def _exponents(table: Table, name: str) -> tuple[list[Slope], str]:
    """Of the keys of a construction for the target of its name, and a sentence about them and the weights."""
    found = _by_tolerance(table, name, name)
    said = f"exponents {_said(found, _exponent)}; weights: {_said(found, _weights)}; up to d = "
    return [_exponent(rows) for rows in found.values()], said + str(_reach(table, name, name))


def _by_tolerance(table: Table, construction: str, target: str) -> dict[float, Table]:
    """What was built, in the order of d, by tolerance; only where a line can be fitted to them."""
    rows = table.where(target=target, construction=construction, built=True).having("keys")
    found = {tol: rows.where(tol=tol).ordered("d") for tol in rows.distinct("tol")}
    return {tol: each for tol, each in found.items() if len(each) > 2}


def _base(rows: Table) -> Slope:
    return fit_base(*rows.points("d", "keys"))


def _exponent(rows: Table, column: str = "keys") -> Slope:
    return fit_slope(*rows.points("d", column))


def _weights(rows: Table) -> Slope:
    return _exponent(rows, "parameters")


def _misfits(found: Mapping[float, Table]) -> tuple[float, float]:
    return misfits(*(rows.points("d", "keys") for rows in found.values()))


def _polynomial(found: Mapping[float, Table]) -> bool:
    power, exponential = _misfits(found)
    return power < exponential


def _said(found: Mapping[float, Table], fit: Callable[[Table], Slope]) -> str:
    return "; ".join(f"{fit(rows)} at tol {tol:g}" for tol, rows in found.items())


def _ends(found: Mapping[float, Table]) -> str:
    inputs = [d for rows in found.values() for d in rows.distinct("d")]
    return f"d = {min(inputs)} to {max(inputs)}" if inputs else "not built for three numbers of inputs"


def _compared(table: Table, target: str) -> str:
    """Keys of the sparse grid over those of the full one, where both were built."""
    full, sparse = (
        table.where(target=target, construction=kind, built=True) for kind in ("tensor grid", "sparse grid")
    )
    ratios = [
        row["keys"] / full.where(d=row["d"], tol=row["tol"]).numbers("keys")[0]
        for row in sparse.known
        if len(full.where(d=row["d"], tol=row["tol"]))
    ]
    return f"{min(ratios):.2g} to {max(ratios):.2g} times the keys of the full grid" if ratios else ""


def _reach(table: Table, construction: str, target: str) -> int:
    return int(table.where(target=target, construction=construction, built=True).numbers("d").max())


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
