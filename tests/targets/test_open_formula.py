"""`af.formula(...)` on numbers and on boxes, through the public name: against mpmath, NumPy, and in refusals."""

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import attnforge as af

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
TIGHT = ("sin(x)*y", "x*exp(-x^2)*cos(3*y)", "1/(1 + 25*x^2) + y", "erf(x)*tanh(3*y)")
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


@pytest.mark.parametrize("text", TIGHT)
def test_enclosures_are_close(text):
    """To a millionth of the ends; and the law above sees ends that are a thousandth of the range too far inside."""
    axis = np.linspace(-1, 1.5, 1201)
    values = af.formula(text)(x=axis[:, None], y=axis)
    low, high = af.formula(text).enclose({"x": (-1, 1.5), "y": (-1, 1.5)})
    seen, spread = (values.min(), values.max()), np.ptp(values)
    assert low <= seen[0] <= low + 1e-4 * spread  # the grid itself misses an extreme by the square of half a step
    assert high - 1e-4 * spread <= seen[1] <= high
    places = np.argwhere(np.ones_like(values))[[values.argmin(), values.argmax()]]
    extremes = axis[places]
    assert len(outside(text, (low + 1e-3 * spread, high - 1e-3 * spread), extremes)) == 2


def test_ends_are_rounded_outward_by_the_last_digit():
    for x in np.random.default_rng(2).uniform(0.1, 2, 20):
        low, high = af.formula("exp(x)/3").enclose({"x": (x, x)})
        assert mp.mpf(low) < mp.exp(mp.mpf(x)) / 3 < mp.mpf(high)
        assert high == np.nextafter(low, np.inf)


@given(st.floats(-3, 3), st.floats(0, 3), st.sampled_from(sorted(KNOWN)))
@settings(max_examples=60)
def test_a_smaller_box_has_values_in_the_larger_enclosure(start, side, text):
    formula = af.formula(text, ("x", "y"))
    low, high = formula.enclose({"x": (start, start + side), "y": (-1, 1)}, cells=20)
    assert not outside(text, (low, high), np.array([[start + part * side, y] for part in (0, 0.3, 1) for y in (-1, 1)]))


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


def test_a_network_lies_around_the_enclosure_of_its_formula():
    formula, box = af.formula("x*exp(-x^2) + y"), {"x": (-1, 1), "y": (0, 1)}
    net = af.compile(formula, box, 1e-4)
    (low, high), found = formula.enclose(box), net.range(box)
    bound = net.certificate.bound + 1e-5 * (high - low)  # how closely `enclose` knows its ends, and more
    more = bound + 2.0**-9 * (high - low)  # `range` looks until 2^-10 of the range is left
    assert low - more <= found.lower <= low + bound
    assert high - bound <= found.upper <= high + more


WAVE = af.formula("sin(x)*y")
REFUSED = {
    "no text": lambda: af.formula(3),
    "no formula": lambda: af.formula("sin("),
    "code": lambda: af.formula("__import__('os').system('true')"),
    "another input": lambda: af.formula("x + y", ("x", "z")),
    "no name": lambda: af.formula("x", ("x", "a b")),
    "an input twice": lambda: af.formula("x", ("x", "x")),
    "nothing": lambda: WAVE(),
    "an input missing": lambda: WAVE(x=1),
    "an input too many": lambda: WAVE(x=1, y=1, z=1),
    "an input misspelt": lambda: WAVE(x=1, Y=1),
    "two positional": lambda: WAVE(1, 2),
    "positional and by name": lambda: WAVE([1, 2], y=1),
    "another number of inputs": lambda: WAVE([1, 2, 3]),
    "a number for two inputs": lambda: WAVE(1),
    "shapes that differ": lambda: WAVE(x=[1, 2], y=[1, 2, 3]),
    "text": lambda: WAVE(x="1", y=1),
    "complex": lambda: WAVE(x=1j, y=1),
    "not a number": lambda: WAVE(x=np.nan, y=1),
    "infinite": lambda: WAVE(x=np.inf, y=1),
    "half a vector": lambda: af.formula("x[0]*x[1]")(x=[1]),
    "a number for a vector": lambda: af.formula("x[0]*x[1]")(x=1),
    "no logarithm": lambda: af.formula("log(x)")([1, -1]),
    "no root": lambda: af.formula("sqrt(x)*y")(x=-1, y=0),
    "no quotient": lambda: af.formula("sin(x)/x")(0),
    "beyond float64": lambda: af.formula("exp(x)")(1000),
    "no box": lambda: WAVE.enclose(3),
    "no interval": lambda: WAVE.enclose({"x": 1, "y": (0, 1)}),
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
def test_what_cannot_be_is_refused_in_three_parts(name):
    with pytest.raises(af.AttnforgeError) as raised:
        REFUSED[name]()
    parts = (raised.value.requirement, raised.value.got, raised.value.remedy)
    assert all(parts), str(raised.value)
    assert all(part.strip() in str(raised.value) for part in parts)
