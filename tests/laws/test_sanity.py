"""Certificates add up, shrink with size, and notice what was changed."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest

import attnforge as af
from attnforge.targets import TruncatedLinear
from tests.laws.cases import DTYPES, SMALL, changed, running, with_head, worst

BOX = af.Box(-2, 2)


@pytest.mark.parametrize("dtype", DTYPES[:2])
@pytest.mark.parametrize("name", SMALL)
def test_parts_add_up_to_the_bound(name, dtype):
    certificate = SMALL[name](dtype=dtype).certificate
    assert set(certificate.parts) == {"spacing", "leakage", "rounding"}
    assert all(part >= 0 for part in certificate.parts.values())
    total = math.fsum(certificate.parts.values())
    assert total <= certificate.bound <= total * (1 + 1e-14)
    assert certificate.estimate.error <= certificate.bound


@pytest.mark.parametrize("sharpness", ["hard", "tuned"])
def test_doubling_anchors_halves_the_bound(sharpness):
    bounds = [
        af.constructions.truncated_linear([1.0], 0.0, -1, 1, anchors=p, sharpness=sharpness, domain=BOX)
        for p in (5, 9, 17, 33, 65)
    ]
    bounds = [net.certificate.bound for net in bounds]
    ratios = np.array(bounds[:-1]) / bounds[1:]
    assert np.allclose(ratios, 2.0, rtol=1e-6)


def test_more_heads_shrink_the_bound():
    bounds = [
        af.constructions.multihead_truncated_linear([1.0], 0.0, -1, 1, tokens=12, heads=n, domain=BOX).certificate.bound
        for n in (1, 2, 4, 8)
    ]
    assert all(after < 0.6 * before for before, after in itertools.pairwise(bounds))


def test_a_sharper_gate_has_a_smaller_bound():
    bounds = [af.constructions.gate([1.0], 0.0, -1, 1, sharpness=b).certificate.bound for b in (1e2, 1e4, 1e6)]
    assert bounds[0] > 50 * bounds[1] > 2500 * bounds[2]


@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize("interval", [(-1.0, 1.7), (-0.8, 2.0), (-1.3, 2.3)])
def test_another_interval_is_refused_or_charged(name, interval):
    """The mutation "certificate computed for another interval": no bound below the true error."""
    net = SMALL[name]()
    other = TruncatedLinear(net.target.w, net.target.t, *interval, net.target.domain)
    error = worst(type(net)(net.network, other, net.certificate, net.construction, net.dtype))
    assert error > net.certificate.bound
    try:
        bound = af.certify(net.network, other).bound
    except af.RefusalError:
        return
    except af.CertificateError as refusal:
        if "defect" in str(refusal):
            raise
        return
    assert bound >= error


@pytest.mark.parametrize("part", ["value", "query", "encode", "constant"])
@pytest.mark.parametrize("name", SMALL)
def test_a_perturbed_weight_is_refused_or_charged(name, part):
    """One weight off by more than the slack: the old bound breaks, the recomputed one does not."""
    net = SMALL[name]()
    network, head, by = net.network, net.network.heads[0], 0.3
    if part == "value" and head.memory_values is not None:
        at = len(head.memory_values) // 2
        mutant = with_head(network, memory_values=changed(head.memory_values, (at, 0), head.memory_values[at, 0] + by))
    elif part == "query":
        mutant = with_head(network, query=changed(head.query, (0, 0), 0.7 * head.query[0, 0]))
    else:
        first = network.layers[0]
        term = first.terms[0]
        if part == "encode":
            broken = type(term)(changed(term.map, (0, 0), 1.2 * term.map[0, 0]), term.mix)
            layer = type(first)((broken,), first.constant)
        else:
            layer = type(first)(first.terms, changed(first.constant, (0, 0), first.constant[0, 0] + 0.6))
        mutant = replace(network, layers=(layer, *network.layers[1:]))
    error = worst(running(net, mutant))
    if not (name == "gate" and part == "query"):  # a gate 0.7 times as sharp on one side is still nearly exact
        assert error > net.certificate.bound
    try:
        bound = af.certify(mutant, net.target).bound
    except af.RefusalError:
        return
    except af.CertificateError as refusal:
        if "defect" in str(refusal):
            raise
        return
    assert bound >= error


@pytest.mark.parametrize(("tokens", "sentinels"), [(5, 2), (8, 3)])
def test_fewer_own_anchors_than_sentinels(tokens, sentinels):
    """Sentinels that reach past a neighbouring head: built right, or refused; never a wrong network."""
    try:
        net = af.constructions.multihead_truncated_linear(
            [1.0], 0.0, -1, 2, tokens=tokens, heads=4, sentinels=sentinels
        )
    except af.RefusalError:
        return
    assert worst(net) <= net.certificate.bound


def test_sentinels_of_a_single_head_are_refused_or_charged():
    net = af.constructions.multihead_truncated_linear([1.0], 0.0, -1, 2, tokens=12, heads=1)
    head = net.network.heads[0]
    ghosts = np.array(head.claims.roles) == "ghost"
    roles = tuple("sentinel" if ghost else role for ghost, role in zip(ghosts, head.claims.roles, strict=True))
    claims = type(head.claims)(head.claims.construction, head.claims.sharpness, head.claims.positions, roles)
    mutant = with_head(net.network, memory_values=np.where(ghosts[:, None], 0.0, head.memory_values), claims=claims)
    error = worst(running(net, mutant))
    assert error > net.certificate.bound
    try:
        bound = af.certify(mutant, net.target).bound
    except af.RefusalError:
        return
    except af.CertificateError as refusal:
        if "defect" in str(refusal):
            raise
        return
    assert bound >= error


def test_a_gate_that_writes_elsewhere_is_refused_or_charged():
    net = af.constructions.gate([1.0], 0.0, -1, 2, output=0, outputs=2)
    mutant = with_head(net.network, output=np.array([[1.0, 0.5]]))
    try:
        bound = af.certify(mutant, net.target).bound
    except af.RefusalError:
        return
    except af.CertificateError as refusal:
        if "defect" in str(refusal):
            raise
        return
    assert bound >= 1.0


@pytest.mark.parametrize(
    "w",
    [
        0.0,
        1e-300,
        1e-12,
    ],
)
@pytest.mark.parametrize("name", SMALL)
def test_a_form_that_hardly_varies_is_certified_without_warnings(name, w):
    build = {
        "truncated_linear": lambda: af.constructions.truncated_linear([w], 0.3, -10, 20, anchors=8),
        "multihead_truncated_linear": lambda: af.constructions.multihead_truncated_linear(
            [w], 0.3, -10, 20, tokens=10, heads=2
        ),
        "gate": lambda: af.constructions.gate([w], 0.3, -10, 20),
    }
    net = build[name]()
    assert worst(net) <= net.certificate.bound
