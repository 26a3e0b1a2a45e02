"""The papers' truncated linear functions: keys, scores and values by hand, in both layouts; sizes; what is refused."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import attnforge as af
from tests.refusals import refused
from tests.theorems.measuring import errors, forms, scores

MAKE = af.constructions
LAYOUTS = ("memory", "literal")
FAR = af.Box(-40.0, 40.0)


def one_head(w=(1.0,), t=0.0, lower=-1.0, upper=2.0, *, anchors, c=2.7, grid="closed", **options):
    step = (upper - lower) / (anchors - (grid == "closed"))
    how = {"domain": FAR, "effort": "low"} | options
    return MAKE.truncated_linear(w, t, lower, upper, anchors=anchors, sharpness=c / step**2, grid=grid, **how)


def heads(w=(1.0,), t=0.0, lower=-1.0, upper=2.0, *, tokens, count, r=2, c=2.7, **options):
    step = (upper - lower) / (count * (tokens - 2 * r) - 1)
    how = {"heads": count, "sentinels": r, "sharpness": c / step**2, "domain": FAR, "effort": "low"} | options
    return MAKE.multihead_truncated_linear(w, t, lower, upper, tokens=tokens, **how)


def gate(w=(1.0,), t=0.0, lower=-1.0, upper=2.0, **options):
    return MAKE.gate(w, t, lower, upper, **{"domain": FAR, "effort": "low"} | options)


def per_token(n: int, d: int) -> tuple[np.ndarray, np.ndarray]:
    """Every token's own w and t."""
    rng = np.random.default_rng([n, d])
    return rng.normal(size=(n, d)), rng.normal(size=n)


# One head


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("grid", ["closed", "open"])
def test_scores_of_one_head_are_the_papers_up_to_a_constant(layout, grid):
    a, b, p, beta = -1.0, 2.0, 4, 1.75
    net = MAKE.truncated_linear([2.0, -0.5], 0.25, a, b, anchors=p, sharpness=beta, grid=grid, layout=layout)
    x, y = np.array([[0.3, -0.7]]), 2.0 * 0.3 - 0.5 * -0.7 + 0.25
    anchors = a + np.arange(p) * (b - a) / (p - 1 if grid == "closed" else p)
    by_hand = beta * (2 * y * anchors - anchors**2)
    np.testing.assert_allclose(scores(net.network, x)[0], by_hand - by_hand[0], rtol=1e-13, atol=1e-13)
    weights = np.exp(by_hand) / np.exp(by_hand).sum()
    assert net.network(x)[0, 0] == pytest.approx(weights @ anchors, rel=1e-13)
    (head,) = net.network.heads
    assert (head.claims.construction, head.claims.roles) == ("truncated_linear", ("anchor",) * p)
    np.testing.assert_allclose(head.claims.positions, anchors)
    assert head.claims.sharpness == beta


def test_the_literal_layout_has_the_papers_features():
    w, t = per_token(2, 3)
    first = one_head(w, t, anchors=5, layout="literal").network.layers[0].constant
    anchors = -1.0 + 3.0 / 4 * np.arange(5)
    assert first.shape == (5, 2 * 3 + 1 + 2)
    np.testing.assert_allclose(first[:2, :3], np.repeat(t[:, None] / 3, 3, axis=1))
    assert not first[2:, :3].any()
    np.testing.assert_array_equal(first[:, 3:6], np.repeat(np.arange(5.0)[:, None], 3, axis=1))
    np.testing.assert_allclose(first[:, 6], np.arange(5) * (anchors[0] + anchors))
    assert (first[:, 7] == 1).all()
    np.testing.assert_allclose(first[:, 8], anchors)


# Several heads


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("shared", [True, False])
def test_scores_of_several_heads_are_the_papers_up_to_a_constant(layout, shared):
    n, a, b, beta = 6, -1.0, 2.0, 5.5
    w, t = (np.array([2.0, -0.5]), 0.25) if shared else per_token(n, 2)
    how = {"tokens": n, "heads": 3, "sentinels": 1, "sharpness": beta, "layout": layout, "domain": FAR}
    network = MAKE.multihead_truncated_linear(w, t, a, b, **how).network
    x = np.random.default_rng(0).normal(size=(n, 2))
    y, h, total = (w * x).sum(axis=1) + t, (b - a) / (3 * 4 - 1), np.zeros(n)
    for q in range(3):
        places = np.arange(4 * q - 1, 4 * q + 5)
        anchors = a + h * places
        by_hand = beta * (2 * y[:, None] * anchors - anchors**2)
        np.testing.assert_allclose(scores(network, x, q), by_hand - by_hand[:, :1], rtol=1e-11, atol=1e-11)
        values = anchors * ((places >= 4 * q) & (places < 4 * q + 4))
        values = np.where(places < 0, a, np.where(places > 11, b, values))
        weights = np.exp(by_hand - by_hand.max(axis=1, keepdims=True))
        total += weights @ values / weights.sum(axis=1)
    np.testing.assert_allclose(network(x)[:, 0], total, rtol=1e-11)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("r", [1, 2, 3])
def test_sentinels_sit_on_the_anchors_of_neighbours_and_write_nothing(layout, r):
    network = heads(lower=1.0, upper=4.0, tokens=10, count=4, r=r, layout=layout).network
    m, h = 10 - 2 * r, 3.0 / (4 * (10 - 2 * r) - 1)
    for q, one in enumerate(network.heads):
        places = 1.0 + h * np.arange(q * m - r, q * m + m + r)
        np.testing.assert_allclose(one.claims.positions, places, rtol=1e-12)
        left, right = ("ghost" if q == 0 else "sentinel"), ("ghost" if q == 3 else "sentinel")
        roles = [left] * r + ["anchor"] * m + [right] * r
        assert list(one.claims.roles) == roles
        values = one.memory_values[:, 0] if layout == "memory" else one.value[1:, 0]
        known = {"ghost": np.clip(places, 1.0, 4.0), "anchor": places, "sentinel": np.zeros(10)}
        np.testing.assert_allclose(values, [known[role][i] for i, role in enumerate(roles)], rtol=1e-12)


def test_the_literal_sequence_is_the_input_and_one_hot_positions():
    network = heads([0.5, 2.0], 0.3, tokens=8, count=2, layout="literal").network
    np.testing.assert_array_equal(network.layers[0].constant, np.hstack([np.zeros((8, 2)), np.eye(8)]))
    np.testing.assert_array_equal(network.layers[0].terms[0].map, np.eye(2, 10))
    assert not any(one.key[:2].any() or one.value[:2].any() for one in network.heads)  # they read positions only


# The gate


def near_kinks(net, beta: float) -> np.ndarray:
    reach = np.linspace(-20.0, 20.0, 4001) / beta
    ends = net.target.lower, net.target.upper
    return np.concatenate([*(end + reach for end in ends), np.linspace(ends[0] - 5, ends[1] + 5, 301)])


def test_scores_and_output_of_a_gate_by_hand():
    t, a, b, beta, x = 0.25, -1.0, 2.0, 1.75, np.array([[0.3, -0.7]])
    y = 2.0 * 0.3 - 0.5 * -0.7 + 0.25
    low, own, high = -beta * (y - a), 0.0, beta * (y - b)
    memory, literal = (gate([2.0, -0.5], t, a, b, sharpness=beta, layout=layout).network for layout in LAYOUTS)
    np.testing.assert_allclose(scores(memory, x), [[0.0, high - low]], rtol=1e-13)
    assert not memory.heads[0].key.any()  # the self key scores 0
    np.testing.assert_allclose(scores(literal, x), [[0.0, low, high]], atol=1e-13)
    weights = np.exp([low, own, high])
    wanted = weights @ [a, y, b] / weights.sum()
    assert [net(x)[0, 0] for net in (memory, literal)] == pytest.approx([wanted] * 2, rel=1e-13)
    assert memory.heads[0].claims.roles == ("low", "high", "self")
    assert memory.heads[0].claims.positions[:2].tolist() == [a, b]
    assert memory.heads[0].claims.sharpness == beta


def test_other_tokens_leave_no_trace_in_the_literal_layout():
    network = gate(*per_token(5, 1), sharpness=3.0, layout="literal").network
    x = np.random.default_rng(0).normal(size=(5, 1))
    rows = scores(network, x)[:, :5] - scores(network, x)[:, 1:2]  # up to what the second token scores with them
    assert rows[0, 0] > 2 * 53 * math.log(2)  # e to minus that is the square of a roundoff
    np.testing.assert_allclose(rows[0, 1:], 0.0)
    moved = x.copy()
    moved[1:] += 1.0
    assert network(moved)[0, 0] == pytest.approx(network(x)[0, 0], rel=1e-14)


@given(st.floats(0.1, 1e4), st.floats(-20, 20), st.floats(0.1, 30), st.sampled_from(LAYOUTS), st.integers(1, 4))
@settings(max_examples=30)
def test_the_bound_of_a_gate_is_kept_and_near(scaled, lower, length, layout, n):
    beta, room = scaled / length, 1e-12 * (abs(lower) + length)
    net = gate(*per_token(n, 2), lower, lower + length, sharpness=beta, layout=layout, domain=af.Box(-100, 100))
    found = errors(net.network, net.target, near_kinks(net, beta)).max()
    exact = net.certificate.bound - net.certificate.parts["rounding"]
    assert found <= net.certificate.bound + room
    if scaled > 20:
        assert exact <= 1.001 * found + room


# Sizes


@pytest.mark.parametrize("name", ["truncated_linear", "multihead_truncated_linear", "gate"])
@pytest.mark.parametrize("tol", [1e-3, 1e-2, 0.5])
def test_a_size_reaches_the_tolerance_and_little_less_would_not(name, tol):
    net = af.compile("clamp(x, 1, 4)", {"x": (-9, 9)}, tol, construction=name, effort="low")
    x = forms(1.0, 4.0, net.anchors)
    x = x[np.abs(x) <= 9]
    assert np.abs(net(x) - np.clip(x, 1, 4)).max() <= net.certificate.bound <= tol
    if name == "truncated_linear" and net.anchors > 2:
        c = net.network.heads[0].claims.sharpness * (3 / (net.anchors - 1)) ** 2
        fewer = one_head(lower=1.0, upper=4.0, anchors=net.anchors - 1, c=c)
        assert fewer.certificate.bound > tol
    if name == "multihead_truncated_linear" and tol < 0.1:
        fifth = max(2, net.anchors // net.heads // 4)
        options = {"tokens": net.anchors // net.heads - fifth, "heads": net.heads, "domain": af.Box(-9, 9)}
        assert MAKE.multihead_truncated_linear([1.0], 0.0, 1, 4, **options).certificate.bound > tol


@pytest.mark.parametrize(("dtype", "tol"), [("float32", 1e-7), ("bfloat16", 1e-7), ("float64", 1e-13)])
def test_a_tolerance_the_dtype_cannot_serve_is_refused(dtype, tol):
    for name in ("truncated_linear", "multihead_truncated_linear"):
        with refused(af.RefusalError):
            af.compile("clamp(x, -1, 2)", {"x": (-9, 9)}, tol, construction=name, dtype=dtype)
