"""ReLU networks followed side by side: confirmed where true, never where a head or a weight is another."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import attnforge as af
from attnforge.certification.checker.layered import image
from attnforge.certification.checker.relu import compare
from attnforge.errors import CertificateError
from attnforge.network import Head, Linear, Rows, Term, rounded, with_heads
from attnforge.targets import Activation, Affine, ReluNetwork

ACTIVATIONS = {
    "relu": torch.nn.ReLU(),
    "leaky": torch.nn.LeakyReLU(0.1),
    "steep": torch.nn.LeakyReLU(-1.5),
    "hardtanh": torch.nn.Hardtanh(-0.5, 0.25),
    "relu6": torch.nn.ReLU6(),
}


def compiled(activation, dtype="float64", tokens=None, seed=0):
    torch.manual_seed(seed)
    box = af.Box(-1.0, 1.0, shape=(2,) if tokens is None else (tokens, 2))
    module = torch.nn.Sequential(torch.nn.Linear(2, 2), ACTIVATIONS[activation], torch.nn.Linear(2, 1)).double()
    return af.constructions.relu_network(module, box, dtype=dtype)


def verdict(net, bound, network=None, target=None):
    network = rounded(network or net.network, net.dtype)
    return compare(network, target or net.target, bound, net.dtype, lambda _: None)


def measured(network, target):
    points = np.random.default_rng(1).uniform(-1, 1, size=(2000, *np.atleast_2d(target.domain.lower).shape))
    return float(np.abs(network(points) - target.values(points)).max())


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_stored_bounds_are_confirmed(activation):
    net = compiled(activation)
    found = verdict(net, net.certificate.bound)
    assert found.verdict == "confirmed"
    assert measured(net.network, net.target) <= found.reached <= net.certificate.bound


def test_a_bound_below_what_is_reached_is_not_confirmed():
    net = compiled("relu")
    found = verdict(net, 1e-17)
    assert found.verdict == "undecided"
    assert 1e-17 < found.reached < 1e-14


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_runs_in_other_dtypes_stay_within_what_is_reached(dtype):
    net = compiled("leaky", dtype)
    found = verdict(net, net.certificate.bound)
    points = torch.rand(500, 2, dtype=torch.float64) * 2 - 1
    run = net(points.to(getattr(torch, dtype))).double().numpy()
    exact = net.target.values(points.to(getattr(torch, dtype)).double().numpy())
    assert np.abs(run - exact.reshape(run.shape)).max() <= found.reached
    assert found.verdict in ("confirmed", "undecided")


@pytest.mark.parametrize(
    "change",
    [
        lambda head: replace(head, key_rows=Rows()) if head.key_rows is not None else head,
        lambda head: replace(head, query_rows=Rows.some([0])),
    ],
    ids=["other tokens' keys", "one token asks"],
)
def test_tokens_that_see_each_other_are_refused(change):
    """One token alone would not show it, and the bound at two would be false by far."""
    net = compiled("relu", tokens=2)
    assert verdict(net, net.certificate.bound).verdict == "confirmed"
    other = with_heads(net.network, change)
    assert measured(other, net.target) > 0.01
    with pytest.raises(CertificateError, match="by itself"):
        verdict(net, net.certificate.bound, other)


def test_folded_ranges_are_followed_into_the_next_stage():
    """|x| on [-1, 1] is 1 at both ends and 0 between: a gate that is wrong near 0 must be seen, without a witness."""
    module = torch.nn.Sequential(
        torch.nn.Linear(1, 1), torch.nn.LeakyReLU(-1.0), torch.nn.Linear(1, 1), torch.nn.ReLU(), torch.nn.Linear(1, 1)
    ).double()
    with torch.no_grad():
        for k, (w, b) in {0: (1.0, 0.0), 2: (1.0, -0.0001), 4: (1.0, 0.0)}.items():
            module[k].weight.fill_(w)
            module[k].bias.fill_(b)
    net = af.constructions.relu_network(module, af.Box(-1.0, 1.0))
    layers = list(net.network.layers)
    layers[3] = replace(layers[3], heads=(replace(layers[3].heads[0], memory_values=np.array([[100.0]])),))
    assert verdict(net, net.certificate.bound).verdict == "confirmed"
    found = verdict(net, 1.0, replace(net.network, layers=tuple(layers)))
    assert found.verdict != "confirmed"
    assert found.reached > 99


@pytest.mark.parametrize("where", [0, 2])
def test_another_weight_is_not_confirmed(where):
    net = compiled("relu")
    layers = list(net.network.layers)
    term = layers[where].terms[0]
    changed = term.map.copy()
    changed[0, 0] += 1e-9
    layers[where] = replace(layers[where], terms=(Term(changed),))
    other = replace(net.network, layers=tuple(layers))
    assert verdict(net, net.certificate.bound, other).verdict != "confirmed"
    assert verdict(net, 1e-6, other).reached >= measured(other, net.target) > net.certificate.bound


def test_layers_must_be_the_targets():
    net = compiled("relu")
    first, heads, last = net.network.layers
    twice = Linear((Term(np.eye(1)),))
    no_one = replace(first, terms=(Term(first.terms[0].map[:, :-1]),), constant=first.constant[:, :-1])
    added = replace(heads, heads=tuple(replace(h, output=np.eye(1, len(h.query))) for h in heads.heads), residual=True)
    wide = Linear((Term(np.ones((len(heads.heads[0].query), 1))),))
    others = [first, heads, last, twice], [first, added, wide], [Linear((Term(np.ones((2, 1))),))], [no_one, last]
    for layers in others:
        with pytest.raises((CertificateError, ValueError)):
            verdict(net, 1e9, replace(net.network, layers=tuple(layers)))


def test_float16_overflow_is_not_confirmed():
    """40000 x + 40000 x leaves float16's range, though the difference that follows is small."""
    weight = np.array([[40000.0], [40000.0]])
    stages = Affine(weight, np.zeros(1)), Affine(np.array([[2.0**-16]]), np.zeros(1))
    target = ReluNetwork(stages, af.Box(0.0, 1.0, shape=(2,)))
    network = af.network.Network(tuple(Linear((Term(s.weight),), s.bias[None]) for s in stages), 2, 1)
    found = compare(rounded(network, "float16"), target, 10.0, "float16", lambda _: None)
    assert found.verdict == "undecided"
    assert found.reached == np.inf


def test_a_head_that_writes_nothing_is_looked_at_all_the_same():
    """Its scores overflow: not a number, which times zero is none either."""
    net = compiled("relu", "float32")
    width = net.network.layers[1].heads[0].query.shape[0]
    query = np.full((width, 1), 1e30)
    silent = Head(query, np.zeros((1, 2)), memory_keys=np.full((2, 1), 1e30), memory_values=np.ones((2, 1)))
    layers = list(net.network.layers)
    layers[1] = replace(layers[1], heads=(*layers[1].heads, silent))
    found = verdict(net, net.certificate.bound, replace(net.network, layers=tuple(layers)))
    assert found.verdict != "confirmed"


@pytest.mark.parametrize(
    "stage", [Activation(0.0, None, -1.0), Activation(-0.5, 0.25, 0.1), Activation(None, 1.0, 3.0)]
)
def test_ranges_of_activations_hold_between_the_ends(stage):
    values = stage(np.linspace(-1.3, 2.1, 1001))
    low, high = (float(end[0]) for end in image(stage, np.array([-1.3]), np.array([2.1])))
    assert low <= values.min() + 1e-15
    assert values.max() - 1e-15 <= high
    assert high - low <= values.max() - values.min() + 0.02
    assert image(Activation(0.0, None, -1.0), np.array([-1.0]), np.array([1.0]))[0] <= 0.0


def test_witnesses_are_points_of_a_tokens_box():
    """Tokens with boxes of their own: a network right on both and wrong between them is not refuted there."""
    affine = Affine(np.array([[1.0], [1.0]]), np.zeros(1))
    box = af.Box(np.array([[0.0, 0.0], [2.0, 2.0]]), np.array([[1.0, 1.0], [3.0, 3.0]]))
    network = af.network.Network((Linear((Term(1.001 * affine.weight),)),), 2, 2)
    found = compare(network, ReluNetwork((affine,), box), 1e-6, "float64", lambda _: None)
    assert found.verdict == "refuted"
    assert all(0 <= x <= 1 for x in found.at) or all(2 <= x <= 3 for x in found.at)


def test_deep_networks_are_confirmed():
    """Six layers: errors carried through absolute weights alone would be far above what the proof says."""
    torch.manual_seed(0)
    layers = [layer for k in range(6) for layer in (torch.nn.Linear(16 if k else 3, 16), torch.nn.ReLU())]
    module = torch.nn.Sequential(*layers, torch.nn.Linear(16, 2)).double()
    net = af.constructions.relu_network(module, af.Box(-1.0, 1.0))
    found = verdict(net, net.certificate.bound)
    assert found.verdict == "confirmed"
    assert 0.1 * net.certificate.bound < found.reached
    assert verdict(net, 0.1 * net.certificate.bound).verdict == "undecided"
