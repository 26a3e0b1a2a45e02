"""Gradients agree with differences of what they differentiate."""

import numpy as np
import pytest
import torch
from torch import nn

import attnforge as af
from attnforge.measurement.slopes import MOST, network_gradient, target_gradient
from attnforge.targets import Formula, Function, TruncatedLinear

RNG = np.random.default_rng


def differences(values, points, which, h=1e-6):
    flat, rows = points.reshape(len(points), -1), np.arange(len(points))
    found = np.empty_like(flat)
    for i in range(flat.shape[1]):
        move = np.eye(flat.shape[1])[i] * h
        ends = [values((flat + s * move).reshape(points.shape)).reshape(len(points), -1)[rows, which] for s in (1, -1)]
        found[:, i] = (ends[0] - ends[1]) / (2 * h)
    return found.reshape(points.shape)


def relu():
    torch.manual_seed(0)
    return af.compile(nn.Sequential(nn.Linear(2, 5), nn.ReLU(), nn.Linear(5, 3)).double(), [(-1, 1)] * 2, 1e-3)


def cross():
    one = af.Box(0, 1, shape=(1,))
    return af.constructions.cross_attention(
        lambda X, Y: np.sin(X[..., 0] + 2 * Y[..., 0]), one, one, grid=4, sharpness=3.0, lipschitz=3
    )


def tokens():
    return af.constructions.truncated_linear([[1.0, 2.0], [0.5, -1.0]], 0.5, -1, 1, anchors=5, domain=af.Box(-1, 1))


def formula():
    return af.compile("sin(3*x)*y + x", {"x": (-1, 1), "y": (0, 2)}, 1e-3)


@pytest.mark.parametrize(("make", "outputs"), [(formula, 1), (relu, 3), (tokens, 2), (cross, 1)])
def test_of_the_network(make, outputs):
    net, rng = make(), RNG(0)
    box = net.domain
    points = rng.uniform(0.9 * box.lower + 0.1 * box.upper, 0.1 * box.lower + 0.9 * box.upper, size=(100, *box.shape))
    which = rng.integers(outputs, size=100)
    found = network_gradient(net.network, net.target, "float64")(points, which)
    assert found.shape == points.shape
    near = np.isclose(found, differences(net.at_points, points, which), rtol=1e-3, atol=1e-4)
    assert near.reshape(100, -1).all(axis=1).mean() > 0.95  # a ReLU network has kinks


def test_in_single_precision_it_is_that_of_the_rounded_weights():
    net = af.compile("sin(3*x)", {"x": (-1, 1)}, 1e-3, dtype="float32")
    points, which = RNG(0).uniform(-1, 1, size=(50, 1)), np.zeros(50, dtype=np.intp)
    found = network_gradient(net.network, net.target, "float32")(points, which)
    assert found.dtype == np.float64
    assert np.abs(found[:, 0] - 3 * np.cos(3 * points[:, 0])).max() < 0.05


def test_of_a_formula_by_its_derivative():
    target = Formula("x^2*y + abs(x)", af.Box([-1, 0], [1, 2]), ("x", "y"))
    gradient, cost = target_gradient(target, target.domain, RNG(0))
    points = np.array([[0.5, 1.0], [-0.25, 2.0]])
    assert gradient(points, np.zeros(2, dtype=np.intp)).tolist() == [[2.0, 0.25], [-2.0, 0.0625]]
    assert cost == 0


def test_a_slope_that_does_not_exist_is_zero():
    target = Formula("sqrt(x)", af.Box([0], [1]), ("x",))
    gradient, _ = target_gradient(target, target.domain, RNG(0))
    assert gradient(np.array([[0.0], [0.25]]), np.zeros(2, dtype=np.intp)).tolist() == [[0.0], [1.0]]


def test_of_a_callable_by_differences_that_stay_inside():
    seen = []

    def function(x):
        seen.append(x)
        return np.stack([x[:, 0] ** 2, np.sin(x[:, 1])], axis=1)

    target = Function(function, af.Box([0, 0], [1, 1]))
    gradient, cost = target_gradient(target, target.domain, RNG(0))
    points = np.array([[0.5, 0.5], [0.0, 1.0]])
    found = gradient(points, np.array([0, 1], dtype=np.intp))
    assert cost == 4
    assert np.allclose(found, [[1.0, 0.0], [0.0, np.cos(1.0)]], atol=1e-4)
    target.domain.check(np.concatenate(seen))


def test_an_input_that_cannot_move_has_no_slope():
    target = Function(lambda x: x[:, 0] + x[:, 1], af.Box([0, 2], [1, 2]))
    gradient, _ = target_gradient(target, target.domain, RNG(0))
    assert np.allclose(gradient(np.array([[0.5, 2.0]]), np.zeros(1, dtype=np.intp)), [[1.0, 0.0]])


def test_of_many_inputs_some_are_taken_at_a_time():
    target = TruncatedLinear(np.ones((10, 2)), 0.0, -9, 9, af.Box(-1, 1))
    gradient, cost = target_gradient(target, target.domain, RNG(0))
    found = gradient(np.zeros((1, 10, 2)), np.full(1, 3, dtype=np.intp))
    assert cost == 2 * MOST
    assert np.isfinite(found).sum() == MOST
    known = np.isfinite(found[0, 3])
    assert np.allclose(found[0, 3][known], 1.0)
    assert np.nansum(np.abs(np.delete(found[0], 3, axis=0))) == 0.0
