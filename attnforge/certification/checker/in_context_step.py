r"""How far a block of attention is from one exact step of its algorithm, for every prompt of a data box.

Let $\ell$ bound $|x_i|$, L the curvature of the smooth part of the objective F, $\eta L \le 2$.

**Where iterates go.** A proximal step lowers F by $(\frac1\eta - \frac L2)|w_{t+1} - w_t|^2$ at least, from F(0) and
never below 0, so $|w_t|^2 \le t\,\eta F(0)/(1 - \eta L/2)$; penalties alone are at most F(0), too. Squares of
residuals have a mean of 2 F(0) at most.

**Drift.** An exact step expands no Euclidean distance, so what blocks add to the exact step, taken from their own
weights, adds up. With $\rho_i$ the residuals, $|\rho_i| \le R$, a sum over examples and mirror images writes
$f \sum \sinh(\beta\rho_i) x_i / \sum \cosh(\beta\rho_i)$: all heads together depart from the gradient step by what
:mod:`.mirrored` says of gains $f_h\beta_h$, and by $|\eta + \sum_h f_h\beta_h| \ell\kappa R$.

**Disturbed weights.** Softmax weights whose logarithms are off by at most $\varepsilon$ move a mean of vectors of
length $\ell$ by at most $2\ell\tanh(\varepsilon/2) \le \ell\varepsilon$, and a weight by at most $\varepsilon/2$.
Residuals off by e, mirror images not alike, move the sum by $\beta e \sum p_k |x_k - \mathrm{out}|$ at most, with
$p_k$ within a factor $e^{2z}$ of 1/2n, $z = |\beta| R$, and $|\mathrm{out}| \le \ell e^z \sinh z$.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cached_property

import numpy as np
import numpy.typing as npt
from flint import arb, fmpq

from attnforge.certification.checker.in_context_reading import Anchors, Block, Gate, Pair, Sides
from attnforge.certification.checker.in_context_row import Row
from attnforge.certification.checker.mirrored import Mirrored
from attnforge.certification.checker.questions import BeyondReachError
from attnforge.certification.checker.rounding import IN_ORDER, RANGE, RANGE_64, blocks
from attnforge.network import Head
from attnforge.outward import Machine, gamma, round_to, upper
from attnforge.targets.in_context import Iteration

Array = npt.NDArray[np.float64]

EXAMPLES = 1024  # that a certificate covers where their number is not given
UNDERFLOWN = 750  # a score so far below the largest weighs nothing
CURVATURE = {"identity": 1.0, "clamp": 1.0, "logistic": 0.25, "softmax": 0.5}


def _arb(number: Fraction | float) -> arb:
    fraction = Fraction(number)
    return arb(fmpq(fraction.numerator, fraction.denominator))


def _least(*numbers: arb) -> arb:
    return arb(min(upper(each) for each in numbers))


class Box:
    """What every prompt of the box obeys."""

    def __init__(self, target: Iteration, machine: Machine) -> None:
        self.target, self.machine, algorithm = target, machine, target.algorithm
        if algorithm.link not in CURVATURE or target.data_bound is None:
            raise BeyondReachError("A certificate for all prompts needs a data bound and a largest curvature", "none")
        self.unit, self.fine = arb(machine.roundoff), arb(machine.accumulation)
        self.exp = IN_ORDER.exponential(machine) * self.fine
        self.half = arb(0) if machine.roundoff == machine.accumulation else self.unit
        bound, free = _arb(target.data_bound), algorithm.free
        square = (target.features.inputs - free) * bound**2 + free
        if target.spectrum is not None:
            raise BeyondReachError("The checker understands steps that expand no distance", "steps for a spectrum")
        self.rates = [_arb(rate) for rate in target.rates or (algorithm.learning_rate,)]
        self.l2, self.l1 = _arb(algorithm.l2), _arb(algorithm.l1)
        self.label = (bound if target.has_numbers else arb(1)) * (1 + self.unit)  # as tokens hold them
        self.length = square.sqrt() * (1 + self.unit)
        self.values = bound
        self.rooms = [1 - rate * (_arb(CURVATURE[algorithm.link]) * square + self.l2) / 2 for rate in self.rates]
        if not all(room >= 0 for room in self.rooms):
            largest = max(target.rates or (algorithm.learning_rate,))
            raise BeyondReachError("The step size is at most two over the curvature", f"{largest:.6g}")
        held = target.start.ravel().tolist()
        self.first, self.entries = (
            sum((_arb(w) ** 2 for w in held), arb(0)).sqrt(),
            sum(map(abs, map(_arb, held)), arb(0)),
        )
        self.outputs = arb(target.features.outputs).sqrt()
        self.penalised = [1] * (target.features.inputs - free) + [0] * free
        self.keys = 2 * (target.examples or EXAMPLES) + target.features.ahead
        self.start = self._start()

    def gamma(self, roundings: int) -> arb:
        """Of so many roundings to the dtype."""
        return arb(gamma(roundings, self.machine.roundoff))

    def sums(self, terms: int) -> arb:
        """Of a sum of so many terms in the precision of the kernel, any order."""
        return arb(gamma(terms, self.machine.accumulation))

    def _start(self) -> arb:
        """The objective at the first weights; a loss of labels rises by at most sqrt 2 of the form."""
        form, l2, l1 = self.first * self.length, self.l2 * self.first**2 / 2, self.l1 * self.entries
        far = self.values + form
        match self.target.algorithm.link:
            case "identity":
                return self.target.features.outputs * far**2 / 2 + l2 + l1
            case "clamp":
                return _least(far**2 / 2, _arb(self.target.algorithm.delta) * far) + l2 + l1
            case "logistic":
                return arb(2).log() + form + l2 + l1
        return arb(self.target.features.outputs).log() + arb(2).sqrt() * form + l2 + l1

    def weights(self, t: int) -> arb:
        """Of the exact iterate after t steps, in the Euclidean norm."""
        found = [self.first + (self._travelled(t) * self.start).sqrt()]
        if not self.target.algorithm.free:
            found += [(2 * self.start / self.l2).sqrt()] * bool(self.target.algorithm.l2)
            found += [self.start / self.l1] * bool(self.target.algorithm.l1)
        return _least(*found)

    def _travelled(self, t: int) -> arb:
        """The sum of eta / (1 - eta L / 2) over the first t steps."""
        if t and not all(room > 0 for room in self.rooms):
            return arb("inf")
        if not self.target.rates:
            return t * self.rates[0] / self.rooms[0]
        return sum((rate / room for rate, room in zip(self.rates[:t], self.rooms[:t], strict=True)), arb(0))

    def residual(self, weights: arb) -> arb:
        """Of every exact residual."""
        far = weights * self.length + self.values
        match self.target.algorithm.link:
            case "identity":
                return _least(far, (2 * self.start * (self.target.examples or EXAMPLES)).sqrt())
            case "clamp":
                return _least(far, _arb(self.target.algorithm.delta))
        return arb(1)


class Step:
    """A block, and what it may add to an exact step."""

    def __init__(self, block: Block, box: Box, rate: float) -> None:
        self.block, self.box, self.rate = block, box, _arb(rate)
        self._check_link(box.target)
        self.sums = [(_arb(beta), _arb(factor)) for beta, factor in block.sums]
        products = [(beta * factor, beta) for beta, factor in block.sums]
        self.gains = [_arb(gain) for gain, _ in products]
        self.gain = abs(_arb(sum((gain for gain, _ in products), Fraction(rate))))
        self.whole = abs(_arb(sum((gain for gain, _ in products), Fraction(0))))
        self.mirrored = Mirrored([(_arb(beta), _arb(gain)) for gain, beta in products])
        l2 = [Fraction(rate) * Fraction(box.target.algorithm.l2) * p for p in box.penalised]
        self.decay = _arb(max(abs(sum(each, Fraction(0)) + held) for each, held in zip(block.decays, l2, strict=True)))
        self.decayed = _arb(max(sum((abs(z) for z in each), Fraction(0)) for each in block.decays))
        self.kept = _arb(max(abs(sum(each, Fraction(1))) for each in block.decays))

    def _check_link(self, target: Iteration) -> None:
        """Residuals must be made as the algorithm and its tokens ask for."""
        link, asked, anchored = self.block.link, target.algorithm.link, bool(target.features.levels)
        kinds = {"identity": type(None), "clamp": Pair, "logistic": Pair, "softmax": Sides}
        fits = isinstance(link, Anchors if anchored else kinds[asked])
        if isinstance(link, Anchors):
            fits = fits and asked != "softmax" and link.label == (asked in ("identity", "clamp"))
        if not fits or (self.block.clamp is not None) != (asked == "clamp" and not anchored):
            raise BeyondReachError("Links are those of the algorithm", f"{type(link).__name__} for {asked}")

    def error(self, weights: arb, apart: arb, mirror: arb) -> tuple[arb, arb]:
        """What the block adds to the distance, and how far the two state tokens may then be from opposite."""
        box, block = self.box, self.block
        size = weights + apart
        link = self._link(size, mirror)
        reach = arb(upper(box.residual(weights) + apart * box.length + link))
        if not reach.is_finite():
            raise BeyondReachError("Residuals are bounded", "infinity")
        self._check_silence(reach)
        sizes = self._sizes(size, reach)
        faint = [_faint(head, sizes, box.machine) for head in block.heads]  # refuses what may overflow
        score, written = (arb(max(each[i] for each in faint)) for i in (0, 1))
        mean = reach
        if box.target.algorithm.link == "identity":
            mean = _least((2 * box.start).sqrt() + apart * box.length + link, reach)
        bent = self._departure(reach, mean) + self.gain * mean + self._passed(reach) * link
        most = sum((abs(factor) for _, factor in self.sums), arb(0))  # no mean exceeds what it averages
        bent = _least(bent, most + self.rate * mean)
        run, added = self._run(size + mirror, reach, score, written)
        gates = self._gates((size + mirror) * (1 + self.decayed) + added, score, written)
        total = box.outputs * box.length * bent + self.decay * size + run + gates
        return total, self.kept.max(arb(1)) * mirror + 2 * (run + gates)

    def _departure(self, reach: arb, mean: arb) -> arb:
        """Of all heads together from their gain times the gradient, in units of the length of x."""
        return reach * self.mirrored.departure(reach, _least(mean / reach, arb(1)))

    def _passed(self, reach: arb) -> arb:
        """What an error of residuals does, in units of the length of x."""
        total = self.whole
        for gain, (beta, _) in zip(self.gains, self.sums, strict=True):
            z = abs(beta) * reach
            total += abs(gain) * ((2 * z).expm1() + z.exp() * z.sinh())
        return total

    def _run(self, size: arb, reach: arb, score: arb, written: arb) -> tuple[arb, arb]:
        """Rounding of the sums over examples and of what is added to w; and a bound of the latter."""
        box, heads = self.box, len(self.sums) + len(self.block.decays[0])
        width = max(head.query.shape[1] for head in self.block.heads)
        scored = size * box.length + box.label if self.block.link is None else reach + 2 * box.label
        rescaled = blocks(box.keys, IN_ORDER) * (box.exp + 3 * box.fine)
        run, added = arb(0), arb(0)
        for beta, factor in self.sums:
            z = abs(beta) * reach
            off = box.gamma(width + 3) * abs(beta) * scored + 2 * z * box.fine + box.exp + score
            off += rescaled + box.sums(2 * box.keys + 4) + box.gamma(2) + box.half
            run += abs(factor) * off
            added += abs(factor) * _least(arb(1), z.exp() * z.sinh() + off)
        run, added = box.outputs * box.length * run, box.outputs * box.length * added
        faint = box.target.features.inputs * box.target.features.outputs * written
        return run + faint + box.gamma(heads + 3) * (size * (1 + self.decayed) + added), added

    def _gates(self, size: arb, score: arb, written: arb) -> arb:
        """The proximal map of weights up to ``size``, in the Euclidean norm."""
        box, total = self.box, arb(0)
        for gate, held in zip(self.block.gates, box.penalised, strict=True):
            wanted = self.rate * box.l1 * held
            if gate is None:
                total += wanted**2
                continue
            if gate.factor != -1:
                raise BeyondReachError("A proximal gate takes the clamp away once", f"{float(gate.factor):g} times")
            error = self._gate(gate, size, score) + abs(_arb(gate.reach) - wanted) + written
            total += (error + box.gamma(2) * (size + _arb(gate.reach))) ** 2
        return total.sqrt() * box.outputs

    def _gate(self, gate: Gate, size: arb, score: arb) -> arb:
        r"""How far a gate that runs is from the clamp.

        A loser u away weighs $\sigma(-\beta u + 2d)$ at most beside the winner and pulls by u: together by
        $(W(1/e) + 2d)/\beta$ at most, for the two losers pull apart. Scores $\beta(\pm z - a)$ have five roundings.
        """
        box, beta, reach = self.box, _arb(gate.beta), _arb(gate.reach)
        off = box.gamma(5) * (size + reach) + (box.exp + score) / beta
        return arb(-1).exp().lambertw() / beta + 2 * off + box.gamma(8) * size.max(reach)

    def _link(self, size: arb, mirror: arb) -> arb:
        """Of every residual from the exact one at the same weights, y taken away."""
        box, link = self.box, self.block.link
        if link is None:
            return arb(0)
        form = size * box.length
        sizes = self._sizes(size, arb(0))
        faint = [_faint(head, sizes, box.machine) for head in self.block.heads]
        score, written = (arb(max(each[i] for each in faint)) for i in (0, 1))
        match link:
            case Pair():
                return (self._clamped if self.block.clamp else self._logistic)(link, form, score) + written
            case Sides():
                return self._softmax(link, form, score) + written
        return self._anchors(link, size, form, mirror, score) + written

    def _odds(self, link: Pair, score: arb, rounded: arb, faint: arb) -> arb:
        """Of high sigma(s) + low (1 - sigma(s)) as it runs, |s| up to ``score`` with an error ``rounded``."""
        box, high, low = self.box, _arb(link.high), _arb(link.low)
        near = box.exp / 2 * score.exp() if upper(score) < 0.69 else box.exp  # in [1/2, 1) a unit is one roundoff
        off = rounded + score * box.fine + near.min(box.exp) * (1 + box.exp) + faint
        size = abs(high + low) / 2 + abs(high - low) / 2 * (score / 2).tanh()
        products = box.half + (arb(0) if link.exact else box.unit)
        return abs(high - low) / 4 * off + box.gamma(6) * size + products * abs(high).max(abs(low))

    def _logistic(self, link: Pair, form: arb, faint: arb) -> arb:
        box, slope = self.box, _arb(link.form)
        wrong = abs(_arb(link.high) - arb(0.5)) + abs(_arb(link.low) + arb(0.5)) + abs(slope - 1) / 4 * form
        score = abs(slope) * form
        return wrong + self._odds(link, score, box.gamma(box.target.features.inputs + 4) * score, faint)

    def _clamped(self, link: Pair, form: arb, faint: arb) -> arb:
        """C tanh(b s) with c b near 1, then a gate, then y comes back."""
        if link.label != -link.form or self.block.clamp is None:
            raise BeyondReachError("A residual is w.x - y", "other factors")
        box, clamp = self.box, self.block.clamp
        b, c, size = _arb(link.form) / 2, _arb(link.high - link.low) / 2, form + box.label
        bent = abs(c) * abs(b * size) ** 3 / 3 + abs(c * b - 1) * size + abs(_arb(link.high + link.low)) / 2
        score = 2 * abs(b) * size
        straight = bent + self._odds(link, score, box.gamma(box.target.features.inputs + 5) * score, faint)
        cut = abs(_arb(clamp.reach) - _arb(box.target.algorithm.delta))
        run = self._gate(clamp, size + straight, faint)
        return straight + cut + run + box.gamma(5) * (size + straight + box.label + _arb(clamp.reach))

    def _softmax(self, link: Sides, form: arb, faint: arb) -> arb:
        box, features = self.box, self.box.target.features
        off = box.gamma(features.inputs + 3) * form + 2 * box.fine * form + box.exp * (1 + box.exp) + faint
        others = (_arb(max(link.rival, -link.outside)) + 2 * form).exp() * (features.outputs + 1)
        return off / 2 + others + box.gamma(features.outputs + 2) + box.half + abs(_arb(link.factor) - 1)

    def _anchors(self, link: Anchors, size: arb, form: arb, mirror: arb, faint: arb) -> arb:
        """Copies of w, scores and the mean over anchors as they run."""
        box, held = self.box, self._held
        label = box.label if link.label else arb(0)
        largest = arb(float(np.abs(held["level"]).max()))
        scale, beta = abs(_arb(link.scale)), _arb(link.beta)
        copies = 2 * scale * (form * (box.exp / 2 + box.gamma(8) + 3 * box.fine + box.half) + box.length * mirror)
        copied = [
            abs(_arb(link.scale) * arb(t).tanh() - arb(level))
            for t, level in zip(held["tilt"], held["level"], strict=True)
        ]
        moved = 2 * form * arb(max(map(upper, copied)))
        products = 2 * largest * (form + label) + arb(float(np.abs(held["square"]).max()))
        off = (
            beta * (copies + moved + box.gamma(box.target.features.inputs + 8) * products)
            + box.exp * (1 + box.exp)
            + faint
        )
        answers = arb(float(np.abs(held["answer"]).max()))
        lost = answers * (box.sums(2 * self._counted(beta) + 4) + len(held["level"]) * box.fine / 8)
        kept = box.gamma(3) * (answers + label) + box.half * answers
        return self._row.error(form + label, off) + lost + kept

    def _counted(self, beta: arb) -> int:
        """Anchors that may weigh more than an eighth of a roundoff: an addend less than that errs by itself only."""
        levels, unit = self._held["level"], self.box.machine.accumulation
        step = float(np.diff(levels).max())
        far = 2 * math.sqrt(math.log(16 / unit) / float(beta) + step**2)
        return min(len(levels), int(far / float(np.diff(levels).min())) + 2)

    @cached_property
    def _held(self) -> dict[str, Array]:
        """What anchor tokens hold in the dtype."""
        features = self.box.target.features
        rows = round_to(features.constants(), self.box.machine.name)[features.states :]
        return {name: rows[:, features.slices[name]][:, 0] for name in ("tilt", "level", "square", "answer")}

    @cached_property
    def _row(self) -> Row:
        assert isinstance(self.block.link, Anchors)
        algorithm = self.box.target.algorithm
        levels, squares, answers = (self._held[name] for name in ("level", "square", "answer"))
        return Row(levels, squares, answers, _arb(self.block.link.beta), algorithm.link, algorithm.delta)

    def _check_silence(self, reach: arb) -> None:
        """State tokens and anchors must weigh nothing as keys of the sums; links leave a mean of answers in them."""
        idle, link = arb(0), self.block.link
        match link:
            case Pair():
                idle = abs(_arb(link.high)).max(abs(_arb(link.low)))
                idle = _least(idle, 2 * _arb(self.block.clamp.reach)) if self.block.clamp else idle
            case Sides():
                idle = 2 * _arb(link.factor)
            case Anchors():
                idle = arb(float(np.abs(self._held["answer"]).max()))
        loudest = max(upper(abs(beta) * (2 * reach + idle)) for beta, _ in self.sums)
        if not loudest + UNDERFLOWN < float(self.block.silence):
            got = f"a score of {-float(self.block.silence):g} beside {loudest:.3g}"
            raise BeyondReachError("Tokens that are no examples are silenced", got)

    def _sizes(self, size: arb, reach: arb) -> Array:
        """Bounds of all features of all tokens."""
        box, features = self.box, self.box.target.features
        found = np.ones(features.width)
        bounds = dict.fromkeys(("x", "plain"), upper(box.length)) | {"y": upper(box.label), "w": upper(size)}
        bounds["residual"] = upper(reach + box.label)
        if isinstance(self.block.link, Pair):
            bounds["residual"] += upper(abs(_arb(self.block.link.high)).max(abs(_arb(self.block.link.low))))
        if isinstance(self.block.link, Anchors):
            bounds["scaled"] = upper(abs(_arb(self.block.link.scale)) * size)
        for name, bound in bounds.items():
            found[features.slices[name]] = bound
        if features.levels:
            bounds = {name: float(np.abs(each).max()) for name, each in self._held.items()}
            for name, bound in bounds.items():
                found[features.slices[name]] = bound
        return found


def _faint(head: Head, sizes: Array, machine: Machine) -> tuple[float, float]:
    """What underflow may do to scores and to what is written; refused where a number may overflow."""
    with np.errstate(all="ignore"):
        query, output = sizes @ np.abs(head.query), np.abs(head.output)
        told = np.zeros_like(query) if head.key is None else sizes @ np.abs(head.key)
        value = np.zeros(len(output)) if head.value is None else sizes @ np.abs(head.value)
        keys, values = told, value
        if head.memory_keys is not None and head.memory_values is not None:
            keys = np.maximum(keys, np.abs(head.memory_keys).max(axis=0))
            values = np.maximum(values, np.abs(head.memory_values).max(axis=0))
        written = values @ output
        largest = max(map(float, (query.max(), keys.max(), values.max(), written.max())))
        largest = max(
            largest, float((query * keys).sum()) * (machine.largest / (RANGE_64 if machine.bytes == 8 else RANGE))
        )
        score = machine.underflow * (2 * (keys + query).sum() + len(query))
        lost = machine.underflow * (2 * output.sum(axis=0).max() + 1)
    if not largest < machine.largest / 4:
        raise BeyondReachError(f"All numbers of a run fit {machine.name}", f"one of about {largest:.3g}")
    return float(score), float(lost)
