"""Sums read from expressions: which terms, and that they add up."""

from __future__ import annotations

import numpy as np
import pytest

from attnforge.targets import Box
from attnforge.targets.expression import evaluate, parse
from attnforge.targets.structure.additive import expression_terms

NAMES = ("x", "y", "z", "w")
BOX = Box([-1, 0, 1, -2], [1, 2, 3, -1])

CASES = [
    ("x*y*z + w", ["x, y, z", "w"]),
    ("sin(x) + x*y", ["x", "x, y"]),
    ("sin(x) + x*y - 3*x + 2", ["x", "x, y"]),
    ("exp(x)*2 - 4*(cos(y) - x*5)/3", ["x", "y"]),
    ("cos(x + y) + 3*sin(2*x + 2*y) + z", ["x + y", "z"]),
    ("cos(x + y) + exp(x - y) + cos(z*w)", ["x + y", "x - y", "z, w"]),
    ("x*y + 2*z - w + 1", ["x, y", "z - 0.5*w"]),
    ("cos(x + y) + x + y + z*w", ["x + y", "z, w"]),
    ("x*y + y*x + sin(x*y)", ["x, y"]),
    ("cos(x*y*z*w) + 1", ["x, y, z, w"]),
    ("3*x + 2*x^2", ["x"]),
    ("5 - sqrt(2)", ["constant"]),
    ("x - x + y*z", ["y, z"]),
]


@pytest.mark.parametrize(("text", "words"), CASES)
def test_terms(text, words):
    terms = expression_terms(parse(text), NAMES, BOX)
    assert [term.describe() for term in terms] == words


@pytest.mark.parametrize(("text", "words"), CASES)
def test_they_add_up(text, words):
    points = np.random.default_rng(1).uniform(BOX.lower, BOX.upper, (100, 4))
    total = sum(term.at(points) for term in expression_terms(parse(text), NAMES, BOX))
    wanted = evaluate(parse(text), dict(zip(NAMES, points.T, strict=True)))
    np.testing.assert_allclose(total[:, 0], wanted, rtol=1e-13, atol=1e-13)


def test_an_input_without_width_is_a_constant():
    box = Box([0, 0, 2, 0], [1, 1, 2, 1])
    terms = expression_terms(parse("sin(x*y)*z + z^2 + 3*z"), NAMES, box)
    assert [term.describe() for term in terms] == ["x, y"]
    np.testing.assert_allclose(terms[0].values(np.array([[1.0, 0.5]])), [[2 * np.sin(0.5) + 10]], rtol=1e-15)


def test_a_wide_sum_has_one_term_an_input():
    names = tuple(f"x[{i}]" for i in range(40))
    text = " + ".join(f"sin({i + 1}*{name}) + {name}/3" for i, name in enumerate(names))
    assert len(expression_terms(parse(text), names, Box(0, 1, shape=(40,)))) == 40
