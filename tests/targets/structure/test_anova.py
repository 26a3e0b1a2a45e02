"""Sums found by probing: pure terms, the constant, inputs that are not used."""

from __future__ import annotations

import numpy as np
import pytest

from attnforge.targets import Box, Function
from attnforge.targets.structure.anova import probed_sum
from attnforge.targets.structure.black_box import BlackBox
from attnforge.targets.structure.found import Refusal

NAMES = tuple("xyzw")


def search(function, box, tol=1e-7):
    def guarded(points):
        box.check(points)
        return function(points)

    return probed_sum(BlackBox(Function(guarded, box)), box, NAMES[: len(box.lower)], tol, seed=1)


def cube(axes, lower=-1.0):
    return Box(lower, 1, shape=(axes,))


@pytest.mark.parametrize(
    ("function", "box", "words"),
    [
        (lambda x: np.exp(x[..., 0]) + np.abs(x[..., 1] - 0.3), cube(2), ["x", "y"]),
        (lambda x: x[..., 0] * x[..., 1] * x[..., 2] + x[..., 3], cube(4), ["w", "x, y, z"]),
        (
            lambda x: x[..., 0] * x[..., 1] * x[..., 2] + x[..., 3],
            cube(4, lower=0.0),
            ["x", "y", "z", "w", "x, y", "x, z", "y, z", "x, y, z"],
        ),
        (lambda x: np.sin(x[..., 0] * x[..., 2]), cube(3), ["x, z"]),
        (lambda x: np.sin(x[..., 1]), cube(3), ["y"]),
        (lambda x: 3 + 0 * x[..., 1], cube(3), ["constant"]),
        (lambda x: x[..., 0] * x[..., 1] + x[..., 1] * x[..., 2], cube(3), ["x, y", "y, z"]),
        (lambda x: 5 + x[..., 0] * x[..., 1] + x[..., 1] * x[..., 2], cube(3), ["constant", "x, y", "y, z"]),
        (lambda x: np.stack([np.exp(x[..., 0]), x[..., 1] * x[..., 2]], axis=-1), cube(3), ["x", "y, z"]),
    ],
)
def test_terms_add_up(function, box, words):
    terms = search(function, box)
    assert [term.describe() for term in terms] == words
    points = np.random.default_rng(2).uniform(box.lower, box.upper, (200, len(box.lower)))
    total = sum(term.at(points) for term in terms)
    np.testing.assert_allclose(total, function(points).reshape(200, -1), atol=1e-14)


def test_a_pure_term_vanishes_in_the_middle():
    terms = search(lambda x: np.exp(x[..., 0] * x[..., 1]) + x[..., 2] + 4, cube(3, lower=0.0))
    (pair,) = (term for term in terms if len(term.forms) == 2)
    np.testing.assert_allclose(pair.values(np.array([[0.5, 0.9], [0.1, 0.5]])), 0, atol=1e-15)
    np.testing.assert_allclose(pair.values(np.array([[1.0, 1.0]])), np.e - 2 * np.exp(0.5) + np.exp(0.25), rtol=1e-14)


def test_a_term_of_two_inputs_takes_four_cuts():
    box = cube(3)
    f = BlackBox(Function(lambda x: x[..., 0] * x[..., 1] + x[..., 1] * x[..., 2], box))
    term = probed_sum(f, box, NAMES[:3], 1e-7, seed=1)[0]
    before = f.evaluations
    term.values(np.zeros((7, 2)))
    assert f.evaluations - before == 4 * 7


def test_inputs_that_all_act_together():
    found = search(lambda x: np.cos(x[..., 0] * x[..., 1] * x[..., 2]), cube(3))
    assert found == Refusal("all 3 inputs act together")
