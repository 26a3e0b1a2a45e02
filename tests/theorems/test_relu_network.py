"""ReLU networks as attention: equal to torch's within what is proved, by gates and by rows of anchors."""

from __future__ import annotations

import itertools
from functools import partial

import numpy as np
import pytest
import torch
from torch import nn

import attnforge as af
from tests.refusals import refused

BUILD = partial(af.constructions.relu_network, effort="low")  # tests look for the worst point themselves
RNG = np.random.default_rng(0)
ACTIVATIONS = {
    "relu": nn.ReLU(),
    "leaky": nn.LeakyReLU(0.1),
    "hardtanh": nn.Hardtanh(-0.4, 0.7),
}


def random_module(*widths: int, activation: nn.Module | None = None) -> nn.Sequential:
    torch.manual_seed(0)
    layers: list[nn.Module] = []
    for before, after in itertools.pairwise(widths):
        layers += [nn.Linear(before, after), activation or nn.ReLU()]
    return nn.Sequential(*layers[:-1]).double()


def gap(net: af.Compiled, module: nn.Module, x: np.ndarray) -> float:
    return float(np.abs(net(x) - module(torch.tensor(x)).detach().numpy()).max())


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_anchored_heads_follow_the_rate_and_meet_a_tolerance(name):
    module, x = random_module(2, 6, 6, 1, activation=ACTIVATIONS[name]), RNG.uniform(-1, 1, (3000, 2))
    nets = [BUILD(module, af.Box(-1, 1), by="anchors", anchors=anchors) for anchors in (20, 40, 80)]
    assert gap(nets[2], module, x) < 0.4 * gap(nets[0], module, x)
    assert all(gap(net, module, x) <= net.certificate.bound for net in nets)
    for tol in (0.1, 0.01):
        assert tol / 30 < BUILD(module, af.Box(-1, 1), by="anchors", tol=tol).certificate.bound <= tol


ORDERS = {
    "activation first": nn.Sequential(nn.ReLU(), nn.Linear(2, 2)),
    "activation last": nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 2), nn.ReLU()),
    "nested": nn.Sequential(
        nn.Linear(2, 3, bias=False), nn.Identity(), nn.Sequential(nn.ReLU(), nn.ReLU6()), nn.Linear(3, 1)
    ),
    "one layer": nn.Linear(2, 2),
    "a slope above one": nn.Sequential(nn.Linear(2, 3), nn.LeakyReLU(1.5), nn.Linear(3, 2)),
}


@pytest.mark.parametrize("order", ORDERS)
def test_any_order_of_layers(order):
    module = ORDERS[order].double()
    net = BUILD(module, af.Box(-3, 3))
    assert gap(net, module, RNG.uniform(-3, 3, (200, 2))) <= net.certificate.bound < 1e-10


@pytest.mark.parametrize(
    ("text", "inputs", "heads"),
    [("max(x, y)", "xy", 3), ("abs(x) + 2*abs(y - x)", "xy", 4), ("abs(abs(abs(x) - 0.5) - 0.25)", "x", 6)],
)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_piecewise_affine_formulas_go_to_gates(text, inputs, heads, dtype):
    net = af.compile(text, dict.fromkeys(inputs, (-1, 2)), tol=1e-4, dtype=dtype)
    assert (net.construction, net.heads, net.certificate.status) == ("relu_network", heads, "proved")
    unit = 2.0**-53 if dtype == "float64" else 2.0**-24
    assert af.measure(net, points=5000).sup <= net.certificate.bound <= 400 * unit


def broken(module: nn.Sequential) -> nn.Sequential:
    with torch.no_grad():
        module[0].weight[0, 0] = float("nan")
    return module


REFUSED = {
    "a smooth activation": lambda: BUILD(nn.Sequential(nn.Linear(2, 2), nn.GELU()), af.Box(-1, 1)),
    "widths that do not fit": lambda: BUILD(nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(2, 1)), af.Box(-1, 1)),
    "no linear layer": lambda: BUILD(nn.Sequential(nn.ReLU()), af.Box(-1, 1)),
    "another number of features": lambda: BUILD(random_module(2, 2, 1), af.Box(-1, 1, shape=(3,))),
    "NaN weights": lambda: BUILD(broken(random_module(2, 2, 1)), af.Box(-1, 1)),
    "anchors without a number": lambda: BUILD(random_module(2, 2, 1), af.Box(-1, 1), by="anchors"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_cannot_be_compiled_is_refused(what):
    with refused(af.RefusalError if what.startswith("anchors") else af.TargetError):
        REFUSED[what]()
