"""Pairs of formulas, rewritten by identities that hold, by some that do not, and changed a little: in 50 digits."""

from __future__ import annotations

import math
import os
import random
from fractions import Fraction

import mpmath as mp
import pytest
from flint import arb, fmpq

from attnforge.errors import CertificateError
from attnforge.expression import parse
from attnforge.expression.canonical import Canonical
from attnforge.expression.evaluate import bounds
from attnforge.expression.intervals import Interval
from attnforge.expression.tree import Apply, Constant, Variable
from attnforge.kernel.defined import defined
from attnforge.kernel.forms import rational
from attnforge.kernel.same import compared, same
from attnforge.outward import precision
from tests.laws import hostile_formulas as hostile

PAIRS = int(os.environ.get("ATTNFORGE_PAIRS", "504"))
PARTS = 12  # of the pairs, each a test
POSITIVE, ANY = (0.5, 2.0), (-1.0, 1.5)

# What u, v, w may be written as, in pairs: some hold where both sides have values, some only for some signs.
IDENTITIES = [
    lambda u, v, w: (u, ("exp", ("log", u))),
    lambda u, v, w: (u, ("log", ("exp", u))),
    lambda u, v, w: (u, ("^", ("sqrt", u), 2.0)),
    lambda u, v, w: (u, ("/", ("*", u, v), v)),
    lambda u, v, w: (u, ("-", ("+", u, ("log", v)), ("log", v))),
    lambda u, v, w: (u, ("+", u, ("*", 0.0, ("/", 1.0, v)))),
    lambda u, v, w: (("*", u, ("+", v, w)), ("+", ("*", u, v), ("*", w, u))),
    lambda u, v, w: (("^", ("+", u, v), 2.0), ("+", ("^", u, 2.0), ("*", 2.0, u, v), ("*", v, v))),
    lambda u, v, w: (("max", u, v), ("+", v, ("relu", ("-", u, v)))),
    lambda u, v, w: (("min", u, v), ("-", u, ("relu", ("-", u, v)))),
    lambda u, v, w: (("abs", u), ("-", ("*", 2.0, ("relu", u)), u)),
    lambda u, v, w: (("relu", ("*", -3.0, u)), ("*", 3.0, ("-", ("relu", u), u))),
    lambda u, v, w: (("clamp", u, -0.5, 0.75), ("min", ("max", u, -0.5), 0.75)),
    lambda u, v, w: (("clamp", u, v, w), ("min", ("max", u, v), w)),
    lambda u, v, w: (("tanh", u), ("-", ("*", 2.0, ("sigmoid", ("*", 2.0, u))), 1.0)),
    lambda u, v, w: (("sigmoid", ("-", 0.0, u)), ("-", 1.0, ("sigmoid", u))),
    lambda u, v, w: (("softplus", ("*", -1.0, u)), ("-", ("softplus", u), u)),
    lambda u, v, w: (("sqrt", ("*", u, v)), ("*", ("sqrt", u), ("sqrt", v))),
    lambda u, v, w: (("sqrt", ("/", u, v)), ("*", ("sqrt", u), ("^", v, -0.5))),
    lambda u, v, w: (("sqrt", ("^", u, 2.0)), u),
    lambda u, v, w: (("^", ("^", u, 3.0), 0.5), ("^", u, 1.5)),
    lambda u, v, w: (("^", ("^", u, 2.0), 1.5), ("^", u, 3.0)),
    lambda u, v, w: (("log", ("*", u, v)), ("+", ("log", u), ("log", v))),
    lambda u, v, w: (("log", ("^", u, 2.0)), ("*", 2.0, ("log", u))),
    lambda u, v, w: (("^", u, v), ("exp", ("*", v, ("log", u)))),
    lambda u, v, w: (("^", u, -2.0), ("exp", ("*", -2.0, ("log", u)))),
    lambda u, v, w: (("exp", ("+", u, v)), ("*", ("exp", v), ("exp", u))),
    lambda u, v, w: (("/", u, ("+", v, w)), ("*", u, ("exp", ("-", 0.0, ("log", ("+", w, v)))))),
    lambda u, v, w: (("/", ("-", ("*", u, u), ("*", v, v)), ("+", u, v)), ("-", u, v)),
    lambda u, v, w: (("hypot", u, v), ("sqrt", ("+", ("*", u, u), ("*", v, v)))),
    lambda u, v, w: (("acos", u), ("*", 2.0, ("asin", ("sqrt", ("*", 0.5, ("-", 1.0, u)))))),
    lambda u, v, w: (("atan2", u, v), ("atan2", ("/", u, v), 1.0)),
    lambda u, v, w: (("sin", ("-", u, v)), ("-", 0.0, ("sin", ("-", v, u)))),
    lambda u, v, w: (("cos", ("-", u, v)), ("cos", ("-", v, u))),
    lambda u, v, w: (("sqrt", ("*", ("sqrt", u), v)), ("*", ("^", u, 0.25), ("sqrt", v))),
    lambda u, v, w: (("sqrt", ("*", -2.0, ("*", u, v))), ("*", ("sqrt", ("*", 2.0, u)), ("sqrt", ("*", -1.0, v)))),
    lambda u, v, w: (("where", u, v, u, v), ("min", u, v)),
    lambda u, v, w: (("where", u, v, ("*", u, w), v), ("where", u, v, ("*", w, u), v)),
]  # fmt: skip


class Pair:
    """A formula and another writing of it, on a box; perhaps one of them changed a little."""

    def __init__(self, seed: int, ends: tuple[float, float] | None = None) -> None:
        self.rng = random.Random(seed)
        self.box = {name: ends or self.rng.choice((POSITIVE, ANY, (0.0, 1.0))) for name in hostile.NAMES}
        self.one, self.other = self.drawn(self.rng.choice((1, 1, 2)))
        if self.rng.random() < 0.35:
            self.other = self.changed(self.other)

    def leaf(self):
        name = self.rng.choice(hostile.NAMES)
        number = self.rng.choice((0.5, 2.0, 0.3, 1.0, -1.0))
        return self.rng.choice((name, name, ("*", number, name), ("+", name, number), ("*", name, name)))

    def drawn(self, depth):
        """Two writings, of parts that are two writings themselves."""
        parts = [(leaf, leaf) for leaf in (self.leaf(), self.leaf(), self.leaf())]
        if depth > 1:
            parts[self.rng.randrange(3)] = self.drawn(depth - 1)
        identity = self.rng.choice(IDENTITIES)
        one, other = identity(*(part[0] for part in parts))[0], identity(*(part[1] for part in parts))[1]
        outer = self.rng.choice(("plain", "plain", "sin", "exp", "sum"))
        if outer == "sum":
            leaf, c = self.leaf(), self.rng.choice((1.0, 0.1, 3.0))
            one, other = ("+", ("*", c, one), leaf), ("+", leaf, ("*", other, c))
        elif outer != "plain":
            one, other = (outer, one), (outer, other)
        return (one, other) if self.rng.random() < 0.5 else (other, one)

    def changed(self, tree):
        """With a number, a sign or a function changed somewhere."""
        if isinstance(tree, float):
            return self.rng.choice((tree + 1e-3, tree * (1 + 2.0**-50), -tree, tree + 1.0, tree + 2.0))
        if isinstance(tree, str):
            return self.rng.choice((("*", 1.0 + 1e-9, tree), ("-", 0.0, tree), ("abs", tree)))
        function, *parts = tree
        swaps = {"max": "min", "sqrt": "abs", "sin": "cos", "asin": "sin", "relu": "abs", "+": "-", "sigmoid": "tanh"}
        if self.rng.random() < 0.2 and function in swaps and len(parts) <= 2:
            return (swaps[function], *parts)
        place = self.rng.randrange(len(parts))
        return (function, *parts[:place], self.changed(parts[place]), *parts[place + 1 :])

    def points(self):
        """Corners, axes and points at random."""
        for _ in range(12):
            yield {
                name: self.rng.choice((low, high, min(max(0.0, low), high), self.rng.uniform(low, high)))
                for name, (low, high) in self.box.items()
            }


def value(tree, point):
    try:
        return hostile.plain(tree, point)
    except (hostile.NoValueError, TypeError):  # TypeError: mpmath's power of a negative number is complex
        return None


def wrong(one, other, box, points) -> str:
    """What is wrong with what is said of a pair, in 50 digits; and what is said."""
    bound = same(parse(hostile.written(one)), parse(hostile.written(other)), box)
    if not math.isfinite(bound):
        return ""
    with mp.workdps(hostile.DIGITS):
        for point in points:
            a, b = value(one, point), value(other, point)
            if a is None or b is None:
                return f"no value at {point}, bound {bound}"
            if abs(a - b) > bound + mp.mpf(10) ** -40 * (1 + abs(a)):
                return f"{mp.nstr(abs(a - b), 5)} apart at {point}, bound {bound}"
    return "same"


@pytest.mark.parametrize("part", range(PARTS))
def test_what_is_the_same_holds_in_fifty_digits(part):
    """Whatever identities were used, where they hold and where they do not, and with something changed or not."""
    verdicts = []
    for seed in range(part, PAIRS, PARTS):
        pair = Pair(seed)
        verdicts.append(wrong(pair.one, pair.other, pair.box, pair.points()))
        assert verdicts[-1] in ("", "same"), f"{hostile.written(pair.one)} and {hostile.written(pair.other)}"
    assert verdicts.count("same") > len(verdicts) / 8


@pytest.mark.parametrize("part", range(4))
def test_hostile_formulas_are_the_same_only_where_they_have_values(part):
    for seed in range(3 + 16 * part, 400, 64):
        case = hostile.drawn(seed)
        names = {name: case.domain[name] for name in case.domain}
        for one, other in ((case.built, case.target), (case.target, case.built)):
            if hostile._names(one) | hostile._names(other) <= set(names):
                assert wrong(one, other, names, case.points[:60]) in ("", "same"), hostile.written(case.target)


def test_says_same_wherever_the_canonical_forms_do():
    """Of pairs that are defined by plain intervals."""
    both = 0
    for seed in range(PAIRS // 2):
        pair = Pair(seed, POSITIVE if seed % 2 else None)
        one, other = parse(hostile.written(pair.one)), parse(hostile.written(pair.other))
        if not (defined(one, pair.box) and defined(other, pair.box)):
            continue
        sides = {name: Interval(arb(low), arb(high)) for name, (low, high) in pair.box.items()}
        if Canonical(lambda node, sides=sides: float(bounds(node, sides).lower)).same(one, other):
            both += 1
            assert same(one, other, pair.box) == 0.0, (hostile.written(pair.one), hostile.written(pair.other))
    assert both > PAIRS // 16


WHOLE, UNIT, ABOVE, BELOW = (-1.0, 1.0), (0.0, 1.0), (0.5, 2.0), (-2.0, -1.0)
THE_SAME = [
    ("x*exp(-log(x + y))*y", "x*y/(x + y)", ABOVE, ABOVE),
    ("sin((x^2 + x*y)/(x + y))", "sin(x)", ABOVE, ABOVE),
    ("(x^2 - y^2)/(x + y)", "x - y", ABOVE, ABOVE),
    ("(x + y + 1)^0.5*(x + y + 1)^0.5", "x + y + 1", UNIT, UNIT),
    ("(x - y)^3/(x - y)^2", "x - y", (3.0, 4.0), UNIT),
    ("sqrt(x)^2", "x", UNIT, UNIT),
    ("sqrt(x^2)", "x", UNIT, UNIT),
    ("sqrt(x*y)", "sqrt(x)*sqrt(y)", UNIT, UNIT),
    ("sqrt(2*x^2*y)", "x*sqrt(2)*sqrt(y)", ABOVE, UNIT),
    ("sqrt((x + 1)^2*y)", "sqrt(y)*(x + 1)", UNIT, UNIT),
    ("(x^3)^0.5", "x^1.5", UNIT, UNIT),
    ("log(x^2*sqrt(y))", "2*log(x) + log(y)/2", ABOVE, ABOVE),
    ("log(y*exp(x))", "x + log(y)", WHOLE, ABOVE),
    ("x^y", "exp(y*log(x))", ABOVE, WHOLE),
    ("e^x", "exp(x)", WHOLE, WHOLE),
    ("clamp(x, -0.5, 0.25)", "min(max(x, -0.5), 0.25)", UNIT, UNIT),
    ("clamp(x, 0.5, -0.5)", "-0.5", WHOLE, WHOLE),
    ("max(x, y, 0.5)", "0.5 + relu(y + relu(x - y) - 0.5)", WHOLE, WHOLE),
    ("relu(x^2 - x + 0.3)", "x^2 - x + 0.3", WHOLE, WHOLE),
    ("atan2(y, x)", "atan(y*exp(-log(x)))", ABOVE, WHOLE),
    ("asin(x)", "pi/2 - 2*asin(sqrt((1 - x)/2))", WHOLE, WHOLE),
    ("acos(x)", "2*asin(sqrt((1 - x)/2))", WHOLE, WHOLE),
    ("exp(700*x)*exp(700*x)", "exp(1400*x)", WHOLE, WHOLE),
    ("where(x < 0.001, 1, sin(x)/x)*y*y", "y^2*where(x < 0.001, 1, sin(x)/x)", UNIT, UNIT),
    ("log(1 - ((1 + x)*y - y)/1.5)", "log(1 - x*y/1.5)", UNIT, UNIT),
]  # fmt: skip
NOT_SHOWN = [  # no values somewhere, or another function
    ("x/x", "1", WHOLE, UNIT),
    ("exp(log(x))", "x", UNIT, UNIT),
    ("sqrt(x)^2", "x", WHOLE, UNIT),
    ("log(x) - log(x)", "0*y", WHOLE, UNIT),
    ("0*(1/x)", "0*x", WHOLE, UNIT),
    ("x", "x + 0*log(x)", UNIT, UNIT),
    ("1/(1/x)", "x", UNIT, UNIT),
    ("x^y", "exp(y*log(x))", UNIT, UNIT),
    ("sqrt(x*y)", "sqrt(x)*sqrt(y)", WHOLE, WHOLE),
    ("log(x^2)", "2*log(x)", BELOW, UNIT),
    ("(x - 1.5)^2/(x - 1.5)", "x - 1.5", (1.0, 2.0), UNIT),
    ("where(x < 0.5, 1, y)", "where(x < 0.5, 1, exp(log(y)))", UNIT, UNIT),
    ("atan2(y, x)", "atan(y/x)", WHOLE, ABOVE),
]
APART = [  # other functions, further apart than zero: the formulas and a point where they are
    ("sqrt(-x)", "0*x", (-1.0, 0.0), (-1.0, 0.0)),
    ("atan2(x, y - 3)", "atan(x/(y - 3))", ABOVE, (1.0, 1.0)),
    ("sigmoid(-x)", "sigmoid(x)", WHOLE, (1.0, 0.0)),
    ("sqrt(-x*(y + 1))", "0*x", (-1.0, 0.0), (-1.0, 0.0)),
    ("sqrt(x^2)", "x", WHOLE, (-1.0, 0.0)),
    ("sqrt(x^2*(y + 2))", "x*sqrt(y + 2)", WHOLE, (-1.0, 1.0)),
    ("(x^2)^1.5", "x^3", WHOLE, (-1.0, 0.0)),
    ("(x^2*y^2)^0.5", "x*y", WHOLE, (1.0, -1.0)),
    ("(x^2*exp(y))^0.5", "x*exp(y/2)", WHOLE, (-1.0, 1.0)),
    ("asin(x*sqrt(y + 1)/2)", "pi/4 - asin(1 - x^2*(y + 1)/2)/2", WHOLE, (-1.0, 1.0)),
    ("clamp(x, 0.5, -0.5)", "0.5 + relu(x - 0.5) - relu(x + 0.5)", WHOLE, (-1.0, 0.0)),
    ("relu(-x)", "relu(x)", WHOLE, (-1.0, 0.0)),
    ("abs(x)", "x", (-0.01, 1.0), (-0.01, 0.0)),
    ("relu(x + 0.99)", "x + 0.99", WHOLE, (-1.0, 0.0)),
    ("cos(x)", "cos(x + 1e-9)", WHOLE, (1.0, 0.0)),
    ("sigmoid(-x)", "-sigmoid(x)", WHOLE, (1.0, 0.0)),
    ("x*0.1", "x/10", WHOLE, (1.0, 0.0)),
    ("0.3989422804014327*exp(-(x - y)^2)", "exp(-(x - y)^2)/sqrt(2*pi)", WHOLE, (0.0, 0.0)),
    ("0.33*x*y + 0.25*x", "x*y/3 + x/4", WHOLE, (1.0, -1.0)),
    ("x/(x + y)*1.001", "x/(x + y)", (0.5, 1.0), (1.0, 0.5)),
    ("0.33/(4*x + 2*y)", "1/(12*x + 6*y)", (0.5, 1.0), (0.5, 0.5)),
    ("0.33/(x^2 + x*y)", "1/(3*x^2 + 3*x*y)", (2.0, 3.0), (2.0, 2.0)),
    ("x + 1e-300*y", "x", WHOLE, (1.0, 1.0)),
    ("max(x, y)", "min(x, y)", WHOLE, (1.0, -1.0)),
]


def boxed(x, y):
    return {"x": x, "y": y}


@pytest.mark.parametrize(("one", "other", "x", "y"), THE_SAME)
def test_identities_graphs_use(one, other, x, y):
    assert same(parse(one), parse(other), boxed(x, y)) < 1e-25
    assert same(parse(other), parse(one), boxed(x, y)) < 1e-25
    assert same(parse(f"({one})*1.0001"), parse(other), boxed(x, y)) > 0.0


@pytest.mark.parametrize(("one", "other", "x", "y"), NOT_SHOWN)
def test_what_has_no_value_somewhere_is_not_the_same(one, other, x, y):
    assert same(parse(one), parse(other), boxed(x, y)) == same(parse(other), parse(one), boxed(x, y)) == math.inf


@pytest.mark.parametrize(("one", "other", "ends", "point"), APART)
def test_bounds_are_above_differences(one, other, ends, point):
    at = {name: Interval(arb(end), arb(end)) for name, end in zip("xy", point, strict=True)}
    with precision(1200):
        apart = abs(bounds(parse(one), at).lower - bounds(parse(other), at).lower)
        assert apart > 0
        for bound in (
            f(parse(one), parse(other), boxed(ends, ends)) for f in (same, lambda a, b, box: same(b, a, box))
        ):
            assert apart <= arb(bound)


def test_roundings_are_charged_by_the_size_of_the_target_and_no_more():
    bound = same(
        parse("0.3989422804014327*exp(-(x - y)^2*9)"), parse("exp(-(x - y)^2*9)/sqrt(2*pi)"), boxed(WHOLE, WHOLE)
    )
    assert 0.0 < bound < 1e-16


def test_where_the_target_has_values():
    """A root of what is not shown to be positive is one of the target: where that has a value; others are refused."""
    target, box = parse("sqrt(x^2 + y^2 - 2*x*y*cos(x - y))"), boxed(ABOVE, ABOVE)
    found = compared(parse("sqrt(2)*sqrt(x^2/2 + y^2/2 - ((3 + x)*y - 3*y)*cos(y - x))"), target, box)
    assert (found.bound < 1e-16, [node.function for node in found.needs]) == (True, ["sqrt"])
    assert same(target, target, box) == math.inf
    other = parse("sqrt(x^2 + y^2 - 2*x*y*cos(x - y)) + 0*sqrt(x - y)")
    assert compared(other, target, box).bound == math.inf
    assert len(compared(other, other, box).needs) == 2
    assert compared(other, other, box).bound == 0.0
    assert compared(parse("sqrt(y - x)"), parse("sqrt(x - y)"), box).bound == math.inf


def test_branches_say_nothing_about_each_other():
    """A root in a branch has a value only where that is chosen."""
    target = parse("where(x < 0, 0.5 + 0*sqrt(y - x - 1), 0.5)")
    assert compared(parse("0.5 + 0*sqrt(y - x - 1)"), target, boxed(WHOLE, WHOLE)).bound == math.inf
    target = parse("where(x < 0.5, 0.5, 0.5 + 0*sqrt(x))")
    assert same(parse("0.5 + 0*x"), target, boxed(WHOLE, WHOLE)) < 2.0
    assert compared(parse("0.5 + 0*sqrt(x)"), target, boxed(WHOLE, WHOLE)).bound == math.inf


def test_terms_without_a_known_size_have_no_bound():
    found = compared(parse("log(x)"), parse("1.001*log(x)"), boxed(UNIT, UNIT))
    assert found.bound == math.inf
    assert compared(parse("log(x)"), parse("log(x)"), boxed(UNIT, UNIT)).bound == 0.0


def test_large_numbers_and_powers_end():
    x, s = Variable("x"), Apply("+", (Variable("x"), Variable("y")))
    high = [Apply("^", (s, Constant(p))) for p in (2500.5, 99.0, 100.0)]
    product = x
    for _ in range(60):
        product = Apply("*", (product, Constant(0.1)))
    box = boxed(ABOVE, ABOVE)
    assert same(Apply("+", (high[0], x)), Apply("+", (x, high[0])), box) == 0.0
    assert same(Apply("/", (high[2], high[1])), s, box) == 0.0
    assert same(product, Constant(0.0), box) > 0.0
    assert same(Apply("^", (x, Constant(1e10))), Apply("^", (x, Constant(1e10))), box) == 0.0
    assert same(Apply("^", (x, Constant(4001.0))), Apply("^", (x, Constant(4000.0))), {"x": (0.5, 1.0)}) > 0.06 / 4000


def test_products_that_are_too_long_are_not_multiplied_out_in_part():
    box = dict.fromkeys("xyz", UNIT)
    text = "({0})^30 + x*y*z", "({0})^13 + x*y*z"
    assert same(*(parse(each.format("x + y + z + 1")) for each in text), box) > 4.0**29
    x, y = Variable("x"), Variable("y")
    root = Apply("^", (Apply("*", (x, x, y, y)), Constant(0.5)))
    high, low = (Apply("+", (Apply("*", (Apply("^", (root, Constant(p))), x)), y)) for p in (6001.0, 131.0))
    assert same(high, low, boxed(WHOLE, WHOLE)) > 0.4


@pytest.mark.parametrize("value", [Fraction(0), Fraction(-7, 3), Fraction(2**400 + 1, 3**100), Fraction(-(2**54) - 1)])
def test_rational_numbers_are_written_exactly(value):
    with precision(2000):
        span = bounds(rational(value), {})
        exact = arb(fmpq(value.numerator, value.denominator))
        assert span.lower <= exact.upper()
        assert exact.lower() <= span.upper
        assert span.upper - span.lower <= abs(exact) * arb(2) ** -1900


@pytest.mark.parametrize(
    "sides", [{"x": (1.0, 0.0)}, {"x": (0.0, math.inf)}, {"x": (math.nan, 1.0)}, {"y": (0.0, 1.0)}]
)
def test_boxes_have_finite_sides_for_all_variables(sides):
    with pytest.raises(CertificateError):
        same(parse("x"), parse("x"), sides)
