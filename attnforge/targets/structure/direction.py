r"""Ridges in black boxes: the direction of a function of one linear form, found by probing.

If $f(x) = g(w \cdot x)$, every gradient is a multiple of $w$. Gradients by differences are good to about $10^{-10}$,
so the direction they agree on is refined with steps as large as the box: for a direction $W$ that is off by
$\delta W$, and $y$ the point of the diagonal with $W \cdot y = W \cdot x$,
$$ f(x) - f(y) = g'(W \cdot x)\; \delta W \cdot (x - y) + O(|\delta W|^2), $$
a linear least-squares problem for $\delta W$ whose left side is known to rounding. Gradients that disagree are
tolerated in a minority (differences across a kink): whether the direction is right is decided by $f(x) - f(y)$.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import numpy.typing as npt

from attnforge.targets.domain import Box
from attnforge.targets.structure.black_box import BlackBox, scattered
from attnforge.targets.structure.found import Refusal
from attnforge.targets.structure.term import Term, ridge_term

Array = npt.NDArray[np.float64]

FIRST, MORE = 5, 15  # points with a gradient: a few to give up early, and as many again as make an agreement credible
STEP = 2e-4  # of the width: a fourth-order difference is then good to 1e-11 up to a hundred waves in the box
FINE_STEP = 1e-5  # at places chosen because f changes quickly
ALIKE = 1e-4  # angle below which two gradients agree; loose, because the direction is judged by its values
AGREED = 0.75  # share of the gradients that must agree
PAIRS, HALVINGS = 16, 12  # of points, to find slopes where random points have none
NOISE = 5e-16  # of max|f|, in a difference: gradients must be known to the angle at which they are compared
FLAT = 1e-6  # of the largest gradient: smaller ones say little about the direction
TRIALS = 64  # points on which directions are compared
ROUNDS = 6  # of refinement; each squares the error, once it is small
SLOPE_STEP = 1e-4  # of the diagonal, for the derivative of g, which need not be accurate
DECIMALS, DENOMINATOR = 9, 1000  # weights a person may have written


def probed_ridge(f: BlackBox, box: Box, names: tuple[str, ...], tol: float, seed: int) -> tuple[Term, ...] | Refusal:
    """The target as a function of one form, or why it is not one.

    >>> from attnforge.targets import Function
    >>> box = Box(-1, 1, shape=(3,))
    >>> f = BlackBox(Function(lambda x: np.tanh(3 * x[..., 0] - 2 * x[..., 1] + 0.5 * x[..., 2]), box))
    >>> probed_ridge(f, box, ("x", "y", "z"), 1e-9, seed=0)[0].describe()
    'x - 0.6667*y + 0.1667*z'
    """
    generator = np.random.default_rng(seed)
    rows = _gradients(f, box, generator.random((FIRST, len(names))), STEP)
    if len(rows) and _agreement(rows) is None:
        return Refusal("its gradients are not parallel")
    rows = np.concatenate([rows, _gradients(f, box, generator.random((MORE, len(names))), STEP)])
    if len(rows) < FIRST:
        rows = np.concatenate([rows, _gradients(f, box, _steep(f, box, generator), FINE_STEP)])
    if not len(rows):
        return Refusal("it has no slope at any of the probes")
    if (direction := _agreement(rows)) is None:
        return Refusal("its gradients are not parallel")
    points = scattered(generator, box.lower, box.upper, TRIALS)
    error, weights = _best(f, box, _plain(direction, box), points)
    if error > max(tol / 10, f.rounding):
        return Refusal(f"along the direction of its gradients it is a function of one form only to {error:.1e}")
    return (ridge_term(f, box, names, weights),)


def _gradients(f: BlackBox, box: Box, places: Array, step: float) -> Array:
    """Gradients in units of the box, one row a place (in these units) and output; rows lost in rounding are left out.

    Central differences at distance h and 2h, extrapolated: (8 (f(h) - f(-h)) - (f(2h) - f(-2h))) / 12h.
    """
    (count, axes), width = places.shape, box.upper - box.lower
    unit = np.clip(places, 2 * step, 1 - 2 * step)[:, None, None]
    moves = step * np.array([1, -1, 2, -2])[:, None] * np.eye(axes)[:, None, :]  # (axes, 4, axes)
    points = np.clip(box.lower + width * (unit + moves), box.lower, box.upper)
    found = f(points.reshape(-1, axes)).reshape(count, axes, 4, -1)
    slopes = np.einsum("cask,s->cka", found, np.array([8, -8, -1, 1]) / (12 * step)).reshape(-1, axes)
    noise = NOISE * f.size / (step * ALIKE)
    return np.asarray(slopes[np.linalg.norm(slopes, axis=1) > noise])


def _steep(f: BlackBox, box: Box, generator: np.random.Generator) -> Array:
    """Places where a function that is flat almost everywhere is not: pairs, halved towards the larger change."""
    left, right = generator.random((2, PAIRS, len(box.lower)))

    def at(places: Array) -> Array:
        return f(np.clip(box.lower + (box.upper - box.lower) * places, box.lower, box.upper))

    on_left, on_right = at(left), at(right)
    for _ in range(HALVINGS):
        middle = (left + right) / 2
        value = at(middle)
        first = (np.abs(value - on_left).max(axis=1) >= np.abs(value - on_right).max(axis=1))[:, None]
        left, right = np.where(first, left, middle), np.where(first, middle, right)
        on_left, on_right = np.where(first, on_left, value), np.where(first, value, on_right)
    return np.asarray((left + right) / 2)


def _agreement(rows: Array) -> Array | None:
    """The mean direction of the gradients, larger ones counting more, if most of them agree up to sign."""
    sizes = np.linalg.norm(rows, axis=1)
    kept = rows[sizes > FLAT * sizes.max(initial=0.0)]
    if not len(kept):
        return None
    units = kept / np.linalg.norm(kept, axis=1, keepdims=True)
    cosines = units @ units.T
    agree = np.abs(cosines) > np.cos(ALIKE)
    best = int(np.argmax(agree.sum(axis=1)))
    if agree[best].mean() < AGREED:
        return None
    return np.asarray((np.sign(cosines[best]) * agree[best]) @ kept)


def _plain(scaled: Array, box: Box) -> Array:
    """Weights of the inputs, the largest of them one, from a direction in units of the box."""
    width = box.upper - box.lower
    weights = np.divide(scaled, width, out=np.zeros_like(scaled), where=width > 0)
    return np.asarray(weights / weights[np.argmax(np.abs(weights))])


def _best(f: BlackBox, box: Box, weights: Array, points: Array) -> tuple[float, Array]:
    """The error on the points of the best direction near the given one, and that direction.

    A direction of round numbers is preferred while both err by rounding only.
    """
    values = f(points)
    error, best = _preferred(f, box, weights, points, values)
    for _ in range(ROUNDS):
        if error <= f.rounding:
            break
        weights = _refined(f, box, weights, points, values)
        refined = _preferred(f, box, weights, points, values)
        if not refined[0] < error:
            break
        error, best = refined
    return error, best


def _preferred(f: BlackBox, box: Box, weights: Array, points: Array, values: Array) -> tuple[float, Array]:
    """The weights or the round ones next to them, with the larger error not above rounding."""
    round_weights = np.array([_round(weight) for weight in weights])
    plain = _error(f, box, weights, points, values)
    neat = _error(f, box, round_weights, points, values)
    return (neat, round_weights) if neat <= max(plain, f.rounding) else (plain, weights)


def _round(weight: float) -> float:
    """A fraction with a small denominator if one is near, else a short decimal.

    >>> _round(0.66666666660), _round(0.123456789012)
    (0.6666666666666666, 0.123456789)
    """
    fraction = float(Fraction(weight).limit_denominator(DENOMINATOR))
    return fraction if abs(fraction - weight) < 10.0**-DECIMALS else round(weight, DECIMALS)


def _error(f: BlackBox, box: Box, weights: Array, points: Array, values: Array) -> float:
    return float(np.abs(values - ridge_term(f, box, (), weights).at(points)).max())


def _refined(f: BlackBox, box: Box, weights: Array, points: Array, values: Array) -> Array:
    """One step of the least-squares problem for the direction, in units of the box."""
    width = box.upper - box.lower
    term = ridge_term(f, box, (), weights)
    low, high = term.lower[0], term.upper[0]
    forms = points @ weights
    left, right = (np.clip(forms + sign * SLOPE_STEP * (high - low), low, high) for sign in (-1, 1))
    on_left, on_line, on_right = (term.values(u[:, None]) for u in (left, forms, right))
    slopes = (on_right - on_left) / (right - left)[:, None]  # (N, k)
    diagonal = ridge_term(lambda x: x, box, (), weights).values(forms[:, None])
    away = (points - diagonal) / np.where(width > 0, width, 1.0)
    rows = (slopes[:, :, None] * away[:, None, :]).reshape(-1, len(weights))
    change = np.linalg.lstsq(rows, (values - on_line).reshape(-1), rcond=1e-10)[0]
    return _plain(weights * width + change, box)
