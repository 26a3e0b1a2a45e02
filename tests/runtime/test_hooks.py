"""Hook points see what NumPy computes, and what they return instead is what the rest of the network reads."""

from __future__ import annotations

import subprocess
import sys
from contextlib import nullcontext

import numpy as np
import pytest
import torch
from torch import nn

from attnforge.errors import DomainError
from attnforge.network import Attention, Network, Rows, attention_weights
from attnforge.network.apply import apply_layer
from attnforge.runtime import AttentionNetwork, audit
from attnforge.runtime.window import WindowHead
from tests.network.examples import NETWORKS, head, inputs
from tests.runtime.kinds import KINDS, given, kind

HEADS = ("hook_attn_scores", "hook_pattern", "hook_z")
ATTENDING = [name for name, network in NETWORKS.items() if network.heads]


def points(module: nn.Module) -> dict[str, nn.Module]:
    return {name: each for name, each in module.named_modules() if name.rsplit(".")[-1].startswith("hook_")}


def seen(module: nn.Module, *inputs: torch.Tensor) -> dict[str, torch.Tensor]:
    """What all points see, by hooks that are taken away afterwards."""
    found: dict[str, torch.Tensor] = {}

    def keep(name: str):
        return lambda _module, _given, value: found.__setitem__(name, value)

    handles = [point.register_forward_hook(keep(name)) for name, point in points(module).items()]
    module(*inputs)
    for handle in handles:
        handle.remove()
    return found


def tensors(network: Network, *batch: int) -> tuple[torch.Tensor, ...]:
    return tuple(torch.tensor(array) for array in inputs(network, *batch))


def values_of(one, state: np.ndarray, context: np.ndarray | None, pattern: np.ndarray) -> np.ndarray:
    """The mean (batch, query, v) by the definition, from the weights alone."""
    total, at = 0.0, one.memory_size
    if one.memory_values is not None:
        total = total + pattern[..., :at] @ one.memory_values
    if one.key_rows is not None and one.key_rows.kind == "own":
        total = total + pattern[..., at:] * (one.query_rows.take(state) @ one.value)
    elif one.key_rows is not None:
        source = state if one.key_rows.source == "state" else context
        total = total + pattern[..., at:] @ (one.key_rows.take(source) @ one.value)
    return np.asarray(total)


@pytest.mark.parametrize("name", NETWORKS)
def test_every_head_and_layer_has_its_points_in_the_networks_order(name):
    network = NETWORKS[name]
    wanted = ["hook_resid"]
    for i, layer in enumerate(network.layers):
        heads = layer.heads if isinstance(layer, Attention) else ()
        wanted += [f"blocks.{i}.heads.{j}.{what}" for j in range(len(heads)) for what in HEADS]
        wanted.append(f"blocks.{i}.hook_resid")
    module = AttentionNetwork(network, torch.float64)
    assert sorted(points(module)) == sorted(wanted)
    assert all(module.get_submodule(each) is points(module)[each] for each in wanted)
    assert not any("hook" in key or "blocks" in key for key in module.state_dict())


@pytest.mark.parametrize("name", NETWORKS)
def test_points_see_what_numpy_computes_and_change_nothing(name):
    network = NETWORKS[name]
    data = tensors(network, 3)
    module = AttentionNetwork(network, torch.float64)
    plain = module(*data)
    found = seen(module, *data)
    torch.testing.assert_close(seen(module, *data)[f"blocks.{len(network.layers) - 1}.hook_resid"], plain)
    assert torch.equal(module(*data), plain)  # hooks are gone: the same kernels, bit for bit
    state, *second = (x.numpy() for x in data)
    context = second[0] if second else None
    np.testing.assert_array_equal(found["hook_resid"], state)
    patterns = iter(attention_weights(network, state, context))
    for i, layer in enumerate(network.layers):
        for j, weights in enumerate(next(patterns) if isinstance(layer, Attention) else ()):
            scores, pattern, z = (found[f"blocks.{i}.heads.{j}.{what}"] for what in HEADS)
            np.testing.assert_allclose(pattern, weights, rtol=0, atol=1e-13)
            torch.testing.assert_close(torch.softmax(scores, dim=-1), pattern)
            np.testing.assert_allclose(z, values_of(layer.heads[j], state, context, weights), rtol=1e-12, atol=1e-13)
        state = apply_layer(layer, state, context) if context is not None else apply_layer(layer, state)
        np.testing.assert_allclose(found[f"blocks.{i}.hook_resid"], state, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", ATTENDING)
def test_a_pattern_that_is_changed_changes_the_output_as_predicted(name):
    network = NETWORKS[name]
    data = tensors(network, 2)
    module = AttentionNetwork(network, torch.float64)
    before = seen(module, *data)
    i = next(i for i, layer in enumerate(network.layers) if isinstance(layer, Attention))
    state, context = before[f"blocks.{i - 1}.hook_resid" if i else "hook_resid"].numpy(), None
    if len(data) == 2:
        context = data[1].numpy()
    for j, one in enumerate(network.layers[i].heads):
        old = before[f"blocks.{i}.heads.{j}.hook_pattern"]
        new = torch.ones_like(old) / old.shape[-1]
        point = module.get_submodule(f"blocks.{i}.heads.{j}.hook_pattern")
        handle = point.register_forward_hook(lambda *_, new=new: new)
        after = seen(module, *data)
        handle.remove()
        change = values_of(one, state, context, (new - old).numpy()) @ one.output
        wanted = before[f"blocks.{i}.hook_resid"].numpy().copy()
        rows = slice(None) if one.query_rows.indices is None else one.query_rows.indices
        wanted[:, rows] += change
        np.testing.assert_allclose(after[f"blocks.{i}.hook_resid"], wanted, rtol=1e-11, atol=1e-11)
        assert np.abs(change).max() > 1e-3


def test_scores_means_and_tokens_are_changed_likewise():
    network = NETWORKS["deep"]
    data = tensors(network, 2)
    module = AttentionNetwork(network, torch.float64)
    base, before = module(*data), seen(module, *data)

    def run(name, hook):
        handle = module.get_submodule(name).register_forward_hook(lambda _module, _given, value: hook(value))
        after = seen(module, *data)
        handle.remove()
        return after

    masked = run(
        "blocks.1.heads.0.hook_attn_scores", lambda scores: scores.index_fill(-1, torch.tensor([1]), -torch.inf)
    )
    kept = before["blocks.1.heads.0.hook_pattern"].index_fill(-1, torch.tensor([1]), 0.0)
    torch.testing.assert_close(masked["blocks.1.heads.0.hook_pattern"], kept / kept.sum(dim=-1, keepdim=True))
    shifted = run("blocks.1.heads.0.hook_attn_scores", lambda scores: scores + 5.0)
    torch.testing.assert_close(shifted["blocks.4.hook_resid"], base)
    zeroed = run("blocks.1.heads.1.hook_z", torch.zeros_like)
    lost = before["blocks.1.heads.1.hook_z"] @ torch.tensor(network.layers[1].heads[1].output)
    torch.testing.assert_close(zeroed["blocks.1.hook_resid"], before["blocks.1.hook_resid"] - lost)
    moved = run("blocks.2.hook_resid", lambda state: state + 1.0)
    torch.testing.assert_close(moved["blocks.2.hook_resid"], before["blocks.2.hook_resid"] + 1.0)
    rest = AttentionNetwork(Network(network.layers[3:], 3, 4), torch.float64)
    torch.testing.assert_close(moved["blocks.4.hook_resid"], rest(before["blocks.2.hook_resid"] + 1.0))
    assert torch.equal(module(*data), base)


def test_a_hook_may_write_to_what_it_is_given():
    """Not to the caller's tokens, nor to a constant of the network."""
    for name in ("identity", "memory"):
        (tokens,) = tensors(NETWORKS[name], 1)
        held = tokens.clone()
        module = AttentionNetwork(NETWORKS[name], torch.float64)
        base = module(tokens)
        for point in points(module).values():
            point.register_forward_hook(lambda _module, _given, value: value.zero_())
        assert not module(tokens).any()
        assert torch.equal(tokens, held)
        for point in points(module).values():
            point._forward_hooks.clear()
        assert torch.equal(module(tokens), base)


@pytest.mark.parametrize("back", [torch.zeros(2, 4, 6), torch.zeros(4, 5), 3.0])
def test_what_a_hook_returns_must_fit(back):
    (tokens,) = tensors(NETWORKS["memory"], 2)
    module = AttentionNetwork(NETWORKS["memory"], torch.float64)
    module.get_submodule("blocks.0.heads.0.hook_pattern").register_forward_hook(lambda *_: back)
    with pytest.raises(DomainError, match=r"A hook here takes and returns a tensor of shape \(2, 4, 5\)\. Got "):
        module(tokens)


@pytest.mark.parametrize("name", KINDS)
def test_modules_of_every_kind_have_them_by_the_same_names(name):
    net = kind(name)
    module, data = net.module(), given(name, 3)
    plain = module(*data)
    assert not module.blocks.are_made  # nothing was made, and nothing called
    found = seen(module, *data)
    layers = net.network.layers
    heads = sum(len(layer.heads) for layer in layers if isinstance(layer, Attention))
    assert len(found) == 1 + len(layers) + 3 * heads  # of each application its own
    for what, value in found.items():
        assert value.dim() == 3, what
        assert len(value) == 3, what
    torch.testing.assert_close(seen_output(module, data), plain, rtol=1e-9, atol=1e-9)
    assert torch.equal(module(*data), plain)


def seen_output(module, data):
    handles = [point.register_forward_hook(lambda *_: None) for point in points(module).values()]
    found = module(*data)
    for handle in handles:
        handle.remove()
    return found


@pytest.mark.parametrize(
    ("name", "kernel"), [("grid", "factorised"), ("window", "window"), ("window", "sharded"), ("relu", "batched")]
)
def test_kernels_run_as_ever_beside_a_head_with_a_hook(name, kernel):
    options = {"shards": 3} if kernel == "sharded" else {}
    with pytest.warns(UserWarning, match="not sharded") if options else nullcontext():
        module = kind(name).module(kernel=kernel, **options)
    data = given(name, 4)
    plain = module(*data)
    place = next(i for i, layer in enumerate(kind(name).network.layers) if isinstance(layer, Attention))
    point = module.get_submodule(f"blocks.{place}.heads.0.hook_pattern")
    shapes = []
    handle = point.register_forward_hook(lambda _module, _given, value: shapes.append(tuple(value.shape)))
    torch.testing.assert_close(module(*data), plain, rtol=0, atol=1e-10)
    assert shapes == [(4, 1, kind(name).network.heads[0].memory_size + (name == "relu"))]
    handle.remove()
    assert torch.equal(module(*data), plain)


def test_heads_of_a_group_without_hooks_stay_together():
    """One of many like heads is written out; the kernel runs once for the others, and not at all without others."""
    network = Network((Attention(tuple(head(seed=10 * i, memory=3) for i in range(4))),), 3, None)
    module = AttentionNetwork(network, torch.float64)
    (group,) = module.layers[0].groups
    calls = []
    group.register_forward_hook(lambda *_: calls.append(1))
    (tokens,) = tensors(NETWORKS["memory"], 2)
    base = module(tokens)
    module.blocks[0].heads[2].hook_z.register_forward_hook(lambda _module, _given, value: 2.0 * value)
    after = module(tokens)
    assert len(calls) == 2
    change = after - base
    alone = AttentionNetwork(Network((Attention((network.heads[2],)),), 3, None), torch.float64)(tokens)
    torch.testing.assert_close(change, alone)
    for each in module.blocks[0].heads:
        each.hook_pattern.register_forward_hook(lambda *_: None)
    module(tokens)
    assert len(calls) == 2


def test_windows_are_left_alone_without_hooks(monkeypatch):
    module, data = kind("window").module(), given("window", 300)
    list(points(module))
    calls, near = [], WindowHead._near
    monkeypatch.setattr(WindowHead, "_near", lambda self, asking: calls.append(1) or near(self, asking))
    module(*data)
    assert calls
    calls.clear()
    module.blocks[1].heads[0].hook_z.register_forward_hook(lambda *_: None)
    module(*data)
    assert not calls


def test_every_step_in_context_has_its_own():
    net, data = kind("regression"), given("regression", 2)
    module = net.module()
    steps = module.trajectory(*data)
    assert len(module.core.layers) < len(net.network.layers)  # weights once
    place = 2 * module.period + module.period - 1
    point = module.get_submodule(f"blocks.{place}.hook_resid")
    calls = []
    point.register_forward_hook(lambda _module, _given, value: calls.append(1) or 0.5 * value)
    after = module.trajectory(*data)
    assert calls == [1]
    assert torch.equal(after[:2], steps[:2])
    torch.testing.assert_close(after[2], 0.5 * steps[2])
    assert not torch.allclose(after[3], steps[3])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_other_dtypes(dtype):
    network = NETWORKS["unequal heads"]
    data = tensors(network, 2)
    module = AttentionNetwork(network, dtype)
    plain, found = module(*data), seen(module, *data)
    for name, value in found.items():
        wide = name.endswith(("scores", "pattern"))
        assert value.dtype == (torch.float32 if wide else dtype), name
    close = found["blocks.0.hook_resid"].double() - plain.double()
    assert close.abs().max() <= 64 * torch.finfo(dtype).eps


def test_gradients_pass_and_backward_hooks_see_them():
    network = NETWORKS["deep"]
    (tokens,) = (x.requires_grad_() for x in tensors(network, 2))
    module = AttentionNetwork(network, torch.float64, trainable=True)
    plain = module(tokens).sum()
    wanted = torch.autograd.grad(plain, [tokens, *module.parameters()])
    backward, forward = {}, {}
    for name, point in points(module).items():
        point.register_forward_hook(lambda _m, _g, value, name=name: forward.__setitem__(name, value))
        point.register_full_backward_hook(lambda _m, into, out, name=name: backward.__setitem__(name, out[0]))
    total = module(tokens).sum()
    asked = {name: forward[name] for name in forward}
    direct = dict(zip(asked, torch.autograd.grad(total, list(asked.values()), retain_graph=True), strict=True))
    backward.clear()
    found = torch.autograd.grad(total, [tokens, *module.parameters()])
    for ours, theirs in zip(found, wanted, strict=True):
        torch.testing.assert_close(ours, theirs)
    assert set(backward) == set(points(module))
    for name, gradient in backward.items():
        torch.testing.assert_close(gradient, direct[name])


@pytest.mark.parametrize("name", ["unequal heads", "some of the context and memory", "own row of some queries"])
def test_gradients_of_heads_written_out_are_right(name):
    data = [x.requires_grad_() for x in tensors(NETWORKS[name], 2)]
    module = AttentionNetwork(NETWORKS[name], torch.float64)
    for point in points(module).values():
        point.register_forward_hook(lambda *_: None)
    assert torch.autograd.gradcheck(module, data, fast_mode=True)


@pytest.mark.parametrize("name", ATTENDING)
def test_the_audit_admits_identities(name):
    module = AttentionNetwork(NETWORKS[name], torch.float64)
    list(points(module))
    audit(module, *tensors(NETWORKS[name], 2))
    for point in points(module).values():
        point.register_forward_hook(lambda *_: None)
    audit(module, *tensors(NETWORKS[name], 2))
    points(module)["blocks.0.hook_resid"].register_forward_hook(lambda _module, _given, value: value.relu())
    with pytest.raises(ValueError, match="relu"):
        audit(module, *tensors(NETWORKS[name], 2))


def test_some_context_rows_are_seen_in_their_order():
    one = head(rows=Rows.some([4, 0, 2], "context"), memory=2)
    network = Network((Attention((one,)),), 3, 4, (5, 2))
    tokens, told = tensors(network, 3)
    module = AttentionNetwork(network, torch.float64)
    found = seen(module, tokens, told[:1])  # one second input for all
    queries = tokens @ torch.tensor(one.query)
    keys = torch.cat([torch.tensor(one.memory_keys), told[0, [4, 0, 2]] @ torch.tensor(one.key)])
    torch.testing.assert_close(found["blocks.0.heads.0.hook_attn_scores"], queries @ keys.T)


MISSING = """
import sys
sys.modules["transformer_lens"] = None
import torch, attnforge as af
module = af.constructions.gate([1.0], 0.0, -1, 1).module()
assert type(module.get_submodule("blocks.1.heads.0.hook_pattern")) is torch.nn.Identity

try:
    module.run_with_cache(torch.zeros(1))
except af.RefusalError as error:
    print(type(error).__name__, error)
"""


def test_without_transformer_lens_the_extra_is_named():
    found = subprocess.run([sys.executable, "-c", MISSING], capture_output=True, text=True, check=True)
    assert found.stdout.startswith("RefusalError `run_with_cache` needs TransformerLens 4.3 or newer")
    assert "pip install 'attnforge[lens]'" in found.stdout
