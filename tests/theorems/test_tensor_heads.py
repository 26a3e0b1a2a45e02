"""Tensor heads as networks: the weights compute what the fit says, for any forms, heads, outputs and dtypes."""

from __future__ import annotations

import numpy as np
import pytest

from attnforge.anchors.axis import Axis
from attnforge.anchors.grid_fit import GridFit, contract, fit_grid
from attnforge.balls import round_to
from attnforge.network import count_parameters
from attnforge.theorems.tensor_heads import TensorHead, heads_cost, heads_network

RNG = np.random.default_rng(4)
GRADED = np.array([-1.4, -1.0, -0.2, 0.0, 0.01, 0.1, 0.5, 1.0, 1.5])


def axes(count):
    kinds = (
        Axis.uniform(-1.0, 1.0, 9, 1.5, 0.4),
        Axis.graded(GRADED, -1.0, 1.0, 0.3, 0.0),
        Axis.uniform(-1.0, 1.0, 4, 0, 0.8),
    )
    return kinds[:count]


def head_values(head, points):
    """The head's definition: one softmax a form."""
    u = points @ head.forms.T + head.offsets
    return contract([axis.weights(u[:, a]) for a, axis in enumerate(head.axes)], head.values)


def run(network, points):
    return network(points[:, None, :])[:, 0]


def random_head(forms, inputs, outputs):
    rows = axes(forms)
    values = RNG.normal(size=(*(len(axis) for axis in rows), outputs))
    weights = RNG.normal(size=(forms, inputs)) / inputs
    return TensorHead(weights, RNG.normal(size=forms) / 5, rows, values)


def test_a_fitted_grid_and_its_network_agree():
    def f(points):
        return np.stack([np.sin(3 * points[:, 0]) * points[:, 1], np.abs(points[:, 0] - 0.2)], axis=1)

    found = fit_grid(f, -np.ones(2), np.ones(2), 1e-4)
    network = heads_network([TensorHead.on_inputs(found.axes, found.values)], 2, "tensor_grid", "float64")
    points = RNG.uniform(-1, 1, size=(200, 2))
    assert isinstance(found, GridFit)
    scale = np.abs(found.values).max()
    np.testing.assert_allclose(run(network, points), found.at(points), rtol=0, atol=1e-12 * scale)


@pytest.mark.parametrize("outputs", [1, 3])
@pytest.mark.parametrize(("forms", "inputs"), [(1, 1), (1, 4), (2, 3), (3, 2)])
def test_any_forms(forms, inputs, outputs):
    head = random_head(forms, inputs, outputs)
    points = RNG.uniform(-1, 1, size=(100, inputs))
    network = heads_network([head], inputs, "ridge", "float64")
    np.testing.assert_allclose(run(network, points), head_values(head, points), rtol=0, atol=1e-12)


def test_heads_add_up():
    heads = [random_head(1, 3, 2), random_head(2, 3, 2), random_head(3, 3, 2)]
    points = RNG.uniform(-1, 1, size=(100, 3))
    found = run(heads_network(heads, 3, "additive", "float64"), points)
    np.testing.assert_allclose(found, sum(head_values(head, points) for head in heads), rtol=0, atol=1e-12)


def test_claims_tell_anchors_from_ghosts_and_name_forms_that_are_not_the_inputs():
    plain = TensorHead.on_inputs(axes(2), np.zeros((9, 9, 1)))
    (head,) = heads_network([plain], 2, "tensor_grid", "float64").heads
    inside = np.logical_and.outer(axes(2)[0].inside, axes(2)[1].inside).ravel()
    assert [role == "anchor" for role in head.claims.roles] == inside.tolist()
    assert head.claims.positions.shape == (81, 2)
    assert head.claims.forms is None
    turned = random_head(2, 3, 1)
    (head,) = heads_network([turned], 3, "additive", "float64").heads
    np.testing.assert_array_equal(head.claims.forms, np.column_stack([turned.forms, turned.offsets]))


def test_the_cost_is_that_of_the_weights():
    heads = [random_head(1, 3, 2), random_head(2, 3, 2)]
    cost = heads_cost(heads, 3)
    assert cost.anchors == 9 + 81
    total, _ = count_parameters(heads_network(heads, 3, "additive", "float64"))
    assert cost.parameters == pytest.approx(total, rel=0.05)


@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16", "float16"])
@pytest.mark.parametrize("count", [5, 32, 33, 200])
def test_keys_of_uniform_axes_survive_rounding(count, dtype):
    axis = Axis.uniform(-0.7, 1.1, count, 1.5, 0.3)
    (head,) = heads_network([TensorHead.on_inputs((axis,), np.zeros((count, 1)))], 1, "tensor_grid", dtype).heads
    kept = round_to(head.memory_keys, dtype)
    np.testing.assert_array_equal(kept, head.memory_keys)
    np.testing.assert_array_equal(kept[:, 0], np.arange(count) - count // 2)
    np.testing.assert_array_equal(kept[:, 1:].sum(axis=1), (np.arange(count) - count // 2) ** 2)


def test_offsets_are_split_only_where_they_must_be():
    def columns(count, dtype):
        axis = Axis.uniform(0.0, 1.0, count, 0, 0.3)
        network = heads_network([TensorHead.on_inputs((axis,), np.zeros((count, 1)))], 1, "tensor_grid", dtype)
        return network.heads[0].memory_keys.shape[1]

    assert columns(200, "float64") == columns(200, "float32") == columns(20, "bfloat16") == 2
    assert columns(200, "bfloat16") == columns(200, "float16") == 3


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_split_offsets_leave_the_function_as_it_is(dtype):
    axis = Axis.uniform(-1.0, 1.0, 100, 2, 0.5)
    head = TensorHead.on_inputs((axis,), np.sin(5 * axis.positions)[:, None])
    points = RNG.uniform(-1, 1, size=(100, 1))
    found = run(heads_network([head], 1, "tensor_grid", dtype), points)
    np.testing.assert_allclose(found, head_values(head, points), rtol=0, atol=1e-12)
