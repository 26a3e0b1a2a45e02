r"""Theorem bound re-evaluated for gates: a self key, and a low or a high one or both, from the network's numbers.

For each query token the score differences low - self and high - self are compared with $-\beta(y - a)$ and
$\beta(y - b)$; what remains, with the rounding of queries, scores and exponentials, is the disturbance d of
:mod:`attnforge.lemmas.kink`. Rounding grows with |y|, but matters near the kinks only: further than
$4(d + 60)/\beta$ from [a, b] the losing key weighs less than $e^{-60}$ whatever the rounding, so d and the value's
error are taken on that slab; of a gate with one outer key, so does the losing key that far from its one end on either
side, and d is taken around that end.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from attnforge.certification.anchored import Problem
from attnforge.certification.row_of_anchors import check_output
from attnforge.certification.slab import slab
from attnforge.certification.tokens import Tokens, inner, input_tokens, project
from attnforge.effort import check_time
from attnforge.errors import CertificateError
from attnforge.kernel.softmax import SoftmaxArithmetic
from attnforge.lemmas.kink import far_key, kink
from attnforge.network import Head
from attnforge.outward import Balls, Machine, add_up, product_up
from attnforge.targets import TruncatedForm

Array = npt.NDArray[np.float64]
CLEAR = 60.0  # e^-60 of a value is below a rounding of it in every dtype
PARTS = ("spacing", "leakage", "rounding")


@dataclass(frozen=True, eq=False)
class Gates:
    """The matrices of one head that all rows ask, or of one head a row, stacked; and what each row is compared with.

    ``keys`` (..., k, r) and ``values`` (..., k, v) are memory's, ``output`` (..., v, 1) writes the feature looked at,
    ``sharpness`` is beta, ``roles`` are those of memory's keys and of the self key, or of all tokens.
    """

    query: Array
    key: Array
    value: Array
    output: Array
    keys: Array | None
    values: Array | None
    sharpness: Array
    roles: tuple[str, ...]

    @property
    def memory(self) -> int:
        """Constant keys beside the tokens."""
        return 0 if self.keys is None else self.keys.shape[-2]


@dataclass(frozen=True, eq=False)
class Reading:
    """Row by row: disturbance of score differences, error of the self value, largest value, mass on other tokens."""

    scores: Array
    self_value: Array
    largest: Array
    others: Array


def bound_gate(problem: Problem) -> dict[str, float]:
    """Named parts: ``spacing`` (the rounded kink), ``leakage`` (opposite key, other tokens), ``rounding``."""
    if len(problem.heads) != 1:
        raise CertificateError("A gate is one head", f"{len(problem.heads)} heads")
    check_output(problem.heads[0], problem.output)
    parts = bound_gates(problem, gate_of(problem))
    return {name: float(part.max()) for name, part in zip(PARTS, parts, strict=True)}


def gate_of(problem: Problem) -> Gates:
    """The gate that the only head is: its own token's key, and others whose scores fall or rise with y beside it."""
    head = problem.heads[0]
    if head.key_rows is None or head.key is None or head.value is None:
        raise CertificateError("A gate attends to its own token", "a head without token keys", "Rebuild the network")
    tokens = problem.tokens(problem.lower, problem.upper)
    first = problem.asking(tokens).rows(slice(1))
    tilt, rows = problem.tilt(first, head.query), project(tokens, head.key, problem.machine).constant.mid
    own = tilt @ rows[0]
    if head.key_rows.kind == "own":
        memory = np.zeros(0) if head.memory_keys is None else head.memory_keys @ tilt - own
        roles, slopes = (*map(_role, memory), "self"), memory
    else:
        count = len(problem.lower)
        slopes = rows[count:] @ tilt - own
        roles = (*("self" for _ in range(count)), *map(_role, slopes))
    _check_slopes(slopes)
    sharpness = np.abs(slopes[:1])
    written = head.output[:, problem.output : problem.output + 1]
    return Gates(head.query, head.key, head.value, written, head.memory_keys, head.memory_values, sharpness, roles)


def _role(slope: float) -> str:
    return "low" if slope < 0 else "high"


def _check_slopes(slopes: Array) -> None:
    if not len(slopes) or not (np.abs(slopes) > 0).all() or not np.isfinite(slopes).all():
        raise CertificateError("A gate has a key whose score falls with y, one whose score rises, or both", "none")


def bound_layer(heads: Sequence[Head], form: TruncatedForm, low: Array, high: Array, machine: Machine) -> Array:
    """The parts (n, 3) of n heads on features between these ends (m,), each a gate for its own row of the form.

    Features are exact as the run has them. Heads write one value each; their own key is zero, and those of one shape
    are looked at together, each on the features that it or its form reads.
    """
    parts, alike, read = np.empty((len(heads), 3)), defaultdict(list), form.weights.magnitude() > 0
    for j, head in enumerate(heads):
        check_time("proving gates")
        w, keys = form.weights.mid[j], head.memory_keys
        own = head.key_rows is not None and head.key_rows.kind == "own" and head.query_rows.indices is None
        if not own or keys is None or np.count_nonzero(head.output) != 1 or head.output.shape[1] != 1:
            raise CertificateError("A gate has an own key and constant ones, and writes one value", "another head")
        used = np.flatnonzero(head.reads | read[j])
        slopes = keys @ (w @ head.query) / max(float(w @ w), np.finfo(np.float64).tiny)
        _check_slopes(slopes)
        kind = len(used), head.query.shape, len(head.output), (*map(_role, slopes), "self")
        alike[kind].append((j, used, abs(slopes[0])))
    for (*_, roles), members in alike.items():
        rows, used, sharpness = (np.array(each) for each in zip(*members, strict=True))
        mine = TruncatedForm(form.weights[rows[:, None], used], form.offsets[rows], form.lower[rows], form.upper[rows])
        query, key, value, output, memory, written = (
            np.stack([np.asarray(getattr(heads[j], name)) for j in rows])
            for name in ("query", "key", "value", "output", "memory_keys", "memory_values")
        )
        here = np.arange(len(rows))[:, None], used
        gates = Gates(query[here], key[here], value[here], output, memory, written, sharpness, roles)
        parts[rows] = bound_gates(Problem((), (), mine, low[used], high[used], 0, machine, exact_inputs=True), gates).T
    return parts


def bound_gates(problem: Problem, gates: Gates) -> Array:
    """The parts (3, R) of every row's error; the ends of the problem's form may be one a row, too."""
    if gates.roles.count("low") > 1 or gates.roles.count("high") > 1:
        raise CertificateError("A gate has one key for each end", str(gates.roles), "Rebuild the network")
    (a, b), beta = (end.mid.ravel() for end in (problem.form.lower, problem.form.upper)), gates.sharpness
    whole = _read(problem, gates, problem.tokens(problem.lower, problem.upper))
    margin = 4 * (whole.scores + CLEAR) / beta
    margin = margin.max(keepdims=True) if problem.heads else margin  # of all rows that ask the same head
    near = _read(problem, gates, problem.tokens(*_around(problem, a - margin, b + margin)))
    largest = np.minimum(near.largest, np.nextafter(np.maximum(np.abs(a), np.abs(b)) + margin, np.inf))
    ends = [sign for _, sign, _ in _ends(problem, gates)]
    if len(ends) == 1:
        kinked = b if ends[0] > 0 else a
        close = _read(problem, gates, problem.tokens(*_around(problem, kinked - margin, kinked + margin)))
        near = replace(near, scores=np.minimum(near.scores, close.scores))
    outer = _outer_values(problem, gates)
    sizes = (np.nextafter(each + outer, np.inf) for each in (largest, whole.largest))
    rows = np.broadcast_arrays(beta, a, b, near.scores, near.self_value, *sizes, whole.others)
    found = [_parts(problem, gates, len(ends) == 2, *map(float, row)) for row in zip(*rows, strict=True)]
    rounding = outer + problem.form.lower.rad.ravel() + problem.form.upper.rad.ravel()
    parts = np.array(found).T
    parts[0] = np.nextafter(parts[0] + _beyond(problem, gates, a, b), np.inf)
    parts[2] = np.nextafter(parts[2] + rounding * (1 + 2.0**-50), np.inf)
    return parts


def _parts(
    problem: Problem,
    gates: Gates,
    both: bool,
    beta: float,
    a: float,
    b: float,
    scores: float,
    self_value: float,
    largest: float,
    whole: float,
    others: float,
) -> tuple[float, float, float]:
    """Spacing, leakage and rounding of one row, but for its constant values."""
    pair, run, opposite = kink(beta), kink(beta, scores), 0.0
    if both:
        opposite, run = far_key(beta, b - a), max(run, far_key(beta, b - a, scores))
    machine, keys = problem.machine, len(gates.roles)
    sums = float(_kernel(problem, gates).mean(after=3))
    lost = product_up(keys, machine.underflow, largest + 1.0)
    rounding = add_up(run - pair, self_value, product_up(sums, largest), lost)
    return pair, add_up(max(0.0, opposite - pair), product_up(others, 2 * whole)), rounding


def _beyond(problem: Problem, gates: Gates, a: Array, b: Array) -> Array:
    """How far the form goes beyond an end that no key stands for: there the gate does not cut it off."""
    tokens = input_tokens(problem.lower, problem.upper, problem.machine, problem.exact_inputs)
    weights, offsets = problem.forms(tokens)
    form = inner(Balls(weights.mid[:, :, None], weights.rad[:, :, None]), tokens.box, offsets[:, None])
    low = np.nextafter((form.mid - form.rad)[:, 0], -np.inf)
    high = np.nextafter((form.mid + form.rad)[:, 0], np.inf)
    below = np.maximum(np.nextafter(a - low, np.inf), 0.0) * ("low" not in gates.roles)
    above = np.maximum(np.nextafter(high - b, np.inf), 0.0) * ("high" not in gates.roles)
    return np.asarray(np.maximum(below, above))


def _around(problem: Problem, low: Array, high: Array) -> tuple[Array, Array]:
    """The boxes where the form takes values between these."""
    weights, offsets = problem.forms(input_tokens(problem.lower, problem.upper, problem.machine))
    return slab(problem.lower, problem.upper, weights, offsets, low[:, None], high[:, None])


def _ends(problem: Problem, gates: Gates) -> list[tuple[int, float, Balls]]:
    """For each outer key the place it has among the keys, the sign of its score's slope, and the end it stands for."""
    ends = (("low", -1.0, problem.form.lower), ("high", 1.0, problem.form.upper))
    return [(gates.roles.index(role), sign, end) for role, sign, end in ends if role in gates.roles]


def _read(problem: Problem, gates: Gates, tokens: Tokens) -> Reading:
    """Every query token against the claim, on the tokens' boxes."""
    machine, asked = problem.machine, None if not problem.heads else problem.heads[0].query_rows.indices
    asking = tokens if asked is None else problem.asking(tokens)
    query = project(asking, gates.query, machine)
    keys, own, own_values, others = _keys(problem, gates, tokens, query)
    weights, offsets = problem.forms(asking)
    scores, kernel = np.zeros(len(asking.source)), _kernel(problem, gates)
    for at, sign, end in _ends(problem, gates):
        rate = sign * gates.sharpness
        here = _disturbance(query, keys[..., at, :], own, rate, weights, offsets, end, kernel)
        scores = np.maximum(scores, here)
    scores = scores + 2 * float(kernel.log_weights())
    slope = own_values.slope - Balls(weights.mid[:, :, None], weights.rad[:, :, None])
    constant = own_values.constant - Balls(offsets.mid[:, None], offsets.rad[:, None])
    value = inner(slope, asking.box, constant).magnitude() + own_values.error
    ends = [np.abs(end.mid.ravel()) for end in (problem.form.lower, problem.form.upper)]
    largest = np.maximum(own_values.magnitude()[:, 0], np.maximum(*ends))
    return Reading(scores, value[:, 0], largest, others)


def _kernel(problem: Problem, gates: Gates) -> SoftmaxArithmetic:
    """The run of one gate; those of a composition are heads on their own tokens."""
    small = not problem.heads or problem.heads[0].is_small
    return SoftmaxArithmetic(problem.machine, len(gates.roles), written_out=small)


def _keys(problem: Problem, gates: Gates, tokens: Tokens, query: Tokens) -> tuple[Array, Array, Tokens, Array]:
    """All constant keys, the self keys (R, r), the self values, and a bound of the mass on other tokens."""
    roles, count = gates.roles, len(tokens.source)
    rows = project(tokens, gates.key, problem.machine)
    values = project(tokens, gates.value, problem.machine)
    if np.any(rows.slope.magnitude()) or np.any(rows.error) or np.any(rows.constant.rad):
        raise CertificateError("The keys of a gate are constants, exact in the dtype", "keys that vary or round")
    written = project(values, gates.output, problem.machine)
    head = problem.heads[0] if problem.heads else None
    if head is None or head.key_rows is None or head.key_rows.kind == "own":
        if gates.keys is None or roles[-1] != "self" or gates.memory != len(roles) - 1:
            raise CertificateError("A gate's own key comes after its constant ones", str(roles), "Rebuild the network")
        return gates.keys, rows.constant.mid, written, np.zeros(count)
    asked = np.arange(count) if head.query_rows.indices is None else head.query_rows.indices
    if head.key_rows.kind != "all" or gates.memory or len(roles) != count:
        raise CertificateError("A gate's keys are all tokens, or memory and its own", head.key_rows.kind)
    if any(roles[i] != "self" for i in asked):
        raise CertificateError("Every query of a gate is a token with a self key", "a query that is a constant key")
    keys, constants = rows.constant.mid, [at for at, _, _ in _ends(problem, gates)]
    return keys, keys[asked], written.rows(asked), _other_tokens(query, keys, asked, constants)


def _disturbance(
    query: Tokens,
    key: Array,
    own: Array,
    rate: Array,
    weights: Balls,
    offsets: Balls,
    end: Balls,
    kernel: SoftmaxArithmetic,
) -> Array:
    """Bounds (R,) of |score(key) - score(self) - rate (y - end)| over the boxes, as it runs."""
    change = Balls.exact(key) - Balls.exact(own)  # (R, r)
    column = Balls(change.mid[:, :, None], change.rad[:, :, None])
    by = Balls.exact(rate[:, None, None])
    slope = query.slope @ column - Balls(weights.mid[:, :, None], weights.rad[:, :, None]) * by
    start = (Balls(query.constant.mid[:, None, :], query.constant.rad[:, None, :]) @ column)[:, 0]
    wanted = (offsets - end) * Balls.exact(rate)
    exact = inner(slope, query.box, start - Balls(wanted.mid[:, None], wanted.rad[:, None])).magnitude()[:, 0]
    magnitude = query.magnitude()
    carried = (query.error * change.magnitude()).sum(axis=1)
    made = kernel.scores(key.shape[-1]) * (magnitude * (np.abs(key) + np.abs(own))).sum(axis=1)
    return np.asarray((exact + carried + made) * (1 + 2.0**-30))


def _other_tokens(query: Tokens, keys: Array, asked: npt.NDArray[np.int64], constants: list[int]) -> Array:
    """Bounds (R,) of the mass on tokens neither the query's own nor constant: sum of exp(score - own score)."""
    steady = ~(np.any(query.slope.magnitude() > 0, axis=(0, 1)) | np.any(query.error > 0, axis=0))
    fixed = Balls(query.constant.mid * steady, query.constant.rad * steady) @ Balls.exact(keys.T.copy())
    moving = (query.magnitude() * ~steady) @ np.abs(keys.T)
    upper = fixed.mid + fixed.rad + moving
    place = np.arange(len(asked))
    own = (fixed.mid - fixed.rad - moving)[place, asked]
    gaps = np.nextafter(own[:, None] - upper, -np.inf)
    mask = np.ones_like(gaps, dtype=bool)
    mask[place, asked] = False
    mask[:, constants] = False
    return np.asarray((np.exp(np.minimum(-gaps, 700.0)) * mask).sum(axis=1) * (1 + 2.0**-30))


def _outer_values(problem: Problem, gates: Gates) -> Array:
    """How far what the constant keys write is from the ends of the interval, row by row or for all.

    Keys that are tokens may write what depends on the inputs: it is taken over the domain.
    """
    rows = project(problem.tokens(problem.lower, problem.upper), gates.value, problem.machine)
    written = project(rows, gates.output, problem.machine)
    worst = np.zeros(1)
    for at, _, end in _ends(problem, gates):
        if gates.values is not None:
            value = Balls.exact(gates.values[..., at, :])
            away = Balls(value.mid[..., None, :], value.rad[..., None, :]) @ Balls.exact(gates.output) - _column(end)
            worst = np.maximum(worst, away.magnitude().reshape(-1))
        else:
            key = written.rows(slice(at, at + 1))
            away = inner(key.slope, key.box, key.constant - _column(end)[0])
            worst = np.maximum(worst, (away.magnitude() + key.error).reshape(-1))
    return worst


def _column(end: Balls) -> Balls:
    return Balls(end.mid.reshape(-1, 1, 1), end.rad.reshape(-1, 1, 1))
