"""Ridges read from expressions: one direction, or none."""

from __future__ import annotations

import numpy as np
import pytest

from attnforge.targets import Box
from attnforge.targets.expression import parse
from attnforge.targets.structure.ridge import direction_of

NAMES = ("x", "y", "z")
BOX = Box([-1, 0, 1], [1, 2, 3])


@pytest.mark.parametrize(
    ("text", "weights"),
    [
        ("cos(x + y + z)", [1, 1, 1]),
        ("x - 2*y", [-0.5, 1, 0]),
        ("tanh(3*x - 2*y + 0.5*z)", [1, -2 / 3, 1 / 6]),
        ("(x + y)^2 + x + y", [1, 1, 0]),
        ("exp(x + y) - (sin(2*x + 2*y) - y - 3) + x", [1, 1, 0]),
        ("(x - y)/(2 + y - x)*abs(pi*x - pi*y)", [1, -1, 0]),
        ("max(x + y, 1) + relu(-x - y)", [1, 1, 0]),
        ("sqrt(2)*sin(sqrt(2)*x + 2*y)", [np.sqrt(0.5), 1, 0]),
        ("sin(x)^2*x", [1, 0, 0]),
        ("sin(x + y) + (z - z)", [1, 1, 0]),
        ("(x + y)^(x + y + 2)", [1, 1, 0]),
        ("x*y", None),
        ("sin(x) + y^2", None),
        ("sin(x + y) + x", None),
        ("cos(x + y)*exp(-x^2 - y^2)", None),
        ("cos(x + y)*cos(x + 1.000000001*y)", None),
        ("3", None),
        ("clamp(x, 1, 0) + y", [0, 1, 0]),
    ],
)
def test_direction(text, weights):
    found = direction_of(parse(text), NAMES, BOX)
    if weights is None:
        assert found is None
    else:
        np.testing.assert_allclose(found.weights(BOX), weights, rtol=1e-15, atol=0)


def test_directions_that_differ_by_rounding_are_one():
    # 0.1 + 0.2 is not 0.3 in float64, but no float64 weight of a form can say so
    assert direction_of(parse("sin(0.3*x + y)*cos((0.1 + 0.2)*x + y)"), NAMES, BOX) is not None


def test_an_input_without_width_has_no_weight():
    box = Box([0, 0, 2], [1, 1, 2])
    found = direction_of(parse("sin(x + 2*y + z)*exp(x + 2*y)"), NAMES, box)
    np.testing.assert_array_equal(found.weights(box), [0.5, 1, 0])


def test_weights_are_compared_in_units_of_the_box():
    long = Box([0, 0], [1, 1e16])
    found = direction_of(parse("sin(x + 1e-16*y)"), ("x", "y"), long)
    np.testing.assert_array_equal(found.weights(long), [1, 1e-16])
    assert direction_of(parse("sin(x + 1e-16*y)*sin(x)"), ("x", "y"), long) is None
