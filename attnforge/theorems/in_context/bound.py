r"""How far T stacked blocks are from T exact steps, and from the minimiser, on given data.

A block returns the exact step up to $\delta$: what aggregation and link leave
(:mod:`attnforge.lemmas.small_sharpness`, or :mod:`.interpolation`), what gates leave, and rounding. A step map that is
Lipschitz with constant q carries an earlier distance D to at most $q D + \delta$, so
$$ D_T \le \delta\,\frac{1 - q^T}{1 - q} \ \ (q < 1), \qquad D_T \le T\delta \ \ (q = 1) . $$
For a convex loss with curvature between m and L (of $X^TX/n$ times that of the loss, plus the quadratic penalty)
gradient steps have $q = \max(|1 - \eta m|, |1 - \eta L|) \le 1$ if $\eta \le 2/L$, and proximal maps do not expand:
the stack converges linearly to a ball of radius $\delta/(1 - q)$ around the minimiser, for every T. The exact
iteration itself is within $|w_{T+1} - w_T|/(1 - q)$ of it.

Residuals and curvatures are those of the exact iterates, enlarged by what D can change; a loss without a global
curvature (Poisson) is thus covered where the iterates go.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from attnforge.balls import gamma, machine
from attnforge.errors import RefusalError
from attnforge.lemmas.kink import kink
from attnforge.lemmas.small_sharpness import aggregation_error, extrapolated_error, pair_error
from attnforge.theorems.in_context.algorithm import Algorithm
from attnforge.theorems.in_context.interpolation import Row, row_error
from attnforge.theorems.in_context.sharpness import Sharpness
from attnforge.theorems.in_context.small_sharpness import SINK

Array = npt.NDArray[np.float64]

CURVATURE = {"identity": 1.0, "clamp": 1.0, "logistic": 0.25, "softmax": 0.5}
EXPONENTIAL = 40  # roundings charged to one exponential
SLACK = 1.01  # for the evaluation of these formulas in float64


@dataclass(frozen=True)
class Drift:
    """Bounds in the Euclidean norm: of one step (by ``parts``), of all of them, of the distance to the minimiser.

    ``contraction`` is q; ``minimiser`` is None where q = 1: nothing then says how fast the exact iteration converges.
    """

    step: float
    drift: float
    minimiser: float | None
    contraction: float
    parts: dict[str, float]

    def __str__(self) -> str:
        parts = " + ".join(f"{name} {value:.2g}" for name, value in self.parts.items())
        end = "" if self.minimiser is None else f"; within {self.minimiser:.3g} of the minimiser"
        return f"|attention - exact| <= {self.drift:.3g} after all steps, {self.step:.3g} a step ({parts}){end}"


def drift(algorithm: Algorithm, sharpness: Sharpness, steps: int, dtype: str, x: Array, y: Array) -> Drift:
    """The bounds for examples x (n, d) and y (n, K), K classes as unit vectors, labels 0 and 1."""
    data = _Data(algorithm, sharpness, dtype, x, y)
    weights, apart, parts = np.zeros((x.shape[1], y.shape[1])), 0.0, {"none": 0.0}
    for _ in range(steps):
        here = data.step_parts(weights, apart)
        parts = max(parts, here, key=lambda each: sum(each.values()))
        apart = data.contraction(weights, apart) * apart * (1 + 1e-12) + sum(here.values()) * SLACK
        weights = algorithm.step(x, y, weights)
    q = data.contraction(weights, apart)
    change = float(np.linalg.norm(algorithm.step(x, y, weights) - weights))
    minimiser = None if q >= 1.0 else apart + change / (1.0 - q) * SLACK
    return Drift(sum(parts.values()) * SLACK, apart, minimiser, q, parts)


class _Data:
    """The examples, and what the bounds need of them."""

    def __init__(self, algorithm: Algorithm, sharpness: Sharpness, dtype: str, x: Array, y: Array) -> None:
        self.algorithm, self.sharpness, self.machine, self.x, self.y = algorithm, sharpness, machine(dtype), x, y
        lengths = np.linalg.norm(x, axis=1)
        self.longest, self.mean = float(lengths.max()), float(lengths.mean())
        self.columns = float(np.linalg.norm(np.abs(x).mean(axis=0)))  # of what rounding of sums is relative to
        penalty = np.full(x.shape[1], algorithm.l2)
        penalty[x.shape[1] - algorithm.free :] = 0.0
        covariance = x.T @ x / len(x)
        self.curvatures = np.linalg.eigvalsh(covariance)[-1], algorithm.l2
        self.least = (
            np.linalg.eigvalsh(covariance + np.diag(penalty))[0] if algorithm.link == "identity" else penalty.min()
        )

    def contraction(self, weights: Array, apart: float) -> float:
        """The Lipschitz constant of a step between exact iterate and network; refused where a step may expand."""
        curvature = CURVATURE.get(self.algorithm.link) or math.exp(min(self._forms(weights, apart), 700.0))
        rate, most = self.algorithm.learning_rate, curvature * self.curvatures[0] + self.curvatures[1]
        if rate * most > 2.0 * (1 + 1e-9):
            got = f"{rate:.3g} where the data's curvature is {most:.3g}"
            raise RefusalError("The step size must be at most two over the curvature", got, f"Use {1 / most:.2g}")
        return float(min(1.0, max(abs(1 - rate * max(self.least, 0.0)), abs(1 - rate * most))))

    def step_parts(self, weights: Array, apart: float) -> dict[str, float]:
        """What one block adds to the distance from the exact step, in the Euclidean norm."""
        rate, sharp = self.algorithm.learning_rate, self.sharpness
        outputs = math.sqrt(self.y.shape[1])
        link = self._link_error(weights, apart)
        reach = (
            float(np.abs(self.algorithm.residuals(self.x, self.y, weights)).max()) + self._moved(weights, apart) + link
        )
        left = extrapolated_error if sharp.extrapolated else aggregation_error
        truncation = rate * outputs * self.mean * reach * left(sharp.aggregation * reach)
        heads = 1.5 if sharp.extrapolated else 1.0
        unit, forms = self.machine.accumulation, self._forms(weights, apart)
        scores = sharp.aggregation * self._keys(reach, forms)
        lost = (
            gamma(2 * len(self.x) + 8, unit)
            + 2 * EXPONENTIAL * unit
            + 2 * gamma(self.x.shape[1] + 8, self.machine.roundoff) * scores
        )
        size = float(np.linalg.norm(weights)) + apart + rate * outputs * self.mean * reach
        rounding = (
            rate * outputs * heads * lost * self.columns / sharp.aggregation + gamma(8, self.machine.roundoff) * size
        )
        found = {"aggregation": truncation, "link": rate * outputs * self.mean * link, "rounding": rounding}
        if self.algorithm.l1:
            found["gate"] = math.sqrt(self.x.shape[1]) * (
                kink(sharp.gate, 1.0) + gamma(8, self.machine.roundoff) * size
            )
        return found

    def _keys(self, reach: float, forms: float) -> float:
        """The size of what a key of the aggregation is computed from."""
        largest = float(np.abs(self.y).max())
        if self.sharpness.row:
            return reach + 2 * largest  # y is added, and taken away
        return reach if self.algorithm.link != "identity" else forms + largest

    def _forms(self, weights: Array, apart: float) -> float:
        """The largest |w.x| of the network's iterate."""
        return float(np.abs(self.x @ weights).max()) + apart * self.longest

    def _moved(self, weights: Array, apart: float) -> float:
        """How far residuals may be from those of the exact iterate."""
        steep = 1.0 if self.algorithm.link != "exponential" else math.exp(min(self._forms(weights, apart), 700.0))
        return steep * apart * self.longest

    def _link_error(self, weights: Array, apart: float) -> float:
        """The error of a token's residual."""
        if self.sharpness.row:
            return self._row_error(self.sharpness.row, weights, apart)
        unit, forms = self.machine.accumulation, self._forms(weights, apart)
        scores = gamma(self.x.shape[1] + 8, self.machine.roundoff) * forms
        match self.algorithm.link:
            case "identity":
                return 0.0
            case "clamp":
                reach, beta = forms + float(np.abs(self.y).max()), self.sharpness.residual
                lost = 4 * EXPONENTIAL * unit / beta + 2 * gamma(self.x.shape[1] + 8, self.machine.roundoff) * reach
                return (
                    pair_error(beta, reach)
                    + lost
                    + kink(self.sharpness.gate, 2.0)
                    + gamma(8, self.machine.roundoff) * reach
                )
            case "exponential":
                return math.exp(min(forms, 700.0)) * (math.exp(forms - SINK) + 2 * scores + 2 * EXPONENTIAL * unit)
        return 2 * scores + 2 * EXPONENTIAL * unit

    def _row_error(self, row: Row, weights: Array, apart: float) -> float:
        r"""The error of a residual that is interpolated: by formula, and by the rounding of scores and of the mean.

        Scores are $\beta(2 L_k(w \cdot x - y) - L_k^2)$; copies $L_k w$ are off by the roundings of two exponentials.
        """
        unit, roundoff, largest = self.machine.accumulation, self.machine.roundoff, float(row.levels[-1])
        y = self.y if row.link in ("identity", "clamp") else np.zeros((1, 1))
        form = float(np.abs(self.x @ weights - y).max()) + apart * self.longest
        products, values = self.longest * (float(np.linalg.norm(weights)) + apart), float(np.abs(y).max())
        size = 2 * largest * (products + values) + largest**2
        copies = 4 * largest * products * ((2 * EXPONENTIAL + 8) * unit + 4 * roundoff)
        disturbance = row.beta * (copies + gamma(self.x.shape[1] + 14, roundoff) * size)
        answers = float(np.abs(row.answers).max())
        lost = answers * (gamma(row.count + 8, unit) + 2 * EXPONENTIAL * unit + 4 * roundoff) + 2 * roundoff * values
        return row_error(row, form, _coarse(disturbance)) + lost


def _coarse(number: float) -> float:
    """The next power of the fourth root of two: steps that hardly differ share one proof."""
    return number if not 0 < number < math.inf else 2.0 ** (math.ceil(4 * math.log2(number)) / 4) * SLACK
