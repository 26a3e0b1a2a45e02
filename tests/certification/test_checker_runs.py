"""What the checker says of layers on cells: exact values lie in its models, and runs keep to what it allows them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from flint import arb

import attnforge as af
from attnforge.balls import machine, round_to
from attnforge.certification.checker import rounding
from attnforge.certification.checker.heads import attend, select
from attnforge.certification.checker.layers import is_alone, run
from attnforge.certification.checker.search import exactly
from attnforge.certification.checker.space import Form, Space
from attnforge.certification.checker.taylor import ONE, ZERO, Cell
from attnforge.certification.checker.values import Place, Value, combine, constant, is_simple
from attnforge.network import Attention, Head, Linear, Network, Rows, Softmax, Term, rounded
from tests.certification.exact import network_at, networks

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


@pytest.mark.parametrize("kind", KINDS)
def test_models_contain_the_exact_values(kind):
    rng = np.random.default_rng(KINDS.index(kind))
    with exactly(3):
        for sharpness in (1.0, 8.0, 200.0):
            whole = networks(rng, sharpness)[kind]
            for low, high in cells(rng, 2):
                place = place_on(low, high)
                found, loose = outputs(whole, place), outputs(whole, place, 1e-3)
                for x in [*rng.uniform(low, high, size=(3, 2)), low, high]:
                    exact = network_at(whole, x.reshape(whole.tokens, whole.features))
                    for i, row in enumerate(exact):
                        for j, wanted in enumerate(row):
                            assert place.cell.range(found[i][j].model).overlaps(wanted)
                            known = loose[i][j]
                            assert (place.cell.range(known.model) + arb(0, known.off)).overlaps(wanted)


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
                    exact = network_at(whole, t)
                    for i, j in np.ndindex(told.shape):
                        assert abs(arb(float(told[i, j])) - exact[i][j]) <= arb(found[i][j].off)
                        assert found[i][j].run.overlaps(arb(float(told[i, j])))
        calm = outputs(rounded(networks(rng)[kind], dtype), place_on([0.1, 0.2], [0.101, 0.201], dtype))
        unit = machine(dtype).roundoff
        assert max(value.off for row in calm for value in row) < 600 * unit


# Sums of features


def variable(place, off=0.0):
    return Value(place, Form({0: ONE}, ZERO), off)


def test_every_product_and_addition_counts_once():
    with exactly(2):
        place = place_on(0.25, 1.0, "float32")
        x = variable(place)
        for weights, shift, roundings in (
            ([1.0], 0.0, 0), ([2.0], 0.0, 0), ([3.0], 0.0, 3), ([1.0, 1.0], 0.0, 2), ([3.0, 1.0], 1.0, 5 + 9)
        ):  # fmt: skip
            found = combine(place, [x] * len(weights), weights, shift).off
            assert found == pytest.approx(roundings * UNIT, rel=1e-5, abs=1e-37)
        assert combine(place, [variable(place, 0.125)], [-2.0]).off == pytest.approx(0.25, rel=1e-6)
        assert combine(place, [constant(place, 4.0)], [0.3]).off <= 2 * 2.0**-126
        told = Value(place, place.cell.constant(arb(0.5)), 1.0, arb(0.5, 0.5))  # off by one, and yet in [0, 1]
        found = combine(place, [told], [2.0], -1.0)
        assert found.off >= 2.0
        assert 1.0 < float(abs(found.run).upper()) < 1 + 1e-6
        simple = [constant(place, 0.0), constant(place, -0.25)]
        others = [constant(place, 3.0), x, Value(place, Form({}, arb(2)), 1e-9)]
        assert [is_simple(each) for each in (*simple, *others)] == [True] * 2 + [False] * 3


@pytest.mark.parametrize("dtype", DTYPES[1:])
def test_no_weighted_sum_is_further_off(dtype):
    """In random orders, against exact ones."""
    rng = np.random.default_rng(1)
    with exactly(2):
        for _ in range(40):
            place, count = place_on(0.0, 1.0, dtype), int(rng.integers(1, 7))
            weights = round_to(rng.normal(size=count) * 10.0 ** rng.integers(-4, 4), dtype)
            weights = np.where(rng.random(count) < 0.3, 2.0 ** rng.integers(-14, 4, count), weights)
            shift = float(round_to(rng.normal(size=1), dtype)[0]) if rng.random() < 0.5 else 0.0
            found = combine(place, [variable(place)] * count, weights.tolist(), shift)
            for x in round_to(rng.uniform(0, 1, 10) ** 3, dtype):
                total = np.float64(0.0)
                for k in rng.permutation(count):
                    total = round_to(total + round_to(np.array(weights[k] * x), dtype), dtype)
                total = round_to(total + shift, dtype)
                exact = sum((arb(w) * arb(float(x)) for w in weights.tolist()), start=arb(shift))
                assert abs(arb(float(total)) - exact) <= arb(found.off)


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


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_scores_round_no_more_than_stated(dtype):
    """Dot products, and the subtraction of the largest, in the dtype against longer ones."""
    rng, model, kind = np.random.default_rng(3), machine(dtype), np.dtype(dtype).type
    for _ in range(200):
        keys, width = int(rng.integers(2, 9)), int(rng.integers(1, 5))
        q = (rng.normal(size=width) * 10.0 ** rng.integers(-2, 3)).astype(kind)
        k = rng.normal(size=(keys, width)).astype(kind)
        k[rng.random(k.shape) < 0.3] = kind(0.5)
        exact = (k.astype(np.longdouble) * q.astype(np.longdouble)).sum(axis=1)
        told = np.zeros(keys, kind)
        for column in rng.permutation(width):
            told = told + k[:, column] * q[column]
        apart, products = told - told.max(), np.abs(k.astype(float) * q.astype(float))
        size, lead = np.abs(exact).astype(float), np.abs(apart).astype(float)
        found = rounding.scores(products, np.abs(np.frexp(k.astype(float))[0]) == 0.5, size, lead, model)
        off = np.abs((apart.astype(np.longdouble) - (exact - told.max().astype(np.longdouble))).astype(float))
        assert np.all(off <= found + 1e-19)
    far = np.full((1, 2), 1e38 if dtype == "float32" else 1e308), np.zeros((1, 2), dtype=bool), np.ones(1), np.ones(1)
    with np.errstate(all="ignore"):
        assert np.isnan(rounding.scores(*far, model)).all()  # beyond the range


def test_long_rows_of_keys_are_rescaled_and_few_written_out():
    single, few = machine("float32"), rounding.WRITTEN_OUT
    assert (rounding.blocks(64), rounding.blocks(65)) == (1, 2)
    assert rounding.exponentials(65, single) > 1.9 * rounding.exponentials(64, single) >= 1.9 * 40 * UNIT
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
    return network_at(Network((Attention((head,)),), 2, 1), np.array([[x, 1.0]]))[0][0]


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


def test_sharp_heads_are_their_winner_or_between_all_values():
    with exactly(4):
        place = place_on(0.31, 0.32, order=4)
        found = attended(place, anchors(11, 1e5, lambda at: at**2), 1e-9)
        assert abs(float(found.model.at[0]) - 0.09) < 1e-15
        assert found.off < 1e-9
        place = place_on(0.0, 1.0, order=4)
        found = attended(place, anchors(11, 1e9, lambda at: 1 + at))
        span = place.cell.range(found.model)
        assert all(span.contains(end) for end in (1, 2))
        assert 0.99 < float(span.lower()) < float(span.upper()) < 2.01
        assert found.off < 1.1


def test_errors_of_queries_keys_and_scores_move_the_weights():
    """Two keys of one token, or two scores, each off by 0.1: the weights move by about a twentieth."""
    head = anchors(3, 4.0, lambda at: at)
    own = Head(
        np.eye(1), np.eye(1), key=np.eye(1), value=np.zeros((1, 1)), key_rows=Rows(),
        memory_keys=np.array([[0.5]]), memory_values=np.array([[1.0]]),
    )  # fmt: skip
    with exactly(4), np.errstate(all="ignore"):
        place = place_on(0.4, 0.40001, order=4)
        moved = max(abs(exactly_at(head, 0.4 + s) - exactly_at(head, 0.4)) for s in (-0.05, 0.05))
        assert attended(place, head, off=0.05).off > float(moved) > 1e4 * attended(place, head).off
        half = Value(place, Form({}, arb(0.5)), 0.1)
        assert attend(place, own, [constant(place, 1.0)], [[half]], 0.0)[0].off >= abs(1 / (1 + np.exp(0.1)) - 0.5)
        assert select(place, [half, half], np.array([[0.0], [1.0]]), 0.0)[0].off >= np.tanh(0.1) / 2


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


def test_heads_are_added_in_any_order_and_alone_read_one_token():
    """1 + 2^-24 + 2^-24 + ... stays 1 where the products of all heads are added in one sum."""
    one, zero = np.eye(1), np.zeros((1, 1))
    values = [np.array([[1.0, UNIT]]), *[np.array([[UNIT, UNIT]])] * 63]
    heads = tuple(Head(zero, np.ones((2, 1)), memory_keys=zero, memory_values=v) for v in values)
    with exactly(2):
        ((value,),) = outputs(Network((Attention(heads),), 1, 1), place_on(0.0, 1.0, "float32", 2))
    assert value.off >= 127 * UNIT
    memory = {"memory_keys": one, "memory_values": one}
    read = {"key": one, "value": one}
    alone = Head(one, one, **memory), Head(one, one, **read, key_rows=Rows("own"))
    others = Head(one, one, **read, key_rows=Rows()), Head(one, one, Rows.some([0]), **memory)
    assert [is_alone(each) for each in (*alone, *others)] == [True, True, False, False]


@pytest.mark.parametrize(
    "after", [(), (Linear((Term(np.eye(2)), Term(np.eye(2)))),), (Linear((Term(np.eye(2), np.eye(1)),)),)]
)
def test_a_softmax_is_read_whatever_follows(after):
    whole, low, high = Network((Softmax(), *after), 2, 1), np.array([-0.5, 0.25]), np.array([-0.25, 0.5])
    with exactly(2):
        (found,) = outputs(whole, place_on(low, high, order=2))
        for x in (low, high, (low + high) / 2):
            for value, exact in zip(found, whole(x[None])[0].tolist(), strict=True):
                assert value.run.contains(arb(exact))
                assert 2 * float(value.run.rad()) < 0.4 * abs(exact)
