"""Registers on boxes: ranges hold what is sampled, slopes what differences say, and errors what perturbed runs do."""

import numpy as np
import pytest
from flint import arb

from attnforge.certification.checker.local import extended
from attnforge.certification.checker.registers import Registers, Step, UnknownError
from attnforge.certification.checker.search import exactly
from attnforge.certification.checker.space import Form
from attnforge.certification.checker.taylor import ONE, ZERO
from attnforge.targets.expression import parse
from attnforge.targets.expression.evaluate import evaluate
from attnforge.targets.expression.intervals import Interval

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


@pytest.fixture(params=GRAPHS)
def graph(request):
    texts, weights = GRAPHS[request.param]
    with exactly(2):
        registers = Registers([Interval(arb(a), arb(b)) for a, b in BOX], [Step(parse(text)) for text in texts])
        yield registers, Form({p: arb(w) for p, w in weights.items()}, ONE)


def run(registers, inputs, errors):
    """All registers (count, m), each off by its error."""
    rows = [np.ones(len(inputs)), *inputs.T]
    for step, error in zip(registers.steps, errors.T, strict=True):
        rows.append(evaluate(extended(step.tree), {f"r[{p}]": row for p, row in enumerate(rows)}) + error)
    return np.array(rows).T


def sampled(count=2000):
    low, high = np.array(BOX).T
    return np.random.default_rng(0).uniform(low, high, (count, len(BOX)))


def read(form, rows):
    return float(form.constant) + sum(float(w) * rows[:, p] for p, w in form.slopes.items())


def test_ranges_hold_all_values_and_little_more(graph):
    registers, _ = graph
    rows = run(registers, sampled(), np.zeros((2000, len(registers.steps))))
    for step, exact in zip(registers.steps, registers.exact, strict=True):
        for form, range_ in zip(step.forms, exact, strict=True):
            values = read(form, rows)
            low, high = float(range_.lower), float(range_.upper)
            assert low <= values.min() <= values.max() <= high
            assert high - low <= 1.5 * np.ptp(values)


def test_errors_of_perturbed_runs_are_bounded(graph):
    registers, output = graph
    rng, count, steps = np.random.default_rng(1), 2000, len(registers.steps)
    local = rng.uniform(0.0, 1e-3, steps)
    inputs = sampled(count)
    errors = local * rng.choice([-1.0, 1.0], (count, steps))
    off = np.abs(read(output, run(registers, inputs, errors)) - read(output, run(registers, inputs, 0 * errors))).max()
    bound = registers.error(registers.box, [ZERO] * len(BOX) + [arb(x) for x in local], [output])
    assert off - 1e-14 <= bound <= 50 * off  # a difference of float64 numbers about one


def test_sensitivities_hold_differences(graph):
    registers, output = graph
    found = registers.follow(registers.box, [ZERO] * (len(BOX) + len(registers.steps)))
    if None in found.tilts:
        return  # a root at 0: the sum starts there
    adjoints, inputs, small = registers.sensitivities(found, output), sampled(500), 1e-7
    for n in range(len(registers.steps)):
        errors = np.zeros((500, len(registers.steps)))
        base = read(output, run(registers, inputs, errors))
        errors[:, n] = small
        slopes = (read(output, run(registers, inputs, errors)) - base) / small
        low, high = (float(end) for end in adjoints[1 + len(BOX) + n])
        assert low - 1e-6 * (1 + abs(low)) <= slopes.min() <= slopes.max() <= high + 1e-6 * (1 + abs(high))


def test_exact_multiples_are_one_form_others_are_not():
    with exactly(2):
        assert len(Step(parse("sin(r[1] + 2*r[2])*exp(-2*r[1] - 4*r[2] + 1)")).forms) == 1
        assert len(Step(parse("sin(0.1*r[1] + 0.3*r[2])*exp(0.3*r[1] + 0.9*r[2])")).forms) == 2
        assert len(Step(parse("sin(3^-1*r[1])*cos(3^-1*r[1])")).forms) == 1


@pytest.mark.parametrize("text", ["log(r[2])", "1/r[2]", "r[2]^0.5", "floor(r[2])", "hypot(r[1], r[2])", "r[1]^r[2]"])
def test_what_has_no_value_or_slope_is_unknown(text):
    with exactly(2):
        registers = Registers([Interval(arb(a), arb(b)) for a, b in BOX], [Step(parse(text))])
        with pytest.raises(UnknownError):
            registers.follow(registers.box, [arb("1e-9")] * 4)
