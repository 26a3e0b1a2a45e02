"""ReLU networks as attention: equal to torch, certified, and nothing but linear maps and softmax in the module."""

from __future__ import annotations

import itertools
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch
from torch import nn

import attnforge as af
from attnforge.balls import machine
from attnforge.certification.checker.check import check
from attnforge.effort import EFFORTS
from attnforge.network import Attention, Linear, Term
from attnforge.runtime import audit
from attnforge.targets import Formula, ReluNetwork
from attnforge.theorems.relu_network import ReluNetworkConstruction, anchor_plan, gate_plan

BUILD = partial(af.constructions.relu_network, effort="low")  # tests look for the worst point themselves
RNG = np.random.default_rng(0)


def random_module(*widths: int, activation: nn.Module | None = None, seed: int = 0) -> nn.Sequential:
    torch.manual_seed(seed)
    layers: list[nn.Module] = []
    for before, after in itertools.pairwise(widths):
        layers += [nn.Linear(before, after), activation or nn.ReLU()]
    return nn.Sequential(*layers[:-1]).double()


def gap(net: af.Compiled, module: nn.Module, x: np.ndarray) -> float:
    return float(np.abs(net(x) - module(torch.tensor(x)).detach().numpy()).max())


def trained() -> nn.Sequential:
    """A small network trained for a few steps, so that its weights are not random."""
    module = random_module(2, 16, 16, 1, seed=1)
    x = torch.tensor(RNG.uniform(-1, 1, (256, 2)))
    y = torch.sin(3 * x[:, :1]) * x[:, 1:]
    optimiser = torch.optim.Adam(module.parameters(), lr=1e-2)
    for _ in range(100):
        optimiser.zero_grad()
        nn.functional.mse_loss(module(x), y).backward()
        optimiser.step()
    return module


@pytest.mark.parametrize(
    ("module", "inputs"), [(random_module(5, 64, 64, 3), 5), (trained(), 2)], ids=["random", "trained"]
)
def test_gates_reproduce_a_network(module, inputs):
    net = BUILD(module, af.Box(-1, 1))
    assert net.certificate.status == "proved"
    assert net.certificate.bound <= 1e-8
    x = RNG.uniform(-1, 1, (100_000, inputs))
    assert gap(net, module, x) <= 1e-10
    assert gap(net, module, x) <= net.certificate.bound
    seen = audit(net.module(), torch.tensor(x[:4]))
    assert "_softmax" in seen
    assert not {"relu", "clamp", "leaky_relu", "hardtanh", "maximum"} & seen


ACTIVATIONS = {
    "relu": nn.ReLU(),
    "leaky": nn.LeakyReLU(0.1),
    "steep": nn.LeakyReLU(1.5),
    "falling": nn.LeakyReLU(-0.3),
    "hardtanh": nn.Hardtanh(-0.4, 0.7),
    "relu6": nn.ReLU6(),
}


@pytest.mark.parametrize("name", ACTIVATIONS)
@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16"])
def test_every_activation_stays_within_its_certificate(name, dtype):
    module = random_module(3, 7, 5, 2, activation=ACTIVATIONS[name])
    net = BUILD(module, af.Box(-2, 2), dtype=dtype)
    x = RNG.uniform(-2, 2, (500, 3))
    assert gap(net, module, x) <= net.certificate.bound
    if dtype == "float64":
        assert net.certificate.bound < 1e-11


@pytest.mark.parametrize("name", ["relu", "leaky", "hardtanh"])
def test_anchored_heads_follow_the_rate_and_the_bound(name):
    module = random_module(2, 6, 6, 1, activation=ACTIVATIONS[name])
    errors = []
    for anchors in (20, 40, 80):
        net = BUILD(module, af.Box(-1, 1), by="anchors", anchors=anchors)
        x = RNG.uniform(-1, 1, (3000, 2))
        errors.append(gap(net, module, x))
        assert errors[-1] <= net.certificate.bound
    assert errors[2] < 0.4 * errors[0]


def test_the_error_budget_is_met():
    module = random_module(2, 6, 6, 1)
    for tol in (0.1, 0.01):
        net = BUILD(module, af.Box(-1, 1), by="anchors", tol=tol)
        assert net.certificate.bound <= tol
        assert net.certificate.bound > tol / 30


def test_the_bound_in_exact_arithmetic_is_part_of_the_certificate():
    """The construction carries errors through |W|; the proof knows signs and lengths, too, and is not above."""
    module = random_module(2, 6, 6, 1)
    target = ReluNetwork.from_torch(module, af.Box(-1, 1))
    construction = ReluNetworkConstruction()
    for plan in (gate_plan(target, "float64"), anchor_plan(target, 0.05, "float64")):
        parts = construction.bound(target, plan)
        found = af.certify(construction.build(target, plan), target).parts
        assert 0.5 * sum(parts.values()) <= found["spacing"] + found["leakage"] <= 1.05 * sum(parts.values())


def test_tokens_and_shapes():
    module = random_module(2, 4, 3)
    net = BUILD(module, af.Box(-1, 1, shape=(5, 2)))
    x = RNG.uniform(-1, 1, (7, 5, 2))
    assert net(x).shape == (7, 5, 3)
    assert gap(net, module, x) <= net.certificate.bound
    single = BUILD(random_module(1, 4, 1), af.Box(-1, 1))
    assert single(np.zeros((6, 1))).shape == (6, 1)


@pytest.mark.parametrize(
    "module",
    [
        nn.Sequential(nn.ReLU(), nn.Linear(2, 2)),
        nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 2), nn.ReLU()),
        nn.Sequential(
            nn.Linear(2, 3, bias=False), nn.Identity(), nn.Sequential(nn.ReLU(), nn.ReLU6()), nn.Linear(3, 1)
        ),
        nn.Linear(2, 2),
    ],
    ids=["activation first", "activation last", "nested", "one layer"],
)
def test_any_order_of_layers(module):
    module = module.double()
    net = BUILD(module, af.Box(-3, 3))
    assert gap(net, module, RNG.uniform(-3, 3, (200, 2))) <= net.certificate.bound < 1e-10


def test_compile_takes_modules_and_files_keep_them(tmp_path):
    module = random_module(2, 4, 1)
    net = af.compile(module, af.Box(-1, 1), tol=1e-9)
    assert net.construction == "relu_network"
    net.save(tmp_path / "f.safetensors")
    again = af.load(tmp_path / "f.safetensors")
    x = RNG.uniform(-1, 1, (9, 2))
    assert np.array_equal(again(x), net(x))
    assert af.certify(again).bound == net.certificate.bound


def test_a_changed_weight_is_seen():
    module = random_module(2, 4, 1)
    net = BUILD(module, af.Box(-1, 1))
    first = net.network.layers[0]
    assert isinstance(first, Linear)
    moved = Linear((Term(first.terms[0].map + 1e-6 * np.eye(2, 5)),), first.constant)
    found = af.certify(replace(net.network, layers=(moved, *net.network.layers[1:])), net.target)
    assert found.bound > 1e-8 > 100 * net.certificate.bound


@pytest.mark.parametrize("field", ["memory_values", "memory_keys", "value", "query"])
def test_a_changed_head_is_seen_or_refused(field):
    module = random_module(2, 4, 1)
    net = BUILD(module, af.Box(-1, 1))
    layer = net.network.layers[1]
    assert isinstance(layer, Attention)
    weights = getattr(layer.heads[2], field)
    head = replace(layer.heads[2], **{field: weights + 1e-3 * max(1.0, np.abs(weights).max())})
    heads = (*layer.heads[:2], head, *layer.heads[3:])
    mutated = replace(net.network, layers=(net.network.layers[0], replace(layer, heads=heads), net.network.layers[2]))
    try:
        found = af.certify(mutated, net.target).bound
    except af.AttnforgeError:
        return
    x = RNG.uniform(-1, 1, (500, 2))
    real = np.abs(mutated(x[:, None])[:, 0] - net.target.values(x)).max()
    assert found >= real
    assert found > 1e-6


@pytest.mark.parametrize(
    ("module", "reason"),
    [
        (nn.Sequential(nn.Linear(2, 2), nn.GELU()), "GELU"),
        (nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(2, 1)), "3 outputs into 2 inputs"),
        (nn.Sequential(nn.ReLU()), "at least one Linear"),
    ],
)
def test_what_cannot_be_compiled_is_named(module, reason):
    with pytest.raises(af.TargetError, match=reason):
        BUILD(module, af.Box(-1, 1))


def test_nan_weights_and_wrong_settings_are_refused():
    module = random_module(2, 2, 1)
    with pytest.raises(af.RefusalError, match="`by` must be"):
        BUILD(module, af.Box(-1, 1), by="anchors")
    with pytest.raises(af.TargetError, match="domain must have 2 features"):
        BUILD(module, af.Box(-1, 1, shape=(3,)))
    with torch.no_grad():
        module[0].weight[0, 0] = float("nan")
    with pytest.raises(af.TargetError, match="must be finite"):
        BUILD(module, af.Box(-1, 1))


@pytest.mark.parametrize(
    ("text", "inputs", "heads"),
    [("max(x, y)", "xy", 3), ("abs(x) + 2*abs(y - x)", "xy", 4), ("abs(abs(abs(x) - 0.5) - 0.25)", "x", 6)],
)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_piecewise_affine_formulas_go_to_gates(text, inputs, heads, dtype):
    net = af.compile(text, dict.fromkeys(inputs, (-1, 2)), tol=1e-4, dtype=dtype)
    assert (net.construction, net.heads, net.certificate.status) == ("relu_network", heads, "proved")
    assert af.measure(net, points=5000).sup <= net.certificate.bound <= 400 * machine(dtype).roundoff
    assert net.target.describe() == text


def test_another_formula_is_not_proved_by_the_network_of_this_one():
    net = af.compile("max(x, y)", {"x": (-1, 1), "y": (-1, 1)}, tol=1e-9)
    other = Formula("max(x, 1.5*y)", net.domain, ("x", "y"))
    assert af.certify(net.network, other, effort="low").bound >= af.measure(net, other, points=2000).sup > 0.4
    verdict = check(net.network, net.target, replace(net.certificate, bound=1e-17), "float64", EFFORTS["low"])
    assert verdict.verdict != "confirmed"
