"""Time limits by a clock that counts its looks: all work ends soon after the last one, and there is little between two.

Seconds of this clock are looks at it, so that the laws hold on any machine; the seconds themselves are measured by
``benchmarks/timeouts.py``. Work is counted in calls of what takes long: decompositions, steps of a graph, cells.
"""

from __future__ import annotations

import contextlib
import importlib
import itertools
import sys
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
import torch

import attnforge as af
from attnforge import effort
from tests.catalogue import network as catalogued
from tests.clock import Clock

AFTER = 60  # looks after the end: every construction that is left to be tried looks once, a search a few times


class Counting(Clock):
    """A second passes at every look; ``stretches`` are calls of what is counted between two looks."""

    def __init__(self) -> None:
        super().__init__(tick=1.0)
        self.work, self.stretches = 0, list[int]()

    def look(self) -> float:
        """The time: how often it was asked for."""
        self.stretches.append(self.work)
        self.work = 0
        return super().look()

    @property
    def longest(self) -> int:
        """The most work between two looks, or after the last."""
        return max([*self.stretches, self.work])


def gelu(*widths: int) -> torch.nn.Sequential:
    torch.manual_seed(0)
    layers = [torch.nn.Linear(n, m) for n, m in itertools.pairwise(widths)]
    return torch.nn.Sequential(*[part for layer in layers for part in (layer, torch.nn.GELU())][:-1]).double()


def wave(limit: float) -> object:
    return af.compile("sin(40*x)", {"x": (-1, 1)}, 1e-10, construction="tensor_grid", timeout=limit)


def network(limit: float) -> object:
    return af.compile(gelu(2, 4, 4, 1), [(-1, 1)] * 2, 1e-3, timeout=limit)


def table(limit: float) -> object:
    rng = np.random.default_rng(0)
    return af.compile((rng.uniform(-1, 1, (300, 2)), rng.normal(size=300)), None, 1e-6, timeout=limit)


def checked(limit: float) -> object:
    return af.check(PATHS["gelu"], timeout=limit)


PATHS: dict[str, str] = {}


@pytest.fixture(scope="module", autouse=True)
def _saved(tmp_path_factory: pytest.TempPathFactory) -> None:
    PATHS["gelu"] = str(tmp_path_factory.mktemp("limits") / "gelu.safetensors")
    af.compile(gelu(2, 4, 4, 1), [(-1, 1)] * 2, 1e-3, effort="low").save(PATHS["gelu"])


@dataclass(frozen=True)
class Law:
    """At most ``most`` calls of what is ``counted`` between two looks; looks of ``muted`` modules see to that."""

    call: Callable[[float], object]
    limit: int
    counted: str
    most: int
    muted: tuple[str, ...]


LAWS = {
    "fits along an axis": Law(wave, 60, "numpy.linalg:svd", 1, ("anchors.fitting", "anchors.rows")),
    "fits of a table": Law(table, 60, "attnforge.anchors.scattered:cho_factor", 2, ("anchors.scattered",)),
    "nodes taken apart": Law(
        network, 60, "attnforge.theorems.graph.decomposition:_Work._visit", 1, ("theorems.graph.decomposition",)
    ),
    "steps of a graph": Law(network, 400, "attnforge.targets.graph:_slope", 1, ("targets.graph",)),
    "ranges of a check": Law(
        checked,
        60,
        "attnforge.certification.checker.registers:Registers._bounded",
        3,
        ("certification.checker.registers",),
    ),
}


def timed(law: Law, patch: pytest.MonkeyPatch, muted: bool = False) -> Counting:
    """The clock after the call: what it returned, or that it was out of time, does not matter."""
    clock = Counting()
    Clock().install(patch)
    clock.install(patch, "effort")
    module, _, name = law.counted.partition(":")
    owner = importlib.import_module(module)
    for part in name.split(".")[:-1]:
        owner = getattr(owner, part)
    counted = getattr(owner, name.split(".")[-1])

    def counting(*given: object, **named: object) -> object:
        clock.work += 1
        return counted(*given, **named)

    patch.setattr(owner, name.split(".")[-1], counting)
    if muted:
        for each in law.muted:
            patch.setattr(f"attnforge.{each}.check_time", lambda *_: None)
    with contextlib.suppress(af.RefusalError):
        law.call(law.limit)
    return clock


@pytest.mark.parametrize("name", LAWS)
def test_work_ends_soon_after_the_end_with_little_between_two_looks(name, monkeypatch):
    law = LAWS[name]
    clock = timed(law, monkeypatch)
    assert clock.looks <= law.limit + AFTER
    assert 0 < clock.longest <= law.most
    assert sum(clock.stretches) + clock.work > law.most


@pytest.mark.parametrize("name", LAWS)
def test_a_loop_without_looks_breaks_the_law(name, monkeypatch):
    """The mutation: the module's own looks are left out."""
    assert timed(LAWS[name], monkeypatch, muted=True).longest > LAWS[name].most


def test_a_check_that_is_out_of_time_is_undecided_and_tells_how_far_it_was(clock):
    said = list[float]()
    clock.tick = 1.0
    found = af.check(PATHS["gelu"], timeout=40, progress=lambda fraction, _: said.append(fraction))
    assert found.verdict == "undecided"
    assert "enclosing registers unfinished when time was up" in found.reason
    assert len(set(said)) > 10
    assert said == sorted(said)


def test_no_loop_is_compiled_that_may_not_end_in_time(monkeypatch, clock):
    """At its first use on a machine numba takes longer than many a limit; torch gives the same numbers."""
    loop = "attnforge.runtime.product_loop"
    net = af.constructions.tensor_grid("exp(x + y)", dict.fromkeys("xy", (-1, 1)), anchors=(13, 13))
    module, points = net.module(), torch.rand(2**14, 2, dtype=torch.float64)
    monkeypatch.delitem(sys.modules, loop, raising=False)
    with effort.until(6):
        by_torch = module(points)
    assert loop not in sys.modules
    by_loop = module(points)
    assert loop in sys.modules
    torch.testing.assert_close(by_torch, by_loop, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", ["Franke", "nested", "graph of kinks", "deep relu", "partition, sequence"])
def test_what_is_stated_when_time_is_up_is_true(name, clock):
    """The bound proved so far, or none, and then nobody calls it proved."""
    net, clock.tick = catalogued(name), 1.0
    found = af.certify(net, timeout=40)
    assert clock.looks <= 40 + AFTER
    assert (found.status == "sampled") == (found.bound is None)
    clock.tick = 0.0
    assert af.measure(net, points=400).sup <= (found.bound or float("inf"))
