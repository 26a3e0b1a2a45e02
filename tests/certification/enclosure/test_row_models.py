"""Polynomials of heads in float64: around the exact head for any numbers, as narrow as float64 allows."""

from __future__ import annotations

import numpy as np
import pytest
from flint import arb, arb_mat

from attnforge.balls import precision
from attnforge.certification.enclosure.affine_heads import AffineHead
from attnforge.certification.enclosure.one_input import ErrorOnIntervals, supremum
from attnforge.certification.enclosure.row_models import (
    DEGREE,
    Pairs,
    RowModel,
    above_exponential,
    exponential,
    largest_sizes,
)
from attnforge.targets.expression import parse
from attnforge.targets.expression.evaluate import bounds
from attnforge.targets.expression.intervals import Interval

ROUNDOFF = 2.0**-53


def random_numbers(rng):
    """Slopes, offsets and values of keys: rows of anchors, graded ones, ties, or anything; and tilts of some values."""
    count, scale = int(rng.integers(1, 40)), 10.0 ** rng.uniform(-3, 4)
    places = rng.uniform(-1.3, 1.3, count)
    graded = np.sign(places) * 10.0 ** rng.uniform(-6, 0, count)
    slopes, offsets = [
        (2 * scale * np.sort(places), -scale * np.sort(places) ** 2),
        (rng.normal(size=count) * scale, rng.normal(size=count) * scale),
        (2 * scale * np.sign(graded), -scale * np.abs(graded)),
        (rng.integers(-3, 4, count) * scale, rng.integers(-3, 4, count) * 1.0),
    ][rng.integers(4)]
    values = rng.normal(size=count) * 10.0 ** rng.uniform(-3, 3)
    tilted = rng.choice(count, size=int(rng.integers(0, 2)), replace=False)
    return slopes, offsets, values, {int(k): float(rng.normal()) for k in tilted}


def balls(numbers, radius=0.0):
    """No float64 numbers, and known to a radius."""
    return [arb(float(z)) * (1 + arb(2) ** -70 / 3) + arb(0, radius) for z in numbers]


def head_of(slopes, offsets, values, tilts):
    count = len(slopes)
    found = tuple((k, arb_mat(1, 1, [tilt])) for k, tilt in tilts.items())
    return AffineHead(arb_mat(1, count, slopes), arb_mat(1, count, offsets), arb_mat(count, 1, values), found)


def value(slopes, offsets, values, tilts, x):
    """The head at a point, for numbers without radii."""
    scores = [a * x + b for a, b in zip(slopes, offsets, strict=True)]
    top = max(scores, key=lambda score: float(score.mid()))
    weights = [(score - top).exp() for score in scores]
    moved = [v + tilts.get(k, arb(0)) * x for k, v in enumerate(values)]
    return sum((w * v for w, v in zip(weights, moved, strict=True)), start=arb(0)) / sum(weights, start=arb(0))


def corner(rng, numbers):
    """One end of each ball."""
    return [arb(z.mid()) + int(rng.choice([-1, 1])) * arb(z.rad()) for z in numbers]


@pytest.mark.parametrize("seed", range(40))
def test_the_exact_head_is_within_the_rest(seed):
    rng = np.random.default_rng(seed)
    slopes, offsets, values, tilts = random_numbers(rng)
    radius = float(10.0 ** rng.uniform(-25, -4)) if seed % 2 else 0.0
    low = rng.uniform(-1, 1, 5)
    high = low + 10.0 ** rng.uniform(-8, 0, 5)
    middle = low / 2 + high / 2
    radii = np.nextafter(np.maximum(high - middle, middle - low), np.inf)
    with precision(400):
        parts = balls(slopes, radius), balls(offsets, radius), balls(values, radius)
        some = dict(zip(tilts, balls(tilts.values()), strict=True))
        with np.errstate(all="ignore"):
            origin, found = RowModel(head_of(*parts, some)).on(middle, radii)
        exact = [corner(rng, part) for part in parts]
        for cell in np.flatnonzero(np.isfinite(found.rest.values)):
            for t in (-1.0, 1.0, *rng.uniform(-1, 1, 3).tolist()):
                true = value(*exact, some, arb(middle[cell]) + arb(radii[cell]) * arb(t))
                about = sum((arb(found.c[j, cell]) * arb(t) ** j for j in range(DEGREE + 1)), start=arb(origin[cell]))
                assert abs(true - about) <= arb(found.rest.values[cell])


@pytest.mark.parametrize("seed", range(12))
def test_no_error_exceeds_the_supremum_of_random_heads(seed):
    """Of sums of heads against smooth and kinked formulas; balls and float64 tell the same."""
    rng = np.random.default_rng(seed)
    text = ("sin(3*x)", "abs(x - 0.1)", "1/(1 + 25*x^2)", "sqrt(x + 1)", "clamp(3*x, -1, 1)", "sign(x - 0.2)")[seed % 6]
    tree = parse(text)
    with precision(300):
        numbers = [
            (*map(balls, parts), dict(zip(tilts, balls(tilts.values()), strict=True)))
            for *parts, tilts in (random_numbers(rng) for _ in range(1 + seed % 2))
        ]
        heads = tuple(head_of(*each) for each in numbers)
        found = supremum(heads, tree, "x", -1.0, 1.0)
        assert found.limit is None
        assert found.seen <= found.bound <= 1.1 * found.seen
        worst = found.lower[found.bounds.argmax(), 0]
        for x in map(arb, (-1.0, 1.0, worst, *rng.uniform(-1, 1, 30).tolist())):
            wanted = bounds(tree, {"x": Interval(x, x)})
            error = abs(sum((value(*each, x) for each in numbers), start=arb(0)) - wanted.lower)
            assert error <= arb(found.bound)
        error = ErrorOnIntervals(heads, tree, {"x": (arb(1), arb(0))})
        for cell in found.bounds.argsort()[-3:]:
            in_balls = error.on(found.lower[cell, 0], found.upper[cell, 0])
            assert in_balls.seen <= found.bounds[cell]


def off_at_the_end(slopes, offsets, values, radius=0.0):
    """How far the polynomial on [-1, 1] is from a head of two keys at 1, slopes at the end of their balls; its rest."""
    with precision(400):
        known = [arb(slope, radius) for slope in slopes]
        parts = list(map(arb, offsets)), list(map(arb, values))
        origin, found = RowModel(head_of(known, *parts, {})).on(np.zeros(1), np.ones(1))
        true = value([arb(slopes[0]) - arb(radius), arb(slopes[1]) + arb(radius)], *parts, {}, arb(1))
        about = sum(map(arb, found.c[:, 0].tolist()), start=arb(origin[0]))
        return float(abs(true - about)), found.rest.values[0]


def test_slopes_known_to_a_radius_alone_are_charged():
    off, rest = off_at_the_end((-0.5, 0.5), (0.0, 0.0), (0.0, 1.0), radius=1e-6)
    assert 1e-7 < off <= rest < 1e-4


def test_keys_too_far_behind_to_be_added_up_are_charged_where_they_come_close():
    off, rest = off_at_the_end((0.0, 645.0), (0.0, -650.0), (0.0, 1.0))
    assert 1e-3 < off <= rest < 1.0


def test_exponentials_are_within_three_roundoffs():
    rng = np.random.default_rng(0)
    points = np.concatenate([rng.uniform(-600, 700, 3000), rng.uniform(-1, 1, 3000), [0.0, 1e-13, -1e-300, -600, 700]])
    with precision():
        exact = [arb(x).exp() for x in points.tolist()]
        off = [abs(arb(y) / e - 1) for y, e in zip(exponential(points).tolist(), exact, strict=True)]
        assert max(map(float, off)) <= 3 * ROUNDOFF
        assert all(arb(y) > e for y, e in zip(above_exponential(points).values.tolist(), exact, strict=True))
    assert above_exponential(np.array([701.0])).values[0] == np.inf
    assert 0 < above_exponential(np.array([-1e9])).values[0] < 1e-250


def test_pairs_keep_what_float64_drops():
    with precision(300):
        one, two = (arb(1) / 3, arb(1) / 7)
        found = Pairs.of([one]).times(np.array([1e8])) + -Pairs.of([two])
        exact = one * arb(1e8) - two
        assert abs(exact - arb(found.hi[0]) - arb(found.lo[0])) <= arb(found.off.values[0])
    assert found.off.values[0] <= 1e-22


def test_smooth_heads_are_known_to_rounding():
    """Anchors of a fit with c = 0.5, on cells as wide as their distance."""
    anchors = np.linspace(-1.5, 1.5, 31)
    with precision(300):
        head = head_of(*map(balls, (100 * anchors, -50 * anchors**2, np.sin(anchors))), {})
    origin, found = RowModel(head).on(np.array([0.3]), np.array([0.05]))
    assert found.rest.values[0] <= 1e-15
    assert origin[0] + found.c[0, 0] == pytest.approx(np.sin(0.3), abs=1e-2)


def test_largest_sizes_of_polynomials():
    rng = np.random.default_rng(3)
    c = rng.normal(size=(DEGREE + 1, 20)) * 4.0 ** -np.arange(DEGREE + 1)[:, None]
    above, below = largest_sizes(c)
    dense = np.abs(np.polynomial.polynomial.polyval(np.linspace(-1, 1, 20_001), c)).max(axis=1)
    assert np.all(below <= dense * (1 + 1e-12))
    assert np.all((dense <= above) & (above <= 1.01 * dense))
