"""Inputs that act together: sets found, thresholds, and what it costs."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from attnforge.targets import Box, Function
from attnforge.targets.structure.black_box import BlackBox
from attnforge.targets.structure.found import Refusal
from attnforge.targets.structure.interaction import interacting_sets


def search(function, axes, tol=1e-6):
    box = Box(-1, 1, shape=(axes,))
    f = BlackBox(Function(function, box))
    return interacting_sets(f, box, tol, seed=1), f.evaluations


@pytest.mark.parametrize(
    ("function", "axes", "sets"),
    [
        (lambda x: np.exp(x[..., 0]) + np.abs(x[..., 1] - 0.3), 2, [(0,), (1,)]),
        (lambda x: x[..., 0] * x[..., 1], 3, [(0,), (1,), (0, 1)]),
        (lambda x: 0 * x[..., 0], 2, []),
        (
            lambda x: x[..., 0] * x[..., 1] + x[..., 1] * x[..., 2] + x[..., 0] * x[..., 2],  # a triangle, not a triple
            3,
            [(0,), (1,), (2,), (0, 1), (0, 2), (1, 2)],
        ),
        (lambda x: x.prod(axis=-1), 3, [each for n in (1, 2, 3) for each in combinations(range(3), n)]),
        (lambda x: np.stack([x[..., 0] * x[..., 1], x[..., 2]], axis=-1), 3, [(0,), (1,), (2,), (0, 1)]),
    ],
)
def test_sets(function, axes, sets):
    assert search(function, axes)[0] == sets


def test_interactions_count_above_a_hundredth_of_the_tolerance():
    def weak(x):
        return x[..., 0] + x[..., 1] + 1e-7 * x[..., 0] * x[..., 1]

    assert search(weak, 2, tol=1e-3)[0] == [(0,), (1,)]
    assert search(weak, 2, tol=1e-6)[0] == [(0,), (1,), (0, 1)]


def test_rounding_is_not_an_interaction():
    assert search(lambda x: 1e9 + (np.sin(x[..., 0]) + np.cos(x[..., 1])), 2, tol=1e-15)[0] == [(0,), (1,)]


@pytest.mark.parametrize("axes", [5, 32])
def test_five_inputs_at_once_are_too_many(axes):
    found, evaluations = search(lambda x: np.cos(((x + 2) ** 2).sum(axis=-1)), axes)
    assert isinstance(found, Refusal)
    assert found.reason.endswith("act together: more than 4")
    assert evaluations <= 16 * (32 + axes * axes)


def test_too_many_candidates_are_not_looked_at():
    found, evaluations = search(lambda x: x.sum(axis=-1) ** 2, 120)
    assert found == Refusal("7,140 sets of 2 inputs may act together: too many to look at")
    assert evaluations == 16 * 121


def test_pairs_cost_one_evaluation_a_trial():
    _, evaluations = search(lambda x: np.sin(x).sum(axis=-1), 10)
    assert evaluations == 16 * (1 + 10 + 45)
