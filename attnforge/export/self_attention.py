r"""A network as plain self-attention over one sequence: what a stock transformer without MLPs and norms runs.

Our heads own constant keys, name the tokens that ask and answer, and stand between linear maps. A stock transformer has
one sequence, one residual stream that every layer adds to, and heads of one width of which every position asks all. In
between lies this layout, which keeps every head and every number of the network:

- **Sequence** of L positions: a *sink*; *slots*, as many as the largest memory has keys; the rows of the second input;
  the tokens. Slot j is the j-th constant key of every head that has one.
- **Residual stream.** Its first L columns hold the position, one-hot, from the positional embedding; behind them are
  registers, zero but for the inputs. A state Z of the network is read off it by a matrix A, row by row: $z_i = h_i A$.
  Constants of a token are rows of A at its position, so every affine map of the tokens alike, $Z \to Z P + R$, is
  another matrix A and needs no layer.
- **Constant keys.** $W_K$ has key j as its row of slot j, $W_V$ value j. A one-hot row times a matrix is a row of it
  to the last bit, so these are the numbers of the network. Keys of tokens are $A W_K$, likewise values and queries.
- **Who looks at whom.** To the scores is added a constant $B_{ij}$: 0 where query i may look at key j, $-M$ where not.
  With one class c(i) of queries for each distinct row of B that takes as many columns of a head, $e_{c(i)}$ in its
  queries and $B_{\cdot j}$ in its keys (or the same of columns of B, where these are fewer). Allowed scores get a sum
  of exact zeros, so they do not change; forbidden ones fall by $M = 2^{100}$, and $e^{-M}$ is 0 in every dtype as long
  as scores are below $2^{99}$: nothing leaks, and rounding is not touched.
- **Resting.** A position that does not ask this head looks at the sink, whose value is 0: it writes exactly nothing,
  so slots hold no registers, ever.
- **Linear maps that mix tokens**, $\sum_j Q_{ij} z_j P$, are heads whose scores are B alone: a softmax of logarithms is
  proportional to their exponentials, so $B_{ij} = \ln(Q_{ij}/s)$ for the positive entries, s their largest row sum, and
  the rest of a row, $1 - \sum_j Q_{ij}/s$, at the sink, give $\sum_j Q_{ij} z_j / s$ over positive entries; another
  head does the negative ones. A map of its own for every token is one such pair of heads a token.
- **Softmax over features** is a head with the unit vectors as constant keys and values.
- **Layers** that have a residual add to the registers that hold their state, where there are such; others write to
  registers of their own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import numpy.typing as npt

from attnforge.errors import RefusalError
from attnforge.network import Attention, Head, Layer, Linear, Network, Softmax, Term
from attnforge.network.apply import rows_after

Array = npt.NDArray[np.float64]
Kind = Literal["attention", "softmax", "linear map", "at rest"]

FORBIDDEN = 2.0**100  # finite in float32, and above the scores of anything sensible
MOST_POSITIONS = 1056  # a memory of 1024 keys, the sink, and some tokens: attention of all to all is quadratic
MOST_WEIGHTS = 2**27  # a gigabyte of float64

SINK = 0


@dataclass(frozen=True, eq=False)
class PlainHead:
    """W_Q and W_K (D, r), W_V (D, v), W_O (v, D), on a residual stream of D columns; scores are not scaled."""

    query: Array
    key: Array
    value: Array
    output: Array


@dataclass(frozen=True, eq=False)
class PlainNetwork:
    """Layers of heads that add to the stream, whatever they are asked by whichever position.

    ``positions`` say what stands where, ``first`` is the position of the first token, ``rows`` how many come in and go
    out; ``columns`` take the inputs and ``readout`` (D, k) gives the outputs. ``told`` is position and number of rows
    of the second input, ``told_columns`` take it. ``blocks`` are the layers that stand for the network's layers of
    attention, in order; ``written`` are the columns that each layer adds to, ``kinds`` what it is in the network.
    """

    positions: tuple[str, ...]
    width: int
    layers: tuple[tuple[PlainHead, ...], ...]
    readout: Array
    first: int
    rows: tuple[int, int]
    columns: slice
    told: tuple[int, int]
    told_columns: slice
    blocks: tuple[int, ...]
    written: tuple[slice, ...]
    kinds: tuple[Kind, ...]

    @property
    def head_width(self) -> int:
        """Columns of the widest query, key or value."""
        return max(int(part.shape[1]) for layer in self.layers for head in layer for part in (head.query, head.value))

    @property
    def heads(self) -> int:
        """Heads of the layer that has most."""
        return max(len(layer) for layer in self.layers)


def plain(network: Network, tokens: int, told: int = 0) -> PlainNetwork:
    """The network for so many tokens, at most, and so many rows of its second input.

    >>> found = plain(Network((Linear((Term(np.eye(2)),), np.ones((1, 2))), Softmax()), 2), tokens=1)
    >>> found.positions, found.width, [len(layer) for layer in found.layers]
    (('sink', 'slot 0', 'slot 1', 'token 0'), 8, [1])
    """
    layers = _without_softmax(network)
    slots = max(
        (head.memory_size for layer in layers if isinstance(layer, Attention) for head in layer.heads), default=0
    )
    most, most_told = _most(network.layers, tokens), _most(network.context_layers, told)
    names = [
        "sink",
        *(f"slot {j}" for j in range(slots)),
        *(f"context {i}" for i in range(most_told)),
        *(f"token {i}" for i in range(most)),
    ]
    _check_positions(len(names), slots)
    stream = _Stream(len(names))
    first = 1 + slots + most_told
    state = stream.given(first, tokens, network.features)
    second = stream.given(1 + slots, told, network.context[1] if network.context is not None else 0)
    columns, told_columns = state.block or slice(0), second.block or slice(0)
    for told_layer in network.context_layers:
        second = _linear(stream, told_layer, second)
    blocks: list[int] = []
    for given, layer in zip(network.layers, layers, strict=True):
        if isinstance(layer, Linear):
            state = _linear(stream, layer, state)
            continue
        if isinstance(given, Attention):
            blocks.append(len(stream.layers))
        state = _attention(stream, layer, "attention" if layer is given else "softmax", state, second)
    if not stream.layers:  # linear maps alone: a stock model has a layer, which rests
        stream.add([stream.head(stream.resting(), stream.zeros(1), stream.zeros(1).T)], slice(0), "at rest")
    return PlainNetwork(
        tuple(names),
        stream.width,
        tuple(tuple(stream.widened(head) for head in layer) for layer in stream.layers),
        stream.wide(state.reader),
        first,
        (tokens, state.count),
        columns,
        (1 + slots, told),
        told_columns,
        tuple(blocks),
        tuple(stream.written),
        tuple(stream.kinds),
    )


def check_size(found: PlainNetwork) -> None:
    """Refuse a network whose heads, all made as wide as the widest, hold more weights than a machine should."""
    count = 4 * len(found.layers) * found.heads * found.width * found.head_width
    if count > MOST_WEIGHTS:
        got = f"{count:,}: {len(found.layers)} layers of {found.heads} heads of width {found.head_width}"
        remedy = "Use the torch format, or hooks on net.module()"
        raise RefusalError(f"A stock transformer of at most {MOST_WEIGHTS:,} weights is written", got, remedy)


@dataclass(frozen=True, eq=False)
class _Held:
    """Rows of the sequence that hold a state: it is ``reader`` (columns, m) of them.

    ``block`` are columns that it holds as they are.
    """

    start: int
    count: int
    reader: Array
    block: slice | None

    @property
    def at(self) -> slice:
        """The positions."""
        return slice(self.start, self.start + self.count)


@dataclass
class _Stream:
    """The residual stream so far: one column a position, registers behind them, layers of heads."""

    positions: int
    width: int = field(init=False)
    layers: list[list[PlainHead]] = field(default_factory=list)
    written: list[slice] = field(default_factory=list)
    kinds: list[Kind] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.width = self.positions

    def zeros(self, columns: int) -> Array:
        """A reader of nothing."""
        return np.zeros((self.width, columns))

    def fresh(self, count: int) -> slice:
        """Registers that nobody has written to."""
        self.width += count
        return slice(self.width - count, self.width)

    def add(self, heads: list[PlainHead], block: slice, kind: Kind) -> None:
        """A layer of heads that write to these registers."""
        self.layers.append(heads)
        self.written.append(block)
        self.kinds.append(kind)

    def given(self, start: int, count: int, features: int) -> _Held:
        """Rows whose registers take an input."""
        return self.held(start, count, self.fresh(features))

    def held(self, start: int, count: int, block: slice) -> _Held:
        """Rows that hold their state in some registers, as it is."""
        reader = self.zeros(block.stop - block.start)
        reader[block] = np.eye(reader.shape[1])
        return _Held(start, count, reader, block)

    def wide(self, reader: Array) -> Array:
        """The reader, which knows no later registers, of all columns."""
        return np.concatenate([reader, np.zeros((self.width - len(reader), reader.shape[1]))])

    def widened(self, head: PlainHead) -> PlainHead:
        """A head on all columns."""
        query, key, value = (self.wide(each) for each in (head.query, head.key, head.value))
        return PlainHead(query, key, value, self.wide(head.output.T).T)

    def resting(self) -> Array:
        """What is added to scores (L, L) where every position looks at the sink, and at nothing else."""
        bias = np.full((self.positions, self.positions), -FORBIDDEN)
        bias[:, SINK] = 0.0
        return bias

    def head(
        self, bias: Array, value: Array, output: Array, query: Array | None = None, key: Array | None = None
    ) -> PlainHead:
        """A head of these scores, the product of queries and keys added to ``bias``."""
        parts = []
        for factor, reader in zip(_factored(bias), (query, key), strict=True):
            constant = self.wide(factor)
            parts.append(constant if reader is None else np.hstack([self.wide(reader), constant]))
        return PlainHead(parts[0], parts[1], self.wide(value), output)

    def writing(self, output: Array, block: slice) -> Array:
        """An output map (v, m) into registers."""
        found = np.zeros((len(output), self.width))
        found[:, block] = output
        return found


def _factored(bias: Array) -> tuple[Array, Array]:
    """Two factors (L, c) of a bias (L, L): its product is exact, as one of them picks rows or columns of it."""
    rows, row = np.unique(bias, axis=0, return_inverse=True)
    columns, column = np.unique(bias, axis=1, return_inverse=True)
    if len(rows) <= columns.shape[1]:
        return np.eye(len(rows))[row.ravel()], np.ascontiguousarray(rows.T)
    return columns, np.eye(columns.shape[1])[column.ravel()]


def _without_softmax(network: Network) -> list[Linear | Attention]:
    """The layers, a softmax over features written as the head that it is."""
    layers: list[Linear | Attention] = []
    width = network.features
    for layer in network.layers:
        if isinstance(layer, Softmax):
            one = np.eye(width)
            layers.append(Attention((Head(one, one, memory_keys=one, memory_values=one),)))
            continue
        layers.append(layer)
        width = _width_after(layer, width) if isinstance(layer, Linear) else layer.heads[0].output.shape[1]
    return layers


def _attention(stream: _Stream, layer: Attention, kind: Kind, state: _Held, second: _Held) -> _Held:
    adds = layer.residual and state.block is not None
    block = state.block if adds and state.block is not None else stream.fresh(layer.heads[0].output.shape[1])
    stream.add([_head(stream, head, state, second, block) for head in layer.heads], block, kind)
    if adds:
        return state
    after = stream.held(state.start, state.count, block)
    if not layer.residual:
        return after
    return _Held(state.start, state.count, stream.wide(state.reader) + after.reader, block)


def _head(stream: _Stream, head: Head, state: _Held, second: _Held, block: slice) -> PlainHead:
    asking = np.arange(state.start, state.start + state.count)
    if head.query_rows.indices is not None:
        asking = asking[head.query_rows.indices]
    bias = stream.resting()
    bias[asking, SINK] = -FORBIDDEN
    slots = slice(1, 1 + head.memory_size)
    bias[asking, slots] = 0.0
    reader = stream.wide(state.reader)
    query, key, value = reader @ head.query, stream.zeros(head.query.shape[1]), stream.zeros(head.output.shape[0])
    if head.key_rows is not None and head.key is not None and head.value is not None:
        source = second if head.key_rows.source == "context" else state
        rows = np.arange(source.start, source.start + source.count)
        if head.key_rows.kind == "own":
            bias[asking, asking] = 0.0
        else:
            listed = rows if head.key_rows.indices is None else rows[head.key_rows.indices]
            bias[np.ix_(asking, listed)] = 0.0
        told = stream.wide(source.reader)
        key, value = told @ head.key, told @ head.value
    if head.memory_keys is not None and head.memory_values is not None:
        key[slots], value[slots] = head.memory_keys, head.memory_values
    return stream.head(bias, value, stream.writing(head.output, block), query, key)


def _linear(stream: _Stream, layer: Linear, held: _Held) -> _Held:
    alike = all(term.mix is None and (term.map is None or term.map.ndim == 2) for term in layer.terms)
    if alike:
        readers = [held.reader if term.map is None else held.reader @ term.map for term in layer.terms]
        block = held.block if len(layer.terms) == 1 and layer.terms[0].map is None else None
        found = _Held(held.start, held.count, stream.wide(np.sum(readers, axis=0)), block)
    else:
        block = stream.fresh(_width_after(layer, held.reader.shape[1]))
        heads = [head for term in layer.terms for head in _moving(stream, term, held, block)]
        if heads:  # a map that is not zero
            stream.add(heads, block, "linear map")
        found = stream.held(held.start, rows_after(layer, held.count), block)
    if layer.constant is not None:
        found.reader[found.at] += layer.constant
    return found


def _moving(stream: _Stream, term: Term, held: _Held, block: slice) -> Iterator[PlainHead]:
    """The heads of one term of a linear map that mixes tokens, or treats each in its own way."""
    mix = np.eye(held.count) if term.mix is None else term.mix
    reader = stream.wide(held.reader)
    if term.map is None or term.map.ndim == 2:
        yield from _mixing(stream, mix, held.start, reader if term.map is None else reader @ term.map, block)
        return
    for j, own in enumerate(term.map):
        alone = np.where(np.arange(mix.shape[1]) == j, mix, 0.0)
        yield from _mixing(stream, alone, held.start, reader @ own, block)


def _mixing(stream: _Stream, mix: Array, start: int, value: Array, block: slice) -> Iterator[PlainHead]:
    """Positive and negative entries of a matrix (n', n) of tokens, each by the softmax of their logarithms."""
    rows, columns = mix.shape
    for sign in (1.0, -1.0):
        entries = np.maximum(sign * mix, 0.0)
        total = entries.sum(axis=1).max()
        if not total:
            continue
        share = entries / total
        with np.errstate(divide="ignore"):
            at_rest = np.log(np.maximum(1.0 - share.sum(axis=1), 0.0))
            bias = stream.resting()
            bias[start : start + rows, SINK] = np.maximum(at_rest, -FORBIDDEN)
            bias[start : start + rows, start : start + columns] = np.maximum(np.log(share), -FORBIDDEN)
        yield stream.head(bias, value, stream.writing(sign * total * np.eye(value.shape[1]), block))


def _most(layers: tuple[Layer, ...], rows: int) -> int:
    """The largest number of rows on the way."""
    most = rows
    for layer in layers:
        if isinstance(layer, Linear):
            rows = rows_after(layer, rows)
            most = max(most, rows)
    return most


def _width_after(layer: Linear, width: int) -> int:
    return next((int(term.map.shape[-1]) for term in layer.terms if term.map is not None), width)


def _check_positions(count: int, slots: int) -> None:
    if count > MOST_POSITIONS:
        got = f"{count:,}: {slots:,} keys of the largest memory, and tokens"
        remedy = "Use the torch format, or hooks on net.module(), which know no limit"
        raise RefusalError(f"A stock transformer of at most {MOST_POSITIONS:,} positions is written", got, remedy)
