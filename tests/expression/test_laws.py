"""Laws of trees: text and back, NumPy in the ball, wide balls hold narrow ones, slopes, and what these say at kinks."""

from __future__ import annotations

import flint
import numpy as np
import pytest
from flint import arb, arb_series
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import attnforge as af
from attnforge.expression import Apply, Constant, Variable, derivative, enclose, evaluate, parse, to_text
from attnforge.expression.evaluate import bounds, taylor
from attnforge.expression.functions import FUNCTIONS
from attnforge.expression.intervals import Interval
from attnforge.expression.series import NotSmoothError
from tests.refusals import refused

NAMES = ("x", "y", "z[0]", "z[1]")
BITS = 160
laws = settings(derandomize=True, deadline=None, max_examples=250)

numbers = st.one_of(
    st.sampled_from([0.0, -0.0, 1.0, -1.0, 2.0, 0.5, 0.1, 1e-9, 1e22, -3e-300]),
    st.floats(allow_nan=False, allow_infinity=False),
)
small_numbers = st.one_of(st.sampled_from([0.0, 1.0, -1.0, 2.0, 0.5]), st.floats(-3, 3, allow_subnormal=False))
exponents = st.sampled_from([-3.0, -1.0, 0.0, 0.5, 1.0, 2.0, 3.0, -0.5, 1.5])


def trees(values=small_numbers, leaves=8):
    variables = st.sampled_from(NAMES).map(Variable)
    constants = st.sampled_from([Apply(name, ()) for name, function in FUNCTIONS.items() if not function.arity])
    return st.recursive(st.one_of(variables, variables, values.map(Constant), constants), _applied, max_leaves=leaves)


def _applied(children):
    def arguments(name):
        function = FUNCTIONS[name]
        if name == "^":
            return st.tuples(children, st.one_of(exponents.map(Constant), st.sampled_from(NAMES).map(Variable)))
        most = function.arity + 2 if function.variadic else function.arity
        return st.lists(children, min_size=function.arity, max_size=most).map(tuple)

    names = [name for name, function in FUNCTIONS.items() if function.arity]
    operators = [name for name in names if FUNCTIONS[name].operator]
    choice = st.sampled_from(names + 3 * operators)
    return choice.flatmap(lambda name: arguments(name).map(lambda nodes: Apply(name, nodes)))


boxes = st.fixed_dictionaries(
    {
        name: st.tuples(st.floats(-3, 3, allow_subnormal=False), st.sampled_from([1e-9, 1e-3, 0.1, 1.0]))
        for name in NAMES
    }
)
fractions = st.fixed_dictionaries({name: st.floats(-1, 1) for name in NAMES})


@laws
@given(trees(numbers, leaves=20))
def test_text_round_trip(node):
    assert parse(to_text(node)) == node
    assert to_text(parse(to_text(node))) == to_text(node)


@laws
@given(trees(), boxes)
def test_numpy_lies_in_the_ball(node, box):
    point = {name: centre for name, (centre, _) in box.items()}
    value = float(evaluate(node, point))
    extended = evaluate(node, {name: np.longdouble(centre) for name, centre in point.items()})
    ball = enclose(node, {name: arb(centre) for name, centre in point.items()}, precision=BITS)
    assume(np.isfinite(value) and ball.is_finite())
    rounding = 1e3 * abs(float(extended - np.longdouble(value))) + 1e-9 * (1 + abs(value))
    assert (ball + arb(0, rounding)).contains(arb(value))


@laws
@given(trees(), boxes, fractions)
def test_wide_balls_contain_narrow_ones(node, box, fraction):
    wide = {name: arb(centre, radius) for name, (centre, radius) in box.items()}
    narrow = {name: arb(centre + 0.99 * radius * fraction[name]) for name, (centre, radius) in box.items()}
    inside = enclose(node, narrow, precision=BITS)
    assume(inside.is_finite())
    assert enclose(node, wide, precision=BITS).overlaps(inside)
    assert enclose(node, wide, precision=BITS + 40).contains(enclose(node, narrow, precision=4 * BITS).mid())


@laws
@given(trees(), boxes, st.sampled_from(NAMES))
def test_slopes_lie_in_the_enclosed_derivative(node, box, name):
    """The mean value theorem for f continuous on a segment, kinks and all: rigorous, so there is no tolerance."""
    centre, radius = box[name]
    left, right = arb(centre - radius), arb(centre + radius)
    values = {each: arb(middle) for each, (middle, _) in box.items()}
    with flint.ctx.workprec(BITS):
        slope = enclose(derivative(node, name), values | {name: left.union(right)})
        assume(slope.is_finite() and enclose(node, values | {name: left.union(right)}).is_finite())
        ends = [enclose(node, values | {name: end}) for end in (left, right)]
        assert ((ends[1] - ends[0]) / (right - left)).overlaps(slope)


def test_the_derivative_without_a_rule_is_undefined():
    slope = derivative(parse("trigamma(x)"), "x")
    assert np.isnan(evaluate(slope, {"x": 1.0}))
    assert enclose(slope, {"x": arb(1)}).is_nan()


SLOPES = {
    "3": "0", "pi*e": "0", "y": "0", "x": "1", "x + y": "1", "-x": "-1", "3*x": "3", "x*y": "y", "x/2": "1/2",
    "2/x": "-(2/x^2)", "x^2": "2*x", "x^3": "3*x^2", "x^0.5": "0.5*x^-0.5", "x^0.1": "0.1*x^(0.1 - 1)",
    "y^x": "y^x*log(y)", "sin(2*x)": "2*cos(2*x)", "exp(-x)": "-exp(-x)", "log(x)": "1/x", "sqrt(x)": "1/(2*sqrt(x))",
    "tanh(x)": "1/cosh(x)^2", "abs(x)": "sign(x)", "relu(x)": "step(x)", "max(x, 0)": "step(x)",
    "min(x, 0)": "step(-x)", "max(x, y)": "step(x - y)", "sign(x)": "0/x", "sign(y)*x": "sign(y)", "x[0]*x": "x[0]",
}  # fmt: skip


@pytest.mark.parametrize("text", SLOPES)
def test_slopes_are_short(text):
    """They are enclosed and shown: 0.1 - 1 is not taken for -0.9, which float64 does not know."""
    assert to_text(derivative(parse(text), "x")) == SLOPES[text]


def slope_on(text, low, high):
    return bounds(derivative(parse(text), "x"), {"x": Interval(arb(low), arb(high))})


KINKS = [
    ("abs(x)", -1, 1, -1, 1), ("abs(x)", 0, 0, -1, 1), ("abs(x)", 0.5, 1, 1, 1), ("relu(x)", -1, 1, 0, 1),
    ("max(x, -x)", -1, 1, -1, 1), ("max(x, 2*x)", 3, 4, 2, 2), ("min(x, 2*x)", 3, 4, 1, 1),
    ("min(x, 2*x)", -1, 2, 0, 3),
    ("clamp(x, -1, 1)", -0.5, 0.5, 1, 1), ("clamp(x, -1, 1)", 0, 2, 0, 1), ("clamp(x, -1, 1)", 2, 3, 0, 0),
    ("clamp(0, x, 3)", 1, 2, 1, 1), ("clamp(5, -1, x)", 1, 2, 1, 1), ("max(x, 0, 1 - x, x/2)", 2, 3, 1, 1),
    ("where(x < 0, -x, x)", -1, 1, -1, 1), ("where(x < 0, -x, x)", 0, 1, 1, 1), ("hypot(x, 0)", -1, 1, -1, 1),
    ("where(x < 0, exp(x) - 1, 2*x)", -1, -0.5, np.exp(-1), np.exp(-0.5)), ("floor(x)", 0.25, 0.75, 0, 0),
    ("hypot(x, 1)", -1, 1, -np.sqrt(0.5), np.sqrt(0.5)), ("sign(x) + x", 1, 3, 1, 1),
]  # fmt: skip


@pytest.mark.parametrize(("text", "low", "high", "least", "most"), KINKS)
def test_slopes_enclose_all_those_beside_a_kink(text, low, high, least, most):
    found = slope_on(text, low, high)
    assert (float(found.lower), float(found.upper)) == pytest.approx((least, most), abs=1e-14)


JUMPS = [
    "sign(x)", "step(x)", "x*sign(x)", "sign(x)*0", "sqrt(x)", "sqrt(abs(x))", "1/x", "x^0.5", "1/(1 + step(x))",
    "floor(x)", "floor(2*x)*x", "where(x < 0, 1, 2)", "atan2(x, -1)", "where(x < 0, sign(x), -1)",
]  # fmt: skip


@pytest.mark.parametrize("text", JUMPS)
def test_no_slope_bounds_a_jump(text):
    """Otherwise a Lipschitz constant read off the derivative would be wrong."""
    assert slope_on(text, -0.25, 0.25).lower.is_nan()
    assert slope_on(text, -1, 0).lower.is_nan() or text == "where(x < 0, sign(x), -1)"
    assert enclose(derivative(parse(text), "x"), {"x": arb(0, 0.5)}).is_nan()


@pytest.mark.parametrize(
    "text",
    ["abs(x)", "max(x, 0)", "relu(x)", "clamp(x, 0, 1)", "sign(x)", "step(x)", "1/x", "sqrt(x)", "log(x)", "x^0.5"],
)
def test_no_series_across_a_kink_or_a_pole(text):
    with pytest.raises(NotSmoothError):
        taylor(parse(text), {"x": arb_series([arb(0, 0.01), 1])})


@laws
@given(trees(leaves=5), boxes, fractions)
def test_series_over_intervals_hold_those_at_points(node, box, fraction):
    """The law of enclosure: a coefficient over the interval contains the one at each of its points."""
    before, flint.ctx.cap = flint.ctx.cap, 4
    try:
        wide = {name: arb_series([arb(centre, radius), 1]) for name, (centre, radius) in box.items()}
        at = {name: arb(centre + 0.99 * radius * fraction[name]) for name, (centre, radius) in box.items()}
        whole, one = taylor(node, wide), taylor(node, {name: arb_series([x, 1]) for name, x in at.items()})
        assume(all(one[k].is_finite() for k in range(4)))
        assert all(whole[k].overlaps(one[k]) for k in range(4))
    except NotSmoothError:
        assume(False)
    finally:
        flint.ctx.cap = before


# Arrays and balls as they are asked for.


@pytest.mark.parametrize("name", [name for name, function in FUNCTIONS.items() if function.arity])
def test_dtypes_and_shapes(name):
    node = Apply(name, tuple(map(Variable, "xyzw"[: FUNCTIONS[name].arity])))
    points = np.linspace(0.1, 0.9, 5)
    for dtype in (np.float64, np.longdouble):
        values = {
            each: (points + shift).astype(dtype) for each, shift in zip("xyzw", (0, -0.05, 0.05, 0.1), strict=True)
        }
        result = evaluate(node, values)
        assert result.dtype == dtype
        single = [evaluate(node, {each: value[i] for each, value in values.items()}) for i in range(5)]
        np.testing.assert_array_equal(result, single)
    if FUNCTIONS[name].extended:  # the result has more than float64's accuracy
        with flint.ctx.workprec(100):
            exact = enclose(node, {each: _exact(value[2]) for each, value in values.items()})
            assert abs(_exact(result[2]) - exact) < 5e-19


def _exact(value):
    high = float(value)
    return arb(high) + arb(float(value - np.longdouble(high)))


def test_arrays_broadcast_and_are_not_written_to():
    x = np.zeros(3)
    assert evaluate(parse("x + y"), {"x": np.zeros((3, 1)), "y": np.zeros(4)}).shape == (3, 4)
    assert evaluate(parse("7"), {"x": np.zeros((2, 3))}).shape == (2, 3)
    assert evaluate(parse("2^x"), {"x": np.array([-1], dtype=np.int64)}).tolist() == [0.5]
    for text in ("x", "7"):
        evaluate(parse(text), {"x": x})[0] = 1.0
    assert not x.any()


def test_precision_is_local_and_any_precision_is_an_enclosure():
    before = flint.ctx.prec
    assert enclose(parse("1/3"), {}, precision=300).rad() < arb(2) ** -290
    assert enclose(parse("0.1"), {}) == arb(0.1)
    for text in ("-x", "abs(-x)", "x - 0.3", "max(-x, y)", "sin(x) - x^3", "x*-y"):
        point = {"x": arb(0.1), "y": arb(-0.123456789)}
        assert enclose(parse(text), point, precision=10).contains(enclose(parse(text), point, precision=200))
    with refused(af.TargetError):
        enclose(parse("1/y"), {}, precision=300)
    assert flint.ctx.prec == before
