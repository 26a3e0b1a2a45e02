"""Heads that are no rows, by brute force or in high precision: bumps, kinks, small scores, rules, shards."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import pairwise

import mpmath
import numpy as np
import pytest
from flint import arb
from hypothesis import given, settings
from hypothesis import strategies as st

import attnforge as af
from attnforge.kernel.softmax import SoftmaxArithmetic
from attnforge.lemmas.bumps import (
    beyond_nearest,
    beyond_nearest_estimate,
    furthest,
    mean_offset_estimate,
    product_grid,
)
from attnforge.lemmas.kink import far_key, kink
from attnforge.lemmas.logistic import LOGISTIC, logistic_error, silu_error
from attnforge.lemmas.reciprocal import BITS, FEWEST, MOST, radau, reciprocal_error, reciprocal_rule
from attnforge.lemmas.saturation import reproduction, saturation, truncation
from attnforge.lemmas.shards import check_shards, part_count, shards_covered
from attnforge.lemmas.small_sharpness import aggregation_error, combined_error
from attnforge.outward import machine, precision
from tests.refusals import refused

# Bumps


def offsets_and_weights(u, beta, grid):
    """Signed distances to the centres and softmax weights, with the bump written as its definition."""
    offsets = np.arange(grid) + 0.5 - u[..., None]
    scores = beta * np.clip(1.5 - np.abs(offsets), 0.0, 1.0)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return offsets, weights / weights.sum(axis=-1, keepdims=True)


@pytest.mark.parametrize("grid", [1, 2, 3, 5, 32])
@pytest.mark.parametrize("beta", [0.1, 1.0, 5.0, 20.0, 300.0])
def test_bumps_are_bounded_in_every_cell_and_tightly(beta, grid):
    u = np.concatenate([np.linspace(0, grid, 4001), np.arange(grid) + 1 - 1.3 / beta])
    offsets, weights = offsets_and_weights(np.clip(u, 0, grid), beta, grid)
    worst = float((np.clip(np.abs(offsets) - 0.5, 0, None) * weights).sum(axis=-1).max())
    assert worst <= beyond_nearest(beta, grid) <= 1.05 * worst + 1e-12
    assert beyond_nearest_estimate(beta, grid) <= beyond_nearest(beta, grid)
    assert beyond_nearest(1e6, 50) == pytest.approx(0.2785e-6, rel=0.02)  # neighbours alone pull by the kink


@settings(max_examples=60)
@given(
    st.lists(st.tuples(st.floats(0.01, 2.0), st.integers(1, 4)), min_size=1, max_size=3),
    st.floats(0.1, 60.0), st.floats(0.0, 2.0), st.integers(0, 2**32 - 1),
)  # fmt: skip
def test_product_grids_of_bumps_with_disturbed_scores(axes, beta, d, seed):
    """E max_r h_r |delta_r| over the whole product grid, every score moved by up to d, as an adversary would."""
    rng = np.random.default_rng(seed)
    steps, grids = np.array([h for h, _ in axes]), tuple(grid for _, grid in axes)
    index = np.stack(np.meshgrid(*(np.arange(grid) + 0.5 for grid in grids), indexing="ij"), -1).reshape(-1, len(grids))
    u = rng.uniform(0.0, grids, size=(200, len(grids)))
    u[:100] = np.round(u[:100]) + rng.choice([0.0, 1e-9, -1e-9, 1 / beta, -1 / beta], size=(100, len(grids)))
    gaps = np.abs(index - np.clip(u, 0, grids)[:, None])
    distance = (steps * gaps).max(axis=-1)
    far = distance > (np.median(distance, axis=1, keepdims=True) if rng.random() < 0.5 else steps.max() / 2)
    scores = beta * np.clip(1.5 - gaps, 0.0, 1.0).sum(axis=-1) + np.where(far, d, -d)
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    half, rest = product_grid(beta, steps, grids)
    most = (half + min(np.exp(2 * d) * rest, furthest(steps, grids))) * (1 + 1e-12)
    assert ((weights * distance).sum(axis=1) / weights.sum(axis=1)).max() <= most


@pytest.mark.parametrize(("grid", "margin"), [(2, 0.0), (5, 0.5), (16, 0.0)])
def test_mean_offsets_of_bumps(grid, margin):
    offsets, weights = offsets_and_weights(np.linspace(margin, grid - margin, 4001), 9.0, grid)
    worst = float(np.abs((offsets * weights).sum(axis=-1)).max())
    assert mean_offset_estimate(9.0, grid, margin) == pytest.approx(worst, rel=1e-3)


# Kinks and logistic heads


@pytest.mark.parametrize("d", [0.0, 1e-3, 1.0, 4.0])
@pytest.mark.parametrize("beta", [1e-3, 0.5, 7.0, 1e12])
def test_the_loser_of_two_lines_and_a_far_key_pull_by_no_more(beta, d):
    z = np.linspace(0.0, 60.0, 60_001) / beta
    pull, bound = z * 0.5 * (1 + np.tanh((-beta * z + d) / 2)), kink(beta, d)
    assert pull.max() <= bound * (1 + 1e-12)
    assert d or bound <= pull.max() * (1 + 1e-6)  # attained, without a disturbance
    assert bound == pytest.approx((0.2784645427610738 + d) / beta, rel=1e-14)
    for scaled in (0.1, 1.0, 40.0):
        gap = scaled / beta
        assert gap / (1 + math.exp(scaled - 2 * d)) <= far_key(beta, gap, d) * (1 + 1e-12)
        assert far_key(beta, gap, d) == pytest.approx(gap * math.exp(2 * d - scaled), rel=1e-12)
    assert 0 < far_key(1e6, 1.0) < 1e-300


@pytest.mark.parametrize("function", [*LOGISTIC, "silu"])
def test_the_error_of_a_logistic_head_of_any_numbers_is_bounded(function):
    rng, y = np.random.default_rng(0), np.linspace(-4, 4, 2001)
    for size in np.repeat([1e-8, 1e-3, 0.1, 3.0], 40):
        if function == "silu":
            slope, apart, *lines = np.array([1, 0, 1, 0, 0, 0]) + size * rng.normal(size=6)
            wanted, first, second = y / (1 + np.exp(-y)), lines[:2], lines[2:]
            bound = silu_error(arb(slope), arb(apart), (tuple(map(arb, first)), tuple(map(arb, second))), arb(4))
        else:
            factor, scale, offset = LOGISTIC[function]
            slope, apart, *ends = np.array([factor, 0, scale + offset, offset]) + size * rng.normal(size=4)
            wanted, first, second = offset + scale / (1 + np.exp(-factor * y)), (0, ends[0]), (0, ends[1])
            bound = logistic_error(function, arb(slope), arb(apart), tuple(map(arb, ends)), arb(4))
        theta = 1 / (1 + np.exp(-(slope * y + apart)))
        out = (first[0] * y + first[1]) * theta + (second[0] * y + second[1]) * (1 - theta)
        error = np.abs(out - wanted).max()
        assert error <= float(bound) * (1 + 1e-9) + 1e-15
        assert function == "silu" or size > 0.1 or float(bound) <= 40 * error + 1e-14
    assert 0.025 <= float(logistic_error("sigmoid", arb(1), arb(0, 0.1), (arb(1), arb(0)), arb(1))) <= 0.0251


# Rows with inverse heat values, in high precision


def inverse_heat(degree, u, c):
    """e^{-(s^2/2) d^2/du^2} u^degree with s^2 = 1/(2c)."""
    ways = (
        math.factorial(degree) // math.factorial(i) // math.factorial(degree - 2 * i) for i in range(degree // 2 + 1)
    )
    return mpmath.fsum(w * (-1 / (4 * mpmath.mpf(c))) ** i * u ** (degree - 2 * i) for i, w in enumerate(ways))


def output(degree, z, c, anchors):
    """Of a row whose values are those of a power about z."""
    z = mpmath.mpf(z.numerator) / z.denominator if isinstance(z, Fraction) else mpmath.mpf(z)
    weights = [mpmath.exp(-c * (z - k) ** 2) for k in anchors]
    terms = (w * inverse_heat(degree, k - z, c) for w, k in zip(weights, anchors, strict=True))
    return mpmath.fsum(terms) / mpmath.fsum(weights)


@pytest.mark.parametrize("c", [0.2, 0.5, 1.0, 4.0])
def test_saturation_is_a_bound_and_a_tight_one(c):
    reach = math.ceil(math.sqrt(150 / c))
    with mpmath.workdps(60):
        for degree in (1, 2, 3, 7, 12):
            worst = max(abs(output(degree, Fraction(i, 16), c, range(-reach, reach + 2))) for i in range(16))
            assert worst <= saturation(c, degree)
            if c <= 2:  # two harmonics of opposite sign leave a gap where the staircase is coarse
                assert saturation(c, degree) <= 1.3 * worst + mpmath.mpf(10) ** -40


@pytest.mark.parametrize(("c", "ghosts", "count"), [(0.3, 9.25, 26), (0.5, 6.0, 14), (1.0, 4.0, 10), (3.0, 2.0, 11)])
def test_truncation_is_a_bound_and_a_tight_one(c, ghosts, count):
    """The domain is [0, length], and the first anchor sits ``ghosts`` steps before it."""
    reach, length = math.ceil(math.sqrt(150 / c)), count - 1 - 2 * ghosts
    with mpmath.workdps(60):
        kept, whole = ([mpmath.mpf(k) - ghosts for k in row] for row in (range(count), range(-reach, count + reach)))
        for degree in (1, 2, 3, 7, 12):
            ends = (0.0, length / 8, length / 2, length)
            worst = max(abs(output(degree, z, c, kept) - output(degree, z, c, whole)) for z in ends)
            assert worst <= truncation(c, ghosts, degree, count)
            if length >= 1 and degree <= 3:
                assert truncation(c, ghosts, degree, count) <= 1.35 * worst


@settings(max_examples=30)
@given(st.lists(st.floats(-1, 1), min_size=2, max_size=7), st.floats(0.25, 1.5), st.floats(-1, 1), st.integers(3, 9))
def test_a_polynomial_on_a_finite_row_errs_by_no_more(coefficients, c, place, ghosts):
    """Coefficients about zero, domain [-4, 4], in steps."""
    with mpmath.workdps(60):
        z, count, p = mpmath.mpf(4 * place), 9 + 2 * ghosts, coefficients[::-1]
        row = [mpmath.mpf(k) for k in range(-4 - ghosts, 5 + ghosts)]
        weights = [mpmath.exp(-mpmath.mpf(c) * (z - k) ** 2) for k in row]
        values = [mpmath.fsum(a * inverse_heat(d, k, c) for d, a in enumerate(coefficients)) for k in row]
        error = abs(mpmath.fdot(weights, values) / mpmath.fsum(weights) - mpmath.polyval(p, z))
        taylor = mpmath.taylor(lambda t: mpmath.polyval(p, t), z, len(coefficients) - 1)
        sizes = [float(abs(a)) * (1 + 1e-15) + 1e-30 for a in taylor]
        assert error <= sum(reproduction(c, float(ghosts), count, sizes).values())


def test_inverse_heat_by_hand_and_at_its_ends():
    assert saturation(1.0, 1) == pytest.approx(2 * math.pi * math.exp(-(math.pi**2)), rel=2e-4)
    assert saturation(0.5, 3) == pytest.approx(2 * (2 * math.pi) ** 3 * math.exp(-2 * math.pi**2), rel=1e-7)
    assert saturation(5.0, 0) == 0.0 == truncation(5.0, 0.0, 0, 2)
    for c in (0.0, -1.0, 1e-3, 101.0, math.inf, math.nan):
        assert saturation(c, 1) == math.inf == truncation(c, 5.0, 1, 20)
    for row in ((0.1, 1.0, 12, 20), (0.3, 5.0, 1, 10), (0.3, -1.0, 1, 10), (0.3, math.nan, 1, 10)):
        assert truncation(*row) == math.inf
    assert all(truncation(0.4, g + 1.0, 4, 40) < truncation(0.4, float(g), 4, 40) for g in range(4, 12))


# The Gauss-Radau rule for 1/y


def relative_error(rule, count=400):
    """Of the rule against 1/y, by mpmath, at points of [2, 4]."""
    with mpmath.workdps(60):
        pairs = [
            [mpmath.mpf(each.mid().str(60, radius=False)) for each in pair]
            for pair in zip(rule.nodes, rule.weights, strict=True)
        ]
        steps = [mpmath.mpf(rule.alpha) * i / count for i in range(count + 1)]
        return max(abs(float((t + rule.alpha) * mpmath.fsum(g * x**t for x, g in pairs) - 1)) for t in steps)


@pytest.mark.parametrize("nodes", range(FEWEST, MOST + 1))
def test_a_reciprocal_rule_is_radaus_and_as_good_as_stated(nodes):
    rule = reciprocal_rule(nodes)
    assert rule.nodes[0] == 1
    assert all(0 < x < 1 for x in rule.nodes[1:])
    assert all(g > 0 for g in rule.weights)
    with precision(BITS):
        pairs = list(zip(rule.nodes, rule.weights, strict=True))
        moments = [sum((g * x**j for x, g in pairs), arb(0)) for j in range(2 * nodes + 2)]
        exact = [bool(moment.overlaps(1 / (j + arb(rule.alpha)))) for j, moment in enumerate(moments)]
        others = [radau(nodes, rule.alpha + shift) for shift in (-0.05, 0.05)]
    assert exact == [True] * (2 * nodes - 1) + [False] * 3
    seen = relative_error(rule)
    assert seen <= reciprocal_error(nodes) <= 1.1 * seen
    assert min(map(relative_error, others)) > seen


def test_a_node_is_worth_a_factor_of_fifty_and_others_are_refused():
    errors = [reciprocal_error(nodes) for nodes in range(FEWEST, MOST + 1)]
    assert all(50 < before / after < 80 for before, after in pairwise(errors))
    for nodes in (0, 1, 11):
        with refused(af.RefusalError):
            reciprocal_rule(nodes)


# Softmax over small scores


def slope(beta, keys, values):
    """out / beta of a softmax over keys and mirror images, in extended precision."""
    keys, values = keys.astype(np.longdouble), values.astype(np.longdouble)
    return (np.sinh(beta * keys) @ values / np.cosh(beta * keys).sum()) / np.longdouble(beta)


@pytest.mark.parametrize("seed", range(6))
def test_small_sharpness_errs_by_no_more(seed):
    rng = np.random.default_rng(seed)
    keys, values = rng.uniform(-1, 1, 20), rng.normal(size=(20, 3))
    keys[0], length = 1.0, np.linalg.norm(values, axis=1).max()
    for beta in (0.4, 0.3, 0.1, 0.05):
        one, two = slope(beta, keys, values), slope(2 * beta, keys, values)
        assert np.linalg.norm(one - keys @ values / 20) <= length * aggregation_error(beta)
        bound = combined_error([(beta, 4 / 3), (2 * beta, -1 / 3)], 1.0)
        assert np.linalg.norm(4 * one / 3 - two / 3 - keys @ values / 20) <= length * bound
        assert bound < 30 * beta**4 * (1 + 10 * beta)


@pytest.mark.parametrize("reach", [1.0, 4.0, 12.0])
def test_few_large_residuals_among_many_small_ones(reach):
    """The mean square says more than the largest: the bound is below the one without it, and holds."""
    rng, heads = np.random.default_rng(int(reach)), [(0.08, 1.0), (0.05, -0.3)]
    keys, values = rng.uniform(-0.3, 0.3, 200), rng.normal(size=(200, 3))
    keys[0] = reach
    error = np.linalg.norm(sum(c * slope(beta, keys, values) for beta, c in heads) - 0.7 * keys @ values / 200)
    bound = combined_error(heads, reach, math.sqrt(float(np.mean(keys**2))))
    assert error <= np.linalg.norm(values, axis=1).max() * bound
    assert bound <= combined_error(heads, reach)
    assert aggregation_error(1e-3) / aggregation_error(1e-4) == pytest.approx(100, rel=1e-3)  # of second order
    assert (aggregation_error(0.0), combined_error([(1.0, 1.0)], 0.0)) == (0.0, 0.0)
    assert aggregation_error(1e3) == combined_error([(1e3, 1.0)], 1.0) == math.inf


# Shards


def roundings(parts, rng):
    """Exponentials and, in sums, additions and rescalings that the worst key passes, merged in a random order."""
    known = [(1, size - 1, 0) for size in parts]
    while len(known) > 1:
        i, j = sorted(rng.choice(len(known), 2, replace=False) if rng.random() < 0.5 else (0, 1))
        two, one = known.pop(j), known.pop(i)
        known.insert(0, tuple(max(a, b) + 1 for a, b in zip(one, two, strict=True)))
    return known[0]


@given(st.lists(st.integers(64, 400), min_size=1, max_size=30), st.integers(1, 10**5), st.integers(0, 2**32))
def test_no_tree_of_merges_has_more_than_is_charged(parts, at_once, seed):
    keys = sum(parts)
    exponentials, additions, rescalings = roundings(parts, np.random.default_rng(seed))
    charged = SoftmaxArithmetic(machine("float64"), keys)
    assert len(parts) <= shards_covered(keys) <= charged.blocks
    assert exponentials <= charged.blocks
    assert 1 + additions + rescalings <= keys + charged.blocks - 1  # a product, additions, rescalings: ``sum``
    cut = part_count(keys, at_once)
    assert keys // cut >= 64
    assert cut == 1 or keys / cut <= max(2 * at_once, 128)


def test_what_cannot_be_cut_is_refused():
    assert roundings([16] * 8, np.random.default_rng(0))[0] > SoftmaxArithmetic(machine("float64"), 128).blocks
    assert shards_covered(128) == 2
    values, tiny = np.ones((130, 1)), np.where(np.arange(130) == 3, 1e-310, 1.0)[:, None]
    check_shards([values, values], 2)
    check_shards([tiny])
    for wrong in (([values], 3), ([values], 0), ([],), ([None],)):
        with refused(af.RefusalError):
            check_shards(*wrong)
    with refused(af.RefusalError):
        check_shards([tiny], smallest=float(np.finfo(np.float64).tiny))
