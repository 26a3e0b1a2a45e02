r"""Registers: what a run computes in place of what it claims, and how errors compose.

A block of registers claims to be a function $\phi(W^T r)$, entry by entry, of linear forms of registers before it. The
run is off by at most a local error where the forms are computed, and by another where the function is; everything else
follows from the slopes of $\phi$ between the run and the claim. Let $\delta$ be the run minus the claim. For each block
$$ p = \sum_i W_i^T \delta_i + \rho, \qquad \delta = D p + \lambda, \qquad |\rho|, |\lambda| \text{ known}, $$
with D diagonal, anywhere in $m \pm r$ (the mean value of a slope; 0 or 1 where a ReLU is known to be off or on, and
$1/2 \pm 1/2$ where it is not). Split $D p = m p + \kappa$, $|\kappa| \le r |p|$.

**Adjoints.** Forms $p_o$ depend on a block b by $A_b \delta_b$, where $A_o = W_o^T$ and, from a block to those it
reads, $A_i = \sum_b A_b m_b W_{ib}^T$: signs are kept. Each is a ball around a matrix of floats. Its radius, from
roundings and from what is not known of W, meets an error $\delta_b$ that is bounded already; its middle passes on:
$$ |p_o| \le |\rho_o| + \sum_b |A_b|\,(m_b|\rho_b| + |\lambda_b|) + |A_b \kappa_b|
   + \operatorname{rad}(A_b)\,|\delta_b| . $$
So radii do not grow along a chain: each is charged where it arises. What is unknown, $\kappa_b$ and $\delta_b$, is
bounded entry by entry and in the Euclidean norm, and reaches the forms by the smaller of $|A||\kappa|$ and
$\|A_j\|_2 \|\kappa\|_2$, rows j; the norm of $\kappa_o$ by the same sums for $r_o A_b$, with $\|r_o A_b\|_2$. Sums over
all ways of cutting the chain of layers into blocks with and without $\kappa$ are those of Combettes and Pesquet (2020),
Lipschitz certificates for layered networks; plain products of $|W|$ or of $\|W\|_2$ are larger.

**Steps.** The steps of an algorithm are blocks that read the one before by the step's Jacobian; what is known of a
step besides, a Lipschitz constant q in the Euclidean norm, bounds $\|\delta_{t+1}\| \le q\|\delta_t\| + \|\lambda\|$.
That is all that long chains need on the way; one sweep of adjoints at the end gives the error entry by entry.

**Graphs.** A register that is a function of several forms is one entry a form, which its readers add up
(:mod:`.graph.blocks`); layers of ReLU networks (:mod:`.composition`) are blocks as they stand.

Errors have named parts, columns that obey the same equation one by one. The same sums bound how far registers move when
the inputs do: one part may be the radius of the box around its middle. All arrays may have leading axes, for boxes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from attnforge.outward import Balls, Up, spectral_norm

Array = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Forms:
    """Linear forms (m,) of blocks, their weights (m_i, m); local errors (m, P), and in all; adjoints (m, m_b)."""

    weights: Mapping[int, Balls]
    local: Up
    adjoints: Mapping[int, Balls]
    error: Up


@dataclass(frozen=True, eq=False)
class _Block:
    """Of m registers in P parts: what they read, the middle of the slopes, errors that enter, and bounds in all.

    ``local`` (m, P) enters for certain, ``kinks`` (m, P) of Euclidean norms ``kinked`` (P,) by unknown slopes.
    """

    weights: Mapping[int, Balls]
    middle: Array
    local: Up
    kinks: Up
    kinked: Up
    error: Up
    length: Up


class Registers:
    """Blocks of registers in the order they are computed, each with all that is known of its error.

    >>> registers = Registers()
    >>> x = registers.start(Up.of([[0.0], [0.125]]))
    >>> forms = registers.read({x: Balls.exact([[1.0], [-2.0]])}, Up.of([[0.5]]))
    >>> y = registers.write(forms, Balls(np.array([0.5]), np.array([0.5])), Up.of([[0.0]]))
    >>> round(float(registers.error(y).values[0, 0]), 9)
    0.75
    """

    def __init__(self) -> None:
        self._blocks: list[_Block] = []

    def start(self, local: Up) -> int:
        """A block that reads none, off by ``local`` (m, P)."""
        none = local * 0.0
        return self._add(_Block({}, np.zeros(1), local, none, none.sum(-2), local, local.norm(-2)))

    def error(self, block: int) -> Up:
        """How far (m, P) the run may be from the claim."""
        return self._blocks[block].error

    def length(self, block: int) -> Up:
        """The Euclidean norms (P,) of how far the run may be from the claim."""
        return self._blocks[block].length

    def read(self, weights: Mapping[int, Balls], local: Up) -> Forms:
        """Linear forms of blocks, with weights (m_i, m) each, computed up to ``local`` (m, P)."""
        adjoints = self._adjoints({block: _transposed(weight) for block, weight in weights.items()})
        return Forms(weights, local, adjoints, self._carried(adjoints, local))

    def write(self, forms: Forms, slope: Balls, local: Up) -> int:
        """Registers that claim to be a function of the forms whose slopes (m,) are these, off by ``local`` (m, P)."""
        kinks = _column(Up.of(slope.rad)) * forms.error
        kinked = kinks.norm(-2)
        if np.any(slope.rad):
            kinked = kinked.least(self._length(forms, slope.rad))
        entered = _column(Up.of(slope.mid)) * forms.local + local
        error = _column(Up.of(slope)) * forms.error + local
        return self._add(_Block(forms.weights, slope.mid, entered, kinks, kinked, error, error.norm(-2)))

    def step(self, block: int, jacobian: Balls, slope: Balls, lipschitz: Up, local: Up) -> int:
        """One step of an algorithm from a block (m,): forms by the Jacobian (m, m), a function of these slopes of them.

        Its errors here are what the norms say; :meth:`swept` has better ones.
        """
        before = self._blocks[block]
        forms = _reached(Up.of(jacobian).T, before.error, before.length)
        kinks = _column(Up.of(slope.rad)) * forms
        length = lipschitz * before.length + local.norm(-2)
        error = (_column(Up.of(slope)) * forms + local).least(length)
        weights = {block: jacobian}
        return self._add(_Block(weights, slope.mid, local, kinks, kinks.norm(-2), error, length.least(error.norm(-2))))

    def swept(self, block: int) -> Up:
        """How far (m, P) the run may be from the claim, by adjoints from this block back to the first."""
        known = self._blocks[block]
        adjoints = self._adjoints({block: Balls.exact(np.eye(known.error.shape[-2]))})
        return self._carried(adjoints, known.error * 0.0).least(known.error)

    def _add(self, block: _Block) -> int:
        self._blocks.append(block)
        return len(self._blocks) - 1

    def _adjoints(self, adjoints: dict[int, Balls]) -> dict[int, Balls]:
        """By all blocks that these lead back to."""
        for number in range(max(adjoints, default=-1), -1, -1):
            if number not in adjoints:
                continue
            block = self._blocks[number]
            middle = Balls.exact(adjoints[number].mid) * Balls.exact(block.middle[..., None, :])
            for read, weight in block.weights.items():
                here = middle @ _transposed(weight)
                adjoints[read] = adjoints[read] + here if read in adjoints else here
        return adjoints

    def _carried(self, adjoints: Mapping[int, Balls], local: Up) -> Up:
        """What all blocks do to forms with these adjoints: entry by entry, and by lengths."""
        for number, adjoint in adjoints.items():
            block, sizes, doubt = self._blocks[number], Up.of(adjoint.mid), Up.of(adjoint.rad)
            local = local + sizes @ block.local + _reached(sizes, block.kinks, block.kinked)
            local = local + _reached(doubt, block.error, block.length)
        return local

    def _length(self, forms: Forms, doubt: Array) -> Up:
        """The Euclidean norms (P,) of forms weighted by the doubt about their slopes."""
        total = (_column(Up.of(doubt)) * forms.local).norm(-2)
        for number, adjoint in forms.adjoints.items():
            block, weighted = self._blocks[number], Balls.exact(doubt[..., :, None]) * adjoint
            sizes, norm, rest = Up.of(weighted.mid), spectral_norm(Balls.exact(weighted.mid))[..., None], weighted.rad
            total = total + (sizes @ block.local).norm(-2).least(norm * block.local.norm(-2))
            total = total + (sizes @ block.kinks).norm(-2).least(norm * block.kinked)
            total = total + _reached(Up.of(rest), block.error, block.length).norm(-2)
        return total


def _reached(sizes: Up, entries: Up, lengths: Up) -> Up:
    """What vectors (m_b, P), bounded entry by entry and in their lengths (P,), do to forms of these sizes (m, m_b)."""
    return (sizes @ entries).least(_column(sizes.norm(-1)) * lengths[..., None, :])


def _column(numbers: Up) -> Up:
    return numbers[..., None]


def _transposed(matrix: Balls) -> Balls:
    return Balls(np.swapaxes(matrix.mid, -1, -2), np.swapaxes(matrix.rad, -1, -2))
