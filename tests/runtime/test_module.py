"""The torch module equals NumPy for every layer kind, in every dtype as far as it can, and is a good module."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from attnforge.errors import DomainError
from attnforge.network import Attention, Network, Rows, attention_weights, count_parameters, rounded
from attnforge.runtime import AttentionNetwork
from tests.network.examples import CONTEXT, NETWORKS, M, head, inputs

READS_WEIGHTS = [name for name, network in NETWORKS.items() if network.heads]
COARSE = {"float32": 1e-5, "bfloat16": 0.06, "float16": 0.008}


def tensors(network, *batch: int) -> tuple[torch.Tensor, ...]:
    return tuple(torch.tensor(array) for array in inputs(network, *batch))


def module_of(name: str, dtype: torch.dtype = torch.float64, trainable: bool = False) -> AttentionNetwork:
    return AttentionNetwork(NETWORKS[name], dtype, trainable)


def close(found: torch.Tensor, wanted: np.ndarray, tolerance: float) -> None:
    scale = max(float(np.abs(wanted).max(initial=0.0)), 1.0)
    assert tuple(found.shape) == wanted.shape
    assert np.abs(found.detach().double().numpy() - wanted).max(initial=0.0) <= tolerance * scale


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("batch", [(), (5,), (2, 3), (1, 2, 1)])
def test_float64_equals_numpy(name, batch):
    given = tensors(NETWORKS[name], *batch)
    found = module_of(name)(*given)
    assert found.dtype == torch.float64
    close(found, NETWORKS[name](*(x.numpy() for x in given)), 1e-12)


@pytest.mark.parametrize("dtype", COARSE)
@pytest.mark.parametrize("name", NETWORKS)
def test_other_dtypes_are_as_close_as_they_can_be(name, dtype):
    given = tensors(NETWORKS[name], 4)
    found = module_of(name, getattr(torch, dtype))(*given)
    assert found.dtype == getattr(torch, dtype)
    exact = rounded(NETWORKS[name], dtype)
    close(found, exact(*(x.to(found.dtype).double().numpy() for x in given)), COARSE[dtype])


@pytest.mark.parametrize("name", NETWORKS)
def test_inputs_of_another_dtype_are_cast(name):
    given = tensors(NETWORKS[name], 2)
    module = module_of(name)
    singles = [x.float() for x in given]
    close(module(*singles), module(*(x.double() for x in singles)).numpy(), 0.0)


@pytest.mark.parametrize("name", NETWORKS)
def test_an_empty_batch_gives_an_empty_batch(name):
    network = NETWORKS[name]
    found = module_of(name)(*tensors(network, 0))
    assert tuple(found.shape) == network(*inputs(network, 0)).shape


@pytest.mark.parametrize("name", ["context", "some of the context and memory"])
def test_one_context_serves_a_batch(name):
    tokens, context = tensors(NETWORKS[name], 3)
    found = module_of(name)(tokens, context[0])
    close(found, NETWORKS[name](tokens.numpy(), context[0].numpy()), 1e-12)


@pytest.mark.parametrize("name", READS_WEIGHTS)
@pytest.mark.parametrize("batch", [(), (3,), (2, 2)])
def test_attention_weights_equal_numpy_in_the_networks_order(name, batch):
    given = tensors(NETWORKS[name], *batch)
    found = module_of(name).attention(*given)
    wanted = attention_weights(NETWORKS[name], *(x.numpy() for x in given))
    assert [len(layer) for layer in found] == [len(layer) for layer in wanted]
    for layer, expected in zip(found, wanted, strict=True):
        for weights, numbers in zip(layer, expected, strict=True):
            close(weights, numbers, 1e-12)
            assert torch.allclose(weights.sum(dim=-1), torch.ones((), dtype=torch.float64), atol=1e-13)


def test_half_precision_weights_sum_to_one_to_their_precision():
    for dtype in (torch.bfloat16, torch.float16):
        for weights in module_of("unequal heads", dtype).attention(*tensors(NETWORKS["unequal heads"]))[0]:
            assert torch.allclose(
                weights.double().sum(dim=-1), torch.ones(()).double(), atol=8 * torch.finfo(dtype).eps
            )


@pytest.mark.parametrize("name", NETWORKS)
def test_gradients_are_right(name):
    network = NETWORKS[name]
    given = [x.requires_grad_() for x in tensors(network, 2)]
    if name == "constant only":
        assert not module_of(name)(*given).requires_grad
    else:
        assert torch.autograd.gradcheck(module_of(name), given, fast_mode=True)


@pytest.mark.parametrize("name", ["unequal heads", "deep", "some of the context and memory"])
def test_gradients_of_the_weights_are_right(name):
    module = module_of(name, trainable=True)
    given = tensors(NETWORKS[name], 2)
    names, weights = zip(*module.named_parameters(), strict=True)

    def run(*values: torch.Tensor) -> torch.Tensor:
        return torch.func.functional_call(module, dict(zip(names, values, strict=True)), given)

    assert torch.autograd.gradcheck(run, weights, fast_mode=True)


@pytest.mark.slow
@pytest.mark.parametrize("name", NETWORKS)
def test_it_compiles_as_one_graph(name):
    torch._dynamo.reset()
    given = tensors(NETWORKS[name], 2)
    module = module_of(name)
    compiled = torch.compile(module, fullgraph=True, backend="eager")
    torch.testing.assert_close(compiled(*given), module(*given), rtol=0, atol=1e-14)


@pytest.mark.parametrize("name", NETWORKS)
def test_trainable_makes_every_weight_a_parameter(name):
    count, _ = count_parameters(NETWORKS[name])
    frozen, trained = module_of(name), module_of(name, trainable=True)
    assert list(frozen.parameters()) == []
    assert sum(weight.numel() for weight in trained.parameters()) == count
    assert not frozen(*tensors(NETWORKS[name])).requires_grad
    assert trained(*tensors(NETWORKS[name])).requires_grad == (count > 0)


def test_a_gradient_step_changes_the_output_and_lowers_the_loss():
    module = module_of("deep", trainable=True)
    given = tensors(NETWORKS["deep"], 8)
    optimiser = torch.optim.SGD(module.parameters(), lr=1e-2)
    losses = []
    for _ in range(5):
        loss = ((module(*given) - 3.0) ** 2).mean()
        optimiser.zero_grad()
        loss.backward()
        assert all(weight.grad is not None for weight in module.parameters())
        optimiser.step()
        losses.append(loss.item())
    assert losses == sorted(losses, reverse=True)
    assert losses[-1] < losses[0]


@pytest.mark.parametrize("trainable", [False, True])
@pytest.mark.parametrize("name", NETWORKS)
def test_state_dict_round_trip(name, trainable):
    given = tensors(NETWORKS[name], 2)
    source, goal = module_of(name, trainable=trainable), module_of(name, trainable=trainable)
    with torch.no_grad():
        for weight in goal.state_dict().values():
            if weight.is_floating_point():
                weight.zero_()
    goal.load_state_dict(source.state_dict())
    torch.testing.assert_close(goal(*given), source(*given), rtol=0, atol=0)
    total = sum(weight.numel() for weight in source.state_dict().values() if weight.is_floating_point())
    assert total == count_parameters(NETWORKS[name])[0]


def test_it_moves_between_dtypes_like_any_module():
    module = module_of("deep").to(torch.float32)
    assert {weight.dtype for weight in module.state_dict().values() if weight.is_floating_point()} == {torch.float32}


@pytest.mark.parametrize("shape", [(3,), (4, 2), (5, 3), (2, 5, 3)])
def test_a_wrong_shape_is_refused_with_the_one_wanted(shape):
    for call in (module_of("some rows"), module_of("some rows").attention):
        with pytest.raises(DomainError, match=r"takes tensors of shape \(\.\.\., 4, 3\)\. Got shape "):
            call(torch.zeros(shape))


def test_a_missing_second_input_is_refused():
    with pytest.raises(DomainError, match=r"reads a second input .* Got one input\. Call net\(X, Y\)"):
        module_of("context")(torch.zeros(4, 3))


def test_a_layer_applied_again_has_its_weights_once():
    one = NETWORKS["residual"]
    network = Network(one.layers * 50, one.features, one.tokens)
    module = AttentionNetwork(network, torch.float64, trainable=True)
    alone = AttentionNetwork(one, torch.float64, trainable=True)
    count = [sum(weight.numel() for weight in each.parameters()) for each in (module, alone)]
    assert count[0] == count[1]
    (tokens,) = inputs(network)
    np.testing.assert_allclose(module(torch.from_numpy(tokens)).detach(), network(tokens), rtol=1e-9)


def test_a_second_input_that_is_not_read_is_refused():
    network = NETWORKS["memory"]
    tokens = torch.zeros(2, network.features)
    with pytest.raises(DomainError, match=r"reads one input\. Got a second one"):
        AttentionNetwork(network, torch.float64)(tokens, tokens)
    with pytest.raises(DomainError, match=r"reads one input\. Got a second one"):
        network(tokens.numpy(), tokens.numpy())


def test_rows_that_heads_name_must_be_there():
    """Any number of tokens is any number that holds those named: NumPy and torch refuse fewer alike."""
    named = head(memory=2, rows=Rows.some([2], "context"), query_rows=Rows.some([3, 0]))
    network = Network((Attention((named,)),), M, None, (None, CONTEXT[1]))
    module = AttentionNetwork(network, torch.float64)
    for tokens, told, pattern in ((3, 3, "at least 4 tokens"), (4, 2, "at least 3 rows of its second input")):
        given = np.zeros((tokens, M)), np.zeros((told, CONTEXT[1]))
        with pytest.raises(DomainError, match=pattern):
            network(*given)
        with pytest.raises(DomainError, match=pattern):
            module(*map(torch.from_numpy, given))
    assert network(np.zeros((4, M)), np.zeros((3, CONTEXT[1]))).shape == (4, 3)
