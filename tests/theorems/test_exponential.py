"""v exp(l) by two keys: against 50 digits, in float64 and float32."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
import torch

from attnforge.balls import machine
from attnforge.errors import RefusalError
from attnforge.targets import Box, Formula
from attnforge.theorems.exponential import Exponential, exponential_head, sink_level
from tests.theorems.registers import exactly, network_of, random_form, reach, run, run_torch

MADE = Exponential()


def v_exp(v, exponent):
    return v * mpmath.exp(exponent)


def allowed(high: float, exponents: np.ndarray, dtype: str) -> np.ndarray:
    """Roundoffs of the relative error: of the sink, of scores of this size, and of a few products."""
    return machine(dtype).roundoff * (2 * (sink_level(high, dtype) + np.abs(exponents)) + 16)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("inputs", [1, 2, 5])
def test_random_forms(inputs, dtype):
    rng = np.random.default_rng(inputs)
    for _ in range(5):
        v, exponent = random_form(rng, inputs), random_form(rng, inputs)
        if dtype == "float32":
            v, exponent = (form.astype(np.float32).astype(np.float64) for form in (v, exponent))
        points = rng.uniform(-1, 1, size=(200, inputs)).astype(np.float32).astype(np.float64)
        high = reach(exponent)[1]
        network = network_of(exponential_head(v, exponent, high, inputs + 1, dtype))
        found = run(network, points) if dtype == "float64" else run_torch(network, points, torch.float32)
        error = np.abs(found - exactly(v_exp, points, v, exponent))
        size = np.abs(v).sum() * np.exp(exactly(lambda t: t, points, exponent))
        scores = np.full(len(points), np.abs(exponent).sum() * (inputs + 1))
        assert np.all(error <= size * allowed(high, scores, dtype))


@pytest.mark.parametrize(("low", "high"), [(-700.0, 670.0), (-1e4, 0.0), (600.0, 672.0), (-30.0, -20.0)])
def test_any_range_of_exponents(low, high):
    exponents = np.concatenate([[low, high], np.random.default_rng(0).uniform(low, high, 300)])
    points, (_, v, exponent, _) = np.stack([np.full(302, -0.75), exponents], axis=1), np.eye(4)
    found = run(network_of(exponential_head(v, exponent, high, 3)), points)
    exact = exactly(v_exp, points, v, exponent)
    vanishing = machine("float64").underflow * np.exp(sink_level(high, "float64"))
    assert np.all(np.abs(found - exact) <= np.abs(exact) * allowed(high, exponents, "float64") + vanishing)


def test_numpy_and_torch_agree():
    points, (_, v, exponent, _) = np.random.default_rng(0).uniform(-1, 1, size=(300, 2)), np.eye(4)
    network = network_of(exponential_head(v, exponent, 1.0, 3))
    assert np.abs(run(network, points) - run_torch(network, points, torch.float64)).max() <= 1e-14


@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16", "float16"])
@pytest.mark.parametrize("high", [-3.5, 0.0, 2.0])
def test_the_sink_lies_a_roundoff_below(high, dtype):
    level, u = sink_level(high, dtype), machine(dtype).roundoff
    assert level == round(level)
    assert np.exp(high - level) <= u < np.exp(high - level + 1) * (1 + 1e-12)


@pytest.mark.parametrize(
    ("high", "dtype"),
    [(673.0, "float64"), (72.0, "float32"), (4.0, "float16"), (np.nan, "float64"), (np.inf, "float64")],
)
def test_overflow_is_refused(high, dtype):
    with pytest.raises(RefusalError, match=rf"must leave room for a roundoff u of {dtype}.*Narrow the domain"):
        exponential_head(*np.eye(4)[1:3], high, 3, dtype)


@pytest.mark.parametrize(("factor", "dtype"), [(1e300, "float64"), (1e35, "float32"), (1e3, "float16")])
def test_overflow_of_a_factor_is_refused(factor, dtype):
    with pytest.raises(RefusalError, match=r"must (leave room|be numbers)"):
        exponential_head(factor * np.eye(4)[1], np.eye(4)[2], 2.0, 3, dtype)


@pytest.mark.parametrize("text", ["v*exp(l)", "exp(l)*v"])
def test_the_record_takes_v_exp_l(text):
    target = Formula(text, Box([-2, -1], [1, 2]), ("v", "l"))
    assert MADE.accepts(target) is None
    plan = MADE.size(target, 1e-6, "float64")
    points = np.random.default_rng(0).uniform([-2, -1], [1, 2], size=(500, 2))
    error = np.abs(run(MADE.build(target, plan), points) - target.values(points)).max()
    assert error <= MADE.bound(target, plan)["leakage"] + 2e-13
    assert MADE.bound(target, plan)["leakage"] <= 2 * np.exp(2) * 2.0**-53
    assert MADE.cost(target, plan).anchors == 2


@pytest.mark.parametrize("text", ["v*exp(v)", "v*v*exp(l)", "exp(l)", "v*exp(2*l)", "v + exp(l)", "v*l", "v*sin(l)"])
def test_the_record_refuses_other_formulas(text):
    assert "v*exp(l) of two inputs" in MADE.accepts(Formula(text, Box([-1, -1], [1, 1]), ("v", "l")))
