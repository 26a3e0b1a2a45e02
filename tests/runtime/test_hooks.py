"""Hook points see what NumPy computes, and what they return instead is what the rest of the network reads."""

from __future__ import annotations

import subprocess
import sys
from contextlib import nullcontext

import numpy as np
import pytest
import torch

import attnforge as af
from attnforge.network import Attention, Network, apply_layer, attention_weights
from attnforge.runtime import AttentionNetwork
from tests.network.examples import NETWORKS, head, inputs
from tests.refusals import refused
from tests.runtime.kinds import KINDS, given, kind, points, seen

HEADS = ("hook_attn_scores", "hook_pattern", "hook_z")
ATTENDING = [name for name, network in NETWORKS.items() if network.heads]


def module_of(name, dtype=torch.float64, **options):
    return AttentionNetwork(NETWORKS[name], dtype, **options)


def tensors(name, *batch):
    return tuple(torch.tensor(array) for array in inputs(NETWORKS[name], *batch))


def values_of(one, state, context, pattern):
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


def identities(module):
    for point in points(module).values():
        point.register_forward_hook(lambda *_: None)
    return module


@pytest.mark.parametrize("name", NETWORKS)
def test_points_see_what_numpy_computes_in_the_networks_order(name):
    network, data, module = NETWORKS[name], tensors(name, 3), module_of(name)
    plain, found = module(*data), seen(module, *data)
    torch.testing.assert_close(found.pop("output"), plain)
    assert torch.equal(module(*data), plain)  # hooks are gone: the same kernels, bit for bit
    state, *second = (x.numpy() for x in data)
    context, patterns, names = second[0] if second else None, iter(attention_weights(network, state, *second)), []
    np.testing.assert_array_equal(found["hook_resid"], state)
    for i, layer in enumerate(network.layers):
        for j, weights in enumerate(next(patterns) if isinstance(layer, Attention) else ()):
            names += [f"blocks.{i}.heads.{j}.{what}" for what in HEADS]
            scores, pattern, z = (found[each] for each in names[-3:])
            np.testing.assert_allclose(pattern, weights, rtol=0, atol=1e-13)
            torch.testing.assert_close(torch.softmax(scores, dim=-1), pattern)
            np.testing.assert_allclose(z, values_of(layer.heads[j], state, context, weights), rtol=1e-12, atol=1e-13)
        state = apply_layer(layer, state, *second)
        names.append(f"blocks.{i}.hook_resid")
        np.testing.assert_allclose(found[names[-1]], state, rtol=1e-12, atol=1e-12)
    assert sorted(found) == sorted(["hook_resid", *names])
    assert not any("hook" in key or "blocks" in key for key in module.state_dict())


@pytest.mark.parametrize("name", ATTENDING)
def test_a_pattern_that_is_changed_changes_the_output_as_predicted(name):
    network, data, module = NETWORKS[name], tensors(name, 2), module_of(name)
    before = seen(module, *data)
    i = next(i for i, layer in enumerate(network.layers) if isinstance(layer, Attention))
    state = before[f"blocks.{i - 1}.hook_resid" if i else "hook_resid"].numpy()
    context = data[1].numpy() if len(data) == 2 else None
    for j, one in enumerate(network.layers[i].heads):
        old = before[f"blocks.{i}.heads.{j}.hook_pattern"]
        new = torch.ones_like(old) / old.shape[-1]
        point = module.get_submodule(f"blocks.{i}.heads.{j}.hook_pattern")
        handle = point.register_forward_hook(lambda *_, new=new: new)
        after = seen(module, *data)
        handle.remove()
        change = values_of(one, state, context, (new - old).numpy()) @ one.output
        wanted = before[f"blocks.{i}.hook_resid"].numpy().copy()
        wanted[:, slice(None) if one.query_rows.indices is None else one.query_rows.indices] += change
        np.testing.assert_allclose(after[f"blocks.{i}.hook_resid"], wanted, rtol=1e-11, atol=1e-11)
        assert np.abs(change).max() > 1e-3


def test_scores_means_and_tokens_are_changed_likewise():
    network, data, module = NETWORKS["deep"], tensors("deep", 2), module_of("deep")
    base, before = module(*data), seen(module, *data)

    def run(name, hook):
        handle = module.get_submodule(name).register_forward_hook(lambda _module, _given, value: hook(value))
        after = seen(module, *data)
        handle.remove()
        return after

    head = "blocks.1.heads.0.hook_"
    masked = run(f"{head}attn_scores", lambda scores: scores.index_fill(-1, torch.tensor([1]), -torch.inf))
    kept = before[f"{head}pattern"].index_fill(-1, torch.tensor([1]), 0.0)
    torch.testing.assert_close(masked[f"{head}pattern"], kept / kept.sum(dim=-1, keepdim=True))
    torch.testing.assert_close(run(f"{head}attn_scores", lambda scores: scores + 5.0)["output"], base)
    zeroed = run("blocks.1.heads.1.hook_z", torch.zeros_like)
    lost = before["blocks.1.heads.1.hook_z"] @ torch.tensor(network.layers[1].heads[1].output)
    torch.testing.assert_close(zeroed["blocks.1.hook_resid"], before["blocks.1.hook_resid"] - lost)
    moved = run("blocks.2.hook_resid", lambda state: state + 1.0)
    rest = AttentionNetwork(Network(network.layers[3:], 3, 4), torch.float64)
    torch.testing.assert_close(moved["output"], rest(before["blocks.2.hook_resid"] + 1.0))
    assert torch.equal(module(*data), base)


@pytest.mark.parametrize("name", ["identity", "memory"])
def test_a_hook_may_write_to_what_it_is_given(name):
    """Not to the caller's tokens, nor to a constant of the network."""
    (tokens,), module = tensors(name, 1), module_of(name)
    held, base = tokens.clone(), module(tokens)
    handles = [each.register_forward_hook(lambda _m, _g, value: value.zero_()) for each in points(module).values()]
    assert not module(tokens).any()
    assert torch.equal(tokens, held)
    for handle in handles:
        handle.remove()
    assert torch.equal(module(tokens), base)


@pytest.mark.parametrize("back", [torch.zeros(2, 4, 6), torch.zeros(4, 5), 3.0])
def test_what_a_hook_returns_must_fit(back):
    module = module_of("memory")
    module.get_submodule("blocks.0.heads.0.hook_pattern").register_forward_hook(lambda *_: back)
    with refused(af.DomainError):
        module(*tensors("memory", 2))


@pytest.mark.parametrize("name", KINDS)
def test_modules_of_every_kind_have_them_by_the_same_names(name):
    net, data = kind(name), given(name, 3)
    module, layers = net.module(), net.network.layers
    plain = module(*data)
    assert not module.blocks.are_made  # nothing was made, and nothing called
    found = seen(module, *data)
    torch.testing.assert_close(found.pop("output"), plain, rtol=1e-9, atol=1e-9)
    assert len(found) == 1 + len(layers) + 3 * len(net.network.heads)  # of each application its own
    assert {(value.dim(), len(value)) for value in found.values()} == {(3, 3)}
    assert torch.equal(module(*data), plain)


@pytest.mark.parametrize(
    ("name", "kernel"), [("grid", "factorised"), ("window", "window"), ("window", "sharded"), ("relu", "batched")]
)
def test_kernels_run_as_ever_beside_a_head_with_a_hook(name, kernel):
    net, data, shapes = kind(name), given(name, 4), []
    with pytest.warns(UserWarning, match="not sharded") if kernel == "sharded" else nullcontext():
        module = net.module(kernel=kernel, shards=3 if kernel == "sharded" else 1)
    plain = module(*data)
    place = next(i for i, layer in enumerate(net.network.layers) if isinstance(layer, Attention))
    point = module.get_submodule(f"blocks.{place}.heads.0.hook_pattern")
    handle = point.register_forward_hook(lambda _module, _given, value: shapes.append(tuple(value.shape)))
    torch.testing.assert_close(module(*data), plain, rtol=0, atol=1e-10)
    assert shapes == [(4, 1, net.network.heads[0].memory_size + (name == "relu"))]
    handle.remove()
    assert torch.equal(module(*data), plain)


def test_heads_of_a_group_without_hooks_stay_together():
    """One of many like heads is written out; the kernel runs once for the others, and not at all without others."""
    network = Network((Attention(tuple(head(seed=10 * i, memory=3) for i in range(4))),), 3, None)
    module, calls, (tokens,) = AttentionNetwork(network, torch.float64), [], tensors("memory", 2)
    (group,) = module.layers[0].groups
    group.register_forward_hook(lambda *_: calls.append(1))
    base = module(tokens)
    module.blocks[0].heads[2].hook_z.register_forward_hook(lambda _module, _given, value: 2.0 * value)
    change = module(tokens) - base
    assert len(calls) == 2
    alone = AttentionNetwork(Network((Attention((network.heads[2],)),), 3, None), torch.float64)(tokens)
    torch.testing.assert_close(change, alone)
    for each in module.blocks[0].heads:
        each.hook_pattern.register_forward_hook(lambda *_: None)
    module(tokens)
    assert len(calls) == 2


def test_every_step_in_context_has_its_own():
    net, data, calls = kind("regression"), given("regression", 2), []
    module = net.module()
    steps = module.trajectory(*data)
    assert len(module.core.layers) < len(net.network.layers)  # weights once
    point = module.get_submodule(f"blocks.{3 * module.period - 1}.hook_resid")
    point.register_forward_hook(lambda _module, _given, value: calls.append(1) or 0.5 * value)
    after = module.trajectory(*data)
    assert calls == [1]
    assert torch.equal(after[:2], steps[:2])
    torch.testing.assert_close(after[2], 0.5 * steps[2])
    assert not torch.allclose(after[3], steps[3])


def test_gradients_pass_and_backward_hooks_see_them():
    (tokens,), module = (x.requires_grad_() for x in tensors("deep", 2)), module_of("deep", trainable=True)
    wanted = torch.autograd.grad(module(tokens).sum(), [tokens, *module.parameters()])
    backward, forward = {}, {}
    for name, point in points(module).items():
        point.register_forward_hook(lambda _m, _g, value, name=name: forward.__setitem__(name, value))
        point.register_full_backward_hook(lambda _m, into, out, name=name: backward.__setitem__(name, out[0]))
    total = module(tokens).sum()
    direct = torch.autograd.grad(total, list(forward.values()), retain_graph=True)
    direct = dict(zip(list(forward), direct, strict=True))
    backward.clear()
    torch.testing.assert_close(torch.autograd.grad(total, [tokens, *module.parameters()]), wanted)
    assert set(backward) == set(points(module))
    torch.testing.assert_close(backward, direct)


@pytest.mark.parametrize("name", ["unequal heads", "some of the context and memory", "own row of some queries"])
def test_gradients_of_heads_written_out_are_right(name):
    data = [x.requires_grad_() for x in tensors(name, 2)]
    assert torch.autograd.gradcheck(identities(module_of(name)), data, fast_mode=True)


MISSING = """
import sys
sys.modules["transformer_lens"] = None
import torch, attnforge as af
module = af.constructions.gate([1.0], 0.0, -1, 1).module()
assert type(module.get_submodule("blocks.1.heads.0.hook_pattern")) is torch.nn.Identity

try:
    module.run_with_cache(torch.zeros(1))
except af.RefusalError as error:
    print(error)
"""


def test_without_transformer_lens_the_extra_is_named():
    found = subprocess.run([sys.executable, "-c", MISSING], capture_output=True, text=True, check=True)
    assert "pip install 'attnforge[lens]'" in found.stdout
