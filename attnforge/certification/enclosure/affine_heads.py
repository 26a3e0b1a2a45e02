r"""Any network with one layer of attention, read as a sum of softmax heads whose scores are affine in the input.

Whatever the layout (memory or padded tokens, a gate's own key, several rows mixed by linear maps), output f of row i is
$$ \mathrm{out}(x) = u \cdot x + c + \sum_h \frac{\sum_k e^{a_{hk} \cdot x + b_{hk}}\,(v_{hk} + g_{hk} \cdot x)}
   {\sum_k e^{a_{hk} \cdot x + b_{hk}}} , $$
x all numbers of the input in a row, provided that no feature varies in a query and in a key that it meets; then scores
would be quadratic, and the network is refused. All numbers are balls that hold the exact ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce

import numpy as np
import numpy.typing as npt
from flint import arb, arb_mat

from attnforge.errors import CertificateError, RefusalError
from attnforge.network import Attention, Head, Linear, Network, Term

Array = npt.NDArray[np.float64]

MOST = 2**22  # numbers of the rows before attention: more are not read one by one


@dataclass(frozen=True, eq=False)
class AffineHead:
    """Scores slopes . x + offsets of p keys with values (p, k), as balls that contain the exact numbers.

    ``slopes`` (D, p), ``offsets`` (1, p), ``values`` (p, k); ``tilts`` (D, k) are the slopes of values that vary, by
    the number of their key.
    """

    slopes: arb_mat
    offsets: arb_mat
    values: arb_mat
    tilts: tuple[tuple[int, arb_mat], ...] = ()

    def through(self, weights: arb_mat) -> AffineHead:
        """The head with its values sent through a linear map."""
        tilts = tuple((k, tilt * weights) for k, tilt in self.tilts)
        return replace(self, values=self.values * weights, tilts=tilts)


@dataclass(frozen=True, eq=False)
class Row:
    """Features slope . x + offset, (D, m) and (1, m), plus heads with m values a key."""

    slope: arb_mat
    offset: arb_mat
    heads: tuple[AffineHead, ...] = ()

    def through(self, weights: Array) -> Row:
        """The row times a matrix."""
        by = _balls(weights)
        return Row(self.slope * by, self.offset * by, tuple(head.through(by) for head in self.heads))

    def scaled(self, factor: float) -> Row:
        """The row times a number."""
        return self if factor == 1.0 else self.through(factor * np.eye(self.offset.ncols()))

    def plus(self, other: Row) -> Row:
        """The sum of two rows."""
        return Row(self.slope + other.slope, self.offset + other.offset, (*self.heads, *other.heads))

    def output(self, feature: int) -> tuple[AffineHead, ...]:
        """One feature as a sum of heads: what is affine by itself is a head with one key."""
        pick = _balls(np.eye(self.offset.ncols())[:, feature : feature + 1])
        found = [head.through(pick) for head in self.heads]
        slope, offset = self.slope * pick, self.offset * pick
        inputs = slope.nrows()
        if not found or not _is_zero(slope) or not _is_zero(offset):
            tilts = () if _is_zero(slope) else ((0, slope),)
            found.append(AffineHead(arb_mat(inputs, 1), arb_mat(1, 1), offset, tilts))
        return tuple(found)


def read_heads(network: Network) -> tuple[tuple[Linear, ...], tuple[Head, ...]]:
    """The linear maps before the only layer of attention, and its heads; anything else is refused."""
    *before, last = network.layers
    encode = tuple(layer for layer in before if isinstance(layer, Linear))
    plain = isinstance(last, Attention) and not last.residual and len(encode) == len(before)
    if not isinstance(last, Attention) or not plain or network.tokens != 1 or network.context_layers:
        got = ", ".join(type(layer).__name__ for layer in network.layers)
        raise CertificateError("This proof covers linear maps and one layer of attention over constant keys", got)
    for head in last.heads:
        if head.key_rows is not None or head.memory_keys is None or head.query_rows.indices is not None:
            raise CertificateError("Keys and values are the heads' own memory", "keys from tokens", "Rebuild it")
    return encode, last.heads


def affine_head(encode: tuple[Linear, ...], head: Head, inputs: int) -> AffineHead:
    """The scores of a head over its memory, as affine functions of the only token."""
    rows = _inputs(1, inputs)
    for layer in encode:
        rows = _linear(layer, rows)
    return _head(head, rows[0], []).through(_balls(head.output))


def one_token(head: Head) -> AffineHead:
    """A head that reads its own token, whose first feature is 1, as a function of the others."""
    width = head.query.shape[0]
    row = Row(_balls(np.eye(width - 1, width, 1)), _balls(np.eye(1, width)))
    return _head(head, row, _key_rows(head, 0, [row], [])).through(_balls(head.output))


def read_rows(network: Network, tokens: int) -> list[Row]:
    """The output rows of a network on so many tokens; refused unless it has one layer of attention with affine scores.

    The second input's numbers come after those of the first.
    """
    told, width = network.context or (0, 0)
    first, second = tokens * network.features, (told or 0) * width
    widest = max([network.features, *(head.query.shape[0] for head in network.heads)])
    if told is None or (first + second) * tokens * widest > MOST:
        raise RefusalError("Rows are read one by one where they are few", f"{tokens:,} tokens", "Certify fewer")
    rows, context = _inputs(tokens, network.features, 0, first + second), _inputs(told, width, first, first + second)
    for told_layer in network.context_layers:
        context = _linear(_as_linear(told_layer), context)
    for layer in network.layers:
        if isinstance(layer, Attention):
            rows = [_attended(layer, i, rows, context) for i in range(len(rows))]
        else:
            rows = _linear(_as_linear(layer), rows)
    return rows


def _as_linear(layer: object) -> Linear:
    if not isinstance(layer, Linear):
        raise CertificateError("This proof covers linear maps and one layer of attention", type(layer).__name__)
    return layer


def _inputs(tokens: int, features: int, first: int = 0, inputs: int | None = None) -> list[Row]:
    inputs = tokens * features if inputs is None else inputs
    picks = (np.eye(inputs, features, -(first + i * features)) for i in range(tokens))
    return [Row(_balls(pick), arb_mat(1, features)) for pick in picks]


def _linear(layer: Linear, rows: list[Row]) -> list[Row]:
    """Z -> sum of Q Z P + R."""
    parts = [_term(term, rows) for term in layer.terms]
    total = [reduce(Row.plus, each) for each in zip(*parts, strict=True)]
    if layer.constant is None:
        return total
    shifts = np.broadcast_to(layer.constant, (len(total), layer.constant.shape[1]))
    return [replace(row, offset=row.offset + _balls(shift[None])) for row, shift in zip(total, shifts, strict=True)]


def _term(term: Term, rows: list[Row]) -> list[Row]:
    if term.map is not None:
        maps = np.broadcast_to(term.map, (len(rows), *term.map.shape[-2:]))
        rows = [row.through(each) for row, each in zip(rows, maps, strict=True)]
    return rows if term.mix is None else [_mixed(weights, rows) for weights in term.mix]


def _mixed(weights: Array, rows: list[Row]) -> Row:
    read = np.flatnonzero(weights)
    if not len(read):
        return Row(rows[0].slope * arb(0), rows[0].offset * arb(0))
    return reduce(Row.plus, (rows[k].scaled(float(weights[k])) for k in read))


def _attended(layer: Attention, i: int, rows: list[Row], context: list[Row]) -> Row:
    """Row i after a layer of attention."""
    own, width = rows[i], layer.heads[0].output.shape[1]
    found = own if layer.residual else Row(arb_mat(own.slope.nrows(), width), arb_mat(1, width))
    for head in layer.heads:
        asked = head.query_rows.indices
        if asked is None or i in asked:
            mixture = _head(head, own, _key_rows(head, i, rows, context)).through(_balls(head.output))
            found = replace(found, heads=(*found.heads, mixture))
    return found


def _key_rows(head: Head, i: int, rows: list[Row], context: list[Row]) -> list[Row]:
    if head.key_rows is None or head.key_rows.kind == "own":
        return [] if head.key_rows is None else [rows[i]]
    source = rows if head.key_rows.source == "state" else context
    return source if head.key_rows.indices is None else [source[int(k)] for k in head.key_rows.indices]


def _head(head: Head, query_row: Row, key_rows: Sequence[Row]) -> AffineHead:
    """One query's head, without its output map."""
    if query_row.heads or any(row.heads for row in key_rows):
        raise CertificateError("This proof covers one layer of attention", "several")
    query = query_row.through(head.query)
    scores, values, tilts = [], [], []
    if head.memory_keys is not None and head.memory_values is not None:
        by = _balls(head.memory_keys.T)
        scores.append((query.slope * by, query.offset * by))
        values.append(_balls(head.memory_values))
    if head.key is not None and head.value is not None:
        for number, row in enumerate(key_rows, start=head.memory_size):
            scores.append(_score(query, row.through(head.key)))
            value = row.through(head.value)
            values.append(value.offset)
            tilts += [] if _is_zero(value.slope) else [(number, value.slope)]
    slopes, offsets = (_side_by_side([score[part] for score in scores]) for part in (0, 1))
    return AffineHead(slopes, offsets, _stacked(values), tuple(tilts))


def _score(query: Row, key: Row) -> tuple[arb_mat, arb_mat]:
    """Slope (D, 1) and offset (1, 1) of q . k; refused where both vary in one feature."""
    back = key.offset.transpose()
    for f in range(query.slope.ncols()):
        if not (_column_is_zero(query.slope, f) or _column_is_zero(key.slope, f)):
            raise CertificateError("Scores are affine in the input", "a feature that varies in queries and keys")
    return query.slope * back + key.slope * query.offset.transpose(), query.offset * back


def _column_is_zero(matrix: arb_mat, column: int) -> bool:
    return all(matrix[i, column].is_zero() for i in range(matrix.nrows()))


def _is_zero(matrix: arb_mat) -> bool:
    return all(entry.is_zero() for entry in matrix.entries())


def _side_by_side(parts: list[arb_mat]) -> arb_mat:
    rows = [[entry for part in parts for entry in _row(part, i)] for i in range(parts[0].nrows())]
    return arb_mat(len(rows), sum(part.ncols() for part in parts), [entry for row in rows for entry in row])


def _row(matrix: arb_mat, i: int) -> list[arb]:
    return [matrix[i, k] for k in range(matrix.ncols())]


def _stacked(parts: list[arb_mat]) -> arb_mat:
    entries = [entry for part in parts for entry in part.entries()]
    return arb_mat(sum(part.nrows() for part in parts), parts[0].ncols(), entries)


def _balls(array: Array) -> arb_mat:
    rows, columns = array.shape
    return arb_mat(rows, columns, [arb(float(value)) for value in array.ravel()])
