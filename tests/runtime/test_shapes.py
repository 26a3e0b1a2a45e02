"""Target-shaped modules: functions take (..., d) and return (...), token targets keep their tokens."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from attnforge.errors import DomainError
from attnforge.network import Attention, Head, Linear, Network, Term
from attnforge.runtime import AttentionNetwork, TargetModule


def network(features: int, outputs: int = 1) -> Network:
    rng = np.random.default_rng(features)
    encode = Linear((Term(rng.normal(size=(features, 2))),), rng.normal(size=(1, 2)))
    one = Head(
        query=rng.normal(size=(2, 2)),
        output=rng.normal(size=(1, outputs)),
        memory_keys=rng.normal(size=(4, 2)),
        memory_values=rng.normal(size=(4, 1)),
    )
    return Network((encode, Attention((one,))), features)


def module(features: int, layout: str, outputs: int | None = None) -> TargetModule:
    core = AttentionNetwork(network(features, outputs or 1), torch.float64)
    return TargetModule(core, layout, outputs is not None)  # type: ignore[arg-type]


@pytest.mark.parametrize("shape", [(2,), (5, 2), (3, 5, 2)])
def test_functions_of_several_inputs_drop_the_last_axis(shape):
    x = torch.randn(shape, dtype=torch.float64)
    found = module(2, "function")(x)
    assert found.shape == shape[:-1]
    np.testing.assert_allclose(found.numpy(), network(2)(x.numpy()[..., None, :])[..., 0, 0], rtol=1e-12)


@pytest.mark.parametrize(
    ("shape", "wanted"), [((), ()), ((6,), (6,)), ((1,), (1,)), ((5, 1), (5,)), ((3, 5, 1), (3, 5))]
)
def test_functions_of_one_input_take_numbers_vectors_and_points(shape, wanted):
    x = torch.randn(shape, dtype=torch.float64)
    found = module(1, "function")(x)
    assert found.shape == wanted
    exact = network(1)(x.numpy().reshape(-1, 1, 1))[:, 0, 0]
    np.testing.assert_allclose(found.numpy().ravel(), exact, rtol=1e-12)


@pytest.mark.parametrize("shape", [(4, 2), (7, 4, 2), (2, 3, 4, 2)])
def test_token_targets_keep_their_tokens(shape):
    x = torch.randn(shape, dtype=torch.float64)
    found = module(2, "tokens")(x)
    assert found.shape == shape[:-1]
    np.testing.assert_allclose(found.numpy(), network(2)(x.numpy())[..., 0], rtol=1e-12)


def test_chosen_output_features_are_kept():
    x = torch.randn(7, 4, 2, dtype=torch.float64)
    found = module(2, "tokens", outputs=3)(x)
    assert found.shape == (7, 4, 3)
    np.testing.assert_allclose(found.numpy(), network(2, 3)(x.numpy()), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize(("shape", "wanted"), [((5, 2), (5, 3)), ((2,), (3,)), ((4, 5, 2), (4, 5, 3))])
def test_functions_with_several_outputs_keep_them_last(shape, wanted):
    x = torch.randn(shape, dtype=torch.float64)
    found = module(2, "function", outputs=3)(x)
    assert found.shape == wanted
    np.testing.assert_allclose(found.numpy(), network(2, 3)(x.numpy()[..., None, :])[..., 0, :], rtol=1e-12, atol=1e-14)


def test_attention_has_the_leading_axes_of_the_input():
    ((weights,),) = module(2, "function").attention(torch.randn(3, 5, 2))
    assert weights.shape == (3, 5, 1, 4)
    ((weights,),) = module(2, "tokens").attention(torch.randn(7, 6, 2))
    assert weights.shape == (7, 6, 4)
    ((weights,),) = module(1, "function").attention(torch.randn(9))
    assert weights.shape == (9, 1, 4)


@pytest.mark.parametrize(
    ("features", "shape", "wanted"),
    [(2, (3,), r"\(\.\.\., 2\)"), (2, (), r"\(\.\.\., 2\)"), (1, (4, 2), r"\(\.\.\., 1\), a number or \(N,\)")],
)
def test_a_wrong_shape_is_refused(features, shape, wanted):
    with pytest.raises(DomainError, match=rf"The function takes tensors of shape {wanted}\. Got shape "):
        module(features, "function")(torch.zeros(shape))
