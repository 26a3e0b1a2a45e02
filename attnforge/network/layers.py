"""The parts a network is made of: frozen dataclasses over read-only float64 arrays, checked on construction.

What a part computes is said here, once; whatever two readers could take differently cannot be constructed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from attnforge.errors import TargetError
from attnforge.network.arrays import REMEDY, Array, Indices, indices, optional_weights, weights

KINDS, SOURCES = ("all", "some", "own"), ("state", "context")
FEW = 64  # keys up to which writing out a softmax is no slower than a fused kernel


def is_a(kind: type, *parts: object) -> bool:
    """Whether all parts are what annotations promise: files and callers may hand over anything."""
    return all(isinstance(part, kind) for part in parts)


def check_parts(whole: str, name: str, parts: Any, kind: Any) -> None:
    """Raise unless the parts are a tuple of that kind, and not empty."""
    wanted = f"The {name} of {whole} are a tuple of at least one {getattr(kind, '__name__', 'layer')}"
    if not isinstance(parts, tuple) or not parts:
        raise TargetError(wanted, f"{parts!r:.40}", REMEDY)
    for i, part in enumerate(parts):
        if not isinstance(part, kind):
            raise TargetError(wanted, f"{type(part).__name__} at {i}", REMEDY)


def _require_together(requirement: str, parts: Mapping[str, object]) -> None:
    missing = [name for name, part in parts.items() if part is None]
    if missing and len(missing) != len(parts):
        raise TargetError(requirement, f"no {' and no '.join(missing)}", REMEDY)


def _keep(part: object, **fields: object) -> None:
    """Set fields of a frozen dataclass, while it is made."""
    for name, value in fields.items():
        object.__setattr__(part, name, value)


@dataclass(frozen=True, eq=False)
class Term:
    """One summand ``Q Z P`` of a linear map. ``None`` is the identity.

    ``map`` is P, (m_in, m_out), or (n, m_in, m_out) when each token has its own: the sum over i of e_i e_i^T Z P_i.
    ``mix`` is Q, (n_out, n_in).
    """

    map: Array | None = None
    mix: Array | None = None

    def __post_init__(self) -> None:
        _keep(self, map=optional_weights("a map", self.map, 2, 3), mix=optional_weights("a mix", self.mix, 2))


@dataclass(frozen=True, eq=False)
class Linear:
    """Z -> sum_i Q_i Z P_i + R: the papers' sum-of-linear map, of at least one term. It may lengthen the sequence.

    ``constant`` is R, (n_out, m_out), or (1, m_out) for the same constant at every token.
    """

    terms: tuple[Term, ...]
    constant: Array | None = None

    def __post_init__(self) -> None:
        check_parts("a linear map", "terms", self.terms, Term)
        _keep(self, constant=optional_weights("a constant", self.constant, 2))


@dataclass(frozen=True, eq=False)
class Rows:
    """A constant set of tokens: all of them, the listed ones, or each query's own.

    ``source`` is ``state`` (the layer's input) or ``context`` (the network's second input).
    """

    kind: Literal["all", "some", "own"] = "all"
    indices: Indices | None = None
    source: Literal["state", "context"] = "state"

    def __post_init__(self) -> None:
        if not (is_a(str, self.kind, self.source) and self.kind in KINDS and self.source in SOURCES):
            got = f"{self.kind!r:.40} of {self.source!r:.40}"
            raise TargetError("Rows are all, some or own, of the state or the context", got, REMEDY)
        if (self.kind == "some") != (self.indices is not None):
            raise TargetError("Rows of kind 'some', and no others, list their indices", self.kind, REMEDY)
        if self.kind == "own" and self.source == "context":
            raise TargetError("A query's own token is one of the state's", "own of the context", REMEDY)
        _keep(self, indices=None if self.indices is None else indices(self.indices))

    @classmethod
    def some(cls, indices: npt.ArrayLike, source: Literal["state", "context"] = "state") -> Rows:
        """The listed tokens."""
        found = np.asarray(indices)
        return cls("some", found.astype(np.int64) if np.issubdtype(found.dtype, np.integer) else found, source)

    def take(self, tokens: Array) -> Array:
        """These tokens of a (..., n, m) array."""
        return tokens if self.indices is None else tokens[..., self.indices, :]


@dataclass(frozen=True, eq=False)
class Claims:
    """What the builder says a head's keys mean: used by kernels, plots and proofs, verified, never trusted.

    ``positions`` (keys,) are anchor positions along the linear form the head reads, or (keys, r) along r of them;
    ``roles`` name each key (``anchor``, ``sentinel``, ``ghost``; ``low``, ``self``, ``high``; ``padding``);
    ``sharpness`` is the beta of scores beta (2 y L - L^2) or, for the gate, of beta (y - a), or on grids c = beta h^2.
    ``forms`` (r, D + 1) are the weights and offset of the forms where they are not the inputs themselves; ``formula``
    says what the register that a head writes is, as a formula of the features r[0], r[1], .. of its token.
    Nothing that a claim says changes what a network computes.
    """

    construction: str
    sharpness: float
    positions: Array
    roles: tuple[str, ...]
    forms: Array | None = None
    formula: str | None = None

    def __post_init__(self) -> None:
        if not (self.formula is None or isinstance(self.formula, str)):
            raise TargetError("A claimed formula is text", type(self.formula).__name__, REMEDY)
        if not (is_a(tuple, self.roles) and is_a(str, self.construction) and set(map(type, self.roles)) <= {str}):
            raise TargetError("A claim names its construction and the role of each key", repr(self.roles)[:80], REMEDY)
        if not isinstance(self.sharpness, float):
            raise TargetError("A claimed sharpness is a float", type(self.sharpness).__name__, REMEDY)
        positions = weights("claimed positions", self.positions, 1, 2)
        _keep(self, positions=positions, forms=optional_weights("claimed forms", self.forms, 2))


@dataclass(frozen=True, eq=False)
class Head:
    """One softmax head: out_i = sum_k softmax_k(q_i . k_k) v_k W_O, with the sharpness folded into the scores.

    ``query`` (m, r), ``key`` (m, r), ``value`` (m, v), ``output`` (v, m_out). ``key_rows`` are the tokens attended to;
    None, and then without ``key`` and ``value``, is no token. ``memory_keys`` (p, r) and ``memory_values`` (p, v), both
    or neither, are the head's own constant anchor tokens, which come first in the order of keys. The output is added
    at the query rows, all or some tokens of the state.
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

    def __post_init__(self) -> None:
        _keep(self, query=weights("query", self.query, 2), output=weights("output", self.output, 2))
        for name in ("key", "value", "memory_keys", "memory_values"):
            _keep(self, **{name: optional_weights(name, getattr(self, name), 2)})
        self._check_rows()
        self._check_shapes()

    def _check_rows(self) -> None:
        asks = is_a(Rows, self.query_rows) and self.query_rows.kind != "own"
        if not asks or self.query_rows.source != "state":
            raise TargetError("Queries are all or some tokens of the state", repr(self.query_rows)[:80], REMEDY)
        for kind, part in ((Rows, self.key_rows), (Claims, self.claims)):
            if not isinstance(part, kind | None):
                raise TargetError(f"A head has {kind.__name__} or None", type(part).__name__, REMEDY)
        told = {"key_rows": self.key_rows, "key": self.key, "value": self.value}
        _require_together("A head has key rows with both W_K and W_V, or none of the three", told)
        kept = {"memory_keys": self.memory_keys, "memory_values": self.memory_values}
        _require_together("A head has memory keys with as many memory values, or neither", kept)
        if self.key_rows is None and self.memory_keys is None:
            raise TargetError("A head has keys: tokens, memory or both", "none", REMEDY)

    def _check_shapes(self) -> None:
        r, v, p = self.query.shape[1], self.output.shape[0], self.memory_size
        told = 0 if self.key is None else len(self.key)
        wanted = {"key": (told, r), "value": (told, v), "memory_keys": (p, r), "memory_values": (p, v)}
        for name, shape in wanted.items():
            array = getattr(self, name)
            if array is not None and array.shape != shape:
                raise TargetError(f"A head's {name} has the shape {shape}", str(array.shape), REMEDY)

    @property
    def memory_size(self) -> int:
        """Number of constant keys."""
        return 0 if self.memory_keys is None else len(self.memory_keys)

    @property
    def reads(self) -> npt.NDArray[np.bool_]:
        """The features (m,) of the state that queries, keys or values depend on."""
        told = self.key_rows is not None and self.key_rows.source == "state"
        maps = [self.query, *(each for each in (self.key, self.value) if told and each is not None)]
        return np.asarray(np.any([np.any(each != 0, axis=1) for each in maps], axis=0))

    @property
    def is_small(self) -> bool:
        """Whether its keys are its own token and constants, few in all: a run writes such a softmax out.

        Which heads a fused kernel may run is thereby known from the numbers, to whoever bounds what rounding does.
        """
        alone = self.key_rows is None or self.key_rows.kind == "own"
        return alone and self.memory_size + (self.key_rows is not None) <= FEW


@dataclass(frozen=True, eq=False)
class Attention:
    """Heads in parallel, summed; with ``residual`` the input is added."""

    heads: tuple[Head, ...]
    residual: bool = False

    def asked_by(self, rows: Rows) -> Attention:
        """The same heads, asked by these tokens."""
        return replace(self, heads=tuple(replace(head, query_rows=rows) for head in self.heads))

    def __post_init__(self) -> None:
        check_parts("attention", "heads", self.heads, Head)
        if not isinstance(self.residual, bool):
            raise TargetError("A residual is there or not: True or False", repr(self.residual)[:40], REMEDY)
        width = self.heads[0].output.shape[1]
        for i, head in enumerate(self.heads):
            if head.output.shape[1] != width:
                raise TargetError(f"The heads of a layer write {width} features", f"{head.output.shape} at {i}", REMEDY)
        if self.residual and width != len(self.heads[0].query):
            got = f"{width} written to {len(self.heads[0].query)}"
            raise TargetError("A residual needs as many features as are read", got, REMEDY)


@dataclass(frozen=True, eq=False)
class Softmax:
    """Softmax over the features of each token (paper A's one layer of attention followed by a softmax)."""


Layer = Linear | Attention | Softmax
