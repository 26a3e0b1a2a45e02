"""Values at points that can be relied on: against 400 digits, where float64 and extended precision have none left."""

import mpmath
import numpy as np
import pytest

from attnforge.balls import Balls
from attnforge.measurement.gaps import gaps
from attnforge.targets import Box, Formula
from attnforge.targets.expression import evaluate, parse
from attnforge.targets.expression.functions import FUNCTIONS
from attnforge.targets.expression.points import accurate_values, enclosed_values
from attnforge.targets.expression.tree import joined
from benchmarks.formulas import DIGITS, exact

POINTS = np.random.default_rng(0).uniform(0.1, 0.9, size=(40, 1))
LOST = [
    "1e17*((1 + 1e-17*x) - 1)",
    "1e140*((1 + 1e-140*x) - 1)",
    "(x + 1e16) - 1e16",
    "x + 1e300 + 0.5*x - 1e300",
    "(exp(1e-12*x) - 1)/(1e-12*x)",
    "(1 - cos(1e-9*x))*1e18",
    "erf(x + 1e-14) - erf(x)",
    "softplus(1e6*x) - 1e6*x + x",
    "sin(1e15*x)",
    "sin(1e-200*x)/(1e-200*x)",
    "1e-280*x*1e-10",
    "sqrt(x^2) - x + 1e-30*x",
    "sign(x - x) + x",
    "step(0*x)*x",
    "tan(1e12*x)",
    "tanh(1e-160*x)*1e160",
]


def relative_distance(values, text, points):
    """The largest distance from the true values, relative to the largest of them."""
    wanted = [exact(parse(text), {"x": float(x)}) for x in points[:, 0]]
    with mpmath.workdps(DIGITS):
        parts = [mpmath.mpf(float(v)) + mpmath.mpf(float(v - np.float64(v))) for v in values]
        return float(max(abs(a - b) for a, b in zip(parts, wanted, strict=True)) / max(map(abs, wanted)))


def accurate(text: str, points: np.ndarray) -> np.ndarray:
    return accurate_values(joined([parse(text)]), ("x",), points)[:, 0]


def enclosed(text: str, points: np.ndarray) -> Balls:
    return enclosed_values(joined([parse(text)]), ("x",), points)[:, 0]


@pytest.mark.parametrize("text", LOST)
def test_values_are_right_however_many_digits_cancel(text):
    assert relative_distance(accurate(text, POINTS), text, POINTS) < 2.0**-53


@pytest.mark.parametrize("text", LOST)
def test_balls_hold_the_true_values_and_are_narrow(text):
    found = enclosed(text, POINTS)
    for x, mid, rad in zip(POINTS[:, 0], found.mid, found.rad, strict=True):
        with mpmath.workdps(DIGITS):
            assert abs(mpmath.mpf(float(mid)) - exact(parse(text), {"x": float(x)})) <= mpmath.mpf(float(rad))
    assert np.all(found.rad <= 2.0**-52 * np.abs(found.mid).max() + 2.0**-1074)


def test_extended_precision_alone_would_be_wrong():
    """The law above can fail."""
    text = "1e140*((1 + 1e-140*x) - 1)"
    run = evaluate(parse(text), {"x": POINTS[:, 0].astype(np.longdouble)})
    assert relative_distance(run, text, POINTS) > 0.9


@pytest.mark.parametrize("text", ["sin(3*x)", "exp(-x^2) + abs(x - 0.5)", "x*(1 - x)", "x"])
def test_formulas_that_lose_nothing_are_not_given_to_balls(text, monkeypatch):
    monkeypatch.setattr("attnforge.targets.expression.points._balls", None)
    assert relative_distance(accurate(text, POINTS), text, POINTS) < 2.0**-56


def test_no_value_is_not_a_number():
    assert np.isnan(accurate("1/(x - x)", POINTS)).all()
    assert np.isinf(enclosed("1/(x - x)", POINTS[:2]).rad).all()


@pytest.mark.parametrize(("text", "value"), [("sign(x - x)", 0.0), ("step(x - x)", 0.5), ("sign(0*x)", 0.0)])
def test_jumps_at_zero_have_the_value_of_the_arrays(text, value):
    assert evaluate(parse(text), {"x": np.array([0.3])}).tolist() == [value]
    assert accurate(text, np.array([[0.3]])).tolist() == [value]
    assert enclosed(text, np.array([[0.3]])).mid.tolist() == [value]


def test_a_network_that_returns_zero_is_not_measured_to_be_right():
    """The float64 values of the target are all zero; the target is x."""
    target = Formula("1e17*((1 + 1e-17*x) - 1)", Box([0.0], [1.0]), ("x",))
    assert np.allclose(gaps(lambda x: np.zeros(len(x)), target, POINTS)[:, 0], -POINTS[:, 0])


def test_every_function_is_among_those_the_benchmark_draws():
    from benchmarks.formulas import FUNCTIONS as DRAWN
    from benchmarks.formulas import MEANING

    assert set(DRAWN) == set(FUNCTIONS) == set(MEANING)
