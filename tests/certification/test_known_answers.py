"""Questions with known answers: what is proved, what a witness shows, and that neither reaches further by one unit."""

from fractions import Fraction

import numpy as np
import pytest

import attnforge as af
from attnforge.certification.known_answers import Subject, close_box, question
from attnforge.network import apply


@pytest.fixture(scope="module")
def subject():
    net = af.compile("x^2", {"x": (-1, 1)}, 1e-2)
    return Subject.proved(net.network, net.target, net.domain, "float64")


@pytest.fixture(scope="module")
def asked(subject):
    return question(subject, subject.box, 4, affine=True)


def test_the_network_is_nowhere_farther_than_both_bounds(subject, asked):
    points = np.linspace(-1, 1, 20_001)[:, None]
    apart = np.abs(apply(subject.network, points[:, None])[:, 0] - asked.pieces.at(points)).max()
    assert asked.bound == subject.bound
    assert float(asked.witness.distance) == pytest.approx(apart, rel=1e-3)
    assert apart <= asked.most <= 1.2 * apart


def test_the_witness_is_where_it_says(subject, asked):
    witness = asked.witness
    (output,) = apply(subject.network, witness.point[None])[0]
    low, high = witness.between
    assert low <= output <= high <= low + 1e-12
    slope, offset = asked.pieces.slopes[witness.cell, 0, 0], asked.pieces.offsets[witness.cell, 0]
    at = Fraction(slope) * Fraction(witness.point[0]) + Fraction(offset)
    assert witness.distance == max(Fraction(low) - at, at - Fraction(high))
    assert asked.pieces.lower[witness.cell] <= witness.point <= asked.pieces.upper[witness.cell]
    assert not witness.exact_only


def test_answers_end_where_what_is_known_ends(asked):
    offsets, at = asked.pieces.offsets, (asked.witness.cell, asked.witness.output)
    wide = offsets - 1.01 * asked.most, offsets + 1.01 * asked.most
    assert asked.holds(*wide)
    assert not asked.fails(*wide)
    for end, way in ((0, 1), (1, -1)):
        nearer = [each.copy() for each in wide]
        nearer[end][2, 0] = offsets[2, 0] - way * asked.most  # no more than is proved
        assert asked.holds(*nearer) == (
            Fraction(asked.most) < abs(Fraction(nearer[end][2, 0]) - Fraction(offsets[2, 0]))
        )
        nearer[end][2, 0] += way * 1e-9
        assert not asked.holds(*nearer)
    away = float(asked.witness.distance)
    for factor, fails in ((0.999, True), (1.001, False)):
        lower, upper = (offset.copy() for offset in wide)
        lower[at], upper[at] = offsets[at] - factor * away, offsets[at] + factor * away
        assert asked.fails(lower, upper) == fails


def test_boxes_on_which_the_networks_own_error_is_asked(subject):
    near = close_box(subject, 4)
    assert np.all(near.lower >= -1)
    assert np.all(near.upper <= 1)
    asked = question(subject, near, 4, affine=True)
    assert asked.radius <= 1.1 * subject.bound
    assert asked.bound <= subject.bound


def test_what_float32_may_round_leaves_exact_arithmetic_alone():
    """In v*exp(l) the distance from close pieces is less than float32 may round, and certain without it."""
    net = af.constructions.exponential(af.Box([-1, -1], [1, 1]))
    narrow = Subject.proved(net.network, net.target, net.domain, "float32")
    near = close_box(narrow, 4)
    asked = question(narrow, near, 4, affine=True)
    assert asked.witness is not None
    assert asked.witness.exact_only
    low, high = asked.witness.between
    assert 0 <= high - low < 1e-9
