r"""Upper bounds as a type: arrays of non-negative numbers whose sums, products and norms only grow.

An :class:`Up` stands for any array of numbers whose absolute values are no larger, entry by entry. A result of one
rounded operation is raised to the next float; a sum of k non-negative terms, in any order, is at least $1 - \gamma_k$
times the exact one (Higham 2002, section 3.1), so that dividing by $1 - \gamma_k \ge 1/(1 + \gamma_{2k})$ makes it an
upper bound. A product may vanish below the smallest normal number: that much is added for each. Zero stays zero; what
is not a number (a sum of infinity times zero) is infinite.

Increasing functions (exp, expm1, sinh, tanh) are NumPy's, which err by at most 4 units in the last place, 8 roundoffs;
they are charged 256 of them, and one number more for what lies below the smallest normal one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from attnforge.outward.arrays import TINY, Balls, gamma

Array = npt.NDArray[np.float64]

INFINITE = np.float64(np.inf).view(np.uint64)
FEW = 2**10  # numbers up to which one call of nextafter is faster than three of integers
FUNCTION = 1.0 + 2.0**-45  # what NumPy's exp, expm1 and sinh are raised by


@dataclass(frozen=True, eq=False)
class Up:
    """Upper bounds ``values`` of absolute values.

    >>> (Up.of([0.1]) + Up.of([-0.2])).values[0] > 0.3
    np.True_
    """

    values: Array

    __array_ufunc__ = None  # arrays leave mixed expressions to this class

    @classmethod
    def of(cls, numbers: npt.ArrayLike | Balls) -> Up:
        """Of the absolute values of float64 numbers, or of all points of balls."""
        sizes = numbers.magnitude() if isinstance(numbers, Balls) else np.abs(np.asarray(numbers, dtype=np.float64))
        return _known(sizes)

    @classmethod
    def between(cls, lower: npt.ArrayLike, upper: npt.ArrayLike) -> Up:
        """Of all numbers between two."""
        return cls.of(np.maximum(np.abs(lower), np.abs(upper)))

    @classmethod
    def zeros(cls, *shape: int) -> Up:
        """Of nothing."""
        return cls(np.zeros(shape))

    @classmethod
    def exp_of(cls, exponents: npt.ArrayLike) -> Up:
        """Of exp(t) for all t up to these, of either sign: the exponential increases."""
        return _function(np.exp, np.asarray(exponents, dtype=np.float64))

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the array."""
        return self.values.shape

    @property
    def T(self) -> Up:  # noqa: N802, as arrays have it
        """The last two axes exchanged."""
        return Up(np.swapaxes(self.values, -1, -2))

    def __getitem__(self, index: Any) -> Up:
        return Up(self.values[index])

    def __float__(self) -> float:
        return float(self.values)

    def __add__(self, other: Up | npt.ArrayLike) -> Up:
        term = _sizes(other)
        with np.errstate(over="ignore"):
            total = self.values + term
        return Up(np.where((self.values == 0) | (term == 0), total, _above(total)))  # adding zero is exact

    __radd__ = __add__

    def __mul__(self, other: Up | npt.ArrayLike) -> Up:
        factor = _sizes(other)
        with np.errstate(invalid="ignore", over="ignore"):
            product = _above(self.values * factor)
        return Up(np.where((self.values == 0) | (factor == 0), 0.0, product))

    __rmul__ = __mul__

    def __truediv__(self, least: npt.ArrayLike) -> Up:
        """Of quotients by numbers at least this large: one rounded division; infinite where they are not positive."""
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            quotient = _above(self.values / np.maximum(least, 0.0))
        return _known(np.where((self.values == 0) & (np.asarray(least) > 0), 0.0, quotient))

    def __pow__(self, exponent: int) -> Up:
        """Of whole powers from 1 on, by products."""
        return self if exponent == 1 else self * self ** (exponent - 1)

    def __matmul__(self, other: Up) -> Up:
        terms = self.shape[-1]
        rows, columns = np.any(self.values, axis=-1, keepdims=True), np.any(other.values, axis=-2, keepdims=True)
        with np.errstate(invalid="ignore", over="ignore"):
            total = _raised(self.values @ other.values + terms * TINY, terms)
        return _known(np.where(rows & columns, total, 0.0))

    def sum(self, axis: int = -1) -> Up:
        """Of a sum along an axis, in any order."""
        with np.errstate(over="ignore"):
            return _known(_raised(self.values.sum(axis=axis), self.shape[axis]))

    def norm(self, axis: int = -1) -> Up:
        """Of the Euclidean norm along an axis."""
        return (self * self).sum(axis).root()

    def mean(self, axis: int = -1) -> Up:
        """Of a mean along an axis."""
        return self.sum(axis) / self.shape[axis]

    def root(self) -> Up:
        """Of the square root: one correctly rounded operation, and increasing."""
        with np.errstate(over="ignore"):
            return Up(np.where(self.values == 0, 0.0, _above(np.sqrt(self.values))))

    def exp(self) -> Up:
        """Of the exponential."""
        return Up.exp_of(self.values)

    def expm1(self) -> Up:
        """Of exp - 1, by which numbers that are disturbed this much in the logarithm differ, relatively."""
        return _function(np.expm1, self.values)

    def sinh(self) -> Up:
        """Of the hyperbolic sine."""
        return _function(np.sinh, self.values)

    def tanh(self) -> Up:
        """Of the hyperbolic tangent."""
        return _function(np.tanh, self.values)

    def coshm1(self) -> Up:
        """Of cosh - 1, which is twice the square of the hyperbolic sine of half of it."""
        return (self * 0.5).sinh() ** 2 * 2.0

    def least(self, other: Up | npt.ArrayLike) -> Up:
        """The better of two bounds of the same numbers."""
        return Up(np.minimum(self.values, _sizes(other)))

    def larger(self, other: Up | npt.ArrayLike) -> Up:
        """Of the larger of two."""
        return Up(np.maximum(self.values, _sizes(other)))

    def most(self, axis: int | None = None) -> Up:
        """Of the largest along an axis, or of all."""
        return Up(np.asarray(self.values.max(axis=axis, initial=0.0)))


def _raised(total: Array, terms: int) -> Array:
    """Above an exact sum of non-negative terms; two roundings more for the product here and its factor."""
    return np.where(total == 0, 0.0, _above(total * (1.0 + gamma(2 * terms + 4))))


def _above(values: Array) -> Array:
    """The next float64 above non-negative ones, whose bits count them; infinity stays."""
    if values.size < FEW:
        return np.asarray(np.nextafter(values, np.inf))
    bits = values.view(np.uint64)
    return (bits + (bits < INFINITE)).view(np.float64)


def _sizes(other: Up | npt.ArrayLike) -> Any:
    if isinstance(other, Up):
        return other.values
    return np.float64(abs(other)) if type(other) is float and other == other else Up.of(other).values


def _function(function: np.ufunc, at: Array) -> Up:
    """Above an increasing function: what NumPy has for it, raised; zero where it is zero at zero."""
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        raised = _above(function(at) * FUNCTION + TINY)
    return _known(np.where((at == 0) & (function(np.zeros_like(at)) == 0), 0.0, raised))


def _known(values: Array) -> Up:
    return Up(np.where(np.isnan(values), np.inf, values))


def spectral_norm(matrix: Balls) -> Up:
    r"""Upper bounds of $\|A\|_2$, for a matrix (m, n) of balls or a stack of them.

    For any matrix V and numbers $\lambda_i$, with $G = A^T A$ and $E = G - V \operatorname{diag}(\lambda) V^T$,
    $$ \|A\|_2^2 = \sup_{|x| = 1} x^T G x \le \max(\lambda, 0)\,\|V^T V\|_2 + \|E\|_2
       \le \max(\lambda, 0)\,(1 + \|V^T V - I\|_F) + \|E\|_F , $$
    whatever float64 makes of eigenvectors: if they are good, E and the departure from orthogonality are roundings. The
    radii of the balls add their Frobenius norm, which by itself bounds the norm, too.

    >>> bool(1.0 <= spectral_norm(Balls.exact(np.eye(3))).values < 1 + 1e-13)
    True
    """
    whole = Up.of(matrix).norm().norm()
    if not np.isfinite(whole.values).all() or 0 in matrix.shape:
        return whole
    middle = matrix.mid if matrix.shape[-1] <= matrix.shape[-2] else np.swapaxes(matrix.mid, -1, -2)
    square = _transposed(middle) @ Balls.exact(middle)
    values, vectors = np.linalg.eigh(square.mid / 2 + np.swapaxes(square.mid, -1, -2) / 2)
    v, scale = Balls.exact(vectors), Balls.exact(values[..., None, :])
    apart = Up.of(square - (v * scale) @ _transposed(vectors))
    skew = Up.of(_transposed(vectors) @ v - Balls.exact(np.eye(middle.shape[-1])))
    largest = Up.of(np.maximum(values[..., -1], 0.0))
    found = largest + largest * skew.norm().norm() + apart.norm().norm()
    return (found.root() + Up.of(matrix.rad).norm().norm()).least(whole)


def _transposed(matrix: Array) -> Balls:
    return Balls.exact(np.swapaxes(matrix, -1, -2))


def sum_rounding(positive: Up, negative: Up, unit: float) -> Up:
    r"""What rounding makes of sums of k products along the axis before the last, for every order of adding them up.

    The terms lie in $[-n_i, p_i]$. An order of summation is a binary tree whose nodes each err by u times the computed
    sum of their j leaves; errors add up, without factors. Exact sums of j leaves are at most $S_j$, the larger of the j
    largest $p_i$ and of the j largest $n_i$, and what is computed below a node departs by $\gamma_k A$,
    $A = \sum \max(p_i, n_i)$. If r nodes have at least j leaves each, r + 1 subtrees hang from them, two of which hold
    the j leaves of a lowest one: $k \ge j + r - 1$. So the r-th largest node has at most $k - r + 1$ leaves, and
    $$ |\text{error}| \le u A + u \sum_{j=2}^k (S_j + \gamma_k A) , $$
    the first term for the products. Adding zero is exact: such terms do not count as leaves.
    """
    size = Up(np.maximum(positive.values, negative.values))
    whole = size.sum(-2)
    leaves = np.count_nonzero(size.values, axis=-2)
    terms = size.shape[-2]
    nodes = np.arange(1, terms) < leaves[..., None]
    most = np.maximum(_largest_sums(positive), _largest_sums(negative))[..., 1:]
    within = Up(np.where(nodes, most, 0.0)).sum()
    departure = whole * gamma(terms, unit) * Up.of(np.maximum(leaves - 1.0, 0.0))
    return (whole + within + departure) * unit


def _largest_sums(terms: Up) -> Array:
    """Sums (..., k) of the j largest terms."""
    ordered = -np.sort(-np.swapaxes(terms.values, -1, -2), axis=-1)
    return _raised(np.cumsum(ordered, axis=-1), ordered.shape[-1])
