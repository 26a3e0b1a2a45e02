"""The checked property: linear maps and softmax attention only, shapes that fit, numbers that are finite."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from attnforge.errors import TargetError
from attnforge.network.flatten import HEAD_WEIGHTS, flatten
from attnforge.network.layers import Attention, Head, Linear, Rows, Softmax

if TYPE_CHECKING:
    from attnforge.network.network import Network


def check_architecture(network: Network) -> int:
    """Raise unless every layer is a linear map, softmax attention or a softmax, and all shapes and numbers fit.

    Returned is the number of features the network writes.

    There is no place in the representation for a feed-forward non-linearity; this check is what keeps it so for
    networks that come from files or are put together by hand.
    """
    for name, array in flatten(network)[1].items():
        if not np.all(np.isfinite(array)):
            raise TargetError("Every weight must be finite", f"NaN or infinity in {name}", "Rebuild the network")
    context = _check_context(network)
    rows, width = network.tokens, network.features
    for position, layer in enumerate(network.layers):
        where = f"layer {position}"
        if isinstance(layer, Linear):
            rows, width = _check_linear(layer, rows, width, where)
        elif isinstance(layer, Attention):
            width = _check_attention(layer, rows, width, context, where)
        elif not isinstance(layer, Softmax):
            raise TargetError(
                "A network is made of linear maps, softmax attention and softmax only",
                f"{type(layer).__name__} as {where}",
                "Express it by these layers",
            )
    return width


def _check_context(network: Network) -> tuple[int | None, int] | None:
    """The shape of the second input as attention reads it: after its linear maps."""
    layers, shape = network.context_layers, network.context
    for position, layer in enumerate(layers):
        where = f"context layer {position}"
        _require(shape is not None, f"{where}: the network has a second input", None)
        _require(isinstance(layer, Linear), f"{where}: the second input passes linear maps", type(layer).__name__)
        shape = _check_linear(layer, *(shape or (0, 0)), where)
    return shape


def _check_linear(layer: Linear, rows: int | None, width: int, where: str) -> tuple[int | None, int]:
    shapes = set()
    for term in layer.terms:
        out_rows, out_width = rows, width
        _check_axes(f"{where}: a map", term.map, (2, 3))
        _check_axes(f"{where}: a mix", term.mix, (2,))
        if term.map is not None:
            _require(term.map.shape[-2] == width, f"{where}: a map takes {width} features", term.map.shape)
            if term.map.ndim == 3:
                _require(rows is None or len(term.map) == rows, f"{where}: one map a token ({rows})", term.map.shape)
                out_rows = len(term.map)
            out_width = term.map.shape[-1]
        if term.mix is not None:
            _require(out_rows in (None, term.mix.shape[1]), f"{where}: a mix takes {out_rows} tokens", term.mix.shape)
            out_rows = len(term.mix)
        shapes.add((out_rows, out_width))
    _check_axes(f"{where}: a constant", layer.constant, (2,))
    if layer.constant is not None:
        found = next(iter(shapes))[0] if shapes else len(layer.constant)
        constant_rows = found if len(layer.constant) == 1 else len(layer.constant)
        shapes.add((constant_rows, layer.constant.shape[1]))
    _require(len(shapes) == 1, f"{where}: the terms of a linear map have one shape", shapes)
    return shapes.pop()


def _check_attention(
    layer: Attention, rows: int | None, width: int, context: tuple[int | None, int] | None, where: str
) -> int:
    _require(len(layer.heads) > 0, f"{where}: attention has at least one head", 0)
    for i, head in enumerate(layer.heads):
        for name in HEAD_WEIGHTS:
            _check_axes(f"{where}, head {i}: {name}", getattr(head, name), (2,))
    out = layer.heads[0].output.shape[1]
    for i, head in enumerate(layer.heads):
        place = f"{where}, head {i}"
        _check_head(head, rows, width, context, place)
        _require(head.output.shape[1] == out, f"{place}: heads write {out} features", head.output.shape)
    _require(not layer.residual or out == width, f"{where}: a residual needs {width} features", out)
    return int(out)


def _check_head(head: Head, rows: int | None, width: int, context: tuple[int | None, int] | None, place: str) -> None:
    r, v = head.query.shape[1], head.output.shape[0]
    _require(head.query.shape[0] == width, f"{place}: queries read {width} features", head.query.shape)
    _check_rows(head.query_rows, rows, place)
    asks = head.query_rows.kind in ("all", "some") and head.query_rows.source == "state"
    _require(asks, f"{place}: queries are all or some tokens of the state", head.query_rows.kind)
    if head.key_rows is None:
        _require(head.memory_size > 0, f"{place}: a head has keys", 0)
    else:
        _require(head.key is not None and head.value is not None, f"{place}: token keys need W_K and W_V", None)
        second = head.key_rows.source == "context"
        _require(not (second and head.key_rows.kind == "own"), f"{place}: own tokens are the state's", "context")
        _require(not second or context is not None, f"{place}: the network has a second input", None)
        source_rows, source_width = context if second and context is not None else (rows, width)
        _check_rows(head.key_rows, source_rows, place)
        _require(_shape(head.key) == (source_width, r), f"{place}: W_K is {(source_width, r)}", _shape(head.key))
        _require(_shape(head.value) == (source_width, v), f"{place}: W_V is {(source_width, v)}", _shape(head.value))
    if head.memory_keys is not None or head.memory_values is not None:
        p = head.memory_size
        _require(_shape(head.memory_keys) == (p, r), f"{place}: memory keys are {(p, r)}", _shape(head.memory_keys))
        _require(_shape(head.memory_values) == (p, v), f"{place}: {(p, v)} values", _shape(head.memory_values))


def _check_rows(rows: Rows, tokens: int | None, place: str) -> None:
    if rows.indices is not None:
        fits = rows.indices.min(initial=0) >= 0 and (tokens is None or rows.indices.max(initial=0) < tokens)
        unique = len(np.unique(rows.indices)) == len(rows.indices)
        _require(bool(fits) and unique, f"{place}: rows are distinct tokens below {tokens}", rows.indices.tolist())


def _check_axes(what: str, array: npt.NDArray[Any] | None, allowed: tuple[int, ...]) -> None:
    if array is not None:
        _require(array.ndim in allowed, f"{what} has {' or '.join(map(str, allowed))} axes", array.shape)


def _shape(array: npt.NDArray[Any] | None) -> tuple[int, ...] | None:
    return None if array is None else array.shape


def _require(condition: bool, requirement: str, got: object) -> None:
    if not condition:
        raise TargetError(requirement, str(got), "Rebuild the network, or mend the shapes")
