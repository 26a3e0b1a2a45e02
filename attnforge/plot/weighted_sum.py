"""How it adds up: softmax weights over the inputs, times the values the keys hold, summed to the output."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from attnforge.errors import DomainError, RefusalError
from attnforge.network import count_keys
from attnforge.plot.attention import BUDGET, COLUMNS
from attnforge.plot.given import check_compiled
from attnforge.plot.keys import single_row
from attnforge.plot.line import draw_anchors, refined
from attnforge.plot.panels import Panels, Size, panels
from attnforge.plot.paths import form_of, path_through, shown_inputs
from attnforge.plot.sampling import Sectionable, first_token, known_values
from attnforge.plot.style import BLUE, GREEN, GREY, ORANGE, PURPLE, SKY, WIDTH
from attnforge.plot.summands import Keys, Summands, summands

Array = npt.NDArray[np.float64]

SAMPLES = 1001
MOST_KEYS = BUDGET // COLUMNS
COLOURS = (BLUE, ORANGE, GREEN, PURPLE, SKY)  # of neighbouring keys, or of heads
FEW = 24  # keys whose curves are drawn with a line of full width
DRAWN = 300  # keys drawn; of more, so many evenly chosen ones
FAINT = 1e-3  # of the largest weight: where a key has less, its curve is left out
TERMS = 3  # of a sum that are written out


def weighted_sum(
    net: Sectionable,
    layer: int | None = None,
    head: int | None = None,
    *,
    output: int = 0,
    at: float | None = None,
    ax: Any = None,
    figsize: Size | None = None,
) -> Any:
    """How a network adds up: each key's softmax weight over the inputs, times its value, summed to the output.

    Above, the weights: bumps that are 1 in all. In the middle, every bump times the value its key holds. Below, their
    sum, which is the output, with the target and, where they are near it, the values. Keys have the colours of their
    bumps throughout, keys of one head the same one where there are several heads; dashed curves are those of ghosts
    and sentinels. What reaches the output by no key of this layer, constants and residuals, is drawn in black.

    One input is shown on all of its domain; several along the line on which :func:`attnforge.plot.section` draws them.
    Of deep networks the last layer is drawn, whose sum is the output; of an earlier one, the number that the linear
    maps behind it write. Networks of two inputs X and Y, and of very many keys, are refused.

    Args:
        net: a compiled target.
        layer: which layer of attention, or softmax over features, counted from 0; None: the last one.
        head: which head of the layer; None: all of them.
        output: which number behind the layer, where there are several.
        at: an input on the axis at which the sum is written out.
        ax: where to draw, as :mod:`attnforge.plot.panels` says; None makes a new figure.
        figsize: width and height of a new figure, in inches.

    >>> import attnforge as af
    >>> net = af.constructions.max_affine("x^2", {"x": (0, 1)}, cells=3, sharpness="hard")
    >>> figure = weighted_sum(net, at=0.5)
    >>> [axes.get_ylabel() for axes in figure.axes], figure.get_suptitle().split(chr(10))[-1]
    (['weight', 'weight × value', 'sum'], 'at x = 0.5:  1 × 0.25 = 0.25')
    """
    check_compiled(net, "weighted_sum")
    _check_size(net)
    along, points, name = _inputs(net)
    tokens = points[:, None] if net.target.layout == "function" else points
    found = summands(net.network, tokens, layer, output)
    shown = _one_head(found, head)
    drawn = panels(
        ax,
        figsize,
        (WIDTH, 6.4),
        lambda figure: figure.subplots(3, 1, sharex=True, height_ratios=(1, 1.2, 1.4)),
        count=3,
    )
    top, middle, bottom = drawn.axes
    draw_weights(top, along, shown)
    draw_added(middle, along, shown)
    _draw_total(bottom, net, along, points, shown, output)
    for axes in drawn.axes:
        axes.set_xlim(along[0], along[-1])
        drawn.legend(axes)
    bottom.set_xlabel(name, parse_math=False)
    note = _note(shown)
    if at is not None:
        note += "\n" + _mark(drawn, along, shown, name, at)
    drawn.figure.align_ylabels(drawn.axes)
    drawn.head(net.construction, net.target.describe(), note)
    return drawn.finished()


def draw_weights(axes: Any, along: Array, shown: Summands) -> None:
    """Softmax weights over ``along`` (N,) in a panel, a curve a key; the legend is the caller's."""
    for keys, number, colour in _listed(shown):
        _bump(axes, along, keys.weights[:, number], keys, number, colour)
    roles = [role for keys in shown.heads for role in keys.roles]
    for i, role in enumerate(dict.fromkeys(roles)):
        alone = len(set(roles)) == len(roles)  # every key has a name and a colour of its own
        label, colour = (role, COLOURS[i % len(COLOURS)]) if alone else (f"{role} ({roles.count(role):,})", GREY)
        axes.plot([], [], color=colour, lw=1.2, ls=_dash(role), label=label)
    axes.set_ylim(0, None)
    axes.set_ylabel("weight")


def draw_added(axes: Any, along: Array, shown: Summands) -> None:
    """What every key adds over ``along`` (N,) in a panel, and what comes by no key; the legend is the caller's."""
    axes.axhline(0, color=GREY, lw=0.6)
    for keys, number, colour in _listed(shown):
        _bump(axes, along, keys.added[:, number], keys, number, colour)
    if shown.rest.any():
        axes.plot(along, shown.rest, color="black", lw=1.1, ls=(0, (4, 2)), label="added by no key shown")
    axes.set_ylabel("weight × value")


def _bump(axes: Any, along: Array, curve: Array, keys: Keys, number: int, colour: str) -> None:
    """One key's curve, filled, where its weight counts."""
    counts = np.flatnonzero(keys.weights[:, number] >= FAINT * keys.weights.max())
    if not len(counts):
        return
    part = slice(max(counts[0] - 1, 0), counts[-1] + 2)
    alpha = 0.05 + 0.2 * float(keys.weights.max())  # the less a key can get, the more of them lie over one another
    axes.fill_between(along[part], 0, curve[part], color=colour, alpha=alpha, lw=0)
    width = 1.2 if keys.weights.shape[1] <= FEW else 0.8
    axes.plot(along[part], curve[part], color=colour, lw=width, ls=_dash(keys.roles[number]))


def _draw_total(axes: Any, net: Sectionable, along: Array, points: Array, shown: Summands, output: int) -> None:
    """The sum; with the target and the values held, where it is the network's output."""
    wanted = known_values(net.target, points) if shown.is_output else None
    if wanted is not None:
        target = first_token(net.target, wanted, output)
        axes.plot(along, target, color=GREY, lw=3.5, alpha=0.5, label="target")
    if len(shown.heads) > 1:
        for number, keys in enumerate(shown.heads):
            label = "sum of each head" if number == 0 else None
            colour = COLOURS[number % len(COLOURS)]
            axes.plot(along, keys.added.sum(axis=1), color=colour, lw=0.9, ls=":", label=label)
    axes.plot(along, shown.total, color="black", lw=1.2, label="sum: the output" if shown.is_output else "sum")
    row = single_row(net.network, net.target.domain)
    if wanted is not None and row is not None and output == 0:
        draw_anchors(axes, row, target)
    axes.set_ylabel("sum")


def _listed(shown: Summands) -> list[tuple[Keys, int, str]]:
    """The keys that are drawn and their colours."""
    every = [(keys, number, i) for i, keys in enumerate(shown.heads) for number in range(keys.weights.shape[1])]
    several = len(shown.heads) > 1
    kept = np.unique(np.linspace(0, len(every) - 1, min(len(every), DRAWN)).round().astype(int))
    chosen = [every[i] for i in kept.tolist()]
    return [(keys, number, COLOURS[(i if several else number) % len(COLOURS)]) for keys, number, i in chosen]


def _dash(role: str) -> str:
    return "--" if role in ("ghost", "sentinel") else "-"


def _inputs(net: Sectionable) -> tuple[Array, Array, str]:
    """Numbers along the axis, the points that have them, shaped for a call, and what the numbers are."""
    target, network = net.target, net.network
    count = min(SAMPLES, BUDGET // max(count_keys(network), 1))
    row = single_row(network, target.domain)
    if form_of(target, network) is not None or row is None:
        return shown_inputs(target, network, count)
    path = path_through(target, row)
    along = refined(np.linspace(path.low, path.high, count), row)
    return along, path.at(along), path.name


def _one_head(found: Summands, head: int | None) -> Summands:
    """One head alone; the others count as what comes by no key that is shown."""
    if head is None:
        return found
    kept = tuple(keys for keys in found.heads if keys.number == head)
    if not kept:
        adding = ", ".join(str(keys.number) for keys in found.heads[:8])
        raise DomainError("`head` must be one that adds to this number", str(head), f"Use one of {adding or 'none'}")
    return Summands(kept, found.total - sum(keys.added.sum(axis=1) for keys in kept), found.is_output)


def _mark(drawn: Panels, along: Array, shown: Summands, name: str, at: float) -> str:
    """A line at the sample nearest to an input, through all panels; the sum there in numbers."""
    if not along[0] <= at <= along[-1]:
        wanted = f"`at` is a number on the axis, from {along[0]:g} to {along[-1]:g}"
        raise DomainError(wanted, f"{at:g}", "Choose one of these")
    i = int(np.abs(along - at).argmin())
    for axes in drawn.axes:
        axes.axvline(along[i], color="black", lw=0.7, ls=":")
    weights = np.concatenate([keys.weights[i] for keys in shown.heads])
    added = np.concatenate([keys.added[i] for keys in shown.heads])
    order = np.argsort(-np.abs(added), kind="stable")
    first, others = order[:TERMS], order[TERMS:]
    terms = [f"{weights[k]:.3g} × {_signed(added[k] / weights[k])}" for k in first if round(weights[k], 3)]
    left = float(added[others].sum() + shown.rest[i])
    if np.abs(added[others]).sum() + abs(shown.rest[i]) > 5e-4 * np.abs(added).sum():
        terms.append(f"{_signed(left)} by others")
    where = name if len(name) < 12 else name.split()[-1]
    return f"at {where} = {along[i]:.4g}:  {' + '.join(terms) or '0'} = {shown.total[i]:.3g}"


def _signed(number: float) -> str:
    return f"{number:.3g}" if number >= 0 else f"({number:.3g})"


def _note(shown: Summands) -> str:
    keys = sum(head.weights.shape[1] for head in shown.heads)
    heads = len(shown.heads)
    drawn = f", {DRAWN} of them drawn" if keys > DRAWN else ""
    weights = "the weights of a head" if heads > 1 else "the weights"
    return f"{heads:,} head{'s' * (heads != 1)}, {keys:,} keys{drawn}; {weights} add up to 1 everywhere"


def _check_size(net: Sectionable) -> None:
    keys = count_keys(net.network)
    if keys > MOST_KEYS:
        raise RefusalError(f"At most {MOST_KEYS:,} keys are added up in a picture", f"{keys:,}", "Use plot.section")
