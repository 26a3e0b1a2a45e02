"""The prover reads numbers: names and claims change nothing, and what it bounds is true."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import attnforge as af
from attnforge.certification.certify import certify
from attnforge.network import Attention, Linear, Network, Rows, Softmax, Term, flatten, unflatten
from attnforge.network.flatten import is_weight
from attnforge.targets import Formula, TruncatedLinear
from tests.laws.cases import SMALL, changed, running, with_claims, with_head, worst

NETS = {name: build() for name, build in SMALL.items()}


def layers(net, *more):
    return replace(net.network, layers=(*net.network.layers, *more))


def doubled(net):
    first = net.network.layers[0]
    twice = Linear((*first.terms, *first.terms), first.constant)
    return replace(net.network, layers=(twice, *net.network.layers[1:]))


def residual(net):
    *before, attention = net.network.layers
    width = attention.heads[0].query.shape[0]
    padded = tuple(replace(head, output=np.pad(head.output, ((0, 0), (0, width - 1)))) for head in attention.heads)
    return replace(
        net.network, layers=(*before, Attention(padded, residual=True), Linear((Term(np.eye(width)[:, :1]),)))
    )


CHANGED = {
    "no claims": lambda net: with_head(net.network, claims=None),
    "another name": lambda net: replace(net.network, construction="magic"),
    "a linear map after": lambda net: layers(net, Linear((Term(2 * np.eye(1)),))),
    "a softmax after": lambda net: layers(net, Softmax()),
    "a second layer": lambda net: layers(net, net.network.layers[-1]),
    "two terms": doubled,
    "a residual": residual,
    "no attention": lambda net: layers(replace(net, network=replace(net.network, layers=net.network.layers[:1]))),
    "not finite": lambda net: with_head(net.network, output=np.array([[np.nan]])),
}
PROVED = {"no claims", "another name", "two terms"}


@pytest.mark.parametrize("what", CHANGED)
@pytest.mark.parametrize("name", NETS)
def test_other_networks_are_judged_by_their_numbers(name, what):
    """Whoever wrote them, whatever they are called: what is bounded is true."""
    net = NETS[name]
    try:
        network = CHANGED[what](net)
        bound = certify(network, net.target).bound
    except af.AttnforgeError:
        assert what not in PROVED
        return
    assert worst(running(net, network)) <= bound


def test_targets_of_another_shape_are_refused():
    net = NETS["gate"]
    for w in ([[1.0, 0.0]] * 2, [1.0, 2.0, 3.0]):
        other = TruncatedLinear(w, 0.0, -1, 2, af.Box(-1, 1))
        with pytest.raises(af.AttnforgeError, match=r"must take the target's inputs|points of shape"):
            certify(net.network, other)


def test_a_target_that_the_network_has_little_to_do_with():
    target = Formula("x*y", af.Box([-1.0, -1.0], [1.0, 1.0]), ("x", "y"))
    try:
        bound = certify(NETS["gate"].network, target).bound
    except af.CertificateError:
        return
    points = np.random.default_rng(0).uniform(-1, 1, size=(500, 2))
    assert np.abs(NETS["gate"].network(points[:, None])[:, 0, 0] - points.prod(axis=1)).max() <= bound


@pytest.mark.parametrize("change", [{"key": 1e-3}, {"key_rows": Rows.some(np.arange(7))}])
def test_keys_that_no_builder_writes(change):
    """Keys that vary with the input, fewer rows than there are: enclosed, or refused."""
    net = af.constructions.truncated_linear([1.0], 0.0, -1, 1, anchors=8, layout="literal")
    head = net.network.heads[0]
    fields = {"key": changed(head.key, (0, 0), change["key"])} if "key" in change else change
    mutant = with_head(net.network, **fields)
    try:
        bound = certify(mutant, net.target).bound
    except af.AttnforgeError:
        return
    assert worst(running(net, mutant)) <= bound


def lies(net):
    """Claims that are not true, one at a time, on the first or second head."""
    for index in range(min(2, len(net.network.heads))):
        claims = net.network.heads[index].claims
        step = float(np.diff(np.unique(claims.positions)).mean())
        for shift in (0.5, 1.0, -1.0, 0.01):
            yield (
                f"head {index} shifted {shift}",
                with_claims(net.network, index, positions=claims.positions + shift * step),
            )
        for factor in (0.5, 1.1, 2.0):
            yield f"head {index} scaled {factor}", with_claims(net.network, index, positions=claims.positions * factor)
            yield (
                f"head {index} sharpness {factor}",
                with_claims(net.network, index, sharpness=factor * claims.sharpness),
            )
        yield f"head {index} reversed", with_claims(net.network, index, positions=claims.positions[::-1].copy())
        yield f"head {index} roles", with_claims(net.network, index, roles=claims.roles[::-1])
        yield f"head {index} roles turned", with_claims(net.network, index, roles=claims.roles[1:] + claims.roles[:1])
        yield f"head {index} short", with_claims(net.network, index, roles=claims.roles[:-1])


@pytest.mark.parametrize("name", NETS)
def test_lies_in_the_claims_change_nothing(name):
    net = NETS[name]
    for what, network in lies(net):
        assert certify(network, net.target).bound == net.certificate.bound, what


@pytest.mark.parametrize("name", NETS)
def test_changed_weights_are_refused_or_charged(name):
    """Any single weight, changed by anything: what is still certified is still true."""
    net, seen = NETS[name], {"refused": 0, "charged": 0}
    skeleton, arrays = flatten(net.network)
    names = sorted(n for n in arrays if is_weight(n))

    @settings(max_examples=40)
    @given(
        st.sampled_from(names),
        st.integers(0, 10**6),
        st.floats(-14, 0.5),
        st.sampled_from(["by", "times", "zero", "minus"]),
    )
    def law(which, index, exponent, how):
        array = arrays[which].copy()
        old = array.flat[index % array.size]
        new = {"by": old + 10**exponent, "times": old * (1 + 10**exponent), "zero": 0.0, "minus": -old}[how]
        array.flat[index % array.size] = new
        mutant = unflatten(skeleton, {**arrays, which: array})
        try:
            bound = certify(mutant, net.target).bound
        except (af.CertificateError, af.RefusalError):
            bound = None
        seen["refused" if bound is None else "charged"] += 1
        if bound is None:  # refused, or nothing came out: then nothing is claimed
            return
        assert worst(running(net, mutant)) <= bound

    law()
    assert seen["charged"] > 0, seen


def test_a_bare_network_needs_a_target():
    with pytest.raises(af.CertificateError, match="against a target"):
        af.certify(NETS["gate"].network)


def test_a_wider_domain_is_certified_anew():
    net = NETS["truncated_linear"]
    wide = certify(net.network, net.target, af.Box(-1e6, 1e6, shape=(2,)))
    assert wide.domain == ((-1e6, 1e6),) * 2
    assert wide.parts["rounding"] > net.certificate.parts["rounding"]


@pytest.mark.parametrize("bare", [True, False])
def test_the_public_certify_honours_the_domain(bare):
    net = NETS["gate"]
    box = af.Box(-100, 100, shape=(2,))
    found = af.certify(net.network, net.target, box) if bare else af.certify(net, domain=box)
    assert found.domain == ((-100.0, 100.0),) * 2


def test_networks_without_layers_are_refused():
    with pytest.raises(af.AttnforgeError):
        certify(Network((), 1), TruncatedLinear([1.0], 0.0, -1, 1, af.Box(-1, 1)))


def test_heads_that_list_tokens_the_target_does_not_have_are_refused():
    net = af.constructions.truncated_linear([1.0], 0.0, -1, 1, anchors=4, domain=af.Box(-1.5, 1.5))
    network = replace(net.network, tokens=None)
    layer = next(layer for layer in network.layers if isinstance(layer, Attention))
    heads = tuple(replace(head, query_rows=Rows.some([0, 2])) for head in layer.heads)
    other = tuple(replace(each, heads=heads) if each is layer else each for each in network.layers)
    formula = af.compile("clamp(x, -1, 1)", {"x": (-1.5, 1.5)}, 0.1).target
    with pytest.raises(af.CertificateError, match="tokens that the target has"):
        af.certify(replace(network, layers=other), formula)
