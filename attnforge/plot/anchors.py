"""Where the anchors are and what they hold: positions by role, values, gaps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from attnforge.errors import RefusalError
from attnforge.labels import HeadLabel, form_text
from attnforge.network import Network
from attnforge.plot.given import check_compiled, labels_for
from attnforge.plot.keys import Row
from attnforge.plot.line import draw_gaps, has_uneven_gaps
from attnforge.plot.panels import Panels, Size, on_grid, panels
from attnforge.plot.paths import input_names
from attnforge.plot.style import BLUE, GREEN, GREY, ORANGE, SKY, WIDTH
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


def anchors(net: Anchored, *, ax: Any = None, figsize: Size | None = None) -> Any:
    """Positions and values of a network's keys, with anchors, cells, ghosts and sentinels told apart by marker.

    One head along one form: values over positions, and the gaps between neighbours where these differ much. On a grid
    of two: dots coloured by value. Several heads along the same form: a row of dots a head. Heads along forms of their
    own, as for sums: a panel each, the first six.

    Args:
        net: a compiled target.
        ax: where to draw, as :mod:`attnforge.plot.panels` says; None makes a new figure.
        figsize: width and height of a new figure, in inches.

    >>> import attnforge as af
    >>> figure = anchors(af.constructions.max_affine("x^2", {"x": (0, 1)}, cells=4, sharpness="hard"))
    >>> [text.get_text() for text in figure.axes[0].get_legend().get_texts()]
    ['domain', 'cell (4)']
    """
    check_compiled(net, "anchors")
    heads = labels_for(net).heads
    placed = [found for i, head in enumerate(heads) if (found := _placed(head, i, net.target)) is not None]
    if not placed:
        got = f"{len(net.network.heads)} heads of {net.construction}"
        remedy = "Use plot.attention_map or plot.graph"
        raise RefusalError("Some head must hold anchors along one or two inputs", got, remedy)
    if len(placed) == 1 and placed[0].positions.shape[1] == 1:
        drawn = _line(placed[0], ax, figsize)
    elif len(placed) > 1 and _along_one_form(placed):
        drawn = _rows(placed, ax, figsize)
    else:
        drawn = _panels(placed, ax, figsize)
    drawn.head(net.construction, net.target.describe(), _note(placed))
    return drawn.finished()


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


def _line(placed: Placed, ax: Any, figsize: Size | None) -> Panels:
    order = np.argsort(placed.positions[:, 0], kind="stable")
    row = Row(np.ones(1), 0.0, np.unique(placed.positions[order, 0]), None, "anchors")
    uneven = has_uneven_gaps(row)
    count, ratios = 1 + uneven, (2.4, 1) if uneven else (1,)
    drawn = panels(
        ax,
        figsize,
        (WIDTH, 4.4 if uneven else 3.2),
        lambda figure: figure.subplots(count, 1, sharex=True, height_ratios=ratios),
        count=count,
    )
    top, bottom = drawn.axes[0], drawn.axes[-1]
    draw_placed(top, placed)
    top.set_ylabel("value held" if placed.values is not None else "")
    if placed.values is None:
        top.set_yticks([])
    drawn.legend(top, user_text=True)
    if uneven:
        draw_gaps(bottom, row)
    bottom.set_xlabel(placed.names[0], parse_math=False)
    drawn.figure.align_ylabels(drawn.axes)
    return drawn


def _rows(placed: list[Placed], ax: Any, figsize: Size | None) -> Panels:
    """One row a head, dots coloured by the values they hold."""
    shown = placed[:ROWS]
    drawn = panels(ax, figsize, (WIDTH, min(1.6 + 0.28 * len(shown), 7.0)))
    axes = drawn.axes[0]
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
    drawn.legend(axes, user_text=True)
    if image is not None:
        drawn.figure.colorbar(image, ax=axes, label="value held", pad=0.01)
    return drawn


def _panels(placed: list[Placed], ax: Any, figsize: Size | None) -> Panels:
    from matplotlib.ticker import MaxNLocator

    shown = placed[:PANELS]
    columns = min(len(shown), 3 if len(shown) > 2 else 2)
    lines = -(-len(shown) // columns)
    size = (WIDTH if len(shown) > 1 else 4.6, 0.7 + 2.9 * lines)
    places = [divmod(i, columns) for i in range(len(shown))]
    drawn = panels(ax, figsize, size, on_grid(lines, columns, places), count=len(shown))
    for axes, each in zip(drawn.axes, shown, strict=True):
        ends = _ends([each])
        image = draw_placed(axes, each, colours=ends)
        axes.set_xlabel(each.names[0], parse_math=False, fontsize=9)
        axes.set_ylabel(each.names[1] if len(each.names) > 1 else "value held", parse_math=False, fontsize=9)
        axes.tick_params(labelsize=8)
        axes.xaxis.set_major_locator(MaxNLocator(5))
        drawn.legend(axes, user_text=True, size=7)
        if image is not None:
            bar = drawn.figure.colorbar(image, ax=axes, pad=0.02)
            bar.set_label("value held", fontsize=8)
            bar.ax.tick_params(labelsize=8)
    return drawn


def _placed(head: HeadLabel, number: int, target: Target) -> Placed | None:
    places = head.places
    if head.formula is not None or places is None or "weights" in head.evidence or len(places) != len(head.roles):
        return None  # registers of a graph are read by no place, but by their formula
    names = _names(head, places.shape[1], target)
    kept = np.array([role not in ("self", "padding") for role in head.roles])
    kept &= np.isfinite(places).all(axis=1)
    if names is None or not 0 < kept.sum() <= MOST_KEYS:
        return None
    roles = tuple(role for role, keep in zip(head.roles, kept.tolist(), strict=True) if keep)
    return Placed(places[kept], roles, _values(head, kept), names, number, _domain(head, target), head.forms)


def _values(head: HeadLabel, kept: npt.NDArray[np.bool_]) -> Array | None:
    """The first value of every kept key, where the head's memory holds all of these; it comes first among keys."""
    held = head.values
    if held is None or kept[len(held) :].any():
        return None
    return np.asarray(held[kept[: len(held)], 0])


def _names(head: HeadLabel, axes: int, target: Target) -> tuple[str, ...] | None:
    """What the keys lie along: inputs, or forms of them; None where they cannot be drawn."""
    inputs = input_names(target)
    if axes not in (1, 2):
        return None
    if head.forms is None:
        return (f"linear form  y = {head.along[0]}",)
    if head.forms.shape != (axes, target.domain.lower.size + 1):
        return None
    return tuple(form_text(form[:-1], float(form[-1]), inputs) for form in head.forms)


def _domain(head: HeadLabel, target: Target) -> Array | None:
    """The range of every form the keys lie along, (r, 2); None along a form that is not said."""
    lower, upper = target.domain.lower.ravel(), target.domain.upper.ravel()
    if head.forms is None:
        return None
    weights, offsets = head.forms[:, :-1], head.forms[:, -1]
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
