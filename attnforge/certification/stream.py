r"""A residual stream in whatever basis: what is written along which directions, and what others read of that.

Sources are the constant 1, the inputs, and the numbers $a_h$ that heads compute before their output maps. In exact
arithmetic the stream before a layer is $z = \sum_s a_s D_s$: directions $D_s$ are rows of the first map and of output
maps, taken through the linear maps since. A matrix W reads $z W = \sum_s a_s\,(D_s W)$. So products of a network's own
weights say what a head reads of every source, whether the stream has a column for each of them, another basis, or fewer
dimensions than there are sources.

**Rounding.** A run's stream departs from $\sum_s a_s D_s$, with its own $a_s$, by at most ``error``, entry by entry:
the first map and every sum of a residual round, later maps carry that on, and a matrix that reads it adds
$$ |\delta z||W| + \gamma_k\,|z||W| , $$
k the roundings behind an entry, in any order. What a head reads is then $\sum_s a_s w_s$ up to a number known in size.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from attnforge.errors import CertificateError, RefusalError
from attnforge.kernel.rounding import count_roundings, gammas
from attnforge.kernel.softmax import SoftmaxArithmetic
from attnforge.network import Head, Layer, Linear
from attnforge.outward import Balls, Machine, Up

Array = npt.NDArray[np.float64]
Sizes = Callable[[Array], Up]  # from weights (S, r) of sources to bounds (r,) of the sums of |a_s w_s| in a run

Noise = dict[str, Up]  # how far queries (r,), keys (r,) and values (v,) may be from sums over sources

DISTRACTOR = "distractor"  # what a head claims to be that writes nothing that counts: it is bounded, and no more
REMEDY = "Rebuild the network"


@dataclass(frozen=True, eq=False)
class Stream:
    """Directions (S, m) of all sources, zero for those that are not written yet, and the error (m,) of a run."""

    directions: Balls
    error: Up
    machine: Machine

    @classmethod
    def embedded(
        cls, layer: Layer, rows: npt.NDArray[np.int64], sources: int, sizes: Sizes, machine: Machine
    ) -> Stream:
        """After the first map: source 0 is the constant, ``rows`` are the sources that its inputs are."""
        weights, constant = plain_map(layer)
        directions = np.zeros((sources, weights.shape[1]))
        directions[rows], directions[0] = weights, constant
        first = cls(Balls.exact(directions), Up.zeros(weights.shape[1]), machine)
        return replace(first, error=first._rounded(count_roundings(weights) + (constant != 0), first.size(sizes)))

    def size(self, sizes: Sizes) -> Up:
        """Of the stream's entries (m,) in a run."""
        found = sizes(self.directions.magnitude()) + self.error
        if not np.all(found.values < self.machine.largest):
            got = f"{float(found.most()):.3g}"
            raise RefusalError(f"Every number of the run must fit {self.machine.name}", got, "Use a wider dtype")
        return found

    def read(self, weights: Array, sizes: Sizes, constant: Array | None = None) -> tuple[Array, Up]:
        """What a matrix (m, r) reads: weights (S, r) of the sources, and how far a run is off (r,)."""
        read = self._through(weights, constant)
        return read.mid, self._off(weights, sizes, constant) + sizes(read.rad)

    def mapped(self, layer: Linear, sizes: Sizes) -> Stream:
        """After a linear map."""
        weights, constant = plain_map(layer)
        error = self._off(weights, sizes, constant)
        return replace(self, directions=self._through(weights, constant), error=error)

    def _through(self, weights: Array, constant: Array | None) -> Balls:
        """Directions behind a matrix; a constant is one of source 0."""
        directions = self.directions @ Balls.exact(weights)
        if constant is None:
            return directions
        added = np.zeros(directions.shape)
        added[0] = constant
        return directions + Balls.exact(added)

    def written(self, rows: npt.NDArray[np.int64], outputs: Array, sizes: Sizes) -> Stream:
        """After heads whose numbers, sources ``rows``, are added along ``outputs`` (k, m)."""
        directions = Balls(self.directions.mid.copy(), self.directions.rad.copy())
        directions.mid[rows], directions.rad[rows] = outputs, 0.0
        after = replace(self, directions=directions)
        roundings = count_roundings(outputs) + np.any(outputs, axis=0)  # the stream is one summand more
        return replace(after, error=self.error + after._rounded(roundings, after.size(sizes)))

    def _off(self, weights: Array, sizes: Sizes, constant: Array | None = None) -> Up:
        """How far products with a matrix, and a constant added, may be from those of the exact stream."""
        added = np.zeros(weights.shape[1]) if constant is None else constant
        products = _times(self.size(sizes), weights) + added
        made = self._rounded(count_roundings(weights) + (added != 0), products)
        return _times(self.error, weights) + made

    def _rounded(self, roundings: Array, sizes: Up) -> Up:
        return sizes * Up.of(gammas(roundings, self.machine.roundoff)) + Up.of(roundings) * self.machine.underflow


def _times(sizes: Up, weights: Array) -> Up:
    return (sizes[None] @ Up.of(weights))[0]


def plain_map(layer: Layer) -> tuple[Array, Array]:
    """The matrix of a linear map of features, the same for every token, and its constant (m',)."""
    term = layer.terms[0] if isinstance(layer, Linear) and len(layer.terms) == 1 else None
    weights = None if term is None or term.mix is not None else term.map
    if not isinstance(layer, Linear) or weights is None or weights.ndim != 2:
        raise CertificateError("Linear maps of a stream map features, of all tokens alike", "another layer", REMEDY)
    constant = np.zeros((1, weights.shape[1])) if layer.constant is None else layer.constant
    if len(constant) != 1:
        raise CertificateError("A constant of a stream is the same at every token", f"{len(constant)} rows", REMEDY)
    return weights, constant[0]


def is_distractor(head: Head) -> bool:
    """Whether it claims to write nothing that counts; no proof takes its word for that."""
    return head.claims is not None and head.claims.construction == DISTRACTOR


def folded(head: Head, stream: Stream, sizes: Sizes) -> tuple[Head, Noise]:
    """The head on sources in place of features, its output left as it is, and what a run adds to what it reads."""
    maps = {name: getattr(head, name) for name in ("query", "key", "value")}
    read = {name: stream.read(matrix, sizes) for name, matrix in maps.items() if matrix is not None}
    weights: dict[str, Any] = {name: each for name, (each, _) in read.items()}
    return replace(head, **weights), {name: off for name, (_, off) in read.items()}


def mean_sizes(head: Head, value: Up, keys: int, machine: Machine) -> Up:
    """Of a head's mean (v,) in a run: of constant values, and of those of tokens, up to ``value``."""
    sizes = value if head.memory_values is None else value.larger(Up.of(head.memory_values).most(0))
    arithmetic = SoftmaxArithmetic(machine, keys, written_out=head.is_small)
    return sizes + sizes * arithmetic.mean() + arithmetic.lost(sizes)
