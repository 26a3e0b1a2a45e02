from __future__ import annotations

import sys
from pathlib import Path

import pytest

from attnforge.experiments.length.costs import _peak, cost, cost_apart


def test_costs_are_positive() -> None:
    row = cost("literal", 300, 2, 300)
    assert row["seconds"] > 0
    assert row["weights"] >= 2 * 8 * 300 * 300  # the maps that lengthen and shorten the sequence
    assert row["peak"] >= 0


def test_a_process_of_its_own_measures_the_same_weights() -> None:
    row = cost_apart({"kind": "cost", "layout": "memory", "n": 20, "d": 2, "p": 8})
    assert row["weights"] == cost("memory", 20, 2, 8)["weights"]
    assert row["seconds"] > 0


def test_a_system_that_does_not_tell_its_memory_is_not_asked_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_: object, **__: object) -> str:
        raise FileNotFoundError

    assert _peak() > 0
    monkeypatch.setattr(Path, "read_text", missing)
    assert _peak() > 0  # by getrusage
    monkeypatch.setitem(sys.modules, "resource", None)
    assert _peak() == 0
