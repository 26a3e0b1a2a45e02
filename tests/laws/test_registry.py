"""The registry walked through the laws: every construction on its own case, and a toy one that is added here."""

from __future__ import annotations

import math
from dataclasses import fields, replace
from functools import cache

import numpy as np
import pytest

import attnforge as af
from attnforge.network import Attention, Head, Network, digest
from attnforge.targets import Box, Formula
from attnforge.targets.expression.tree import Variable
from attnforge.theorems import registry
from attnforge.theorems.construction import Construction, Cost, Documentation, Law

POINTS = 4000
FASTER = 2.0  # a measured order beyond this counts as faster than any power between two tolerances


class Identity(Construction[float]):
    """A toy: two keys of scores +-s x and values +-1/s compute tanh(s x)/s, within s^2/3 of x on [-1, 1]."""

    name = "toy"
    function_class = "the identity on [-1, 1]"
    rate = "exact"
    conditions = "s to zero"
    reference = "this test"
    documentation = Documentation("none", "none", "s^2/3", "1", "2", "1", 'af.compile("x", {"x": (-1, 1)})')
    law = Law(
        target=lambda: Formula("x", Box([-1], [1])),
        refused=lambda: Formula("2*x", Box([-1], [1])),
        tols=(1e-2, 1e-4),
        order=math.inf,
    )

    def accepts(self, target):
        plain = isinstance(target, Formula) and isinstance(target.tree, Variable)
        return (
            None
            if plain and (target.domain.lower, target.domain.upper) == (-1, 1)
            else "the target is not x on [-1, 1]"
        )

    def size(self, target, tol, dtype):
        return math.sqrt(2 * tol)

    def cost(self, target, plan):
        return Cost.of(2, 6)

    def build(self, target, plan):
        keys = np.array([[-1.0], [1.0]])
        head = Head(np.array([[plan]]), np.eye(1), memory_keys=keys, memory_values=keys / plan)
        return Network((Attention((head,)),), 1, 1)

    def bound(self, target, plan):
        return {"spacing": plan**2 / 3}


TOY = Identity()
ALL = {entry.name: entry for entry in (*registry.CONSTRUCTIONS, TOY)}


@pytest.fixture(autouse=True)
def toy_is_registered(monkeypatch):
    monkeypatch.setattr(registry, "STAGES", ((TOY,), *registry.STAGES))


@cache
def built(name: str, at: int) -> af.Compiled:
    case = ALL[name].law
    return af.compile(case.target(), tol=case.tols[at], construction=name, effort="low")


@pytest.mark.parametrize("name", ALL)
def test_a_record_is_complete(name):
    entry = ALL[name]
    assert registry.construction(name) is entry
    texts = [entry.function_class, entry.rate, entry.conditions, entry.reference]
    texts += [getattr(entry.documentation, field.name) for field in fields(entry.documentation)]
    assert all(isinstance(text, str) and text for text in texts)


@pytest.mark.parametrize("name", ALL)
def test_measured_errors_stay_below_the_bound_and_the_tolerance(name):
    net = built(name, 0)
    error = af.measure(net, points=POINTS, seed=7, effort="low").sup
    assert error <= ALL[name].law.tols[0]
    assert net.certificate.bound is None or error <= net.certificate.bound


@pytest.mark.parametrize("name", ALL)
def test_the_law_of_bounds_can_fail(name):
    """The mutation: outputs twice as large as they should be are seen."""
    net = built(name, 0)
    layers = list(net.network.layers)
    last = layers[-1]
    if isinstance(last, Attention):
        layers[-1] = replace(last, heads=tuple(replace(head, output=2 * head.output) for head in last.heads))
    else:
        layers[-1] = replace(last, terms=tuple(replace(term, map=2 * term.map) for term in last.terms))
    other = replace(net, network=replace(net.network, layers=tuple(layers)))
    assert af.measure(other, points=POINTS, effort="low").sup > ALL[name].law.tols[0]


@pytest.mark.parametrize("name", ALL)
def test_the_error_falls_with_the_keys_as_stated(name):
    order = ALL[name].law.order
    coarse, fine = built(name, 0), built(name, 1)
    errors = [max(af.measure(net, points=POINTS, effort="low").sup, 1e-300) for net in (coarse, fine)]
    assert errors[1] <= ALL[name].law.tols[1]
    if fine.anchors == coarse.anchors:
        assert order == math.inf
        return
    found = math.log(errors[0] / errors[1]) / math.log(fine.anchors / coarse.anchors)
    assert found > FASTER if order == math.inf else found == pytest.approx(order, rel=0.2)


@pytest.mark.parametrize("name", ALL)
def test_two_builds_are_the_same_and_cost_what_was_estimated(name):
    entry, target = ALL[name], ALL[name].law.target()
    plan = entry.size(target, entry.law.tols[0], "float64")
    first, second = (entry.build(target, plan) for _ in range(2))
    assert digest(first) == digest(second)
    keys = replace(built(name, 0), network=first).anchors
    assert keys <= entry.cost(target, plan).anchors <= 2 * keys


@pytest.mark.parametrize("name", ALL)
def test_saved_and_loaded_it_gives_the_same_numbers(name, tmp_path):
    net = built(name, 0)
    net.save(tmp_path / "net.safetensors")
    loaded = af.load(tmp_path / "net.safetensors")
    box = net.domain
    points = np.random.default_rng(0).uniform(box.lower, box.upper, size=(50, *box.shape))
    assert np.array_equal(loaded.at_points(points), net.at_points(points))
    assert loaded.certificate == net.certificate


@pytest.mark.parametrize("name", ALL)
def test_what_it_is_not_made_for_is_refused_with_a_reason(name):
    assert ALL[name].accepts(ALL[name].law.target()) is None
    reason = ALL[name].accepts(ALL[name].law.refused())
    assert isinstance(reason, str)
    assert len(reason) > 10
    with pytest.raises(af.RefusalError):
        af.compile(ALL[name].law.refused(), tol=0.1, construction=name)


def test_auto_takes_the_toy_for_what_it_is_made_for():
    assert af.compile("x", {"x": (-1, 1)}, tol=1e-2).construction == "toy"
    assert af.compile("x", {"x": (-1, 2)}, tol=1e-2).construction == "gate"
