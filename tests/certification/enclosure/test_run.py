"""What rounding adds: never below what any order of summation loses, and not far above the worst of them."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
import torch
from flint import arb
from hypothesis import given, settings
from hypothesis import strategies as st

import attnforge as af
from attnforge.balls import machine, precision
from attnforge.certification.enclosure.affine_heads import read_heads
from attnforge.certification.enclosure.run import MemoryRun, _added, rounding
from attnforge.network import Attention, Head, Linear, Network, Term, rounded

TYPES = {"float64": np.float64, "float32": np.float32}


def network_of(rng, heads, width, inputs, wild):
    """Random heads, values of random sizes; two or more heads nearly cancel."""
    found = []
    for _ in range(heads):
        keys = rng.normal(size=(int(rng.integers(1, 12)), 3)) * 2
        query = rng.normal(size=(inputs + 1, 3)) * 2
        values = rng.normal(size=(len(keys), width)) * np.exp(wild * rng.normal(size=(len(keys), 1)))
        found.append(Head(query, rng.normal(size=(width, 1)), memory_keys=keys, memory_values=values))
    if heads > 1:
        found[1] = replace(found[0], output=-found[0].output * (1 + 1e-3))
    encode = Linear((Term(np.eye(inputs, inputs + 1)),), np.eye(1, inputs + 1, inputs))
    return Network((encode, Attention(tuple(found))), inputs, 1)


def exactly(network, x):
    """The network at one point, in 200 bits."""
    with precision(200):
        state = [arb(float(each)) for each in x]
        layer, attention = network.layers
        weights, constant = layer.terms[0].map, layer.constant
        state = [
            sum((s * arb(float(w)) for s, w in zip(state, column, strict=True)), start=arb(float(c)))
            for column, c in zip(weights.T, constant[0], strict=True)
        ]
        total = arb(0)
        for head in attention.heads:
            query = [
                sum((s * arb(float(w)) for s, w in zip(state, col, strict=True)), start=arb(0)) for col in head.query.T
            ]
            scores = [
                sum((q * arb(float(k)) for q, k in zip(query, key, strict=True)), start=arb(0))
                for key in head.memory_keys
            ]
            e = [(score - scores[0]).exp() for score in scores]
            told = [
                sum((arb(float(v)) * arb(float(o)) for v, o in zip(row, head.output[:, 0], strict=True)), start=arb(0))
                for row in head.memory_values
            ]
            total += sum((a * b for a, b in zip(e, told, strict=True)), start=arb(0)) / sum(e, start=arb(0))
        return total


def tree_sum(terms, rng):
    """Add up in a random order, or one by one from the largest, or positive terms first."""
    left = list(terms)
    kind = rng.integers(3)
    if kind:
        left = sorted(left, key=(lambda t: -abs(t)) if kind == 1 else (lambda t: -t))
        total = left[0]
        for term in left[1:]:
            total = total + term
        return total
    while len(left) > 1:
        a, b = (left.pop(int(rng.integers(len(left)))) for _ in range(2))
        left.append(a + b)
    return left[0]


def one_run(network, x, dtype, rng):
    """The network at one point as some kernel might run it; exponentials are off by what is allowed."""
    kind = TYPES[dtype]
    unit = kind(machine(dtype).roundoff)
    layer, attention = network.layers
    state = np.asarray(x, dtype=kind) @ layer.terms[0].map.astype(kind) + layer.constant[0].astype(kind)
    total = kind(0)
    for head in attention.heads:
        query = np.array([tree_sum(state * column, rng) for column in head.query.astype(kind).T])
        scores = np.array([tree_sum(query * key, rng) for key in head.memory_keys.astype(kind)])
        weights = np.exp(scores - scores.max())
        values = head.memory_values.astype(kind)
        told = values @ head.output[:, 0].astype(kind)
        side = np.sign(told - weights @ told / weights.sum()).astype(kind)
        weights = weights * (1 + kind(rng.choice([-6, 0, 6])) * unit * side)
        below = tree_sum(weights, rng)
        if rng.integers(2):
            out = np.array([tree_sum(weights * column, rng) / below for column in values.T])
        else:
            out = np.array([tree_sum((weights / below) * column, rng) for column in values.T])
        total = total + tree_sum(out * head.output[:, 0].astype(kind), rng)
    return total


def bound_of(network, lower, upper, dtype, **more):
    run = MemoryRun(*read_heads(network), machine(dtype))
    return rounding(run, np.atleast_2d(lower), np.atleast_2d(upper), **more)


@given(st.integers(0, 10**6), st.integers(1, 2), st.integers(1, 2), st.integers(1, 2), st.sampled_from(sorted(TYPES)))
@settings(max_examples=60, deadline=None)
def test_no_order_of_summation_exceeds_the_bound(seed, heads, width, inputs, dtype):
    rng = np.random.default_rng(seed)
    network = rounded(network_of(rng, heads, width, inputs, wild=2.0 * rng.random()), dtype)
    lower = rng.uniform(-1, 0.5, inputs)
    upper = lower + 10.0 ** rng.uniform(-6, -0.3, inputs)
    bound = bound_of(network, lower, upper, dtype)
    for _ in range(8):
        x = lower + (upper - lower) * rng.random(inputs)
        error = abs(arb(float(one_run(network, x, dtype, rng))) - exactly(network, x))
        assert error <= arb(bound)


def test_two_heads_that_cancel_round_like_each_of_them():
    """Their sum is small, and yet each is off by roundings of its own size."""
    rng = np.random.default_rng(4)
    network = network_of(rng, 2, 1, 1, wild=3.0)
    heads = network.layers[-1].heads
    alone = replace(network, layers=(network.layers[0], Attention(heads[:1])))
    assert bound_of(network, [-1.0], [1.0], "float64") >= 1.5 * bound_of(alone, [-1.0], [1.0], "float64")


def test_the_output_matrix_scales_the_rounding():
    network = network_of(np.random.default_rng(1), 1, 1, 1, wild=1.0)
    head = network.layers[-1].heads[0]
    scaled = replace(network, layers=(network.layers[0], Attention((replace(head, output=1024 * head.output),))))
    one, many = (bound_of(each, [-1.0], [1.0], "float64") for each in (network, scaled))
    assert many == pytest.approx(1024 * one, rel=1e-9)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("text", ["sin(8*x)", "exp(x)"])
def test_torch_stays_within_and_comes_near(text, dtype):
    """The worst of many points is within a factor of thirty of the bound, which allows any kernel."""
    net = af.constructions.tensor_grid(text, {"x": (-1, 1)}, anchors=18, dtype=dtype)
    network = rounded(net.network, dtype)
    bound = bound_of(network, [-1.0], [1.0], dtype)
    x = np.random.default_rng(0).uniform(-1, 1, 400)
    x = x.astype(TYPES[dtype]).astype(np.float64)
    ran = net.module()(torch.tensor(x, dtype=getattr(torch, dtype))[:, None]).double().numpy().ravel()
    errors = [float(abs(arb(float(y)) - exactly(network, [each])).upper()) for y, each in zip(ran, x, strict=True)]
    assert max(errors) <= bound <= 30 * max(errors)


def test_equal_values_round_only_in_the_sums():
    """No distance to the output: what scores and exponentials lose does not count."""
    base = network_of(np.random.default_rng(3), 1, 1, 1, wild=0.0)
    head = base.layers[-1].heads[0]
    head = replace(head, memory_values=np.ones_like(head.memory_values), output=np.eye(1))
    network = replace(base, layers=(base.layers[0], Attention((head,))))
    assert bound_of(network, [-1.0], [1.0], "float64") < 4 * (len(head.memory_values) + 3) * 2.0**-53


def test_finer_cells_only_sharpen():
    network = network_of(np.random.default_rng(8), 1, 1, 1, wild=2.0)
    ends = np.linspace(-1, 1, 65)[:, None]
    fine, coarse = bound_of(network, ends[:-1], ends[1:], "float64"), bound_of(network, [-1.0], [1.0], "float64")
    assert fine <= 1.1 * coarse
    assert coarse <= 1.1 * fine
    assert bound_of(network, [-1.0], [1.0], "float64", enough=np.inf) >= coarse / 1.001


def test_cells_on_which_weights_leave_float64():
    """Scores of thousands: the bound is about the values' range before cells are small, and never nonsense."""
    network = network_of(np.random.default_rng(5), 1, 1, 1, wild=0.0)
    head = network.layers[-1].heads[0]
    sharp = replace(network, layers=(network.layers[0], Attention((replace(head, query=1e4 * head.query),))))
    whole = bound_of(sharp, [-1.0], [1.0], "float64", enough=np.inf)
    written = head.memory_values @ head.output
    assert np.ptp(written) / 2 <= whole <= 3 * np.ptp(written) + 1e-9
    assert bound_of(sharp, [-1.0], [1.0], "float64") < 1e-9


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=12), st.integers(0, 10**6))
@settings(max_examples=60, deadline=None)
def test_sums_in_any_order(terms, seed):
    rng = np.random.default_rng(seed)
    terms = np.asarray(terms, dtype=np.float32)
    bound = _added(terms[None].astype(np.float64), 2.0**-24)[0]
    exact = sum(map(Fraction, terms.astype(np.float64).tolist()))
    assert abs(Fraction(float(tree_sum(terms, rng))) - exact) <= Fraction(bound)


def test_sums_by_hand():
    """One and one: a rounding of two. A term far below a unit of the rest costs itself, no rounding more."""
    unit = 2.0**-53
    assert _added(np.array([[1.0, 1.0]]), unit)[0] == pytest.approx(2 * unit, rel=1e-8)
    assert _added(np.array([[1.0, 1.0, 1e-30]]), unit)[0] == pytest.approx(2 * unit, rel=1e-8)
    assert _added(np.array([[1.0, -1.0, 1.0]]), unit)[0] == pytest.approx(4 * unit, rel=1e-8)
    assert _added(np.array([[3.0]]), unit)[0] == 0.0


def test_keys_far_away_do_not_count_however_their_scores_round():
    """A key whose score falls by 1e18: wrong by thousands, and of no weight."""
    query = np.array([[1.0], [0.0]])
    keys, values = np.array([[-1e18], [0.0], [1.0]]), np.array([[5.0], [1.0], [2.0]])
    head = Head(query, np.eye(1), memory_keys=keys, memory_values=values)
    encode = Linear((Term(np.array([[1.0, 0.0]])),), np.array([[1 / 3, 1.0]]))
    network = Network((encode, Attention((head,))), 1, 1)
    assert bound_of(network, [0.5], [1.0], "float64") < 1e-14
