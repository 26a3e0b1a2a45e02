r"""Theorem bound re-evaluated for the gate: a self key, and a low or a high one or both, from the network's numbers.

For each query token the score differences low - self and high - self are compared with $-\beta(y - a)$ and
$\beta(y - b)$; what remains, with the rounding of queries, scores and exponentials, is the disturbance d of
:mod:`attnforge.lemmas.kink`. Rounding grows with |y|, but matters near the kinks only: further than
$4(d + 60)/\beta$ from [a, b] the losing key weighs less than $e^{-60}$ whatever the rounding, so d and the value's
error are taken on that slab.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from attnforge.balls import Balls, add_up, gamma, product_up
from attnforge.certification.anchored import Problem
from attnforge.certification.row_of_anchors import check_output, softmax_roundings
from attnforge.certification.slab import slab
from attnforge.certification.tokens import Tokens, inner, input_tokens, project
from attnforge.errors import CertificateError
from attnforge.lemmas.kink import far_key, kink
from attnforge.network import Claims, Head

Array = npt.NDArray[np.float64]
CLEAR = 60.0  # e^-60 of a value is below a rounding of it in every dtype


@dataclass(frozen=True, eq=False)
class Gate:
    """Disturbance of the score differences, error of the self value, largest value, mass on other tokens."""

    scores: float
    self_value: float
    largest: float
    others: float


def bound_gate(problem: Problem) -> dict[str, float]:
    """Named parts: ``spacing`` (the rounded kink), ``leakage`` (opposite key, other tokens), ``rounding``."""
    if len(problem.heads) != 1:
        raise CertificateError("A gate is one head", f"{len(problem.heads)} heads")
    head, (a, b) = problem.heads[0], problem.interval
    check_output(head, problem.output)
    beta = _claims(head).sharpness
    whole = _read(problem, head, beta, problem.tokens(problem.lower, problem.upper))
    margin = 4 * (whole.scores + CLEAR) / beta
    weights, offsets = problem.forms(input_tokens(problem.lower, problem.upper, problem.machine))
    boxes = slab(problem.lower, problem.upper, weights, offsets, a - margin, b + margin)
    near = _read(problem, head, beta, problem.tokens(*boxes))
    largest = min(near.largest, add_up(max(abs(a), abs(b)), margin))

    pair, run, opposite = kink(beta), kink(beta, near.scores), 0.0
    if len(_ends(problem, head)) == 2:
        opposite, run = far_key(beta, b - a), max(run, far_key(beta, b - a, near.scores))
    others = product_up(whole.others, 2 * whole.largest)
    machine = problem.machine
    keys = len(_claims(head).roles)
    sums = add_up(gamma(keys + 5, machine.accumulation), gamma(3, machine.roundoff))
    lost = product_up(keys, machine.underflow, largest + 1.0)
    written = _outer_values(problem, head)
    ends = add_up(float(problem.form.lower.rad), float(problem.form.upper.rad))
    rounding = add_up(run - pair, near.self_value, written, product_up(sums, largest), lost, ends)
    return {"spacing": pair, "leakage": add_up(max(0.0, opposite - pair), others), "rounding": rounding}


def _claims(head: Head) -> Claims:
    claims = head.claims
    found = set() if claims is None else set(claims.roles)
    if claims is None or "self" not in found or not {"self"} < found <= {"low", "self", "high"}:
        raise CertificateError("A gate claims a self key and a low or a high one", str(found), "Rebuild the network")
    if not (math.isfinite(claims.sharpness) and claims.sharpness > 0):
        raise CertificateError("A gate claims a positive sharpness", str(claims.sharpness))
    return claims


def _ends(problem: Problem, head: Head) -> list[tuple[int, float, Balls]]:
    """For each outer key the place it has among the keys, the sign of its score's slope, and the end it stands for."""
    roles = _claims(head).roles
    ends = (("low", -1.0, problem.form.lower), ("high", 1.0, problem.form.upper))
    return [(roles.index(role), sign, end) for role, sign, end in ends if role in roles]


def _read(problem: Problem, head: Head, beta: float, tokens: Tokens) -> Gate:
    """Every query token against the claim, on the tokens' boxes."""
    machine = problem.machine
    asking = problem.asking(tokens) if head.query_rows.indices is not None else tokens
    query = project(asking, head.query, machine)
    keys, own, own_values, others = _keys(problem, head, tokens, query)
    weights, offsets = problem.forms(asking)
    scores = 0.0
    for at, sign, end in _ends(problem, head):
        rate, unit = sign * beta, machine.accumulation
        scores = max(scores, _disturbance(query, keys[at], own, rate, weights, offsets, end, unit))
    scores += 2 * softmax_roundings(len(tokens.source) + head.memory_size, machine)
    slope = own_values.slope - Balls(weights.mid[:, :, None], weights.rad[:, :, None])
    constant = own_values.constant - Balls(offsets.mid[:, None], offsets.rad[:, None])
    value = inner(slope, asking.box, constant).magnitude() + own_values.error
    largest = max(float(own_values.magnitude().max()), *(abs(end) for end in problem.interval))
    return Gate(scores, float(value.max()), largest, others)


def _keys(problem: Problem, head: Head, tokens: Tokens, query: Tokens) -> tuple[Array, Array, Tokens, float]:
    """All constant keys, the self keys (R, r), the self values, and a bound of the mass on other tokens."""
    if head.key_rows is None or head.key is None or head.value is None:
        raise CertificateError("A gate attends to its own token", "a head without token keys", "Rebuild the network")
    roles = _claims(head).roles
    rows = project(tokens, head.key, problem.machine)
    values = project(tokens, head.value, problem.machine)
    if np.any(rows.slope.magnitude()) or np.any(rows.error) or np.any(rows.constant.rad):
        raise CertificateError("The keys of a gate are constants, exact in the dtype", "keys that vary or round")
    written = project(values, head.output[:, problem.output : problem.output + 1], problem.machine)
    if head.key_rows.kind == "own":
        if head.memory_keys is None or roles[-1] != "self" or head.memory_size != len(roles) - 1:
            raise CertificateError("A gate's own key comes after its constant ones", str(roles), "Rebuild the network")
        return head.memory_keys, rows.constant.mid, written, 0.0
    asked = np.arange(len(tokens.source)) if head.query_rows.indices is None else head.query_rows.indices
    if head.key_rows.kind != "all" or head.memory_size or len(roles) != len(tokens.source):
        raise CertificateError("A gate's keys are all tokens, or memory and its own", head.key_rows.kind)
    if any(roles[i] != "self" for i in asked):
        raise CertificateError("Every query of a gate is a token with a self key", "a query that is a constant key")
    keys, constants = rows.constant.mid, [at for at, _, _ in _ends(problem, head)]
    return keys, keys[asked], written.rows(asked), _other_tokens(query, keys, asked, constants)


def _disturbance(
    query: Tokens, key: Array, own: Array, rate: float, weights: Balls, offsets: Balls, end: Balls, unit: float
) -> float:
    """Bound of |score(key) - score(self) - rate (y - end)| over the boxes, as it runs."""
    change = Balls.exact(key) - Balls.exact(own)  # (R, r)
    column = Balls(change.mid[:, :, None], change.rad[:, :, None])
    slope = query.slope @ column - Balls(weights.mid[:, :, None], weights.rad[:, :, None]) * Balls.exact(rate)
    start = (Balls(query.constant.mid[:, None, :], query.constant.rad[:, None, :]) @ column)[:, 0]
    wanted = (offsets - end) * Balls.exact(rate)
    exact = inner(slope, query.box, start - Balls(wanted.mid[:, None], wanted.rad[:, None])).magnitude()[:, 0]
    magnitude = query.magnitude()
    carried = (query.error * change.magnitude()).sum(axis=1)
    operations = len(key) + 4
    made = gamma(operations, unit) * (magnitude * (np.abs(key) + np.abs(own))).sum(axis=1)
    return float((exact + carried + made).max()) * (1 + 2.0**-30)


def _other_tokens(query: Tokens, keys: Array, asked: npt.NDArray[np.int64], constants: list[int]) -> float:
    """Bound of the mass on tokens that are neither the query's own nor constant: sum of exp(score - own score)."""
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
    return float((np.exp(np.minimum(-gaps, 700.0)) * mask).sum(axis=1).max(initial=0.0)) * (1 + 2.0**-30)


def _outer_values(problem: Problem, head: Head) -> float:
    """How far the values of the two constant keys are from the ends of the interval."""
    if head.value is None:
        raise CertificateError("A gate has values", "none")
    worst = 0.0
    rows = project(problem.tokens(problem.lower, problem.upper), head.value, problem.machine)
    for at, _, end in _ends(problem, head):
        if head.memory_values is not None:
            value, error = Balls.exact(head.memory_values[at]), 0.0
        else:
            value, error = rows.constant[at], float(rows.error[at].max())
        written = value @ Balls.exact(head.output)[:, problem.output]
        worst = max(worst, float((written - end).magnitude().max()) + error)
    return worst
