"""Sums of terms: proved term by term, for any number of inputs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import attnforge as af
from attnforge.balls import machine
from attnforge.certification.enclosure.fitted import may_be_enclosed, prove_fitted
from attnforge.certification.enclosure.terms import terms_of
from attnforge.certification.statement import Statement
from attnforge.network import Attention, apply, rounded
from attnforge.targets import Formula

BOX = af.Box(0, 1, shape=(6,))
APART = " + ".join(f"sin({i + 1}*x[{i}])" for i in range(6))
RING = " + ".join(f"sin({i + 1}*x[{i}]) + x[{i}]*x[{(i + 1) % 6}]" for i in range(6))


def proved(net, **changes):
    network = replace(rounded(net.network, "float64"), **changes)
    return prove_fitted(Statement(network, net.target, net.domain, machine("float64")))


@pytest.mark.parametrize(("text", "within"), [(APART, 1.2), (RING, 2.0)])
def test_sums_of_terms_of_six_inputs(text, within):
    """Terms of their own inputs reach their worst together; terms that share inputs may not."""
    net = af.compile(text, BOX, tol=1e-6, construction="additive")
    found, measured = proved(net), af.measure(net, points=50_000, seed=1).sup
    assert found.limit is None
    assert measured <= sum(found.parts.values()) <= within * measured


def test_the_terms_add_up_to_network_and_formula():
    net = af.compile(RING, BOX, tol=1e-4, construction="additive")
    terms = terms_of(net.network, net.target, net.domain)
    x = np.random.default_rng(0).random((50, 6))
    ran = sum(apply(term.network, x[:, None, list(term.inputs)])[:, 0, 0] for term in terms)
    meant = sum(term.target.values(x[:, list(term.inputs)]) - term.constant for term in terms)
    np.testing.assert_allclose(ran, apply(net.network, x[:, None])[:, 0, 0], atol=1e-10)
    np.testing.assert_allclose(meant, net.target.values(x), atol=1e-12)


def test_a_constant_moved_from_one_head_to_another_costs_nothing():
    net = af.compile("sin(3*x) + exp(y)", {"x": (0, 1), "y": (0, 1)}, tol=1e-6, construction="additive")
    one, two = net.network.heads
    heads = replace(one, memory_values=one.memory_values + 4), replace(two, memory_values=two.memory_values - 4)
    found, moved = proved(net), proved(net, layers=(*net.network.layers[:-1], Attention(heads)))
    assert moved.parts["fit"] == pytest.approx(found.parts["fit"], rel=1e-3)


def test_a_changed_value_is_seen():
    net = af.compile(APART, BOX, tol=1e-5, construction="additive")
    heads = list(net.network.heads)
    heads[2] = replace(heads[2], memory_values=heads[2].memory_values + 1e-2)
    assert proved(net, layers=(*net.network.layers[:-1], Attention(tuple(heads)))).parts["fit"] > 9e-3


def test_a_summand_that_no_head_reads_is_refused():
    net = af.compile("sin(3*x) + exp(y)", {"x": (0, 1), "y": (0, 1)}, tol=1e-4, construction="additive")
    other = Formula("sin(3*x) + exp(y) + x*y", net.domain, ("x", "y"))
    assert terms_of(net.network, net.target, net.domain) is not None
    assert terms_of(net.network, other, net.domain) is None


def test_what_may_be_enclosed():
    assert may_be_enclosed(Formula(RING, BOX))
    assert may_be_enclosed(Formula("exp(" + "+".join(f"x[{i}]" for i in range(6)) + ")", BOX))
    assert not may_be_enclosed(Formula("*".join(f"x[{i}]" for i in range(6)), BOX))
    assert not may_be_enclosed(af.compile(lambda x: x**2, {"x": (0, 1)}, tol=1e-2).target)
