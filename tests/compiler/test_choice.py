"""Which construction is tried first, which is taken, and what is said about it."""

from __future__ import annotations

import re
from types import SimpleNamespace

import numpy as np
import pytest

import attnforge as af
from attnforge.compiler.choice import candidates
from attnforge.compiler.targets import as_target
from attnforge.errors import RefusalError
from attnforge.theorems import registry
from attnforge.theorems.construction import Cost
from attnforge.theorems.registry import CONSTRUCTIONS, STAGES

LINE = {"x": (-1, 1)}


class Fake:
    """A construction that only has a price."""

    def __init__(self, name, size, fitted=False, reason=None, error=None):
        self.name, self._bytes, self.fitted, self._reason, self._error = name, size, fitted, reason, error
        self.sized = 0

    def accepts(self, target):
        return self._reason

    offers = accepts

    def size(self, target, tol, dtype):
        self.sized += 1
        if self._error:
            raise self._error
        return SimpleNamespace(name=self.name)

    def cost(self, target, plan):
        return Cost(1, 1, self._bytes)


def order(monkeypatch, *stages, target=None, named=None):
    monkeypatch.setattr(registry, "STAGES", stages)
    refusals = {}
    wanted = target or as_target("sin(x)", LINE)
    return [entry.name for entry, _ in candidates(wanted, 1e-3, "float64", refusals, named)], refusals


def test_stage_by_stage_and_the_fewest_bytes_first(monkeypatch):
    first, second = (Fake("large", 200), Fake("small", 100)), (Fake("tiny", 1),)
    assert order(monkeypatch, first, second)[0] == ["small", "large", "tiny"]


@pytest.mark.parametrize(("fit", "first"), [(49, "fit"), (51, "closed"), (100, "closed")])
def test_a_closed_form_is_preferred_to_a_fit_of_no_less_than_half_its_bytes(monkeypatch, fit, first):
    stage = (Fake("fit", fit, fitted=True), Fake("closed", 100))
    assert order(monkeypatch, stage)[0][0] == first


def test_a_later_stage_is_sized_only_when_it_is_asked_for(monkeypatch):
    early, late = Fake("early", 1), Fake("late", 1)
    monkeypatch.setattr(registry, "STAGES", ((early,), (late,)))
    next(candidates(as_target("sin(x)", LINE), 1e-3, "float64", {}))
    assert (early.sized, late.sized) == (1, 0)


def test_every_refusal_is_noted(monkeypatch):
    stage = (Fake("picky", 1, reason="not mine"), Fake("failing", 1, error=RefusalError("Too much")), Fake("fine", 1))
    names, refusals = order(monkeypatch, stage)
    assert names == ["fine"]
    assert set(refusals) == {"picky", "failing"}
    assert refusals["picky"] == "not mine"
    assert "Too much" in refusals["failing"]


def test_a_stated_lipschitz_constant_reverses_the_stages(monkeypatch):
    stages = ((Fake("gadget", 1),), (Fake("fitted", 1),), (Fake("hard", 1),))
    stated = as_target(np.sin, LINE, lipschitz=1.0)
    assert order(monkeypatch, *stages, target=stated)[0] == ["hard", "fitted", "gadget"]
    assert order(monkeypatch, *stages, target=as_target(np.sin, LINE))[0] == ["gadget", "fitted", "hard"]


def test_a_named_construction_is_the_only_one(monkeypatch):
    named = Fake("named", 10**9)
    assert order(monkeypatch, (Fake("other", 1),), named=named)[0] == ["named"]


def test_gadgets_come_before_fits_and_fits_before_hard_cells():
    stage = {entry.name: i for i, row in enumerate(STAGES) for entry in row}
    assert stage["gate"] < stage["ridge"] <= stage["additive"] < stage["polynomial"] == stage["tensor_grid"]
    assert stage["tensor_grid"] < stage["max_affine"]


@pytest.mark.parametrize(
    ("text", "domain", "taken"),
    [
        ("clamp(x, -1/2, 1/2)", LINE, "gate"),
        ("sin(x + 2*y)", {"x": (-1, 1), "y": (-1, 1)}, "ridge"),
        ("sin(5*x) + exp(y)", {"x": (-1, 1), "y": (-1, 1)}, "additive"),
        ("x^3 - x", LINE, "polynomial"),
        ("sin(8*x)", LINE, "tensor_grid"),
    ],
)
def test_what_is_taken(text, domain, taken):
    net = af.compile(text, domain, 1e-6)
    assert net.construction == taken
    assert net.certificate.estimate.error <= 1e-6


def test_a_callable_is_only_sampled():
    net = af.compile(lambda x: np.sin(8 * x), LINE, 1e-6)
    assert (net.construction, net.certificate.status, net.certificate.bound) == ("tensor_grid", "sampled", None)


def test_a_lipschitz_constant_gives_a_conditional_bound():
    net = af.compile(lambda x: np.sin(3 * x), LINE, 2e-2, lipschitz=3.0)
    assert net.construction == "max_affine"
    assert net.certificate.status == "conditional"
    assert net.certificate.bound <= 2e-2


def test_a_refusal_lists_every_construction():
    noise = np.random.default_rng(0)

    def rough(x):
        return noise.normal(size=x.shape)

    with pytest.raises(RefusalError, match="No construction reached") as caught:
        af.compile(rough, LINE, 1e-6)
    for entry in CONSTRUCTIONS:
        assert re.search(rf"\b{entry.name}\b", str(caught.value)), entry.name


@pytest.mark.parametrize("text", ["sin(8*x)", "x^3 - x", "clamp(x, -1/2, 1/2)"])
def test_the_reason_is_reported_and_survives_a_file(text, tmp_path):
    net = af.compile(text, LINE, 1e-4)
    assert len(net.reason) > 20
    assert net.reason != "asked for by name"
    assert net.reason in net.report()
    net.save(tmp_path / "net.safetensors")
    assert af.load(tmp_path / "net.safetensors").reason == net.reason


def test_what_hard_selection_would_need_follows_from_slope_and_tol():
    """A slope of 8 on an interval of length 2 takes 2 * 8 / (2 tol) cells."""
    reason = af.compile("sin(8*x)", LINE, 1e-4).reason
    assert "sampled values would need about 8e+04 anchors hard" in reason
