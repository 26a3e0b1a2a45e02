r"""Reading a head whose keys stand in a row along a linear form: what it computes, from its numbers alone.

The claim is that scores are, up to a term common to all keys, $-c(\upsilon - \ell_k)^2$ with
$\upsilon = (y - L_{ref})/h$ and $\ell_k$ the integer place of key k counted from a reference key. Score k minus score
ref is $\sum_f q_f(x)(K_{kf} - K_{ref,f})$. Split every key feature as
$K_{kf} - K_{ref,f} = g_f \ell_k + s_f \ell_k^2 + \rho_{kf}$; then
$$ s_k - s_{ref} = \ell_k\,G(x) + \ell_k^2\,S(x) + \sum_f q_f \rho_{kf}, \quad
   G = \sum_f g_f q_f,\; S = \sum_f s_f q_f . $$
With $c := -S$ at the first row, the head sees y at $\hat\upsilon = G/(2c)$: the difference to the target's $\upsilon$
is a *backward* error, as harmless as moving y by it. The rest disturbs scores: $(S + c)\ell^2$, $q\rho$, and the
arithmetic of the run, $\gamma \sum |q||K|$ plus the exponential. Any g, s, c are allowed; bad ones only make the
remainders large.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from attnforge.certification.tokens import Tokens, inner, project
from attnforge.errors import CertificateError, RefusalError
from attnforge.kernel.softmax import SoftmaxArithmetic
from attnforge.network import Head
from attnforge.outward import Balls, Machine, gamma

Array = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Form:
    """The target's linear form on each row: y = weights . x + offsets, and the interval of y that is looked at."""

    weights: Balls
    offsets: Balls
    low: float
    high: float


@dataclass(frozen=True, eq=False)
class Keys:
    """Constant keys (p, r), how far the run's may be off, values (p,) in the output feature, and their error."""

    keys: Balls
    error: Array
    values: Balls
    value_error: float


@dataclass(frozen=True, eq=False)
class Row:
    """What a head computes: sharpness c, its disturbed scores, and where it sees y.

    ``scores`` bounds the disturbance while y is in the interval looked at, ``growth`` its growth for every step beyond.
    ``departure`` is the exact part of (position seen) - (y - L_ref)/h, in steps: slope (R, d, 1) and constant (R, 1);
    the run adds ``lever`` (m,) times the errors of the token's features, and ``own`` (R, 1) of the head's arithmetic.
    """

    c: float
    scores: float
    growth: float
    departure: tuple[Balls, Balls]
    lever: Array
    own: Array

    def position(self, tokens: Tokens) -> float:
        """How far, in steps, the head's idea of y is from y."""
        exact = inner(self.departure[0], tokens.box, self.departure[1]).magnitude()
        return _largest(exact + (tokens.error @ np.abs(self.lever))[:, None] + self.own)

    def apart(self, other: Row, tokens: Tokens) -> float:
        """How far, in steps, two heads' ideas of y are from each other: what they share cancels."""
        slope, constant = (mine - theirs for mine, theirs in zip(self.departure, other.departure, strict=True))
        exact = inner(slope, tokens.box, constant).magnitude()
        shared = (tokens.error @ np.abs(self.lever - other.lever))[:, None]
        return _largest(exact + shared + self.own + other.own)


def read_keys(head: Head, tokens: Tokens, machine: Machine, output: int) -> Keys:
    """The head's constant keys and the values they write into the output feature."""
    if head.key_rows is None:
        if head.memory_keys is None or head.memory_values is None:
            raise CertificateError("A head has keys", "none")
        keys, key_error = Balls.exact(head.memory_keys), np.zeros(head.memory_keys.shape)
        values, error = Balls.exact(head.memory_values), 0.0
    else:
        plain = head.key_rows.kind == "all" and head.key_rows.source == "state"
        if not plain or head.memory_size or head.key is None or head.value is None:
            raise CertificateError("This proof reads heads whose keys are memory, or all tokens", head.key_rows.kind)
        rows, valued = project(tokens, head.key, machine), project(tokens, head.value, machine)
        if np.any(rows.slope.magnitude()) or np.any(valued.slope.magnitude()):
            raise CertificateError(
                "The keys and values of this construction are constant", "keys that depend on the input"
            )
        keys, key_error, values = rows.constant, rows.error, valued.constant
        error = float((valued.error @ np.abs(head.output)).max())
    written = values @ Balls.exact(head.output)
    if np.any(np.delete(written.magnitude(), output, axis=1)):
        raise CertificateError("A head writes one value into its output feature, nothing elsewhere", "other entries")
    powers = np.isin(np.abs(np.frexp(head.output)[0]), (0.0, 0.5))
    copied = np.all(powers) and np.all((head.output != 0).sum(axis=0) <= 1)
    mass = float((values.magnitude() @ np.abs(head.output)).max()) * (1 + 2.0**-40)
    rounding = 0.0 if copied else gamma(len(head.output) + 1, machine.roundoff) * mass
    return Keys(keys, key_error, written[:, output], error + rounding)


def read_row(
    head: Head, keys: Keys, places: npt.NDArray[np.int64], tokens: Tokens, form: Form, step: float, reference: Balls,
    sharpness: float | None, machine: Machine,
) -> Row:  # fmt: skip
    """Measure the head against a row of anchors: ``places`` of its keys, ``step`` h, position of the middle key.

    ``sharpness`` fixes c (so that several heads are compared with the same one); None takes it from the numbers.
    """
    middle = len(places) // 2 if len(places) > 2 else 0
    ell = (places - places[middle]).astype(np.float64)
    full = project(tokens, head.query, machine)
    query, merged, merged_error, lever_of = merge_constants(full, keys, head.query)
    g, s = _straight_and_square(merged.mid, ell, middle)
    differences = merged - merged[middle : middle + 1]
    fit = Balls.exact(np.outer(ell, g)) + Balls.exact(np.outer(ell * ell, s))
    fit = Balls(fit.mid, fit.rad + 2.0**-51 * (np.abs(np.outer(ell, g)) + np.abs(np.outer(ell * ell, s))))
    rest = (differences - fit).magnitude() + merged_error + merged_error[middle]
    straight, square = _combine(query, g), _combine(query, s)
    if len(places) == 2:  # one step only: ell^2 = ell, so the square part is free; take it from the slope in y
        c = sharpness or _slope_sharpness(straight[0], form, step) or _claimed_sharpness(head, step)
        straight = (straight[0], straight[1] + Balls.exact([[c]]))
        square = (square[0], square[1] - Balls.exact([[c]]))
    else:
        c = sharpness or -float(inner(*square[:1], tokens.box, square[1]).mid[0, 0])
    if not c > 0:
        kind = CertificateError if machine.name == "float64" else RefusalError
        remedy = f"Rebuild the network, or use a precision above {machine.name}"
        raise kind("Scores fall with the square of the distance to a key", f"c = {c:.3g}", remedy)
    magnitude, growth = _query_magnitude(query, form)
    full_magnitude, full_growth = _query_magnitude(full, form)
    bend = inner(square[0], tokens.box, square[1] + Balls.exact([[c]])).magnitude() + query.error @ np.abs(s)[:, None]
    kernel = SoftmaxArithmetic(machine, len(places))
    arithmetic = kernel.scores(head.query.shape[1]) * (keys.keys.magnitude() + keys.error)
    per_key = rest @ magnitude + arithmetic @ full_magnitude + bend.max() * ell * ell
    scores = per_key.max() + float(kernel.log_weights())
    return Row(
        c,
        _largest(np.asarray(scores)),
        _largest((rest @ growth + arithmetic @ full_growth) * step),
        _departure(straight, form, step, reference, c),
        lever_of @ g / (2 * c),
        _arithmetic_alone(query, tokens, lever_of) @ np.abs(g)[:, None] / (2 * c),
    )


def merge_constants(query: Tokens, keys: Keys, weights: Array) -> tuple[Tokens, Balls, Array, Array]:
    """Query features that are exact constants, the same on every row, become one feature 1 with combined keys.

    So what a key splits over several such features (a square and its low digits) is judged by its sum. Returned are the
    query, the keys, their error and the weights W_Q behind the features (none behind the constant).
    """
    moving = np.any(query.slope.magnitude() > 0, axis=(0, 1)) | np.any(query.error > 0, axis=0)
    moving |= np.any(query.constant.rad > 0, axis=0) | np.any(query.constant.mid != query.constant.mid[:1], axis=0)
    fixed = Balls.exact(query.constant.mid[0, ~moving][:, None])
    combined = keys.keys[:, ~moving] @ fixed
    error = keys.error[:, ~moving] @ np.abs(fixed.mid)
    rows, d = query.slope.shape[:2]

    def extended(kept: Array, last: Array) -> Array:
        return np.concatenate([kept, last], axis=-1)

    merged = Tokens(
        query.source,
        query.box,
        Balls(*(extended(part[..., moving], np.zeros((rows, d, 1))) for part in (query.slope.mid, query.slope.rad))),
        Balls(
            extended(query.constant.mid[:, moving], np.ones((rows, 1))),
            extended(query.constant.rad[:, moving], np.zeros((rows, 1))),
        ),
        extended(query.error[:, moving], np.zeros((rows, 1))),
    )
    kept = keys.keys[:, moving]
    columns = Balls(extended(kept.mid, combined.mid), extended(kept.rad, combined.rad))
    behind = extended(weights[:, moving], np.zeros((len(weights), 1)))
    return merged, columns, extended(keys.error[:, moving], error), behind


def _combine(query: Tokens, weights: Array) -> tuple[Balls, Balls]:
    """Slope (R, d, 1) and constant (R, 1) of the feature sum_f weights_f q_f, in exact arithmetic."""
    column = Balls.exact(np.broadcast_to(weights[:, None], (len(query.source), len(weights), 1)))
    constant = Balls(query.constant.mid[:, None, :], query.constant.rad[:, None, :]) @ column
    return query.slope @ column, constant[:, 0]


def _arithmetic_alone(query: Tokens, tokens: Tokens, weights: Array) -> Array:
    """The part of the queries' error that the head's own projection makes, without what the tokens carry in.

    A relative 2^-40 of what they carry stays, for the roundings of the lever's own computation.
    """
    return np.maximum(query.error - tokens.error @ np.abs(weights) * (1 - 2.0**-40), 0.0) * (1 + 2.0**-40)


def _largest(values: Array) -> float:
    """The maximum, with room for the roundings of the few operations that led to it."""
    return float(values.max()) * (1 + 2.0**-30)


def _straight_and_square(keys: Array, ell: Array, middle: int) -> tuple[Array, Array]:
    """Coefficients g and s through the first, middle and last key, feature by feature."""
    first, last = keys[0] - keys[middle], keys[-1] - keys[middle]
    if len(ell) == 2:
        return last / ell[-1], np.zeros(keys.shape[1])
    s = (last / ell[-1] - first / ell[0]) / (ell[-1] - ell[0])
    return last / ell[-1] - s * ell[-1], s


def _slope_sharpness(slope: Balls, form: Form, step: float) -> float:
    """The sharpness c from G = 2c (y - ..)/h: the slope of G along w, times h / 2."""
    w = form.weights.mid[0]
    return float(slope.mid[0, :, 0] @ w / max(float(w @ w), np.finfo(np.float64).tiny)) * step / 2


def _claimed_sharpness(head: Head, step: float) -> float:
    return 0.0 if head.claims is None else head.claims.sharpness * step * step


def _departure(
    straight: tuple[Balls, Balls], form: Form, step: float, reference: Balls, c: float
) -> tuple[Balls, Balls]:
    """G / (2c) minus (y - L_ref) / h, as slope and constant."""
    scale, per_step = Balls.exact(2 * c).inverse(), Balls.exact(step).inverse()
    slope = straight[0] * scale - Balls(form.weights.mid[:, :, None], form.weights.rad[:, :, None]) * per_step
    wanted = (form.offsets - reference) * per_step
    return slope, straight[1] * scale - Balls(wanted.mid[:, None], wanted.rad[:, None])


def _query_magnitude(query: Tokens, form: Form) -> tuple[Array, Array]:
    """Bounds (r,) of |q_f| where y is in the interval looked at, and of its growth per unit of y beyond."""
    w = form.weights.mid
    square = np.maximum((w * w).sum(axis=1, keepdims=True), np.finfo(np.float64).tiny)
    along = (query.slope.mid * w[:, :, None]).sum(axis=1) / square  # (R, r): the slope of q_f along y
    rate = Balls.exact(along)
    aside = query.slope - Balls(form.weights.mid[:, :, None], form.weights.rad[:, :, None]) * Balls.exact(
        along[:, None]
    )
    rest = query.constant - rate * Balls(form.offsets.mid[:, None], form.offsets.rad[:, None])
    zero = Balls.exact(np.zeros_like(along))
    beside = inner(aside, query.box, zero).magnitude() + query.error
    ends = [(rate * Balls.exact(y) + rest).magnitude() for y in (form.low, form.high)]
    magnitude = np.minimum(np.maximum(*ends) + beside, query.magnitude())
    return magnitude.max(axis=0), np.abs(along).max(axis=0)


def check_output(head: Head, output: int) -> None:
    """Raise unless the head writes its value into the output feature, and nothing into any other."""
    others = np.delete(head.output, output, axis=1)
    if np.any(others) or np.count_nonzero(head.output[:, output]) != 1:
        raise CertificateError("A head writes one value into its output feature, nothing elsewhere", "other entries")
