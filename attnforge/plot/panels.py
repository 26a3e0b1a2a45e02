"""Where a figure is drawn: in panels of its own, in those that a caller hands over, or in a caller's figure.

Every figure of this package takes ``ax`` and ``figsize``, and asks :func:`panels` what they mean:

- neither: a new figure of its usual size, which notebooks show;
- ``figsize``: a new figure of that size, width and height in inches;
- ``ax``: an Axes, for figures of one panel; as many Axes as there are panels, for others; or a Figure or SubFigure,
  which gets the panels that are needed. The panels are returned, so that no notebook shows a caller's figure twice.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from attnforge.errors import TargetError
from attnforge.plot.style import figure_title, fit_y_label, heading, inches, legend_above, legend_inside, title_letters

Size = tuple[float, float]

LARGEST = 300.0  # inches, 30,000 pixels in a notebook: numbers beyond are meant as pixels


@dataclass(frozen=True, eq=False)
class Panels:
    """The panels, the figure or part of one that holds them, and whether these are new, or which of them are given."""

    axes: tuple[Any, ...]
    figure: Any
    given: Literal["", "figure", "axes"]

    def finished(self) -> Any:
        """What a plot returns, when all is drawn: its new figure, else the panel, or list of panels, it drew into."""
        for axes in self.axes:
            fit_y_label(axes)
        if not self.given:
            return self.figure
        return self.axes[0] if len(self.axes) == 1 else list(self.axes)

    def head(self, construction: str, text: str, note: str = "") -> None:
        """The heading, after all is drawn: above the figure; without the note above the first of given panels.

        Several panels that have titles of their own go without it.
        """
        if self.given != "axes":
            figure_title(self.figure, construction, text, note)
            return
        first, own = self.axes[0], self.axes[0].get_title()
        if own and len(self.axes) > 1:
            return
        size, line = title_letters(inches(first)[0])
        lines = [heading(construction, text, line=line), *([own] if own else [])]
        first.set_title("\n".join(lines), fontsize=size, parse_math=False)

    def legend(self, axes: Any, *, user_text: bool = False, size: float = 9) -> None:
        """The legend of a panel, if it has labels: above it, where it hides nothing; inside a given one."""
        if not axes.get_legend_handles_labels()[1]:
            return
        if self.given == "axes":
            legend_inside(axes, user_text=user_text, size=size)
        else:
            legend_above(axes, user_text=user_text, size=size)


def panels(
    ax: Any,
    figsize: Size | None,
    size: Size,
    make: Callable[[Any], Any] = lambda figure: figure.subplots(),
    *,
    count: int = 1,
) -> Panels:
    """The panels of a figure, new or given.

    Args:
        ax: what the caller handed over; None: nothing.
        figsize: width and height that the caller asked for; None: ``size``.
        size: the usual width and height, in inches.
        make: adds the panels to a figure, and returns them.
        count: how many there are.

    >>> panels(None, (3, 2), (7.2, 3.4)).figure.get_size_inches().tolist()
    [3.0, 2.0]
    """
    if ax is None:
        from attnforge.plot.notebook_figure import NotebookFigure

        figure = NotebookFigure(figsize=_size(figsize, size), layout="constrained")
        return Panels(tuple(np.ravel(make(figure))), figure, "")
    if figsize is not None:
        raise TargetError("`figsize` is the size of a new figure, and `ax` is of an old one", "both", "Leave one out")
    if _is_figure(ax):
        return Panels(tuple(np.ravel(make(ax))), ax, "figure")
    axes = _axes(ax, count)
    return Panels(axes, axes[0].figure, "axes")


def on_grid(
    rows: int, columns: int, places: Sequence[tuple[Any, Any]], heights: Sequence[float] | None = None
) -> Callable[[Any], list[Any]]:
    """What adds a panel at each of these places of a grid, numbers or slices; rows of given ``heights``, or alike."""

    def make(figure: Any) -> list[Any]:
        grid = figure.add_gridspec(rows, columns, height_ratios=heights)
        return [figure.add_subplot(grid[place]) for place in places]

    return make


def _size(figsize: Any, size: Size) -> Size:
    if figsize is None:
        return size
    try:
        width, height = (float(side) for side in figsize)
    except (TypeError, ValueError):
        width = height = np.nan
    if not (0 < width <= LARGEST and 0 < height <= LARGEST):
        wanted = f"`figsize` is a width and a height in inches, each above 0 and at most {LARGEST:g}"
        raise TargetError(wanted, f"{figsize!r:.60}", "Use figsize=(7.2, 3.4), say")
    return width, height


def _is_figure(ax: Any) -> bool:
    from matplotlib.figure import FigureBase

    return isinstance(ax, FigureBase)


def _axes(ax: Any, count: int) -> tuple[Any, ...]:
    """The given Axes, as many as there are panels."""
    from matplotlib.axes import Axes

    listed = list(ax.flat) if isinstance(ax, np.ndarray) else list(ax) if isinstance(ax, Sequence) else [ax]
    wrong = next((each for each in listed if not isinstance(each, Axes)), None)
    remedy = f"Pass {count} Axes" if count > 1 else "Pass an Axes"
    if wrong is not None or not listed:
        got = "none" if wrong is None else f"{type(wrong).__name__}"
        raise TargetError("`ax` is made of matplotlib's Axes, or is a Figure or SubFigure", got, remedy)
    if any(each.name not in ("rectilinear",) for each in listed):
        raise TargetError("`ax` must have straight axes", f"projection {listed[0].name}", "Leave `projection` out")
    if len(listed) != count:
        wanted = f"This figure has {count} panel{'s' * (count > 1)}, and `ax` must be as many Axes"
        raise TargetError(wanted, f"{len(listed)}", f"{remedy}, or a Figure or SubFigure, which gets them by itself")
    return tuple(listed)
