"""The torch module equals NumPy for every layer kind, and is a good module: gradients, states, graphs, shapes."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import attnforge as af
from attnforge.network import Attention, Network, Rows, attention_weights, count_parameters
from attnforge.runtime import AttentionNetwork, JointModule
from tests.network.examples import CONTEXT, NETWORKS, TWO_INPUTS, M, head, inputs, numbers
from tests.refusals import refused

EVERY = NETWORKS | {"a second input through maps": TWO_INPUTS}
ATTENDING = [name for name, network in EVERY.items() if network.heads]
SECOND = [name for name, network in EVERY.items() if network.context is not None]


def tensors(name: str, *batch: int) -> tuple[torch.Tensor, ...]:
    return tuple(torch.tensor(array) for array in inputs(EVERY[name], *batch))


def module_of(name: str, trainable: bool = False) -> AttentionNetwork:
    return AttentionNetwork(EVERY[name], torch.float64, trainable)


def close(found: torch.Tensor, wanted: np.ndarray) -> None:
    scale = max(float(np.abs(wanted).max(initial=0.0)), 1.0)
    assert tuple(found.shape) == wanted.shape
    assert np.abs(found.detach().numpy() - wanted).max(initial=0.0) <= 1e-12 * scale


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize("batch", [(), (5,), (2, 3), (1, 2, 1), (0,)])
def test_it_equals_numpy(name, batch):
    given = tensors(name, *batch)
    found = module_of(name)(*given)
    assert found.dtype == torch.float64
    close(found, EVERY[name](*(x.numpy() for x in given)))
    assert torch.equal(
        module_of(name)(*(x.float() for x in given)), module_of(name)(*(x.float().double() for x in given))
    )


@pytest.mark.parametrize("name", ATTENDING)
@pytest.mark.parametrize("batch", [(), (3,), (2, 2)])
def test_attention_weights_equal_numpy_in_the_networks_order(name, batch):
    given = tensors(name, *batch)
    found, wanted = module_of(name).attention(*given), attention_weights(EVERY[name], *(x.numpy() for x in given))
    for layer, expected in zip(found, wanted, strict=True):
        for weights, exact in zip(layer, expected, strict=True):
            close(weights, exact)
            assert torch.allclose(weights.sum(dim=-1), torch.ones((), dtype=torch.float64), atol=1e-13)


@pytest.mark.parametrize("name", SECOND)
def test_second_inputs_broadcast(name):
    tokens, context = tensors(name, 2, 3)
    for told in (context[0, 0], context[:1, :1], context[0], context[:1]):
        close(module_of(name)(tokens, told), EVERY[name](tokens.numpy(), told.numpy()))
        whole = torch.broadcast_to(told, context.shape)
        torch.testing.assert_close(module_of(name).attention(tokens, told), module_of(name).attention(tokens, whole))


def test_a_joint_module_has_the_shapes_of_its_target():
    joint = JointModule(module_of("a second input through maps"), (2, 3), (5, 2), True)
    x, y = torch.tensor(numbers(4, 1, 2, 3)), torch.tensor(numbers(6, 5, 2))
    assert joint(x, y).shape == (4, 6, 5, 2)
    assert joint.attention(x, y)[0][0].shape == (4, 6, 5, 6)
    torch.testing.assert_close(joint(x, y)[2, 3], joint(x[2, 0], y[3]), rtol=1e-12, atol=0)


@pytest.mark.parametrize("name", EVERY)
def test_gradients_are_right(name):
    given = [x.requires_grad_() for x in tensors(name, 2)]
    assert torch.autograd.gradcheck(module_of(name), given, fast_mode=True)


@pytest.mark.parametrize("name", ["unequal heads", "deep", "some of the context and memory"])
def test_gradients_of_the_weights_are_right(name):
    module, given = module_of(name, trainable=True), tensors(name, 2)
    names, weights = zip(*module.named_parameters(), strict=True)

    def run(*values: torch.Tensor) -> torch.Tensor:
        return torch.func.functional_call(module, dict(zip(names, values, strict=True)), given)

    assert torch.autograd.gradcheck(run, weights, fast_mode=True)


@pytest.mark.parametrize("name", EVERY)
def test_trainable_makes_every_weight_a_parameter(name):
    count, _ = count_parameters(EVERY[name])
    frozen, trained = module_of(name), module_of(name, trainable=True)
    assert list(frozen.parameters()) == []
    assert sum(weight.numel() for weight in trained.parameters()) == count
    for module in (frozen, trained):
        state = [weight.numel() for weight in module.state_dict().values() if weight.is_floating_point()]
        assert sum(state) == count
        assert module(*tensors(name)).requires_grad == (module is trained and count > 0)


@pytest.mark.slow
@pytest.mark.parametrize("name", EVERY)
def test_it_compiles_as_one_graph(name):
    torch._dynamo.reset()
    given, module = tensors(name, 2), module_of(name)
    compiled = torch.compile(module, fullgraph=True, backend="eager")
    torch.testing.assert_close(compiled(*given), module(*given), rtol=0, atol=1e-14)


def call(name, *shapes):
    """The module, and its attention, of zeros of these shapes."""
    given = [torch.zeros(shape) for shape in shapes]
    return lambda: module_of(name)(*given), lambda: module_of(name).attention(*given)


NAMED = head(memory=2, rows=Rows.some([2], "context"), query_rows=Rows.some([3, 0]))
NAMES_ROWS = Network((Attention((NAMED,)),), M, None, (None, CONTEXT[1]))
WRONG = {
    **{f"tokens {shape}": call("some rows", shape) for shape in ((3,), (4, 2), (5, 3), (2, 5, 3))},
    **{
        f"a second input {shape}": call("a second input through maps", (5, 2), shape)
        for shape in ((3,), (3, 3), (4, 6, 4))
    },
    "no second input": call("context", (4, 3)),
    "a second input that is not read": call("memory", (2, 3), (2, 3)),
}


@pytest.mark.parametrize("what", WRONG)
def test_a_wrong_shape_is_refused(what):
    for run in WRONG[what]:
        with refused(af.DomainError):
            run()


@pytest.mark.parametrize(("tokens", "told"), [(3, 3), (4, 2)])
def test_rows_that_heads_name_must_be_there(tokens, told):
    """Any number of tokens is any number that holds those named: NumPy and torch refuse fewer alike."""
    given = np.zeros((tokens, M)), np.zeros((told, CONTEXT[1]))
    with refused(af.DomainError):
        NAMES_ROWS(*given)
    with refused(af.DomainError):
        AttentionNetwork(NAMES_ROWS, torch.float64)(*map(torch.from_numpy, given))
    assert NAMES_ROWS(np.zeros((4, M)), np.zeros((3, CONTEXT[1]))).shape == (4, 3)
