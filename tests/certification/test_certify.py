"""The checker refuses what it cannot read, says why, and is not taken in by claims."""

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


UNREADABLE = {
    "no claims": (lambda net: with_head(net.network, claims=None), "claim"),
    "unknown claims": (lambda net: replace(net.network, construction="magic"), "the construction it claims.*magic"),
    "a softmax after": (lambda net: layers(net, Softmax()), "only the first tokens are read"),
    "a linear map after": (lambda net: layers(net, Linear((Term(np.eye(1)),))), "only the first tokens are read"),
    "a second layer": (lambda net: layers(net, net.network.layers[-1]), None),
    "two terms": (
        lambda net: replace(
            net.network,
            layers=(
                Linear((*net.network.layers[0].terms, *net.network.layers[0].terms), net.network.layers[0].constant),
                *net.network.layers[1:],
            ),
        ),
        "linear maps of one term",
    ),
    "no attention": (lambda net: replace(net.network, layers=net.network.layers[:1]), None),
    "not finite": (lambda net: with_head(net.network, output=np.array([[np.nan]])), "finite"),
}


@pytest.mark.parametrize("what", UNREADABLE)
@pytest.mark.parametrize("name", NETS)
def test_networks_it_cannot_read_are_refused_with_the_reason(name, what):
    change, match = UNREADABLE[what]
    with pytest.raises(af.AttnforgeError, match=match):
        certify(change(NETS[name]), NETS[name].target)


def test_a_residual_is_refused():
    net = af.constructions.gate([1.0], 0.0, -1, 1, outputs=2)
    encode, attention = net.network.layers
    residual = replace(net.network, layers=(encode, Attention(attention.heads, residual=True)))
    with pytest.raises(af.CertificateError, match="one layer of attention"):
        certify(residual, net.target)


def test_targets_of_another_shape_are_refused():
    net = NETS["gate"]
    for w in ([[1.0, 0.0]] * 2, [1.0, 2.0, 3.0]):
        other = TruncatedLinear(w, 0.0, -1, 2, af.Box(-1, 1))
        with pytest.raises(af.AttnforgeError, match=r"must take the target's inputs|points of shape"):
            certify(net.network, other)


def test_targets_that_are_not_truncated_linear_are_refused():
    target = Formula("x*y", af.Box([-1.0, -1.0], [1.0, 1.0]), ("x", "y"))
    with pytest.raises(af.TargetError, match="truncated linear"):
        certify(NETS["gate"].network, target)


def test_keys_that_depend_on_the_input_are_refused():
    net = af.constructions.truncated_linear([1.0], 0.0, -1, 1, anchors=8, layout="literal")
    key = net.network.heads[0].key
    with pytest.raises(af.CertificateError, match="depend on the input"):
        certify(with_head(net.network, key=changed(key, (0, 0), 1e-3)), net.target)


def test_rows_the_proof_does_not_know_are_refused():
    net = af.constructions.truncated_linear([1.0], 0.0, -1, 1, anchors=8, layout="literal")
    with pytest.raises(af.AttnforgeError):
        certify(with_head(net.network, key_rows=Rows.some(np.arange(7))), net.target)


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
def test_lies_in_the_claims_never_give_a_bound_below_the_error(name):
    net = NETS[name]
    error, outcomes = max(worst(net), af.measure(net, points=2000).sup), set()
    for what, network in lies(net):
        try:
            bound = certify(network, net.target).bound
        except (af.CertificateError, af.RefusalError):
            outcomes.add("refused")
            continue
        outcomes.add("bounded")
        assert bound >= error, what
    assert outcomes == {"refused", "bounded"}


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
            seen["refused"] += 1
            return
        seen["charged"] += 1
        assert worst(running(net, mutant)) <= bound

    law()
    assert min(seen.values()) > 0, seen


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
