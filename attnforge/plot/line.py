"""Along a line through the domain: value, anchors, the gaps between them, and error."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from attnforge.plot.attention import Shown, draw_shown
from attnforge.plot.keys import Row, counted, single_row
from attnforge.plot.panels import Size, panels
from attnforge.plot.paths import path_through
from attnforge.plot.sampling import Sample, Sectionable, finest
from attnforge.plot.style import BLUE, GREEN, GREY, ORANGE, WIDTH, draw_error

Array = npt.NDArray[np.float64]

COUNTS = (65, 257, 1025)
BETWEEN = 8  # samples to a gap between anchors, ends counted once
MOST_GAPS = 400  # sampled so
BEYOND = 0.25  # of the target's range: how far beyond it values of anchors are still drawn
HEIGHTS = {"values": 3.3, "gaps": 1.25, "error": 1.8, "attention": 2.2}  # inches
UNEVEN = 4.0  # times the smallest gap: from here on gaps have a panel of their own


def line(compiled: Sectionable, ax: Any = None, figsize: Size | None = None, *, attention: Shown | None = None) -> Any:
    """Panels one below the other along the line on which the network's only form runs through all its values.

    That is the whole domain for one input; networks of several forms are drawn on the diagonal from the lower to the
    upper corner. Above, the target and the network's output (the first of several); then the gaps between anchors,
    where these differ; then the largest error over the outputs; below, where it is given, the attention.
    """
    row = single_row(compiled.network, compiled.target.domain)
    along, sample, name = line_sample(compiled)
    uneven = row is not None and has_uneven_gaps(row)
    asked = {"values": True, "gaps": uneven, "error": True, "attention": attention is not None}
    heights = {name: HEIGHTS[name] for name, wanted in asked.items() if wanted}
    drawn = panels(
        ax,
        figsize,
        (WIDTH, 0.3 + sum(heights.values())),
        lambda figure: figure.subplots(len(heights), 1, sharex=True, height_ratios=list(heights.values())),
        count=len(heights),
    )
    shown = dict(zip(heights, drawn.axes, strict=True))
    draw_values(shown["values"], along, sample)
    if row is not None:
        draw_anchors(shown["values"], row, sample.wanted[:, 0])
        if "gaps" in shown:
            draw_gaps(shown["gaps"], row)
    drawn.legend(shown["values"])
    draw_error(shown["error"], along, sample.error, compiled.certificate)
    if attention is not None:
        draw_shown(drawn.figure, shown["attention"], attention)
    drawn.axes[-1].set_xlabel(name, parse_math=False)
    drawn.figure.align_ylabels(drawn.axes)
    note = counted(compiled.network) if compiled.target.domain.lower.size > 1 else ""
    drawn.head(compiled.construction, compiled.target.describe(), note)
    return drawn.finished()


def line_sample(compiled: Sectionable) -> tuple[Array, Sample, str]:
    """Numbers along the line that :func:`line` shows, samples there, and what the numbers are."""
    row = single_row(compiled.network, compiled.target.domain)
    path = path_through(compiled.target, row)
    grids = [np.linspace(path.low, path.high, count) for count in COUNTS]
    grids.append(refined(grids[-1], row))
    sample = finest(compiled, [path.at(grid) for grid in grids])
    along = next(grid for grid in grids if len(grid) == len(sample.points))
    return along, sample, path.name


def draw_values(axes: Any, along: Array, sample: Sample) -> None:
    """Target and output."""
    outputs = sample.wanted.shape[1]
    axes.plot(along, sample.wanted[:, 0], color=GREY, lw=3.5, alpha=0.5, label="target")
    axes.plot(along, sample.found[:, 0], color=BLUE, lw=1.3, label="attention output")
    axes.set_ylabel("value" if outputs == 1 else f"value (first of {outputs})")


def draw_anchors(axes: Any, row: Row, wanted: Array, *, values: bool = True) -> None:
    """A tick below for every anchor; dots for the ``values`` they hold, unless these are far from the target's.

    Fitted values need not resemble f: well beyond its range they would only flatten the curves.
    """
    count = len(row.positions)
    label = f"{row.name} ({count})"
    height = axes.get_xaxis_transform()
    low, high = axes.get_ylim()
    axes.set_ylim(low - 0.06 * (high - low), high)  # room for the ticks
    axes.vlines(row.positions, 0.0, 0.045, transform=height, color=ORANGE, lw=0.9, alpha=_alpha(count), label=label)
    if row.values is None or not count or not values:
        return
    middle, reach = (wanted.max() + wanted.min()) / 2, wanted.max() - wanted.min()
    if np.all(np.abs(row.values - middle) <= (0.5 + BEYOND) * reach):
        size = 14 if count <= 80 else 3
        axes.scatter(row.positions, row.values, s=size, color=ORANGE, zorder=3, label="their values")


def has_uneven_gaps(row: Row) -> bool:
    """Whether the anchors are so unevenly spaced that the gaps are worth a panel."""
    gaps = np.diff(row.positions)
    return len(gaps) > 1 and bool(gaps.max() > UNEVEN * gaps.min())


def draw_gaps(axes: Any, row: Row) -> None:
    """The distance h between neighbouring anchors, between them, on a logarithmic axis."""
    from matplotlib.ticker import NullFormatter

    gaps = np.diff(row.positions)
    axes.stairs(gaps, row.positions, baseline=None, color=GREEN, lw=1.2)
    axes.set_yscale("log")
    axes.set_ylim(gaps.min() / 3, gaps.max() * 3)
    axes.yaxis.set_minor_formatter(NullFormatter())  # the panel is low: names of decades only
    axes.set_ylabel("anchor gap")


def _alpha(count: int) -> float:
    """Ticks fade as they get many, so that a cluster is darker than a row."""
    return float(np.clip(60 / max(count, 1), 0.25, 0.9))


def refined(along: Array, row: Row | None) -> Array:
    """The numbers (N,) and, of a row, places on its anchors and between neighbours, within the same ends."""
    if row is None or not len(row.positions):
        return along
    return np.union1d(along, np.clip(_between(row.positions), along[0], along[-1]))


def _between(anchors: Array) -> Array:
    """Places on anchors and between neighbours, in the smallest gaps where there are too many."""
    gaps = np.diff(anchors)
    starts = np.sort(np.argsort(gaps, kind="stable")[:MOST_GAPS])
    parts = np.arange(BETWEEN + 1) / BETWEEN
    return np.asarray((anchors[starts][:, None] + gaps[starts][:, None] * parts).ravel())
