"""Small networks of every layer kind, and a reference that runs them by explicit loops."""

from __future__ import annotations

import math

import numpy as np

from attnforge.network import Attention, Claims, Head, Linear, Network, Rows, Softmax, Term

N, M, V, OUT = 4, 3, 2, 3  # tokens, features, value width, output features
CONTEXT = (5, 2)


def numbers(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng([seed, *shape]).normal(size=shape)


def head(
    *,
    seed: int = 1,
    memory: int = 0,
    rows: Rows | None = None,
    query_rows: Rows | None = None,
    r: int = 2,
    v: int = V,
    claims: bool = False,
) -> Head:
    told = M if rows is None or rows.source == "state" else CONTEXT[1]
    return Head(
        query=numbers(M, r, seed=seed),
        output=numbers(v, OUT, seed=seed + 1),
        query_rows=query_rows or Rows(),
        key=None if rows is None else numbers(told, r, seed=seed + 2),
        value=None if rows is None else numbers(told, v, seed=seed + 3),
        key_rows=rows,
        memory_keys=numbers(memory, r, seed=seed + 4) if memory else None,
        memory_values=numbers(memory, v, seed=seed + 5) if memory else None,
        claims=Claims("example", 2.5, np.arange(float(memory)), ("anchor",) * memory) if claims else None,
    )


def alone(layer, *, tokens: int | None = N, context: bool = False) -> Network:
    return Network((layer,), M, tokens, CONTEXT if context else None)


UNEQUAL = (
    head(seed=10, memory=3),
    head(seed=20, memory=5),
    head(seed=30, memory=2, rows=Rows("own")),
    head(seed=40, memory=3),
    head(seed=50, rows=Rows(), r=3, v=1),
    head(seed=60, memory=5, query_rows=Rows.some([3, 1])),
    head(seed=70, memory=5),
)

NETWORKS: dict[str, Network] = {
    "one map for all": alone(Linear((Term(numbers(M, 2)),), numbers(1, 2)), tokens=None),
    "no constant": alone(Linear((Term(numbers(M, 2)),)), tokens=None),
    "a map per token": alone(Linear((Term(numbers(N, M, 2)),), numbers(N, 2))),
    "mixes": alone(Linear((Term(numbers(M, M), numbers(6, N)), Term(None, numbers(6, N, seed=9))), numbers(6, M))),
    "a map per token, then a mix": alone(Linear((Term(numbers(N, M, 2), numbers(6, N)),), numbers(1, 2))),
    "identity": alone(Linear((Term(),)), tokens=None),
    "memory": alone(Attention((head(memory=5),)), tokens=None),
    "all rows": alone(Attention((head(rows=Rows()),)), tokens=None),
    "some rows": alone(Attention((head(rows=Rows.some([3, 0]), query_rows=Rows.some([2, 1, 0])),))),
    "own row and memory": alone(Attention((head(rows=Rows("own"), memory=2),)), tokens=None),
    "own row of some queries": alone(
        Attention((head(rows=Rows("own"), memory=2, query_rows=Rows.some([3, 1])),), residual=True)
    ),
    "memory and all rows": alone(Attention((head(rows=Rows(), memory=3),))),
    "context": alone(Attention((head(rows=Rows(source="context")),)), context=True),
    "some of the context and memory": alone(
        Attention((head(rows=Rows.some([4, 0, 2], "context"), memory=2, query_rows=Rows.some([1, 2])),)), context=True
    ),
    "residual": alone(Attention((head(memory=5), head(seed=7, rows=Rows())), residual=True)),
    "wide values": alone(Attention((head(memory=4, r=1, v=5),))),
    "unequal heads": alone(Attention(UNEQUAL)),
    "softmax": alone(Softmax(), tokens=None),
    "deep": Network(
        (
            Linear((Term(numbers(N, M, M)),), numbers(1, M)),
            Attention((head(memory=4, claims=True), head(seed=3, memory=4, rows=Rows("own"))), residual=True),
            Softmax(),
            Attention((head(seed=5, rows=Rows()),)),
            Linear((Term(numbers(OUT, 1), np.eye(2, N)),)),
        ),
        M,
        N,
    ),
}


TWO_INPUTS = Network(
    (Attention((Head(numbers(2, 2), numbers(1, 2), Rows(), numbers(4, 2), numbers(4, 1), Rows(source="context")),)),),
    2,
    None,
    (2, 3),
    "",
    (
        Linear((Term(numbers(2, 3, 3)),), numbers(2, 3)),
        Linear((Term(numbers(3, 4), numbers(6, 2)), Term(numbers(3, 4, seed=2), numbers(6, 2, seed=2))), numbers(6, 4)),
    ),
)
"""The second input passes two linear maps, the second of which makes six rows of two."""


def inputs(network: Network, *batch: int, seed: int = 0) -> tuple[np.ndarray, ...]:
    """Tokens, and a second input where the network reads one."""
    tokens = numbers(*batch, network.tokens or N, network.features, seed=100 + seed)
    return (tokens,) if network.context is None else (tokens, numbers(*batch, *network.context, seed=200 + seed))


def reference(network: Network, tokens: np.ndarray, context: np.ndarray | None = None) -> np.ndarray:
    """One sequence (n, m) through the network, by the definitions, number by number."""
    state = [list(map(float, row)) for row in tokens]
    for layer in network.layers:
        if isinstance(layer, Linear):
            state = _linear(layer, state)
        elif isinstance(layer, Attention):
            state = _attention(layer, state, [] if context is None else [list(row) for row in context])
        else:
            state = [_softmax(row) for row in state]
    return np.array(state)


def reference_weights(one: Head, state: np.ndarray, context: np.ndarray | None = None) -> np.ndarray:
    """The softmax weights (query, key) of one head."""
    told = [] if context is None else context.tolist()
    return np.array([_head_weights(one, state.tolist(), told, i)[0] for i in _rows(one.query_rows, len(state))])


def _linear(layer: Linear, state: list) -> list:
    total = None
    for term in layer.terms:
        part = state
        if term.map is not None:
            part = [_times(row, term.map if term.map.ndim == 2 else term.map[i]) for i, row in enumerate(part)]
        if term.mix is not None:
            part = [
                [sum(weights[j] * part[j][f] for j in range(len(part))) for f in range(len(part[0]))]
                for weights in term.mix
            ]
        total = part if total is None else [_plus(x, y) for x, y in zip(total, part, strict=True)]
    if layer.constant is None:
        return total
    return [_plus(row, layer.constant[i if len(layer.constant) > 1 else 0]) for i, row in enumerate(total)]


def _attention(layer: Attention, state: list, context: list) -> list:
    width = layer.heads[0].output.shape[1]
    total = [list(row) if layer.residual else [0.0] * width for row in state]
    for one in layer.heads:
        for i in _rows(one.query_rows, len(state)):
            weights, values = _head_weights(one, state, context, i)
            mixed = [sum(w * value[f] for w, value in zip(weights, values, strict=True)) for f in range(len(values[0]))]
            total[i] = _plus(total[i], _times(mixed, one.output))
    return total


def _head_weights(one: Head, state: list, context: list, i: int) -> tuple[list, list]:
    keys = [] if one.memory_keys is None else [list(key) for key in one.memory_keys]
    values = [] if one.memory_values is None else [list(value) for value in one.memory_values]
    if one.key_rows is not None:
        source = state if one.key_rows.source == "state" else context
        told = [i] if one.key_rows.kind == "own" else _rows(one.key_rows, len(source))
        keys += [_times(source[j], one.key) for j in told]
        values += [_times(source[j], one.value) for j in told]
    query = _times(state[i], one.query)
    return _softmax([sum(a * b for a, b in zip(query, key, strict=True)) for key in keys]), values


def _rows(rows: Rows, count: int) -> list[int]:
    return list(range(count)) if rows.indices is None else [int(i) for i in rows.indices]


def _times(row: list, matrix: np.ndarray) -> list:
    return [sum(row[k] * float(matrix[k, j]) for k in range(len(row))) for j in range(matrix.shape[1])]


def _plus(x: list, y: list) -> list:
    return [a + float(b) for a, b in zip(x, y, strict=True)]


def _softmax(scores: list) -> list:
    powers = [math.exp(score - max(scores)) for score in scores]
    return [power / sum(powers) for power in powers]
