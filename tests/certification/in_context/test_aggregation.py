"""What rounding adds to sums over examples: no order of kernels loses more, and the worst loses nearly that."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from attnforge.balls import Up, machine
from attnforge.certification.in_context.aggregation import LANES, summation
from attnforge.targets.in_context.features import places

SINGLE = machine("float32")


def added(terms, lanes):
    """The sum of exact terms in float32, in so many interleaved running sums."""
    sums = [np.float32(0.0)] * lanes
    for i, term in enumerate(terms):
        sums[i % lanes] = np.float32(np.float64(sums[i % lanes]) + np.float64(term))  # one rounding: 24 of 53 bits
    total = sums[0]
    for each in sums[1:]:
        total = np.float32(total + each)
    return float(total)


def mirrored(x, ahead=2):
    """Terms of examples and mirror images as prompts order them, of weights a little apart."""
    terms = np.zeros(ahead + 2 * len(x))
    first, images = places(len(x))
    terms[ahead + first], terms[ahead + images] = x * (1 + 1e-3), -x * (1 - 1e-3)
    return terms.astype(np.float32).astype(np.float64)


def bound(terms, ahead=2, departed=0.0):
    return float(summation(terms[ahead:, None], ahead, SINGLE, Up.of(1.0), Up.of(departed))[0])


@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize("seed", range(5))
def test_no_order_of_kernels_loses_more(lanes, seed):
    terms = mirrored(np.random.default_rng(seed).normal(size=100 + 7 * seed))
    assert abs(added(terms, lanes) - math.fsum(terms)) <= bound(terms)


def test_terms_that_all_round_one_way_lose_nearly_the_bound():
    """Each is moved by less than a unit in the last place of its running sum, so that the sum falls short by half."""
    terms = np.random.default_rng(0).normal(size=300) + 0.5
    running = np.float32(0.0)
    for i, term in enumerate(terms):
        rounded = np.float32(float(running) + term)
        terms[i] = float(rounded) + 0.499 * float(np.spacing(abs(rounded))) - float(running)
        running = np.float32(float(running) + terms[i])
    lost = abs(Fraction(float(running)) - sum(map(Fraction, terms)))
    assert 0.9 * bound(terms, ahead=0) <= lost <= bound(terms, ahead=0)


def test_terms_that_depart_are_allowed_for():
    """Where examples and mirror images cancel exactly, all that is left to round is by how much terms depart."""
    x = np.random.default_rng(1).normal(size=64)
    rng, exact = np.random.default_rng(2), np.concatenate([x, -x])[np.argsort(np.concatenate(places(64)))]
    departed = exact * (1 + 1e-2 * rng.uniform(-1, 1, size=128))
    limit = bound(exact, 0, 1e-2)
    for lanes in LANES:
        assert abs(added(departed, lanes) - math.fsum(departed)) <= limit


@pytest.mark.parametrize("lanes", LANES)
def test_running_sums_of_prompts_stay_small(lanes):
    """An example and its mirror image meet in the same running sum: nothing is left after a whole group."""
    x = np.random.default_rng(3).normal(size=160)
    terms = np.concatenate([x, -x])[np.argsort(np.concatenate(places(160)))]
    ends = np.cumsum(terms.reshape(-1, lanes), axis=0)[32 // lanes - 1 :: 32 // lanes]
    assert np.abs(ends).max() < 1e-12


def test_mirror_images_at_the_end_would_cost_more():
    x = np.random.default_rng(4).normal(size=300)
    assert 3 * bound(mirrored(x, 0), 0) < bound(np.concatenate([x, -x]), 0)


@pytest.mark.parametrize(("scale", "departed"), [(math.inf, 0.0), (1.0, math.inf), (1e308, 0.0)])
def test_what_overflows_has_no_bound(scale, departed):
    with np.errstate(over="ignore"):
        found = summation(np.full((4, 1), 100.0), 0, SINGLE, Up.of(scale), Up.of(departed))
    assert float(found[0]) == math.inf
