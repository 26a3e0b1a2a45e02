"""Rate curves: errors against sizes on logarithmic axes, with the slopes to compare them with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from attnforge.errors import TargetError
from attnforge.plot.panels import Size, panels
from attnforge.plot.style import BLUE, COLUMN, GREEN, GREY, ORANGE, PURPLE, SKY, WIDTH, as_written, inches, legend_name

SERIES = (  # colour, marker and dash: curves differ in more than colour
    (BLUE, "o", "-"),
    (ORANGE, "s", "-"),
    (GREEN, "^", "-"),
    (PURPLE, "D", "--"),
    (SKY, "v", "--"),
    ("#E69F00", "P", "--"),
    ("#000000", "X", ":"),
    (GREY, "*", ":"),
)
LABEL = 8  # points


@dataclass(frozen=True, eq=False)
class Curve:
    """A named row of points; ``low`` and ``high`` are the ends of a band around them, ``look`` overrides the style.

    The name is drawn as it is; "" and "_" stay out of the legend.
    """

    name: str
    x: npt.ArrayLike
    y: npt.ArrayLike
    low: npt.ArrayLike | None = None
    high: npt.ArrayLike | None = None
    look: tuple[str, str, str] | None = None


def rate_curves(
    curves: Sequence[Curve],
    *,
    x_label: str,
    y_label: str,
    slopes: Sequence[float] = (),
    title: str = "",
    ax: Any = None,
    figsize: Size | None = None,
) -> Any:
    """A figure of errors against sizes on logarithmic axes, with grey lines of the ``slopes`` to compare with.

    Args:
        curves: at least one.
        x_label: what sizes are.
        y_label: what errors are.
        slopes: exponents of powers of the size.
        title: above the panel, as it is.
        ax: where to draw, as :mod:`attnforge.plot.panels` says; None makes a new figure.
        figsize: width and height of a new figure, in inches.

    >>> figure = rate_curves([Curve("hard", [10, 20, 40], [0.1, 0.05, 0.025])], x_label="anchors p", y_label="error")
    >>> figure.axes[0].get_xscale(), [text.get_text() for text in figure.legends[0].get_texts()]
    ('log', ['hard'])
    """
    if not curves:
        raise TargetError("plot.rate_curves draws at least one curve", "none", "Pass [Curve(name, sizes, errors)]")
    drawn = panels(ax, figsize, (COLUMN, 3.0))
    axes = drawn.axes[0]
    draw_rates(axes, curves, x_label=x_label, y_label=y_label, slopes=slopes, title=title)
    if drawn.given == "axes":
        drawn.legend(axes, user_text=True, size=LABEL - 1)
    else:
        legend_below(drawn.figure, axes, 2)
    return drawn.finished()


def page_wide(height: float) -> Any:
    """An empty figure as wide as a page's text, so many inches high."""
    from attnforge.plot.notebook_figure import NotebookFigure

    return NotebookFigure(figsize=(WIDTH, height), layout="constrained")


def draw_rates(
    axes: Any,
    curves: Sequence[Curve],
    *,
    x_label: str,
    y_label: str,
    slopes: Sequence[float] = (),
    title: str = "",
    logarithmic: tuple[bool, bool] = (True, True),
) -> None:
    """The curves, in a panel of any figure; the legend is the caller's."""
    for curve, style in zip(curves, _looks(len(curves)), strict=True):
        colour, marker, dash = curve.look or style
        x, y = np.asarray(curve.x, dtype=np.float64), np.asarray(curve.y, dtype=np.float64)
        axes.plot(x, y, color=colour, marker=marker, ls=dash, ms=3.5, lw=1.1, label=legend_name(curve.name), zorder=3)
        if curve.low is not None and curve.high is not None:
            axes.fill_between(x, curve.low, curve.high, color=colour, alpha=0.18, lw=0, zorder=1)
    if logarithmic[0]:
        axes.set_xscale("log")
    if logarithmic[1]:
        axes.set_yscale("log")
    for slope in slopes if curves else ():
        _draw_slope(axes, curves, slope)
    plain(axes, x_label, y_label, title)


def plain(axes: Any, x_label: str, y_label: str, title: str = "") -> None:
    """Labels and a faint grid at the size of a paper's column."""
    axes.set_xlabel(x_label, fontsize=LABEL, parse_math=False)
    axes.set_ylabel(y_label, fontsize=LABEL, parse_math=False)
    axes.tick_params(which="both", labelsize=LABEL - 1)
    axes.grid(True, color="#dddddd", lw=0.5, zorder=0)
    axes.set_axisbelow(True)
    if title:
        axes.set_title(title, fontsize=LABEL, parse_math=False)


def ticks_at(axes: Any, numbers: Sequence[int]) -> None:
    """Ticks of the x-axis at whole numbers and nowhere else, written out: no powers of ten."""
    axes.set_xticks(list(numbers), [str(number) for number in numbers])
    axes.minorticks_off()


def no_minor_labels(axes: Any) -> None:
    """Minor ticks of the x-axis without numbers: where few powers of ten are in sight, matplotlib crowds them."""
    from matplotlib.ticker import NullFormatter

    axes.xaxis.set_minor_formatter(NullFormatter())


def hide_unused(panels: Any, used: int) -> None:
    """Of a row of panels, those after the first ``used`` ones."""
    for axes in panels[used:]:
        axes.set_visible(False)


def legend_below(figure: Any, axes: Any, columns: int = 3) -> None:
    """The legend of a panel under the figure, where it hides no point; panels that show the same curves share it."""
    handles, labels = axes.get_legend_handles_labels()
    if not labels:
        return
    legend = figure.legend(
        handles,
        labels,
        loc="outside lower center",
        ncols=min(columns, len(labels)),
        frameon=False,
        fontsize=LABEL - 1,
        handlelength=2.2,
        columnspacing=1.2,
    )
    as_written(legend, inches(figure)[0])


def _draw_slope(axes: Any, curves: Sequence[Curve], slope: float) -> None:
    """A grey line of the slope through the geometric middle of the first curve, a little below, with its name."""
    x, y = np.asarray(curves[0].x, dtype=np.float64), np.asarray(curves[0].y, dtype=np.float64)
    good = np.isfinite(x) & np.isfinite(y) & (x > 0) & (y > 0)
    if good.sum() < 2:
        return
    ends = np.array([x[good].min(), x[good].max()])
    middle = np.exp(np.mean(np.log(ends)))
    height = np.exp(np.interp(np.log(middle), np.log(np.sort(x[good])), np.log(y[good][np.argsort(x[good])]))) * 0.55
    axes.plot(ends, height * (ends / middle) ** slope, color=GREY, lw=0.8, ls=(0, (1, 1)), zorder=2)
    axes.annotate(
        f"slope {slope:g}",
        (ends[1], height * (ends[1] / middle) ** slope),
        xytext=(-2, -9),
        textcoords="offset points",
        ha="right",
        fontsize=LABEL - 1,
        color="#555555",
    )


def _looks(count: int) -> list[tuple[str, str, str]]:
    return [SERIES[i % len(SERIES)] for i in range(count)]
