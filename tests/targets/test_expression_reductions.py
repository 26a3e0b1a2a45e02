"""Sums, means, products and norms over vectors, and texts of several outputs."""

from __future__ import annotations

import numpy as np
import pytest

from attnforge.errors import TargetError
from attnforge.targets.expression import evaluate, parse, parse_program, to_text
from tests.clock import at_most

NAMES = ("x[0]", "x[1]", "x[2]", "y[0]", "y[1]", "y[2]", "z[0]", "t", "norm")
NODE = 60  # calls for each node that a text may become


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("sum(x)", "x[0] + x[1] + x[2]"),
        ("sum(x^2)", "x[0]^2 + x[1]^2 + x[2]^2"),
        ("prod(cos(x)/2)", "cos(x[0])/2*(cos(x[1])/2)*(cos(x[2])/2)"),
        ("mean(t*x)", "(t*x[0] + t*x[1] + t*x[2])/3"),
        ("norm(x)", "hypot(x[0], x[1], x[2])"),
        ("norm(x - y, z)", "hypot(x[0] - y[0], x[1] - y[1], x[2] - y[2], z[0])"),
        ("norm(z)", "abs(z[0])"),
        ("norm(t)", "abs(t)"),
        ("norm(norm)", "abs(norm)"),
        ("sum(z)", "z[0]"),
        ("sum(t, 2, x[1])", "t + 2 + x[1]"),
        ("mean(t, norm)", "(t + norm)/2"),
        ("sum(x*mean(z))", "x[0]*z[0] + x[1]*z[0] + x[2]*z[0]"),
        ("sum(x*sum(x, t))", None),
        ("2*sum(x)^2 - prod(y)", None),
    ],
)
def test_reductions_are_written_out(text, written):
    node = parse(text, NAMES)
    assert written is None or to_text(node) == written
    assert parse(to_text(node), NAMES) == node


def test_values():
    rng = np.random.default_rng(0)
    values = {name: rng.normal(size=5) for name in NAMES}
    x, y = (np.array([values[f"{stem}[{i}]"] for i in range(3)]) for stem in "xy")
    for text, wanted in {
        "sum(x^2)": (x**2).sum(axis=0),
        "mean(cos(2*pi*x))": np.cos(2 * np.pi * x).mean(axis=0),
        "prod(x)": x.prod(axis=0),
        "norm(x - y)": np.linalg.norm(x - y, axis=0),
        "sum(x*y)/norm(y)": (x * y).sum(axis=0) / np.linalg.norm(y, axis=0),
        "sum(x*mean(y) - t)": (x * y.mean(axis=0) - values["t"]).sum(axis=0),
    }.items():
        np.testing.assert_allclose(evaluate(parse(text, NAMES), values), wanted, rtol=1e-13)


def test_without_names_the_text_says_how_long_vectors_are():
    assert to_text(parse("x[2] - mean(x)")) == "x[2] - (x[0] + x[1] + x[2])/3"
    assert to_text(parse("sum(a, b, c)")) == "a + b + c"


@pytest.mark.parametrize(
    ("text", "names", "match"),
    [
        ("sum(x)", None, r"entries of `x`(.|\n)*Name them in the domain, as x\[0\]"),
        ("sum(x*z)", NAMES, "same entries"),
        ("sum(x)", ("x[0]", "x[2]"), "same entries"),
        ("sum(x)", ("x[1]",), "same entries"),
        ("sum()", NAMES, "value is needed"),
        ("x[99999] + sum(x)", None, "at most 2000"),
        ("sum(x*sum(x*sum(x*sum(x))))", tuple(f"x[{i}]" for i in range(30)), "at most 2000"),
    ],
)
def test_refusals(text, names, match):
    with at_most(NODE * 2000), pytest.raises(TargetError, match=match):
        parse(text, names)


def test_several_outputs():
    assert parse_program("[x[0] + 1, max(x[0], 2), sum(x)]", ("x[0]", "x[1]")) == (
        parse("x[0] + 1"),
        parse("max(x[0], 2)"),
        parse("x[0] + x[1]"),
    )
    assert parse_program(" [ x ] ") == parse_program("x") == (parse("x"),)
    assert parse_program("[mean(x), x[1]]") == (parse("(x[0] + x[1])/2"), parse("x[1]"))


@pytest.mark.parametrize(
    ("text", "column", "words"),
    [
        ("[x, y", 1, "ends with `]`"),
        ("[x, y] + 1", 8, "ends with `]`"),
        ("[x, y], z", 7, "ends with `]`"),
        ("[x, [y]]", 5, "value is needed"),
        ("[]", 2, "ends where a value is needed"),
        ("[x,, y]", 4, "ends where a value is needed"),
        ("[x)]", 3, "needs a `(`"),
        ("[(x]", 1, "ends with `]`"),
        ("[sin(x), co(x)]", 10, "Did you mean `cos`?"),
        ("t = x^2; u = co(t); [t]", 14, "Did you mean `cos`?"),
        ("t = x^2; [t, t u]", 16, "operator is missing"),
    ],
)
def test_errors_in_outputs_point_at_the_place(text, column, words):
    with pytest.raises(TargetError) as caught:
        parse_program(text)
    assert f"(column {column})" in str(caught.value)
    assert words in str(caught.value)


def test_outputs_have_one_limit_together():
    with pytest.raises(TargetError, match="at most 200000"):
        parse_program(f"[{','.join(['sum(x)'] * 2000)}]", tuple(f"x[{i}]" for i in range(100)))


def test_programs_have_reductions_comparisons_and_vectors():
    text = "d = x - y; s = sum(d^2); [where(s <= t, norm(d), mean(x, t)), gamma(s), norm]"
    assert parse_program(text, NAMES)[1:] == (parse("gamma(sum((x - y)^2))", NAMES), parse("norm", NAMES))
    assert parse_program(text, NAMES)[0] == parse("where(sum((x - y)^2) <= t, norm(x - y), mean(x, t))", NAMES)
    assert parse_program("d = x^2; sum(d) + x[1]") == (parse("(x[0]^2 + x[1]^2) + x[1]"),)


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("d = x - y; [d]", "x, y, where the inputs are"),
        ("d = x*z; [sum(d)]", "same entries"),
        ("sum = 3; [t]", "a function or a number"),
        ("norm = 3; [t]", "a function or a number"),
        ("gelu = 3; [t]", "a function or a number"),
        ("d = w; [t]", "w, where the inputs are"),
    ],
)
def test_refused_vectors_of_programs(text, match):
    with pytest.raises(TargetError, match=match):
        parse_program(text, NAMES)


def test_many_reductions_of_one_large_part_are_refused_in_time():
    text = f"t = x{'+ x' * 50_000}; [{','.join(['sum(t)'] * 10_000)}]"
    with at_most(NODE * 200_000), pytest.raises(TargetError, match="at most 200000"):
        parse_program(text, ("x",))


def test_names_without_brackets_are_found_in_linear_time():
    text = f"[{'a' * 1_000_000} + {'b ' * 1_000_000}"
    with at_most(4 * len(text)), pytest.raises(TargetError):
        parse_program(text)
