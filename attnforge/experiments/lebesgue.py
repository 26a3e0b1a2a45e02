r"""Targets that are only integrable: errors of cell averages in $L_1$ and $L_2$ against the number of cells.

What to expect, with cells h wide. Beside a jump one cell errs by a constant: $\|Af - f\|_p = O(h^{1/p})$; the same
holds for the indicator of a set with a smooth border, which crosses O(1/h) cells of area h^2. Beside a pole
$|x|^{-s}$, $s < 1/p$, the cell that holds it errs by $(\int_0^h x^{-sp})^{1/p} = O(h^{1/p - s})$ and the j-th cell
after it by $O(h^{1/p - s} j^{-1-s})$, which adds up to the same order. The sup error cannot fall: the output is
continuous, so it misses a jump by half of it at least, and it is bounded, so it misses a pole by any amount.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

import attnforge as af
from attnforge.experiments.experiment import Case, Experiment, Finding, Row, crossed
from attnforge.experiments.panels import Panel, curve, page
from attnforge.experiments.settings import Settings, setting
from attnforge.experiments.slope import fit_slope
from attnforge.experiments.table import Array, Table, change, markdown, span
from attnforge.plot.rates import SERIES

JUMP, CENTRE, RADIUS = 1 / 3, (0.45, 0.55), 0.3
CHECKED = 16  # cells of the network whose reported norm is integrated once more
FRESH = 5_000  # random points of a search for the sup error, besides the cells' borders
SLACK = {1: 0.04, 2: 0.1}  # by inputs: rates are those of the limit, and few cells meet a border unevenly
CLOSE = 0.01  # relative: quadratures are good to a few thousandths


@dataclass(frozen=True)
class Irregular:
    """A target: its values, its inputs, the limit rate in every L_p it is in, and whether its errors are bounded."""

    title: str
    f: Callable[..., Array]
    inputs: int
    rates: Mapping[int, float]
    bounded: bool = True
    joint: bool = False


def _step(inside: npt.NDArray[np.bool_]) -> Array:
    return np.where(inside, 1.0, 0.0)


def _power(t: Array, s: float) -> Array:
    with np.errstate(divide="ignore"):
        return np.asarray(np.abs(t) ** -s)


TARGETS = {
    "jump": Irregular("a jump at 1/3", lambda x: _step(x[..., 0] >= JUMP), 1, {1: -1.0, 2: -0.5}),
    "pole": Irregular("|x - 1/2|^(-1/2)", lambda x: _power(x[..., 0] - 0.5, 0.5), 1, {1: -0.5}, bounded=False),
    "root": Irregular("|x|^(-1/4)", lambda x: _power(x[..., 0], 0.25), 1, {1: -0.75, 2: -0.25}, bounded=False),
    "disc": Irregular(
        "indicator of a disc", lambda x: _step(((x - CENTRE) ** 2).sum(axis=-1) < RADIUS**2), 2, {1: -1.0, 2: -0.5}
    ),
    "diagonal": Irregular(
        "x + y < 1, cross-attention", lambda x, y: _step((x + y)[..., 0] < 1), 2, {1: -1.0, 2: -0.5}, joint=True
    ),
}


@dataclass(frozen=True)
class LebesgueSettings(Settings):
    """How many cells."""

    cells: tuple[int, ...] = setting(
        (8, 16, 32, 64, 128, 256, 512, 1024), (8, 16, 32, 64, 128, 256), explain="Cells of one input; even numbers."
    )
    squares: tuple[int, ...] = setting(
        (4, 6, 8, 12, 16, 24, 32), (4, 6, 8, 12), explain="Cells an input, where there are two."
    )
    pairs: tuple[int, ...] = setting((2, 4, 8, 12, 16), (2, 4, 8), explain="Cells an input of cross-attention.")


class Lebesgue(Experiment[LebesgueSettings]):
    """Lebesgue-integrable targets, after the summary of Liu et al. 2025."""

    name = "lebesgue"
    summary = "discontinuous and unbounded targets in L1 and L2"
    question = (
        "Does one head of self- or cross-attention approximate functions that are only integrable, discontinuous or "
        "unbounded ones, in L1 and L2, and at what rate? Values are averages over G equal cells an input of [0, 1]."
    )
    settings = LebesgueSettings

    def cases(self, settings: LebesgueSettings) -> Sequence[Case]:
        """Every target in every norm it is finite in, for every number of cells; and one norm to be checked."""
        counts = {1: settings.cells, 2: settings.squares}
        swept = [
            crossed(kind="rate", target=name, norm=target.rates, cells=cells, seed=settings.seed)
            for name, target in TARGETS.items()
            for cells in [settings.pairs if target.joint else counts[target.inputs]]
        ]
        return [*chain.from_iterable(swept), {"kind": "check", "target": "pole", "norm": 1, "cells": CHECKED}]

    def measure(self, case: Case) -> Sequence[Row]:
        """The L_p error, the closed form of it where there is one, and the sup error of bounded targets."""
        target = TARGETS[case["target"]]
        net = built(case["target"], case["norm"], case["cells"])
        estimate = net.certificate.estimate
        row: dict[str, Any] = {"error": math.nan if estimate is None else estimate.error}
        if case["kind"] == "check":
            return [{**row, "integrated": _integrated(net, case["cells"])}]
        sup = af.measure(net, points=FRESH, seed=case["seed"]).sup if target.bounded else None
        return [{**row, "exact": exact(case["target"], case["norm"], case["cells"]), "sup": sup}]

    def findings(self, table: Table, settings: LebesgueSettings) -> Sequence[Finding]:
        """Rates, that the sup error stays, and whether the reported norms are right."""
        return [
            *(_rate(table, name, norm) for name, target in TARGETS.items() for norm in target.rates),
            _sup(table),
            _agreement(table),
            _check(table),
        ]

    def notes(self, table: Table, settings: LebesgueSettings) -> Sequence[str]:
        """Errors of the fewest and the most cells."""
        rows = [_summary(table, name, norm) for name, target in TARGETS.items() for norm in target.rates]
        return [markdown(["target", "norm", "cells", "error", "closed form", "sup error"], rows)]

    def figures(self, table: Table, settings: LebesgueSettings) -> Mapping[str, Any]:
        """L1 errors, L2 errors and sup errors against cells an input."""
        label = "cells an input G"
        panels = [
            Panel(_curves(table, "error", norm), label, f"L{norm} error", f"L{norm}", slopes=[slope])
            for norm, slope in ((1, -1), (2, -0.5))
        ]
        sup = Panel(_curves(table, "sup", 1), label, "largest error", "sup", logarithmic=(True, False))
        figure = page([*panels, sup], 3.1)
        for axes in figure.axes[:2]:
            axes.set_ylim(bottom=0.5 * axes.get_ylim()[0])
        figure.axes[2].set_ylim(0, 1.05)
        return {"lebesgue": figure}


def built(name: str, norm: int, cells: int) -> af.Compiled:
    """The network of cell averages, with its L_p error as estimate."""
    target = TARGETS[name]
    if target.joint:
        line = af.Box(0, 1, shape=(1,))
        return af.constructions.cross_attention(target.f, line, line, grid=cells, norm=norm)
    return af.constructions.max_affine(target.f, af.Box(0, 1, shape=(target.inputs,)), cells=cells, norm=norm)


def exact(name: str, norm: int, cells: int) -> float | None:
    r"""The L_p error of cell averages, p = 1 or 2, in closed form; None where it is not known here.

    A cell with a jump a fraction $\theta$ into it errs by $2\theta(1-\theta)h$ in L1 and by $\sqrt{\theta(1-\theta)h}$
    in L2; the diagonal halves the G cells that it crosses.

    >>> exact("jump", 1, 8), exact("diagonal", 2, 4)
    (0.05555..., 0.25)
    """
    h = 1 / cells
    if name == "jump":
        part = cells * JUMP - math.floor(cells * JUMP)
        return 2 * part * (1 - part) * h if norm == 1 else math.sqrt(part * (1 - part) * h)
    if name == "diagonal":
        return h / 2 if norm == 1 else math.sqrt(h) / 2
    if name == "root":
        return power_error(0.25, np.arange(cells + 1, dtype=np.float64) * h, norm)
    if name == "pole" and cells % 2 == 0:
        return 2 ** (1 / norm) * power_error(0.5, np.arange(cells // 2 + 1, dtype=np.float64) * h, norm)
    return None


def power_error(s: float, breaks: Array, norm: int) -> float:
    r"""The L1 or L2 error of averages of $t^{-s}$ over intervals between ``breaks``, from 0 on.

    With m the average on [a, b], the function is above it up to $m^{-1/s}$, and both halves of the L1 error are equal;
    the squared L2 error is $\int f^2 - (b - a) m^2$.

    >>> round(power_error(0.5, np.array([0.0, 1.0]), 1), 12)  # average 2, above it up to 1/4: 2 (1 - 1/2)
    1.0
    """
    a, b = breaks[:-1], breaks[1:]

    def integral(t: Array, exponent: float) -> Array:
        return np.asarray(t ** (1 - exponent) / (1 - exponent))

    mean = (integral(b, s) - integral(a, s)) / (b - a)
    if norm == 1:
        above = mean ** (-1 / s)
        return float(2 * np.sum(integral(above, s) - integral(a, s) - mean * (above - a)))
    return math.sqrt(float(np.sum(integral(b, 2 * s) - integral(a, 2 * s) - (b - a) * mean**2)))


def _integrated(net: af.Compiled, cells: int) -> float:
    """The L1 error by SciPy's adaptive quadrature, between the cells' borders and the places where the sign turns."""
    from scipy.integrate import quad

    def gap(x: float) -> float:
        point = np.array([x])
        return abs(float(net(point)[0]) - float(TARGETS["pole"].f(point[None])[0]))

    halves = pairwise(np.linspace(0, 1, 2 * cells + 1))
    return float(sum(quad(gap, low, high, limit=60, epsrel=1e-5)[0] for low, high in halves))


def _of(table: Table, name: str, norm: int) -> Table:
    return table.where(kind="rate", target=name, norm=norm).ordered("cells")


def _rate(table: Table, name: str, norm: int) -> Finding:
    """The limit rate: from the finer half of the sweep for one input, from all of it for two."""
    rows, target = _of(table, name, norm).rows, TARGETS[name]
    rate, slack, used = target.rates[norm], SLACK[target.inputs], max(3, (len(rows) + 1) // 2)
    slope = fit_slope(*Table(rows[-used:] if target.inputs == 1 else rows).points("cells", "error"))
    holds = slope.meets(rate, slack) and abs(slope.value - rate) <= 2 * slack  # a wide interval confirms nothing
    evidence = f"slope {slope}; error {rows[-1]['error']:.3g} with {rows[-1]['cells']} cells an input"
    return Finding.judged(f"{target.title}: L{norm} error O(h^{-rate:g})", holds, evidence)


def _sup(table: Table) -> Finding:
    rows = table.where(kind="rate").having("sup")
    least = rows.numbers("sup").min()
    slope = fit_slope(*_of(table, "jump", 1).points("cells", "sup"))
    evidence = (
        f"discontinuous targets: sup error at least {least:.3f} of a jump of 1 in {len(rows)} networks, slope for the "
        f"jump {slope}; infinite for the unbounded ones, since outputs are bounded"
    )
    return Finding.judged("the sup error does not fall: it is at least half a jump", least > 0.499, evidence)


def _agreement(table: Table) -> Finding:
    """The softmax passes from cell to cell smoothly, which may cost nothing."""
    rows = table.where(kind="rate").having("exact")
    ratio = rows.ratios("error", "exact")
    evidence = f"{len(rows)} networks, error / closed form of the averages' error {span(ratio, '.4f')}"
    return Finding.judged(
        "the head errs no more than the cell averages it is made of", ratio.max() < 1 + CLOSE, evidence
    )


def _check(table: Table) -> Finding:
    rows = table.where(kind="check")
    both = "reported {error:.6f}, SciPy {integrated:.6f}".format_map(rows.rows[0])
    evidence = f"L1 error of {TARGETS['pole'].title} on {CHECKED} cells: {both}"
    holds = abs(rows.ratios("error", "integrated")[0] - 1) < CLOSE
    return Finding.judged("the reported norm is that of the network, integrated by SciPy's quad", holds, evidence)


def _summary(table: Table, name: str, norm: int) -> list[str]:
    rows = _of(table, name, norm)
    cells, *columns = (rows.numbers(column) for column in ("cells", "error", "exact", "sup"))
    error, exact_error, sup = ("" if np.isnan(column[0]) else change(column) for column in columns)
    return [TARGETS[name].title, f"L{norm}", change(cells, ".0f"), error, exact_error, sup or "infinite"]


def _curves(table: Table, column: str, norm: int) -> list[Any]:
    return [
        curve(target.title, rows, "cells", column, look)
        for (name, target), look in zip(TARGETS.items(), SERIES, strict=False)
        if (rows := _of(table, name, norm).having(column))
    ]
