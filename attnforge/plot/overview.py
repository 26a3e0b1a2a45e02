"""Target, output and anchors; error against bound; attention map: one figure a compiled target."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from attnforge.plot.attention import draw_attention, shown_attention
from attnforge.plot.given import check_compiled
from attnforge.plot.paths import form_line, form_of
from attnforge.plot.section import section
from attnforge.plot.style import BLUE, GREEN, GREY, ORANGE, WIDTH, draw_error, title
from attnforge.targets import Target

Array = npt.NDArray[np.float64]

SAMPLES = 1501


def overview(compiled: Any) -> Any:
    """A figure of three panels along the line on which the linear form runs through its whole range.

    Above, the target, the network's output and the anchors it chooses among; in the middle, the error against the
    proved bound; below, how much attention each key gets. Targets that are not one truncated linear function, and
    networks whose anchors are not placed along it, are drawn by :func:`attnforge.plot.section`.
    """
    from matplotlib.figure import Figure

    check_compiled(compiled, "overview")
    form = form_of(compiled.target, compiled.network)
    if form is None:
        return section(compiled)
    y, points = form_line(compiled.target, form, compiled.network, SAMPLES)
    figure = Figure(figsize=(WIDTH, 7.6), layout="constrained")
    top, middle, bottom = figure.subplots(3, 1, sharex=True, height_ratios=(3, 1.6, 2.4))
    _values(top, compiled, y, points)
    _errors(middle, compiled, y, points)
    _attention(figure, bottom, compiled)
    top.set_xlim(y[0], y[-1])
    bottom.set_xlabel("linear form  y = w · x + t")
    figure.align_ylabels([top, middle, bottom])
    return figure


def _first_token(target: Target, values: Any) -> Array:
    """The value of the first token, in the output feature."""
    array = np.asarray(values, dtype=np.float64)
    if target.layout == "function":
        return array
    outputs = getattr(target, "outputs", None)
    return array[:, 0] if outputs is None else array[:, 0, getattr(target, "output", 0)]


def _values(axes: Any, compiled: Any, y: Array, points: Array) -> None:
    wanted = _first_token(compiled.target, compiled.target.values(points))
    found = _first_token(compiled.target, compiled(points))
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
    title(axes, compiled.construction, compiled.target.describe())


def _keys(compiled: Any, role: str) -> tuple[Array, Array]:
    """Positions and values of the keys that play a role."""
    claims = [head.claims for head in compiled.network.heads if head.claims is not None]
    found = [float(p) for c in claims for p, r in zip(c.positions, c.roles, strict=True) if r == role]
    form = compiled.target.truncated_form()
    at = np.array(found)
    return at, np.clip(at, float(form.lower.mid), float(form.upper.mid))


def _errors(axes: Any, compiled: Any, y: Array, points: Array) -> None:
    exact = compiled.target.values(points.astype(np.longdouble))
    error = np.abs(_first_token(compiled.target, compiled(points)) - _first_token(compiled.target, exact))
    draw_error(axes, y, error, compiled.certificate)


def _attention(figure: Any, axes: Any, compiled: Any) -> None:
    shown = shown_attention(compiled)
    image = draw_attention(axes, shown.weights, starts=shown.starts, labels=shown.labels, ends=shown.ends)
    axes.set_ylabel(shown.vertical)
    figure.colorbar(image, ax=axes, label="attention weight", pad=0.01)
