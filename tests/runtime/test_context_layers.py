"""The torch module runs the second input's linear maps as NumPy does, and makes one context's keys once."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from attnforge.errors import DomainError
from attnforge.network import attention_weights, count_parameters
from attnforge.runtime import AttentionNetwork, JointModule, audit
from attnforge.runtime.joint import as_tokens
from tests.network.examples import numbers
from tests.network.test_context_layers import NETWORK


def module(**options) -> AttentionNetwork:
    return AttentionNetwork(NETWORK, torch.float64, **options)


def tensors(*batch: int) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.tensor(numbers(*batch, 5, 2)), torch.tensor(numbers(*batch, 2, 3))


@pytest.mark.parametrize("batch", [(), (4,), (2, 3), (0,)])
def test_it_equals_numpy(batch):
    tokens, context = tensors(*batch)
    found = module()(tokens, context)
    np.testing.assert_allclose(found.numpy(), NETWORK(tokens.numpy(), context.numpy()), rtol=1e-12)


@pytest.mark.parametrize("shape", [(2, 3), (1, 2, 3), (1, 1, 2, 3)])
def test_one_context_serves_a_batch(shape):
    tokens, context = tensors(2, 3)[0], torch.tensor(numbers(*shape))
    wanted = NETWORK(tokens.numpy(), context.numpy().reshape(2, 3))
    np.testing.assert_allclose(module()(tokens, context).numpy(), wanted, rtol=1e-12)
    ((weights,),) = module().attention(tokens, context)
    ((exact,),) = attention_weights(
        NETWORK, tokens.numpy(), np.broadcast_to(context.numpy().reshape(2, 3), (2, 3, 2, 3))
    )
    np.testing.assert_allclose(weights.numpy(), exact, rtol=1e-12)


def test_contexts_broadcast_over_part_of_the_batch():
    tokens, context = tensors(2, 3)[0], torch.tensor(numbers(3, 2, 3))
    np.testing.assert_allclose(module()(tokens, context).numpy(), NETWORK(tokens.numpy(), context.numpy()), rtol=1e-12)


def test_its_weights_are_trained_and_its_gradients_right():
    trained = module(trainable=True)
    assert sum(weight.numel() for weight in trained.parameters()) == count_parameters(NETWORK)[0]
    given = [value.requires_grad_() for value in tensors(2)]
    assert torch.autograd.gradcheck(module(), given, fast_mode=True)


def test_it_is_linear_maps_and_softmax_only_and_one_graph():
    given = tensors(2)
    audit(module(), *given)
    torch._dynamo.reset()
    compiled = torch.compile(module(), fullgraph=True, backend="eager")
    torch.testing.assert_close(compiled(*given), module()(*given), rtol=0, atol=1e-14)


@pytest.mark.parametrize("shape", [(3,), (3, 3), (4, 6, 4)])
def test_a_second_input_of_another_shape_is_refused(shape):
    with pytest.raises(DomainError, match=r"second input has shape \(\.\.\., 2, 3\)\. Got shape "):
        module()(tensors()[0], torch.zeros(shape))


@pytest.mark.parametrize(
    ("given", "shape", "tokens"),
    [((), (1,), (1, 1)), ((7,), (1,), (7, 1, 1)), ((7, 1), (1,), (7, 1, 1)), ((7, 3), (3,), (7, 1, 3)),
     ((7, 2, 3), (2, 3), (7, 2, 3)), ((2, 3), (2, 3), (2, 3))],
)  # fmt: skip
def test_inputs_become_tokens(given, shape, tokens):
    assert as_tokens("X", torch.zeros(given), shape).shape == tokens


@pytest.mark.parametrize(
    ("given", "shape"), [((2,), (3,)), ((), (3,)), ((3,), (2, 3)), ((3, 2), (2, 3)), ((4, 2), (1,))]
)
def test_inputs_of_other_shapes_are_refused(given, shape):
    with pytest.raises(DomainError, match=r"Y must have shape \(\.\.\., .*Got shape .*Reshape"):
        as_tokens("Y", torch.zeros(given), shape)


def test_a_joint_module_has_the_shapes_of_its_target():
    joint = JointModule(module(), (2, 3), (5, 2), True)
    x, y = torch.tensor(numbers(4, 1, 2, 3)), torch.tensor(numbers(6, 5, 2))
    assert joint(x, y).shape == (4, 6, 5, 2)
    ((weights,),) = joint.attention(x, y)
    assert weights.shape == (4, 6, 5, 6)
    torch.testing.assert_close(joint(x, y)[2, 3], joint(x[2, 0], y[3]), rtol=1e-12, atol=0)
