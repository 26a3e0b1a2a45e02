"""Logistic functions by two keys: exact up to rounding."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
import torch

from attnforge.targets import Box, Formula
from attnforge.theorems.logistic import Logistic, logistic_head
from tests.theorems.registers import exactly, network_of, random_form, run, run_torch

MADE = Logistic()


@pytest.mark.parametrize(("scale", "offset"), [(1.0, 0.0), (2.0, -1.0), (-3.0, 5.0), (1e6, -1e6)])
@pytest.mark.parametrize("inputs", [1, 3])
def test_random_forms(inputs, scale, offset):
    rng = np.random.default_rng(inputs)
    form, points = 5 * random_form(rng, inputs), rng.uniform(-1, 1, size=(300, inputs))
    network = network_of(logistic_head(form, inputs + 1, scale, offset))
    exact = exactly(lambda y: scale / (1 + mpmath.exp(-y)) + offset, points, form)
    rounding = (8 + np.abs(form).sum()) * (abs(scale) + abs(offset))
    assert np.abs(run(network, points) - exact).max() <= 2.0**-53 * rounding
    assert np.abs(run_torch(network, points, torch.float64) - exact).max() <= 2.0**-53 * rounding
    assert np.abs(run_torch(network, points, torch.float32) - exact).max() <= 2 * 2.0**-24 * rounding


def test_far_out_it_is_flat():
    network = network_of(logistic_head(np.array([0.0, 1.0, 0.0]), 2, 2.0, -1.0))
    assert run(network, np.array([[-1e300], [-800.0], [800.0], [1e300]])).tolist() == [-1.0, -1.0, 1.0, 1.0]


@pytest.mark.parametrize(
    "text",
    ["sigmoid(2*x - y)", "tanh(x/4 + 1)", "1/(1 + exp(x + y))", "1/(exp(-3*x) + 1)", "tanh(sqrt(2)*y)", "sigmoid(x)"],
)
def test_the_record_takes_logistic_functions(text):
    target = Formula(text, Box([-2, -1], [1, 2]), ("x", "y"))
    assert MADE.accepts(target) is None
    plan = MADE.size(target, 1e-6, "float64")
    points = np.random.default_rng(0).uniform([-2, -1], [1, 2], size=(500, 2))
    assert np.abs(run(MADE.build(target, plan), points) - target.values(points)).max() <= 2e-15
    assert MADE.bound(target, plan) == {"leakage": 0.0}
    assert MADE.cost(target, plan).anchors == 2


@pytest.mark.parametrize(
    "text",
    ["sigmoid(x*y)", "2*tanh(x)", "2/(1 + exp(x))", "1/(2 + exp(x))", "1/(1 + 1)", "1/(1 + exp(x) + y)", "exp(x)", "x"],
)
def test_the_record_refuses_other_formulas(text):
    reason = MADE.accepts(Formula(text, Box([-1, -1], [1, 1]), ("x", "y")))
    assert "of one linear form" in reason
