"""A network at one point by balls of many bits, from the definitions: the meaning itself."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from flint import arb, ctx

from attnforge.network import Attention, Head, Linear, Network, Rows

Balls = npt.NDArray[Any]  # of arb

BITS = 400  # scores of up to 1e6 subtract; what is left is far below any rounding of the runs
KNOWN = 1e-25  # of a value: far below what any dtype tells apart
MOST = 2**14  # every layer of steep gates takes 50 bits: so many are enough for three hundred
_exp = np.frompyfunc(lambda ball: ball.exp(), 1, 1)
_balls = np.frompyfunc(lambda number: arb(float(number)), 1, 1)


def exact_output(network: Network, tokens: npt.ArrayLike, context: npt.ArrayLike | None = None) -> Balls:
    """The output rows, each entry a ball around its exact value, in as many bits as it takes to know them."""
    before, bits = ctx.prec, BITS
    try:
        while True:
            ctx.prec = bits
            outputs = _output(network, tokens, context)
            if bits >= MOST or all(ball.rad() <= KNOWN * (1 + abs(ball)) for ball in outputs.ravel()):
                return outputs
            bits *= 2
    finally:
        ctx.prec = before


def _output(network: Network, tokens: npt.ArrayLike, context: npt.ArrayLike | None) -> Balls:
    told = _balls(np.asarray([] if context is None else context))
    for layer in network.context_layers:
        told = _linear(layer, told)
    state = _balls(np.asarray(tokens))
    for layer in network.layers:
        if isinstance(layer, Attention):
            state = _attention(layer, state, told)
        else:
            state = _linear(layer, state) if isinstance(layer, Linear) else np.stack([*map(_softmax, state)])
    return state


def _linear(layer: Linear, state: Balls) -> Balls:
    total: Any = 0
    for term in layer.terms:
        part = state
        if term.map is not None:
            maps = [term.map] * len(part) if term.map.ndim == 2 else list(term.map)
            part = np.stack([row @ _balls(each) for row, each in zip(part, maps, strict=True)])
        total = total + (part if term.mix is None else _balls(term.mix) @ part)
    return np.asarray(total if layer.constant is None else total + _balls(layer.constant))


def _attention(layer: Attention, state: Balls, told: Balls) -> Balls:
    nothing = np.full((len(state), layer.heads[0].output.shape[1]), arb(0), dtype=object)
    found = state.copy() if layer.residual else nothing
    for head in layer.heads:
        for i in _numbers(head.query_rows, len(state)):
            found[i] = found[i] + _head(head, i, state, told) @ _balls(head.output)
    return found


def _head(head: Head, i: int, state: Balls, told: Balls) -> Balls:
    keys, values = [], []
    if head.memory_keys is not None and head.memory_values is not None:
        keys, values = [*_balls(head.memory_keys)], [*_balls(head.memory_values)]
    if head.key_rows is not None and head.key is not None and head.value is not None:
        source = state if head.key_rows.source == "state" else told
        rows = source[[i] if head.key_rows.kind == "own" else _numbers(head.key_rows, len(source))]
        keys, values = [*keys, *rows @ _balls(head.key)], [*values, *rows @ _balls(head.value)]
    return _softmax(np.stack(keys) @ (state[i] @ _balls(head.query))) @ np.stack(values)


def _softmax(scores: Balls) -> Balls:
    powers = _exp(scores - max(float(score.mid()) for score in scores))
    return np.asarray(powers / powers.sum())


def _numbers(rows: Rows, count: int) -> list[int]:
    return list(range(count)) if rows.indices is None else rows.indices.tolist()
