"""Heads that share a row: complementary at their borders, as good as one head with all anchors."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attnforge.anchors import hard, tuned
from attnforge.errors import RefusalError
from attnforge.network import check_architecture, count_parameters, digest
from attnforge.targets import Box, Formula
from attnforge.theorems.multihead_truncated_linear import (
    HEADS,
    HeadsPlan,
    MultiheadTruncatedLinear,
    check_plan,
    plan_sharpness,
)
from tests.theorems.measuring import (
    changed,
    clamp,
    errors,
    forms,
    inputs,
    per_token,
    relative,
    roles,
    scores,
    sup_error,
    with_entry,
)

HEADED = MultiheadTruncatedLinear()


def plan_for(target, tokens: int, heads: int, r: int = 2, c: float = 2.7, layout: str = "memory") -> HeadsPlan:
    plan = HeadsPlan(tokens, heads, 1.0, r, layout)
    return replace(plan, sharpness=c / plan.spacing(target.lower, target.upper) ** 2)


def total_bound(target, plan: HeadsPlan) -> float:
    return sum(HEADED.bound(target, plan).values())


@given(
    own=st.integers(1, 12),
    heads=st.integers(1, 6),
    r=st.integers(1, 3),
    c=st.floats(0.5, 30),
    lower=st.floats(-20, 20),
    length=st.floats(0.1, 30),
    layout=st.sampled_from(["memory", "literal"]),
    d=st.integers(1, 3),
)
@settings(max_examples=50)
def test_the_measured_error_never_exceeds_the_bound(own, heads, r, c, lower, length, layout, d):
    own = own if heads > 1 else max(own, 2)
    n = own + 2 * r
    target = per_token(n, d, lower, lower + length)
    plan = plan_for(target, n, heads, r, c, layout)
    found = sup_error(HEADED.build(target, plan), target, heads * own)
    assert found <= total_bound(target, plan) + 1e-11 * (abs(lower) + length)


@pytest.mark.parametrize(("r", "own", "heads"), [(2, 1, 2), (2, 1, 8), (3, 1, 5), (3, 2, 4)])
def test_fewer_anchors_than_sentinels_a_head(r, own, heads):
    target = clamp(lower=1.0, upper=4.0)
    plan = plan_for(target, own + 2 * r, heads, r)
    assert sup_error(HEADED.build(target, plan), target, heads * own) <= total_bound(target, plan)


@pytest.mark.parametrize("heads", [1, 2, 4, 16])
@pytest.mark.parametrize(("r", "c"), [(1, 4.0), (1, 36.7), (2, 2.7), (3, 2.0)])
def test_the_bound_is_close_to_the_measured_error(heads, r, c):
    target = clamp()
    plan = plan_for(target, 12, heads, r, c)
    assert total_bound(target, plan) <= 2 * sup_error(HEADED.build(target, plan), target, heads * plan.own)


def test_the_error_falls_with_the_number_of_heads():
    target = clamp(lower=-25.0, upper=25.0)
    found = [
        sup_error(HEADED.build(target, plan_for(target, 50, heads, 1, hard())), target, 48 * heads)
        for heads in (1, 2, 4, 8, 16)
    ]
    slope = np.polyfit(np.log([1, 2, 4, 8, 16]), np.log(found), 1)[0]
    assert slope == pytest.approx(-1.0, abs=0.05)
    assert 0.8 < found[0] / (0.5 * 50 / 47) <= 1.0  # half a step, nearly


@pytest.mark.parametrize(("n", "d"), [(12, 1), (12, 3)])
@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("c", [2.7, 36.7])
def test_layouts_agree(n, d, shared, c):
    target = clamp(np.linspace(0.5, 1.5, d), 0.3, -25.0, 25.0) if shared else per_token(n, d, -25.0, 25.0)
    x = np.random.default_rng(0).uniform(-15, 15, size=(200, n, d))
    found = [HEADED.build(target, plan_for(target, n, 4, 2, c, layout))(x) for layout in ("memory", "literal")]
    np.testing.assert_allclose(found[0], found[1], rtol=0, atol=1e-12 * 25)


@pytest.mark.parametrize("layout", ["memory", "literal"])
@pytest.mark.parametrize("shared", [True, False])
def test_scores_are_the_papers_up_to_a_constant(layout, shared):
    n, heads, r, a, b, beta = 6, 3, 1, -1.0, 2.0, 5.5
    target = clamp([2.0, -0.5], 0.25, a, b) if shared else per_token(n, 2, a, b)
    network = HEADED.build(target, HeadsPlan(n, heads, beta, r, layout))
    x = np.random.default_rng(0).normal(size=(n, 2))
    y = (target.w * x).sum(axis=1) + target.t
    h, total = (b - a) / (heads * 4 - 1), np.zeros(n)
    for q in range(heads):
        places = np.arange(4 * q - 1, 4 * q + 5)
        anchors = a + h * places
        by_hand = beta * (2 * y[:, None] * anchors - anchors**2)
        np.testing.assert_allclose(relative(scores(network, x, q)), relative(by_hand), rtol=1e-11, atol=1e-11)
        values = anchors * ((places >= 4 * q) & (places < 4 * q + 4))
        values = np.where(places < 0, a, np.where(places > 11, b, values))
        weights = np.exp(by_hand - by_hand.max(axis=1, keepdims=True))
        total += weights @ values / weights.sum(axis=1)
    np.testing.assert_allclose(network(x)[:, 0], total, rtol=1e-11)


@pytest.mark.parametrize("layout", ["memory", "literal"])
@pytest.mark.parametrize("r", [1, 2, 3])
def test_claims_and_complementary_sentinels(layout, r):
    target = clamp(lower=1.0, upper=4.0)
    plan = plan_for(target, 10, 4, r, layout=layout)
    network = HEADED.build(target, plan)
    check_architecture(network)
    m, h = plan.own, plan.spacing(1.0, 4.0)
    for q, one in enumerate(network.heads):
        assert one.claims.construction == "multihead_truncated_linear"
        assert one.claims.sharpness == plan.sharpness
        np.testing.assert_allclose(one.claims.positions, 1.0 + h * np.arange(q * m - r, q * m + m + r), rtol=1e-12)
        left, right = ("ghost" if q == 0 else "sentinel"), ("ghost" if q == 3 else "sentinel")
        assert roles(one) == [left] * r + ["anchor"] * m + [right] * r
        values = one.memory_values[:, 0] if layout == "memory" else one.value[1:, 0]
        expected = {
            "ghost": np.clip(one.claims.positions, 1.0, 4.0),
            "anchor": one.claims.positions,
            "sentinel": np.zeros(10),
        }
        np.testing.assert_allclose(values, [expected[role][i] for i, role in enumerate(roles(one))], rtol=1e-12)
    anchors = np.concatenate([one.claims.positions[np.array(roles(one)) == "anchor"] for one in network.heads])
    np.testing.assert_allclose(np.diff(anchors), h)
    assert digest(network) == digest(HEADED.build(target, plan))


def test_the_literal_sequence_is_the_input_and_one_hot_positions():
    target = clamp([0.5, 2.0], 0.3)
    network = HEADED.build(target, plan_for(target, 8, 2, layout="literal"))
    encode = network.layers[0]
    np.testing.assert_array_equal(encode.constant, np.hstack([np.zeros((8, 2)), np.eye(8)]))
    np.testing.assert_array_equal(encode.terms[0].map, np.eye(2, 10))
    for one in network.heads:
        assert not one.key[:2].any()  # keys and values read the positions only
        assert not one.value[:2].any()


def test_the_chosen_output_feature_is_written_and_no_other():
    target = clamp(output=1, outputs=3)
    for layout in ("memory", "literal"):
        network = HEADED.build(target, plan_for(target, 12, 3, layout=layout))
        found = network(inputs(target, np.linspace(-3, 4, 101), 12))
        assert not found[..., [0, 2]].any()
        assert sup_error(network, target, 24, tokens=12) < 0.02


# --- size and cost ---------------------------------------------------------------------------------------------------


@given(st.floats(1e-4, 0.05), st.floats(-30, 30), st.floats(2.0, 50))
@settings(max_examples=25)
def test_size_reaches_the_tolerance_with_nearly_the_fewest_anchors(tol, lower, length):
    target = clamp(lower=lower, upper=lower + length)
    plan = HEADED.size(target, tol, "float64")
    assert plan.heads == HEADS
    assert total_bound(target, plan) <= tol
    if plan.own > 2:  # a fifth fewer a head: size allows for the worst borders, those of heads with one anchor
        fewer = replace(plan, tokens=plan.tokens - max(2, -(-plan.own // 5)))
        c = plan.sharpness * plan.spacing(lower, lower + length) ** 2
        assert total_bound(target, replace(fewer, sharpness=c / fewer.spacing(lower, lower + length) ** 2)) > tol


@pytest.mark.parametrize("tol", [1e-3, 1e-2, 1.0])
def test_the_sized_network_meets_the_tolerance(tol):
    target = clamp(lower=1.0, upper=4.0)
    plan = HEADED.size(target, tol, "float64")
    assert sup_error(HEADED.build(target, plan), target, plan.heads * plan.own) <= tol


def test_a_tolerance_beyond_counting_is_refused():
    with pytest.raises(
        RefusalError, match=r"Anchors must be countable in float64\. Got tol=1e-18, .*\. Ask for a larger"
    ):
        HEADED.size(clamp(), 1e-18, "float64")


CASES = [(n, d, outputs, heads) for n in (1, 6, 50) for d in (1, 3, 10) for outputs in (None, 4) for heads in (1, 4)]


def costs(layout: str) -> list[tuple[int, int]]:
    found = []
    for n, d, outputs, heads in CASES:
        target = per_token(n, d, outputs=outputs)
        plan = plan_for(target, n if layout == "literal" and n > 1 else 12, heads, layout=layout)
        found.append((HEADED.cost(target, plan).parameters, count_parameters(HEADED.build(target, plan))[0]))
    return found


def test_the_cost_of_the_literal_layout_is_no_underestimate():
    assert all(real <= estimated for estimated, real in costs("literal"))


def test_the_cost_of_the_memory_layout_is_no_underestimate():
    assert all(real <= estimated for estimated, real in costs("memory"))


def test_the_cost_of_the_memory_layout_is_no_wild_overestimate():
    assert all(estimated <= 2 * real for estimated, real in costs("memory"))


def test_the_cost_of_the_literal_layout_is_no_wild_overestimate():
    assert all(estimated <= 2 * real for estimated, real in costs("literal"))


# --- refusals --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("plan", "pattern"),
    [
        (
            HeadsPlan(4, 3, 1.0, 2),
            r"`tokens` must hold 2 sentinels a side .* Got tokens=4, heads=3, .*at least 6 tokens",
        ),
        (HeadsPlan(5, 1, 1.0, 2), r"two anchors in all\. Got tokens=5, heads=1"),
        (HeadsPlan(12, 0, 1.0, 2), r"`heads` must be at least 1, and `sentinels` 0\. Got heads=0, sentinels=2"),
        (HeadsPlan(12, 3, 1.0, -1), r"`heads` must be at least 1, and `sentinels` 0\. Got heads=3, sentinels=-1"),
    ],
)
def test_plans_without_room_are_refused(plan, pattern):
    for call in (lambda: check_plan(plan), lambda: HEADED.build(clamp(), plan)):
        with pytest.raises(RefusalError, match=pattern):
            call()


def test_the_literal_sequence_must_have_as_many_tokens_as_keys():
    with pytest.raises(RefusalError, match=r"as many tokens as keys\. Got tokens=12 and 7 rows .*layout='memory'"):
        HEADED.build(per_token(7, 1), HeadsPlan(12, 3, 1.0, 2, "literal"))


def test_accepts_truncated_linear_targets_only():
    assert HEADED.accepts(clamp()) is None
    assert "exp" in str(HEADED.accepts(Formula("exp(x)", Box([-1], [1]))))


def test_tuned_is_sharper_where_borders_weigh_more():
    plan = HeadsPlan(50, 16, 1.0, 1)
    h = plan.spacing(-25.0, 25.0)
    assert plan_sharpness("tuned", plan, -25.0, 25.0) * h**2 > tuned() + 1
    guarded = replace(plan, sentinels=3)
    step = guarded.spacing(-25.0, 25.0)
    assert plan_sharpness("tuned", guarded, -25.0, 25.0) * step**2 == pytest.approx(tuned(), rel=1e-3)
    assert plan_sharpness("hard", plan, -25.0, 25.0) == pytest.approx(hard() / h**2)
    assert plan_sharpness(7.0, plan, -25.0, 25.0) == 7.0


# --- mutations: every one must exceed the bound ----------------------------------------------------------------------


def moved(keys: np.ndarray, row: int, by: float) -> np.ndarray:
    keys = keys.copy()
    keys[row, 0] += by
    keys[row, 1] = keys[row, 0] ** 2
    return keys


def _sentinel(head: int, row: int, by: float):
    return lambda network: changed(network, head, memory_keys=moved(network.heads[head].memory_keys, row, by))


def _value(head: int, row: int, value: float):
    return lambda network: changed(
        network, head, memory_values=with_entry(network.heads[head].memory_values, (row, 0), value)
    )


def _exchange(network):
    values = network.heads[1].memory_values.copy()
    values[[5, 6]] = values[[6, 5]]
    return changed(network, 1, memory_values=values)


def _exchange_heads(network):
    first, second = network.heads[1], network.heads[2]
    return changed(changed(network, 1, memory_values=second.memory_values), 2, memory_values=first.memory_values)


def _lose_a_head(network):
    attention = network.layers[1]
    return replace(network, layers=(network.layers[0], replace(attention, heads=attention.heads[:-1])))


# Twelve keys a head, r = 2: sentinels and ghosts are rows 0, 1 and 10, 11.
MUTATIONS = {
    "a left sentinel moved by half a step": _sentinel(1, 1, 0.5),
    "a left sentinel moved by half a step outwards": _sentinel(1, 1, -0.5),
    "a right sentinel moved by half a step": _sentinel(2, 10, 0.5),
    "a right sentinel moved by half a step inwards": _sentinel(2, 10, -0.5),
    "the low ghosts' nearest dropped": _value(0, 1, 0.0),
    "the low ghosts' furthest dropped": _value(0, 0, 0.0),
    "the high ghosts' furthest dropped": _value(3, 11, 0.0),
    "a sentinel worth its place": _value(1, 1, 2.0),
    "exchanged anchors": _exchange,
    "exchanged heads": _exchange_heads,
    "a lost head": _lose_a_head,
    "half the sharpness of one head": lambda network: changed(network, 1, query=network.heads[1].query / 2),
}


@pytest.mark.parametrize("mutation", MUTATIONS)
def test_tampering_exceeds_the_bound(mutation):
    target = clamp(lower=1.0, upper=4.0)
    plan = plan_for(target, 12, 4)
    network, y = HEADED.build(target, plan), forms(1.0, 4.0, 32)
    assert errors(network, target, y).max() <= total_bound(target, plan)
    assert errors(MUTATIONS[mutation](network), target, y).max() > 1.5 * total_bound(target, plan)


def test_a_sentinel_moved_in_the_literal_layout_exceeds_the_bound():
    target = clamp(lower=1.0, upper=4.0)
    plan = plan_for(target, 12, 4, layout="literal")
    network = HEADED.build(target, plan)
    place = network.heads[1].claims.positions[1] + plan.spacing(1.0, 4.0) / 2
    key = network.heads[1].key.copy()
    key[1 + 1] = 2 * plan.sharpness * place, 2 * plan.sharpness * place, -plan.sharpness * place**2
    y = forms(1.0, 4.0, 32)
    assert errors(network, target, y).max() <= total_bound(target, plan)
    assert errors(changed(network, 1, key=key), target, y).max() > 1.5 * total_bound(target, plan)
