"""One head: its scores are the paper's, its error is at most the bound, and any tampering shows."""

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
from attnforge.theorems.truncated_linear import (
    AnchorPlan,
    TruncatedLinearHead,
    index_keys,
    output_map,
    resolve_sharpness,
    score_disturbance,
)
from tests.theorems.measuring import (
    changed,
    clamp,
    encoded,
    errors,
    forms,
    inputs,
    per_token,
    relative,
    scores,
    sup_error,
    with_entry,
)

ONE_HEAD = TruncatedLinearHead()


def plan_for(target, p: int, c: float = 2.7, grid: str = "closed", layout: str = "memory") -> AnchorPlan:
    h = (target.upper - target.lower) / (p - 1 if grid == "closed" else p)
    return AnchorPlan(p, c / h**2, grid, layout)


def total_bound(target, plan: AnchorPlan) -> float:
    return sum(ONE_HEAD.bound(target, plan).values())


@given(
    p=st.integers(2, 40),
    c=st.floats(0.3, 40),
    lower=st.floats(-20, 20),
    length=st.floats(0.1, 30),
    grid=st.sampled_from(["closed", "open"]),
    layout=st.sampled_from(["memory", "literal"]),
    size=st.tuples(st.integers(1, 3), st.integers(1, 4)),
)
@settings(max_examples=40)
def test_the_measured_error_never_exceeds_the_bound(p, c, lower, length, grid, layout, size):
    target = per_token(min(size[0], p), size[1], lower, lower + length)
    plan = plan_for(target, p, c, grid, layout)
    rounding = 1e-11 * (abs(lower) + length)
    assert sup_error(ONE_HEAD.build(target, plan), target, p) <= total_bound(target, plan) + rounding


@pytest.mark.parametrize("c", [1.4, 2.0, 2.7, 5.0, 36.7])
@pytest.mark.parametrize("grid", ["closed", "open"])
def test_the_bound_is_close_to_the_measured_error(c, grid):
    target = clamp()
    plan = plan_for(target, 20, c, grid)
    assert total_bound(target, plan) <= 1.03 * sup_error(ONE_HEAD.build(target, plan), target, 40)


def test_hard_is_half_a_step_and_tuned_five_times_below():
    target = clamp()
    step = 3.0 / 59
    staircase = sup_error(ONE_HEAD.build(target, plan_for(target, 60, hard())), target, 59)
    best = sup_error(ONE_HEAD.build(target, plan_for(target, 60, tuned())), target, 59)
    assert 0.4 * step < staircase <= 0.5 * step
    assert best < staircase / 5


@pytest.mark.parametrize("grid", ["closed", "open"])
@pytest.mark.parametrize(("n", "d"), [(1, 1), (1, 4), (7, 1), (7, 3)])
@pytest.mark.parametrize("c", [2.7, 36.7])
def test_layouts_agree(n, d, c, grid):
    target = per_token(n, d, -25.0, 25.0)
    x = np.random.default_rng(0).uniform(-5, 5, size=(400, n, d))
    found = [ONE_HEAD.build(target, plan_for(target, 60, c, grid, layout))(x) for layout in ("memory", "literal")]
    np.testing.assert_allclose(found[0], found[1], rtol=0, atol=1e-12 * 25)


@pytest.mark.parametrize("layout", ["memory", "literal"])
@pytest.mark.parametrize("grid", ["closed", "open"])
def test_scores_are_the_papers_up_to_a_constant(layout, grid):
    w, t, a, b, p, beta = np.array([2.0, -0.5]), 0.25, -1.0, 2.0, 4, 1.75
    network = ONE_HEAD.build(clamp(w, t, a, b), AnchorPlan(p, beta, grid, layout))
    x = np.array([[0.3, -0.7]])
    y = 2.0 * 0.3 - 0.5 * -0.7 + 0.25
    anchors = a + np.arange(p) * (b - a) / (p - 1 if grid == "closed" else p)
    by_hand = beta * (2 * y * anchors - anchors**2)
    found = scores(network, x)[:1]
    np.testing.assert_allclose(relative(found), relative(by_hand[None]), rtol=1e-13, atol=1e-13)
    weights = np.exp(by_hand) / np.exp(by_hand).sum()
    assert network(x)[0, 0] == pytest.approx(weights @ anchors, rel=1e-13)


def test_the_literal_layout_has_the_papers_features():
    target = per_token(2, 3)
    network = ONE_HEAD.build(target, plan_for(target, 5, layout="literal"))
    first = network.layers[0].constant
    anchors = -1.0 + 3.0 / 4 * np.arange(5)
    assert first.shape == (5, 2 * 3 + 1 + 2)
    np.testing.assert_allclose(first[:2, :3], np.repeat(target.t[:, None] / 3, 3, axis=1))
    assert not first[2:, :3].any()
    np.testing.assert_array_equal(first[:, 3:6], np.repeat(np.arange(5.0)[:, None], 3, axis=1))
    np.testing.assert_allclose(first[:, 6], np.arange(5) * (anchors[0] + anchors))
    assert (first[:, 7] == 1).all()
    np.testing.assert_allclose(first[:, 8], anchors)


@pytest.mark.parametrize("layout", ["memory", "literal"])
def test_claims_say_what_the_numbers_are(layout):
    target = clamp(lower=-3.0, upper=5.0)
    network = ONE_HEAD.build(target, plan_for(target, 9, layout=layout))
    (one,) = network.heads
    check_architecture(network)
    assert one.claims.construction == "truncated_linear"
    assert one.claims.roles == ("anchor",) * 9
    np.testing.assert_allclose(one.claims.positions, np.arange(-3.0, 6.0))
    assert one.claims.sharpness == pytest.approx(2.7)
    values = one.memory_values if layout == "memory" else network.layers[0].constant @ one.value
    np.testing.assert_allclose(values[:, 0], one.claims.positions)


def test_the_chosen_output_feature_is_written_and_no_other():
    target = clamp(output=2, outputs=4)
    for layout in ("memory", "literal"):
        found = ONE_HEAD.build(target, plan_for(target, 30, layout=layout))(inputs(target, forms(-1, 2, 30)))
        assert found.shape[-1] == 4
        assert not found[..., [0, 1, 3]].any()
        assert np.abs(found - target.values(inputs(target, forms(-1, 2, 30)))).max() < 0.01
    assert output_map(target).tolist() == [[0.0, 0.0, 1.0, 0.0]]
    assert output_map(clamp()).tolist() == [[1.0]]


def test_two_builds_are_identical():
    target = per_token(3, 2)
    for layout in ("memory", "literal"):
        plan = plan_for(target, 12, layout=layout)
        assert digest(ONE_HEAD.build(target, plan)) == digest(ONE_HEAD.build(target, plan))


@pytest.mark.parametrize("layout", ["memory", "literal"])
def test_a_formula_is_a_function_of_one_token(layout):
    target = Formula("clamp(2*x + 0.5*y - 1, -1, 1)", Box([-1, -1], [1, 1]), ("x", "y"))
    network = ONE_HEAD.build(target, AnchorPlan(50, 2.7 * (49 / 2) ** 2, layout=layout))
    x = np.random.default_rng(0).uniform(-1, 1, size=(500, 2))
    assert network.tokens == 1
    assert np.abs(network(x[:, None])[:, 0, 0] - target.values(x)).max() <= 0.07 * 2 / 49


# --- size and cost ---------------------------------------------------------------------------------------------------


@given(st.floats(1e-4, 2.0), st.floats(-30, 30), st.floats(0.5, 50))
@settings(max_examples=40)
def test_size_reaches_the_tolerance_with_the_fewest_anchors(tol, lower, length):
    target = clamp(lower=lower, upper=lower + length)
    plan = ONE_HEAD.size(target, tol, "float64")
    assert total_bound(target, plan) <= tol
    h = length / (plan.anchors - 1)
    if plan.anchors > 2:
        fewer = length / (plan.anchors - 2)
        assert (
            total_bound(target, replace(plan, anchors=plan.anchors - 1, sharpness=plan.sharpness * (h / fewer) ** 2))
            > tol
        )


def test_the_sized_network_meets_the_tolerance():
    target = per_token(2, 2)
    plan = ONE_HEAD.size(target, 1e-2, "float64")
    assert sup_error(ONE_HEAD.build(target, plan), target, plan.anchors) <= 1e-2
    assert plan.sharpness == pytest.approx(tuned() * ((plan.anchors - 1) / 3.0) ** 2, rel=1e-3)


@pytest.mark.parametrize(("dtype", "tol"), [("float32", 1e-7), ("bfloat16", 1e-7), ("float64", 1e-13)])
def test_a_tolerance_the_dtype_cannot_serve_is_refused(dtype, tol):
    pattern = rf"{dtype} must separate the scores of neighbouring anchors\. Got tol=.*anchors\. Ask for a larger tol"
    with pytest.raises(RefusalError, match=pattern):
        ONE_HEAD.size(clamp(), tol, dtype)


CASES = [(n, d, outputs, p) for n in (1, 2, 6, 50) for d in (1, 3, 10) for outputs in (None, 4) for p in (8, 60)]


def costs(layout: str) -> list[tuple[int, int]]:
    """(estimated, real) numbers of parameters."""
    found = []
    for n, d, outputs, p in CASES:
        if layout == "memory" or p >= n:
            target = per_token(n, d, outputs=outputs)
            plan = plan_for(target, p, layout=layout)
            found.append((ONE_HEAD.cost(target, plan).parameters, count_parameters(ONE_HEAD.build(target, plan))[0]))
    return found


@pytest.mark.parametrize("layout", ["memory", "literal"])
def test_the_cost_is_no_underestimate(layout):
    assert all(real <= estimated for estimated, real in costs(layout))


@pytest.mark.parametrize("layout", ["memory", "literal"])
def test_the_cost_is_no_wild_overestimate(layout):
    assert all(estimated <= 2 * real for estimated, real in costs(layout))


def test_bytes_count_network_and_module():
    target = clamp()
    cost = ONE_HEAD.cost(target, plan_for(target, 100))
    assert cost.anchors == 100
    assert cost.bytes == 16 * cost.parameters


# --- refusals --------------------------------------------------------------------------------------------------------


def test_accepts_truncated_linear_targets_only():
    assert ONE_HEAD.accepts(clamp()) is None
    assert ONE_HEAD.accepts(Formula("relu(x)", Box([-1], [1]))) is None
    reason = ONE_HEAD.accepts(Formula("sin(x)", Box([-1], [1])))
    assert reason is not None
    assert "sin" in reason


def test_too_few_anchors_are_refused():
    with pytest.raises(RefusalError, match=r"`anchors` must be at least 2\. Got 1"):
        ONE_HEAD.build(clamp(), AnchorPlan(1, 1.0))
    with pytest.raises(RefusalError, match=r"`anchors` must be at least n\. Got anchors=5, n=6\. .*layout='memory'"):
        ONE_HEAD.build(per_token(6, 1), AnchorPlan(5, 1.0, layout="literal"))


def test_rounding_of_scores_softens_a_tuned_head():
    assert score_disturbance(64, "float32") == pytest.approx(15 * 2.0**-24 * 32**2)
    soft, sharp = (resolve_sharpness("tuned", 1.0, 2000, dtype) for dtype in ("float32", "float64"))
    assert soft < sharp
    assert resolve_sharpness(3.0, 1.0, 2000, "float32") == 3.0


@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16", "float16"])
def test_keys_hold_the_squares_exactly_in_the_dtype(dtype):
    from attnforge.balls import round_to

    kappa = np.arange(-40.0, 41.0)
    keys = index_keys(kappa, dtype)
    np.testing.assert_array_equal(keys, round_to(keys, dtype))
    np.testing.assert_array_equal(keys[:, 1:].sum(axis=1), kappa**2)
    assert keys.shape[1] == (3 if dtype == "bfloat16" else 2)


# --- mutations: every one must exceed the bound ----------------------------------------------------------------------


def swapped(values: np.ndarray, i: int, j: int) -> np.ndarray:
    order = np.arange(len(values))
    order[[i, j]] = j, i
    return values[order]


def _exchange(network):
    return changed(network, memory_values=swapped(network.heads[0].memory_values, 7, 8))


def _drop(network):
    return changed(network, memory_values=with_entry(network.heads[0].memory_values, (7, 0), 0.0))


def _move(network):
    kappa = network.heads[0].memory_keys[7, 0] + 0.5
    keys = network.heads[0].memory_keys.copy()
    keys[7] = kappa, kappa**2
    return changed(network, memory_keys=keys)


def _half_sharpness(network):
    return changed(network, query=network.heads[0].query / 2)


def _shift(network):
    constant = network.layers[0].constant
    return encoded(network, with_entry(constant, (0, 0), constant[0, 0] + 0.5))


def _missing_end(network):
    one = network.heads[0]
    return changed(network, memory_keys=one.memory_keys[:-1], memory_values=one.memory_values[:-1])


MUTATIONS = {
    "exchanged anchors": _exchange,
    "a dropped anchor": _drop,
    "an anchor moved by half a step": _move,
    "half the sharpness": _half_sharpness,
    "the form shifted by half a step": _shift,
    "the last anchor missing": _missing_end,
}


@pytest.mark.parametrize("mutation", MUTATIONS)
def test_tampering_exceeds_the_bound(mutation):
    target = clamp(lower=1.0, upper=4.0)
    plan = plan_for(target, 20)
    network = ONE_HEAD.build(target, plan)
    y = forms(1.0, 4.0, 19)
    assert errors(network, target, y).max() <= total_bound(target, plan)
    assert errors(MUTATIONS[mutation](network), target, y).max() > 1.5 * total_bound(target, plan)


def test_tampering_with_the_literal_layout_exceeds_the_bound():
    target = clamp(lower=1.0, upper=4.0)
    plan = plan_for(target, 20, layout="literal")
    network = ONE_HEAD.build(target, plan)
    constant = network.layers[0].constant
    for column in (1, 2, 4):  # the anchor's number, its square, its value
        tampered = encoded(
            network, swapped(constant, 7, 8) * (np.arange(5) == column) + constant * (np.arange(5) != column)
        )
        assert errors(tampered, target, forms(1.0, 4.0, 19)).max() > 1.5 * total_bound(target, plan)
