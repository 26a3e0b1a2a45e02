"""What the checker says of layers on cells: exact values lie in its models, and runs keep to what it allows them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from flint import arb

import attnforge as af
from attnforge.certification.checker import rounding
from attnforge.certification.checker.heads import attend
from attnforge.certification.checker.layers import run
from attnforge.certification.checker.search import exactly
from attnforge.certification.checker.space import Form, Space
from attnforge.certification.checker.taylor import ONE, ZERO, Cell
from attnforge.certification.checker.values import Place, Value, combine, constant
from attnforge.network import Attention, Head, Linear, Network, Term, rounded
from attnforge.outward import machine, round_to
from tests.certification.exact import networks
from tests.readers.exact import exact_output

KINDS = tuple(networks(np.random.default_rng(0)))
DTYPES = ("float64", "float32", "bfloat16", "float16")
UNIT = 2.0**-24
MAKE = af.constructions.tensor_grid("0*x", {"x": (-1, 1)}, anchors=2)


def place_on(low, high, dtype="float64", order=3):
    low, high = np.atleast_1d(low).tolist(), np.atleast_1d(high).tolist()
    return Place(Space((-1.0,) * len(low), (1.0,) * len(low)), Cell(tuple(low), tuple(high), order), machine(dtype))


def cells(rng, count):
    for _ in range(count):
        low = rng.uniform(-1, 0.9, 2)
        yield low, np.minimum(low + 10.0 ** rng.uniform(-5, 0.3, 2), 1.0)


def outputs(whole, place, negligible=0.0):
    return [row() for row in run(place, whole, whole.tokens, negligible)]


def torch_run(whole, dtype, tokens):
    """As torch runs these weights, whatever the target."""
    module = replace(MAKE, network=whole, dtype=dtype).module().core
    with torch.no_grad():
        return module(torch.tensor(tokens).to(getattr(torch, dtype))).double().numpy()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", KINDS)
def test_runs_stay_within_off_and_off_is_of_the_size_of_rounding(kind, dtype):
    rng = np.random.default_rng(10 + KINDS.index(kind))
    with exactly(3):
        for sharpness in (2.0, 60.0):
            whole = rounded(networks(rng, sharpness)[kind], dtype)
            for low, high in cells(rng, 2):
                found = outputs(whole, place_on(low, high, dtype))
                points = np.array([*rng.uniform(low, high, size=(4, 2)), low, high])
                tokens = points.reshape(-1, whole.tokens, whole.features)
                for t, told in zip(tokens, torch_run(whole, dtype, tokens), strict=True):
                    exact = exact_output(whole, t)
                    for i, j in np.ndindex(told.shape):
                        assert abs(arb(float(told[i, j])) - exact[i][j]) <= arb(found[i][j].off)
                        assert found[i][j].run.overlaps(arb(float(told[i, j])))
        calm = outputs(rounded(networks(rng)[kind], dtype), place_on([0.1, 0.2], [0.101, 0.201], dtype))
        unit = machine(dtype).roundoff
        assert max(value.off for row in calm for value in row) < 600 * unit


# Sums of features


def variable(place, off=0.0):
    return Value(place, Form({0: ONE}, ZERO), off)


def tree_sum(rng, terms_):
    """Terms added in float32 along a random binary tree, often a lopsided one."""
    pool = [np.float32(t) for t in rng.permutation(terms_)]
    lopsided = rng.random() < 0.5
    while len(pool) > 1:
        first = pool.pop(0 if lopsided else int(rng.integers(len(pool))))
        at = 0 if lopsided else int(rng.integers(len(pool)))
        pool[at] = first + pool[at]
    return float(pool[0])


@pytest.mark.parametrize("count", [2, 3, 8, 40])
def test_no_order_of_summation_loses_more_and_some_loses_nearly_as_much(count):
    rng = np.random.default_rng(count)
    ladder = np.append(1.0, np.full(count - 1, UNIT))  # from the left it stays 1
    for given in (
        rng.uniform(0, 1, count), rng.normal(size=count), 2.0 ** -np.arange(count) * rng.choice([-1, 1], count), ladder,
        np.append(1.0, np.full(count - 1, 1.5 * UNIT)), np.append([1.0, -1.0], np.full(count, UNIT / 2)),
    ):  # fmt: skip
        given = np.float32(given).astype(np.float64)
        exact, allowed = float(np.sum(given.astype(np.longdouble))), rounding.added(given, UNIT)
        assert all(abs(tree_sum(rng, given) - exact) <= allowed for _ in range(40))
    assert (count - 1) * UNIT <= rounding.added(ladder, UNIT) <= 1.01 * (count - 1) * UNIT
    assert rounding.added(np.append([1.0, 0.5], np.full(1000, 1e-12)), UNIT) < 4 * UNIT
    mixed = np.tile([1.0, -1.0], 50)
    assert rounding.added(mixed, UNIT) < 0.8 * rounding.added(np.abs(mixed), UNIT)


def test_long_rows_of_keys_are_rescaled_and_few_written_out():
    single, few = machine("float32"), rounding.WRITTEN_OUT
    assert (rounding.blocks(64), rounding.blocks(65)) == (1, 2)
    assert rounding.exponentials(65, single) > 1.9 * rounding.exponentials(64, single)
    assert rounding.exponentials(1, single) >= 40 * UNIT
    assert 8 * UNIT <= rounding.exponentials(64, single, few) <= 10 * UNIT
    given = np.ones((1, 2)), np.zeros((1, 2), dtype=bool), np.full(1, 2.0), np.full(1, 30.0), single
    assert rounding.scores(*given) - rounding.scores(*given, few) >= 3 * 30 * UNIT


# Heads


def anchors(count, sharpness, values):
    """Scores sharpness (2 x L - L^2), L evenly spaced on [0, 1]; the constant 1 is the second feature."""
    at = np.linspace(0, 1, count)
    keys = np.stack([2 * at, -(at**2)], axis=1)
    return Head(sharpness * np.eye(2), np.eye(1), memory_keys=keys, memory_values=values(at)[:, None])


def attended(place, head, negligible=0.0, off=0.0):
    with np.errstate(all="ignore"):
        return attend(place, head, [variable(place, off), constant(place, 1.0)], [], negligible)[0]


def exactly_at(head, x):
    return exact_output(Network((Attention((head,)),), 2, 1), np.array([[x, 1.0]]))[0][0]


@pytest.mark.parametrize("negligible", [0.0, 1e-12, 1e-3])
@pytest.mark.parametrize("sharpness", [1.0, 100.0, 1e4, 1e7])
def test_keys_left_out_are_accounted_for(sharpness, negligible):
    rng = np.random.default_rng(int(sharpness))
    head = anchors(50, sharpness, lambda at: np.sin(9 * at) * np.where(at > 0.7, 1e3, 1.0))
    with exactly(4):
        for _ in range(4):
            low = rng.uniform(0, 0.9)
            high = min(low + 10.0 ** rng.uniform(-6, 0), 1.0)
            place = place_on(low, high, order=4)
            found = attended(place, head, negligible)
            for x in [*rng.uniform(low, high, 4).tolist(), low, high]:
                assert (place.cell.range(found.model) + arb(0, found.off)).overlaps(exactly_at(head, x))
                assert found.run.overlaps(exactly_at(head, x))


def test_what_may_overflow_is_not_known():
    wide = Head(np.array([[1e30]]), np.eye(1), memory_keys=np.array([[1e30], [-1e30]]), memory_values=np.eye(2)[:, :1])
    maps = Network(tuple(Linear((Term(np.array([[m]])),)) for m in (300.0, 300.0, 2.0**-8)), 1, 1)
    with exactly(2), np.errstate(all="ignore"):
        half = place_on(0.25, 1.0, "float16", 2)
        large = combine(half, [variable(half)], [60000.0])
        beyond = combine(half, [large], [2.0])
        assert large.off < np.inf
        assert not beyond.run.is_finite()
        for each in (
            beyond,
            combine(half, [beyond], [0.0]),  # infinity times zero is no zero
            combine(half, [variable(half)] * 2, [60000.0, -60000.0]),  # before the sum is small
            Value(half, Form({0: ONE}, ZERO), float("nan")),
            outputs(maps, place_on(0.5, 1.0, "float16", 2))[0][0],
            outputs(rounded(Network((Attention((wide,)),), 1, 1), "float32"), place_on(0.5, 1.0, "float32", 2))[0][0],
            attended(place_on(0.2, 0.3, "float32", 4), anchors(200, 1.0, lambda at: np.full_like(at, 1e37))),
        ):
            assert each.off == np.inf
        assert outputs(maps, place_on(0.25, 0.5, "float16", 2))[0][0].off < 1.0
        x = float(round_to(np.array([0.3]), "float16")[0])  # times 2^-14 it is no float16 number
        lost = abs(float(round_to(np.array([x * 2.0**-14]), "float16")[0]) - x * 2.0**-14)
        assert 0 < lost <= combine(half, [variable(half)], [2.0**-14]).off
        one = anchors(1, 1.0, lambda at: np.full_like(at, 1.0))
        assert attended(place_on(0.2, 0.3, "bfloat16", 4), one).off >= 2.0**-8  # half a unit, of weight and output
