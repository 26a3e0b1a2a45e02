"""Tables: their listed points, the network through them, and its error at them. In between, a table says nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from attnforge.plot.keys import counted, single_row
from attnforge.plot.line import draw_anchors
from attnforge.plot.panels import Size, panels
from attnforge.plot.paths import input_names
from attnforge.plot.plane import draw_bar, draw_error_map, draw_map, label_inputs, limits, map_note, mesh
from attnforge.plot.sampling import Sample, Sectionable, compared
from attnforge.plot.style import BLUE, GREY, WIDTH, draw_error
from attnforge.targets import Table

Array = npt.NDArray[np.float64]

MOST_POINTS = 5000  # drawn
CURVE = 1025
SIDE = 129


def listing(compiled: Sectionable, table: Table, ax: Any = None, figsize: Size | None = None) -> Any:
    """One input: the points and the network's curve. Two: maps. More: the points one after the other."""
    sample = listed_sample(compiled, table)
    draw = _maps if table.points.shape[1] == 2 else _curve
    return draw(compiled, sample, ax, figsize)


def listed_sample(compiled: Sectionable, table: Table) -> Sample:
    """Both at the listed points, or at evenly many of them."""
    rows = _shown(len(table.points))
    return compared(compiled, table.points[rows], table.table_values[rows].reshape(len(rows), -1))


def _curve(compiled: Sectionable, sample: Sample, ax: Any, figsize: Size | None) -> Any:
    drawn = panels(
        ax, figsize, (WIDTH, 5.4), lambda figure: figure.subplots(2, 1, sharex=True, height_ratios=(3, 1.6)), count=2
    )
    top, bottom = drawn.axes
    target, box = compiled.target, compiled.target.domain
    alone = box.lower.size == 1
    at = sample.points[:, 0] if alone else np.arange(len(sample.points), dtype=np.float64)
    size = 14 if len(at) <= 200 else 3
    if alone:
        x = np.linspace(box.lower.item(), box.upper.item(), CURVE)
        output = np.asarray(compiled.at_points(x[:, None])).reshape(CURVE, -1)[:, 0]
        top.plot(x, output, color=BLUE, lw=1.3, label="attention output")
    else:
        top.scatter(at, sample.found[:, 0], s=size * 3, marker="x", color=BLUE, lw=1, label="attention output")
    top.scatter(at, sample.wanted[:, 0], s=size, color=GREY, zorder=3, label=f"listed points ({len(at):,} shown)")
    row = single_row(compiled.network, box) if alone else None
    if row is not None:
        draw_anchors(top, row, sample.wanted[:, 0], values=False)
    outputs = sample.wanted.shape[1]
    top.set_ylabel("value" if outputs == 1 else f"value (first of {outputs})")
    drawn.legend(top)
    draw_error(bottom, at, sample.error, compiled.certificate, points=True)
    bottom.set_xlabel((target.names or ("x",))[0] if alone else "listed point", parse_math=False)
    drawn.figure.align_ylabels(drawn.axes)
    drawn.head(compiled.construction, target.describe(), "" if alone else counted(compiled.network))
    return drawn.finished()


def _maps(compiled: Sectionable, sample: Sample, ax: Any, figsize: Size | None) -> Any:
    box = compiled.target.domain
    drawn = panels(ax, figsize, (WIDTH, 4.2), lambda figure: figure.subplots(1, 2, sharey=True), count=2)
    left, right = drawn.axes
    output = np.asarray(compiled.at_points(mesh(box, SIDE))).reshape(SIDE**2, -1)[:, 0]
    ends, x, y = limits(sample.wanted[:, 0]), sample.points[:, 0], sample.points[:, 1]
    size = 22 if len(x) <= 400 else 6
    image = draw_map(left, box, output, ends, "viridis")
    shown = {"cmap": "viridis", "vmin": ends[0], "vmax": ends[1], "edgecolors": "white", "linewidths": 0.4}
    left.scatter(x, y, c=sample.wanted[:, 0], s=size, clip_on=False, **shown)
    left.set_title(f"attention output; dots: listed points ({len(x):,} shown)", fontsize=9)
    draw_bar(drawn.figure, image, left, "value")
    draw_error_map(drawn.figure, right, compiled, sample, dots=True)
    label_inputs((left, right), input_names(compiled.target))
    drawn.head(compiled.construction, compiled.target.describe(), map_note(compiled))
    return drawn.finished()


def _shown(count: int) -> npt.NDArray[np.intp]:
    """Rows of a table that are drawn: all, or evenly many of them."""
    return np.unique(np.linspace(0, count - 1, min(count, MOST_POINTS)).round().astype(np.intp))
