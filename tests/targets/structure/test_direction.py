"""Ridges found by probing: the direction, its digits, and functions that are no ridges."""

from __future__ import annotations

import numpy as np
import pytest

from attnforge.targets import Box, Function
from attnforge.targets.structure.black_box import BlackBox
from attnforge.targets.structure.direction import probed_ridge
from attnforge.targets.structure.found import Refusal

IRRATIONAL = np.array([0.3, -1, 1 / np.pi, np.sqrt(0.2)])


def search(function, box, tol):
    def guarded(points):
        box.check(points)
        return function(points)

    names = tuple("abcdefgh"[: len(box.lower)])
    return probed_ridge(BlackBox(Function(guarded, box)), box, names, tol, seed=3)


def cube(axes):
    return Box(-1, 1, shape=(axes,))


@pytest.mark.parametrize(
    ("profile", "weights", "tol"),
    [
        (np.cos, np.ones(8), 1e-7),
        (lambda u: (9 + u) ** -2, np.ones(8), 1e-7),
        (np.tanh, np.array([1, -2 / 3, 1 / 6]), 1e-9),
        (np.abs, np.array([0.5, 1]), 1e-9),
        (lambda u: np.clip(100 * u, -1, 1), np.array([0.5, 1]), 1e-9),
        (lambda u: np.tanh(100 * u), np.array([0.5, 1]), 1e-9),
        (lambda u: np.sin(400 * u), np.array([1, 1 / 3]), 1e-9),
        (lambda u: 1e6 + np.sin(u), np.array([1, 1]), 1e-7),
        (lambda u: u, np.array([0, 1, 0.25]), 1e-12),
        (np.sin, np.array([1, 0, 0]), 1e-12),
    ],
)
def test_round_directions_are_found_exactly(profile, weights, tol):
    (term,) = search(lambda x: profile(x @ weights), cube(len(weights)), tol)
    np.testing.assert_array_equal(term.forms, [weights])


def test_other_directions_are_found_to_a_tenth_of_the_tolerance():
    (term,) = search(lambda x: np.sin(3 * x @ IRRATIONAL), cube(4), 1e-12)
    np.testing.assert_allclose(term.forms[0], IRRATIONAL / IRRATIONAL[1], rtol=1e-13)


def test_sides_of_very_different_length():
    (term,) = search(lambda x: np.sin(x[..., 0] + x[..., 1] * 1e-12 / 3), Box([0, 0], [1, 1e12]), 1e-10)
    np.testing.assert_allclose(term.forms, [[1, 1e-12 / 3]], rtol=1e-11)


def test_one_direction_must_serve_all_outputs():
    both = np.array([0.5, 1])
    (term,) = search(lambda x: np.stack([np.sin(x @ both), (x @ both) ** 2], axis=-1), cube(2), 1e-9)
    np.testing.assert_array_equal(term.forms, [both])
    other = search(lambda x: np.stack([np.sin(x @ both), (x @ [1, 1]) ** 2], axis=-1), cube(2), 1e-9)
    assert isinstance(other, Refusal)


@pytest.mark.parametrize(
    ("function", "axes"),
    [
        (lambda x: x[..., 0] * x[..., 1], 2),
        (lambda x: np.sin(x[..., 0]) + x[..., 1] ** 2, 2),
        (lambda x: np.cos(x.sum(axis=-1)) * np.exp(-(x**2).sum(axis=-1) / 8), 8),
        (lambda x: np.cos(x.sum(axis=-1)) + 1e-6 * x[..., 0], 3),
    ],
)
def test_no_ridge(function, axes):
    found = search(function, cube(axes), 1e-7)
    assert isinstance(found, Refusal)
    assert found.reason.startswith(("its gradients are not parallel", "along the direction of its gradients"))


def test_a_disturbance_below_the_tolerance_is_no_objection():
    (term,) = search(lambda x: np.cos(x.sum(axis=-1)) + 1e-9 * x[..., 0] ** 3, cube(3), 1e-7)
    np.testing.assert_allclose(term.forms, [[1, 1, 1]], atol=1e-8)


def test_a_constant_has_no_direction():
    found = search(lambda x: np.full(x.shape[:-1], 3.0), cube(2), 1e-7)
    assert found == Refusal("it has no slope at any of the probes")


def test_it_costs_about_twenty_gradients():
    box = cube(8)
    f = BlackBox(Function(lambda x: np.cos(x.sum(axis=-1)), box))
    probed_ridge(f, box, tuple("abcdefgh"), 1e-7, seed=0)
    assert f.evaluations <= 20 * 8 * 4 + 400
