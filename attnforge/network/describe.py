"""A network as a few readable lines."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from attnforge.network.apply import rows_after
from attnforge.network.flatten import count_parameters
from attnforge.network.layers import Attention, Head, Layer, Linear, Softmax

if TYPE_CHECKING:
    from attnforge.network.network import Network


def describe(network: Network) -> str:
    """One line a layer: what it reads, what it writes, which keys its heads hold."""
    total, nonzero = count_parameters(network)
    second = "" if network.context is None else f" and {_shape(*network.context)} of a second input"
    first = _shape(network.tokens, network.features)
    lines = [f"Network on {first} tokens{second}: {total:,} parameters, {nonzero:,} non-zero"]
    lines += [f"  second input {i}. {_layer(layer)}" for i, layer in enumerate(network.context_layers, start=1)]
    period = _period(network.layers)
    if period < len(network.layers):
        lines.append(f"  {len(network.layers) // period} times the same {period} layer{'s' * (period > 1)}:")
    return "\n".join(lines + [f"  {i}. {_layer(layer)}" for i, layer in enumerate(network.layers[:period], start=1)])


def _period(layers: tuple[Layer, ...]) -> int:
    """The length of the shortest block of which all layers are repetitions, one object standing for the same layer."""
    count = len(layers)
    fitting = (p for p in range(1, count + 1) if count % p == 0)
    return next(p for p in fitting if all(layers[i] is layers[i % p] for i in range(count)))


def count_keys(network: Network) -> int:
    """Keys of all heads: constant ones, own tokens, and other tokens where their number is known.

    Tokens of a prompt of any length are not counted.
    """
    told = None if network.context is None else network.context[0]
    for second in network.context_layers:
        told = rows_after(second, told)
    rows, total = network.tokens, 0
    for layer in network.layers:
        if isinstance(layer, Linear):
            rows = rows_after(layer, rows)
        elif isinstance(layer, Attention):
            total += sum(head.memory_size + _attended(head, rows, told) for head in layer.heads)
    return total


def _attended(head: Head, rows: int | None, told: int | None) -> int:
    if head.key_rows is None:
        return 0
    if head.key_rows.kind == "own":
        return 1
    if head.key_rows.indices is not None:
        return len(head.key_rows.indices)
    return (told if head.key_rows.source == "context" else rows) or 0


def _shape(rows: int | None, width: int) -> str:
    return f"({'n' if rows is None else rows}, {width})"


def _layer(layer: Layer) -> str:
    match layer:
        case Linear(terms, constant):
            extra = "" if constant is None else " + constant"
            shapes = Counter(_term(term.map, term.mix) for term in terms)
            body = " + ".join(text if n == 1 else f"{n} terms {text}" for text, n in shapes.items())
            return f"linear     Z -> {body}{extra}"
        case Attention(heads, residual):
            kinds = Counter(_head(head) for head in heads)
            body = "; ".join(f"{n} head{'s' if n > 1 else ''}: {text}" for text, n in kinds.items())
            return f"attention  {body}{' + residual' if residual else ''}"
        case Softmax():
            return "softmax    over features"


def _term(feature_map: object, mix: object) -> str:
    left = "" if mix is None else f"Q{list(getattr(mix, 'shape', ()))} "
    right = "" if feature_map is None else f" P{list(getattr(feature_map, 'shape', ()))}"
    return f"{left}Z{right}"


def _head(head: Head) -> str:
    parts = []
    if head.memory_size:
        parts.append(f"{head.memory_size} memory keys")
    if head.key_rows is not None:
        rows = head.key_rows
        count = "all tokens" if rows.kind == "all" else "own token" if rows.kind == "own" else f"{rows.indices} tokens"
        parts.append(count if rows.source == "state" else f"{count} of the second input")
    width = f"score width {head.query.shape[1]}, writes {head.output.shape[1]}"
    name = "" if head.claims is None else f" ({head.claims.construction}, sharpness {head.claims.sharpness:.4g})"
    return f"{' and '.join(parts)}, {width}{name}"
