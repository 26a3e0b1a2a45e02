"""The checked property: linear maps and softmax attention only, whose shapes fit each other.

What holds of a part by itself (dtype, finite numbers, row sets, keys) its own class checks; here is what holds of parts
together. Every network is checked when it is made, so there is none of which it is not true.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from attnforge.errors import TargetError
from attnforge.network.arrays import REMEDY
from attnforge.network.layers import Attention, Head, Layer, Linear, Rows, Softmax, Term, check_parts, is_a

if TYPE_CHECKING:
    from attnforge.network.network import Network

Shape = tuple[int | None, int]


def check_architecture(network: Network) -> int:
    """Raise unless every layer is a linear map, softmax attention or a softmax, and all shapes fit.

    Returned is the number of features the network writes. There is no place in the representation for a feed-forward
    non-linearity; this check, which every network passes when it is made, is what keeps it so.
    """
    return output_shape(network)[1]


def output_shape(network: Network) -> Shape:
    """The rows a network writes, None for as many as it reads of any number, and their features."""
    _require(isinstance(network.construction, str), "A construction is a name", network.construction)
    _check_count("features", network.features)
    _check_count("tokens", network.tokens, may_be_none=True)
    context = _check_context(network)
    check_parts("a network", "layers", network.layers, Layer)
    shape: Shape = (network.tokens, network.features)
    for position, layer in enumerate(network.layers):
        where = f"layer {position}"
        match layer:
            case Linear():
                shape = _check_linear(layer, *shape, where)
            case Attention():
                shape = shape[0], _check_attention(layer, *shape, context, where)
            case Softmax():
                pass
    return shape


def rows_named(network: Network, source: str) -> int:
    """How many rows of the state or the context there must be, so that all that heads name are there.

    It matters where any number of rows is read: linear maps then treat all alike, and rows stay what they were.
    """
    heads = (head for layer in network.layers if isinstance(layer, Attention) for head in layer.heads)
    sets = (rows for head in heads for rows in (head.query_rows, head.key_rows) if rows is not None)
    return max((int(r.indices.max()) + 1 for r in sets if r.indices is not None and r.source == source), default=1)


def _check_count(name: str, count: Any, may_be_none: bool = False) -> None:
    fits = may_be_none if count is None else type(count) is int and count > 0
    _require(fits, f"A network's {name}: a positive int{', or None for any number' if may_be_none else ''}", count)


def _check_context(network: Network) -> Shape | None:
    """The shape of the second input as attention reads it: after its linear maps."""
    layers, shape = network.context_layers, network.context
    _require(isinstance(layers, tuple), "The layers of the second input are a tuple of linear maps", layers)
    if shape is None:
        _require(not layers, "Only a network with a second input has layers for it", f"{len(layers)} layers")
        return None
    fits = is_a(tuple, shape) and len(shape) == 2
    _require(fits, "`context` is the shape (rows or None, features) of a second input", shape)
    _check_count("context rows", shape[0], may_be_none=True)
    _check_count("context features", shape[1])
    for position, layer in enumerate(layers):
        where = f"context layer {position}"
        _require(isinstance(layer, Linear), f"{where}: the second input passes linear maps", type(layer).__name__)
        shape = _check_linear(layer, *shape, where)
    return shape


def _check_linear(layer: Linear, rows: int | None, width: int, where: str) -> Shape:
    shapes = {_check_term(term, rows, width, where) for term in layer.terms}
    if layer.constant is not None:
        given, written = layer.constant.shape
        shapes.add((next(iter(shapes))[0] if given == 1 else given, written))
    _require(len(shapes) == 1, f"{where}: the terms of a linear map have one shape", shapes)
    return shapes.pop()


def _check_term(term: Term, rows: int | None, width: int, where: str) -> Shape:
    """The shape a summand writes. What is made for each of n tokens is not read by any number of them."""
    if term.map is not None:
        _require(term.map.shape[-2] == width, f"{where}: a map takes {width} features", term.map.shape)
        if term.map.ndim == 3:
            _require(len(term.map) == rows, f"{where}: one map a token ({rows})", term.map.shape)
        width = term.map.shape[-1]
    if term.mix is not None:
        _require(term.mix.shape[1] == rows, f"{where}: a mix takes {rows} tokens", term.mix.shape)
        rows = len(term.mix)
    return rows, width


def _check_attention(layer: Attention, rows: int | None, width: int, context: Shape | None, where: str) -> int:
    for i, head in enumerate(layer.heads):
        _check_head(head, rows, width, context, f"{where}, head {i}")
    return int(layer.heads[0].output.shape[1])


def _check_head(head: Head, rows: int | None, width: int, context: Shape | None, place: str) -> None:
    _require(len(head.query) == width, f"{place}: queries read {width} features", head.query.shape)
    _check_rows(head.query_rows, rows, place)
    if head.key_rows is None or head.key is None:
        return
    told: Shape | None = (rows, width) if head.key_rows.source == "state" else context
    if told is None:
        raise TargetError(f"{place}: keys of the context are those of a second input", "a network without", REMEDY)
    _check_rows(head.key_rows, told[0], place)
    _require(len(head.key) == told[1], f"{place}: keys and values read {told[1]} features", head.key.shape)


def _check_rows(rows: Rows, tokens: int | None, place: str) -> None:
    if rows.indices is not None and tokens is not None:
        _require(int(rows.indices.max()) < tokens, f"{place}: rows are tokens below {tokens}", rows.indices.tolist())


def _require(condition: bool, requirement: str, got: object) -> None:
    if not condition:
        raise TargetError(requirement, f"{got!s:.80}", REMEDY)
