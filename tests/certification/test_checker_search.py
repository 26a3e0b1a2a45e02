"""How the checker divides boxes and follows registers and layers: all of a box is looked at, and no run leaves it."""

from __future__ import annotations

import numpy as np
import pytest
from flint import arb

import attnforge as af
from attnforge.certification.checker.in_context import sample
from attnforge.certification.checker.in_context_step import Box
from attnforge.certification.checker.layered import Departure, output_error
from attnforge.certification.checker.local import extended
from attnforge.certification.checker.questions import questions
from attnforge.certification.checker.registers import Registers, Step
from attnforge.certification.checker.search import Outcome, Question, answer, exactly, halves, look, volume
from attnforge.certification.checker.space import Form
from attnforge.certification.checker.taylor import ONE, ZERO
from attnforge.expression import parse
from attnforge.expression.evaluate import evaluate
from attnforge.expression.intervals import Interval
from attnforge.network import Attention, Head, Linear, Network, Term
from attnforge.outward import machine, precision, upper
from attnforge.targets import TruncatedLinear
from tests.certification.exact import formula_at
from tests.laws.in_context_mutations import build
from tests.readers.exact import exact_output

RNG = np.random.default_rng


# Boxes


@pytest.fixture(scope="module")
def asked():
    """Anchors against a sine, and the largest error there is."""
    at, tree = np.linspace(0, 1, 8), parse("sin(3*x)")
    keys = np.stack([2 * at, -(at**2)], axis=1)
    head = Head(40 * np.eye(2), np.eye(1), memory_keys=keys, memory_values=np.sin(3 * at)[:, None])
    whole = Network((Linear((Term(np.eye(1, 2)),), np.eye(1, 2, 1)), Attention((head,))), 1, 1)
    points = np.linspace(0, 1, 20001)
    most = float(np.abs(whole(points[:, None, None])[:, 0, 0] - np.sin(3 * points)).max())

    def question(bound, low=0.0, high=1.0):
        return Question(whole, "float64", 1, (0, 0), tree, (("x", 0),), (low,), (high,), None, 8, bound)

    return question, most


@pytest.mark.parametrize("factor", [0.0, 0.5, 0.95, 1.01])
def test_what_is_true_is_confirmed_and_else_refuted_by_a_witness(asked, factor):
    question, most = asked
    found = answer(question(factor * most), 5000)
    if factor > 1:
        assert (found.verdict, most <= found.reached <= factor * most) == ("confirmed", True)
        return
    assert found.verdict == "refuted"
    assert factor * most < found.seen <= most * (1 + 1e-6)
    with exactly(2):
        point = {"x": found.at[0]}
        exact = exact_output(question(0).network, np.array([found.at]))[0][0] - formula_at(question(0).tree, point)
        assert abs(exact) >= arb(found.seen)


def test_what_is_left_is_handed_back(asked):
    question, most = asked
    found, left = look(question(1.01 * most), [((0.0,), (1.0,))], 5)
    assert (found.cells, bool(left)) == (5, True)
    again, rest = look(question(1.01 * most), left, 2000)
    assert (again.verdict, rest) == ("confirmed", [])
    for limit in (0, 1, 3):
        few = answer(question(1.01 * most), limit)
        assert (few.verdict, few.cells <= limit) == ("undecided", True)
    assert [answer(question(bound, 0.25, 0.25), 10).verdict for bound in (1.0, 1e-9)] == ["confirmed", "refuted"]


def test_every_output_is_asked_about():
    """The clamped form is wanted in one of three, zero in the others, which is what the network writes."""
    target = TruncatedLinear([1.0], 0.0, -1, 1, af.Box(-2.0, 2.0), output=1, outputs=3)
    whole = Network((Linear((Term(np.zeros((1, 3))),)),), 1, 1)
    found = list(questions(whole, target, 0.05, "float64"))
    assert [each.entry for each in found] == [(0, 0), (0, 1), (0, 2)]
    assert [answer(each, 200).verdict for each in found] == ["confirmed", "refuted", "confirmed"]


def test_halves_cover_the_box_and_outcomes_join_to_the_worse():
    whole = (0.0, 0.0), (4.0, 1.0)
    parts = halves(((0.0, 0.0), (1.0, 1.0)), whole)
    assert parts == [((0.0, 0.0), (1.0, 0.5)), ((0.0, 0.5), (1.0, 1.0))]
    assert sum(volume(part, whole) for part in parts) == volume(((0.0, 0.0), (1.0, 1.0)), whole) == 0.25
    assert halves(((1.0,), (float(np.nextafter(1.0, 2)),)), ((0.0,), (1.0,))) == []
    confirmed, undecided = Outcome("confirmed", 1.0, 0.5, (1.0,), 3), Outcome("undecided", 0.0, 0.75, (2.0,), 4)
    assert confirmed.and_(undecided) == Outcome("undecided", 1.0, 0.75, (2.0,), 7)
    assert undecided.and_(Outcome("refuted")).verdict == "refuted"


# Registers

BOX = ((1.0, 2.0), (-1.0, 1.5), (0.5, 3.0))
GRAPHS = {
    "products": (["(3 + r[1])*r[2]", "(r[4] - 3*r[2])*r[3]"], {5: 1.0, 4: -0.5}),
    "rows": (["log(r[3])", "sin(2*r[2] + 1)^2", "r[5]*exp(r[4] - r[1])"], {6: 2.0, 1: 1.0}),
    "kinks": (["r[1]*r[2]", "relu(r[4] - r[3])", "max(r[2], r[5])", "abs(r[2] - 0.5)", "clamp(r[2], 0, 1)"],
              {5: 1.0, 6: -1.0, 7: 0.5, 8: 1.0}),
    "powers": (["r[3]^-2", "(r[4] + r[1])^(1/3)", "sqrt(r[3] + 3^-1*r[1])/(1 + r[1]^2)"], {5: 1.0, 6: 1.0}),
    "roots": (["r[2]^2", "sqrt(r[4])", "1 + sqrt((r[5] - 0.5)^2 + 0.25*r[4])*r[3]"], {5: 1.0, 6: 0.5}),
    "one form": (["(1 - exp(-2*r[1] - r[3]))^-0.5*(2*r[1] + r[3])"], {4: 1.0}),
}  # fmt: skip


@pytest.mark.parametrize("name", GRAPHS)
def test_ranges_slopes_and_errors_of_registers_hold_what_is_sampled(name):
    texts, weights = GRAPHS[name]
    inputs, steps, rng = RNG(0).uniform(*np.array(BOX).T, (2000, 3)), len(texts), RNG(1)

    def rows(errors):
        found = [np.ones(len(inputs)), *inputs.T]
        for text, error in zip(texts, errors.T, strict=True):
            found.append(evaluate(extended(parse(text)), {f"r[{p}]": row for p, row in enumerate(found)}) + error)
        return np.array(found).T

    def out(form, found):
        return float(form.constant) + sum(float(w) * found[:, p] for p, w in form.slopes.items())

    with exactly(2):
        registers = Registers([Interval(arb(a), arb(b)) for a, b in BOX], [Step(parse(text)) for text in texts])
        output, none = Form({p: arb(w) for p, w in weights.items()}, ONE), np.zeros((2000, steps))
        plain = rows(none)
        for step, exact in zip(registers.steps, registers.exact, strict=True):
            for form, known in zip(step.forms, exact, strict=True):
                values, low, high = out(form, plain), float(known.lower), float(known.upper)
                assert low <= values.min() <= values.max() <= high <= low + 1.5 * np.ptp(values)
        local = rng.uniform(0.0, 1e-3, steps)
        moved = out(output, rows(local * rng.choice([-1.0, 1.0], none.shape))) - out(output, plain)
        bound = registers.error(registers.box, [ZERO] * 3 + [arb(x) for x in local], [output])
        assert np.abs(moved).max() - 1e-14 <= bound <= 50 * np.abs(moved).max()
        found = registers.follow(registers.box, [ZERO] * (3 + steps))
        for n in range(steps if None not in found.tilts else 0):  # else a root at 0: the sum starts there
            slopes = (out(output, rows(1e-7 * (np.arange(steps) == n) + none)) - out(output, plain)) / 1e-7
            low, high = (float(end) for end in registers.sensitivities(found, output)[4 + n])
            assert low - 1e-6 * (1 + abs(low)) <= slopes.min() <= slopes.max() <= high + 1e-6 * (1 + abs(high))


# Layers of neurons


@pytest.mark.parametrize("seed", range(4))
def test_no_departure_leaves_the_bound(seed):
    rng = RNG(seed)
    weights, kinds = [rng.normal(size=(5, 5)) for _ in range(4)], rng.integers(0, 3, size=(4, 5))
    slopes = [(np.array([0.0, 1.0, 0.0])[kind], np.array([0.0, 1.0, 1.0])[kind]) for kind in kinds]
    departures = [Departure(rng.random(5), rng.random(5) * (k % 2), each) for k, each in enumerate(slopes)]
    start, worst = rng.random(5), np.zeros(5)
    bound = output_error(weights, departures, start)
    for _ in range(4000):
        off = start * rng.choice([-1, 1], size=5)
        for weight, departure, (least, most) in zip(weights, departures, slopes, strict=True):
            off = weight.T @ off + departure.forms * rng.choice([-1, 1], size=5)
            steep = np.where(off * rng.choice([-1, 1], size=5) > 0, most, least)
            off = steep * off + departure.values * rng.choice([-1, 1], size=5)
        worst = np.maximum(worst, np.abs(off))
    assert np.all(worst <= bound)
    assert bound.max() <= 12 * worst.max()


# Iterations


@pytest.mark.parametrize("algorithm", ["least squares", "lasso", "elastic net", "Huber", "logistic", "softmax"])
def test_exact_iterates_stay_within_their_bound(algorithm):
    net = build(algorithm, "small_sharpness", "float64", steps=30)
    with precision():
        box = Box(net.target, machine("float64"))
        for seed in range(4):
            for t, w in enumerate(net.target.trajectory(*sample(net.target, seed)), start=1):
                assert np.linalg.norm(w) <= upper(box.weights(t))
