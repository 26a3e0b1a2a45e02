"""Functions of two inputs: maps of target, output and error side by side."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from attnforge.certification import Certificate
from attnforge.network import Network
from attnforge.plot.keys import counted, planes, rows
from attnforge.plot.panels import Size, panels
from attnforge.plot.paths import input_names
from attnforge.plot.sampling import Sample, Sectionable, finest
from attnforge.plot.style import GREY, SKY, WIDTH, largest_seen, log_floor
from attnforge.targets import Box, Target

Array = npt.NDArray[np.float64]

COUNTS = (9, 17, 33, 65, 129)  # samples to a side
MOST_ANCHORS = 4000  # drawn: more would hide the error
MOST_LINES = 60


def plane(compiled: Sectionable, ax: Any = None, figsize: Size | None = None) -> Any:
    """Three maps of the box: target, output (the first of several), and log10 of the largest error over the outputs.

    The error's map marks the worst point seen and the anchors: dots on a grid, lines for heads that read one form.
    """
    box = compiled.target.domain
    sample = plane_sample(compiled)
    drawn = panels(ax, figsize, (WIDTH, 3.75), lambda figure: figure.subplots(1, 3, sharey=True), count=3)
    left, middle, right = drawn.axes
    outputs = sample.wanted.shape[1]
    pictures = [
        draw_map(axes, box, values[:, 0], limits(sample.wanted[:, 0]), "viridis")
        for axes, values in ((left, sample.wanted), (middle, sample.found))
    ]
    left.set_title("target", fontsize=9)
    middle.set_title("attention output", fontsize=9)
    draw_bar(drawn.figure, pictures[0], [left, middle], "value" if outputs == 1 else f"value (first of {outputs})")
    draw_error_map(drawn.figure, right, compiled, sample)
    label_inputs((left, middle, right), input_names(compiled.target))
    drawn.head(compiled.construction, compiled.target.describe(), map_note(compiled))
    return drawn.finished()


def is_plane(target: Target) -> bool:
    """Whether a target is a function of two inputs that both vary."""
    box = target.domain
    return target.layout == "function" and box.shape == (2,) and bool((box.upper > box.lower).all())


def plane_sample(compiled: Sectionable) -> Sample:
    """Samples on a grid of the box, as fine as the time allows."""
    return finest(compiled, [mesh(compiled.target.domain, count) for count in COUNTS])


def mesh(box: Box, count: int) -> Array:
    """Points (count^2, 2) of an even grid of the box, the first input changing fastest, as images are stored."""
    x, y = (np.linspace(low, high, count) for low, high in zip(box.lower, box.upper, strict=True))
    return np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2)


def limits(values: Array) -> tuple[float, float]:
    """Smallest and largest, with room between them."""
    low, high = float(values.min()), float(values.max())
    return (low, high) if high > low else (low - 0.5, high + 0.5)


def draw_map(axes: Any, box: Box, values: Array, ends: tuple[float, float], colours: str) -> Any:
    """An image of values (count^2,) on the box."""
    side = round(len(values) ** 0.5)
    extent = (float(box.lower[0]), float(box.upper[0]), float(box.lower[1]), float(box.upper[1]))
    return axes.imshow(
        values.reshape(side, side),
        origin="lower",
        extent=extent,
        aspect="auto",
        cmap=colours,
        vmin=ends[0],
        vmax=ends[1],
        interpolation="bilinear",
    )


def draw_bar(figure: Any, image: Any, axes: Any, label: str, *, whole: bool = False) -> None:
    """What the colours mean, below one panel or several; ``whole`` numbers for exponents."""
    from matplotlib.ticker import MaxNLocator

    wide = isinstance(axes, list)
    bar = figure.colorbar(image, ax=axes, location="bottom", fraction=0.06, pad=0.03, aspect=40 if wide else 20)
    bar.locator = MaxNLocator(8 if wide else 5, integer=whole)
    bar.update_ticks()
    bar.ax.tick_params(labelsize=8)
    bar.set_label(label, fontsize=8)


def label_inputs(panels: tuple[Any, ...], names: tuple[str, ...]) -> None:
    """Names of the two inputs along the panels, which share the second one."""
    first, second = names
    for axes in panels:
        axes.set_xlabel(first, parse_math=False)
        axes.tick_params(labelsize=8)
    panels[0].set_ylabel(second, parse_math=False)


def error_title(seen: float, certificate: Certificate) -> str:
    """What is known of the largest error."""
    if certificate.bound is not None:
        kind = "" if certificate.norm == "sup" else f"{certificate.norm} "
        return f"error; {certificate.status} {kind}bound {certificate.bound:.2g}"
    return f"largest error seen {seen:.2g}"


def map_note(compiled: Sectionable, *, short: bool = False) -> str:
    """Size of the network, unless it must be ``short``, and what the ring is."""
    ring = "ring: worst point seen" + (" (not a bound)" if compiled.certificate.bound is None else "")
    return ring if short else f"{counted(compiled.network)}; {ring}"


def mark_worst(axes: Any, points: Array, error: Array, certificate: Certificate) -> None:
    """A ring around the worst point seen, by the search of the certificate or in the figure."""
    estimate, worst = certificate.estimate, points[int(error.argmax())]
    if estimate is not None and len(estimate.at) == 2 and estimate.error >= error.max():
        worst = np.array(estimate.at)
    axes.plot(*worst, "o", ms=9, mfc="none", mec="black", mew=2.6, clip_on=False, zorder=4)
    axes.plot(*worst, "o", ms=9, mfc="none", mec="white", mew=1.3, clip_on=False, zorder=5)


def draw_error_map(figure: Any, axes: Any, compiled: Sectionable, sample: Sample, *, dots: bool = False) -> None:
    """log10 of the error on the box, or as ``dots`` where it is known at single points, with the worst point."""
    box = compiled.target.domain
    seen = largest_seen(sample.error, compiled.certificate)
    floor = log_floor(seen)
    logs = np.log10(np.maximum(sample.error, floor))
    ends = float(np.log10(floor)), float(np.log10(max(seen, 10 * floor)))
    if dots:
        look = {"s": 22 if len(logs) <= 400 else 6, "cmap": "YlOrBr", "vmin": ends[0], "vmax": ends[1]}
        image = axes.scatter(*sample.points.T, c=logs, clip_on=False, edgecolors=GREY, linewidths=0.3, **look)
    else:
        image = draw_map(axes, box, logs, ends, "YlOrBr")
        _draw_anchors(axes, compiled.network, box)
        axes.set_xlim(box.lower[0], box.upper[0])
        axes.set_ylim(box.lower[1], box.upper[1])
    axes.set_title(error_title(seen, compiled.certificate), fontsize=9)
    mark_worst(axes, sample.points, sample.error, compiled.certificate)
    draw_bar(figure, image, axes, "log10 of the error" + " at listed points" * dots, whole=True)


def _draw_anchors(axes: Any, network: Network, box: Box) -> None:
    for at in planes(network, box):
        if len(at) <= MOST_ANCHORS:
            axes.scatter(at[:, 0], at[:, 1], s=14 if len(at) <= 150 else 4, color=SKY, alpha=0.7, linewidths=0)
    x, y = (np.linspace(low, high, 33) for low, high in zip(box.lower, box.upper, strict=True))
    for row in rows(network, box):
        levels = np.unique(row.positions)
        if row.weights.any() and len(levels):
            form = row.weights[0] * x + row.weights[1] * y[:, None] + row.offset
            axes.contour(
                x, y, form, levels=levels[:: -(-len(levels) // MOST_LINES)], colors=SKY, alpha=0.6, linewidths=0.6
            )
