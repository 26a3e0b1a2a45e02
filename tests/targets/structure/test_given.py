"""Sums handed in as pairs: the target they make, their terms, and pairs that are refused."""

from __future__ import annotations

import numpy as np
import pytest

from attnforge.errors import TargetError
from attnforge.targets.domain import Box
from attnforge.targets.structure import given_sum

BOX = Box([-1, 0, 2], [1, 3, 5])
PAIRS = [
    ([0], lambda x: np.sin(x[..., 0])),
    ((2, 1), lambda x: x[..., 0] * 10 + x[..., 1]),
]


def test_target_and_terms_are_the_same_sum():
    target, structure = given_sum(PAIRS, BOX)
    points = np.random.default_rng(0).uniform(BOX.lower, BOX.upper, size=(50, 3))
    wanted = np.sin(points[:, 0]) + 10 * points[:, 2] + points[:, 1]
    np.testing.assert_allclose(target.values(points), wanted, atol=1e-13)
    np.testing.assert_allclose(structure.at(points)[:, 0], wanted, atol=1e-13)
    assert structure.kind == "additive"
    assert structure.reason == "A sum of 2 terms, as given"


def test_terms_know_the_ranges_of_their_own_inputs():
    _, structure = given_sum(PAIRS, BOX)
    first, second = structure.terms
    assert (first.lower.tolist(), first.upper.tolist()) == ([-1.0], [1.0])
    ranges = dict(zip(second.forms.argmax(axis=1).tolist(), zip(second.lower, second.upper, strict=True), strict=True))
    assert ranges == {2: (2.0, 5.0), 1: (0.0, 3.0)}


def test_several_outputs():
    pairs = [([i], lambda x, i=i: np.stack([x[..., 0], x[..., 0] ** (i + 1)], axis=-1)) for i in range(3)]
    target, structure = given_sum(pairs, BOX)
    point = np.array([[0.5, 2.0, 3.0]])
    np.testing.assert_allclose(target.values(point), [[5.5, 0.5 + 4 + 27]])
    np.testing.assert_allclose(structure.at(point), [[5.5, 0.5 + 4 + 27]])


@pytest.mark.parametrize(
    "entry",
    [
        ([], np.sin),
        ([0, 0], np.sin),
        ([3], np.sin),
        ([-1], np.sin),
        ([0.0], np.sin),
        ("0", np.sin),
        (0, np.sin),
        ([0], "sin"),
        ([0],),
        ([0], np.sin, np.cos),
        None,
    ],
)
def test_what_is_no_pair_is_refused(entry):
    with pytest.raises(TargetError, match=r"pair of distinct inputs, from 0 to 2, and a callable\. Got .*\. Write"):
        given_sum([PAIRS[0], entry], BOX)


def test_a_sum_of_nothing_is_refused():
    with pytest.raises(TargetError, match="at least one term"):
        given_sum([], BOX)


def test_a_box_of_tokens_is_refused():
    with pytest.raises(TargetError, match=r"vector of inputs.*shape \(2, 3\)"):
        given_sum(PAIRS, Box(0, 1, shape=(2, 3)))


def test_terms_are_asked_only_inside_their_box():
    seen = []

    def watched(x):
        seen.append(x)
        return x[..., 0] + x[..., 1]

    _, structure = given_sum([([1, 2], watched)], BOX)
    (term,) = structure.terms
    u = np.random.default_rng(0).uniform(term.lower, term.upper, size=(100, 2))
    term.values(np.concatenate([u, [term.lower, term.upper]]))
    points = np.concatenate([x.reshape(-1, 2) for x in seen])
    assert (points >= BOX.lower[1:]).all()
    assert (points <= BOX.upper[1:]).all()
