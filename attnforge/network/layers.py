"""The parts a network is made of: frozen dataclasses over float64 arrays, checked on construction."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from attnforge.errors import TargetError

Array = npt.NDArray[np.float64]
Indices = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Term:
    """One summand ``Q Z P`` of a linear map. ``None`` is the identity.

    ``map`` is P, (m_in, m_out), or (n, m_in, m_out) when each token has its own: the sum over i of e_i e_i^T Z P_i.
    ``mix`` is Q, (n_out, n_in).
    """

    map: Array | None = None
    mix: Array | None = None


@dataclass(frozen=True, eq=False)
class Linear:
    """Z -> sum_i Q_i Z P_i + R: the papers' sum-of-linear map. It may lengthen the sequence.

    ``constant`` is R, (n_out, m_out), or (1, m_out) for the same constant at every token.
    """

    terms: tuple[Term, ...]
    constant: Array | None = None


@dataclass(frozen=True, eq=False)
class Rows:
    """A constant set of tokens: all of them, the listed ones, or each query's own.

    ``source`` is ``state`` (the layer's input) or ``context`` (the network's second input).
    """

    kind: Literal["all", "some", "own"] = "all"
    indices: Indices | None = None
    source: Literal["state", "context"] = "state"

    def __post_init__(self) -> None:
        if (self.kind == "some") != (self.indices is not None):
            raise TargetError("Rows of kind 'some', and no others, list their indices", self.kind)

    @classmethod
    def some(cls, indices: npt.ArrayLike, source: Literal["state", "context"] = "state") -> Rows:
        """The listed tokens."""
        return cls("some", np.asarray(indices, dtype=np.int64), source)

    def take(self, tokens: Array) -> Array:
        """These tokens of a (..., n, m) array."""
        return tokens if self.indices is None else tokens[..., self.indices, :]


@dataclass(frozen=True, eq=False)
class Claims:
    """What the builder says a head's keys mean: used by kernels, plots and proofs, verified, never trusted.

    ``positions`` (keys,) are anchor positions along the linear form the head reads, or (keys, r) along r of them;
    ``roles`` name each key (``anchor``, ``sentinel``, ``ghost``; ``low``, ``self``, ``high``; ``padding``);
    ``sharpness`` is the beta of scores beta (2 y L - L^2) or, for the gate, of beta (y - a), or on grids c = beta h^2.
    ``forms`` (r, D + 1) are the weights and offset of the forms where they are not the inputs themselves.
    """

    construction: str
    sharpness: float
    positions: Array
    roles: tuple[str, ...]
    forms: Array | None = None


@dataclass(frozen=True, eq=False)
class Head:
    """One softmax head: out_i = sum_k softmax_k(q_i . k_k) v_k W_O, with the sharpness folded into the scores.

    ``query`` (m, r), ``key`` (m, r), ``value`` (m, v), ``output`` (v, m_out). ``key_rows`` are the tokens attended to
    (None: no token), ``memory_keys`` (p, r) and ``memory_values`` (p, v) the head's own constant anchor tokens, which
    come first in the order of keys. The output is added at the query rows.
    """

    query: Array
    output: Array
    query_rows: Rows = Rows()
    key: Array | None = None
    value: Array | None = None
    key_rows: Rows | None = None
    memory_keys: Array | None = None
    memory_values: Array | None = None
    claims: Claims | None = None

    @property
    def memory_size(self) -> int:
        """Number of constant keys."""
        return 0 if self.memory_keys is None else len(self.memory_keys)


@dataclass(frozen=True, eq=False)
class Attention:
    """Heads in parallel, summed; with ``residual`` the input is added."""

    heads: tuple[Head, ...]
    residual: bool = False


@dataclass(frozen=True, eq=False)
class Softmax:
    """Softmax over the features of each token (paper A's one layer of attention followed by a softmax)."""


Layer = Linear | Attention | Softmax
