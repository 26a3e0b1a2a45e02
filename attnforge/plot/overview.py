"""Target, output and anchors; error against bound; attention map: one figure a compiled target."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from attnforge.network import Attention, count_keys
from attnforge.plot.attention import BUDGET, COLUMNS, draw_shown, shown_attention
from attnforge.plot.given import check_compiled, labels_for
from attnforge.plot.keys import single_row
from attnforge.plot.line import line
from attnforge.plot.panels import Size, panels
from attnforge.plot.paths import form_line, form_of
from attnforge.plot.plane import is_plane
from attnforge.plot.sampling import first_token
from attnforge.plot.section import section
from attnforge.plot.style import BLUE, GREEN, GREY, ORANGE, WIDTH, draw_error
from attnforge.targets import Table, TruncatedForm

Array = npt.NDArray[np.float64]

SAMPLES = 1501


def overview(compiled: Any, *, ax: Any = None, figsize: Size | None = None) -> Any:
    """Values, error against bound, and attention, one below the other, along one input or one linear form.

    Above, the target, the network's output and the anchors it chooses among; then the error against the proved bound,
    and the gaps between anchors where these differ; below, how much attention each key gets, of networks of one layer.
    Targets that are not drawn along a line are drawn by :func:`attnforge.plot.section`.

    Args:
        compiled: a compiled target.
        ax: where to draw, as :mod:`attnforge.plot.panels` says; None makes a new figure.
        figsize: width and height of a new figure, in inches.
    """
    check_compiled(compiled, "overview")
    form = form_of(compiled.target, compiled.network)
    if form is not None:
        return _along_form(compiled, form, ax, figsize)
    if _is_one_layer(compiled):
        return line(compiled, ax, figsize, attention=shown_attention(compiled))
    return section(compiled, ax=ax, figsize=figsize)


def _is_one_layer(compiled: Any) -> bool:
    """Whether all attention is that of one layer, which a map along a line can hold."""
    target, network = compiled.target, compiled.network
    layers = sum(isinstance(layer, Attention) for layer in network.layers)
    is_line = target.layout == "function" and single_row(network, target.domain) is not None and not is_plane(target)
    return layers == 1 and is_line and not isinstance(target, Table) and count_keys(network) <= BUDGET // COLUMNS


def _along_form(compiled: Any, form: TruncatedForm, ax: Any, figsize: Size | None) -> Any:
    y, points = form_line(compiled.target, form, compiled.network, SAMPLES)
    drawn = panels(
        ax,
        figsize,
        (WIDTH, 7.6),
        lambda figure: figure.subplots(3, 1, sharex=True, height_ratios=(3, 1.6, 2.4)),
        count=3,
    )
    top, middle, bottom = drawn.axes
    _values(top, compiled, y, points)
    _errors(middle, compiled, y, points)
    draw_shown(drawn.figure, bottom, shown_attention(compiled))
    top.set_xlim(y[0], y[-1])
    bottom.set_xlabel("linear form  y = w · x + t")
    drawn.figure.align_ylabels(drawn.axes)
    drawn.head(compiled.construction, compiled.target.describe())
    return drawn.finished()


def _values(axes: Any, compiled: Any, y: Array, points: Array) -> None:
    wanted = first_token(compiled.target, compiled.target.values(points))
    found = first_token(compiled.target, compiled(points))
    axes.plot(y, wanted, color=GREY, lw=3.5, alpha=0.5, label="target")
    axes.plot(y, found, color=BLUE, lw=1.3, label="attention output")
    for role, marker, colour in (
        ("anchor", "o", ORANGE),
        ("ghost", "s", GREEN),
        ("low", "v", ORANGE),
        ("high", "^", ORANGE),
    ):
        at, height = _keys(compiled, role)
        inside = (at >= y[0]) & (at <= y[-1])
        if inside.any():
            size = 26 if inside.sum() <= 60 else 6
            name = {"low": "low key", "high": "high key"}.get(role, f"{role}s ({inside.sum()})")
            axes.scatter(at[inside], height[inside], s=size, marker=marker, color=colour, zorder=3, label=name)
    axes.set_ylabel("value")
    axes.legend(loc="upper left", frameon=False, fontsize=9)


def _keys(compiled: Any, role: str) -> tuple[Array, Array]:
    """Positions and values of the keys that play a role."""
    heads = [(head.places, head.roles) for head in labels_for(compiled).heads if head.places is not None]
    found = [float(at) for places, roles in heads for at, r in zip(places[:, 0], roles, strict=True) if r == role]
    form = compiled.target.truncated_form()
    at = np.array(found)
    return at, np.clip(at, float(form.lower.mid), float(form.upper.mid))


def _errors(axes: Any, compiled: Any, y: Array, points: Array) -> None:
    exact = compiled.target.values(points.astype(np.longdouble))
    error = np.abs(first_token(compiled.target, compiled(points)) - first_token(compiled.target, exact))
    draw_error(axes, y, error, compiled.certificate)
