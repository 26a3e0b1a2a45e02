r"""What the columns of a state are, layer by layer, read from the weights: inputs, constants, forms, registers.

A state is kept as an affine function of *symbols*: the inputs at first, then whatever heads have written. Linear maps
of it are again such functions; a column that heads write becomes a symbol of its own. So it is known at every layer
which columns are constant, and which form of which symbols a head's query is.

Tokens that are treated alike share one row. A linear map that mixes tokens, or treats each in its own way, spreads the
symbols over the tokens: symbol s of token i is one of its own from there on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import numpy.typing as npt

from attnforge.labels.forms import LONGEST, form_text
from attnforge.network import Attention, Linear, Term
from attnforge.network.apply import rows_after

Array = npt.NDArray[np.float64]
ColumnRole = Literal["input", "constant", "form", "register", "empty"]

MOST = 2**24  # numbers of a state that is spread over its tokens: 128 MB


@dataclass(frozen=True, eq=False)
class Columns:
    """Columns (m) of ``rows`` tokens, None for any number: ``reader`` (n or 1, S + 1, m) of S symbols and one.

    ``written`` says of each symbol whether heads have written it; the others are inputs. A symbol is each token's own,
    or where they are ``spread`` that of one of them.
    """

    symbols: tuple[str, ...]
    written: tuple[bool, ...]
    reader: Array
    rows: int | None
    spread: bool = False

    @classmethod
    def of_inputs(cls, names: Sequence[str], rows: int | None) -> Columns:
        """The inputs of every token."""
        count = len(names)
        return cls(tuple(names), (False,) * count, np.eye(count + 1, count)[None], rows)

    @property
    def width(self) -> int:
        """Number of columns."""
        return int(self.reader.shape[2])

    def row(self, token: int) -> Array:
        """What one token holds, (S + 1, m)."""
        return np.asarray(self.reader[token if len(self.reader) > 1 else 0])

    def constants(self) -> Array:
        """The columns (m,) that are the same number at every token, and NaN where they are not."""
        varies = self.reader[:, :-1].any(axis=(0, 1)) | (self.reader[:, -1] != self.reader[0, -1]).any(axis=0)
        return np.where(varies, np.nan, self.reader[0, -1])

    def name(self, column: int) -> str:
        """A column in words: its symbol, its number, or its form at the first token."""
        held = self.reader[0, :, column]
        (read,) = np.nonzero(held[:-1])
        if not len(read):
            differs = (self.reader[:, -1, column] != held[-1]).any() or self.reader[:, :-1, column].any()
            return f"column {column}" if differs else f"{held[-1]:.6g}"
        if len(read) > LONGEST:
            return f"a form of {len(read)} columns"
        return form_text(held[read], float(held[-1]), [self.symbols[i] for i in read])

    def role(self, column: int) -> ColumnRole:
        """What kind of thing a column holds."""
        reader = self.reader[:, :, column]
        if not reader.any():
            return "empty"
        if not np.isnan(self.constants()[column]):
            return "constant"
        (read,) = np.nonzero(reader[0, :-1])
        alone = len(read) == 1 and reader[0, read[0]] == 1.0 and not reader[0, -1]
        if not alone:
            return "form"
        return "register" if self.written[read[0]] else "input"

    def after_linear(self, layer: Linear) -> Columns:
        """The columns behind a linear map."""
        rows = rows_after(layer, self.rows)
        if all(term.mix is None and (term.map is None or term.map.ndim == 2) for term in layer.terms):
            parts = [self.reader if term.map is None else self.reader @ term.map for term in layer.terms]
            return self._plus(np.sum(parts, axis=0), layer.constant, rows)
        spread = self._spread()
        if spread is None:
            return self._forgotten(layer, rows)
        total = np.sum([_moved(term, spread.reader) for term in layer.terms], axis=0)
        return spread._plus(total, layer.constant, rows)

    def after_attention(self, layer: Attention, names: Sequence[str]) -> Columns:
        """The columns behind a layer of attention, those that it writes as symbols of the names given, one a column."""
        writes = np.any([(head.output != 0).any(axis=0) for head in layer.heads], axis=0)
        old = np.zeros((1, 1, len(writes)))
        symbols: tuple[str, ...] = ()
        written: tuple[bool, ...] = ()
        if layer.residual and not self.spread:
            old, symbols, written = self.reader, self.symbols, self.written
        elif layer.residual:
            old, writes = np.nan_to_num(self.constants())[None, None], writes | np.isnan(self.constants())
        fresh = np.flatnonzero(writes)
        reader = np.concatenate([old[:, :-1], np.zeros((len(old), len(fresh), len(writes))), old[:, -1:]], axis=1)
        reader[:, :, fresh] = 0.0
        reader[:, len(symbols) + np.arange(len(fresh)), fresh] = 1.0
        names = tuple(names[c] for c in fresh.tolist())
        return Columns((*symbols, *names), (*written, *(True for _ in names)), reader, self.rows)._pruned()

    def _plus(self, reader: Array, constant: Array | None, rows: int | None) -> Columns:
        if constant is not None:
            if len(constant) > len(reader):
                reader = np.repeat(reader, len(constant), axis=0)
            reader = reader.copy()
            reader[:, -1] += constant
        return replace(self, reader=reader, rows=rows)

    def _spread(self) -> Columns | None:
        """The same with symbols of every token; None where that is too much, or the number of tokens is not known."""
        if self.spread or self.rows == 1:
            return self
        n, (_, size, width) = self.rows or 0, self.reader.shape
        if not 0 < n * (n * size + 1) * width <= MOST:
            return None
        count = size - 1
        reader = np.zeros((n, n * count + 1, width))
        for i in range(n):
            reader[i, i * count : (i + 1) * count], reader[i, -1] = self.row(i)[:-1], self.row(i)[-1]
        names = tuple(f"{name} of token {i}" for i in range(n) for name in self.symbols)
        return Columns(names, self.written * n, reader, n, spread=True)

    def _forgotten(self, layer: Linear, rows: int | None) -> Columns:
        """Columns of which no more is known than that they vary, or that they are constants of the map."""
        width = next((t.map.shape[-1] for t in layer.terms if t.map is not None), self.width)
        names = [f"column {c}" for c in range(width)]
        reader, constant = np.zeros((1, width + 1, width)), np.zeros((1, width))
        told = constant if layer.constant is None else layer.constant
        moved = [np.ones(width, dtype=bool) if t.map is None else _reaches(t.map) for t in layer.terms]
        fixed = ~np.any(moved, axis=0) & (told == told[0]).all(axis=0)
        reader[0, np.arange(width), np.arange(width)] = ~fixed
        reader[0, -1] = np.where(fixed, told[0], 0.0)
        return Columns(tuple(names), (False,) * width, reader, rows)

    def _pruned(self) -> Columns:
        """Without symbols that no column knows any more."""
        used = np.asarray(self.reader[:, :-1].any(axis=(0, 2)))
        symbols = tuple(name for name, keep in zip(self.symbols, used, strict=True) if keep)
        written = tuple(each for each, keep in zip(self.written, used, strict=True) if keep)
        return Columns(symbols, written, self.reader[:, np.append(used, True)], self.rows, self.spread)


def _moved(term: Term, reader: Array) -> Array:
    """One summand of a linear map of spread columns (n, S + 1, m)."""
    if term.map is not None:
        reader = reader @ term.map  # of two axes for all tokens, of three for each its own
    return reader if term.mix is None else np.tensordot(term.mix, reader, axes=1)


def _reaches(feature_map: Array) -> npt.NDArray[np.bool_]:
    return np.asarray((feature_map != 0).reshape(-1, feature_map.shape[-1]).any(axis=0))
