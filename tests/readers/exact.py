"""A network at one point by balls of many bits, number by number, from the definitions: the meaning itself."""

from __future__ import annotations

from flint import arb, ctx

from attnforge.network import Attention, Head, Layer, Linear, Network, Rows, Softmax

Matrix = list[list[arb]]

BITS = 400  # scores of up to 1e6 subtract; what is left is far below any rounding of the runs


def exact_output(network: Network, tokens: Matrix, context: Matrix | None) -> Matrix:
    """The output rows, each entry a ball around its exact value."""
    before, ctx.prec = ctx.prec, BITS
    try:
        told = context or []
        for layer in network.context_layers:
            told = _linear(layer, told)
        state = tokens
        for layer in network.layers:
            state = _layer(layer, state, told)
        return state
    finally:
        ctx.prec = before


def _layer(layer: Layer, state: Matrix, told: Matrix) -> Matrix:
    match layer:
        case Linear():
            return _linear(layer, state)
        case Attention():
            return _attention(layer, state, told)
        case Softmax():
            return [_softmax(row) for row in state]


def _linear(layer: Linear, state: Matrix) -> Matrix:
    parts = []
    for term in layer.terms:
        part = state
        if term.map is not None:
            maps = [term.map] * len(part) if term.map.ndim == 2 else list(term.map)
            part = [_times(row, each.tolist()) for row, each in zip(part, maps, strict=True)]
        if term.mix is not None:
            part = [_times([arb(w) for w in weights], part) for weights in term.mix.tolist()]
        parts.append(part)
    if layer.constant is not None:
        rows = layer.constant.tolist() * (len(parts[0]) if len(layer.constant) == 1 else 1)
        parts.append([[arb(x) for x in row] for row in rows])
    return [[sum(entries, start=arb(0)) for entries in zip(*rows, strict=True)] for rows in zip(*parts, strict=True)]


def _attention(layer: Attention, state: Matrix, told: Matrix) -> Matrix:
    width = layer.heads[0].output.shape[1]
    found = [list(row) if layer.residual else [arb(0)] * width for row in state]
    for head in layer.heads:
        for i in _numbers(head.query_rows, len(state)):
            written = _times(_head(head, i, state, told), head.output.tolist())
            found[i] = [a + b for a, b in zip(found[i], written, strict=True)]
    return found


def _head(head: Head, i: int, state: Matrix, told: Matrix) -> list[arb]:
    keys: Matrix = []
    values: Matrix = []
    if head.memory_keys is not None and head.memory_values is not None:
        keys += [[arb(x) for x in row] for row in head.memory_keys.tolist()]
        values += [[arb(x) for x in row] for row in head.memory_values.tolist()]
    if head.key_rows is not None and head.key is not None and head.value is not None:
        source = state if head.key_rows.source == "state" else told
        for j in [i] if head.key_rows.kind == "own" else _numbers(head.key_rows, len(source)):
            keys.append(_times(source[j], head.key.tolist()))
            values.append(_times(source[j], head.value.tolist()))
    query = _times(state[i], head.query.tolist())
    scores = [sum((a * b for a, b in zip(query, key, strict=True)), start=arb(0)) for key in keys]
    return _times(_softmax(scores), values)


def _softmax(scores: list[arb]) -> list[arb]:
    largest = max(float(score.mid()) for score in scores)
    powers = [(score - largest).exp() for score in scores]
    total = sum(powers, start=arb(0))
    return [power / total for power in powers]


def _times(row: list[arb], matrix: Matrix) -> list[arb]:
    return [
        sum((x * line[j] for x, line in zip(row, matrix, strict=True)), start=arb(0)) for j in range(len(matrix[0]))
    ]


def _numbers(rows: Rows, count: int) -> list[int]:
    return list(range(count)) if rows.indices is None else rows.indices.tolist()
