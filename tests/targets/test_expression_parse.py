"""Text to tree: hand-computed trees, precedence, canonical text, error texts."""

from __future__ import annotations

import copy
import pickle

import pytest

from attnforge.errors import TargetError
from attnforge.targets.expression import Apply, Constant, Variable, parse, to_text, variables
from attnforge.targets.expression.functions import FUNCTIONS, NAMES
from attnforge.targets.expression.limits import MAX_CHARACTERS, MAX_DEPTH, MAX_NODES
from attnforge.targets.expression.tree import depth, size

X, Y, Z = Variable("x"), Variable("y"), Variable("z")


def number(value):
    return Constant(float(value))


def negative(node):
    return Apply("-", (node,))


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("x", X),
        ("  x\n", X),
        ("12", number(12)),
        (".5", number(0.5)),
        ("5.", number(5)),
        ("1e3", number(1000)),
        ("2.5E-1", number(0.25)),
        ("-1", number(-1)),
        ("-(1)", negative(number(1))),
        ("+x", X),
        ("x[0]", Variable("x[0]")),
        ("x[007]", Variable("x[7]")),
        ("pi", Apply("pi", ())),
        ("e", Apply("e", ())),
        ("x + y - z", Apply("+", (X, Y, negative(Z)))),
        ("x - 1", Apply("+", (X, number(-1)))),
        ("x - 2*y", Apply("+", (X, negative(Apply("*", (number(2), Y)))))),
        ("x - (y + z)", Apply("+", (X, negative(Apply("+", (Y, Z)))))),
        ("(x + y) + z", Apply("+", (Apply("+", (X, Y)), Z))),
        ("x*y*z", Apply("*", (X, Y, Z))),
        ("x/y/z", Apply("/", (Apply("/", (X, Y)), Z))),
        ("x*y/z", Apply("/", (Apply("*", (X, Y)), Z))),
        ("x/y*z", Apply("*", (Apply("/", (X, Y)), Z))),
        ("x + y*z", Apply("+", (X, Apply("*", (Y, Z))))),
        ("-x^2", negative(Apply("^", (X, number(2))))),
        ("-1^2", negative(Apply("^", (number(1), number(2))))),
        ("(-1)^2", Apply("^", (number(-1), number(2)))),
        ("-x*y", Apply("*", (negative(X), Y))),
        ("x*-y", Apply("*", (X, negative(Y)))),
        ("2^-1", Apply("^", (number(2), number(-1)))),
        ("x^-y^z", Apply("^", (X, negative(Apply("^", (Y, Z)))))),
        ("x^y^z", Apply("^", (X, Apply("^", (Y, Z))))),
        ("x**2", Apply("^", (X, number(2)))),
        ("2^x*y", Apply("*", (Apply("^", (number(2), X)), Y))),
        ("--x", negative(negative(X))),
        ("max(x, y, z)", Apply("max", (X, Y, Z))),
        ("clamp(x,-1,1)", Apply("clamp", (X, number(-1), number(1)))),
        ("arcsin(x) + asin(x)", Apply("+", (Apply("asin", (X,)), Apply("asin", (X,))))),
        ("sin(x + y)*2", Apply("*", (Apply("sin", (Apply("+", (X, Y)),)), number(2)))),
    ],
)
def test_trees_and_canonical_text(text, tree):
    assert parse(text) == tree
    assert parse(to_text(tree)) == tree


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("x-(-1)", "x - -1"),
        ("x - - y", "x - -y"),
        ("(x*y)*z/(x*y)", "(x*y)*z/(x*y)"),
        ("x - (y*z)", "x - y*z"),
        ("-(x*y)", "-(x*y)"),
        ("(x^y)^z", "(x^y)^z"),
        ("max( x,0 )", "max(x, 0)"),
        ("0.1+1e-9*x", "0.1 + 1e-9*x"),
    ],
)
def test_canonical_text(text, canonical):
    assert to_text(parse(text)) == canonical


def test_every_name_of_the_table_parses():
    for written, name in NAMES.items():
        arity = FUNCTIONS[name].arity
        if name == "where":
            continue  # it has a grammar of its own, below
        node = parse(f"{written}({', '.join('xyz'[:arity])})" if arity else written)
        assert node == Apply(name, (X, Y, Z)[:arity])


def test_variables_in_order_of_appearance():
    assert variables(parse("y + x[1]*x - sin(y)")) == ("y", "x[1]", "x")
    assert variables(parse("pi + 1")) == ()


def test_trees_are_values():
    first, second = parse("sin(x)^2 + 1"), parse("sin( x )**2+1.0")
    assert first == second
    assert hash(first) == hash(second)
    assert first != parse("sin(x)^2 + 2")
    assert first != "sin(x)^2 + 1"
    assert parse("max(x, y)") != parse("max(x, y, z)")
    assert pickle.loads(pickle.dumps(first)) == copy.deepcopy(first) == first
    assert eval(repr(first), {"Apply": Apply, "Constant": Constant, "Variable": Variable}) == first


@pytest.mark.parametrize(
    ("text", "column", "words"),
    [
        ("sine(x)", 1, "Did you mean `sin`?"),
        ("1 + sqr(x)", 5, "Did you mean `sqrt`?"),
        ("foo(x)", 1, "The functions are"),
        ("quux(x)", 1, "The functions are sum, mean, prod, norm, abs, min, max"),
        ("ceil(x)", 1, "Write `-floor(-x)`; it jumps, and attention is continuous"),
        ("mod(x, 2)", 1, "Write `x - y*floor(x/y)`; it jumps"),
        ("log10(x)", 1, "Write `log(x)/log(10)`"),
        ("flor(x)", 1, "Did you mean `floor`?"),
        ("x < 1", 3, "first argument of `where`"),
        ("max(x < 1, 2)", 7, "first argument of `where`"),
        ("where((x < 1), 1, 2)", 10, "first argument of `where`"),
        ("where(x < 1 < y, 1, 2)", 13, "first argument of `where`"),
        ("where(x, 1, 2)", 1, "`where(x < 0, -x, x)`"),
        ("where(x < 1, 2)", 1, "`where(x < 0, -x, x)`"),
        ("where", 1, "`where(x < 0, -x, x)`"),
        ("gamma + 1", 1, "Write `gamma(x)`"),
        ("norm", 1, "Write `norm(x)`"),
        ("1 + sum(x)", 5, "entries of `x`"),
        ("2 x", 3, "`2*x`"),
        ("2(x)", 2, "product with `*`"),
        ("x y", 3, "`x*y`"),
        ("x = 1", 3, "right-hand side"),
        ("sin", 1, "Write `sin(x)`"),
        ("sin(x, x)", 1, "takes 1 argument, not 2"),
        ("max(x)", 1, "takes at least 2 arguments, not 1"),
        ("clamp(x, 1)", 1, "takes 3 arguments, not 2"),
        ("(x + 1", 1, "needs a `)`"),
        ("x + 1)", 6, "needs a `(`"),
        ("(x, y)", 3, "comma"),
        ("x +", 4, "ends where a value is needed"),
        ("x^65", 3, "between -64 and 64"),
        ("x^-65", 3, "the exponent is -65"),
        ("x^(1/0)", 3, "the exponent is inf"),
        ("x[100000]", 3, "at most 99999"),
        ("lambda + 1", 1, "word of Python"),
    ],
)
def test_errors_point_at_the_place(text, column, words):
    with pytest.raises(TargetError) as caught:
        parse(text)
    message = str(caught.value)
    assert f"(column {column})" in message
    assert words in message
    lines = message.split("\n")
    assert lines[1] == "    " + text
    assert lines[2] == "    " + " " * (column - 1) + "^"


@pytest.mark.parametrize("value", [None, 1, 1.5, b"x", ["x"]])
def test_only_strings(value):
    with pytest.raises(TargetError, match="must be a string"):
        parse(value)


def test_limits_are_reached_and_not_passed():
    assert size(parse("+".join(["x"] * (MAX_NODES - 1)))) == MAX_NODES
    with pytest.raises(TargetError, match="at most 2000"):
        parse("+".join(["x"] * MAX_NODES))
    assert depth(parse("-" * (MAX_DEPTH - 1) + "x")) == MAX_DEPTH
    with pytest.raises(TargetError, match="at most 100 deep"):
        parse("-" * MAX_DEPTH + "x")
    assert parse("(" * MAX_DEPTH + "x" + ")" * MAX_DEPTH) == X
    assert parse("x" * MAX_CHARACTERS) == Variable("x" * MAX_CHARACTERS)


def test_what_is_accepted_can_be_written_and_read_again():
    with pytest.raises(TargetError, match="canonical form"):
        parse("+".join([".1"] * 1990))  # as "0.1 + 0.1 + ..." it would be longer than the parser takes


@pytest.mark.parametrize("name", ["", "1x", "_x", "x__y", "x.y", "x[", "x[-1]", "x[01]", "x[1]y", "if", "x y", "é", 3])
def test_variables_have_plain_names(name):
    with pytest.raises(TargetError, match="plain name"):
        Variable(name)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), "x", 10**400, None])
def test_constants_are_finite(value):
    with pytest.raises(TargetError, match="finite"):
        Constant(value)


def test_arguments_are_nodes():
    with pytest.raises(TargetError, match="tuple of nodes"):
        Apply("sin", (1.0,))
