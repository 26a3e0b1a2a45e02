"""Graphs of registers: confirmed claim by claim; false claims are refuted by name, false bounds never confirmed."""

from contextlib import suppress
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from flint import arb

import attnforge as af
from attnforge.certification.certify import certify
from attnforge.certification.checker.check import check
from attnforge.certification.checker.graph import compare_claims
from attnforge.certification.checker.layout import is_graph
from attnforge.certification.checker.meaning import Meaning
from attnforge.certification.checker.registers import Step
from attnforge.certification.checker.search import exactly
from attnforge.certification.checker.space import Form
from attnforge.certification.checker.taylor import ONE, ZERO
from attnforge.effort import NORMAL
from attnforge.errors import AttnforgeError
from attnforge.network import Attention, Linear, Term, digest, head_places, rounded, with_head
from attnforge.targets import Formula, Formulas
from attnforge.targets.expression import parse
from attnforge.targets.expression.intervals import Interval
from attnforge.targets.expression.simplify import plus, times
from attnforge.targets.expression.tree import Constant, Variable
from tests.certification.heads import GRAPHS, head_at

CASES = GRAPHS | {
    "root": ("sqrt(x^2 + (y - z)^2)", dict.fromkeys("xyz", (-1, 1))),
    "several": ("[x*y*z, exp(x - y)*z, x + max(y, z)]", dict.fromkeys("xyz", (-1, 1))),
}


@cache
def built(name):
    return af.constructions.graph(*CASES[name], 1e-5)


@pytest.fixture(params=CASES)
def net(request):
    return built(request.param)


def points_of(net, count=4000):
    rng, box = np.random.default_rng(0), net.target.domain
    x = rng.uniform(box.lower, box.upper, size=(count, len(box.lower)))
    corner = np.where(rng.random(x.shape) < 0.5, box.lower, box.upper)
    return np.where(rng.random(x.shape) < 0.3, corner, x)


def measured(net, network):
    x = points_of(net)
    with np.errstate(all="ignore"):
        return float(np.abs(network(x[:, None])[:, 0] - net.target.values(x).reshape(len(x), -1)).max())


def verdict(net, network, bound=None):
    """On a certificate that says the old bound of the network as it is now."""
    bound = net.certificate.bound if bound is None else bound
    certificate = replace(net.certificate, digest=digest(network), bound=bound)
    return check(network, net.target, certificate, "float64", replace(NORMAL, cells=50))


def is_true(net, network):
    """Whether nothing false was confirmed; a bound that holds may be, and is not looked at."""
    return measured(net, network) <= net.certificate.bound or verdict(net, network).verdict != "confirmed"


def column(head):
    return int(np.flatnonzero(head.output.any(axis=0))[0])


def test_stored_bounds_are_confirmed(net):
    found = verdict(net, net.network)
    assert found.verdict == "confirmed", found.reason
    assert measured(net, net.network) <= found.outcome.reached <= net.certificate.bound


def test_bounds_below_the_error_are_refuted_or_left_open(net):
    worst = measured(net, net.network)
    assert verdict(net, net.network, 0.01 * worst).verdict == "rejected"
    assert verdict(net, net.network, 0.99 * worst).verdict in ("rejected", "undecided")


@pytest.mark.parametrize("size", [1e-6, 1e-2])
@pytest.mark.parametrize("name", ["query", "key", "value", "output", "memory_keys", "memory_values"])
def test_changed_arrays_are_never_confirmed_beyond_the_bound(net, name, size):
    rng = np.random.default_rng(int(-np.log10(size)))
    have = [each for each in head_places(net.network) if getattr(head_at(net.network, each), name) is not None]
    for place in rng.permutation(have)[:1]:
        moved = getattr(head_at(net.network, place), name).copy()
        at = tuple(rng.integers(n) for n in moved.shape)
        moved[at] += size * rng.choice([-1.0, 1.0]) * max(1.0, abs(moved[at]))
        assert is_true(net, with_head(net.network, *place, **{name: moved})), (place, at)


def test_a_head_of_other_values_is_refuted_by_name(net):
    for place in head_places(net.network):
        head = head_at(net.network, place)
        name = "value" if head.value is not None and head.value.any() else "memory_values"
        found = verdict(net, with_head(net.network, *place, **{name: 1.01 * getattr(head, name)}))
        assert found.verdict == "rejected"
        assert f"r[{column(head)}] = {head.claims.formula}"[:60] in found.reason


def test_a_false_claim_is_refuted_by_name(net):
    for place in head_places(net.network)[-2:]:
        head = head_at(net.network, place)
        for formula in (f"({head.claims.formula})*1.001", f"{head.claims.formula} + 0.01"):
            network = with_head(net.network, *place, claims=replace(head.claims, formula=formula))
            found = verdict(net, network)
            assert found.verdict == "rejected", formula
            assert f"r[{column(head)}] = " in found.reason


@pytest.mark.parametrize("formula", ["r[1]", "r[0]", "2", "r[99]", "x", "sin(", "floor(r[1])", "hypot(r[1], r[2])"])
def test_other_claims_are_not_confirmed(formula):
    net = built("exponential")
    for place in head_places(net.network):
        claims = replace(head_at(net.network, place).claims, formula=formula)
        assert verdict(net, with_head(net.network, *place, claims=claims)).verdict in ("rejected", "undecided")


def test_a_changed_read_out_or_first_layer_is_never_confirmed_beyond_the_bound(net):
    first, *middle, last = net.network.layers
    for size in (1e-8, 1e-3):
        weights = last.terms[0].map + size * np.eye(len(last.terms[0].map))[:, -1:]
        assert is_true(net, replace(net.network, layers=(first, *middle, Linear((Term(weights),)))))
        moved = Linear((Term((1 + size) * first.terms[0].map),), first.constant)
        assert is_true(net, replace(net.network, layers=(moved, *middle, last)))
        shifted = Linear(first.terms, first.constant + size)
        assert is_true(net, replace(net.network, layers=(shifted, *middle, last)))


def test_without_residuals_or_claims_it_is_no_graph(net):
    layers = [replace(x, residual=False) if isinstance(x, Attention) else x for x in net.network.layers]
    assert is_graph(net.network)
    assert not is_graph(replace(net.network, layers=tuple(layers)))
    assert not is_graph(with_head(net.network, *head_places(net.network)[0], claims=None))


@pytest.mark.parametrize("output", range(3))
def test_every_output_is_looked_at(output):
    """Its weights, its constant and its formula: changed by little more than the bound, or by much."""
    net = built("several")
    *others, last = net.network.layers
    for size in (2 * net.certificate.bound, 0.1):
        for register in (0, 1 + output, len(last.terms[0].map) - 1):
            weights = last.terms[0].map.copy()
            weights[register, output] += size
            changed = replace(net.network, layers=(*others, Linear((Term(weights),))))
            assert measured(net, changed) > net.certificate.bound
            assert verdict(net, changed).verdict in (["rejected"] if size == 0.1 else ["rejected", "undecided"])
        trees = [*net.target.trees]
        trees[output] = plus(trees[output], times(Constant(size), Variable("x")))
        target = Formulas(trees, net.target.domain, net.target.names)
        found = compare_claims(net.network, target, net.certificate.bound, "float64", 50, lambda _: None)
        assert found.verdict == "undecided"


def test_outputs_in_another_order_are_refuted():
    net = built("several")
    *others, last = net.network.layers
    turned = Linear((Term(np.roll(last.terms[0].map, 1, axis=1)),))
    assert verdict(net, replace(net.network, layers=(*others, turned))).verdict == "rejected"


@pytest.mark.parametrize("formula", ["sqrt(r[4] + r[5] - 0.001)", "sqrt(r[4] - r[5])", "sqrt(r[4])", "sqrt(r[1])"])
def test_roots_of_what_may_be_negative_are_not_confirmed(formula):
    """Beyond 0 a run may be by its errors, an exact argument never: then the formula would have no value."""
    net = built("root")
    place = head_places(net.network)[-1]
    network = with_head(net.network, *place, claims=replace(head_at(net.network, place).claims, formula=formula))
    with suppress(AttnforgeError):  # a false claim
        assert compare_claims(network, net.target, 0.01, "float64", 50, lambda _: None).verdict == "undecided"


@pytest.mark.parametrize(("low", "holds"), [(0, True), (-1, False)])
@pytest.mark.parametrize("text", ["r[1]", "sqrt(r[1])^2", "sqrt(3*r[1])^2/3"])
def test_roots_are_of_what_is_never_negative(text, low, holds):
    """sqrt(u)^2 is u where it is anything at all; it is not said to be close to a formula where that has no value."""
    with exactly(2):
        steps = [Step(parse("sqrt(r[1])")), Step(parse("r[2]^2"))]
        meaning = Meaning([Interval(arb(low), arb(1))], steps, [Form({3: ONE}, ZERO)], [parse(text)])
        assert (meaning.apart() < 1e-30) == holds


def test_errors_before_a_root_at_zero_count_by_its_modulus():
    """A square off by 1e-8 moves the root of it by 1e-4 at 0, and hardly elsewhere."""
    net = built("root")
    head = head_at(net.network, head_places(net.network)[0])
    moved = head.memory_values + 1e-8 / np.abs(head.output).max()
    network = with_head(net.network, *head_places(net.network)[0], memory_values=moved)
    x = np.zeros((1, 1, 3))
    seen = abs(float(network(x)[0, 0, 0]) - float(net.network(x)[0, 0, 0]))
    assert seen > 5e-5
    assert verdict(net, network, 0.5 * seen).verdict != "confirmed"
    assert verdict(net, network, 3e-4).verdict == "confirmed"


@pytest.mark.parametrize("place", range(3))
def test_the_formulas_put_together_must_be_the_target(place):
    net = built("exponential")
    text = ("x*exp(-y^2 - z) + 1e-5*x", "x*exp(-y^2 - 1.00001*z)", "x*exp(-y^2 - z)*(1 + 1e-5*y^4)")[place]
    target = Formula(text, net.target.domain, net.target.names)
    found = compare_claims(net.network, target, net.certificate.bound, "float64", 50, lambda _: None)
    assert found.verdict == "undecided"


def test_a_kink_in_a_corner_is_not_overlooked():
    net = af.constructions.graph("x*y*z + (x + y + z - 0.05)", dict.fromkeys("xyz", (0, 1)), 1e-6)
    target = Formula("x*y*z + relu(x + y + z - 0.05)", net.target.domain, net.target.names)  # 0.05 apart at 0, 0, 0
    found = compare_claims(net.network, target, net.certificate.bound, "float64", 50, lambda _: None)
    assert found.verdict == "undecided"


def test_rounded_coefficients_of_the_target_are_charged():
    net = built("exponential")
    target = Formula("x*exp(-y^2 - z)*1.0000001", net.target.domain, net.target.names)
    bound = net.certificate.bound + 1e-7 * np.exp(1.0)
    assert compare_claims(net.network, target, 1.01 * bound, "float64", 50, lambda _: None).verdict == "confirmed"
    assert compare_claims(net.network, target, 0.9 * bound, "float64", 50, lambda _: None).verdict == "undecided"


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_bounds_of_other_dtypes_hold(dtype):
    net = built("exponential")
    bound = certify(net.network, net.target, dtype=dtype).bound
    found = compare_claims(rounded(net.network, dtype), net.target, 3 * bound, dtype, 50, lambda _: None)
    assert found.verdict == "confirmed"
    assert measured(net, rounded(net.network, dtype)) <= found.reached <= 3 * bound


def test_auto_chooses_a_graph_that_is_confirmed():
    net = af.compile("x*y*exp(-z^2)", dict.fromkeys("xyz", (-1, 1)), tol=1e-6)
    assert is_graph(net.network)
    assert check(net.network, net.target, net.certificate, "float64").verdict == "confirmed"
