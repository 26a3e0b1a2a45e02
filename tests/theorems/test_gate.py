"""Three keys: scores and error by hand, any precision, both layouts, and tampering that shows."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attnforge.balls import machine
from attnforge.errors import RefusalError
from attnforge.network import check_architecture, count_parameters, digest
from attnforge.targets import Box, Formula
from attnforge.theorems.gate import Gate, GatePlan, finest_sharpness, position_bonus
from tests.theorems.measuring import changed, clamp, encoded, errors, inputs, per_token, scores, sup_error, with_entry

GATE = Gate()


def near_kinks(target, beta: float) -> np.ndarray:
    reach = np.linspace(-20.0, 20.0, 4001) / beta
    far = np.linspace(target.lower - 5, target.upper + 5, 301)
    return np.concatenate([target.lower + reach, target.upper + reach, far])


def total_bound(target, plan: GatePlan) -> float:
    return sum(GATE.bound(target, plan).values())


@given(
    scaled=st.floats(0.1, 1e4),
    lower=st.floats(-20, 20),
    length=st.floats(0.1, 30),
    layout=st.sampled_from(["memory", "literal"]),
    size=st.tuples(st.integers(1, 4), st.integers(1, 3)),
)
@settings(max_examples=40)
def test_the_measured_error_never_exceeds_the_bound(scaled, lower, length, layout, size):
    target = per_token(*size, lower, lower + length)
    plan = GatePlan(scaled / length, layout)
    y = near_kinks(target, plan.sharpness)
    found = errors(GATE.build(target, plan), target, y).max()
    assert found <= total_bound(target, plan) + 1e-12 * (abs(lower) + length)
    if scaled > 20:
        assert total_bound(target, plan) <= 1.001 * found + 1e-12 * (abs(lower) + length)


@pytest.mark.parametrize("layout", ["memory", "literal"])
def test_float64_reaches_1e_12(layout):
    for target in (clamp(), per_token(5, 3), clamp([0.3], 0.1, -25.0, 25.0)):
        plan = GatePlan(finest_sharpness(target, "float64"), layout)
        network = GATE.build(target, plan)
        assert sup_error(network, target, 200) <= 1e-12
        assert errors(network, target, near_kinks(target, plan.sharpness)).max() <= 1e-12


@pytest.mark.parametrize(("n", "d"), [(1, 1), (1, 4), (6, 1), (6, 3)])
@pytest.mark.parametrize("beta", [10.0, 1e4, None])
def test_layouts_agree(n, d, beta):
    target = per_token(n, d, -25.0, 25.0)
    x = np.random.default_rng(0).uniform(-20, 20, size=(500, n, d))
    sharpness = beta or finest_sharpness(target, "float64")
    found = [GATE.build(target, GatePlan(sharpness, layout))(x) for layout in ("memory", "literal")]
    np.testing.assert_allclose(found[0], found[1], rtol=0, atol=1e-12 * 25)


def test_scores_and_output_by_hand():
    w, t, a, b, beta = np.array([2.0, -0.5]), 0.25, -1.0, 2.0, 1.75
    target, x = clamp(w, t, a, b), np.array([[0.3, -0.7]])
    y = 2.0 * 0.3 - 0.5 * -0.7 + 0.25
    low, own, high = -beta * (y - a), 0.0, beta * (y - b)
    memory, literal = (GATE.build(target, GatePlan(beta, layout)) for layout in ("memory", "literal"))
    np.testing.assert_allclose(scores(memory, x), [[low, high]], rtol=1e-13)  # the self key scores 0
    assert not memory.heads[0].key.any()
    bonus = position_bonus(1, "float64")
    np.testing.assert_allclose(scores(literal, x) - bonus, [[own, low, high]], atol=1e-13)
    weights = np.exp([low, own, high])
    wanted = weights @ [a, y, b] / weights.sum()
    assert memory(x)[0, 0] == pytest.approx(wanted, rel=1e-13)
    assert literal(x)[0, 0] == pytest.approx(wanted, rel=1e-13)


def test_other_tokens_leave_no_trace_in_the_literal_layout():
    n = 5
    target = per_token(n, 1)
    network = GATE.build(target, GatePlan(3.0, "literal"))
    x = np.random.default_rng(0).normal(size=(n, 1))
    rows = scores(network, x)
    own, others = np.diag(rows[:, :n]), rows[:, :n][~np.eye(n, dtype=bool)]
    np.testing.assert_allclose(own, position_bonus(n, "float64"))
    assert not others.any()
    moved = x.copy()
    moved[1:] += 1.0
    assert network(moved)[0, 0] == pytest.approx(network(x)[0, 0], rel=1e-14)


@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16", "float16"])
def test_the_bonus_is_below_the_square_of_a_roundoff(dtype):
    for n in (1, 2, 50, 10_000):
        left = (n - 1) * math.exp(-position_bonus(n, dtype))
        assert left <= machine(dtype).accumulation ** 2


@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16", "float16"])
def test_the_finest_sharpness_fits_the_dtype(dtype):
    target = clamp(lower=-25.0, upper=25.0, domain=Box(-100, 100))
    beta = finest_sharpness(target, dtype)
    assert 0.2785 / beta <= machine(dtype).roundoff * 100 / 4  # the rounded kink is below a rounding of y
    assert beta * (100 + 25) < machine(dtype).largest


@pytest.mark.parametrize("layout", ["memory", "literal"])
def test_claims_say_what_the_numbers_are(layout):
    target = per_token(3, 2)
    network = GATE.build(target, GatePlan(4.0, layout))
    check_architecture(network)
    (one,) = network.heads
    assert one.claims.construction == "gate"
    assert one.claims.sharpness == 4.0
    wanted = ["low", "high", "self"] if layout == "memory" else ["self"] * 3 + ["low", "high"]
    assert list(one.claims.roles) == wanted
    assert one.claims.positions[wanted.index("low")] == -1.0
    assert one.claims.positions[wanted.index("high")] == 2.0
    assert digest(network) == digest(GATE.build(target, GatePlan(4.0, layout)))


def test_the_chosen_output_feature_is_written_and_no_other():
    target = clamp(output=1, outputs=3)
    for layout in ("memory", "literal"):
        network = GATE.build(target, GatePlan(1e6, layout))
        found = network(inputs(target, np.linspace(-3, 4, 101)))
        assert not found[..., [0, 2]].any()
        assert sup_error(network, target, 10) < 1e-6


def test_a_formula_is_a_function_of_one_token():
    target = Formula("clamp(2*x + 0.5*y - 1, -1, 1)", Box([-1, -1], [1, 1]), ("x", "y"))
    x = np.random.default_rng(0).uniform(-1, 1, size=(500, 2))
    network = GATE.build(target, GATE.size(target, 1e-9, "float64"))
    np.testing.assert_allclose(network(x[:, None])[:, 0, 0], target.values(x), atol=1e-14)


@pytest.mark.parametrize("tol", [1.0, 1e-6, 1e-12])
def test_size_reaches_the_tolerance(tol):
    target = per_token(2, 2)
    plan = GATE.size(target, tol, "float64")
    assert total_bound(target, plan) <= tol
    assert plan.dtype == "float64"


CASES = [(n, d, outputs) for n in (1, 2, 6, 50) for d in (1, 3, 10) for outputs in (None, 4)]


def costs(layout: str) -> list[tuple[int, int]]:
    found = []
    for n, d, outputs in CASES:
        target, plan = per_token(n, d, outputs=outputs), GatePlan(3.0, layout)
        found.append((GATE.cost(target, plan).parameters, count_parameters(GATE.build(target, plan))[0]))
    return found


@pytest.mark.parametrize("layout", ["memory", "literal"])
def test_the_cost_is_no_underestimate(layout):
    assert all(real <= estimated for estimated, real in costs(layout))


@pytest.mark.parametrize("layout", ["memory", "literal"])
def test_the_cost_is_no_wild_overestimate(layout):
    assert all(estimated <= 2 * real for estimated, real in costs(layout))


@pytest.mark.parametrize("beta", [0.0, -1.0, math.nan, math.inf])
def test_a_sharpness_that_makes_no_sense_is_refused(beta):
    with pytest.raises(RefusalError, match=r"`sharpness` must be a positive number\. Got .*\. Leave it out"):
        GATE.build(clamp(), GatePlan(beta))


def test_accepts_truncated_linear_targets_only():
    assert GATE.accepts(clamp()) is None
    assert "cos" in str(GATE.accepts(Formula("cos(x)", Box([-1], [1]))))


def _memory_value(index: int, value: float):
    return lambda network: changed(network, memory_values=with_entry(network.heads[0].memory_values, (index, 0), value))


def _memory_key(index: tuple[int, int], value: float):
    return lambda network: changed(network, memory_keys=with_entry(network.heads[0].memory_keys, index, value))


MUTATIONS = {
    "the low value dropped": _memory_value(0, 0.0),
    "the high value dropped": _memory_value(1, 0.0),
    "the ends exchanged": lambda network: changed(network, memory_values=network.heads[0].memory_values[::-1]),
    "the low kink moved": _memory_key((0, 1), 1.1),
    "the high kink moved": _memory_key((1, 1), -4.1),
    "half the sharpness": lambda network: changed(network, query=network.heads[0].query / 2),
    "the self value dropped": lambda network: changed(network, value=network.heads[0].value * 0),
    "no low key": lambda network: changed(
        network,
        memory_keys=network.heads[0].memory_keys[1:],
        memory_values=network.heads[0].memory_values[1:],
    ),
}


@pytest.mark.parametrize("mutation", MUTATIONS)
def test_tampering_exceeds_the_bound(mutation):
    target, plan = clamp(lower=1.0, upper=4.0), GatePlan(40.0)
    network, y = GATE.build(target, plan), near_kinks(target, 40.0)
    assert errors(network, target, y).max() <= total_bound(target, plan)
    assert errors(MUTATIONS[mutation](network), target, y).max() > 1.5 * total_bound(target, plan)


def test_tampering_with_the_literal_layout_exceeds_the_bound():
    target, plan = per_token(4, 1, 1.0, 4.0), GatePlan(40.0, "literal")
    network, y = GATE.build(target, plan), near_kinks(target, 40.0)
    assert errors(network, target, y).max() <= total_bound(target, plan) + 1e-13
    without_positions = network.heads[0].query.copy()
    without_positions[4:, 2:] = 0.0
    constant = network.layers[0].constant
    tampered = [
        changed(network, query=without_positions),
        encoded(network, with_entry(constant, (4, 0), 0.0)),
        encoded(network, with_entry(constant, (5, 2), constant[5, 2] + 4.0)),
    ]
    for wrong in tampered:
        assert errors(wrong, target, y).max() > 1.5 * total_bound(target, plan)
