"""`af.formula(...)` on numbers and on boxes: against mpmath, tables of known values and ranges, and in refusals."""

import math

import mpmath
import numpy as np
import pytest

import attnforge as af
from benchmarks import formulas as exact
from tests.refusals import refused

mp = mpmath.mp.clone()
mp.dps = 60

KNOWN = {
    "sin(x)*y": lambda x, y: mp.sin(x) * y,
    "x^2 - 2*x*y + y^2": lambda x, y: (x - y) ** 2,
    "x*exp(-x^2)*cos(3*y)": lambda x, y: x * mp.exp(-(x**2)) * mp.cos(3 * y),
    "1/(1 + 25*x^2) + y": lambda x, y: 1 / (1 + 25 * x**2) + y,
    "max(x*y, x - y)": lambda x, y: max(x * y, x - y),
    "abs(x - y)^3/(2 + sin(5*x))": lambda x, y: abs(x - y) ** 3 / (2 + mp.sin(5 * x)),
    "erf(x)*tanh(3*y)": lambda x, y: mp.erf(x) * mp.tanh(3 * y),
    "sqrt(x^2 + y^2)": lambda x, y: mp.sqrt(x * x + y * y),
    "log(x^2 - x + 1)*y": lambda x, y: mp.log(x * x - x + 1) * y,
    "atan2(x, y + 4)": lambda x, y: mp.atan2(x, y + 4),
    "gamma(x + y + 7)": lambda x, y: mp.gamma(x + y + 7),
    "where(x < y, x + 10, x*y)": lambda x, y: x + 10 if x < y else x * y,
    "floor(3*x)*y + sign(x)": lambda x, y: mp.floor(3 * x) * y + mp.sign(x),
    "t = tanh(x + y); t^2 - t*x": lambda x, y: mp.tanh(x + y) ** 2 - mp.tanh(x + y) * x,
    "(x + 1e20) - 1e20 + y": lambda x, y: x + y,
}
FEW = 8  # boxes a formula
INSIDE = 12  # points a box, and its corners
KEPT = 2.0**-41  # of the largest value: what `careful_values` promises


def exactly(text: str, points: np.ndarray) -> list[mpmath.mpf]:
    return [KNOWN[text](*map(mp.mpf, point)) for point in points.tolist()]


def boxes(seed: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Large and small ones, and points; ends that no decimal number is."""
    rng = np.random.default_rng(seed)
    middle, size = rng.uniform(-2, 2, (FEW, 2)), 10.0 ** rng.uniform(-9, 0, (FEW, 1)) * rng.integers(0, 2, (FEW, 2))
    return list(zip(middle - size, middle + size, strict=True))


def points_of(lower: np.ndarray, upper: np.ndarray) -> np.ndarray:
    inside = np.random.default_rng(0).uniform(lower, upper, (INSIDE, 2))
    corners = np.array([[x, y] for x in (lower[0], upper[0]) for y in (lower[1], upper[1])])
    return np.concatenate([np.clip(inside, lower, upper), corners])


def outside(text: str, ends: tuple[float, float], points: np.ndarray) -> list[mpmath.mpf]:
    """The values that are not between the ends."""
    low, high = (mp.mpf(end) for end in ends)
    return [value for value in exactly(text, points) if not low <= value <= high]


@pytest.mark.parametrize("text", KNOWN)
def test_values_are_those_of_mpmath(text):
    points = np.random.default_rng(1).uniform(-2, 2, (200, 2))
    formula, exact = af.formula(text, ("x", "y")), np.array([float(value) for value in exactly(text, points)])
    found = formula(points)
    assert np.abs(found - exact).max() <= (KEPT + 2.0**-50) * np.abs(exact).max()
    assert np.array_equal(formula(x=points[:, 0], y=points[:, 1]), found)


@pytest.mark.parametrize("text", KNOWN)
def test_enclosures_hold_the_values(text):
    for seed, (lower, upper) in enumerate(boxes(len(text))):
        sides = {"y": (lower[1], upper[1]), "x": (lower[0], upper[0])}
        ends = af.formula(text, ("x", "y")).enclose(sides, cells=(1, 30, 400)[seed % 3])
        assert all(type(end) is float for end in ends)
        assert not outside(text, ends, points_of(lower, upper)), (text, sides, ends)


def test_ends_are_rounded_outward_by_the_last_digit():
    for x in np.random.default_rng(2).uniform(0.1, 2, 20):
        low, high = af.formula("exp(x)/3").enclose({"x": (x, x)})
        assert mp.mpf(low) < mp.exp(mp.mpf(x)) / 3 < mp.mpf(high)
        assert high == np.nextafter(low, np.inf)


def test_shapes_of_values():
    wave, both, one = af.formula("sin(x)*y"), af.formula("[x, y^2, 1]"), af.formula("x^2")
    assert wave(x=0.5, y=2) == pytest.approx(2 * np.sin(0.5), abs=1e-15)
    assert wave(x=np.zeros((4, 1)), y=np.ones(3)).shape == (4, 3)
    assert wave(np.zeros((5, 4, 2))).shape == (5, 4)
    assert wave([0.5, 2]) == wave(x=0.5, y=2)
    assert wave(np.zeros((0, 2))).shape == (0,)
    assert both(np.zeros((5, 4, 2))).shape == (5, 4, 3)
    assert both(x=2, y=3).tolist() == [2, 9, 1]
    assert one(3) == one(x=3) == 9
    assert one([1, 2, 3]).tolist() == [1, 4, 9]
    assert one([[1], [2]]).tolist() == [1, 4]
    assert one(x=np.ones((2, 3))).shape == (2, 3)
    assert af.formula("2*pi")(x=[0, 1]).tolist() == [2 * np.pi] * 2
    low, high = both.enclose({"x": (0, 1), "y": (-2, 1)})
    assert (low.tolist(), high.tolist()) == ([0, 0, 1], [1, 4, 1])


def test_vectors_are_inputs_of_their_own():
    length = af.formula("hypot(x[0], x[2])*t")
    assert length.names == ("x[0]", "x[1]", "x[2]", "t")
    assert length(x=[3, 7, 4], t=2) == length([3, 7, 4, 2]) == length(**{"x[0]": 3, "x[1]": 7, "x[2]": 4, "t": 2}) == 10
    assert length(x=np.ones((6, 3)), t=np.ones((5, 1))).shape == (5, 6)
    assert af.formula("norm(x)", {"x": 2}).enclose([(0, 3), (0, 4)]) == (0, 5)


def test_what_is_written_and_what_is_traced_are_one_kind():
    written, traced = af.formula("sin(x)*y"), af.formula(lambda x, y: np.sin(x) * y)
    points, box = np.random.default_rng(3).uniform(-1, 1, (50, 2)), {"y": (0, 1), "x": (-1, 1)}
    assert np.array_equal(written(points), traced(points))
    assert written.enclose(box) == traced.enclose(box) == written.enclose(af.Box([-1, 0], [1, 1]))
    assert str(written) == str(traced) == "sin(x)*y"
    assert repr(written) == repr(traced) == "<formula sin(x)*y of x, y>"
    nets = [af.compile(each, box, 1e-3) for each in (written, traced, "sin(x)*y")]
    assert len({af.network.digest(net.network) for net in nets}) == 2  # inputs in their order, or in that of the domain
    assert af.certify(nets[0].network, written, {"x": (-1, 1), "y": (0, 1)}).bound == nets[0].certificate.bound


WAVE = af.formula("sin(x)*y")
REFUSED = {
    "no text": lambda: af.formula(3), "no formula": lambda: af.formula("sin("),
    "code": lambda: af.formula("__import__('os').system('true')"),
    "another input": lambda: af.formula("x + y", ("x", "z")), "no name": lambda: af.formula("x", ("x", "a b")),
    "an input twice": lambda: af.formula("x", ("x", "x")), "nothing": lambda: WAVE(),
    "an input missing": lambda: WAVE(x=1), "an input too many": lambda: WAVE(x=1, y=1, z=1),
    "an input misspelt": lambda: WAVE(x=1, Y=1), "two positional": lambda: WAVE(1, 2),
    "positional and by name": lambda: WAVE([1, 2], y=1), "another number of inputs": lambda: WAVE([1, 2, 3]),
    "a number for two inputs": lambda: WAVE(1), "shapes that differ": lambda: WAVE(x=[1, 2], y=[1, 2, 3]),
    "text": lambda: WAVE(x="1", y=1), "complex": lambda: WAVE(x=1j, y=1), "not a number": lambda: WAVE(x=np.nan, y=1),
    "infinite": lambda: WAVE(x=np.inf, y=1), "half a vector": lambda: af.formula("x[0]*x[1]")(x=[1]),
    "a number for a vector": lambda: af.formula("x[0]*x[1]")(x=1),
    "no logarithm": lambda: af.formula("log(x)")([1, -1]), "no root": lambda: af.formula("sqrt(x)*y")(x=-1, y=0),
    "no quotient": lambda: af.formula("sin(x)/x")(0), "beyond float64": lambda: af.formula("exp(x)")(1000),
    "no box": lambda: WAVE.enclose(3), "no interval": lambda: WAVE.enclose({"x": 1, "y": (0, 1)}),
    "an interval missing": lambda: WAVE.enclose({"x": (0, 1)}),
    "another interval": lambda: WAVE.enclose({"x": (0, 1), "z": (0, 1)}),
    "an interval too few": lambda: WAVE.enclose([(0, 1)]),
    "ends swapped": lambda: WAVE.enclose({"x": (1, 0), "y": (0, 1)}),
    "an end that is infinite": lambda: WAVE.enclose({"x": (0, np.inf), "y": (0, 1)}),
    "no cells": lambda: WAVE.enclose({"x": (0, 1), "y": (0, 1)}, cells=0),
    "half a cell": lambda: WAVE.enclose({"x": (0, 1), "y": (0, 1)}, cells=1.5),
    "a pole": lambda: af.formula("1/(x - 1/3)").enclose({"x": (0, 1)}),
    "a pole at an end": lambda: af.formula("log(x)").enclose({"x": (0, 1)}),
    "a point without a value": lambda: af.formula("sin(x)/x").enclose({"x": (-1, 1)}),
    "a part without values": lambda: af.formula("y*sqrt(x - 0.9)").enclose({"x": (0, 1), "y": (0, 0)}),
    "one of two": lambda: af.formula("[x, log(x)]").enclose({"x": (-1, 1)}),
    "the poles of gamma": lambda: af.formula("gamma(x)").enclose({"x": (-2.5, -0.5)}),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_is_refused(name):
    with refused() as raised:
        REFUSED[name]()
    assert raised.value.remedy


# Every function of the language: a value known by heart, and ranges that are tight.

E, PI, ROOT = math.e, math.pi, math.sqrt
VALUES = [
    ("2*x^3 - x/4 + 1", 2, 16.5), ("-x^2", 3, -9), ("2^-1", 0, 0.5), ("2^3^2", 0, 512), ("6/3/2", 0, 1),
    ("1 - 2 - 3", 0, -4), ("abs(x)", -2, 2), ("min(x, 1, 0.5)", 2, 0.5), ("max(x, 1, 0.5)", 2, 2), ("relu(x)", -2, 0),
    ("clamp(x, -1, 1)", 2, 1), ("sqrt(x)", 2, ROOT(2)), ("exp(x)", 2, math.exp(2)), ("log(x)", 2, math.log(2)),
    ("sin(x)", 2, math.sin(2)), ("cos(x)", 2, math.cos(2)), ("tan(x)", 2, math.tan(2)), ("sinh(x)", 2, math.sinh(2)),
    ("cosh(x)", 2, math.cosh(2)), ("tanh(x)", 2, math.tanh(2)), ("asin(x)", 0.5, math.asin(0.5)),
    ("acos(x)", 0.5, math.acos(0.5)), ("atan(x)", 2, math.atan(2)), ("erf(x)", 0.5, math.erf(0.5)),
    ("sigmoid(x)", 2, 1 / (1 + math.exp(-2))), ("softplus(x)", 2, math.log1p(math.exp(2))), ("sign(x)", -2, -1),
    ("step(x)", 2, 1), ("floor(x)", -1.5, -2), ("where(x < 1, 7, x)", 1, 1), ("where(x < 1, 7, x)", 0.5, 7),
    ("where(x <= 1, 7, x)", 1, 7), ("where(x > 1, 7, x)", 1, 1), ("where(x >= 1, 7, x)", 1, 7),
    ("where(x > 0, log(x), 3)", -1, 3), ("ln(x)", 2, math.log(2)), ("atan2(-x, -1)", 2, math.atan2(-2, -1)),
    ("atan2(0*x, -1)", -2, PI), ("hypot(x, -4)", 3, 5), ("hypot(x, 2, 2)", 1, 3), ("unit(x, 4)", -3, -0.6),
    ("erfc(x)", 3, math.erfc(3)), ("normcdf(x)", 0.5, math.erfc(-0.5 / ROOT(2)) / 2),
    ("silu(x)", -2, -2 / (1 + math.exp(2))), ("swish(x)", -2, -2 / (1 + math.exp(2))),
    ("gelu(x)", 2, math.erfc(-ROOT(2))), ("gelu_tanh(x)", 1, (1 + math.tanh(ROOT(2 / PI) * 1.044715)) / 2),
    ("sinc(x)", 0, 1), ("sinc(x)", 2, math.sin(2) / 2), ("sphericalj1(x)", 0, 0),
    ("sphericalj1(x)", 2, math.sin(2) / 4 - math.cos(2) / 2), ("besselj0(x)", 2, 0.22389077914123566),
    ("besselj1(x)", 2, 0.5767248077568734), ("besselj2(x)", 2, 0.35283402861563773), ("gamma(x)", 5, 24),
    ("gamma(x)", -0.5, -2 * ROOT(PI)), ("lgamma(x)", -0.5, math.log(2 * ROOT(PI))),
    ("digamma(x)", 1, -0.5772156649015329), ("digamma(x)", -0.25, 2.9141391202135278), ("trigamma(x)", 1, PI**2 / 6),
    ("trigamma(x)", -0.5, PI**2 / 2 + 4), ("pi", 0, PI), ("e", 0, E), ("sigmoid(x)", -1000, 0),
    ("sigmoid(x)", 1000, 1), ("softplus(x)", 1000, 1000), ("softplus(x)", -1000, 0),
]  # fmt: skip


@pytest.mark.parametrize(("text", "x", "wanted"), VALUES)
def test_values_known_by_heart(text, x, wanted):
    formula, slack = af.formula(text, ("x",)), 4e-16 * abs(wanted)
    assert formula([x, x]) == pytest.approx(wanted, rel=4e-16)
    low, high = formula.enclose({"x": (x, x)})
    assert low <= wanted + slack
    assert high >= wanted - slack
    assert high - low <= 4e-16 * abs(wanted) + 1e-300


def test_every_function_has_a_known_value():
    written = " ".join(text for text, *_ in VALUES)
    assert all(name in written for name in exact.MEANING)


RANGES = [
    ("x^2", -1, 2, 0, 4), ("x^3", -1, 2, -1, 8), ("x^-2", 1, 2, 0.25, 1), ("x^-1", -2, -1, -1, -0.5),
    ("x^0", -1, 1, 1, 1), ("x^0.5", 0, 4, 0, 2), ("x^1.5", 0, 4, 0, 8), ("2^x", -1, 3, 0.5, 8), ("x^x", 1, 2, 1, 4),
    ("abs(x)", -3, 2, 0, 3), ("abs(x)", -3, -2, 2, 3), ("relu(x)", -3, 2, 0, 2), ("max(x, 1)", -3, 2, 1, 2),
    ("min(x, 1, 0)", -3, 2, -3, 0), ("clamp(x, -1, 1)", -3, 0.5, -1, 0.5), ("sign(x)", -1, 1, -1, 1),
    ("sign(x)", 0, 0, -1, 1), ("sign(x)", 1, 2, 1, 1), ("sign(x)", -2, -1, -1, -1), ("step(x)", -1, 0, 0, 1),
    ("step(x)", 1, 2, 1, 1), ("step(x)", -2, -1, 0, 0), ("floor(x)", -0.5, 2, -1, 2), ("x*x*x", -1, 2, -1, 8),
    ("where(x < 1, 0, x)", -1, 0.5, 0, 0), ("where(x < 1, 0, x)", 1, 2, 1, 2), ("where(x < 1, 0, x)", 0.5, 2, 0, 2),
    ("where(x < 0, 0, log(x + 1))", 0, 1, 0, math.log(2)), ("where(x < 1, 5, log(x))", -1, 0, 5, 5),
    ("hypot(x, 3)", -4, 1, 3, 5), ("unit(x, 3)", -4, 4, -0.8, 0.8), ("unit(x, 0)", -1, 1, -1, 1),
    ("unit(3, x)", -4, 1, 0.6, 1), ("atan2(x, 1)", -1, 1, -PI / 4, PI / 4), ("atan2(1, x)", -1, 1, PI / 4, 3 * PI / 4),
    ("atan2(-1, x)", -1, 1, -3 * PI / 4, -PI / 4), ("atan2(x, -1)", 0, 1, 3 * PI / 4, PI),
    ("erfc(x)", -1, 1, math.erfc(1), math.erfc(-1)), ("normcdf(x)", 0, 1e200, 0.5, 1),
    ("silu(x)", -5, 0, -0.27846454276107374, 0), ("gelu(x)", -5, 0, -0.16997120747990369, 0),
    ("gelu_tanh(x)", -5, 0, -0.17004075057125412, 0), ("gamma(x)", 1, 3, 0.8856031944108887, 2),
    ("silu(x)", -5, -4, -4 / (1 + math.exp(4)), -5 / (1 + math.exp(5))), ("gamma(x)", 3, 4, 2, 6),
    ("lgamma(x)", 1, 3, -0.12148629053584961, math.log(2)), ("sinc(x)", -1e-200, 1e-200, 1, 1),
    ("digamma(x)", 1, 2, -0.5772156649015329, 0.42278433509846714), ("besselj0(x)", -1e300, 1e300, -1, 1),
    ("digamma(x)", -0.75, -0.25, -2.8941202000429321, 2.9141391202135278), ("sqrt(x)", 0, 4, 0, 2),
    ("trigamma(x)", 1, 2, PI**2 / 6 - 1, PI**2 / 6), ("sqrt(1 - x^2)", -1, 1, 0, 1), ("log(exp(0*x))", -1, 1, 0, 0),
    ("cosh(x)", -1, 0.5, 1, math.cosh(1)), ("tanh(x)", -1, 1, math.tanh(-1), math.tanh(1)), ("acos(x)", -1, 1, 0, PI),
    ("asin(sin(x))", -1e300, 1e300, -PI / 2, PI / 2), ("tan(x)", -1, 1.5, math.tan(-1), math.tan(1.5)),
    ("1/(2 + sign(x))", -1, 1, 1 / 3, 1), ("x - x", 0, 1, 0, 0), ("sigmoid(x)", -1e300, 1e300, 0, 1),
    ("softplus(x)", -1e300, 0, 0, math.log(2)), ("sqrt((x - 1)^2)", 0, 3, 0, 2),
]  # fmt: skip


@pytest.mark.parametrize(("text", "low", "high", "least", "most"), RANGES)
def test_ranges_are_tight(text, low, high, least, most):
    found, slack = af.formula(text, ("x",)).enclose({"x": (low, high)}, cells=1), 1e-14 * max(1, abs(least), abs(most))
    assert least - slack <= found[0] <= least + 1e-15 * abs(least)
    assert most - 1e-15 * abs(most) <= found[1] <= most + slack


WITHOUT_VALUES = [
    ("1/x", -1, 1), ("1/x", 0, 1), ("sqrt(x)", -1e-300, 1), ("log(x)", 0, 1), ("x^0.5", -1, 1), ("x^-1", -1, 1),
    ("x^-0.5", 0, 1), ("0^x", -1, 1), ("asin(x)", 0, 1.5), ("acos(x)", -1.5, 0), ("tan(x)", 1, 2), ("tan(x)", 0, 4),
    ("gamma(x)", 0, 1), ("gamma(x)", -1.5, -0.5), ("lgamma(x)", -0.5, 0.5), ("digamma(x)", -1, -0.5),
    ("trigamma(x)", -1.5, -0.5), ("atan2(x, -1)", -1, 1), ("atan2(x, 0)", 0, 1), ("atan2(0, x)", -1, 1),
    ("where(x < 0, 1, log(x))", -1, 1), ("where(log(x) < 0, 1, 2)", -1, 1), ("0*(1/x)", -1, 1), ("max(1/x, 0)", -1, 1),
    ("sign(1/x)", -1, 1), ("clamp(log(x), -1, 1)", -1, 1),
]  # fmt: skip


@pytest.mark.parametrize(("text", "low", "high"), WITHOUT_VALUES)
def test_no_value_somewhere_is_no_enclosure(text, low, high):
    with refused(af.DomainError):
        af.formula(text, ("x",)).enclose({"x": (low, high)}, cells=4)


LOST = [
    "1e17*((1 + 1e-17*x) - 1)", "1e140*((1 + 1e-140*x) - 1)", "(x + 1e16) - 1e16", "x + 1e300 + 0.5*x - 1e300",
    "(exp(1e-12*x) - 1)/(1e-12*x)", "(1 - cos(1e-9*x))*1e18", "erf(x + 1e-14) - erf(x)", "softplus(1e6*x) - 1e6*x + x",
    "sin(1e15*x)", "sin(1e-200*x)/(1e-200*x)", "1e-280*x*1e-10", "sqrt(x^2) - x + 1e-30*x", "sign(x - x) + x",
    "step(0*x)*x", "tan(1e12*x)", "tanh(1e-160*x)*1e160",
]  # fmt: skip


@pytest.mark.parametrize("text", LOST)
def test_values_are_right_however_many_digits_cancel(text):
    """Against 400 digits; float64 and longer numbers of the processor have none left, and certificates need them."""
    points = np.random.default_rng(0).uniform(0.1, 0.9, size=(40, 1))
    target = af.formula(text, ("x",)).on(af.Box([0.1], [0.9]))
    with mpmath.workdps(exact.DIGITS):
        wanted = [exact.exact(exact.parse(text), {"x": x}) for x in points[:, 0].tolist()]
        largest = max(map(abs, wanted))
        for found, digits in ((target.values(points), 41), (target.accurate(points), 53)):
            parts = [mpmath.mpf(float(v)) + mpmath.mpf(float(v - np.float64(v))) for v in found]
            assert max(abs(a - b) for a, b in zip(parts, wanted, strict=True)) < mpmath.mpf(2) ** -digits * largest
        balls = target.enclosed(points)
        for mid, rad, value in zip(balls.mid.tolist(), balls.rad.tolist(), wanted, strict=True):
            assert abs(mpmath.mpf(mid) - value) <= rad <= 2.0**-52 * float(largest) + 2.0**-1074


def test_a_network_that_returns_zero_is_not_measured_to_be_right():
    """The float64 values of the target are all zero; the target is x."""
    zero = af.compile("0*x", {"x": (0, 1)}, 1e-3)
    assert af.measure(zero, "1e17*((1 + 1e-17*x) - 1)", points=100).sup > 0.9


@pytest.mark.parametrize(("text", "value"), [("sign(x - x)", 0.0), ("step(x - x)", 0.5), ("sign(0*x)", 0.0)])
def test_jumps_at_zero_have_the_value_in_the_middle(text, value):
    target = af.formula(text, ("x",)).on(af.Box([0], [1]))
    assert af.formula(text)(0.3) == target.accurate(np.array([[0.3]]))[0] == value
    assert target.enclosed(np.array([[0.3]])).mid.tolist() == [value]


NAMES = ("x[0]", "x[1]", "x[2]", "y[0]", "y[1]", "y[2]", "z[0]", "t", "norm")
REDUCED = {
    "sum(x^2)": lambda x, y, z, t, n: (x**2).sum(axis=0),
    "mean(cos(2*pi*x))": lambda x, y, z, t, n: np.cos(2 * np.pi * x).mean(axis=0),
    "prod(x)": lambda x, y, z, t, n: x.prod(axis=0),
    "norm(x - y, z)": lambda x, y, z, t, n: np.sqrt(((x - y) ** 2).sum(axis=0) + z**2),
    "sum(x*y)/norm(y)": lambda x, y, z, t, n: (x * y).sum(axis=0) / np.linalg.norm(y, axis=0),
    "sum(x*mean(y) - t)": lambda x, y, z, t, n: (x * y.mean(axis=0) - t).sum(axis=0),
    "norm(norm) + sum(t, 2, x[1])": lambda x, y, z, t, n: abs(n) + t + 2 + x[1],
    "d = x - y; s = sum(d^2); where(s <= t, norm(d), mean(x, t))": lambda x, y, z, t, n: np.where(
        ((x - y) ** 2).sum(axis=0) <= t, np.sqrt(((x - y) ** 2).sum(axis=0)), (x.sum(axis=0) + t) / 4
    ),
}


@pytest.mark.parametrize("text", REDUCED)
def test_reductions_over_vectors(text):
    points = np.random.default_rng(0).normal(size=(40, 9))
    x, y, (z, t, n) = points.T[:3], points.T[3:6], points.T[6:]
    np.testing.assert_allclose(af.formula(text, NAMES)(points), REDUCED[text](x, y, z, t, n), rtol=1e-13)
