"""Deep feed-forward networks: no run leaves its bound, in any dtype; bounds stay near rounding as networks get deep."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

import attnforge as af
from attnforge.balls import MACHINES
from attnforge.certification.composition import slopes_between
from attnforge.network import Attention, with_heads

ACTIVATIONS = (nn.ReLU, nn.ReLU, lambda: nn.LeakyReLU(0.2), lambda: nn.Hardtanh(-0.7, 0.9), nn.ReLU6)


def deep(seed: int, depth: int, width: int, inputs: int = 3, outputs: int = 2) -> nn.Sequential:
    """Random weights and activations; biases so large that some neurons never change sides."""
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    layers: list[nn.Module] = []
    for k in range(depth + 1):
        linear = nn.Linear(inputs if k == 0 else width, outputs if k == depth else width)
        nn.init.normal_(linear.weight, std=1.2 / np.sqrt(linear.in_features))
        nn.init.normal_(linear.bias, std=float(rng.choice([0.1, 1.0])))
        layers += [linear, ACTIVATIONS[rng.integers(len(ACTIVATIONS))]()]
    return nn.Sequential(*layers[:-1]).double()


def worst(net: af.Compiled, points: np.ndarray) -> float:
    """Of the run in its dtype, fed what the target is fed, rounded to it."""
    fed = torch.tensor(points).to(getattr(torch, net.dtype))
    run = net(fed).double().numpy()
    return float(np.abs(run - net.target.values(points)).max())


@pytest.mark.parametrize("dtype", MACHINES)
@pytest.mark.parametrize("seed", range(4))
def test_deep_networks_stay_within_their_bounds(seed, dtype):
    net = af.constructions.relu_network(deep(seed, 5, 9), af.Box(-1.5, 2.0), dtype=dtype)
    points = np.random.default_rng(seed).uniform(-1.5, 2.0, (2000, 3))
    error = worst(net, points)
    assert error <= net.certificate.bound
    assert error > 0 or dtype == "float64"


def test_bounds_do_not_explode_with_depth():
    """Rotations: six more layers cost a factor of a few; |W| alone, with sums of rows near 4, would cost 4^6."""
    torch.manual_seed(0)
    bounds = []
    for depth in (2, 8):
        layers: list[nn.Module] = []
        for _ in range(depth):
            layers += [nn.Linear(24, 24), nn.ReLU()]
            nn.init.orthogonal_(layers[-2].weight)
            nn.init.zeros_(layers[-2].bias)
        bounds.append(af.constructions.relu_network(nn.Sequential(*layers).double(), af.Box(-1, 1)).certificate.bound)
    assert bounds[1] < 40 * bounds[0]


def test_slopes_are_known_where_no_kink_is():
    low, high = np.array([-2.0, -2.0, 0.0, 0.5, 0.5, 3.0]), np.array([-1.0, 0.5, 1.0, 2.0, 4.0, 4.0])
    a, b = np.zeros(6), np.full(6, 2.0)
    slopes = slopes_between(0.0, low, high, a, b)
    assert slopes.mid.tolist() == [0.0, 0.5, 1.0, 1.0, 0.5, 0.0]
    assert np.round(slopes.rad, 9).tolist() == [0.0, 0.5, 0.0, 0.0, 0.5, 0.0]
    falling = slopes_between(-0.5, low, high, a, b)
    assert falling.mid.tolist() == [-0.5, 0.25, 1.0, 1.0, 0.25, -0.5]
    assert np.round(falling.rad, 9).tolist() == [0.0, 0.75, 0.0, 0.0, 0.75, 0.0]


def test_claims_of_gates_are_not_needed():
    net = af.constructions.relu_network(deep(1, 3, 6), af.Box(-1.5, 2.0))
    other = with_heads(net.network, lambda head: replace(head, claims=None))
    assert af.certify(other, net.target).bound == net.certificate.bound


@pytest.mark.parametrize("size", [1e-6, 1e-3])
def test_weights_that_are_a_little_off_cost_as_much(size):
    """Every weight of every layer and head perturbed: the bound is within ten times of the error that is seen."""
    rng = np.random.default_rng(0)
    net = af.constructions.relu_network(deep(2, 2, 8), af.Box(-1.5, 2.0))

    def perturbed(array):
        return None if array is None else array * (1 + size * rng.uniform(-1, 1, array.shape))

    layers = []
    for layer in net.network.layers:
        if isinstance(layer, Attention):
            heads = [
                replace(head, **{name: perturbed(getattr(head, name)) for name in ("query", "memory_keys", "output")})
                for head in layer.heads
            ]
            layers.append(replace(layer, heads=tuple(heads)))
        else:
            terms = tuple(replace(term, map=perturbed(term.map)) for term in layer.terms)
            layers.append(replace(layer, terms=terms))
    network = replace(net.network, layers=tuple(layers))
    points = rng.uniform(-1.5, 2.0, (20_000, 3))
    error = np.abs(network(points[:, None])[:, 0] - net.target.values(points)).max()
    found = af.certify(network, net.target)
    assert error <= found.bound <= 10 * error
