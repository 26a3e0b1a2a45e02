"""Iterates of an algorithm that attention runs: coordinates step by step, distance to a reference, path over a loss."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from attnforge.arrays import float64
from attnforge.errors import DomainError
from attnforge.plot.panels import Size, panels
from attnforge.plot.style import (
    BLUE,
    COLUMN,
    GREEN,
    GREY,
    ORANGE,
    PURPLE,
    SKY,
    WIDTH,
    as_written,
    label_size,
    legend_name,
    log_floor,
)

Array = npt.NDArray[np.float64]
Loss = Callable[[Array], npt.ArrayLike]

LOOKS = ((BLUE, "-"), (ORANGE, "--"), (GREEN, "-."), (PURPLE, ":"), (SKY, "-"), (GREY, "--"))
SIDE = 81  # values of the loss to a side of its contours
ROOM = 0.25  # of the path's extent: how far contours reach beyond it
SIZE = 8  # points of letters


def trajectory(
    iterates: npt.ArrayLike,
    reference: npt.ArrayLike | None = None,
    names: Sequence[str] | None = None,
    *,
    loss: Loss | None = None,
    weights: int = 1,
    ax: Any = None,
    figsize: Size | None = None,
) -> Any:
    """Iterates as ``net.trajectory(X, y)`` gives them, one column wide a panel.

    A panel with every coordinate (the first six) against the step; with a ``reference``, one with the distance to it
    on a logarithmic axis; with a ``loss`` of two coordinates, one with the path over its contours. Of several
    trajectories the first one's coordinates are drawn, and all distances and paths.

    Args:
        iterates: (steps, d) or (..., steps, d), arrays or tensors; with ``weights=2``, (..., steps, d, K).
        reference: a point (d,) such as a minimiser, points (..., d), or iterates (..., steps, d) to compare with; with
            ``weights=2``, K numbers where these have one.
        names: of the d coordinates, or of all d K of them, row by row.
        loss: from points (N, 2) to values (N,).
        weights: axes of one iterate. Shapes do not tell: softmax regression, whose weights are (d, K), needs 2.
        ax: where to draw, as :mod:`attnforge.plot.panels` says; None makes a new figure.
        figsize: width and height of a new figure, in inches.

    >>> steps = np.arange(1, 9)
    >>> figure = trajectory(np.stack([0.5**steps, 0.8**steps], axis=-1), reference=[0.0, 0.0])
    >>> [axes.get_yscale() for axes in figure.axes]
    ['linear', 'log']
    """
    given, entries = _flattened(iterates, weights)
    runs = given.reshape(-1, *given.shape[-2:])
    count, _, d = runs.shape
    labels = _labels(names, entries)
    if loss is not None and d != 2:
        raise DomainError("A path over the contours of a loss has two coordinates", f"{d}", "Leave `loss` out")
    goal = None if reference is None else _reference(reference, given.shape, entries)
    shown = 1 + (goal is not None) + (loss is not None)
    size = (COLUMN if shown == 1 else WIDTH, 2.6)
    drawn = panels(ax, figsize, size, lambda figure: figure.subplots(1, shown), count=shown)
    axes = drawn.axes
    draw_coordinates(axes[0], runs[0], labels, None if goal is None else goal[0, -1])
    if count > 1:
        axes[0].set_title(f"the first of {count:,} trajectories", fontsize=SIZE)
    if goal is not None:
        draw_distance(axes[1], runs, goal)
    if loss is not None:
        draw_path(axes[-1], runs, loss, labels, None if goal is None else goal[0, -1])
    for panel in axes:
        label_size(panel, SIZE)
    return drawn.finished()


def draw_coordinates(axes: Any, iterates: Array, names: Sequence[str], goal: Array | None = None) -> None:
    """Coordinates (steps, d) against the step, the first six; dotted lines at the coordinates of a ``goal`` (d,)."""
    steps = np.arange(1, len(iterates) + 1)
    d = iterates.shape[1]
    for j, (colour, dash) in zip(range(d), LOOKS, strict=False):
        axes.plot(steps, iterates[:, j], color=colour, ls=dash, lw=1.3, label=legend_name(names[j]))
        if goal is not None:
            axes.axhline(goal[j], color=colour, lw=0.7, ls=(0, (1, 2)))
    axes.set_xlabel("step")
    axes.set_ylabel("coordinate" if d <= len(LOOKS) else f"coordinate (first {len(LOOKS)} of {d})")
    as_written(axes.legend(loc="best", fontsize=7, frameon=False, ncols=2, handlelength=2.4))


def draw_distance(axes: Any, runs: Array, goal: Array) -> None:
    """|w - reference| of runs (count, steps, d), the median thick where there are several."""
    distance = np.linalg.norm(runs - goal, axis=-1)
    steps, floor = np.arange(1, distance.shape[1] + 1), log_floor(float(distance.max()), 1e-16)
    shown = np.maximum(distance, floor)
    if len(shown) > 1:
        axes.plot(steps, shown.T, color=SKY, lw=0.6, alpha=0.7)
        axes.plot([], [], color=SKY, lw=0.6, label=f"each of {len(shown):,}")
        axes.plot(steps, np.median(shown, axis=0), color=BLUE, lw=1.5, label="median")
        axes.legend(loc="best", fontsize=7, frameon=False)
    else:
        axes.plot(steps, shown[0], color=BLUE, lw=1.3, marker="o" if len(steps) <= 30 else "", ms=2.5)
    axes.set_yscale("log")
    axes.set_xlabel("step")
    axes.set_ylabel("distance to the reference")


def draw_path(axes: Any, runs: Array, loss: Loss, names: Sequence[str], goal: Array | None = None) -> None:
    """Paths (count, steps, 2) over contours of the loss; a star at the ``goal`` (2,)."""
    marked = runs.reshape(-1, 2) if goal is None else np.vstack([runs.reshape(-1, 2), goal])
    low, high = marked.min(axis=0), marked.max(axis=0)
    room = ROOM * np.where(high > low, high - low, 1.0)
    x, y = (np.linspace(a, b, SIDE) for a, b in zip(low - room, high + room, strict=True))
    points = np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2)
    heights = float64(loss(points)).reshape(SIDE, SIDE)
    above = heights - np.nanmin(heights)
    levels = np.nanmax(above) * np.linspace(0.0, 1.0, 13)[1:-1] ** 2  # closer where the loss is flat
    axes.contour(x, y, above, levels=np.unique(levels), colors=GREY, linewidths=0.6, alpha=0.8)
    for i, run in enumerate(runs):
        axes.plot(run[:, 0], run[:, 1], color=BLUE, lw=1, marker="o", ms=2.5 if len(run) <= 60 else 0)
        axes.plot(*run[0], "s", color=GREEN, ms=5, ls="", label="first step" if i == 0 else None, zorder=3)
    if goal is not None:
        axes.plot(*goal, "*", color=ORANGE, ms=9, ls="", label="reference", zorder=4)
    axes.set_xlabel(names[0], parse_math=False)
    axes.set_ylabel(names[1], parse_math=False)
    axes.legend(loc="best", fontsize=7, framealpha=0.8)


def _flattened(iterates: Any, axes: int) -> tuple[Array, tuple[int, ...]]:
    """The iterates with their coordinates in a row, (..., steps, D), and the shape of one iterate."""
    if axes < 1:
        raise DomainError("`weights` is the number of axes of one iterate, at least 1", repr(axes), "Use 1 or 2")
    array = float64(iterates)
    if array.ndim < 1 + axes or 0 in array.shape:
        shape = {1: "d", 2: "d, K"}.get(axes, f"{axes} axes of weights")
        wanted = f"Iterates have shape (..., steps, {shape})"
        raise DomainError(wanted, f"shape {array.shape}", "Reshape them, or set `weights`")
    if not np.isfinite(array).all():
        raise DomainError("Iterates must be finite", "NaN or infinity", "Take a smaller learning rate")
    return array.reshape(*array.shape[:-axes], -1), array.shape[-axes:]


def _reference(reference: Any, shape: tuple[int, ...], entries: tuple[int, ...]) -> Array:
    """The reference as (count, steps, D): given for all steps, or one point or a point a trajectory."""
    found = float64(reference)
    if found.shape[-len(entries) :] != entries:
        raise _misfit(found, shape, entries)
    given = found.reshape(*found.shape[: -len(entries)], -1)
    fits = given.shape == shape or given.shape == shape[-2:]
    if not fits:
        given = given[..., None, :]
    try:
        return np.broadcast_to(given, shape).reshape(-1, *shape[-2:])
    except ValueError:
        raise _misfit(found, shape, entries) from None


def _misfit(found: Array, shape: tuple[int, ...], entries: tuple[int, ...]) -> DomainError:
    whole = (*shape[:-1], *entries)
    wanted = f"The reference of iterates {whole} is a point, a point each, or as many iterates"
    return DomainError(wanted, f"shape {found.shape}", "Reshape it, or set `weights`")


def _labels(names: Sequence[str] | None, entries: tuple[int, ...]) -> tuple[str, ...]:
    places = list(np.ndindex(*entries))
    if names is None:
        return tuple("w" + ",".join(str(i) for i in place) for place in places)
    if len(names) != len(places):
        wanted = f"There must be a name for each of the {len(places)} coordinates"
        raise DomainError(wanted, f"{len(names)}", "Name all of them")
    return tuple(str(name) for name in names)
