"""Hostile text: refused with a sentence, quickly, and never executed."""

from __future__ import annotations

import ast
import copy
import pickle
import sys
from pathlib import Path

import numpy as np
import pytest
from flint import arb
from hypothesis import given, settings
from hypothesis import strategies as st

import attnforge.targets.expression as expression
from attnforge.errors import TargetError
from attnforge.targets.expression import derivative, enclose, evaluate, parse, to_text
from attnforge.targets.expression.functions import FUNCTIONS
from tests.clock import at_most

HOSTILE = [
    "__import__('os').system('x')",
    "().__class__",
    "x.real",
    "x.__class__.__bases__[0]",
    "__builtins__",
    "lambda: 1",
    "lambda",
    "(lambda x: x)(1)",
    "9^9^9",
    "9**9**9",
    "9**9**9**9",
    "(" * 1_000_000,
    "where(" * 1_600 + "x",
    "where(x<0," * 900 + "x" + ",x)" * 900,
    "where(" * 120 + "x<0,x,x)" + "<0,x,x)" * 119,
    "where(x<0,x,x" * 700,
    "sum(" * 2_000 + "x" + ")" * 2_000,
    "sum(x*" * 99 + "x[99]" + ")" * 99,
    "x[99999] + prod(x)",
    "x < y",
    "x <= y < z",
    "where(x == y, 1, 2)",
    "where(x != y, 1, 2)",
    "where(x < y and y < z, 1, 2)",
    "where(True, 1, 2)",
    "2^(3^(4^5))",
    "x^(10*10)",
    "1e999",
    "9" * 400,
    "(" * 10_000,
    "(" * 5_000 + "x" + ")" * 5_000,
    "sin(" * 2_000 + "x" + ")" * 2_000,
    "x" * 20_000,
    "-" * 5_000 + "x",
    "x" + "/x" * 4_000,
    "x" + "^x" * 4_000,
    "x" + "+x" * 4_999,
    "x\0",
    "\0",
    "\uff11 + x",  # a fullwidth digit
    "\u0445",  # a Cyrillic letter that looks like x
    "\ud835\udc65",  # surrogates
    "𝐱",
    "s\u0131n(x)",
    "x\u200b",
    "x\u00a0+ 1",
    "x\x0c",
    "x[[0]]",
    "x[-1]",
    "x[1e9]",
    "x[0:1]",
    "x[y]",
    "x[0",
    "x[",
    "[red]x",
    "[x for x in y]",
    "{x}",
    "<script>alert(1)</script>",
    "$x$",
    "\\frac{1}{2}",
    "",
    " \n\t ",
    "x = 1",
    "x == 1",
    "x; y",
    "x := 1",
    "x if y else z",
    "x or y",
    "'x'",
    '"x"',
    "f'{x}'",
    "sin",
    "sin()",
    "sin(x, x)",
    "sin(,)",
    "sin(x,)",
    "min()",
    "2 x",
    "2x",
    "1_000",
    "0x10",
    "1j",
    "1.2.3",
    "1..2",
    "nan",  # a variable: see below
    "inf",
    "x // 2",
    "x % 2",
    "x @ y",
    "~x",
    "!x",
    "x!",
    "*x",
    "**x",
    "x y z",
    "eval(x)",
    "exec(x)",
    "open(x)",
    "import os",
    "# x",
    "x # y",
    "`x`",
]
CALLS = 20 * max(map(len, HOSTILE))  # for each character of the longest
PLAIN_NAMES = {"nan", "inf"}  # names like any other: they mean a variable, never a number


@pytest.mark.parametrize(
    "text", [text for text in HOSTILE if text not in PLAIN_NAMES], ids=lambda text: repr(text[:30])
)
def test_refused_with_a_caret(text):
    with at_most(CALLS), pytest.raises(TargetError) as caught:
        parse(text)
    message = str(caught.value)
    assert "column" in message
    assert message.split("\n")[2].strip() == "^"
    assert caught.value.remedy
    assert message.isascii()
    assert message.replace("\n", "").isprintable()
    assert len(message) < 600


def test_nan_is_a_name():
    with pytest.raises(TargetError, match="needs a value for `nan`"):
        evaluate(parse("nan"), {})


@settings(derandomize=True, deadline=None, max_examples=400)
@given(st.one_of(st.text(max_size=40), st.text("x(),+-*/^[]<>0123456789e.sincmaxp ", max_size=40)))
def test_any_text_parses_or_is_refused(text):
    try:
        node = parse(text)
    except TargetError:
        return
    assert parse(to_text(node)) == node


@pytest.mark.parametrize(
    "text",
    [
        "-" * 99 + "x",
        "sin(" * 99 + "x" + ")" * 99,
        "x" + "/x" * 99,
        "x" + "^x" * 99,
        "(" * 99 + "x" + "^2)" * 99,
        "x" + "+x" * 1_998,
        "x" + "*x" * 1_998,
        "max(x" + ",x" * 1_998 + ")",
        "(" * 98 + "x" + "*x+x)" * 49 + ")" * 49,
        "where(x<0.1," * 98 + "x" + ",0.1)" * 98,
        "where(" * 98 + "x" + "<0.1,x,0.1)" * 98,
        "hypot(" * 98 + "x" + ",2)" * 98,
    ],
    ids=lambda text: text[:12],
)
def test_the_deepest_accepted_trees_do_not_exhaust_the_stack(text):
    node = parse(text)

    def everything():
        slope = derivative(node, "x")
        assert parse(to_text(node)) == node
        assert hash(parse(text)) == hash(node)
        assert derivative(parse(text), "x") == slope
        assert repr(node) == repr(parse(text))
        assert evaluate(node, {"x": np.array([0.5, 1.0])}).shape == (2,)
        assert evaluate(slope, {"x": np.array([0.5, 1.0])}).shape == (2,)
        enclose(node, {"x": arb(0.5)})
        enclose(slope, {"x": arb(0.5)})
        repr(slope)

    _with_little_stack(everything)
    assert copy.deepcopy(node) == node
    assert pickle.loads(pickle.dumps(node)) == node


def test_huge_intermediate_numbers_cost_nothing():
    with at_most(4_000 * (5 + 2 * len(FUNCTIONS))):  # for each of the texts
        _enclose_huge_numbers()


def _enclose_huge_numbers():
    for text in ["exp(exp(exp(exp(x))))", "(((x^64)^64)^64)^64", "2^2^2^2^2^x", "tan(exp(exp(x)))", "x^exp(exp(x))"]:
        enclose(parse(text), {"x": arb(1000)})
        evaluate(parse(text), {"x": 1000.0})
    for name in [name for name, function in FUNCTIONS.items() if function.arity == 1 and not function.operator]:
        for minus in ["", "-"]:
            enclose(parse(f"{name}({minus}((((x^64)^64)^64)^64)^64)"), {"x": arb(1000)})


def test_the_package_contains_no_evaluation():
    forbidden = {"eval", "exec", "compile", "literal_eval", "sympify", "parse_expr", "lambdify", "__import__"}
    for path in Path(expression.__file__).parent.glob("*.py"):
        names = {
            node.id if isinstance(node, ast.Name) else node.attr
            for node in ast.walk(ast.parse(path.read_text()))
            if isinstance(node, ast.Name | ast.Attribute)
        }
        allowed = {"compile"} if "re" in names else set()  # re.compile
        assert not (names & (forbidden - allowed)), path.name


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
