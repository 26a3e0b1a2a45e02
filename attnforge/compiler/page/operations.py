"""Multiply-adds of one evaluation, counted layer by layer as dense kernels run them."""

from __future__ import annotations

from attnforge.network import Attention, Head, Layer, Linear, Network, Softmax


def multiply_adds(network: Network, tokens: int = 1) -> int:
    """Products summed for one input of so many tokens (where the network does not fix them), zeros counted.

    Linear maps count m_in m_out a token and n_in n_out a feature where they mix tokens; a head counts its query, key
    and value maps, a product of length r for every score and one of length v for every weight, and its output map.

    >>> import attnforge as af
    >>> multiply_adds(af.constructions.gate([1.0, 2.0], 0.0, -1, 1).network)  # 4 + 2*2 + 4 + 2 + 3*2 + 3 + 1
    24
    """
    rows, second, total = network.tokens or tokens, 0, 0
    width = network.features
    if network.context is not None:
        second, features = network.context[0] or tokens, network.context[1]
        for layer in network.context_layers:
            count, second, features = _linear(layer, second, features)
            total += count
    for each in network.layers:
        count, rows, width = _layer(each, rows, width, second)
        total += count
    return total


def _layer(layer: Layer, rows: int, width: int, second: int) -> tuple[int, int, int]:
    """Multiply-adds, and rows and width of the result."""
    match layer:
        case Linear():
            return _linear(layer, rows, width)
        case Softmax():
            return 0, rows, width
        case Attention(heads):
            return sum(_head(head, rows, second) for head in heads), rows, heads[0].output.shape[1]


def _linear(layer: Linear, rows: int, width: int) -> tuple[int, int, int]:
    total, after, wide = 0, rows, width
    for term in layer.terms:
        wide = width if term.map is None else term.map.shape[-1]
        total += 0 if term.map is None else rows * width * wide
        after = rows if term.mix is None else len(term.mix)
        total += 0 if term.mix is None else after * rows * wide
    if layer.constant is not None:
        after, wide = max(after, len(layer.constant)), layer.constant.shape[-1]
    return total, after, wide


def _head(head: Head, rows: int, second: int) -> int:
    m, r = head.query.shape
    v, out = head.output.shape
    queries = rows if head.query_rows.indices is None else len(head.query_rows.indices)
    read = _rows_read(head, queries, rows, second)
    seen = head.memory_size + (0 if head.key_rows is None else 1 if head.key_rows.kind == "own" else read)
    projected = 0 if head.key is None else read * head.key.shape[0] * (r + v)
    return int(queries * m * r + projected + queries * seen * (r + v) + queries * v * out)


def _rows_read(head: Head, queries: int, rows: int, second: int) -> int:
    """Tokens whose keys and values are computed."""
    if head.key_rows is None:
        return 0
    if head.key_rows.kind == "own":
        return queries
    if head.key_rows.indices is not None:
        return len(head.key_rows.indices)
    return second if head.key_rows.source == "context" else rows
