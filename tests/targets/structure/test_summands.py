"""Flattened sums: they add up to the expression, and none of them is a sum."""

from __future__ import annotations

import numpy as np
import pytest

from attnforge.targets.expression import evaluate, parse, to_text
from attnforge.targets.structure.summands import summands


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("x", ["x"]),
        ("x*y", ["x*y"]),
        ("x + y - 1", ["x", "y", "-1"]),
        ("-(x - sin(y))", ["-x", "sin(y)"]),
        ("2*(x + y*x)", ["2*x", "2*y*x"]),
        ("(x + y)^2", ["(x + y)^2"]),
        ("(x + y)*x", ["(x + y)*x"]),
        ("1/(x + y)", ["1/(x + y)"]),
        ("sqrt(2)*(x + (y + 3)*pi)", ["sqrt(2)*x", "sqrt(2)*pi*y", "3*sqrt(2)*pi"]),
    ],
)
def test_summands(text, parts):
    assert [to_text(each) for each in summands(parse(text))] == parts


@pytest.mark.parametrize("text", ["x - 2*(x*y - (1 + y)/4)/3", "-(-(x + y) + 3*-(sin(x) - y))", "(x - y)/-7 + 2"])
def test_they_add_up(text):
    values = {"x": np.linspace(-1, 1, 7), "y": np.linspace(2, 0, 7)}
    total = sum(evaluate(each, values) for each in summands(parse(text)))
    np.testing.assert_allclose(total, evaluate(parse(text), values), rtol=1e-14, atol=1e-14)
