r"""Errors of steps on a quadratic objective, whose factors commute: for steps that expand distances on the way.

All Jacobians $I - \eta_t H$ are functions of one Hessian H, so that in its eigenvectors what blocks add, $r_s$, passes
every later step by itself: the component of the error along the eigenvector of $\lambda$ is
$\sum_s \prod_{t > s}(1 - \eta_t\lambda)\,r_{s,\lambda}$. With $\delta_s \ge |r_s|$ in the Euclidean norm
$$ \Big|\sum_s \prod_{t>s}(I - \eta_t H)\,r_s\Big|
   \le \sum_s \max_\lambda \prod_{t > s} |1 - \eta_t\lambda|\;\delta_s , \qquad
   \Big|\sum_s \cdots\Big| \le \sqrt d\,\max_\lambda \sum_s \prod_{t>s}|1 - \eta_t\lambda|\;\delta_s . $$
The first is Minkowski's inequality. The maximum of sums bounds every component; errors of different steps may lie along
different eigenvectors, so that the vector is $\sqrt d$ of it. The second is a
recursion, $R \leftarrow |1 - \eta_t\lambda| R + \delta_t$, and says on the way how far the run may be; the first is one
sweep at the end. Both are taken over balls that hold all eigenvalues: those of one Hessian, or cells of [m, L].

**Eigenvalues.** For any V and $\mu_i$, with $s \ge \|V^T V - I\|$ and $E = H - V\operatorname{diag}(\mu)V^T$: the
nearest orthogonal matrix Q to V has $\|V - Q\| \le s$, so $H$ is within $\|E\| + \max|\mu|\,(2s + s^2)$ of
$Q\operatorname{diag}(\mu)Q^T$, and so are its eigenvalues, in order, of $\mu_i$ (Weyl).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from attnforge.outward import Balls, Up
from attnforge.targets.in_context.schedule import Spectrum

Array = npt.NDArray[np.float64]

CELLS = 16  # a step: of [m, L], evenly in the angle of the Chebyshev nodes


def eigenvalues(hessian: Balls) -> Balls:
    """Balls (d,) that hold the eigenvalues of every symmetric matrix in the balls, in order.

    >>> found = eigenvalues(Balls.exact(np.diag([1.0, 3.0])))
    >>> found.mid.tolist(), bool(found.rad.max() < 1e-14)
    ([1.0, 3.0], True)
    """
    values, vectors = np.linalg.eigh(hessian.mid / 2 + hessian.mid.T / 2)
    v, back = Balls.exact(vectors), Balls.exact(vectors.T)
    apart = Up.of(hessian - (v * Balls.exact(values)) @ back).norm().norm()
    skew = Up.of(back @ v - Balls.exact(np.eye(len(values)))).norm().norm()
    away = apart + Up.of(values).most() * (2.0 * skew + skew**2)
    return Balls(values, np.full_like(values, float(away)))


def cells(spectrum: Spectrum, steps: int) -> Balls:
    """Balls that cover [m, L], narrow where Chebyshev nodes are dense."""
    m, most = spectrum
    ends = (most + m) / 2 - (most - m) / 2 * np.cos(np.linspace(0.0, np.pi, CELLS * steps + 1))
    ends = np.clip(ends, m, most)
    ends[0], ends[-1] = m, most
    return Balls.between(ends[:-1], ends[1:])


class Commuting:
    """What errors of steps do to w, in P parts: Euclidean norms, through factors 1 - rate lambda of all eigenvalues.

    ``dimension`` is the number of eigenvectors, counted as often as outputs share them.

    >>> errors = Commuting(Balls.exact([1.0, 2.0]), 2, Up.of([0.0]))
    >>> errors.step(1.0, Up.of([0.5]))
    >>> errors.step(0.25, Up.of([0.5]))
    >>> round(float(errors.swept()[0]), 9)
    0.875
    """

    def __init__(self, spectrum: Balls, dimension: int, first: Up) -> None:
        self.spectrum, self._root = spectrum, Up.of(dimension).root()
        self._carried = first[None] + np.zeros((spectrum.shape[0], 1))
        self._steps: list[tuple[Up, Up]] = []
        self._first = first
        self._product = Up.of(np.ones(spectrum.shape))

    def factor(self, rate: float) -> Up:
        """Bounds of |1 - rate lambda|, one a ball."""
        return Up.of(Balls.exact(1.0) - Balls.exact(rate) * self.spectrum)

    def step(self, rate: float, local: Up) -> None:
        """One step, off by norms ``local`` (P,)."""
        factor = self.factor(rate)
        self._carried = self._carried * factor.values[:, None] + local[None]
        self._product = self._product * factor
        self._steps.append((factor, local))

    def length(self) -> Up:
        """How far (P,) the run may be by now."""
        return self._carried.most(0) * self._root

    def grown(self) -> Up:
        """How large the distance to the minimiser may be by now, in units of the first one."""
        return self._product.most()

    def swept(self) -> Up:
        """The same as the length, by one sweep over all steps: better, where d is large."""
        later, total = Up.of(np.ones(self.spectrum.shape)), self._first * 0.0
        for factor, local in reversed(self._steps):
            total, later = total + later.most() * local, later * factor
        return (total + later.most() * self._first).least(self.length())
