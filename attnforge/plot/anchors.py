"""Where the anchors are and what they hold: positions by role, values, gaps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from attnforge.errors import RefusalError
from attnforge.network import Head, Network
from attnforge.plot.given import check_compiled
from attnforge.plot.keys import Row
from attnforge.plot.line import draw_gaps, has_uneven_gaps
from attnforge.plot.paths import form_text, input_names
from attnforge.plot.style import BLUE, GREEN, GREY, ORANGE, SKY, WIDTH, figure_title, legend_above
from attnforge.targets import Target

Array = npt.NDArray[np.float64]

LOOKS = {  # role: marker and colour
    "anchor": ("o", ORANGE),
    "cell": ("o", ORANGE),
    "centre": ("o", ORANGE),
    "ghost": ("s", GREEN),
    "sentinel": ("D", BLUE),
    "low": ("v", ORANGE),
    "high": ("^", ORANGE),
}
PANELS = 6  # heads drawn one by one
ROWS = 40  # heads drawn as rows of one panel
MOST_KEYS = 20_000  # drawn in one panel


class Anchored(Protocol):
    """What the figure needs of a compiled target."""

    network: Network
    target: Target
    construction: str


@dataclass(frozen=True, eq=False)
class Placed:
    """Keys that sit somewhere: positions (p, r) along r forms, roles, first values (p,) if the head holds any.

    ``domain`` (r, 2) are the least and the largest value of each form on the target's domain, where it is known;
    ``forms`` (r, D + 1) the forms themselves, as claimed, None for the inputs and for a form that is not known.
    """

    positions: Array
    roles: tuple[str, ...]
    values: Array | None
    names: tuple[str, ...]
    number: int
    domain: Array | None
    forms: Array | None


def anchors(net: Anchored) -> Any:
    """Positions and values of a network's keys, with anchors, cells, ghosts and sentinels told apart by marker.

    One head along one form: values over positions, and the gaps between neighbours where these differ much. On a grid
    of two: dots coloured by value. Several heads along the same form: a row of dots a head. Heads along forms of their
    own, as for sums: a panel each, the first six.

    >>> import attnforge as af
    >>> figure = anchors(af.constructions.max_affine("x^2", {"x": (0, 1)}, cells=4, sharpness="hard"))
    >>> [text.get_text() for text in figure.axes[0].get_legend().get_texts()]
    ['domain', 'cell (4)']
    """
    check_compiled(net, "anchors")
    placed = [found for i, head in enumerate(net.network.heads) if (found := _placed(head, i, net)) is not None]
    if not placed:
        got = f"{len(net.network.heads)} heads of {net.construction}"
        remedy = "Use plot.attention_map or plot.graph"
        raise RefusalError("Some head must hold anchors along one or two inputs", got, remedy)
    if len(placed) == 1:
        figure = _line(placed[0]) if placed[0].positions.shape[1] == 1 else _panels(placed)
    elif _along_one_form(placed):
        figure = _rows(placed)
    else:
        figure = _panels(placed)
    figure_title(figure, net.construction, net.target.describe(), _note(placed))
    return figure


def _along_one_form(placed: Sequence[Placed]) -> bool:
    """Whether all heads have their keys along the same single form: only then can they share an axis.

    Names do not tell: those of long forms are all alike.
    """
    first = placed[0]
    return all(
        each.positions.shape[1] == 1
        and each.names == first.names
        and (each.forms is None) == (first.forms is None)
        and (each.forms is None or first.forms is None or np.array_equal(each.forms, first.forms))
        for each in placed
    )


def draw_placed(axes: Any, placed: Placed, *, colours: tuple[float, float] | None = None) -> Any:
    """The keys of one head in a panel, a marker a role; on two axes coloured by value; returns the image, if any."""
    image, flat = None, placed.positions.shape[1] == 1
    values = placed.values
    _draw_domain(axes, placed.domain)
    roles = np.array(placed.roles)
    for role in dict.fromkeys(placed.roles):
        chosen = roles == role
        marker, colour = LOOKS.get(role, ("x", GREY))
        x = placed.positions[chosen, 0]
        y = placed.positions[chosen, 1] if not flat else np.zeros(len(x)) if values is None else values[chosen]
        look: dict[str, Any] = {"marker": marker, "s": _size(len(roles), flat), "zorder": 3}
        label = f"{role} ({chosen.sum():,})"
        if flat or values is None or colours is None:
            axes.scatter(x, y, color=colour, linewidths=0, label=label, **look)
        else:
            scale: dict[str, Any] = {"cmap": "viridis", "vmin": colours[0], "vmax": colours[1]}
            image = axes.scatter(x, y, c=values[chosen], edgecolors=GREY, linewidths=0.4, label=label, **scale, **look)
    return image


def _draw_domain(axes: Any, domain: Array | None) -> None:
    """Where the domain ends: what lies beyond is there for the sake of its edge only."""
    if domain is None:
        return
    if len(domain) == 1:
        axes.axvspan(*domain[0], color=SKY, alpha=0.12, lw=0, label="domain")
        return
    (left, right), (low, high) = domain
    axes.fill_between([left, right], low, high, color=SKY, alpha=0.18, lw=0, label="domain")


def _line(placed: Placed) -> Any:
    from matplotlib.figure import Figure

    order = np.argsort(placed.positions[:, 0], kind="stable")
    row = Row(np.ones(1), 0.0, np.unique(placed.positions[order, 0]), None, "anchors")
    uneven = has_uneven_gaps(row)
    figure = Figure(figsize=(WIDTH, 4.4 if uneven else 3.2), layout="constrained")
    panels = np.atleast_1d(figure.subplots(1 + uneven, 1, sharex=True, height_ratios=(2.4, 1) if uneven else (1,)))
    draw_placed(panels[0], placed)
    panels[0].set_ylabel("value held" if placed.values is not None else "")
    if placed.values is None:
        panels[0].set_yticks([])
    legend_above(panels[0], user_text=True)
    if uneven:
        draw_gaps(panels[1], row)
    panels[-1].set_xlabel(placed.names[0], parse_math=False)
    figure.align_ylabels(panels)
    return figure


def _rows(placed: list[Placed]) -> Any:
    """One row a head, dots coloured by the values they hold."""
    from matplotlib.figure import Figure

    shown = placed[:ROWS]
    figure = Figure(figsize=(WIDTH, min(1.6 + 0.28 * len(shown), 7.0)), layout="constrained")
    axes = figure.subplots()
    ends = _ends(shown)
    seen: set[str] = set()
    image = None
    for height, each in enumerate(shown):
        roles = np.array(each.roles)
        for role in dict.fromkeys(each.roles):
            chosen = roles == role
            marker, colour = LOOKS.get(role, ("x", GREY))
            label = None if role in seen else role
            seen.add(role)
            look: dict[str, Any] = {"s": 24, "marker": marker, "label": label, "edgecolors": colour, "linewidths": 1}
            at = each.positions[chosen, 0]
            if each.values is None or ends is None:
                axes.scatter(at, np.full(len(at), height), color="none", **look)
            else:
                scale: dict[str, Any] = {"cmap": "viridis", "vmin": ends[0], "vmax": ends[1]}
                image = axes.scatter(at, np.full(len(at), height), c=each.values[chosen], **scale, **look)
    axes.set_yticks(range(len(shown)), [str(each.number + 1) for each in shown], fontsize=7 if len(shown) > 20 else 9)
    axes.set_ylim(len(shown) - 0.5, -0.5)
    axes.set_ylabel("head")
    axes.set_xlabel(placed[0].names[0], parse_math=False)
    legend_above(axes, user_text=True)
    if image is not None:
        figure.colorbar(image, ax=axes, label="value held", pad=0.01)
    return figure


def _panels(placed: list[Placed]) -> Any:
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    shown = placed[:PANELS]
    columns = min(len(shown), 3 if len(shown) > 2 else 2)
    lines = -(-len(shown) // columns)
    figure = Figure(figsize=(WIDTH if len(shown) > 1 else 4.6, 0.7 + 2.9 * lines), layout="constrained")
    panels = np.atleast_1d(figure.subplots(lines, columns)).ravel()
    for axes, each in zip(panels, shown, strict=False):
        ends = _ends([each])
        image = draw_placed(axes, each, colours=ends)
        axes.set_xlabel(each.names[0], parse_math=False, fontsize=9)
        axes.set_ylabel(each.names[1] if len(each.names) > 1 else "value held", parse_math=False, fontsize=9)
        axes.tick_params(labelsize=8)
        axes.xaxis.set_major_locator(MaxNLocator(5))
        legend_above(axes, user_text=True, size=7, columns=2 if len(shown) > 1 else None)
        if image is not None:
            bar = figure.colorbar(image, ax=axes, pad=0.02)
            bar.set_label("value held", fontsize=8)
            bar.ax.tick_params(labelsize=8)
    for axes in panels[len(shown) :]:
        axes.set_axis_off()
    return figure


def _placed(head: Head, number: int, net: Anchored) -> Placed | None:
    claims = head.claims
    if claims is None or claims.formula is not None or len(claims.roles) != len(claims.positions) or not claims.roles:
        return None  # registers of a graph are read by no place, but by their formula
    positions = claims.positions.reshape(len(claims.roles), -1)
    names = _names(head, positions.shape[1], claims.positions.ndim, net)
    kept = np.array([role not in ("self", "padding") for role in claims.roles])
    kept &= np.isfinite(positions).all(axis=1)
    if names is None or not 0 < kept.sum() <= MOST_KEYS:
        return None
    roles = tuple(role for role, keep in zip(claims.roles, kept.tolist(), strict=True) if keep)
    return Placed(positions[kept], roles, _values(head, kept), names, number, _domain(head, net), claims.forms)


def _values(head: Head, kept: npt.NDArray[np.bool_]) -> Array | None:
    """The first value of every kept key, where the head's memory holds all of these; it comes first among keys."""
    held = head.memory_values
    if held is None or kept[len(held) :].any():
        return None
    return np.asarray(held[kept[: len(held)], 0])


def _names(head: Head, axes: int, dimensions: int, net: Anchored) -> tuple[str, ...] | None:
    """What the keys lie along: inputs, forms of them, or a form known only as y; None where they cannot be drawn."""
    inputs, claims = input_names(net.target), head.claims
    if axes not in (1, 2) or claims is None:
        return None
    size = net.target.domain.lower.size
    if claims.forms is not None:
        if claims.forms.shape != (axes, size + 1):
            return None
        return tuple(form_text(form[:-1], float(form[-1]), inputs) for form in claims.forms)
    if dimensions == 1:
        return ("linear form  y = w · x + t",)
    if axes != size:
        return None
    return inputs


def _domain(head: Head, net: Anchored) -> Array | None:
    """The range of every form the keys lie along, (r, 2); None along a form that is not known."""
    lower, upper, claims = net.target.domain.lower.ravel(), net.target.domain.upper.ravel(), head.claims
    if claims is None or claims.positions.ndim == 1:
        return None
    if claims.forms is None:
        return np.column_stack([lower, upper])
    weights, offsets = claims.forms[:, :-1], claims.forms[:, -1]
    middle, reach = weights @ (lower / 2 + upper / 2) + offsets, np.abs(weights) @ (upper / 2 - lower / 2)
    return np.column_stack([middle - reach, middle + reach])


def _ends(placed: Sequence[Placed]) -> tuple[float, float] | None:
    """Smallest and largest value held."""
    held = [each.values for each in placed if each.values is not None]
    if not held:
        return None
    low, high = min(float(v.min()) for v in held), max(float(v.max()) for v in held)
    return (low, high) if high > low else (low - 0.5, high + 0.5)


def _size(count: int, flat: bool) -> float:
    return 30 if count <= 60 else 18 if count <= 400 and not flat else 10 if count <= 400 else 4


def _note(placed: list[Placed]) -> str:
    keys = sum(len(each.roles) for each in placed)
    most = ROWS if _along_one_form(placed) else PANELS
    heads = f"{len(placed):,} heads" if len(placed) > 1 else "1 head"
    shown = f", the first {most} shown" if len(placed) > most else ""
    return f"{heads}{shown}; {keys:,} keys that sit along the inputs"
