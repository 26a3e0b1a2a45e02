"""What a sweep over one's own function found: a table for people, papers and programs, fitted rates, a figure."""

from __future__ import annotations

import html
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from attnforge.compiler.finest import rounded_up
from attnforge.errors import RefusalError
from attnforge.experiments.panels import Panel, curve, page
from attnforge.experiments.slope import Slope, fit_base, fit_slope
from attnforge.experiments.table import Table
from attnforge.plot.rates import SERIES, Curve
from attnforge.theorems import registry

SETTINGS = ("construction", "dtype", "sharpness", "heads", "anchors", "tol")
FOUND = ("keys", "error", "bound", "status")  # what is shown; rows hold more
ALONG = {"anchors": "anchors p", "heads": "heads H", "sharpness": "sharpness beta", "keys": "keys"}  # and their labels
FALLING = "gate"  # whose errors fall with the sharpness; others have one that is best
POWER = 0.5  # an interval of a slope that is wider speaks of no power law, and no line is drawn for it
HEIGHT = 3.4  # inches


@dataclass(frozen=True)
class Rate:
    """How error and bound of one kind of network fall with a size: exponents, with 95 % confidence intervals.

    ``base`` is that of error = C base^size, for constructions whose errors fall geometrically; ``stated`` what their
    theorem says.
    """

    label: str
    against: str
    error: Slope
    bound: Slope | None
    base: Slope | None
    stated: str

    def __str__(self) -> str:
        """One line.

        >>> falls = Slope(-1.0, -1.01, -0.99, 4)
        >>> print(Rate("hard", "anchors", falls, None, None, "O(1/p)"))
        hard: error ~ anchors^-1.000 (95 % CI -1.010 to -0.990); stated: O(1/p)
        """
        power = f"{self.against}^{self.error}"
        if self.base is not None:
            value, _, interval = str(self.base).partition(" ")
            power = f"{value}^{self.against} {interval}, or {power}"
        bound = "" if self.bound is None else f"; bound ~ {self.against}^{self.bound}"
        return f"{self.label}: error ~ {power}{bound}; stated: {self.stated}"


@dataclass(frozen=True, eq=False)
class Sweep:
    """Networks of many sizes for one function.

    Attributes:
        target: the function, for people.
        table: one row a network: how it was built (``construction``, ``dtype``, ``sharpness``, ``heads``, ``anchors``,
            ``tol``), its ``keys`` and ``parameters`` in all, the largest ``error`` found and its root mean square
            ``rms``, the ``bound`` (None where none is proved), the ``status`` of its certificate, or "refused" and the
            ``reason``.
    """

    target: str
    table: Table

    @property
    def rows(self) -> tuple[Mapping[str, Any], ...]:
        """The rows of the table."""
        return self.table.rows

    @cached_property
    def rates(self) -> tuple[Rate, ...]:
        """A rate for every kind of network that was built in at least two sizes."""
        found = []
        for label, rows in self._kinds.items():
            against = self._against(rows)
            sizes, built = rows.numbers(against), rows.rows[0].get("built")
            if len(np.unique(sizes[np.isfinite(sizes)])) < 2 or (against == "sharpness" and built != FALLING):
                continue
            record = registry.construction(str(built))
            bounds = rows.numbers("bound")
            bound = fit_slope(sizes, bounds) if np.isfinite(bounds).all() else None
            geometric = against in ("anchors", "keys") and np.isinf(record.law.order)
            base = fit_base(sizes, rows.numbers("error")) if geometric else None
            found.append(Rate(label, against, fit_slope(sizes, rows.numbers("error")), bound, base, record.rate))
        return tuple(found)

    def to_dataframe(self) -> Any:
        """A pandas DataFrame of all columns."""
        return self.table.to_dataframe()

    def to_csv(self) -> str:
        """Comma-separated text of all columns; numbers read back as the same numbers."""
        return self.table.to_csv()

    def to_latex(self, rates: bool = True) -> str:
        r"""A table for LaTeX with the package booktabs; below it, unless ``rates`` is False, the fitted rates.

        >>> print(Sweep("x", Table.of([{"anchors": 8, "error": 1.2e-3, "status": "proved"}])).to_latex())
        \begin{tabular}{rl}
        \toprule
        error & status \\
        \midrule
        $1.2 \cdot 10^{-3}$ & proved \\
        \bottomrule
        \end{tabular}
        """
        columns = self._shown
        lines = [" & ".join(_shown_cell(row, name, _latex) for name in columns) + r" \\" for row in self.rows]
        below = [rf"\multicolumn{{{len(columns)}}}{{l}}{{{_latex_rate(rate)}}} \\" for rate in self.rates] * rates
        return "\n".join(
            [
                rf"\begin{{tabular}}{{{''.join('r' if self._is_number(name) else 'l' for name in columns)}}}",
                r"\toprule",
                " & ".join(columns) + r" \\",
                r"\midrule",
                *lines,
                *([r"\midrule", *below] if below else []),
                r"\bottomrule",
                r"\end{tabular}",
            ]
        )

    def plot(self, ax: Any = None) -> Any:
        """A figure of errors against sizes on logarithmic axes, bounds dotted; or into ``ax``, a matplotlib axes."""
        curves, against = self._curves()
        if not curves:
            raise RefusalError("A figure needs two sizes of some kind of network", "fewer", "Sweep over more")
        powers = {round(rate.error.value) for rate in self.rates if rate.error.high - rate.error.low < POWER}
        y_label = "largest error found" + ("; dotted: bound" if any(not each.name for each in curves) else "")
        counts = (
            sorted({int(x) for each in curves for x in np.asarray(each.x)}) if against in ("anchors", "heads") else ()
        )
        title = self._heading if ax is None else ""
        panel = Panel(curves, ALONG[against], y_label, title, slopes=sorted(powers), ticks=counts)
        if ax is None:
            return page([panel], HEIGHT, legend=2)
        panel.draw(ax)
        ax.legend(fontsize="small")
        return ax.figure

    def __str__(self) -> str:
        cells = [[str(name) for name in self._shown]]
        cells += [[_shown_cell(row, name, _plain) for name in self._shown] for row in self.rows]
        widths = [max(len(row[i]) for row in cells) for i in range(len(self._shown))]
        aligned = [str.rjust if self._is_number(name) else str.ljust for name in self._shown]
        lines = ["  ".join(put(cell, w) for put, cell, w in zip(aligned, row, widths, strict=True)) for row in cells]
        reasons = dict.fromkeys(str(row["reason"]).partition("\n")[0] for row in self.table.having("reason").rows)
        refused = [f"refused: {reason}" for reason in reasons]
        return "\n".join([self._heading, *(line.rstrip() for line in lines), *refused, *map(str, self.rates)])

    def _repr_html_(self) -> str:
        """For notebooks; all text is escaped."""
        head = "".join(f"<th>{html.escape(name)}</th>" for name in self._shown)
        body = "".join(
            f"<tr>{''.join(f'<td>{html.escape(_shown_cell(row, name, _plain))}</td>' for name in self._shown)}</tr>"
            for row in self.rows
        )
        rates = "".join(f"<li>{html.escape(str(rate))}</li>" for rate in self.rates)
        title = f"<caption>{html.escape(self._heading)}</caption>"
        table = f"<table>{title}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
        return f"{table}<ul>{rates}</ul>" if rates else table

    @property
    def _shown(self) -> list[str]:
        """Columns for people: settings that differ, and what came out."""
        found = [name for name in FOUND if any(row.get(name) is not None for row in self.rows)]
        return [*(name for name in SETTINGS if len(self._settings(name)) > 1), *found]

    @property
    def _heading(self) -> str:
        """The function, and the settings that are the same throughout."""
        same = [_said(name, *self._settings(name)) for name in SETTINGS if len(self._settings(name)) == 1]
        return ", ".join([self.target, *(text for text in same if text)])

    def _settings(self, name: str) -> set[Any]:
        return {row.get(name) for row in self.rows}

    def _is_number(self, name: str) -> bool:
        return any(isinstance(row.get(name), int | float) for row in self.rows)

    @cached_property
    def _kinds(self) -> dict[str, Table]:
        """Networks that differ in size alone, by what they have in common where others differ."""
        built = self.table.having("error")
        kinds = dict[tuple[Any, ...], list[Mapping[str, Any]]]()
        fixed = [name for name in SETTINGS if name not in (self._size(), "tol")]
        for row in built.rows:
            kinds.setdefault(tuple(row.get(name) for name in fixed), []).append(row)
        differing = [i for i in range(len(fixed)) if len({kind[i] for kind in kinds}) > 1]
        named = {
            ", ".join(_cell(kind[i], _plain) for i in differing if kind[i] is not None) or _only(rows): rows
            for kind, rows in kinds.items()
        }
        return {label: Table.of(rows) for label, rows in named.items()}

    def _size(self) -> str:
        """What varies along a curve."""
        numbers = {name: {cell for cell in self._settings(name) if _is_size(cell)} for name in ALONG}
        return next((name for name in ALONG if len(numbers[name]) > 1), "keys")

    def _against(self, rows: Table) -> str:
        size = self._size()
        return size if all(_is_size(row.get(size)) for row in rows.rows) else "keys"

    def _curves(self) -> tuple[list[Curve], str]:
        """Curves of errors, then of bounds, and what they are against."""
        errors, bounds, against = list[Curve](), list[Curve](), self._size()
        kinds = {label: rows for label, rows in self._kinds.items() if self._against(rows) == against and len(rows) > 1}
        for i, (label, rows) in enumerate(kinds.items()):
            colour, marker, dash = SERIES[i % len(SERIES)]
            ordered = rows.ordered(against)
            errors.append(curve(label, ordered, against, "error", (colour, marker, dash)))
            if ordered.having("bound").rows:
                bounds.append(curve("", ordered.having("bound"), against, "bound", (colour, "", ":")))
        return [*errors, *bounds], against


def _said(name: str, value: Any) -> str:
    """A setting in a heading: names and dtypes speak for themselves.

    >>> _said("construction", "gate"), _said("anchors", 8), _said("heads", None)
    ('gate', 'anchors = 8', '')
    """
    if value is None:
        return ""
    return str(value) if name in ("construction", "dtype") else f"{name} = {_cell(value, _plain)}"


def _is_size(cell: Any) -> bool:
    return isinstance(cell, int | float)


def _only(rows: list[Mapping[str, Any]]) -> str:
    """What a single kind of network is called: its construction, and its sharpness where it has a word."""
    sharpness = rows[0].get("sharpness")
    name = str(rows[0].get("built", rows[0].get("construction", "network")))
    return f"{name}, {sharpness}" if isinstance(sharpness, str) else name


def _shown_cell(row: Mapping[str, Any], name: str, number: Callable[[float], str]) -> str:
    """A cell for people: two digits of a number, and of a bound not less than it.

    >>> _shown_cell({"bound": 0.121, "error": 0.121}, "bound", _plain)
    '0.13'
    """
    value = row.get(name)
    return _cell(rounded_up(value) if name == "bound" and value else value, number)


def _cell(value: Any, number: Callable[[float], str]) -> str:
    if value is None:
        return ""
    if isinstance(value, int | float):
        return number(value)
    return _escaped(str(value)) if number is _latex else str(value)


def _plain(value: float) -> str:
    """Two digits of what is no whole number.

    >>> _plain(0.00123), _plain(1024), _plain(0.5)
    ('1.2e-03', '1024', '0.5')
    """
    if isinstance(value, int) or float(value).is_integer():
        return str(int(value))
    return f"{value:.2g}" if 0.01 <= abs(value) < 1e4 else f"{value:.1e}"


def _latex(value: float) -> str:
    text = _plain(value)
    mantissa, mark, exponent = text.partition("e")
    return rf"${mantissa} \cdot 10^{{{int(exponent)}}}$" if mark else text


def _latex_rate(rate: Rate) -> str:
    r"""A rate as mathematics: the exponent, its interval, and what is stated, as text.

    >>> print(_latex_rate(Rate("max_affine", "anchors", Slope(-1.0, -1.02, -0.98, 5), None, None, "O(1/G) hard")))
    max\_affine: error $\sim$ anchors$^{-1.00}$ (95\,\% CI $-1.02$ to $-0.98$); stated: O(1/G) hard
    """
    against = _escaped(rate.against)
    found = [rf"error $\sim$ {against}$^{{{rate.error.value:.2f}}}${_interval(rate.error)}"]
    if rate.base is not None:
        found = [rf"error $\sim {rate.base.value:.3g}$ to the power of {against}{_interval(rate.base)}"]
    if rate.bound is not None:
        found.append(rf"bound $\sim$ {against}$^{{{rate.bound.value:.2f}}}${_interval(rate.bound)}")
    return f"{_escaped(rate.label)}: {', '.join(found)}; stated: {_escaped(rate.stated)}"


def _interval(slope: Slope) -> str:
    if not np.isfinite([slope.low, slope.high]).all():
        return ""
    return rf" (95\,\% CI ${slope.low:.2f}$ to ${slope.high:.2f}$)"


def _escaped(text: str) -> str:
    r"""Text in which LaTeX sees letters only.

    >>> print(_escaped("max_affine & 5%"))
    max\_affine \& 5\%
    """
    special = {"\\": r"\textbackslash{}", "^": r"\textasciicircum{}", "~": r"\textasciitilde{}"}
    return "".join(special.get(c, f"\\{c}" if c in "_&%$#{}" else c) for c in text)
