"""The error over the domain, the worst point seen, and the bound it must stay below."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from attnforge.plot.given import check_compiled
from attnforge.plot.line import line_sample
from attnforge.plot.listing import listed_sample
from attnforge.plot.panels import Size, panels
from attnforge.plot.paths import form_of, input_names, shown_inputs
from attnforge.plot.plane import draw_error_map, is_plane, label_inputs, map_note, plane_sample
from attnforge.plot.sampling import Sample, Sectionable, sampled
from attnforge.plot.style import BLUE, COLUMN, ORANGE, label_size, largest_seen, log_floor
from attnforge.targets import Table

Array = npt.NDArray[np.float64]

SIZE = 8  # points of letters
SAMPLES = 1501  # along the form of a truncated linear function


def error_map(net: Sectionable, *, ax: Any = None, figsize: Size | None = None) -> Any:
    """The error |net(x) - f(x)|, the largest over the outputs, on a logarithmic scale, one column wide.

    One input, or a line through the domain of more than two: a curve below the line of its bound, with a ring around
    the worst point. Two inputs: a map with the ring. Tables: a dot a listed point. What is seen here and what the
    certificate's search saw are lower bounds of the error; only the bound is one from above.

    Args:
        net: a compiled target.
        ax: where to draw, as :mod:`attnforge.plot.panels` says; None makes a new figure.
        figsize: width and height of a new figure, in inches.

    >>> import attnforge as af
    >>> axes = error_map(af.compile("sin(3*x)", {"x": (-1, 1)}, tol=1e-3)).axes[0]
    >>> axes.get_yscale(), axes.get_legend().get_texts()[1].get_text().startswith("proved bound")
    ('log', True)
    """
    from matplotlib.ticker import MaxNLocator

    check_compiled(net, "error_map")
    listed = listed_sample(net, net.target) if isinstance(net.target, Table) else None
    flat = is_plane(net.target)
    drawn = panels(ax, figsize, (COLUMN, 3.5 if flat else 2.7))
    axes = drawn.axes[0]
    note = ""
    if flat:
        draw_error_map(drawn.figure, axes, net, listed or plane_sample(net), dots=listed is not None)
        label_inputs((axes,), input_names(net.target))
        note = map_note(net, short=True)
    elif listed is not None:
        alone = listed.points.shape[1] == 1
        along = listed.points[:, 0] if alone else np.arange(len(listed.points), dtype=np.float64)
        draw_log_error(axes, along, listed, net, joined=False)
        axes.set_xlabel((net.target.names or ("x",))[0] if alone else "listed point", parse_math=False)
    else:
        along, sample, name = _line_sample(net)
        draw_log_error(axes, along, sample, net)
        axes.set_xlabel(name, parse_math=False)
    if not flat:
        drawn.legend(axes, size=7)
    label_size(axes, SIZE)
    axes.xaxis.set_major_locator(MaxNLocator(5))
    drawn.head(net.construction, net.target.describe(), note)
    return drawn.finished()


def draw_log_error(axes: Any, along: Array, sample: Sample, net: Sectionable, *, joined: bool = True) -> None:
    """The error over ``along`` (N,) in the given panel, its bound and its worst point, on a logarithmic axis.

    The legend is the caller's.
    """
    certificate = net.certificate
    seen = largest_seen(sample.error, certificate)
    floor = log_floor(seen)
    shown = np.maximum(sample.error, floor)
    look: dict[str, Any] = {"lw": 0.9} if joined else {"ls": "", "marker": "o", "ms": 2}
    axes.plot(along, shown, color=BLUE, label="|output − target|", **look)
    top = max(seen, 10 * floor)
    if certificate.bound is not None:
        kind = "bound" if certificate.norm == "sup" else f"{certificate.norm} bound"
        label = f"{certificate.status} {kind} {certificate.bound:.2g}"
        axes.axhline(max(certificate.bound, floor), color=ORANGE, lw=1.2, ls="--", label=label)
        top = max(top, certificate.bound)
    at, worst = _worst(along, sample, net)
    label = f"worst point seen, {worst:.2g}" + ("" if certificate.bound is not None else " (not a bound)")
    axes.plot(at, max(worst, floor), "o", ms=7, mfc="none", mec="black", mew=1.2, label=label, ls="")
    axes.set_yscale("log")
    axes.set_ylim(floor, top * 3)
    axes.set_ylabel("error")


def _line_sample(net: Sectionable) -> tuple[Array, Sample, str]:
    """Along the form of a truncated linear function, through its kinks; else as :func:`attnforge.plot.section`."""
    if form_of(net.target, net.network) is None:
        return line_sample(net)
    along, points, name = shown_inputs(net.target, net.network, SAMPLES)
    return along, sampled(net, points), name


def _worst(along: Array, sample: Sample, net: Sectionable) -> tuple[float, float]:
    """Where the largest error is: the certificate's search knows better, where its point is on this axis."""
    estimate, i = net.certificate.estimate, int(sample.error.argmax())
    alone = net.target.domain.shape == (1,) and net.target.layout == "function" and net.certificate.norm == "sup"
    alone = alone and form_of(net.target, net.network) is None  # else the axis is the form, not the input
    if alone and estimate is not None and len(estimate.at) == 1 and estimate.error >= sample.error[i]:
        return estimate.at[0], estimate.error
    return float(along[i]), float(sample.error[i])
