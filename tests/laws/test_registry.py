"""The registry walked through: every construction on its own case, and a toy one that is added here in one record."""

from __future__ import annotations

import math
from dataclasses import fields, replace
from functools import cache

import numpy as np
import pytest

import attnforge as af
from attnforge.network import Attention, Head, Network, digest
from attnforge.theorems import registry
from attnforge.theorems.construction import Construction, Cost, Documentation, Law
from tests.laws.test_bounds import doubled

POINTS = 4000
FASTER = 2.0  # a measured order beyond this counts as faster than any power between two tolerances


def line(text="x", ends=(-1, 1)):
    return af.formula(text, names=None).on(af.Box([ends[0]], [ends[1]]))


class Identity(Construction[float]):
    """A toy: two keys of scores +-s x and values +-1/s compute tanh(s x)/s, within s^2/3 of x on [-1, 1]."""

    name = "toy"
    function_class = "the identity on [-1, 1]"
    rate = "exact"
    conditions = "s to zero"
    reference = "this test"
    documentation = Documentation("none", "none", "s^2/3", "1", "2", "1", 'af.compile("x", {"x": (-1, 1)})')
    law = Law(target=line, refused=lambda: line("2*x"), tols=(1e-2, 1e-4), order=math.inf)

    def accepts(self, target):
        plain = target.describe() == "x" and (target.domain.lower, target.domain.upper) == (-1, 1)
        return None if plain else "the target is not x on [-1, 1]"

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


def error_of(net: af.Compiled) -> float:
    return max(af.measure(net, points=POINTS, seed=7, effort="low").sup, 1e-300)


@pytest.mark.parametrize("name", ALL)
def test_a_record_is_complete_and_refuses_with_a_reason(name):
    entry = ALL[name]
    assert registry.construction(name) is entry
    texts = [entry.function_class, entry.rate, entry.conditions, entry.reference]
    texts += [getattr(entry.documentation, field.name) for field in fields(entry.documentation)]
    assert all(isinstance(text, str) and text for text in texts)
    assert entry.accepts(entry.law.target()) is None
    assert len(entry.accepts(entry.law.refused())) > 10
    with pytest.raises(af.RefusalError):
        af.compile(entry.law.refused(), tol=0.1, construction=name)


@pytest.mark.parametrize("name", ALL)
def test_tolerances_are_kept_and_the_error_falls_with_the_keys_as_stated(name):
    law = ALL[name].law
    coarse, fine = built(name, 0), built(name, 1)
    for net, tol in zip((coarse, fine), law.tols, strict=True):
        assert error_of(net) <= tol
        assert net.certificate.bound is None or error_of(net) <= net.certificate.bound
    assert error_of(doubled(coarse)) > law.tols[0], "and twice the outputs are seen"
    if fine.anchors == coarse.anchors:
        assert law.order == math.inf
        return
    found = math.log(error_of(coarse) / error_of(fine)) / math.log(fine.anchors / coarse.anchors)
    assert found > FASTER if law.order == math.inf else found == pytest.approx(law.order, rel=0.2)


@pytest.mark.parametrize("name", ALL)
def test_two_builds_are_the_same_and_cost_what_was_estimated(name):
    entry, target = ALL[name], ALL[name].law.target()
    plan = entry.size(target, entry.law.tols[0], "float64")
    first, second = (entry.build(target, plan) for _ in range(2))
    assert digest(first) == digest(second)
    keys = replace(built(name, 0), network=first).anchors
    assert keys <= entry.cost(target, plan).anchors <= 2 * keys


def test_auto_takes_the_toy_for_what_it_is_made_for(tmp_path):
    net = af.compile("x", {"x": (-1, 1)}, tol=1e-2)
    assert net.construction == "toy"
    net.save(tmp_path / "net")
    assert af.load(tmp_path / "net").certificate == net.certificate
    assert af.compile("x", {"x": (-1, 2)}, tol=1e-2).construction == "gate"
