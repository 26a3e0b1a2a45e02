"""The expected distance to the chosen centre, against softmaxes over real grids."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from attnforge.lemmas.cells import cell_excess, expected_distance

SHARPNESS = [0.05, 0.3, 1.0, 2.0, 5.0, 20.0, 60.0]


def weights(c: float, places: np.ndarray, u: np.ndarray) -> np.ndarray:
    scores = -c * (places - u[:, None]) ** 2
    w = np.exp(scores - scores.max(axis=1, keepdims=True))
    return w / w.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("c", SHARPNESS)
def test_the_excess_is_never_exceeded(c):
    for first, last in ((-40, 40), (-40, 0), (0, 40), (0, 1), (0, 0)):
        places = np.arange(first, last + 1, dtype=float)
        u = np.linspace(max(first, -1) - 0.5, min(last, 1) + 0.5, 2001)
        found = (weights(c, places, u) * np.maximum(np.abs(places - u[:, None]) - 0.5, 0)).sum(axis=1).max()
        assert found <= cell_excess(c)


@pytest.mark.parametrize("c", [2.0, 5.0, 20.0, 60.0])
def test_the_excess_is_tight_for_sharp_rows(c):
    places, u = np.arange(-40, 41, dtype=float), np.linspace(0, 0.5, 2001)
    found = (weights(c, places, u) * np.maximum(np.abs(places - u[:, None]) - 0.5, 0)).sum(axis=1).max()
    assert cell_excess(c) <= 1.25 * found


@pytest.mark.parametrize("c", SHARPNESS)
@pytest.mark.parametrize("steps", [[1.0], [0.5, 2.0], [1.0, 1.0, 0.3]])
def test_the_expected_distance_in_several_axes(c, steps):
    rng = np.random.default_rng(0)
    places = np.arange(-6, 7, dtype=float)
    u = rng.uniform(-0.5, 0.5, (200, len(steps)))
    each = [weights(c, places, u[:, j]) for j in range(len(steps))]
    total = np.zeros(len(u))
    for index in itertools.product(range(len(places)), repeat=len(steps)):
        weight = math.prod(each[j][:, i] for j, i in enumerate(index))
        total += weight * np.max([steps[j] * np.abs(places[i] - u[:, j]) for j, i in enumerate(index)], axis=0)
    assert total.max() <= sum(expected_distance(c, steps))


def test_ghosts_only_enlarge_and_soft_rows_have_no_bound():
    plain, ghosts = (sum(expected_distance(1.0, [1.0, 1.0], flag)) for flag in (False, True))
    assert plain < ghosts
    assert cell_excess(1e-3) == math.inf
