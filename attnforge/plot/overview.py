"""Target, output and anchors; error against bound; attention map: one figure a compiled target."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from attnforge.certification import Certificate
from attnforge.errors import TargetError
from attnforge.network import Network
from attnforge.plot.section import section
from attnforge.plot.style import BLUE, GREEN, GREY, ORANGE, draw_error, title
from attnforge.targets import Target, TruncatedForm

Array = npt.NDArray[np.float64]

SAMPLES = 1501
COLUMNS = 401  # of the attention map


class Plottable(Protocol):
    """What the figure needs of a compiled target."""

    network: Network
    target: Target
    certificate: Certificate
    construction: str

    def __call__(self, x: Array) -> Any:
        """Values."""

    def attention(self, x: Array) -> list[list[Any]]:
        """Attention weights."""

    def at_points(self, points: Array) -> Array:
        """Values at points of the domain."""


def overview(compiled: Plottable) -> Any:
    """A figure of three panels along the line on which the linear form runs through its whole range.

    Above, the target, the network's output and the anchors it chooses among; in the middle, the error against the
    proved bound; below, how much attention each key gets. Targets that are not one truncated linear function, and
    networks whose anchors are not placed along it, are drawn by :func:`attnforge.plot.section`.
    """
    from matplotlib.figure import Figure

    try:
        form = compiled.target.truncated_form()
    except TargetError:
        return section(compiled)
    if any(head.claims is not None and head.claims.positions.ndim > 1 for head in compiled.network.heads):
        return section(compiled)
    y, points = _line(compiled.target, form, compiled.network, SAMPLES)
    figure = Figure(figsize=(7.2, 7.6), layout="constrained")
    top, middle, bottom = figure.subplots(3, 1, sharex=True, height_ratios=(3, 1.6, 2.4))
    _values(top, compiled, y, points)
    _errors(middle, compiled, y, points)
    _attention(figure, bottom, compiled, form)
    bottom.set_xlabel("linear form  y = w · x + t")
    figure.align_ylabels([top, middle, bottom])
    return figure


def _line(target: Target, form: TruncatedForm, network: Network, count: int) -> tuple[Array, Array]:
    """Values of the first token's form and the points that have them, shaped for a call."""
    w, t = form.weights.mid[0], float(form.offsets.mid[0])
    tokens = network.tokens or 1
    box = target.domain.fixed((tokens, network.features)) if target.layout == "tokens" else target.domain
    lower, upper = np.atleast_2d(box.lower)[0], np.atleast_2d(box.upper)[0]
    middle, radius = (lower + upper) / 2, (upper - lower) / 2
    reach, start = float(np.abs(w) @ radius), float(w @ middle) + t
    a, b = float(form.lower.mid), float(form.upper.mid)
    margin = 0.35 * (b - a)
    low, high = max(start - reach, a - margin), min(start + reach, b + margin)
    if low >= high:
        low, high = start - reach, start + reach
    if low == high:  # a form that does not vary: a little room for the axis
        low, high = low - 0.5, high + 0.5
    y = np.linspace(low, high, count)
    s = np.clip((y - start) / reach if reach else 0 * y, -1, 1)
    first = middle + s[:, None] * radius * np.sign(w)
    if target.layout == "function":
        return y, first
    points = np.broadcast_to(box.middle, (count, tokens, network.features)).copy()
    points[:, 0] = first
    return y, points


def _first_token(target: Target, values: Any) -> Array:
    """The value of the first token, in the output feature."""
    array = np.asarray(values, dtype=np.float64)
    if target.layout == "function":
        return array
    outputs = getattr(target, "outputs", None)
    return array[:, 0] if outputs is None else array[:, 0, getattr(target, "output", 0)]


def _values(axes: Any, compiled: Plottable, y: Array, points: Array) -> None:
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


def _keys(compiled: Plottable, role: str) -> tuple[Array, Array]:
    """Positions and values of the keys that play a role."""
    claims = [head.claims for head in compiled.network.heads if head.claims is not None]
    found = [float(p) for c in claims for p, r in zip(c.positions, c.roles, strict=True) if r == role]
    form = compiled.target.truncated_form()
    at = np.array(found)
    return at, np.clip(at, float(form.lower.mid), float(form.upper.mid))


def _errors(axes: Any, compiled: Plottable, y: Array, points: Array) -> None:
    exact = compiled.target.values(points.astype(np.longdouble))
    error = np.abs(_first_token(compiled.target, compiled(points)) - _first_token(compiled.target, exact))
    draw_error(axes, y, error, compiled.certificate)


def _attention(figure: Any, axes: Any, compiled: Plottable, form: TruncatedForm) -> None:
    y, points = _line(compiled.target, form, compiled.network, COLUMNS)
    layer = compiled.attention(points)[0]
    weights = np.concatenate([np.asarray(head)[:, 0, :] for head in layer], axis=1).T
    extent = (float(y[0]), float(y[-1]), -0.5, len(weights) - 0.5)
    look = {"cmap": "viridis", "vmin": 0, "vmax": 1, "interpolation": "nearest"}  # keys do not blend
    image = axes.imshow(weights, aspect="auto", origin="lower", extent=extent, **look)
    axes.set_ylabel("key" if len(layer) == 1 else f"key ({len(layer)} heads)")
    roles = [role for head in compiled.network.heads if head.claims for role in head.claims.roles]
    if len(weights) <= 4 and len(roles) == len(weights):
        axes.set_yticks(range(len(weights)), roles, parse_math=False)
    for place in np.cumsum([np.asarray(head).shape[-1] for head in layer])[:-1]:
        axes.axhline(place - 0.5, color="white", lw=0.6, alpha=0.7)
    figure.colorbar(image, ax=axes, label="attention weight", pad=0.01)
