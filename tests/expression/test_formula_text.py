"""Text of formulas: read as Python reads it, written and read again; hostile text refused at its place."""

from __future__ import annotations

import contextlib
import math
import pickle
import re
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import attnforge as af
from tests.clock import at_most
from tests.refusals import refused

BOX = {"x": (-1, 1)}
DOORS = {"formula": af.formula, "compile": lambda text: af.compile(text, BOX, 1e-2)}
POINT = {"x": 1.7, "y": 0.6, "z": 2.3}  # positive: roots are real


def by_python(text):
    """What Python makes of the same operators, names and brackets."""
    return float(eval(text.replace("^", "**"), {"max": max, "sin": math.sin} | POINT))


operands = st.sampled_from(["x", "y", "z", "2", "0.5", "1e1", ".25", "3."])
texts = st.recursive(
    operands,
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from([" + ", "-", "*", "/", " - ", " * "]), inner).map("".join),
        st.tuples(operands, st.sampled_from(["^", "**"]), st.sampled_from(["2", "-1", "-2^2", "2^-1"])).map("".join),
        st.tuples(st.sampled_from(["-", "+", "--"]), inner).map("".join),
        inner.map(lambda text: f"({text})"),
        inner.map(lambda text: f"sin( {text} )"),
        st.tuples(inner, inner, inner).map(lambda three: f"max({','.join(three)})"),
    ),
    max_leaves=10,
)


@settings(derandomize=True, deadline=None, max_examples=300)
@given(texts)
def test_operators_bind_as_in_python(text):
    try:
        wanted = by_python(text)
    except (ArithmeticError, ValueError):  # beyond float64, and the sine of infinity
        return
    formula = af.formula(text, ("x", "y", "z"))
    if math.isfinite(wanted):
        assert formula(**POINT) == pytest.approx(wanted, rel=1e-9, abs=1e-9)
    assert af.formula(str(formula), ("x", "y", "z")).trees == formula.trees
    assert str(af.formula(str(formula), ("x", "y", "z"))) == str(formula)


CANONICAL = {
    "x-(-1)": "x - -1", "x - - y": "x - -y", "(x*y)*z/(x*y)": "(x*y)*z/(x*y)", "x - (y*z)": "x - y*z",
    "-(x*y)": "-(x*y)", "(x^y)^z": "(x^y)^z", "max( x,0 )": "max(x, 0)", "0.1+1e-9*x": "0.1 + 1e-9*x",
    "  x\n": "x", "x[007]": "x[7]", "+x": "x", "x**2": "x^2", "ln(x) + arcsin(x)": "log(x) + asin(x)",
    "swish(x)": "silu(x)", "1e3 + .5": "1000 + 0.5", "where(x<1,-x,1)": "where(x < 1, -x, 1)",
    "sum(x[0], x[1])": "x[0] + x[1]", "x[2] - mean(x)": "x[2] - (x[0] + x[1] + x[2])/3",
    "prod(a, cos(b))": "a*cos(b)", "norm(a, b)": "hypot(a, b)", "d = x^2; sum(d) + x[1]": "(x[0]^2 + x[1]^2) + x[1]",
    "t = sin(x); [t + y, t]": "t1 = sin(x); [t1 + y, t1]", "[x, 2]": "[x, 2]", "t = sin(x); t*t": "t1 = sin(x); t1*t1",
    "u = sin(t1); u*u": "tt1 = sin(t1); tt1*tt1", "[x]": "[x]", " [max(x, y), (x)] ": "[max(x, y), x]",
    "[-0.0*x, 0.0*x]": "[-0*x, 0*x]",
}  # fmt: skip


@pytest.mark.parametrize("text", CANONICAL)
def test_canonical_text(text):
    assert str(af.formula(text)) == CANONICAL[text]


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_numbers_come_back_exactly(value):
    text = str(af.formula(f"{value!r}*x"))
    assert af.formula(text)(x=1.0).hex() == value.hex() or value == 0


def test_shared_parts_are_named_so_that_towers_have_a_short_text():
    def doubled(x):
        for _ in range(300):
            x = x + x
        return x

    tower = af.formula(doubled)
    assert len(str(tower)) < 10_000
    assert len(repr(tower)) < 200
    assert af.formula(str(tower)).trees == tower.trees
    assert af.formula(str(tower))(1.0) == 2.0**300


def test_names_of_the_domain_come_before_those_of_functions():
    for name in ("exp", "max", "gamma", "step", "norm", "sinc", "where", "sum"):
        formula = af.formula(f"2*{name} + exp(x*{name})*max(x, {name})", ("x", name))
        assert formula([0.5, 0.25]) == pytest.approx(0.5 + math.exp(0.125) * 0.5)
    for name in ("e", "pi"):  # silently, `e` would be Euler's number and the input unused
        with refused(af.TargetError):
            af.compile(f"x + {name}", {"x": (0, 1), name: (0, 1)}, 1e-2)


# Refusals: the place is shown, and nothing is executed.

AT = {
    "sine(x)": 1, "1 + sqr(x)": 5, "foo(x)": 1, "x < 1": 3, "max(x < 1, 2)": 7, "where((x < 1), 1, 2)": 10,
    "where(x < 1 < y, 1, 2)": 13, "where(x, 1, 2)": 1, "where(x < 1, 2)": 1, "where": 1, "gamma + 1": 1, "norm": 1,
    "1 + sum(x)": 5, "2 x": 3, "2(x)": 2, "x y": 3, "x = 1": 3, "sin": 1, "sin(x, x)": 1, "max(x)": 1, "clamp(x, 1)": 1,
    "(x + 1": 1, "x + 1)": 6, "(x, y)": 3, "x +": 4, "x^65": 3, "x^-65": 3, "x^(1/0)": 3, "x[100000]": 3,
    "lambda + 1": 1, "sum()": 5, "[x, y": 1, "[x, y] + 1": 8, "[x, y], z": 7, "[x, [y]]": 5, "[]": 2, "[x,, y]": 4,
    "[x)]": 3, "[sin(x), co(x)]": 10, "t = x^2; u = co(t); [t]": 14, "t = x^2; [t, t u]": 16,
}  # fmt: skip


@pytest.mark.parametrize("text", AT)
def test_errors_point_at_the_place(text):
    with refused(af.TargetError) as caught:
        af.formula(text)
    first, shown, caret, *_ = str(caught.value).split("\n")
    assert f"(column {AT[text]})" in first + caret + str(caught.value)
    assert (shown, caret) == ("    " + text, "    " + " " * (AT[text] - 1) + "^")


@pytest.mark.parametrize(
    ("slip", "meant"),
    [("sni", "sin"), ("Sin", "sin"), ("csoh", "cosh"), ("sigmod", "sigmoid"), ("lg", "log"), ("flor", "floor")],
)
def test_one_slip_is_told(slip, meant):
    with refused(af.TargetError) as caught:
        af.formula(f"{slip}(x)")
    assert f"`{meant}`" in str(caught.value)


@pytest.mark.parametrize("name", ["ceil", "round", "mod", "frac", "sgn", "log10", "cbrt", "cot", "asinh", "leaky_relu"])
def test_what_is_to_be_written_instead_can_be_read(name):
    with refused(af.TargetError) as caught:
        af.formula(f"{name}(x)")
    (instead,) = re.findall(r"Write `([^`]+)`", str(caught.value))
    af.formula(instead)


HOSTILE = [
    "__import__('os').system('x')", "().__class__", "x.real", "x.__class__.__bases__[0]", "__builtins__", "lambda: 1",
    "lambda", "(lambda x: x)(1)", "9^9^9", "9**9**9", "9**9**9**9", "(" * 300_000, "where(" * 1_600 + "x",
    "where(x<0," * 900 + "x" + ",x)" * 900, "where(" * 120 + "x<0,x,x)" + "<0,x,x)" * 119, "where(x<0,x,x" * 700,
    "sum(" * 2_000 + "x" + ")" * 2_000, "sum(x*" * 99 + "x[99]" + ")" * 99, "x < y", "x <= y < z",
    "where(x == y, 1, 2)", "where(x != y, 1, 2)", "where(x < y and y < z, 1, 2)", "where(True, 1, 2)", "2^(3^(4^5))",
    "x^(10*10)", "1e999", "9" * 400, "(" * 10_000, "(" * 5_000 + "x" + ")" * 5_000, "sin(" * 2_000 + "x" + ")" * 2_000,
    "x\0", "\0", "\uff11 + x", "\u0445", "\ud835\udc65", "𝐱", "s\u0131n(x)", "x\u200b", "x\u00a0+ 1", "x\x0c", "x[[0]]",
    "x[-1]", "x[1e9]", "x[0:1]", "x[y]", "x[0", "x[", "[red]x", "[x for x in y]", "{x}", "<script>alert(1)</script>",
    "$x$", "\\frac{1}{2}", "", " \n\t ", "x == 1", "x := 1", "x if y else z", "x or y", "'x'", '"x"', "f'{x}'", "sin()",
    "sin(,)", "sin(x,)", "min()", "2x", "1_000", "0x10", "1j", "1.2.3", "1..2", "x // 2", "x % 2", "x @ y", "~x", "!x",
    "x!", "*x", "**x", "x y z", "eval(x)", "exec(x)", "open(x)", "import os", "# x", "x # y", "`x`",
]  # fmt: skip
TOO_LONG = [  # for one formula, as ``compile`` takes it; a program of shared parts may have more
    "x" * 20_000, "-" * 5_000 + "x", "x" + "/x" * 4_000, "x" + "^x" * 4_000, "x" + "+x" * 4_999,
    "+".join(["x"] * 2_000), "-" * 100 + "x", "+".join([".1"] * 1_990), "sum(x*sum(x*sum(x*sum(x)))) + x[29]",
]  # fmt: skip


@pytest.mark.parametrize("text", HOSTILE, ids=lambda text: repr(text[:30]))
@pytest.mark.parametrize("door", DOORS)
def test_hostile_text_is_refused_with_a_caret(door, text):
    with at_most(40 * max(map(len, HOSTILE))), refused(af.TargetError) as caught:
        DOORS[door](text)
    message = str(caught.value)
    assert message.split("\n")[2].strip() == "^"
    assert caught.value.remedy
    assert message.isascii()
    assert message.replace("\n", "").isprintable()
    assert len(message) < 600


@pytest.mark.parametrize("text", TOO_LONG, ids=lambda text: text[:12])
def test_a_formula_has_limits(text):
    with at_most(3_000_000), refused(af.TargetError) as caught:
        af.compile(text, BOX if "sum" not in text else af.Box(0, 1, shape=(30,)), 1e-2)
    assert len(str(caught.value)) < 600


@settings(derandomize=True, deadline=None, max_examples=400)
@given(st.one_of(st.text(max_size=40), st.text("x(),+-*/^[]<>0123456789e.sincmaxp =;t", max_size=40)))
def test_any_text_is_read_or_refused(text):
    try:
        formula = af.formula(text)
    except af.TargetError:
        return
    assert af.formula(str(formula), formula.names).trees == formula.trees


DEEP = [
    "-" * 99 + "x", "sin(" * 99 + "x" + ")" * 99, "x" + "/x" * 99, "x" + "^x" * 99, "(" * 99 + "x" + "^2)" * 99,
    "x" + "+x" * 1_998, "x" + "*x" * 1_998, "max(x" + ",x" * 1_998 + ")", "(" * 98 + "x" + "*x+x)" * 49 + ")" * 49,
    "where(x<0.1," * 98 + "x" + ",0.1)" * 98, "where(" * 98 + "x" + "<0.1,x,0.1)" * 98,
    "hypot(" * 98 + "x" + ",2)" * 98,
]  # fmt: skip


@pytest.mark.parametrize("text", DEEP, ids=lambda text: text[:12])
def test_the_deepest_formulas_need_little_stack_and_little_work(text):
    formula = af.formula(text)

    def everything():
        assert af.formula(str(formula)).trees == formula.trees
        formula([0.5, 1.0])
        formula.enclose({"x": (0.5, 0.6)}, cells=1)
        repr(formula)

    with at_most(8_000_000):
        _with_little_stack(everything)
    assert pickle.loads(pickle.dumps(formula.trees)) == formula.trees


def _with_little_stack(action):
    """Run with room for 60 more frames than now."""
    frames, frame = 0, sys._getframe()
    while frame is not None:
        frames, frame = frames + 1, frame.f_back
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(frames + 60)
    try:
        action()
    finally:
        sys.setrecursionlimit(limit)


TOWERS = {
    "exp(exp(exp(exp(1000*x))))", "((((1000*x)^64)^64)^64)^64", "2^2^2^2^2^(1000*x)", "(-2)^2^2^2^2^(1000*x)",
    "gamma(-2^2^2^2^2^(1000*x))", "tan(2^2^2^2^2^(1000*x))", "(2/x)^2^2^2^2^(1000*x)", "floor(2^2^2^2^2^(1000*x))",
    "(1000*x)^exp(exp(1000*x))",
}  # fmt: skip


@pytest.mark.parametrize("text", sorted(TOWERS))
def test_towers_beyond_all_numbers_do_not_end_the_process(text):
    with at_most(1_000_000), contextlib.suppress(af.DomainError):
        af.formula(text).enclose({"x": (0.9, 1)}, cells=1)
    with at_most(1_000_000), refused(af.DomainError):
        af.formula(text)(0.9)


BAD_PROGRAMS = {
    "t = sin(x; [t]", "[x, y", "[", "[]", "[x, ]", "[x] + y", "[x, [y, x]]", "sin(x); [x]", "; [x]", "x = 3; [x]",
    "v = 3; [v]", "sin = 3; [x]", "pi = 3; [x]", "sum = 3; [x]", "norm = 3; [x]", "t = 1; t = 2; [t]", "t[0] = 1; [t]",
    "t = 1; [t[0]]", "t = u; u = x; [t]", "t = t + x; [t]", "[z]", "__t = 1; [x]", "lambda = 1; [x]", "t = x = y; [t]",
    "t = x; [t]; [t]", "t = x.__class__; [t]", "t = 100; [x^t]", "t = tanh(x); [t y]", "d = v - w; [d]",
    "d = v*z; [sum(d)]", "sum(v*z)", "x; y",
}  # fmt: skip


@pytest.mark.parametrize("text", sorted(BAD_PROGRAMS))
def test_bad_programs(text):
    with refused(af.TargetError):
        af.formula(text, ("x", "y", "v[0]", "v[1]", "w[0]", "w[1]"))


def hostile_programs() -> dict[str, tuple[str, tuple[str, ...] | None]]:
    chain = "; ".join(f"t{i + 1} = t{i} + t{i}" for i in range(1, 8_000))
    powers = "; ".join(f"t{i + 1} = x^t{i} + t{i}" for i in range(1, 8_000))
    constants = "; ".join(f"t{i + 1} = t{i} + 0; s{i} = x^t{i}" for i in range(1, 5_000))
    return {
        "error in a shared tree": (f"t1 = sin(x); {chain}; [sin(t8000) t3]", ("x",)),
        "too long": ("[x" + " + x" * 4_000_000 + "]", ("x",)),
        "deep brackets": ("[" + "(" * 100_000 + "x" + ")" * 100_000 + "]", ("x",)),
        "exponents of variables": (f"t1 = x; {powers}; [t8000", ("x",)),
        "exponents of numbers": (f"t1 = 1; {constants}; [x]", ("x",)),
        "sums of one large part": (f"t = x{'+ x' * 10_000}; [{','.join(['sum(t)'] * 10_000)}]", ("x",)),
        "long names": (f"[{'a' * 200_000} + {'b ' * 200_000}", None),
        "an entry of one that has no others": ("sum(x)", ("x[0]", "x[2]")),
    }


@pytest.mark.parametrize("name", hostile_programs())
def test_hostile_programs_are_refused_in_time(name):
    text, names = hostile_programs()[name]
    with at_most(30 * len(text) + 20_000_000), refused(af.TargetError):
        af.formula(text, names)
