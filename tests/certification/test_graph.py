"""Graphs of registers: proofs hold for whatever the numbers are, claims are re-established or refused."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import attnforge as af
from attnforge.certification.certify import certify
from attnforge.effort import EFFORTS
from attnforge.network import Attention, Linear, Term

CASES = {
    "gravity": ("G*m*n/((x - a)^2 + (y - b)^2)", {"G": (1, 2), "m": (1, 2), "n": (1, 2), "x": (3, 4), "a": (1, 2),
                "y": (3, 4), "b": (1, 2)}),
    "products": ("x*y*z*w", dict.fromkeys("xyzw", (-1, 1))),
    "kinks": ("max(x*y, z) - abs(x + z)", dict.fromkeys("xyz", (-1, 1))),
    "logistic": ("tanh(x + 2*y)*sigmoid(z - x)", dict.fromkeys("xyz", (-1, 1))),
    "exponential": ("x*exp(-y^2 - z)", dict.fromkeys("xyz", (-1, 1))),
    "cancelling": ("(x + y)*(x - y) - x^2 + y^2 + z*x", dict.fromkeys("xyz", (-1, 1))),
}  # fmt: skip


@pytest.fixture(scope="module", params=CASES)
def net(request):
    text, domain = CASES[request.param]
    return af.constructions.graph(text, domain, 1e-5)


def error(net, network, count=4000, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.uniform(net.target.domain.lower, net.target.domain.upper, size=(count, network.features))
    ends = rng.random(x.shape) < 0.3
    x = np.where(ends, np.where(rng.random(x.shape) < 0.5, net.target.domain.lower, net.target.domain.upper), x)
    return float(np.abs(network(x[:, None])[:, 0, 0] - net.target.values(x)).max())


def test_what_is_built_is_proved_within_tol(net):
    assert net.certificate.status == "proved"
    assert error(net, net.network) <= net.certificate.bound <= 1e-5


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_other_dtypes(net, dtype):
    try:
        bound = certify(net.network, net.target, dtype=dtype).bound
    except af.RefusalError:
        assert dtype == "bfloat16"  # registers off by more than they are large
        return
    if bound is not None:
        x = np.random.default_rng(1).uniform(
            net.target.domain.lower, net.target.domain.upper, (500, net.network.features)
        )
        run = net.module(dtype=dtype)
        with torch.no_grad():
            out = run(torch.tensor(x, dtype=getattr(torch, dtype))).double().numpy().reshape(-1)
        assert np.abs(out - net.target.values(x)).max() <= bound


def heads_of(network):
    return [
        (i, j)
        for i, layer in enumerate(network.layers)
        if isinstance(layer, Attention)
        for j in range(len(layer.heads))
    ]


def head_at(network, place):
    return network.layers[place[0]].heads[place[1]]


def with_head(network, place, **changes):
    i, j = place
    layer = network.layers[i]
    heads = tuple(replace(head, **changes) if n == j else head for n, head in enumerate(layer.heads))
    return replace(network, layers=(*network.layers[:i], replace(layer, heads=heads), *network.layers[i + 1 :]))


def judged(net, network):
    """Refused with a reason, or bounded from above."""
    try:
        certificate = certify(network, net.target, effort=EFFORTS["low"])
    except af.AttnforgeError:
        return True
    return certificate.bound is None or error(net, network) <= certificate.bound


@pytest.mark.parametrize("size", [1e-6, 1e-2])
@pytest.mark.parametrize("name", ["query", "key", "value", "output", "memory_keys", "memory_values"])
def test_changed_arrays_are_refused_or_charged(net, name, size):
    rng = np.random.default_rng(5)
    places = [each for each in heads_of(net.network) if getattr(head_at(net.network, each), name) is not None]
    for place in rng.permutation(places)[:2]:
        moved = getattr(head_at(net.network, place), name).copy()
        at = tuple(rng.integers(n) for n in moved.shape)
        moved[at] += size * rng.choice([-1.0, 1.0]) * max(1.0, abs(moved[at]))
        assert judged(net, with_head(net.network, place, **{name: moved})), (place, at)


def test_a_changed_read_out_is_charged(net):
    *layers, last = net.network.layers
    for row in range(0, last.terms[0].map.shape[0], 2):
        weights = last.terms[0].map.copy()
        weights[row, 0] += 1e-3
        moved = replace(net.network, layers=(*layers, Linear((Term(weights),))))
        assert judged(net, moved)


def test_a_changed_first_layer_is_refused_or_charged(net):
    first, *layers = net.network.layers
    for moved in (1.001 * first.terms[0].map, np.roll(first.terms[0].map, 1, axis=0)):
        assert judged(net, replace(net.network, layers=(Linear((Term(moved),), first.constant), *layers)))


def test_false_claims_are_refused_or_charged(net):
    for place in heads_of(net.network)[-2:]:
        head = head_at(net.network, place)
        for formula in (
            f"({head.claims.formula})*1.001",
            f"{head.claims.formula} + 0.01",
            "r[1]",
            "r[0]",
            "sin(",
            "r[99]",
        ):
            network = with_head(net.network, place, claims=replace(head.claims, formula=formula))
            assert judged(net, network), formula


def test_without_residuals_or_claims(net):
    layers = tuple(
        replace(layer, residual=False) if isinstance(layer, Attention) else layer for layer in net.network.layers
    )
    assert judged(net, replace(net.network, layers=layers))
    place = heads_of(net.network)[0]
    assert judged(net, with_head(net.network, place, claims=None))


def test_two_heads_on_one_register_are_refused():
    net = af.constructions.graph("(x*y + sin(z))*z", dict.fromkeys("xyz", (-1, 1)), 1e-4)
    place = heads_of(net.network)[0]
    head = net.network.layers[place[0]].heads[place[1]]
    other = net.network.layers[place[0]].heads[1 - place[1]]
    with pytest.raises(af.CertificateError, match="written by one head"):
        certify(with_head(net.network, place, output=other.output[: head.output.shape[0]]), net.target)


def test_another_target_is_refused():
    net = af.constructions.graph("x*y*z", dict.fromkeys("xyz", (-1, 1)), 1e-4)
    other = af.constructions.graph("x*y*z + x^2", dict.fromkeys("xyz", (-1, 1)), 1e-4)
    certificate = certify(net.network, other.target)
    assert certificate.bound >= 1.0
