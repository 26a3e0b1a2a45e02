r"""Registers: what a run computes in place of what it claims, and how errors compose.

A block of registers claims to be a function $\phi(W^T r)$, entry by entry, of linear forms of registers before it. The
run is off by at most a local error where the forms are computed, and by another where the function is; everything else
follows from the slopes of $\phi$ between the run and the claim. Let $\delta$ be the run minus the claim. For each block
$$ p = \sum_i W_i^T \delta_i + \rho, \qquad \delta = D p + \lambda, \qquad |\rho|, |\lambda| \text{ known}, $$
with D diagonal, anywhere in $m \pm r$ (the mean value of a slope; 0 or 1 where a ReLU is known to be off or on, and
$1/2 \pm 1/2$ where it is not). Split $D p = m p + \kappa$, $|\kappa| \le r |p|$. Then with $F_{lo}$ the products of W
and m along all ways from block l to block o, which keep signs,
$$ \delta_o = \sum_{l \le o} (m_l \rho_l + \lambda_l + \kappa_l) F_{lo}, \qquad
   p_o = \sum_{l < o} (m_l \rho_l + \lambda_l + \kappa_l) G_{lo} + \rho_o, $$
where $G_{lo} = \sum_i F_{li} W_i$. What is unknown, $\kappa_l$, is bounded entry by entry and in the Euclidean norm,
$$ |\kappa_l| \le r_l |p_l|, \qquad
   \|\kappa_o\|_2 \le \|r_o \rho_o\|_2 + \sum_{l < o} \|(m_l \rho_l + \lambda_l) G_{lo} r_o\|_2
   + \|G_{lo} r_o\|_2\,\|\kappa_l\|_2 , $$
and each of its terms reaches the next forms by the smaller of $|G|^T |\kappa|$ and $\|G_j\|_2 \|\kappa\|_2$, columns j.
Sums over all ways of cutting the chain of layers into blocks with and without $\kappa$ are those of Combettes and
Pesquet (2020), Lipschitz certificates for layered networks; plain products of $|W|$ or of $\|W\|_2$ are larger.

Errors have named parts, columns that obey the same equation one by one. The same sums bound how far registers move when
the inputs do: one part may be the radius of the box around its middle. All arrays may have leading axes, for boxes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from attnforge.balls import Balls, Up, spectral_norm


@dataclass(frozen=True, eq=False)
class Noise:
    """What enters at a block of m registers, in P parts: local errors (m, P), kinks' (m, P) and their lengths (P,)."""

    local: Up
    kinks: Up
    length: Up


@dataclass(frozen=True, eq=False)
class Forms:
    """Linear forms of registers: their derivatives (m_l, m) by noise l, local errors (m, P), and errors in all."""

    derivatives: Mapping[int, Balls]
    local: Up
    error: Up


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
        self._noise: list[Noise] = []
        self._derivatives: list[dict[int, Balls | None]] = []  # by noise; None by a block's own, the identity
        self._error: list[Up] = []

    def start(self, local: Up) -> int:
        """A block that reads none, off by ``local`` (m, P)."""
        return self._add(Noise(local, local * 0.0, local.sum(-2) * 0.0), {}, local)

    def error(self, block: int) -> Up:
        """How far (m, P) the run may be from the claim."""
        return self._error[block]

    def read(self, weights: Mapping[int, Balls], local: Up) -> Forms:
        """Linear forms of blocks, with weights (m_i, m) each, computed up to ``local`` (m, P)."""
        derivatives: dict[int, Balls] = {}
        for block, weight in weights.items():
            for noise, before in self._derivatives[block].items():
                here = weight if before is None else before @ weight
                derivatives[noise] = derivatives[noise] + here if noise in derivatives else here
        error = local
        for noise, derivative in derivatives.items():
            error = error + self._carried(noise, Up.of(derivative))
        return Forms(derivatives, local, error)

    def write(self, forms: Forms, slope: Balls, local: Up) -> int:
        """Registers that claim to be a function of the forms whose slopes (m,) are these, off by ``local`` (m, P)."""
        doubt = Up.of(slope.rad)[..., None]
        kinks = doubt * forms.error
        length = kinks.norm(-2)
        if np.any(slope.rad):
            length = length.least(self._length(forms, slope.rad))
        middle = Balls.exact(slope.mid[..., None, :])
        derivatives = {noise: derivative * middle for noise, derivative in forms.derivatives.items()}
        entered = Up.of(slope.mid)[..., None] * forms.local + local
        error = Up.of(slope)[..., None] * forms.error + local
        return self._add(Noise(entered, kinks, length), derivatives, error)

    def _add(self, noise: Noise, derivatives: Mapping[int, Balls], error: Up) -> int:
        block = len(self._noise)
        self._noise.append(noise)
        self._derivatives.append({**derivatives, block: None})
        self._error.append(error)
        return block

    def _carried(self, noise: int, sizes: Up) -> Up:
        """What a noise does to forms whose derivatives have these sizes (m_l, m): entry by entry, and by lengths."""
        entered = self._noise[noise]
        whole = sizes.norm(-2)[..., None] * entered.length[..., None, :]
        return sizes.T @ entered.local + (sizes.T @ entered.kinks).least(whole)

    def _length(self, forms: Forms, doubt: np.ndarray) -> Up:
        """The Euclidean norms (P,) of forms weighted by the doubt about their slopes."""
        factor = Balls.exact(doubt[..., None, :])
        total = (Up.of(doubt)[..., None] * forms.local).norm(-2)
        for noise, derivative in forms.derivatives.items():
            entered, weighted = self._noise[noise], derivative * factor
            sizes, norm = Up.of(weighted).T, spectral_norm(weighted)[..., None]
            total = total + (sizes @ entered.local).norm(-2).least(norm * entered.local.norm(-2))
            total = total + (sizes @ entered.kinks).norm(-2).least(norm * entered.length)
        return total
