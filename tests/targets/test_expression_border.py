"""Branches that meet, those that do not, and those of which it is not known."""

from __future__ import annotations

from itertools import count

import numpy as np
import pytest

from attnforge.targets.expression import evaluate, parse
from attnforge.targets.expression.border import _Ring
from attnforge.targets.expression.functions import is_joined

MEETING = [
    "where(x < 0, -x, x)",
    "where(x >= 1, x, 1)",
    "where(x <= y, x^2, y^2)",
    "where(x < 0.1, 0.1, x)",
    "where(3*x < 1, x, 1/3)",
    "where(x < pi, x, pi)",
    "where(x < 1/3, 9*x^2, 1)",
    "where(x > 0, x, exp(x) - 1)",
    "where(x < 0, sin(x)*y, tanh(x))",
    "where(x < 2, sqrt(x + 2), x)",
    "where(x < 0, 0, where(x < 1, x, 1))",
    "where(abs(x) < 1, x^2/2, abs(x) - 1/2)",
    "where(abs(x) < 1, 1 - abs(x), 0)",
    "where(x^2 + y^2 < 1, (1 - x^2 - y^2)^3, 0)",
    "where(hypot(x, y) < 1, 1 - hypot(x, y), 0)",
    "where(x < 0, x/(y + 2), x*z)",
    "where(x + y < z, x + y, z)",
    "where(x + y < 0, exp(x + y) - 1, x + y)",
    "where(2*x < y, sin(4*x - 2*y)*z, tanh(y - 2*x))",
    "where(1 < 2, x, y)",
    "where(x < 1/3, sin(3*x), sin(1))",
]
APART = [
    "where(x < 0, 1, x)",
    "where(x < 0, 0, x + 1e-300)",
    "where(x < 0.1, 1/10, x)",  # 1/10 is not the float64 number 0.1
    "where(x < y, x, x + y)",
    "where(x^2 < 1, x, 1)",
    "where(x < 0, 0, exp(x))",
    "where(x < 0, y, z)",
    "where(x < 0, sin(x)/x, 1)",
    "where(sin(x) < 0, x, 2*x)",
    "where(x*y < 0, x, 0)",
    "where(x + y < 0, exp(x - y) - 1, x + y)",
    "where(x < y, sin(x), sin(y + 1))",
]
UNKNOWN = ["where(exp(x) < 1, x, 0)", "where(x < y, max(x, y), x)", "where((x + y + z + w)^9 < 1, 0, x)"]


@pytest.mark.parametrize("text", MEETING)
def test_branches_that_meet(text):
    assert is_joined(parse(text))


@pytest.mark.parametrize("text", [*APART, *UNKNOWN])
def test_nothing_else_is_called_continuous(text):
    assert not is_joined(parse(text))


@pytest.mark.parametrize("text", MEETING)
def test_what_is_proved_is_so_in_numbers(text):
    """Along random lines no step is larger than slopes allow."""
    rng, node = np.random.default_rng(0), parse(text)
    t = np.linspace(-2, 2, 40_001)
    for _ in range(5):
        start, way = rng.normal(size=(2, 3)) / 2
        values = evaluate(node, {name: a + b * t for name, a, b in zip("xyz", start, way, strict=True)})
        assert np.nanmax(np.abs(np.diff(values))) < 0.02


def test_hostile_borders_are_given_up_soon(monkeypatch):
    steps = count()
    monkeypatch.setattr(_Ring, "_visit", lambda ring, *node, visit=_Ring._visit: (next(steps), visit(ring, *node))[1])
    many = "*".join(f"({'+'.join('xyzw')})" for _ in range(40))
    assert not is_joined(parse(f"where({many} < 1, {many}, x)"))
    deep = "x"
    for _ in range(30):
        deep = f"where({deep} < x^2, x, {deep}*y)" if len(deep) < 2000 else deep
    is_joined(parse(deep))
    assert next(steps) < 10_000  # nodes read
