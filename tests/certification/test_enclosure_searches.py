"""Suprema that provers find by expansion: never below the error, near it, and they say what ended them."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from flint import arb, arb_mat
from hypothesis import given, settings
from hypothesis import strategies as st

import attnforge as af
from attnforge.certification.enclosure.affine_heads import AffineHead, affine_head, read_heads
from attnforge.certification.enclosure.cost import cost
from attnforge.certification.enclosure.fitted import may_be_enclosed
from attnforge.certification.enclosure.one_input import READ, ErrorOnIntervals, supremum
from attnforge.certification.enclosure.row_models import (
    DEGREE,
    Pairs,
    RowModel,
    above_exponential,
    exponential,
    largest_sizes,
)
from attnforge.certification.enclosure.run import MemoryRun, _added, rounding
from attnforge.certification.enclosure.several_inputs import supremum_box
from attnforge.certification.in_context.aggregation import LANES, summation
from attnforge.expression import parse
from attnforge.expression.evaluate import bounds, evaluate
from attnforge.expression.intervals import Interval
from attnforge.network import Attention, Head, Linear, Network, Term, rounded
from attnforge.outward import Up, machine, precision
from attnforge.targets import Formula
from attnforge.targets.in_context.features import places
from tests.readers.exact import exact_output

# Polynomials of heads in one input, in float64


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


@pytest.mark.parametrize("seed", range(24))
def test_the_exact_head_is_within_the_rest(seed):
    rng = np.random.default_rng(seed)
    *numbers, tilts = random_numbers(rng)
    radius = float(10.0 ** rng.uniform(-25, -4)) if seed % 2 else 0.0
    low = rng.uniform(-1, 1, 4)
    high = low + 10.0 ** rng.uniform(-8, 0, 4)
    middle = low / 2 + high / 2
    radii = np.nextafter(np.maximum(high - middle, middle - low), np.inf)
    with precision(400), np.errstate(all="ignore"):
        parts, some = [balls(each, radius) for each in numbers], dict(zip(tilts, balls(tilts.values()), strict=True))
        origin, found = RowModel(head_of(*parts, some)).on(middle, radii)
        ends = [[arb(z.mid()) + int(rng.choice([-1, 1])) * arb(z.rad()) for z in part] for part in parts]
        for cell in np.flatnonzero(np.isfinite(found.rest.values)):
            for t in (-1.0, 1.0, *rng.uniform(-1, 1, 2).tolist()):
                true = value(*ends, some, arb(middle[cell]) + arb(radii[cell]) * arb(t))
                about = sum((arb(found.c[j, cell]) * arb(t) ** j for j in range(DEGREE + 1)), start=arb(origin[cell]))
                assert abs(true - about) <= arb(found.rest.values[cell])


def test_arithmetic_of_rows_is_as_good_as_float64_allows():
    rng, unit = np.random.default_rng(0), 2.0**-53
    points = np.concatenate([rng.uniform(-600, 700, 2000), rng.uniform(-1, 1, 2000), [0.0, 1e-13, -1e-300, -600, 700]])
    anchors = np.linspace(-1.5, 1.5, 31)
    with precision(300):
        exact = [arb(x).exp() for x in points.tolist()]
        assert (
            max(float(abs(arb(y) / e - 1)) for y, e in zip(exponential(points).tolist(), exact, strict=True))
            <= 3 * unit
        )
        assert all(arb(y) > e for y, e in zip(above_exponential(points).values.tolist(), exact, strict=True))
        found = Pairs.of([arb(1) / 3]).times(np.array([1e8])) + -Pairs.of([arb(1) / 7])
        assert abs(arb(1) / 3 * arb(1e8) - arb(1) / 7 - arb(found.hi[0]) - arb(found.lo[0])) <= arb(found.off.values[0])
        head = head_of(*map(balls, (100 * anchors, -50 * anchors**2, np.sin(anchors))), {})
    assert found.off.values[0] <= 1e-22
    assert above_exponential(np.array([701.0])).values[0] == np.inf
    assert 0 < above_exponential(np.array([-1e9])).values[0] < 1e-250
    assert RowModel(head).on(np.array([0.3]), np.array([0.05]))[1].rest.values[0] <= 1e-15
    c = rng.normal(size=(DEGREE + 1, 20)) * 4.0 ** -np.arange(DEGREE + 1)[:, None]
    above, below = largest_sizes(c)
    dense = np.abs(np.polynomial.polynomial.polyval(np.linspace(-1, 1, 20_001), c)).max(axis=1)
    assert np.all((below <= dense * (1 + 1e-12)) & (dense <= above) & (above <= 1.01 * dense))


# The supremum in one input


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
        low, high = np.sort(found.lower[:, 0]), np.sort(found.upper[:, 0])
        assert (low[0], high[-1], low[1:].tolist()) == (-1.0, 1.0, high[:-1].tolist())
        for x in map(arb, (-1.0, 1.0, found.lower[found.bounds.argmax(), 0], *rng.uniform(-1, 1, 20).tolist())):
            wanted = bounds(tree, {"x": Interval(x, x)}).lower
            assert abs(sum((value(*each, x) for each in numbers), start=arb(0)) - wanted) <= arb(found.bound)
        error = ErrorOnIntervals(heads, tree, {"x": (arb(1), arb(0))})
        for cell in found.bounds.argsort()[-3:]:
            assert error.on(found.lower[cell, 0], found.upper[cell, 0]).seen <= found.bounds[cell]


def hyperbolic(*scales):
    """Heads of two keys each: together sum(scales) tanh(x), exactly."""
    head = Head(np.eye(1), np.eye(1), memory_keys=np.array([[-1.0], [1.0]]), memory_values=np.array([[-1.0], [1.0]]))
    with precision(READ):
        return tuple(affine_head((), replace(head, memory_values=s * head.memory_values), 1) for s in scales)


def test_errors_far_below_what_float64_tells_and_what_ends_a_search():
    tiny = supremum(hyperbolic(1.0), parse("tanh(x) + 1e-30*cos(x)"), "x", -1.0, 1.0)
    assert tiny.limit is None
    assert tiny.bound / 1.1 <= tiny.seen <= 1e-30 <= tiny.bound <= 1.1e-30
    assert len(tiny.lower) < 200
    wild, tree = hyperbolic(1.0, 1e30, -1e30), parse("tanh(x) + 1e-20*cos(x)")  # 160 bits leave 1e-18
    assert ErrorOnIntervals(wild, tree, {"x": (arb(1), arb(0))}).on(0.0999, 0.1).bound > 1e-19
    assert supremum(wild, tree, "x", -0.1, 0.1).bound <= 1.1e-20
    none = supremum(hyperbolic(1.0), parse("tanh(x)"), "x", -1.0, 1.0)
    assert (none.seen, none.limit, none.bound <= 1e-32) == (0.0, None, True)
    few = supremum(hyperbolic(1.0), parse("tanh(x) + 1e-9*sin(90*x)"), "x", -1.0, 1.0, cells=10)
    assert (few.limit, few.bound >= 1e-9) == ("10 cells", True)
    hidden = supremum(hyperbolic(1.0), parse("tanh(u)"), {"u": (arb(1), arb(0, 1e-6))}, -1.0, 1.0)
    assert "digits" in hidden.limit
    assert 1e-6 <= hidden.bound <= 3e-6
    assert len(hidden.lower) < 2000


def test_the_cost_of_a_proof_is_stated_before_it_starts(clock):
    """About as many cells as there are, looked at or kept; a sum costs what its terms cost."""
    box, clock.tick = {"x": (-1, 1), "y": (-1, 1)}, 1.0  # for a batch of cells
    net = af.compile("exp(-x^2)*cos(3*y)", box, tol=1e-6, construction="tensor_grid")
    kept = len(supremum_box(net.network, net.target.tree, ("x", "y"), [-1, -1], [1, 1]).lower)
    found = cost(net.network, net.target, net.domain)
    assert kept / 6 <= found.cells <= 6 * kept
    assert 0 < found.seconds <= found.most_seconds
    net = af.compile("sin(8*x) + exp(y)", box, tol=1e-6, construction="additive")
    assert cost(net.network, net.target, net.domain).cells < 1000
    many = af.Box(0, 1, shape=(6,))
    texts = (mark.join(f"x[{i}]" for i in range(6)) for mark in ("+", "*"))
    assert [may_be_enclosed(Formula(f"exp({text})", many)) for text in texts] == [True, False]


# In several inputs


def random_network(rng, inputs, grid):
    """Heads with random queries, keys and values; on a grid, keys are products of random rows."""
    heads = []
    for _ in range(int(rng.integers(1, 3))):
        keys = rng.normal(size=(int(rng.integers(1, 9)), 3))
        if grid:
            mesh = np.meshgrid(*[rng.normal(size=size) for size in rng.integers(1, 5, inputs)], indexing="ij")
            keys = np.column_stack([part for axis in mesh for part in (axis.ravel(), axis.ravel() ** 2)])
        query, values = rng.normal(size=(inputs + 1, keys.shape[1])), rng.normal(size=(len(keys), 2))
        heads.append(Head(query, rng.normal(size=(2, 1)), memory_keys=keys, memory_values=values))
    encode = Linear((Term(np.eye(inputs, inputs + 1)),), np.eye(1, inputs + 1, inputs))
    return Network((encode, Attention(tuple(heads))), inputs, 1)


@given(st.integers(0, 10**6), st.integers(2, 3), st.booleans())
@settings(max_examples=8)
def test_random_heads_are_never_above_their_bound(seed, inputs, grid):
    """Any keys, values and cells: the bound holds on each cell, and the cells fill the box."""
    rng, names = np.random.default_rng(seed), ("x", "y", "z")[:inputs]
    whole = random_network(rng, inputs, grid)
    tree = parse(["sin(3*x)*y + 1", "abs(x - y/3)", "exp(-x^2 - y)/(2 + x)"][seed % 3])
    found = supremum_box(whole, tree, names, [-1.0] * inputs, [1.0] * inputs, cells=int(rng.integers(1, 300)))
    points = rng.uniform(-1, 1, (300, inputs))
    seen = np.abs(whole(points[:, None])[:, 0, 0] - evaluate(tree, dict(zip(names, points.T, strict=True))))
    inside = ((found.lower <= points[:, None]) & (points[:, None] <= found.upper)).all(axis=2)
    assert inside.any(axis=1).all()
    assert (found.upper - found.lower).prod(axis=1).sum() == pytest.approx(2.0**inputs, rel=1e-12)
    assert (np.where(inside, seen[:, None], 0.0) <= found.bounds + 1e-12).all()
    assert found.bound == found.bounds.max()


# Rounding of a run

TYPES = {"float64": np.float64, "float32": np.float32}


def tree_sum(terms, rng):
    """Add up in a random order, or one by one from the largest, or positive terms first."""
    left, kind = list(terms), rng.integers(3)
    if kind:
        left = sorted(left, key=(lambda t: -abs(t)) if kind == 1 else (lambda t: -t))
    while len(left) > 1:
        a, b = (left.pop(0 if kind else int(rng.integers(len(left)))) for _ in range(2))
        left.insert(0, a + b)
    return left[0]


def one_run(whole, x, dtype, rng):
    """The network at one point as some kernel might run it; exponentials are off by what is allowed."""
    kind, (layer, attention) = TYPES[dtype], whole.layers
    unit, total = kind(machine(dtype).roundoff), kind(0)
    state = np.asarray(x, dtype=kind) @ layer.terms[0].map.astype(kind) + layer.constant[0].astype(kind)
    for head in attention.heads:
        query = np.array([tree_sum(state * column, rng) for column in head.query.astype(kind).T])
        scores = np.array([tree_sum(query * key, rng) for key in head.memory_keys.astype(kind)])
        weights, values = np.exp(scores - scores.max()), head.memory_values.astype(kind)
        told = values @ head.output[:, 0].astype(kind)
        side = np.sign(told - weights @ told / weights.sum()).astype(kind)
        weights = weights * (1 + kind(rng.choice([-6, 0, 6])) * unit * side)
        below, first = tree_sum(weights, rng), rng.integers(2)
        out = [tree_sum((weights / below if first else weights) * column, rng) for column in values.T]
        out = np.array(out) if first else np.array(out) / below
        total = total + tree_sum(out * head.output[:, 0].astype(kind), rng)
    return total


def bound_of(whole, lower, upper, dtype="float64", **more):
    return rounding(MemoryRun(*read_heads(whole), machine(dtype)), np.atleast_2d(lower), np.atleast_2d(upper), **more)


@given(st.integers(0, 10**6), st.integers(1, 2), st.sampled_from(sorted(TYPES)))
@settings(max_examples=50)
def test_no_order_of_summation_exceeds_the_bound(seed, inputs, dtype):
    rng = np.random.default_rng(seed)
    whole = random_network(rng, inputs, grid=False)
    wild = np.exp(2 * rng.random() * rng.normal(size=20))
    heads = tuple(replace(h, memory_values=h.memory_values * wild[: h.memory_size, None]) for h in whole.heads)
    if seed % 2:  # two heads that nearly cancel
        heads = (heads[0], replace(heads[0], output=-heads[0].output * (1 + 1e-3)))
    whole = rounded(replace(whole, layers=(whole.layers[0], Attention(heads))), dtype)
    lower = rng.uniform(-1, 0.5, inputs)
    upper = lower + 10.0 ** rng.uniform(-6, -0.3, inputs)
    bound = bound_of(whole, lower, upper, dtype)
    with precision(200):
        for _ in range(6):
            x = lower + (upper - lower) * rng.random(inputs)
            assert abs(arb(float(one_run(whole, x, dtype, rng))) - exact_output(whole, x[None])[0][0]) <= arb(bound)


def test_sums_by_hand():
    """One and one: a rounding of two. A term far below a unit of the rest costs itself, no rounding more."""
    for row, units in (([1.0, 1.0], 2), ([1.0, 1.0, 1e-30], 2), ([1.0, -1.0, 1.0], 4), ([3.0], 0)):
        assert _added(np.array([row]), 2.0**-53)[0] == pytest.approx(units * 2.0**-53, rel=1e-8)


# Sums over examples


def added(terms, lanes):
    """The sum of exact terms in float32, in so many interleaved running sums."""
    sums = [np.float32(0.0)] * lanes
    for i, term in enumerate(terms):
        sums[i % lanes] = np.float32(np.float64(sums[i % lanes]) + np.float64(term))  # one rounding: 24 of 53 bits
    total = sums[0]
    for each in sums[1:]:
        total = np.float32(total + each)
    return float(total)


def bound(terms, ahead=0, departed=0.0):
    return float(summation(terms[ahead:, None], ahead, machine("float32"), Up.of(1.0), Up.of(departed))[0])


@pytest.mark.parametrize("lanes", LANES)
def test_no_order_of_kernels_loses_more_and_some_nearly_as_much(lanes):
    for seed in range(5):
        x = np.random.default_rng(seed).normal(size=100 + 7 * seed)
        terms, (first, images) = np.zeros(2 + 2 * len(x)), places(len(x))
        terms[2 + first], terms[2 + images] = x * (1 + 1e-3), -x * (1 - 1e-3)
        terms = terms.astype(np.float32).astype(np.float64)
        assert abs(added(terms, lanes) - math.fsum(terms)) <= bound(terms, 2)
    x = np.random.default_rng(1).normal(
        size=64
    )  # images cancel exactly: all that is left to round is by how much terms depart
    exact = np.concatenate([x, -x])[np.argsort(np.concatenate(places(64)))]
    departed = exact * (1 + 1e-2 * np.random.default_rng(2).uniform(-1, 1, size=128))
    assert abs(added(departed, lanes) - math.fsum(departed)) <= bound(exact, departed=1e-2)
    terms, running = np.random.default_rng(0).normal(size=300) + 0.5, np.float32(0.0)
    for i, term in enumerate(terms):  # each is moved so that the running sum falls short by half a unit
        near = np.float32(float(running) + term)
        terms[i] = float(near) + 0.499 * float(np.spacing(abs(near))) - float(running)
        running = np.float32(float(running) + terms[i])
    lost = abs(Fraction(float(running)) - sum(map(Fraction, terms)))
    assert 0.9 * bound(terms) <= lost <= bound(terms)
    with np.errstate(over="ignore"):
        for scale, off in ((math.inf, 0.0), (1.0, math.inf), (1e308, 0.0)):
            assert (
                float(summation(np.full((4, 1), 100.0), 0, machine("float32"), Up.of(scale), Up.of(off))[0]) == math.inf
            )


# Pieces near a target, and questions whose answers are known
