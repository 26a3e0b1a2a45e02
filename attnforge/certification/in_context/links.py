r"""How far the residual that a block writes into a token is from the exact one, at the network's own weights.

All bounds are entry by entry, for tokens given by their sizes: $|w \cdot x|$, $\sum_j |x_j w_j|$ (what rounding of a
form is relative to) and $|y|$. The run departs from exact arithmetic by the roundings of forms and scores, by the
exponentials, and by a few roundings of the result; in the half types weights are also rounded before they meet values.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from flint import arb

from attnforge.balls import Machine, ball, gamma, precision, round_to, upper
from attnforge.certification.in_context.reading import Gate, Interpolated, OneSided, Pair, Step
from attnforge.errors import CertificateError
from attnforge.lemmas.kink import kink
from attnforge.lemmas.link_row import Row, row_error
from attnforge.targets.in_context.algorithm import Algorithm
from attnforge.targets.in_context.features import Features

Array = npt.NDArray[np.float64]

ULPS, ULPS_SINGLE = 1, 20  # units in the last place that an exponential may err by, accumulated in float64 and float32
MOST_GHOSTS = 14  # anchors left beyond the range a row is taken to serve
LARGEST = 700.0  # exponents beyond are taken to be infinite


@dataclass(frozen=True, eq=False)
class Sizes:
    """Bounds of what tokens hold: ``form`` |w.x|, ``products`` sum |x_j w_j|, ``label`` |y|, ``length`` |x|.

    Arrays (tokens, outputs) that broadcast; ``mirror`` bounds the distance of the two state tokens' sum from zero.
    ``least`` and ``most`` bound |w.x - y| where more is known of it than the other sizes say.
    """

    form: Array
    products: Array
    label: Array
    length: Array
    mirror: float = 0.0
    least: Array | None = None
    most: Array | None = None


def exponential(machine: Machine) -> float:
    """The relative error of an exponential."""
    return 2 * (ULPS if machine.accumulation == 2.0**-53 else ULPS_SINGLE) * machine.accumulation


def near_one(machine: Machine, exponent: Array) -> Array:
    """The relative error of exp(-z) for z up to ``exponent``: in [1/2, 1) a unit in the last place is one roundoff."""
    whole = exponential(machine)
    return np.where(exponent < 0.69, np.minimum(whole, whole / 2 * np.exp(np.minimum(exponent, 0.69))), whole)


def residual_error(step: Step, algorithm: Algorithm, features: Features, machine: Machine, sizes: Sizes) -> Array:
    """A bound (tokens, outputs) of |residual - r(w.x, y)| where the run computes residuals, y taken away already."""
    match step.link:
        case None:
            return np.zeros_like(sizes.form)
        case Pair() as pair:
            if step.clamp is None:
                return _logistic(pair, algorithm, features, machine, sizes)
            return _clamped(pair, step.clamp, algorithm, features, machine, sizes)
        case OneSided() as link:
            kind = _softmax if algorithm.link == "softmax" else _exponential
            return kind(link, algorithm, features, machine, sizes)
        case Interpolated() as link:
            return np.full_like(sizes.form, _interpolated(link, algorithm, features, machine, sizes))


def _forms(features: Features, machine: Machine, sizes: Sizes) -> Array:
    """The rounding of a form w.x - y that a score computes, before the score's factor."""
    return gamma(features.inputs + 6, machine.roundoff) * (sizes.products + sizes.label)


def _odds(pair: Pair, features: Features, machine: Machine, sizes: Sizes) -> Array:
    """The error of ``high`` sigma(s) + ``low`` (1 - sigma(s)) as it runs: exponential, scores, a few roundings."""
    score = abs(pair.form) * sizes.form + abs(pair.label) * sizes.label
    scores = abs(pair.form) * _forms(features, machine, sizes) + machine.accumulation * score
    disturbed = np.expm1(np.minimum(scores, 1.0)) + near_one(machine, score)
    size = abs(pair.high + pair.low) / 2 + abs(pair.high - pair.low) / 2 * np.minimum(score / 2, 1.0)
    lost = gamma(8, machine.roundoff) * size
    if machine.accumulation != machine.roundoff or not pair.is_exact:  # weights, or their products with values, round
        lost = lost + 2 * machine.roundoff * max(abs(pair.high), abs(pair.low))
    return np.where(scores < 1.0, abs(pair.high - pair.low) / 4 * disturbed, math.inf) + lost


def _logistic(pair: Pair, algorithm: Algorithm, features: Features, machine: Machine, sizes: Sizes) -> Array:
    """From sigma(w.x) - 1/2."""
    _belongs(algorithm, "logistic")
    _expect(pair.label == 0.0, "a logistic link leaves y out")
    exact = abs(pair.high - 0.5) + abs(pair.low + 0.5) + abs(pair.form - 1) / 4 * sizes.form
    return exact + _odds(pair, features, machine, sizes)


def _clamped(
    pair: Pair, clamp: Gate, algorithm: Algorithm, features: Features, machine: Machine, sizes: Sizes
) -> Array:
    r"""From clamp(w.x - y): a pair that is nearly straight, $c\tanh(b s)$ with c b near 1, then a gate.

    Both are increasing, so that residuals beyond the clamp for certain have no error but the gate's.
    """
    _belongs(algorithm, "clamp")
    _expect(pair.label == -pair.form, "a residual is w.x - y")
    b, c = pair.form / 2, (pair.high - pair.low) / 2
    size = sizes.form + sizes.label if sizes.most is None else sizes.most
    bent = abs(c) * np.abs(b * size) ** 3 / 3 + abs(c * b - 1) * size + abs(pair.high + pair.low) / 2
    straight = bent + 2 * machine.roundoff * size + _odds(pair, features, machine, sizes)
    if sizes.least is not None:
        straight = np.where(sizes.least > algorithm.delta + straight, 0.0, straight)
    cut = gate_error(clamp, machine, size + straight) + abs(clamp.reach - algorithm.delta)
    return straight + cut + gamma(6, machine.roundoff) * (size + sizes.label + clamp.reach)


def gate_error(gate: Gate, machine: Machine, size: Array) -> Array:
    r"""How far a gate that runs is from the clamp: $2\,(W(1/e) + d)/\beta$, d the rounding of its scores.

    Two keys lose to the third; each pulls by what :mod:`attnforge.lemmas.kink` says. Scores $\beta(z \pm a)$ take four
    roundings, so that $d/\beta$ is at most eight roundoffs of $|z| + a$; the mean itself takes a few more.
    """
    reach = np.maximum(size, gate.reach) + gate.reach
    lost = 2 * gamma(8, machine.roundoff) * reach + (gamma(8, machine.roundoff) + exponential(machine)) * reach
    return 2 * kink(gate.beta) + lost


def _softmax(link: OneSided, algorithm: Algorithm, features: Features, machine: Machine, sizes: Sizes) -> Array:
    """From the softmax of the forms: log-odds off by at most twice the disturbance move a weight by half of it."""
    form = sizes.form.max(axis=-1, keepdims=True)
    disturbed = _forms(features, machine, sizes) + 2 * machine.accumulation * form + exponential(machine)
    others = np.exp(np.minimum(np.maximum(link.rival, -link.outside) + 2 * form, LARGEST)) * (features.outputs + 1)
    lost = gamma(features.outputs + 8, machine.roundoff) + abs(link.factor - 1)  # a sum of as many weights
    return np.broadcast_to(disturbed.max(axis=-1, keepdims=True) / 2 * 1.01 + others + lost, sizes.form.shape)


def _exponential(link: OneSided, algorithm: Algorithm, features: Features, machine: Machine, sizes: Sizes) -> Array:
    r"""From $e^f$: $F\,\sigma(f - S)$ is $F e^{-S} e^f (1 - O(e^{f - S}))$; scores are as large as S."""
    _belongs(algorithm, "exponential")
    with precision():
        scaled = upper(abs(ball(link.factor) * (-ball(link.rival)).exp() - arb(1)))
    form = sizes.form
    disturbed = _forms(features, machine, sizes) + machine.accumulation * (abs(link.rival) + form)
    relative = np.exp(np.minimum(form - link.rival, LARGEST)) + scaled + 1.01 * (disturbed + 2 * exponential(machine))
    size = np.where(form < LARGEST, np.exp(np.minimum(form, LARGEST)), math.inf)
    silenced = link.factor * np.exp(np.minimum(form - link.outside, LARGEST))
    return size * (relative + gamma(8, machine.roundoff)) + silenced + machine.roundoff * size


def _interpolated(
    link: Interpolated, algorithm: Algorithm, features: Features, machine: Machine, sizes: Sizes
) -> float:
    r"""From $r(s)$: by formula, for the row of anchors that the tokens hold, with the rounding of scores and mean.

    Scores are $\beta(2 L_k s - L_k^2)$; copies $L_k w$ are off by the roundings of two exponentials, and by what is
    left of the two state tokens' sum.
    """
    _expect(link.label == (algorithm.link in ("identity", "clamp")), "y is inside the link where the link is linear")
    row, departures = _row(link, algorithm, features, machine)
    label = float(sizes.label.max()) if link.label else 0.0
    form = float((sizes.form + (sizes.label if link.label else 0.0)).max())
    products, largest = float(sizes.products.max()), float(row.levels[-1])
    size = 2 * largest * (products + label) + largest**2
    copies = 4 * largest * products * ((4 * exponential(machine) / machine.accumulation + 8) * machine.accumulation)
    copies += 4 * largest * products * 4 * machine.roundoff + 4 * link.scale * float(sizes.length.max()) * sizes.mirror
    moved = 2 * products * departures["scaled"] + 2 * label * departures["level"] + departures["square"]
    disturbance = abs(link.beta) * (copies + moved + gamma(features.inputs + 14, machine.roundoff) * size)
    others = 0.0
    if link.outside is not None:
        reach = 2 * largest * form + largest**2
        others = math.exp(min(abs(link.beta) * reach - link.outside, LARGEST))
    answers = float(np.abs(row.answers).max())
    lost = answers * (gamma(2 * row.count + 8, machine.accumulation) + 2 * exponential(machine) + 6 * machine.roundoff)
    rows = [row] if algorithm.link == "clamp" else _with_ghosts(row)
    error = min(row_error(each, form, _coarse(disturbance)) for each in rows)
    return error + departures["answer"] + answers * others * row.count + lost + 4 * machine.roundoff * label


def _row(
    link: Interpolated, algorithm: Algorithm, features: Features, machine: Machine
) -> tuple[Row, dict[str, float]]:
    """The evenly spaced row next to what anchor tokens hold in this dtype, and how far they are from it."""
    held = round_to(features.constants(), machine.name)[features.states :]
    count = len(held)
    levels = held[:, features.slices["level"]][:, 0]
    spacing = float((levels[-1] - levels[0]) / max(count - 1, 1))
    if count < 3 or not spacing > 0:
        raise CertificateError("Anchors increase", f"{count} anchors from {levels[0]} to {levels[-1]}", "Rebuild it")
    reach = spacing * (count - 1) / 2
    row = Row(algorithm.link, reach, count, 0, abs(link.beta) * spacing**2)
    slack = 2.0**-48 * max(1.0, reach**2)
    wanted = {"scaled": row.levels, "level": row.levels, "square": row.levels**2, "answer": row.answers}
    columns = {name: held[:, features.slices[name]][:, 0] for name in ("tilt", "level", "square", "answer")}
    columns["scaled"] = 2 * link.scale * np.tanh(columns["tilt"])
    departures = {name: float(np.abs(columns[name] - wanted[name]).max()) + slack for name in wanted}
    departures["answer"] += 2.0**-50 * float(np.abs(row.answers).max())
    if algorithm.link == "clamp":
        departures["answer"] += abs(reach - algorithm.delta)
    return row, departures


def _with_ghosts(row: Row) -> list[Row]:
    """The same anchors, some of them taken to lie beyond the range: the proof may draw the line anywhere."""
    most = min(MOST_GHOSTS, (row.count - 2) // 2)
    return [Row(row.link, row.reach - g * row.spacing, row.count, g, row.sharpness) for g in range(most + 1)]


def _coarse(number: float) -> float:
    """The next power of the fourth root of two: steps that hardly differ share one proof."""
    return number if not 0 < number < math.inf else 2.0 ** (math.ceil(4 * math.log2(number)) / 4) * (1 + 2.0**-20)


def _belongs(algorithm: Algorithm, link: str) -> None:
    _expect(algorithm.link == link, f"these heads compute the link {link!r}, the algorithm asks for {algorithm.link!r}")


def _expect(condition: bool, requirement: str) -> None:
    if not condition:
        raise CertificateError(f"In a block of regression, {requirement}", "another link", "Rebuild the network")
