"""A network on a cell, layer by layer: linear maps, heads, a softmax over features."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Any

import numpy as np
import numpy.typing as npt

from attnforge.certification.checker.heads import attend, select
from attnforge.certification.checker.space import Form
from attnforge.certification.checker.taylor import ONE, ZERO
from attnforge.certification.checker.values import Place, Value, combine, input_rounding, total
from attnforge.errors import CertificateError
from attnforge.network import Attention, Head, Layer, Linear, Network, Softmax, Term

Array = npt.NDArray[np.float64]
Row = Callable[[], list[Value]]  # made when it is read: most rows of a long sequence are not


def run(place: Place, network: Network, tokens: int, negligible: float) -> list[Row]:
    """The network's output rows on the cell."""
    rows, context = _inputs(place, tokens, network.features, 0), []
    if network.context is not None:
        told_rows, width = network.context
        if told_rows is None:
            raise CertificateError("The checker reads a second input of known length", "any length", "Fix its rows")
        context = _inputs(place, told_rows, width, tokens * network.features)
        for told in network.context_layers:
            context = linear(place, told, context)
    layers = list(network.layers)
    while layers:
        match layers.pop(0):
            case Linear() as layer:
                rows = linear(place, layer, rows)
            case Attention() as layer:
                rows = attention(place, layer, rows, context, negligible)
            case Softmax():
                rows = _softmax(place, layers, rows, negligible)
    return rows


def _inputs(place: Place, tokens: int, features: int, first: int) -> list[Row]:
    return [_later(_input_row, place, range(first + i * features, first + (i + 1) * features)) for i in range(tokens)]


def _input_row(place: Place, numbers: range) -> list[Value]:
    """Inputs, by number."""
    values = [Value(place, Form({i: ONE}, ZERO), 0.0) for i in numbers]
    return [Value(place, v.form or v.model, input_rounding(place.machine, v.size)) for v in values]


def linear(place: Place, layer: Linear, rows: list[Row]) -> list[Row]:
    """Z -> sum of Q Z P + R."""
    parts = [_term(place, term, rows) for term in layer.terms]
    count = len(parts[0])
    shifts = None if layer.constant is None else np.broadcast_to(layer.constant, (count, layer.constant.shape[1]))
    return [
        _later(_added, place, [part[i] for part in parts], None if shifts is None else shifts[i]) for i in range(count)
    ]


def _added(place: Place, parts: list[Row], shift: Array | None) -> list[Value]:
    found = [total(place, entries) for entries in zip(*(part() for part in parts), strict=True)]
    return (
        found if shift is None else [combine(place, [v], [1.0], c) for v, c in zip(found, shift.tolist(), strict=True)]
    )


def _term(place: Place, term: Term, rows: list[Row]) -> list[Row]:
    if term.map is not None:
        maps = np.broadcast_to(term.map, (len(rows), *term.map.shape[-2:]))
        rows = [_later(_mapped, place, row, each) for row, each in zip(rows, maps, strict=True)]
    return rows if term.mix is None else [_later(_mixed, place, rows, weights) for weights in term.mix]


def _mapped(place: Place, row: Row, weights: Array) -> list[Value]:
    return [combine(place, row(), column) for column in weights.T.tolist()]


def _mixed(place: Place, rows: list[Row], weights: Array) -> list[Value]:
    """Of all rows: one that overflows is no number times zero, either."""
    return [combine(place, column, weights.tolist()) for column in zip(*(row() for row in rows), strict=True)]


def one_map(layer: Layer) -> tuple[Array, Array] | None:
    """Matrix and constant of a layer that is one map of features, the same at every token."""
    match layer:
        case Linear((Term(map=np.ndarray() as weight, mix=None),), constant=shift) if weight.ndim == 2:
            if shift is None or len(shift) == 1:
                return weight, np.zeros(weight.shape[1]) if shift is None else shift[0]
    return None


def is_alone(head: Head) -> bool:
    """Whether every token asks, and reads no other: then any number of tokens is as good as one."""
    return head.query_rows.indices is None and (head.key_rows is None or head.key_rows.kind == "own")


def attention(place: Place, layer: Attention, rows: list[Row], context: list[Row], negligible: float) -> list[Row]:
    """Heads in parallel, added up, in any order: kernels join their mixtures and add all products in one sum."""
    return [_later(_attended, place, layer, rows, context, i, negligible) for i in range(len(rows))]


def _attended(
    place: Place, layer: Attention, rows: list[Row], context: list[Row], i: int, negligible: float
) -> list[Value]:
    width = layer.heads[0].output.shape[1]
    values, written = (list(rows[i]()), [np.eye(width)]) if layer.residual else ([], [np.zeros((0, width))])
    for head in layer.heads:
        if head.query_rows.indices is None or i in head.query_rows.indices:
            values += attend(place, head, rows[i](), [row() for row in _read(head, i, rows, context)], negligible)
            written.append(head.output)
    return [combine(place, values, column) for column in np.vstack(written).T.tolist()]


def _read(head: Head, i: int, rows: list[Row], context: list[Row]) -> list[Row]:
    """The rows a query attends to."""
    if head.key_rows is None or head.key_rows.kind == "own":
        return [] if head.key_rows is None else [rows[i]]
    source = rows if head.key_rows.source == "state" else context
    return source if head.key_rows.indices is None else [source[int(k)] for k in head.key_rows.indices]


def _softmax(place: Place, layers: list[Layer], rows: list[Row], negligible: float) -> list[Row]:
    """A softmax over features; together with the map of features that reads its weights, if there is one.

    That map is then taken from the layers: a mixture of values is known better than the weights one by one.
    """
    following = layers[0] if layers else None
    alone = isinstance(following, Linear) and len(following.terms) == 1 and following.terms[0].mix is None
    if not isinstance(following, Linear) or not alone or following.terms[0].map is None:
        return [_later(_weights, place, row, negligible) for row in rows]
    read = following.terms[0].map
    maps = np.broadcast_to(read, (len(rows), *read.shape[-2:]))
    layers[0] = Linear((Term(),), following.constant)
    return [_later(_selected, place, row, each, negligible) for row, each in zip(rows, maps, strict=True)]


def _weights(place: Place, row: Row, negligible: float) -> list[Value]:
    return select(place, row(), np.eye(len(row())), negligible)


def _selected(place: Place, row: Row, values: Array, negligible: float) -> list[Value]:
    return select(place, row(), values, negligible)


def _later(make: Callable[..., list[Value]], *arguments: Any) -> Row:
    """A row that is made once, when it is read."""
    return cache(partial(make, *arguments))
