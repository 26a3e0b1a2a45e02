r"""What layers make of errors, and where the values of layers lie: backwards from the output, by linear bounds.

**Errors.** Let a run depart from a network by $\rho_l$ at the forms $y_l = W_l^T z_{l-1} + b_l$ and by $\lambda_l$ at
the values $z_l = \phi(y_l)$. With $D_l$ the diagonal of mean slopes, somewhere in $m_l \pm r_l$, the outputs depart by
$$ \sum_l g_l \cdot \lambda_l + a_l \cdot \rho_l, \qquad g_l = W_{l+1} a_{l+1}, \quad a_l = D_l g_l . $$
Down from the output, $a_l = C_l + \sum_{j \ge l} C_{jl} v_j$ with $|v_j| \le r_j |g_j|$, C the products of W and m
from the output to here and $C_{jl}$ those from layer j. The vector $v_j$ is known entry by entry and by its Euclidean
length; so is what it makes of $g_l$ and of the errors, and the smaller counts. Products of matrices are computed in
float64, and what that loses is part of $v_l$.

**Values.** A linear function of layer i's values is at most one of layer i - 1's, as $\phi$ lies between two lines on
the interval where $y_i$ is known to be: down to the inputs, where it is largest at a corner of the box. At each layer
its largest value on the intervals found there counts, too (Zhang et al. 2018, CROWN).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from attnforge.certification.checker.rounding import SLACK
from attnforge.outward import Balls, gamma, spectral_norm
from attnforge.targets import Activation, Affine

Array = npt.NDArray[np.float64]
Range = tuple[Array, Array]

FLOOR = 1e-150  # beside numbers so small that their squares vanish
UNIT = 2.0**-53


@dataclass(frozen=True, eq=False)
class Stage:
    """An affine map, and the activation after it, if there is one."""

    affine: Affine
    activation: Activation | None


@dataclass(frozen=True, eq=False)
class Departure:
    """Errors of the forms and of the values of a stage, and the slopes (least, most) between run and target."""

    forms: Array
    values: Array
    slopes: Range


class _Adjoint:
    """The derivative (m, K) of the outputs by the values, or by the forms, of a stage: C, and what kinks add to it.

    ``chain[j]`` leads from stage j's vector to here; ``entries[j]`` (m_j, K) and ``lengths[j]`` (K,) bound that vector.
    ``sizes`` (m, K) bounds the whole entry by entry, ``lost`` what rounding has made of it since the last stage.
    """

    def __init__(self, outputs: int) -> None:
        self.direct = np.eye(outputs)
        self.sizes = np.eye(outputs)
        self.lost = np.zeros((outputs, outputs))
        self.chain: dict[int, Array] = {}
        self.norms: dict[int, float] = {}
        self.entries: dict[int, Array] = {}
        self.lengths: dict[int, Array] = {}

    def through_weights(self, weight: Array) -> None:
        """From a stage's forms to the values before it."""
        size = np.abs(weight)
        known = np.abs(self.direct) + sum(np.abs(each) @ self.entries[j] for j, each in self.chain.items())
        self.lost = gamma(weight.shape[1] + 8) * (size @ known) * SLACK
        self.direct = weight @ self.direct
        self.chain = {j: weight @ each for j, each in self.chain.items()}
        self.norms = {j: float(spectral_norm(Balls.exact(each)).values) for j, each in self.chain.items()}
        reached = sum(np.abs(each) @ self.entries[j] for j, each in self.chain.items())
        self.sizes = np.minimum(np.abs(self.direct) + reached + self.lost, size @ self.sizes) * SLACK

    def through_slopes(self, stage: int, least: Array, most: Array) -> None:
        """From a stage's values to its forms."""
        largest = np.maximum(np.abs(least), np.abs(most))[:, None]
        middle = (least + most)[:, None] / 2
        doubt = np.where(least == most, 0.0, (most - least) / 2 + 4 * UNIT * largest[:, 0])[:, None] * SLACK
        rounded = 2 * largest * self.lost
        entries = (doubt * self.sizes + rounded) * SLACK
        length = np.linalg.norm(doubt * self.direct, axis=0) + np.linalg.norm(rounded, axis=0)
        for j, each in self.chain.items():
            by_entries = np.linalg.norm(doubt * (np.abs(each) @ self.entries[j]), axis=0)
            length = length + np.minimum(by_entries, doubt.max() * self.norms[j] * self.lengths[j])
        self.direct, self.sizes = middle * self.direct, largest * self.sizes * SLACK
        self.chain = {j: middle * each for j, each in self.chain.items()}
        self.norms = {j: float(largest.max()) * norm * SLACK for j, norm in self.norms.items()}
        self.lost = np.zeros_like(self.direct)
        if entries.any():
            self.chain[stage], self.norms[stage], self.entries[stage] = np.eye(len(middle)), 1.0, entries
            self.lengths[stage] = np.minimum(length, np.linalg.norm(entries, axis=0)) * SLACK

    def of(self, error: Array) -> Array:
        """What errors (m,) make of the outputs (K,)."""
        found, length = (np.abs(self.direct) + self.lost).T @ error, float(np.linalg.norm(error))
        for j, each in self.chain.items():
            reached = np.abs(each).T @ error
            whole = self.lengths[j] * min(float(np.linalg.norm(reached)), self.norms[j] * length) * SLACK
            found = found + np.minimum(self.entries[j].T @ reached, whole)
        return np.asarray(np.minimum(found, self.sizes.T @ error) * SLACK)


def output_error(weights: Sequence[Array], departures: Sequence[Departure], start: Array) -> Array:
    """How far (K,) outputs may be off where the inputs are off by ``start`` and stages depart like this."""
    adjoint = _Adjoint(weights[-1].shape[1])
    total = np.zeros(weights[-1].shape[1])
    for stage in range(len(weights) - 1, -1, -1):
        total = total + adjoint.of(departures[stage].values)
        adjoint.through_slopes(stage, *departures[stage].slopes)
        total = total + adjoint.of(departures[stage].forms)
        adjoint.through_weights(weights[stage])
    return np.asarray((total + adjoint.of(start) + FLOOR) * SLACK)


def ranges(stages: Sequence[Stage], low: Array, high: Array) -> tuple[list[Range], list[Range]]:
    """Bounds of the forms and of the values of every stage, for inputs in a box."""
    forms: list[Range] = []
    boxes = [(low, high)]
    for k, stage in enumerate(stages):
        most, least = (_largest(sign, stages[: k + 1], forms, boxes) for sign in (1.0, -1.0))
        forms.append((-least, most))
        boxes.append(image(stage.activation, -least, most))
    return forms, boxes[1:]


def _largest(sign: float, stages: Sequence[Stage], forms: Sequence[Range], boxes: Sequence[Range]) -> Array:
    """Upper bounds of sign times the forms of the last stage."""
    factors, constant = sign * stages[-1].affine.weight, sign * stages[-1].affine.bias
    loss, best = np.zeros(len(constant)), _at_corner(factors, constant, *boxes[len(stages) - 1])
    for i in range(len(stages) - 2, -1, -1):
        affine, size = stages[i].affine, _size(*boxes[i])
        (rise, base), (fall, floor) = _lines(stages[i].activation, *forms[i])
        positive, negative = np.maximum(factors, 0.0), np.minimum(factors, 0.0)
        slopes = positive * rise[:, None] + negative * fall[:, None]
        sums = np.abs(slopes).T @ (np.abs(affine.weight).T @ size + np.abs(affine.bias))
        sums = sums + positive.T @ np.abs(base) - negative.T @ np.abs(floor) + np.abs(constant)
        loss = (loss + gamma(3 * len(rise) + len(size) + 12) * sums) * SLACK
        constant = constant + positive.T @ base + negative.T @ floor + slopes.T @ affine.bias
        factors = affine.weight @ slopes
        best = np.minimum(best, np.nextafter(_at_corner(factors, constant, *boxes[i]) + loss, np.inf))
    return best


def _at_corner(factors: Array, constant: Array, low: Array, high: Array) -> Array:
    """Upper bounds of linear functions on a box."""
    positive, negative = np.maximum(factors, 0.0), np.minimum(factors, 0.0)
    sums = np.abs(factors).T @ _size(low, high) + np.abs(constant)
    rounding = gamma(2 * len(low) + 8) * sums * SLACK
    return np.asarray(np.nextafter(positive.T @ high + negative.T @ low + constant + rounding, np.inf))


def _size(low: Array, high: Array) -> Array:
    return np.maximum(np.abs(low), np.abs(high))


def _lines(activation: Activation | None, a: Array, b: Array) -> tuple[Range, Range]:
    """Slope and height of a line above and of one below the activation on [a, b].

    It is a broken line: its distance from any straight one is largest at an end or at a kink. Of three slopes, that of
    the chord and those of the pieces, the one is taken whose line is closest in the middle.
    """
    if activation is None:
        return (np.ones(len(a)), np.zeros(len(a))), (np.ones(len(a)), np.zeros(len(a)))
    kinks = [np.clip(kink, a, b) for kink in (activation.lower, activation.upper) if kink is not None]
    places = np.stack([a, b, *kinks])
    values, wide = activation(places), np.maximum(b - a, 1e-300)
    tops = [np.clip((values[1] - values[0]) / wide, -1e9, 1e9), np.ones(len(a)), np.full(len(a), activation.slope)]
    slopes = np.stack(tops)[:, None]
    apart = values - slopes * places
    doubt = 8 * UNIT * (np.abs(values) + (np.abs(slopes) + 2 * abs(activation.slope) + 1) * np.abs(places))
    highest, lowest = (apart + doubt).max(axis=1), (apart - doubt).min(axis=1)
    middle = slopes[:, 0] * (a / 2 + b / 2)
    over, under = (middle + highest).argmin(axis=0), (middle + lowest).argmax(axis=0)
    here = np.arange(len(a))
    return (slopes[over, 0, here], highest[over, here]), (slopes[under, 0, here], lowest[under, here])


def image(activation: Activation | None, low: Array, high: Array) -> Range:
    """The activation's range on intervals: a broken line, its extremes are at the ends or at kinks."""
    if activation is None:
        return low, high
    kinks = [np.clip(kink, low, high) for kink in (activation.lower, activation.upper) if kink is not None]
    places = np.stack([low, high, *kinks])
    values = activation(places)
    doubt = 8 * UNIT * (np.abs(values) + (2 * abs(activation.slope) + (activation.slope != 0)) * np.abs(places))
    doubt = doubt if activation.slope else np.zeros_like(values)
    return (values - doubt).min(axis=0), (values + doubt).max(axis=0)
