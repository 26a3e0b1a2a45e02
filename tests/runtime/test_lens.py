"""With TransformerLens our points are its HookPoints and our modules its HookedRootModules."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch
from torch import nn

from attnforge.network import Attention
from tests.runtime.kinds import KINDS, given, kind, seen

lens = pytest.importorskip("transformer_lens")
HookPoint = pytest.importorskip("transformer_lens.hook_points").HookPoint


@pytest.mark.parametrize("name", KINDS)
def test_run_with_cache_keeps_what_every_point_sees(name):
    net, data = kind(name), given(name, 3)
    module = net.module()
    assert isinstance(module, lens.HookedRootModule)
    plain = module(*data)
    wanted = seen(net.module(), *data)
    del wanted["output"]
    out, cache = module.run_with_cache(*data)
    torch.testing.assert_close(out, plain, rtol=1e-9, atol=1e-9)
    assert set(cache) == set(wanted) == set(module.hook_dict)
    for each, value in cache.items():
        torch.testing.assert_close(value, wanted[each], rtol=0, atol=0)
    assert torch.equal(module(*data), plain)  # no hook is left
    assert all(type(point) is HookPoint for point in module.hook_points())


@pytest.mark.parametrize("name", KINDS)
def test_a_head_that_is_patched_changes_the_output_as_predicted(name):
    """Its mean of values set to zero: what it wrote is missing after its layer."""
    net, data = kind(name), given(name, 3)
    module = net.module()
    _, before = module.run_with_cache(*data)
    place = next(i for i, layer in enumerate(net.network.layers) if isinstance(layer, Attention))
    one, after = net.network.layers[place].heads[-1], {}
    number = len(net.network.layers[place].heads) - 1

    def silence(z, hook):
        return torch.zeros_like(z)

    def keep(state, hook):
        after[hook.name] = state

    names = f"blocks.{place}.heads.{number}.hook_z", f"blocks.{place}.hook_resid"
    out = module.run_with_hooks(*data, fwd_hooks=[(names[0], silence), (names[1], keep)])
    rows = slice(None) if one.query_rows.indices is None else one.query_rows.indices
    wanted = before[names[1]].clone()
    wanted[:, rows] -= before[names[0]] @ torch.tensor(one.output)
    scale = float(before[names[1]].abs().max())
    torch.testing.assert_close(after[names[1]], wanted, rtol=0, atol=1e-12 * scale)
    assert out.shape == module(*data).shape


def test_a_module_from_before_keeps_its_hooks_and_becomes_one(monkeypatch):
    """As where TransformerLens is imported, or first needed, after the module was made."""
    with monkeypatch.context() as without:
        without.delitem(sys.modules, "transformer_lens")
        module, data = kind("relu").module(), given("relu", 2)
        assert not isinstance(module, lens.HookedRootModule)
        point = module.get_submodule("blocks.1.heads.3.hook_z")
        assert type(point) is nn.Identity
        point.register_forward_hook(lambda _module, _given, value: 0.0 * value)
        changed = module(*data)
    assert torch.equal(module.run_with_cache(*data)[0], changed)
    assert isinstance(module, lens.HookedRootModule)
    assert type(point) is HookPoint
    assert module.hook_dict["blocks.1.heads.3.hook_z"] is point
    module.reset_hooks()
    assert torch.equal(module(*data), changed)  # a hook of torch's own is not one of TransformerLens


LATER = """
import sys, torch, attnforge as af
net = af.constructions.gate([1.0], 0.0, -1, 1)
net(torch.zeros(9, 1, 1)), net.module()(torch.zeros(9, 1, 1))
assert "transformer_lens" not in sys.modules
"""


def test_nothing_imports_it_before_it_is_asked_for():
    subprocess.run([sys.executable, "-c", LATER], check=True)
