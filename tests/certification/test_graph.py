"""Graphs of registers: proofs hold for whatever the numbers are, claims are re-established or refused."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import attnforge as af
from attnforge.balls import machine
from attnforge.certification.certify import certify
from attnforge.certification.graph.prove import prove_graph
from attnforge.certification.statement import Statement
from attnforge.effort import EFFORTS
from attnforge.network import Attention, Linear, Term, head_places, with_head
from tests.certification.heads import GRAPHS, head_at

CASES = GRAPHS | {
    "silu": ("silu(x + 2*y)*z", dict.fromkeys("xyz", (-1, 1))),
    "root": ("sqrt((x - y)^2 + z^2)", dict.fromkeys("xyz", (-1, 1))),
    "cancelling": ("(x + y)*(x - y) - x^2 + y^2 + z*x", dict.fromkeys("xyz", (-1, 1))),
}


@pytest.fixture(scope="module", params=CASES)
def net(request):
    text, domain = CASES[request.param]
    return af.constructions.graph(text, domain, 1e-5)


def error(net, network, count=4000, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.uniform(net.target.domain.lower, net.target.domain.upper, size=(count, network.features))
    ends = rng.random(x.shape) < 0.3
    x = np.where(ends, np.where(rng.random(x.shape) < 0.5, net.target.domain.lower, net.target.domain.upper), x)
    x[: count // 8] = np.clip(x[: count // 8, :1], net.target.domain.lower, net.target.domain.upper)  # a diagonal
    x[0] = (net.target.domain.lower + net.target.domain.upper) / 2
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
    places = [each for each in head_places(net.network) if getattr(head_at(net.network, each), name) is not None]
    for place in rng.permutation(places)[:2]:
        moved = getattr(head_at(net.network, place), name).copy()
        at = tuple(rng.integers(n) for n in moved.shape)
        moved[at] += size * rng.choice([-1.0, 1.0]) * max(1.0, abs(moved[at]))
        assert judged(net, with_head(net.network, *place, **{name: moved})), (place, at)


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
    for place in head_places(net.network)[-2:]:
        head = head_at(net.network, place)
        for formula in (
            f"({head.claims.formula})*1.001",
            f"{head.claims.formula} + 0.01",
            "r[1]",
            "r[0]",
            "sin(",
            "r[99]",
        ):
            network = with_head(net.network, *place, claims=replace(head.claims, formula=formula))
            assert judged(net, network), formula


def test_without_residuals_or_claims(net):
    layers = tuple(
        replace(layer, residual=False) if isinstance(layer, Attention) else layer for layer in net.network.layers
    )
    assert judged(net, replace(net.network, layers=layers))
    place = head_places(net.network)[0]
    assert judged(net, with_head(net.network, *place, claims=None))


@pytest.mark.parametrize(("factor", "right"), [(1, True), (2, False)])
def test_two_heads_on_one_column_are_right_where_all_read_them_alike(factor, right):
    net = af.constructions.graph(f"(x*y + {factor}*sin(z))*z", dict.fromkeys("xyz", (-1, 1)), 1e-4)
    place = head_places(net.network)[0]
    other = net.network.layers[place[0]].heads[1 - place[1]]
    network = with_head(net.network, *place, output=other.output)
    if right:
        assert error(net, network) <= certify(network, net.target).bound <= 1e-4
    else:
        assert error(net, network) >= 0.5
        with pytest.raises(af.RefusalError, match=r"r\[\d\] without bounds"):
            certify(network, net.target)


def test_another_target_is_refused():
    net = af.constructions.graph("x*y*z", dict.fromkeys("xyz", (-1, 1)), 1e-4)
    other = af.constructions.graph("x*y*z + x^2", dict.fromkeys("xyz", (-1, 1)), 1e-4)
    certificate = certify(net.network, other.target)
    assert certificate.bound >= 1.0


def test_what_roots_read_is_charged_by_its_modulus_of_continuity():
    net = af.constructions.graph(*CASES["root"], 1e-5)
    place = next(each for each in head_places(net.network) if "^2" in head_at(net.network, each).claims.formula)
    for moved in (1e-8, 1e-6, 1e-4):
        network = with_head(net.network, *place, memory_values=head_at(net.network, place).memory_values + moved)
        off = error(net, network)
        assert off > 0.5 * np.sqrt(moved)
        assert off <= certify(network, net.target).bound <= 4 * np.sqrt(moved)


@pytest.mark.parametrize("activation", [torch.nn.Tanh, torch.nn.GELU, torch.nn.SiLU])
def test_a_unit_of_a_network_is_one_register_whatever_reads_it(activation):
    torch.manual_seed(0)
    linear = torch.nn.Linear
    given = torch.nn.Sequential(linear(3, 6), activation(), linear(6, 6), activation(), linear(6, 1)).double()
    net = af.compile(given, af.Box([-1.0] * 3, [1.0] * 3), tol=1e-6, construction="graph")
    assert net.heads == 12
    assert net.certificate.status == "proved"
    assert net.certificate.bound <= 1e-6
    points = 2 * torch.rand(2000, 3, dtype=torch.float64) - 1
    assert (net(points).reshape(-1) - given(points)[:, 0]).abs().max() <= net.certificate.bound


def test_a_logistic_head_of_other_numbers_gets_a_larger_bound_that_holds():
    net = af.constructions.graph("tanh(x + 2*y) + sigmoid(z - x)", dict.fromkeys("xyz", (-1, 1)), 1e-6)
    for place, size in ((0, 1e-3), (0, -0.3), (1, 0.1)):
        first, attention, last = net.network.layers
        head = attention.heads[0]
        moved = replace(head, memory_values=head.memory_values + size * np.eye(2)[:, [place]], query=head.query * 1.01)
        changed = replace(net.network, layers=(first, replace(attention, heads=(moved, *attention.heads[1:])), last))
        bound = certify(changed, net.target).bound
        assert abs(size) / 2 <= error(net, changed) <= bound <= 1


def test_a_formula_without_values_on_a_part_of_the_domain_is_refused():
    with pytest.raises(af.TargetError, match="no finite value at"):
        af.compile("asin(x + y)", {"x": (0, 1), "y": (0, 1)}, 1e-3, construction="graph")


def test_where_it_is_not_known_that_there_are_values_the_certificate_says_so():
    around = af.compile("sqrt(x^2 + y^2 - 2*x*y*cos(z))", {"x": (1, 2), "y": (1, 2), "z": (0, 3)}, 1e-3)
    assert any("has values where x^2 + y^2 - 2*x*y*cos(z) >= 0" in text for text in around.certificate.assumptions)
    assert around.certificate.status == "conditional"
    plain = af.compile("hypot(x - y, z)", dict.fromkeys("xyz", (0, 1)), 1e-3)
    assert not any("has values where" in text for text in plain.certificate.assumptions)
    assert plain.certificate.status == "proved"


def test_claims_that_part_of_the_domain_has_no_value_of_are_refused():
    """The square of a root is x only where x is not negative: nothing is known of the head elsewhere."""
    net = af.constructions.graph("x*y + z", dict.fromkeys("xyz", (-1, 1)), 1e-4)
    claims = head_at(net.network, (1, 0)).claims
    network = with_head(net.network, 1, 0, claims=replace(claims, formula=f"sqrt(r[1])^2 - r[1] + {claims.formula}"))
    with pytest.raises(af.AttnforgeError, match="whole domain has values of"):
        prove_graph(Statement(network, net.target, net.target.domain, machine("float64")))


@pytest.mark.parametrize("text", ["sqrt(abs(u))*v", "log(1 + max(u, -v))*v", "sqrt(relu(u) + min(v, 2))*u"])
def test_kinks_that_the_domain_does_not_reach_need_no_gate(text):
    net = af.compile(text, {"u": (0, 1), "v": (0, 1)}, 1e-3, construction="graph", require="proved")
    assert net.certificate.bound <= 1e-3
