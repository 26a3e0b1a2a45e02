"""Straight-line programs: text and back, exactly; hostile text refused in time."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

import attnforge as af
from attnforge.targets.expression import Apply, Constant, Variable, parse, parse_program, program_text
from attnforge.targets.expression.limits import PROGRAM
from attnforge.targets.expression.program import is_list, is_program
from attnforge.targets.expression.tree import bottom_up, joined, size, unified
from tests.clock import at_most

X, Y = Variable("x"), Variable("y")


def doubled(times: int):
    """A chain of sums t + t: a tree of 2^times leaves and ``times`` objects."""
    node = Apply("sin", (X,))
    for _ in range(times):
        node = Apply("+", (node, node))
    return node


def test_shared_parts_are_named_once():
    shared = Apply("sin", (X,))
    assert program_text([Apply("+", (shared, Y)), shared]) == "t1 = sin(x); [t1 + y, t1]"
    assert program_text([X, Constant(2.0)]) == "[x, 2]"
    assert program_text([Apply("*", (shared, shared))], scalar=True) == "t1 = sin(x); t1*t1"


def test_equal_parts_become_one_object():
    (a, b) = unified([parse("sin(x) + 1"), parse("sin(x)*2 + 0*x")])
    assert len({id(n) for n in bottom_up(joined([a, b])) if n == parse("sin(x)")}) == 1
    assert program_text(unified([parse("-0.0*x"), parse("0.0*x")])) == "[-0*x, 0*x]"  # two zeros are two numbers


def test_temporaries_are_named_unlike_the_inputs():
    shared = Apply("sin", (Variable("t1"),))
    text = program_text([Apply("*", (shared, shared))], ("t1", "tt4[0]"))
    assert text == "ttt1 = sin(t1); [ttt1*ttt1]"
    assert parse_program(text, ("t1", "tt4[0]"))[0] == Apply("*", (shared, shared))


def test_a_tree_of_many_shared_parts_is_a_short_text():
    tree = doubled(300)
    assert size(tree) > 2**300
    text = program_text([tree])
    assert len(text) < 10_000
    (again,) = parse_program(text, ("x",))
    assert again == tree
    assert len(bottom_up(again)) == len(bottom_up(tree))
    assert program_text([again]) == text


def test_deep_trees_are_cut_and_read_again():
    node = X
    for _ in range(5000):
        node = Apply("sin", (node,))
    (again,) = parse_program(program_text([node]), ("x",))
    assert again == node


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_numbers_come_back_exactly(value):
    (tree,) = parse_program(program_text([Apply("*", (Constant(value), X))]), ("x",))
    assert tree.arguments[0].value.hex() == value.hex()


@pytest.mark.parametrize(
    "text", ["sin(x)^2*3 - (x - y)*(-x)", "-(x + y)^2 - -3", "x/y/(x*y)*2 - pi", "max(x, y, 2) - (x - (y - 1))"]
)
def test_named_parts_are_operands_of_their_own(text):
    """A name stands for a subtree: no operator around it takes it apart."""
    tree = parse(text)
    trees = unified([tree, *(child for child in tree.arguments), Apply("*", (tree, tree)), Apply("-", (tree,))])
    assert parse_program(program_text(trees), ("x", "y")) == trees


def test_what_is_a_program():
    assert is_program("[x, y]")
    assert is_program(" [x[0]]")
    assert is_program("t = x; t*t")
    assert not is_program("x[0]")
    assert is_list("t = x; [t]")
    assert not is_list("t = x; x[0]*t")
    assert parse_program("t = x + y; max(t, 2)*t", ("x", "y"))[0] == parse("max(x + y, 2)*(x + y)")
    assert len(parse_program("[max(x, y), (x), x[0]]")) == 3


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("t = sin(x; [t]", "column"),
        ("[x, y", "ends with `]`"),
        ("[", "ends with `]`"),
        ("[]", "ends where a value is needed"),
        ("[x, ]", "value is needed"),
        ("[x] + y", "ends with `]`"),
        ("[x, [y, x]]", "value is needed"),
        ("sin(x); [x]", "name = expression"),
        ("; [x]", "name = expression"),
        ("x = 3; [x]", "an input"),
        ("v = 3; [v]", "an input"),
        ("sin = 3; [x]", "a function or a number"),
        ("pi = 3; [x]", "a function or a number"),
        ("t = 1; t = 2; [t]", "defined twice"),
        ("t[0] = 1; [t]", "no index"),
        ("t = 1; [t[0]]", "named before it is used"),
        ("t = u; u = x; [t]", "named before it is used"),
        ("t = t + x; [t]", "named before it is used"),
        ("[z]", "z, where the inputs are x"),
        ("__t = 1; [x]", "starting with a letter"),
        ("lambda = 1; [x]", "word of Python"),
        ("t = x = y; [t]", "cannot contain `=`"),
        ("t = x; [t]; [t]", "name = expression"),
        ("t = x.__class__; [t]", "cannot contain `.`"),
        ("t = 100; [x^t]", "exponent"),
        ("t = tanh(x); [t y]", "operator is missing"),
    ],
)
def test_bad_programs(text, match):
    with pytest.raises(af.TargetError, match=match):
        parse_program(text, ("x", "y", "v[0]"))


def test_text_must_be_text():
    with pytest.raises(af.TargetError, match="must be a string"):
        parse_program(b"[x]", ("x",))


def hostile() -> dict[str, str]:
    chain = "; ".join(f"t{i + 1} = t{i} + t{i}" for i in range(1, 20_000))
    powers = "; ".join(f"t{i + 1} = x^t{i} + t{i}" for i in range(1, 20_000))
    constants = "; ".join(f"t{i + 1} = t{i} + 0; s{i} = x^t{i}" for i in range(1, 10_000))
    return {
        "error in a shared tree": f"t1 = sin(x); {chain}; [sin(t20000) t3]",
        "too long": "[x" + " + x" * PROGRAM.characters + "]",
        "too many nodes": "[x" + " + 1" * PROGRAM.nodes + "]",
        "too many nodes in all": "; ".join(f"t{i} = x*x*x*x*x" for i in range(PROGRAM.nodes // 5)) + "; [x]",
        "deep parentheses": "[" + "(" * 300_000 + "x" + ")" * 300_000 + "]",
        "exponents of variables": f"t1 = x; {powers}; [t20000",
        "exponents of numbers": f"t1 = 1; {constants}; [x]",
    }


@pytest.mark.parametrize("name", hostile())
def test_hostile_text_is_refused_in_time(name):
    text = hostile()[name]
    with at_most(30 * len(text)), pytest.raises(af.TargetError):
        parse_program(text, ("x",))


def test_a_large_repr_is_short():
    assert len(repr(doubled(300))) < 200
