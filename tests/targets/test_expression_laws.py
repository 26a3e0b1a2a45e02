"""Laws over random trees: text round trip, NumPy inside the ball, wide balls contain narrow ones, slopes inside the
enclosed derivative."""

from __future__ import annotations

import flint
import numpy as np
import pytest
from flint import arb
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from attnforge.targets.expression import Apply, Constant, Variable, derivative, enclose, evaluate, parse, to_text
from attnforge.targets.expression.functions import FUNCTIONS
from attnforge.targets.expression.tree import size

NAMES = ("x", "y", "z[0]", "z[1]")
BITS = 160
H = np.longdouble(1e-5)
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


@laws
@given(trees(leaves=5), boxes, st.sampled_from(NAMES))
def test_derivative_is_the_limit_of_finite_differences(node, box, name):
    point = {each: np.longdouble(centre) for each, (centre, _) in box.items()}
    around = {each: arb(centre, 2e-5) for each, (centre, _) in box.items()}
    assume(enclose(derivative(node, name), around).rad() < 0.1)  # no kink at this scale: there, ties are averaged
    expected, difference = float(evaluate(derivative(node, name), point)), _difference(node, point, name, -H, H)
    assume(np.isfinite([expected, difference]).all())
    assert abs(expected - difference) <= 1e-3 * (1 + abs(difference))


@pytest.mark.parametrize("name", [name for name, function in FUNCTIONS.items() if function.arity])
def test_each_function_against_its_differences(name):
    """All arguments in turn, at points where every function is smooth."""
    if name == "trigamma":
        return  # the one without a rule: below
    arity = len(NAMES) if FUNCTIONS[name].variadic else FUNCTIONS[name].arity
    point = dict(zip(NAMES, map(np.longdouble, (0.3, 0.2, 0.7, 0.6)), strict=True))
    node = Apply(name, tuple(map(Variable, NAMES[:arity])))
    for each in NAMES[:arity]:
        expected = evaluate(derivative(node, each), point)
        assert abs(_difference(node, point, each, -H, H) - float(expected)) < 1e-6


def test_the_derivative_without_a_rule_is_undefined():
    slope = derivative(parse("trigamma(x)"), "x")
    assert np.isnan(evaluate(slope, {"x": 1.0}))
    assert enclose(slope, {"x": arb(1)}).is_nan()


@laws
@given(trees())
def test_size_counts_the_leaves_and_applications(node):
    assert size(node) == repr(node).count("Apply(") + repr(node).count("Constant(") + repr(node).count("Variable(")


def _difference(node, point, name, before, after):
    low, high = (evaluate(node, point | {name: point[name] + step}) for step in (before, after))
    with np.errstate(all="ignore"):
        return float((high - low) / (after - before))
