"""Attention maps: how much each key gets of the attention, input by input, as a picture."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from attnforge.arrays import float64
from attnforge.certification import Certificate
from attnforge.errors import DomainError, TargetError
from attnforge.labels import HeadLabel
from attnforge.network import Network
from attnforge.plot.given import check_compiled, labels_for
from attnforge.plot.panels import Size, panels
from attnforge.plot.paths import shown_inputs
from attnforge.plot.style import ORANGE, WIDTH, fitted
from attnforge.targets import JointFunction, Target

Array = npt.NDArray[np.float64]

COLUMNS = 401  # inputs along a map
BUDGET = 2**24  # attention weights held at once
ROWS = 512  # keys drawn one by one; more are drawn in blocks, by their largest weight
LABELLED = 12  # keys that are named by their roles
MARKS = 33  # inputs at which the largest weight is marked, of a map with more inputs
MARKED_HEADS = 8


class Attentive(Protocol):
    """What an attention map needs of a compiled target."""

    network: Network
    target: Target
    certificate: Certificate
    construction: str

    def attention(self, *inputs: Any) -> list[list[Any]]:
        """Attention weights."""


@dataclass(frozen=True, eq=False)
class Shown:
    """Weights (inputs, keys) of some heads, side by side, and where each head's keys begin."""

    weights: Array
    starts: tuple[int, ...]
    labels: tuple[str, ...] | None
    ends: tuple[float, float] | None
    name: str

    @property
    def vertical(self) -> str:
        """What the rows of the map are."""
        heads, block = len(self.starts), _block(self.weights.shape[1])
        notes = [f"{heads} heads"] * (heads > 1) + [f"in blocks of {block}"] * (block > 1)
        return f"key ({', '.join(notes)})" if notes else "key"


def attention_map(
    net: Any,
    x: Any = None,
    layer: int = 0,
    head: int | None = None,
    *,
    query: int = 0,
    ax: Any = None,
    figsize: Size | None = None,
) -> Any:
    """A heat map of the attention every key gets, input by input; dots mark the key that gets most.

    Args:
        net: a compiled target; or weights (inputs, keys), or (heads, inputs, keys), of any attention.
        x: inputs as for a call, one column each; of a single sequence, a column for every query token. A pair (X, Y)
            for targets of two inputs. None: a row of inputs through the domain, along the form the network reads.
        layer: which layer of attention, counted from 0.
        head: which head of the layer; None shows all of them, one above the other.
        query: whose attention is shown, of several query tokens a column.
        ax: where to draw, as :mod:`attnforge.plot.panels` says; None makes a new figure.
        figsize: width and height of a new figure, in inches.

    >>> import attnforge as af
    >>> net = af.constructions.gate([1.0], 0.0, -1, 1, sharpness=8.0)
    >>> figure = attention_map(net)
    >>> [text.get_text() for text in figure.axes[0].get_yticklabels()]
    ['low -1', 'high 1', 'self']
    """
    is_network = hasattr(net, "attention")
    if is_network:
        check_compiled(net, "attention_map")
    shown = shown_attention(net, x, layer, head, query) if is_network else _of_array(net)
    drawn = panels(ax, figsize, (WIDTH, 3.4))
    axes = drawn.axes[0]
    draw_shown(drawn.figure, axes, shown)
    axes.set_xlabel(shown.name, parse_math=False)
    if is_network:
        drawn.head(net.construction, net.target.describe(), _note(shown, layer, head))
    return drawn.finished()


def shown_attention(net: Attentive, x: Any = None, layer: int = 0, head: int | None = None, query: int = 0) -> Shown:
    """What :func:`attention_map` draws of a compiled target: arguments as there."""
    ends, name = None, "input"
    if x is None:
        keys = sum(max(each.count, 1) for each in labels_for(net).heads)
        along, points, name = shown_inputs(net.target, net.network, max(2, min(COLUMNS, BUDGET // max(keys, 1))))
        x = net.target.split(points) if isinstance(net.target, JointFunction) else points
        ends = (float(along[0]), float(along[-1]))
    parts, heads = _layer_weights(net, x, layer, head, query)
    few = sum(part.shape[1] for part in parts) <= LABELLED
    known = few and all(each.count == part.shape[1] for each, part in zip(heads, parts, strict=True))
    named = tuple(str(key) for each in heads for key in each.keys) if known else ()
    starts = tuple(int(n) for n in np.cumsum([0, *(part.shape[1] for part in parts[:-1])]))
    return Shown(np.concatenate(parts, axis=1), starts, named if len(set(named)) > 1 else None, ends, name)


def draw_shown(figure: Any, axes: Any, shown: Shown) -> None:
    """The map in a panel of the figure, with what its colours mean."""
    limit = _scale(shown.weights)
    image = draw_attention(axes, shown.weights, starts=shown.starts, labels=shown.labels, ends=shown.ends, limit=limit)
    axes.set_ylabel(shown.vertical)
    figure.colorbar(image, ax=axes, label="attention weight", pad=0.01)


def draw_attention(
    axes: Any,
    weights: npt.ArrayLike,
    *,
    starts: Sequence[int] = (0,),
    labels: Sequence[str] | None = None,
    ends: tuple[float, float] | None = None,
    limit: float = 1.0,
    marks: bool = True,
) -> Any:
    """The map of weights (inputs, keys) in the given panel, keys upwards; returns the image, for a colour bar.

    Args:
        axes: a matplotlib panel.
        weights: one row an input, one column a key.
        starts: where the keys of each head begin: lines divide them, and each has its own largest weight.
        labels: a name a key, drawn as it is where there are few keys.
        ends: the first and the last input along the axis; None counts them.
        limit: the weight at the end of the colour scale.
        marks: dots on the largest weight.
    """
    table = float64(weights)
    inputs, keys = table.shape
    low, high = (0.0, inputs - 1.0) if ends is None else ends
    half = (high - low) / max(inputs - 1, 1) / 2 or 0.5  # a pixel is centred on its input
    block = _block(keys)
    extent = (low - half, high + half, -0.5, -(-keys // block) * block - 0.5)
    look = {"cmap": "viridis", "vmin": 0, "vmax": limit, "interpolation": "nearest"}  # keys do not blend
    image = axes.imshow(_in_blocks(table, block).T, aspect="auto", origin="lower", extent=extent, **look)
    axes.set_ylim(-0.5, keys - 0.5)
    for place in starts[1:]:
        axes.axhline(place - 0.5, color="white", lw=0.8, alpha=0.8)
    if marks and len(starts) <= MARKED_HEADS:
        _mark_largest(axes, table, starts, np.linspace(low, high, inputs))
    if labels is not None and keys <= LABELLED:
        axes.set_yticks(range(keys), [fitted(label, 1.2, 8) for label in labels], parse_math=False, fontsize=8)
    elif keys <= LABELLED:
        axes.set_yticks(range(keys))
    return image


def _layer_weights(
    net: Attentive, x: Any, layer: int, head: int | None, query: int
) -> tuple[list[Array], list[HeadLabel]]:
    """Weights (inputs, keys) of every head shown, and the labels of the heads.

    A single sequence has its query tokens as inputs; of a batch the query numbered ``query`` is taken.
    """
    given = x if isinstance(x, tuple) else (x,)
    found = net.attention(*given)
    layers = labels_for(net).attention
    _check_index("layer", layer, len(layers), "layers of attention")
    heads, weights = list(layers[layer].heads), found[layer]
    if head is not None:
        _check_index("head", head, len(heads), "heads in this layer")
        heads, weights = [heads[head]], [weights[head]]
    return [_one_query(float64(each), query) for each in weights], heads


def _scale(weights: Array) -> float:
    """The end of the colour scale: one, unless nothing comes near it."""
    largest = float(np.max(weights, initial=0.0))
    return 1.0 if largest >= 0.5 or not largest > 0 else largest


def _note(shown: Shown, layer: int, head: int | None) -> str:
    heads = len(shown.starts)
    which = f"head {head + 1}" if head is not None else f"{heads} head{'s' * (heads > 1)}"
    marked = "; dots: the key that gets most" * (heads <= MARKED_HEADS)
    return f"layer {layer + 1} of attention, {which}{marked}"


def _of_array(given: Any) -> Shown:
    try:
        weights = float64(given)
    except (TypeError, ValueError):
        wanted = "plot.attention_map draws a compiled target, or weights (inputs, keys) of any attention"
        raise TargetError(wanted, type(given).__name__, "Pass the weights themselves, as an array") from None
    wanted = "Attention weights are finite, of shape (inputs, keys) or (heads, inputs, keys)"
    if not np.isfinite(weights).all():
        raise DomainError(wanted, "NaN or infinity", "Leave these inputs out")
    if weights.ndim not in (2, 3) or 0 in weights.shape:
        raise DomainError(wanted, f"shape {weights.shape}", "Reshape them, or pass one batch")
    if weights.ndim == 2:
        return Shown(weights, (0,), None, None, "input")
    heads, inputs, keys = weights.shape
    starts = tuple(range(0, heads * keys, keys))
    return Shown(np.moveaxis(weights, 0, 1).reshape(inputs, heads * keys), starts, None, None, "input")


def _one_query(weights: Array, query: int) -> Array:
    """(..., query, key) weights as (inputs, keys)."""
    if weights.ndim == 2:
        return weights
    _check_index("query", query, weights.shape[-2], "query tokens")
    return weights[..., query, :].reshape(-1, weights.shape[-1])


def _check_index(name: str, index: int, count: int, what: str) -> None:
    if not 0 <= index < count:
        remedy = f"Count from 0: the last one is {count - 1}" if count else "Use plot.graph"
        raise DomainError(f"`{name}` must be at least 0 and below {count}, the number of {what}", str(index), remedy)


def _block(keys: int) -> int:
    """How many keys share a row."""
    return -(-keys // ROWS)


def _in_blocks(table: Array, block: int) -> Array:
    """The largest weight of every block of keys."""
    if block == 1:
        return table
    padded = np.pad(table, ((0, 0), (0, -table.shape[1] % block)))
    return np.asarray(padded.reshape(len(table), -1, block).max(axis=2))


def _mark_largest(axes: Any, table: Array, starts: Sequence[int], along: Array) -> None:
    inputs = len(along)
    columns = np.unique(np.linspace(0, inputs - 1, min(inputs, MARKS)).round().astype(np.intp))
    look = {"s": 11, "color": ORANGE, "edgecolors": "white", "linewidths": 0.5, "clip_on": False}
    for start, stop in zip(starts, [*starts[1:], table.shape[1]], strict=True):
        axes.scatter(along[columns], start + table[columns, start:stop].argmax(axis=1), zorder=3, **look)
