r"""How far the residual that a block writes into a token is from the exact one, at the network's own weights.

All bounds are entry by entry, for tokens given by their sizes: $|w \cdot x|$, $\sum_j |x_j w_j|$ (what rounding of a
form is relative to) and $|y|$. The run departs from exact arithmetic by the roundings of forms and scores, by the
exponentials, and by a few roundings of the result; in the half types weights are also rounded before they meet values.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from flint import arb

from attnforge.certification.in_context.reading import Gate, Interpolated, OneSided, Pair, Step
from attnforge.errors import CertificateError
from attnforge.kernel.softmax import SoftmaxArithmetic
from attnforge.lemmas.kink import kink
from attnforge.lemmas.link_row import Row, row_error
from attnforge.outward import Balls, Machine, Up, ball, gamma, precision, round_to, upper
from attnforge.targets.in_context.algorithm import Algorithm
from attnforge.targets.in_context.features import Features

Array = npt.NDArray[np.float64]

MOST_GHOSTS = 14  # anchors left beyond the range a row is taken to serve
BLOCK = 512  # keys that PyTorch's fused kernel sums before it rescales
QUARTERS = (2.0**-0.75, 2.0**-0.5, 2.0**-0.25, 1.0)
NOTHING = Up.of(0.0)


@dataclass(frozen=True, eq=False)
class Sizes:
    """Bounds of what tokens hold: ``form`` |w.x|, ``products`` sum |x_j w_j|, ``label`` |y|, ``length`` |x|.

    Arrays (tokens, outputs) that broadcast; ``mirror`` bounds the distance of the two state tokens' sum from zero.
    ``least`` and ``most`` bound |w.x - y| where more is known of it than the other sizes say.
    """

    form: Up
    products: Up
    label: Up
    length: Up
    mirror: Up = NOTHING
    least: Array | None = None
    most: Up | None = None


def softmax(machine: Machine, keys: int) -> SoftmaxArithmetic:
    """The run of one softmax, as these certificates assume it: larger blocks, and better exponentials in float64."""
    return SoftmaxArithmetic(machine, keys, BLOCK, 1 if machine.bytes == 8 else None)


def residual_error(step: Step, algorithm: Algorithm, features: Features, machine: Machine, sizes: Sizes) -> Up:
    """A bound (tokens, outputs) of |residual - r(w.x, y)| where the run computes residuals, y taken away already."""
    match step.link:
        case None:
            return sizes.form * 0.0
        case Pair() as pair:
            if step.clamp is None:
                return _logistic(pair, algorithm, features, machine, sizes)
            return _clamped(pair, step.clamp, algorithm, features, machine, sizes)
        case OneSided() as link:
            kind = _softmax if algorithm.link == "softmax" else _exponential
            return kind(link, algorithm, features, machine, sizes)
        case Interpolated() as link:
            return sizes.form * 0.0 + _interpolated(link, algorithm, features, machine, sizes)


def _forms(features: Features, machine: Machine, sizes: Sizes) -> Up:
    """The rounding of a form w.x - y that a score computes, before the score's factor."""
    return (sizes.products + sizes.label) * gamma(features.inputs + 6, machine.roundoff)


def _odds(pair: Pair, features: Features, machine: Machine, sizes: Sizes) -> Up:
    """The error of ``high`` sigma(s) + ``low`` (1 - sigma(s)) as it runs: exponential, scores, a few roundings.

    Log-odds that are off by d move a weight by at most d / 4.
    """
    model, score = softmax(machine, 2), sizes.form * pair.form + sizes.label * pair.label
    disturbed = _forms(features, machine, sizes) * pair.form + score * machine.accumulation + model.near_one(score)
    apart, both = _apart(pair.high, pair.low), _apart(pair.high, -pair.low)
    lost = (both + apart * (score * 0.5).least(1.0)) * (gamma(8, machine.roundoff) / 2)
    if model.is_half or not pair.is_exact:  # weights, or their products with values, round
        lost = lost + 2 * machine.roundoff * max(abs(pair.high), abs(pair.low))
    return apart * disturbed * 0.25 + lost


def _outbid(score: Up, offset: float) -> Up:
    """The exponential of a score plus a number of either sign."""
    return Up.exp_of(np.nextafter(score.values + offset, np.inf))


def _apart(a: float, b: float) -> Up:
    """|a - b|."""
    return Up.of(Balls.exact(a) - Balls.exact(b))


def _logistic(pair: Pair, algorithm: Algorithm, features: Features, machine: Machine, sizes: Sizes) -> Up:
    """From sigma(w.x) - 1/2."""
    _belongs(algorithm, "logistic")
    _expect(pair.label == 0.0, "a logistic link leaves y out")
    exact = _apart(pair.high, 0.5) + _apart(pair.low, -0.5) + sizes.form * _apart(pair.form, 1.0) * 0.25
    return exact + _odds(pair, features, machine, sizes)


def _clamped(pair: Pair, clamp: Gate, algorithm: Algorithm, features: Features, machine: Machine, sizes: Sizes) -> Up:
    r"""From clamp(w.x - y): a pair that is nearly straight, $c\tanh(b s)$ with c b near 1, then a gate.

    Both are increasing, so that residuals beyond the clamp for certain have no error but the gate's.
    """
    _belongs(algorithm, "clamp")
    _expect(pair.label == -pair.form, "a residual is w.x - y")
    b, c = Balls.exact(pair.form / 2), (Balls.exact(pair.high) - Balls.exact(pair.low)) * Balls.exact(0.5)
    size = sizes.form + sizes.label if sizes.most is None else sizes.most
    bent = (size * Up.of(b)) ** 3 * Up.of(c) / 3 + size * Up.of(c * b - Balls.exact(1.0))
    bent = bent + _apart(pair.high, -pair.low) * 0.5
    straight = bent + size * (2 * machine.roundoff) + _odds(pair, features, machine, sizes)
    if sizes.least is not None:
        straight = Up(np.where(sizes.least > (straight + algorithm.delta).values, 0.0, straight.values))
    cut = gate_error(clamp, machine, size + straight) + _apart(clamp.reach, algorithm.delta)
    return straight + cut + (size + sizes.label + clamp.reach) * gamma(6, machine.roundoff)


def gate_error(gate: Gate, machine: Machine, size: Up) -> Up:
    r"""How far a gate that runs is from the clamp: $2\,(W(1/e) + d)/\beta$, d the rounding of its scores.

    Two keys lose to the third; each pulls by what :mod:`attnforge.lemmas.kink` says. Scores $\beta(z \pm a)$ take four
    roundings, so that $d/\beta$ is at most eight roundoffs of $|z| + a$; the mean itself takes a few more.
    """
    lost = 3 * Up.of(gamma(8, machine.roundoff)) + softmax(machine, 3).exponential
    return lost * (size.larger(gate.reach) + gate.reach) + 2 * kink(gate.beta)


def _softmax(link: OneSided, algorithm: Algorithm, features: Features, machine: Machine, sizes: Sizes) -> Up:
    """From the softmax of the forms: log-odds off by at most twice the disturbance move a weight by half of it."""
    form, model = sizes.form.most(-1)[..., None], softmax(machine, features.outputs + 1)
    disturbed = _forms(features, machine, sizes) + form * (2 * machine.accumulation) + model.exponentials()
    others = _outbid(2 * form, max(link.rival, -link.outside)) * (features.outputs + 1)
    lost = _apart(link.factor, 1.0) + gamma(features.outputs + 8, machine.roundoff)  # a sum of as many weights
    return sizes.form * 0.0 + disturbed.most(-1)[..., None] * 0.5 + others + lost


def _exponential(link: OneSided, algorithm: Algorithm, features: Features, machine: Machine, sizes: Sizes) -> Up:
    r"""From $e^f$: $F\,\sigma(f - S)$ is $F e^{-S} e^f (1 - O(e^{f - S}))$; scores are as large as S."""
    _belongs(algorithm, "exponential")
    with precision():
        scaled = upper(abs(ball(link.factor) * (-ball(link.rival)).exp() - arb(1)))
    form, size = sizes.form, sizes.form.exp()
    disturbed = _forms(features, machine, sizes) + (form + link.rival) * machine.accumulation
    disturbed = (disturbed + 2 * softmax(machine, 2).exponentials()).expm1()
    relative = size * Up.exp_of(-link.rival) + disturbed + scaled + gamma(9, machine.roundoff)
    return size * (relative * (1.0 + Up.of(scaled)) + Up.exp_of(-link.outside) * link.factor)


def _interpolated(link: Interpolated, algorithm: Algorithm, features: Features, machine: Machine, sizes: Sizes) -> Up:
    r"""From $r(s)$: by formula, for the row of anchors that the tokens hold, with the rounding of scores and mean.

    Scores are $\beta(2 L_k s - L_k^2)$; copies $L_k w$ are off by the roundings of two exponentials, and by what is
    left of the two state tokens' sum.
    """
    _expect(link.label == (algorithm.link in ("identity", "clamp")), "y is inside the link where the link is linear")
    row, departures = _row(link, algorithm, features, machine)
    model, label = softmax(machine, row.count + 1), sizes.label.most() if link.label else NOTHING
    form, products = (sizes.form + (sizes.label if link.label else 0.0)).most(), sizes.products.most()
    largest, answers = Up.of(row.levels[-1]), Up.of(row.answers).most()
    size = 2 * largest * (products + label) + largest**2
    copied = 4 * (model.exponential + machine.roundoff) + 8 * machine.accumulation
    copies = 4 * largest * products * copied + 4 * link.scale * sizes.length.most() * sizes.mirror
    moved = 2 * products * departures["scaled"] + 2 * label * departures["level"] + departures["square"]
    disturbance = link.beta * (copies + moved + gamma(features.inputs + 14, machine.roundoff) * size)
    others = NOTHING
    if link.outside is not None:
        others = _outbid(link.beta * (2 * largest * form + largest**2), -link.outside) * row.count
    lost = model.mean(after=6) + 2 * model.exponential + others
    rows = [row] if algorithm.link == "clamp" else _with_ghosts(row)
    error = min(row_error(each, float(form), _coarse(float(disturbance))) for each in rows)
    return error + departures["answer"] + answers * lost + 4 * machine.roundoff * label


def _row(link: Interpolated, algorithm: Algorithm, features: Features, machine: Machine) -> tuple[Row, dict[str, Up]]:
    """The evenly spaced row next to what anchor tokens hold in this dtype, and how far they are from it.

    Levels, their squares, tanh and answers are evaluated to within 32 roundoffs of the largest.
    """
    held = round_to(features.constants(), machine.name)[features.states :]
    count = len(held)
    levels = held[:, features.slices["level"]][:, 0]
    spacing = float((levels[-1] - levels[0]) / max(count - 1, 1))
    if count < 3 or not spacing > 0:
        raise CertificateError("Anchors increase", f"{count} anchors from {levels[0]} to {levels[-1]}", "Rebuild it")
    row = Row(algorithm.link, spacing * (count - 1) / 2, count, 0, abs(link.beta) * spacing**2)
    wanted = {"scaled": row.levels, "level": row.levels, "square": row.levels**2, "answer": row.answers}
    columns = {name: held[:, features.slices[name]][:, 0] for name in ("tilt", "level", "square", "answer")}
    columns["scaled"] = 2 * link.scale * np.tanh(columns["tilt"])
    rounded = {name: gamma(32) * max(1.0, float(np.abs(row.levels).max())) ** 2 for name in wanted}
    rounded["answer"] += gamma(32) * float(np.abs(row.answers).max())
    departures = {name: Up.of(columns[name] - wanted[name]).most() + rounded[name] for name in wanted}
    if algorithm.link == "clamp":
        departures["answer"] = departures["answer"] + _apart(row.reach, algorithm.delta)
    return row, departures


def _with_ghosts(row: Row) -> list[Row]:
    """The same anchors, some of them taken to lie beyond the range: the proof may draw the line anywhere."""
    most = min(MOST_GHOSTS, (row.count - 2) // 2)
    return [Row(row.link, row.reach - g * row.spacing, row.count, g, row.sharpness) for g in range(most + 1)]


def _coarse(number: float) -> float:
    """The next power of the fourth root of two, or nearly: steps that hardly differ share one proof."""
    if not 0 < number < np.inf:
        return number
    mantissa, exponent = np.frexp(number)
    return float(np.ldexp(next(q for q in QUARTERS if mantissa <= q), exponent))


def _belongs(algorithm: Algorithm, link: str) -> None:
    _expect(algorithm.link == link, f"these heads compute the link {link!r}, the algorithm asks for {algorithm.link!r}")


def _expect(condition: bool, requirement: str) -> None:
    if not condition:
        raise CertificateError(f"In a block of regression, {requirement}", "another link", "Rebuild the network")
