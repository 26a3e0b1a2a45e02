r"""What the arithmetic of a softmax head does to it: scores, exponentials, sums over keys in blocks.

Assumed, word for word as certificates have it, is IEEE rounding in the dtype, with no autocast and no products in fewer
bits; sums added up in any order; attention scores, exponentials and sums accumulated in float64 or float32 or better,
and softmax in blocks of at least 64 keys, as PyTorch's kernels do; exponentials within 4 units in the last place of
float64, 20 of float32; but 4 where a head has at most 64 keys, its own token and constants, whose softmax is written
out: exponentials of the scores less the largest, their sum, quotients. A caller that assumes more (larger blocks,
better exponentials) says so in its certificate.

Let u be the unit of accumulation, $s_k$ the scores of the run, k keys in B blocks. A kernel keeps a running maximum m,
a running sum N of weighted values and one D of weights; a later block that raises m multiplies both by
$e^{m_{old} - m_{new}}$. In the end it divides, and casts to the dtype.

**Scores.** A sum of r products is within $\gamma_r \sum |q_f K_f|$, whatever its order.

**Log-weights.** A key's weight is the product of at most B exponentials, each off by a factor $1 + e$,
$|e| \le 2\,\mathrm{ulps}\,u$ (a unit in the last place is at most 2u of the number), the same for N and D: together
$\gamma_{2\,\mathrm{ulps}\,B}$. Their arguments telescope to $s_k - m$ and are all negative, so that what subtractions
round adds up to $u\,(m - s_k)$. float32 kernels may work with powers of two. Scaled before the subtraction, a score is
$s_k c (1 + e_k)$ with $c = \log_2(e)(1 + e_0)$: $2u(m - s_k)$ for $e_0$ and the subtraction, $u|s_k|$ for $e_k$;
what the scaled maximum is off by is the same for all keys. Scaled after it, $3u(m - s_k)$. Four and one are charged,
and $2^{-12}$ of it for products of errors; one and none where the softmax is written out. The half types may round
weights before they meet the values: in N, and if a kernel likes in D.

**Sums.** A value in N passes its product, k - 1 additions and B - 1 rescalings, a weight in D as many but the product;
the division is one more. The roundings of N and of D are not the same, so that they add up: the mean is off by
$\gamma_{2(k + B) - 2}$ of the mean of |values|, and that is attained: one key of weight 1 before $k - 1$ of weight
nearly u and of value a little above 1, added one by one, give D = 1 and $N = 1 + 2(k-1)u$ in place of $1 + (k-1)u$ for
both. A kernel that divides the weights first has as many. Then the result is cast to the dtype; the half types round
weights and result. What falls below the smallest normal number may vanish, of every weight and of every product.

**Sums, finer.** Let $p_k$ be the shares of the run's weights, m their mean of the values, h the roundoff of a half type
(zero of others), E the mean by these shares. In the units of the result rescaling changes nothing, so that N is a tree
over the keys (:mod:`.rounding`): its nodes lose $T_N$, of terms $p_k v_k$; that of D loses $T_D$ of 1. On each term
fall up to three more roundings, a product and a reciprocal of D or a quotient with the product by it, and $B - 1$
rescalings. Weights that are rounded in N alone move it by $h E|v|$; those rounded in both have other shares, and their
mean is off by $h E|v - m|/(1 - h)$. So N is off by $E_N = T_N + (3u + (B - 1)u) E|v|$ and by the larger of the two,
H; D by $E_D = T_D + (B - 1)u$; and the quotient by
$$ \frac{H + E_N + (|m| + H) E_D}{1 - E_D} , $$
everything that was rounded before being a little larger than if nothing had been: $E_N$ and $E_D$ by $1 + \gamma_4$ in
the dtype. A cast rounds the result by a unit of it. What vanishes, in units of the smallest normal number V: of each
weight V, which moves the mean by $|v_k - m|$ times it; of each quotient; of each product, addition, rescaling, of N and
of D; of the result.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from attnforge.outward.arrays import gamma
from attnforge.outward.machine import Machine
from attnforge.outward.upward import Up

BLOCK = 64  # keys that a kernel takes at a time, at least
ULPS, ULPS_SINGLE = 4, 20  # units in the last place that an exponential may err by; in float32 kernels
SECOND_ORDER = 1 + 2.0**-12  # products of roundings, beside one: scores of 2^11 products in float32


@dataclass(frozen=True)
class SoftmaxArithmetic:
    """The run of one softmax over so many keys.

    ``block`` and ``ulps`` say what is assumed of the kernel; None is what every certificate assumes. ``written_out`` is
    it where a head is small (:attr:`attnforge.network.Head.is_small`).

    >>> from attnforge.outward import machine
    >>> head = SoftmaxArithmetic(machine("float64"), keys=100)
    >>> head.blocks, round(float(head.log_weights()) / 2.0**-53), round(float(head.mean()) / 2.0**-53)
    (2, 16, 203)
    """

    machine: Machine
    keys: int
    block: int = BLOCK
    ulps: int | None = None
    written_out: bool = False

    @property
    def unit(self) -> float:
        """The roundoff of scores, exponentials and sums."""
        return self.machine.accumulation

    @property
    def is_half(self) -> bool:
        """Whether weights are rounded to a half type before they meet the values."""
        return self.machine.roundoff > self.machine.accumulation

    @property
    def is_double(self) -> bool:
        """Whether accumulation is in float64."""
        return self.machine.bytes == 8

    @property
    def blocks(self) -> int:
        """Blocks of keys, at most: all but the first rescale what is summed so far."""
        return math.ceil(self.keys / self.block)

    @property
    def exponential(self) -> float:
        """The relative error of one exponential."""
        return 2 * self._ulps * self.unit

    @property
    def _ulps(self) -> int:
        usual = ULPS if self.is_double or self.written_out else ULPS_SINGLE
        return usual if self.ulps is None else self.ulps

    def near_one(self, exponents: Up) -> Up:
        """By how much log exp(-t) is off, t up to these: in [1/2, 1) a unit in the last place is one roundoff.

        A factor 1 + e moves the logarithm by at most |e| / (1 - |e|).
        """
        half = exponents.least(0.69).exp() * (self.exponential / 2)
        error = np.where(exponents.values < 0.69, half.least(self.exponential).values, self.exponential)
        return Up(error) / (1 - 2 * self.exponential)

    def exponentials(self) -> Up:
        """What exponentials and rescaling do to the logarithm of a weight."""
        return Up.of(gamma(2 * self._ulps * self.blocks, self.unit))

    def exponents(self, apart: Up) -> Up:
        """The same for scores that are ``apart`` below the largest: near it one exponential errs by less."""
        return self.near_one(apart) if self.written_out else self.exponentials()

    def log_weights(self) -> Up:
        """The same with rounding to a half type, where a kernel might sum up the rounded weights."""
        return self.exponentials() + (gamma(1, self.machine.roundoff) if self.is_half else 0.0)

    @property
    def rates(self) -> tuple[float, float]:
        """Roundings that subtracting the largest score takes: of the distance to it, and of the score's size."""
        return (1.0, 0.0) if self.is_double or self.written_out else (4.0, 1.0)

    def subtraction(self, apart: Up, size: Up) -> Up:
        """What subtracting the largest score does to one that is ``apart`` below it, and at most ``size``."""
        far, large = self.rates
        return (apart * far + size * large) * (self.unit * SECOND_ORDER)

    def score(self, products: int) -> float:
        """The error of a score of so many products, relative to the sum of their sizes."""
        return gamma(products, self.unit)

    def scores(self, products: int) -> float:
        """The same with the subtraction of the maximum, relative to the largest such sum M: no two are 2M apart."""
        return gamma(products + (2 if self.is_double or self.written_out else 6), self.unit)

    def sum(self) -> float:
        """The error of a sum of weighted values, or of weights, relative to the sum of their sizes."""
        return gamma(self.keys + self.blocks - 1, self.unit)

    def mean(self, after: int = 1) -> Up:
        """The error of a weighted mean, relative to that of sizes, with so many roundings ``after`` it to the dtype."""
        cast = gamma(after + self.is_half, self.machine.roundoff)
        return Up.of(gamma(2 * (self.keys + self.blocks) - 2, self.unit)) + cast

    def lost(self, largest: npt.ArrayLike | Up) -> Up:
        """What may vanish: small products, and small weights of values at most twice ``largest`` from a mean."""
        return (Up.of(0.5) + largest) * (2 * self.keys * self.machine.underflow)

    @property
    def operations(self) -> int:
        """Roundings that a term of either sum passes, at most."""
        return self.keys + self.blocks + 3

    def quotient(self, result: Up, mass: Up, spread: Up, trees: tuple[Up, Up]) -> Up:
        """The error of a mean of at most ``result``, E|v| at most ``mass`` and E|v - m| ``spread``, before it is cast.

        ``trees`` is what adding up loses, of weighted values and of weights.
        """
        half, larger = self.machine.roundoff * self.is_half, 1.0 + gamma(5, self.machine.roundoff)
        again = gamma(self.blocks - 1, self.unit) * (1.0 + gamma(self.operations, self.unit))
        moved = (mass.larger(spread * larger)) * half
        of_values = (trees[0] + mass * (3 * self.unit + again)) * larger
        of_weights = (trees[1] + again) * larger
        made = (moved + of_values) * (1.0 + gamma(3, self.unit)) + (result + moved) * of_weights
        return made / np.nextafter(1.0 - of_weights.values, -np.inf)

    def vanished(self, largest: Up) -> Up:
        """What may vanish, of means of values that are at most ``largest``."""
        return (Up.of(1.0) + largest) * ((6 * self.operations + 2) * self.machine.underflow)
