"""How attention selects: weights query by query, from low to high sharpness."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from attnforge.experiments.claims import always
from attnforge.experiments.clamp import LOWER, UPPER, one_head, several_heads, step
from attnforge.experiments.experiment import Case, Experiment, Finding, Row, crossed
from attnforge.experiments.panels import Panel, curves, page
from attnforge.experiments.settings import Settings, setting
from attnforge.experiments.table import Array, Table
from attnforge.lemmas.leakage import mass_beyond
from attnforge.plot.attention import draw_attention
from attnforge.plot.rates import Curve, page_wide, plain
from attnforge.plot.style import GREY

LARGEST = 0.01  # weight that a column called one-hot may give to all other keys together
ROUNDING = 1e-11  # of weights computed from scores up to a few thousand
PROFILE = 26  # queries of the profile: at equal distances from half-way between two anchors
SHARP = 10.0  # from this c on the window of ties is narrower than half a step
SENTINELS = 2  # a side
NEAREST = "the nearest anchor gets most, at every sharpness"
FORMULA = "at s steps from the midpoint the largest weight is 1 / (1 + e^(-2cs)), less 2 sum_i e^(-c i^2) at most"
ONE_OWNER = "of several heads exactly one selects an anchor of its own, the others a sentinel or a ghost"


@dataclass(frozen=True)
class SelectionSettings(Settings):
    """How many anchors, how sharp."""

    anchors: tuple[int, ...] = setting((4, 8, 16), (4, 8), explain="Numbers p of anchors of one head.")
    sharpness: tuple[float, ...] = setting(
        (0.25, 1.0, 2.7, 10.0, 40.0, 160.0),
        (0.25, 2.7, 10.0, 40.0),
        explain="Values of c = beta h^2, from low to high.",
    )
    heads: int = setting(16, explain="Heads of the layer that shares one row of anchors.")
    keys: int = setting(8, explain="Keys of each of these heads, two sentinels a side counted.")
    queries: int = setting(20_001, 4001, explain="Columns of the maps that are counted, equally spaced.")


class Selection(Experiment[SelectionSettings]):
    """The second experiment that the summary of Hu et al. 2025 asks for: heat maps, and columns that are one-hot."""

    name = "selection"
    summary = "attention maps from soft to hard, one-hot columns counted"
    question = (
        "Does softmax attention select one anchor? Weights of all anchors (keys) for all queries (columns), from low "
        "to high sharpness c = beta h^2; a column is called one-hot where one key gets more than 99 % of the attention."
    )
    settings = SelectionSettings

    def cases(self, settings: SelectionSettings) -> Sequence[Case]:
        """One head for every p and c, and several heads for every c."""
        own, sharpness = settings.keys - 2 * SENTINELS, {"c": settings.sharpness, "queries": settings.queries}
        return [*crossed(p=settings.anchors, heads=1, **sharpness), *crossed(p=own, heads=settings.heads, **sharpness)]

    def measure(self, case: Case) -> Sequence[Row]:
        """One row of counts; for one head, also the largest weight against the distance to the midpoint."""
        p, heads, c = case["p"], case["heads"], case["c"]
        counted = _counted(p, heads, c, np.linspace(LOWER, UPPER, case["queries"]))
        shown = _columns(p, heads, c, _midpoints(p * heads))
        tied = max(float(column.weights.max(axis=1)[column.between].max(initial=0.0)) for column in shown)
        rows: list[Row] = [{"part": "count", **counted, "at_ties": tied}]
        return rows + (_profile(p, c) if heads == 1 else [])

    def findings(self, table: Table, settings: SelectionSettings) -> Sequence[Finding]:
        """Selection, the width of the window of ties, and the formula."""
        counts = table.where(part="count")
        sharp = counts.only(lambda row: row["c"] >= SHARP)
        several, layers = _several(counts), f"columns, over {len(counts)} layers"
        return [
            always(NEAREST, counts.numbers("nearest_wins"), f"{layers}; softness only blurs"),
            _one_hot(sharp),
            _everywhere(sharp),
            always(FORMULA, counts.numbers("as_formula"), layers),
            always(ONE_OWNER, several.numbers("one_owner"), f"queries, over {len(several)} sharpnesses"),
        ]

    def notes(self, table: Table, settings: SelectionSettings) -> Sequence[str]:
        """Columns that are one-hot, counted and predicted."""
        columns: dict[str, Any] = {
            "anchors": lambda row: str(row["p"]) if row["heads"] == 1 else f"{row['heads']} heads of {row['p']}",
            "c": "{c:g}",
            "columns that are one-hot": "{one_hot:.4f}",
            "1 - ln(99) / c": lambda row: f"{1 - _width(row['c']):.4f}",
            "largest weight, least over columns": "{least:.3f}",
        }
        return [table.where(part="count").to_markdown(columns)]

    def figures(self, table: Table, settings: SelectionSettings) -> Mapping[str, Any]:
        """Maps of one head; maps of several; the largest weight and the share of columns that are one-hot."""
        return {
            "selection": _maps(settings),
            "selection-heads": _maps_of_heads(settings),
            "selection-window": _window(table, settings),
        }


@dataclass(frozen=True, eq=False)
class _Columns:
    """Weights (queries, keys) of one head, its keys' places, and which queries lie between its outermost keys."""

    weights: Array
    positions: Array
    own: npt.NDArray[np.bool_]
    between: npt.NDArray[np.bool_]


def _columns(p: int, heads: int, c: float, y: Array) -> list[_Columns]:
    """What every head of a constructed layer with p own anchors a head does at the queries."""
    beta = c / step(p * heads) ** 2
    several = heads > 1
    net = (
        several_heads(heads, p + 2 * SENTINELS, SENTINELS, beta)
        if several
        else one_head(p, reach=UPPER, sharpness=beta)
    )
    weights = net.attention(y[:, None, None])[0]
    found = []
    for head, each in zip(net.network.heads, weights, strict=True):
        if head.claims is None:
            raise TypeError("constructed heads say where their keys are")
        at = head.claims.positions
        own = np.array([role == "anchor" for role in head.claims.roles])
        found.append(_Columns(np.asarray(each)[:, 0, :], at, own, (y >= at[0]) & (y <= at[-1])))
    return found


def _counted(p: int, heads: int, c: float, y: Array) -> dict[str, float | bool]:
    """Counts over all heads, of the queries between the outermost keys of each: others select the outermost."""
    leak = 2 * mass_beyond(c, 1)
    largest, agree, inside, owners = [], [], [], np.zeros(len(y), dtype=int)
    for column in _columns(p, heads, c, y):
        distance = np.abs(y[:, None] - column.positions) / step(p * heads)
        nearest, top = distance.min(axis=1), column.weights.max(axis=1)
        chosen = column.weights.argmax(axis=1)
        # Half-way between two anchors either may win, by rounding.
        agree.append(np.take_along_axis(distance, chosen[:, None], 1)[:, 0] <= nearest + 1e-9)
        owners += column.own[chosen] & ~_tied(nearest)
        pair = _sigmoid(2 * c * np.maximum(0.5 - nearest, 0.0))
        inside.append(((top <= pair + ROUNDING) & (top >= pair / (1 + leak) - ROUNDING))[column.between])
        largest.append(top[column.between])
    tops = np.concatenate(largest)
    clear = ~_tied(np.abs((y - LOWER) / step(p * heads) - np.round((y - LOWER) / step(p * heads))))
    return {
        "one_hot": float(np.mean(tops > 1 - LARGEST)),
        "least": float(tops.min()),
        "nearest_wins": float(np.mean(np.concatenate(agree))),
        "as_formula": float(np.mean(np.concatenate(inside))),
        "columns": len(tops),
        "one_owner": float(np.mean(owners[clear] == 1)),
    }


def _tied(nearest: Array) -> npt.NDArray[np.bool_]:
    """Whether the distance to the nearest anchor, in steps, is that of a midpoint."""
    return np.asarray(np.abs(nearest - 0.5) <= 1e-9)


def _profile(p: int, c: float) -> list[Row]:
    """The largest weight against the distance to the middle of the row's middle step."""
    middle = _midpoints(p)[(p - 1) // 2]
    away = np.linspace(0.0, 0.5, PROFILE)
    (column,) = _columns(p, 1, c, middle + away * step(p))
    tops = column.weights.max(axis=1)
    return [{"part": "profile", "distance": float(s), "weight": float(top)} for s, top in zip(away, tops, strict=True)]


def _midpoints(anchors: int) -> Array:
    return np.asarray(LOWER + step(anchors) * (np.arange(anchors - 1) + 0.5))


def _sigmoid(x: Array) -> Array:
    return np.asarray(1 / (1 + np.exp(-x)))


def _width(c: float) -> float:
    """The part of every step, around its middle, without one-hot columns: 2s, where sigma(2cs) = 1 - LARGEST."""
    return min(1.0, math.log((1 - LARGEST) / LARGEST) / c)


def _several(counts: Table) -> Table:
    return counts.only(lambda row: row["heads"] != 1)


def _one_hot(sharp: Table) -> Finding:
    """Counted against predicted; a column more or less at either side of every window is the sampling's."""
    c, seen = sharp.numbers("c"), sharp.numbers("one_hot")
    predicted = np.array([1 - _width(each) for each in c])
    windows = sharp.numbers("heads") * (sharp.numbers("p") + 2 * SENTINELS)
    off, slack = np.abs(seen - predicted), 2 * windows / sharp.numbers("columns")
    best = int(np.argmax(c))
    evidence = (
        f"at c = {c[best]:g} {100 * seen[best]:.2f} % of the columns are one-hot, {100 * predicted[best]:.2f} % "
        f"predicted; largest difference for c >= {SHARP:g}: {100 * off.max():.2f} %"
    )
    claim = "with high sharpness columns become one-hot, but for a window of ln(99) / c steps around midpoints"
    return Finding.judged(claim, bool(np.all(off <= slack)), evidence)


def _everywhere(sharp: Table) -> Finding:
    best = sharp.where(c=max(sharp.numbers("c")))
    tied = best.numbers("at_ties")
    evidence = f"at c = {best.rows[0]['c']:g} midpoints give their first key {tied.max():.3f}: two anchors tie, always"
    return Finding.judged("with high sharpness every column is one-hot", bool(tied.min() > 1 - LARGEST), evidence)


def _maps(settings: SelectionSettings) -> Any:
    """Rows of panels: anchors; columns of panels: sharpness."""
    rows, columns = len(settings.anchors), len(settings.sharpness)
    figure = page_wide(0.6 + 1.15 * rows)
    panels = figure.subplots(rows, columns, squeeze=False, sharex=True)
    y = np.linspace(LOWER, UPPER, 301)
    for p, line in zip(settings.anchors, panels, strict=True):
        for c, axes in zip(settings.sharpness, line, strict=True):
            (column,) = _columns(p, 1, c, y)
            image = _draw_map(axes, column.weights)
            axes.set_yticks([0, p - 1])
            axes.tick_params(length=2, labelleft=axes is line[0])
        line[0].set_ylabel(f"key, p = {p}", fontsize=8)
    for c, top, bottom in zip(settings.sharpness, panels[0], panels[-1], strict=True):
        top.set_title(f"c = {c:g}", fontsize=8)
        bottom.set_xlabel("query y", fontsize=8)
    _colour_bar(figure, image, panels)
    return figure


def _maps_of_heads(settings: SelectionSettings) -> Any:
    """All keys of all heads, one head above the other, soft and sharp."""
    own, y = settings.keys - 2 * SENTINELS, np.linspace(LOWER, UPPER, 601)
    shown = sorted(settings.sharpness, key=lambda c: abs(math.log(c / 2.7)))[0], max(settings.sharpness)
    starts = range(0, settings.heads * settings.keys, settings.keys)
    middles = [start + settings.keys / 2 - 0.5 for start in starts]
    figure = page_wide(3.6)
    panels = figure.subplots(1, 2, squeeze=False, sharey=True)
    for c, axes in zip(shown, panels[0], strict=True):
        weights = np.concatenate([column.weights for column in _columns(own, settings.heads, c, y)], axis=1)
        image = _draw_map(axes, weights, starts=list(starts))
        axes.set_title(f"{settings.heads} heads, c = {c:g}", fontsize=8)
        axes.set_xlabel("query y", fontsize=8)
        axes.set_yticks(middles, [str(i + 1) for i in range(settings.heads)])
    panels[0][0].set_ylabel(f"head, {settings.keys} keys each", fontsize=8)
    _colour_bar(figure, image, panels)
    return figure


def _draw_map(axes: Any, weights: Array, **options: Any) -> Any:
    image = draw_attention(axes, weights, ends=(LOWER, UPPER), marks=False, **options)
    axes.set_xticks([LOWER, 0.0, UPPER], ["-1", "0", "1"])
    axes.tick_params(labelsize=7)
    return image


def _colour_bar(figure: Any, image: Any, panels: Any) -> None:
    bar = figure.colorbar(image, ax=panels, pad=0.01, fraction=0.05, aspect=30)
    bar.set_label("attention weight", fontsize=8)
    bar.ax.tick_params(labelsize=7)


def _window(table: Table, settings: SelectionSettings) -> Any:
    """The largest weight against the distance to the midpoint, and columns that are not one-hot."""
    counts, p = table.where(part="count"), max(settings.anchors)
    profiles = curves(table.where(part="profile", p=p), "c", "distance", "weight", "c = {:g}")
    groups = {f"p = {each}": counts.where(p=each, heads=1) for each in settings.anchors}
    groups[f"{settings.heads} heads"] = _several(counts)
    shares = [Curve(name, rows.numbers("c"), 1 - rows.numbers("one_hot")) for name, rows in groups.items()]
    panels = (
        Panel(profiles, logarithmic=(False, False)),
        Panel(shares, "sharpness c", "columns that are not one-hot", logarithmic=(True, False)),
    )
    figure = page(panels, 3.2, legend=0)
    left, right = figure.axes
    for line in left.lines:
        line.set_linestyle("")
    fine = np.linspace(0.0, 0.5, 501)
    for i, c in enumerate(settings.sharpness):
        hidden = "_" * (i > 0)
        left.plot(fine, _row_weight(fine, c), color=GREY, lw=0.9, zorder=1, label=f"{hidden}all anchors")
        pair = _sigmoid(2 * c * fine)
        left.plot(fine, pair, color="#000000", lw=0.8, ls=":", zorder=1, label=f"{hidden}1 / (1 + exp(-2cs))")
    plain(left, "distance s to the midpoint, in steps", "largest weight", f"p = {p}")
    left.set_ylim(-0.12, 1.05)
    left.legend(fontsize=7, frameon=False, loc="lower right", ncols=2)
    for i, line in enumerate(right.lines):  # nested markers: the points agree, and all of them show
        line.set(linestyle="", fillstyle="none", markersize=3 + 2 * i)
    sharpness = np.geomspace(min(settings.sharpness), max(settings.sharpness), 200)
    predicted = [_width(float(c)) for c in sharpness]
    right.plot(sharpness, predicted, color=GREY, lw=0.9, zorder=1, label="ln(99) / c")
    right.set_ylim(-0.06, 1.08)
    right.legend(fontsize=7, frameon=False, loc="upper right", labelspacing=0.9)
    return figure


def _row_weight(away: Array, c: float) -> Array:
    """The largest weight of a long row, s steps from a midpoint: 1 / sum_j exp(-c (j^2 - 2 j d)), d = 1/2 - s."""
    j = np.arange(-40, 41)
    return np.asarray(1 / np.exp(-c * (j * j - 2 * j * (0.5 - away[:, None]))).sum(axis=1))
