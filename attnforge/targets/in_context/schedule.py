r"""Step sizes: one for every step, and Chebyshev's for quadratic objectives.

Gradient descent on a quadratic with Hessian H and steps $\eta_t$ has $w_T - w^* = p_T(H)(w_0 - w^*)$,
$p_T(\lambda) = \prod_t (1 - \eta_t\lambda)$. Among all polynomials of degree T with $p(0) = 1$ the least on $[m, L]$
has the Chebyshev nodes for zeros:
$$ \eta_t = 1/\lambda_t, \quad \lambda_t = \tfrac{L + m}{2} + \tfrac{L - m}{2}\cos\tfrac{(2t - 1)\pi}{2T}, \qquad
   |p_T| \le \frac{2 q^T}{1 + q^{2T}}, \quad q = \frac{\sqrt L - \sqrt m}{\sqrt L + \sqrt m} . $$
So $O(\sqrt{L/m}\,\ln(1/\varepsilon))$ steps do what takes $O(L/m\,\ln(1/\varepsilon))$ of constant size, and no method
that sees gradients alone does better.

**Order.** In exact arithmetic the order of steps does not matter at the end; on the way and for roundings it does.
*Leja order* takes next the node with the largest product of distances to those taken: products over the first nodes
stay small (iterates are up to 270 times what they end as for L/m = 1000), and so do those over the last ones, through
which errors pass: a gradient off by g at every step moves the end by at most $1.5\,g/m$. It serves any number of steps.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from attnforge.errors import TargetError

Array = npt.NDArray[np.float64]
Spectrum = tuple[float, float]

MOST_CHEBYSHEV = 20_000  # steps: ordering them takes as many operations squared
POINTS = 4  # a step, at which sizes on the way are looked at


def check_rates(rates: Sequence[float], steps: int) -> None:
    """Raise unless there are none, or one positive number a step."""
    if rates and len(rates) != steps:
        raise TargetError("There is one step size a step", f"{len(rates)} for {steps} steps", "Give `steps` numbers")
    if not all(np.isfinite(rate) and rate > 0 for rate in rates):
        raise TargetError("Every step size must be a positive number", f"{min(rates)!r}", "Leave such steps out")


def check_spectrum(spectrum: Sequence[float]) -> Spectrum:
    """The pair (m, L) as floats; raise unless 0 < m < L."""
    try:
        m, most = (float(end) for end in spectrum)
    except (TypeError, ValueError):
        raise TargetError("`spectrum` is a pair (m, L)", repr(spectrum)[:60], "Bound the eigenvalues") from None
    if not (0 < m < most < np.inf):
        got, remedy = f"({m!r}, {most!r})", "Bound the eigenvalues of the Hessian from below and above"
        raise TargetError("`spectrum` (m, L) must have 0 < m < L", got, remedy)
    return m, most


def chebyshev(steps: int, spectrum: Spectrum) -> tuple[float, ...]:
    """The Chebyshev step sizes on [m, L], in Leja order.

    >>> [round(rate, 3) for rate in chebyshev(3, (1.0, 3.0))]
    [0.349, 0.882, 0.5]
    """
    m, most = check_spectrum(spectrum)
    if not 1 <= steps <= MOST_CHEBYSHEV:
        raise TargetError(f"Chebyshev steps number 1 to {MOST_CHEBYSHEV:,}", str(steps), "Use fewer steps")
    angles = (2 * np.arange(1, steps + 1) - 1) * np.pi / (2 * steps)
    nodes = (most + m) / 2 + (most - m) / 2 * np.cos(angles)
    return tuple((1 / nodes[leja_order(np.cos(angles))]).tolist())


def leja_order(points: Array) -> npt.NDArray[np.int64]:
    """Their indices, the largest first, each next one farthest from those before by the product of distances.

    >>> leja_order(np.array([1.0, 0.5, 0.0, -0.5, -1.0])).tolist()
    [0, 4, 2, 1, 3]
    """
    logs, order = np.zeros(len(points)), [int(np.argmax(np.abs(points)))]
    with np.errstate(divide="ignore"):  # a point that is taken is at distance zero, and never taken again
        for _ in points[1:]:
            logs += np.log(np.abs(points - points[order[-1]]))
            order.append(int(np.argmax(logs)))
    return np.array(order)


def transients(rates: Sequence[float], spectrum: Spectrum) -> Array:
    """How large (T,) the distance to the minimum may be before every step, in units of the first one; sampled.

    >>> transients((1.0, 0.5), (0.5, 2.0)).round(2).tolist()
    [1.0, 1.0]
    """
    m, most = spectrum
    points = (most + m) / 2 + (most - m) / 2 * np.cos(np.linspace(0, np.pi, POINTS * len(rates) + 1))
    held, found = np.ones_like(points), []
    for rate in rates:
        found.append(float(np.abs(held).max()))
        held = held * (1 - rate * points)
    return np.array(found)
