"""What is proved follows the weights, not their names: departures are charged or refused, and defects stay mended."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

import attnforge as af
from attnforge.network import Linear, Network, Softmax, Term, flatten, head_places, unflatten, with_head, with_heads
from tests.catalogue import network
from tests.refusals import refused

MAKE, LINE, CUBE = af.constructions, {"x": (-1, 1)}, dict.fromkeys("xyz", (-1, 1))
UNIT, SQUARE = af.Box(0, 1, shape=(1,)), af.Box(0, 1, shape=(2,))


def error(net, changed=None, points=4000, seed=0):
    """The largest error seen, at corners and beside edges of cells too."""
    box, changed = net.target.domain, changed or net.network
    share = np.random.default_rng(seed).uniform(size=(points, *box.shape))
    share[::4] = share[::4].round()
    share[1::4] = np.clip((24 * share[1::4]).round() / 24 + 1e-9, 0, 1)
    share[2::4] = share[2::4].reshape(len(share[2::4]), -1)[:, :1].reshape(-1, *[1] * len(box.shape))
    x = box.lower + share * (box.upper - box.lower)
    out = replace(net, network=changed)(*net.target.split(x)) if changed.context else changed(
        x.reshape(points, -1, changed.features)
    )  # fmt: skip
    return float(np.abs(np.reshape(out, -1) - net.target.values(x).reshape(-1)).max())


def charged(net, changed, least=0.0):
    """The new bound is above the new error, and by so much above the old one."""
    bound = af.certify(changed, net.target).bound
    assert error(net, changed) <= bound
    assert bound >= net.certificate.bound + least
    return bound


def moved(array, index, by):
    array = array.copy()
    array[index] += by
    return array


def layer_with(whole, at, **changes):
    layers = list(whole.layers)
    layers[at] = replace(layers[at], **changes)
    return replace(whole, layers=tuple(layers))


# Cells and bumps


@pytest.mark.parametrize("name", ["partition, hard", "law: max_affine", "law: two_layer"])
def test_a_value_that_is_off_is_charged_in_full(name):
    net = network(name)
    values = net.network.heads[-1].memory_values
    at = (len(values) // 2, int(np.flatnonzero(values.any(axis=0))[-1]))
    changed = with_head(net.network, -1 if name != "law: two_layer" else 2, 0, memory_values=moved(values, at, 3.0))
    charged(net, changed, least=2.5)


HIDDEN = "1e17*((1 + 1e-17*x) - 1)"  # x, and 0 in float64
BUMPS = {
    "a read-out scaled": lambda net: layer_with(net, -1, terms=(scaled(net.layers[-1], 1.01), net.layers[-1].terms[1])),
    "a ramp left out": lambda net: layer_with(net, 1, heads=net.layers[1].heads[1:]),
    "nothing read": lambda net: layer_with(net, 0, terms=(scaled(net.layers[0], 0.0), net.layers[0].terms[1])),
    "a key twice": lambda net: with_head(net, 2, 0, memory_keys=net.layers[2].heads[0].memory_keys[[0, 0, 2, 3]]),
    "no read-out": lambda net: replace(net, layers=net.layers[:-1]),
}


def scaled(layer, by):
    return replace(layer.terms[0], map=by * layer.terms[0].map)


@pytest.mark.parametrize("change", BUMPS)
def test_bumps_without_their_lemma_are_refused(change):
    net = network("two layers, tokens")
    with refused():
        af.certify(BUMPS[change](net.network), net.target)


BUILT = {
    "max_affine": lambda f, **more: MAKE.max_affine(f, UNIT, cells=6, **more),
    "max_affine, hard": lambda f, **more: MAKE.max_affine(f, UNIT, cells=32, sharpness="hard", **more),
    "two_layer": lambda f, **more: MAKE.two_layer(f, UNIT, grid=6, **more),
    "softmax_tail": lambda f, **more: MAKE.softmax_tail(f, UNIT, grid=6, **more),
}


@pytest.mark.parametrize("name", BUILT)
def test_no_proof_rests_on_a_float64_evaluation_of_the_target(name):
    """In float64 the formula is zero; networks of zeros are off by one; others have its true values."""
    zeros = BUILT[name](lambda x: 0 * x[..., 0], lipschitz=1.0)
    found = af.certify(zeros.network, HIDDEN, {"x": (0, 1)})
    assert (found.status, found.bound >= 11 / 12) == ("proved", True)
    net = BUILT[name](HIDDEN)
    points = np.linspace(0, 1, 41)
    assert np.abs(net(points) - points).max() <= net.certificate.bound


def test_a_part_of_the_domain_has_a_smaller_bound_and_a_wider_one_its_own():
    net, other = network("partition, hard"), MAKE.cross_attention(
        lambda x, y: x[..., 0] + y[..., 0], UNIT, UNIT, grid=4, sharpness="hard", lipschitz=2
    )  # fmt: skip
    assert af.certify(net, domain={"x": (-0.1, 0.1)}).bound < 0.5 * net.certificate.bound
    assert af.certify(other, domain=af.Box([0, 0], [1, 0.5])).bound < other.certificate.bound
    assert af.certify(other, domain=af.Box(0, 2, shape=(2,))).bound >= 2.0  # the values end near 2, f at 4
    with refused(af.CertificateError):  # a callable is known on its domain only, centres lie outside of it
        af.certify(network("two layers"), domain=af.Box(0.1, 0.6, shape=(2,)))
    formula = network("law: two_layer")
    part = af.Box(formula.domain.lower / 2, formula.domain.upper / 2)
    assert af.certify(formula, domain=part).bound <= 1.001 * formula.certificate.bound
    gate = network("gate")
    far = af.certify(gate, domain=af.Box(-1e6, 1e6, shape=(2,)))
    assert far.domain == ((-1e6, 1e6),) * 2
    assert far.parts["rounding"] > 1e4 * gate.certificate.parts["rounding"]


def cross(**arrays):
    """Cross-attention with entries of its arrays changed, by name and index."""
    net = MAKE.cross_attention(lambda x, y: x[..., 0] + y[..., 0], UNIT, UNIT, grid=4, sharpness="hard", lipschitz=2)
    skeleton, found = flatten(net.network)
    for name, (index, value) in arrays.items():
        found[name] = found[name].copy()
        found[name][index] = value
    return net, unflatten(skeleton, found)


@pytest.mark.parametrize(
    ("name", "index", "value"),
    [
        ("layer1.head0.query", (0, 0), 1.0),  # products of X and Y
        ("layer0.term0.map", (0, 1), 0.01),  # the same, in a query of two parts
        ("layer1.head0.value", (0, 0), 1.0),  # values of two
        ("context1.term0.map", (0, 2), 1.0),  # values from X
    ],
)
def test_scores_and_values_that_are_not_affine_are_refused(name, index, value):
    net, changed = cross(**{name: (index, value)})
    with refused(af.CertificateError):
        af.certify(changed, net.target)


@pytest.mark.parametrize(
    ("name", "index", "by"),
    [("context1.constant", (5, -1), 3.0), ("context1.constant", (5, 0), 1e-5), ("layer0.term0.map", (0, 0), 1e-5)],
)
def test_what_departs_from_the_theorem_of_cross_attention_is_charged(name, index, by):
    net, _ = cross()
    old = flatten(net.network)[1][name][index]
    assert charged(*cross(**{name: (index, old + by)}), least=1e-7) >= net.certificate.bound + (by if by > 1 else 0)


# Gates and rows


@pytest.mark.parametrize(("row", "size"), [(1, 0.1), (2, 0.05)])
def test_outer_values_that_follow_the_input_are_charged(row, size):
    """Rows of the literal layout that become keys of the ends, and read a part of the token beside their constants."""
    net = MAKE.gate([0.7, -1.3], 0.4, -1.0, 2.0, layout="literal", domain=af.Box(-3, 3))
    term = net.network.layers[0].terms[0]
    changed = layer_with(net.network, 0, terms=(replace(term, mix=moved(term.mix, (row, 0), size)),))
    assert error(net, changed) > 0.25
    charged(net, changed)


def test_ends_of_a_gate_with_no_key_or_two_are_charged():
    """A gate without a low key does not cut off below; another key under the same name could do anything."""
    net = MAKE.gate([0.7, -1.3], 0.4, -1.0, 2.0, domain=af.Box(-3, 3))
    head = net.network.heads[0]
    lone = with_head(net.network, 1, 0, memory_keys=head.memory_keys[1:], memory_values=head.memory_values[1:],
                     claims=None)  # fmt: skip
    two = with_head(net.network, 1, 0, memory_keys=np.vstack([head.memory_keys, [[0.0, 1.0]]]),
                    memory_values=np.vstack([head.memory_values, [[50.0]]]), claims=None)  # fmt: skip
    for changed in (lone, two):
        assert error(net, changed) > 1.0
        charged(net, changed)


def test_a_run_by_windows_is_certified_for_them():
    net = af.compile("sin(200*x)", LINE, 1e-4)
    found = af.certify(net, kernel="window")
    assert found.kernels == ("window",)
    assert found.parts["fit"] == net.certificate.parts["fit"]
    x = np.random.default_rng(0).uniform(-1, 1, 5000)
    with pytest.warns(UserWarning, match="not window"):
        module = net.module(kernel="window")
    assert np.abs(module(torch.from_numpy(x)).numpy() - np.sin(200 * x)).max() <= found.bound
    assert found.bound <= 1.1 * net.certificate.bound
    assert af.certify(network("fine grid"), kernel="factorised").kernels == ("factorised",)
    refusing = (("sine", "fast"), ("graph", "window"), ("row of 84", "batched"), ("sine", "factorised"))
    for name, kernel in (*refusing, ("zoo: voronoi_cells", "factorised")):
        with refused():
            af.certify(network(name), kernel=kernel)


# Deep networks and graphs


def test_bounds_do_not_explode_with_depth():
    """Rotations: six more layers cost a factor of a few; |W| alone, with sums of rows near 4, would cost 4^6."""
    torch.manual_seed(0)
    bounds = []
    for depth in (2, 8):
        layers = [layer for _ in range(depth) for layer in (nn.Linear(24, 24), nn.ReLU())]
        for layer in layers[::2]:
            nn.init.orthogonal_(layer.weight)
            nn.init.zeros_(layer.bias)
        bounds.append(MAKE.relu_network(nn.Sequential(*layers).double(), af.Box(-1, 1)).certificate.bound)
    assert bounds[1] < 40 * bounds[0]


@pytest.mark.parametrize(("factor", "right"), [(1, True), (2, False)])
def test_two_heads_on_one_column_are_right_where_all_read_them_alike(factor, right):
    net = MAKE.graph(f"(x*y + {factor}*sin(z))*z", CUBE, 1e-4)
    layer, at = head_places(net.network)[0]
    changed = with_head(net.network, layer, at, output=net.network.layers[layer].heads[1 - at].output)
    if right:
        assert charged(net, changed) <= 1e-4
    else:
        assert error(net, changed) >= 0.5
        with refused(af.RefusalError):
            af.certify(changed, net.target)


def test_where_it_is_not_known_that_there_are_values_the_certificate_says_so():
    """Of a root, of a claim and of a target; and kinks that the domain does not reach need no gate."""
    around = af.compile("sqrt(x^2 + y^2 - 2*x*y*cos(z))", {"x": (1, 2), "y": (1, 2), "z": (0, 3)}, 1e-3).certificate
    assert around.status == "conditional"
    assert any("has values where x^2 + y^2 - 2*x*y*cos(z) >= 0" in text for text in around.assumptions)
    assert af.compile("hypot(x - y, z)", dict.fromkeys("xyz", (0, 1)), 1e-3).certificate.status == "proved"
    corner = {"x": (0, 1), "y": (0, 1)}
    for text in ("sqrt(abs(x))*y", "log(1 + max(x, -y))*y", "sqrt(relu(x) + min(y, 2))*x"):
        assert af.compile(text, corner, 1e-3, construction="graph", require="proved").certificate.bound <= 1e-3
    with refused(af.TargetError):
        af.compile("asin(x + y)", corner, 1e-3, construction="graph")
        af.certify(network("sine").network, "1/x", {"x": (0, 1)})


def test_stacks_of_layers_are_enclosed_along_one_form_of_their_inputs():
    gate = af.compile("clamp(2*x - y, -1, 1)", {"x": (-1, 1), "y": (0, 2)}, 1e-6, construction="gate")
    square = af.compile("x^2", {"x": (-1.1, 1.1)}, 1e-3)
    both = replace(gate.network, layers=(*gate.network.layers, *square.network.layers), construction="")
    target = af.compile("clamp(2*x - y, -1, 1)^2", {"x": (-1, 1), "y": (0, 2)}, 1.0).target
    seen = error(replace(gate, target=target), both, points=20_000)
    assert seen <= af.certify(both, target).bound <= 1.06 * seen


# Whatever else is asked

STRANGE = {
    "no layers": lambda net: Network((), 1),
    "not finite": lambda net: with_head(net, 1, 0, output=np.array([[np.nan]])),
    "another softmax": lambda net: replace(net, layers=(*net.layers, Softmax(), Linear((Term(np.ones((1, 2))),)))),
    "no attention": lambda net: replace(net, layers=net.layers[:1]),
}


@pytest.mark.parametrize("what", STRANGE)
def test_what_is_no_network_of_the_target_is_refused(what):
    net = network("sine")
    with refused():
        af.certify(STRANGE[what](net.network), net.target)


def test_other_targets_are_bounded_as_they_are_or_refused():
    with refused(af.CertificateError):
        af.certify(network("sine").network)
    for target in (network("grid").target, network("two outputs").target, network("relu").target):
        with refused():
            af.certify(network("sine").network, target)
    net = network("graph")
    assert af.certify(net.network, "x*y*exp(-z^2) + x^2", CUBE).bound >= 1.0


def test_less_effort_says_less_in_words():
    net = af.compile("exp(-x^2)*cos(3*y)", {"x": (-1, 1), "y": (-1, 1)}, tol=1e-8, construction="tensor_grid")
    found = af.certify(net, effort=af.Effort(pairs=2e4))
    assert found.status == "sampled"
    assert "enough boxes" in found.assumptions[0]
    head = network("multihead")
    few = with_heads(head.network, lambda each: replace(each, query=1.3 * each.query, claims=None))
    assert af.certify(few, head.target).bound < np.inf
