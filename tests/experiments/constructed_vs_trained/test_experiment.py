"""Constructed against trained: cases, and what is measured of some."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from attnforge.experiments.constructed_vs_trained import ConstructedVsTrained, ConstructedVsTrainedSettings
from attnforge.experiments.constructed_vs_trained.task import Task
from attnforge.experiments.settings import quick
from tests.clock import Clock
from tests.experiments.constructed_vs_trained.softmax import softmax_over_anchors

EXPERIMENT = ConstructedVsTrained()
TINY = replace(quick(ConstructedVsTrainedSettings), heads=(1,), epochs=1, further=1)


def test_cases_are_distinct_scalars_and_all_but_the_continued_are_timed_alone() -> None:
    cases = EXPERIMENT.cases(ConstructedVsTrainedSettings())
    assert len({json.dumps(case, sort_keys=True) for case in cases}) == len(cases) == 5 * 5 * 5 + 3 * 2 * 3
    assert all(isinstance(cell, str | int | float) for case in cases for cell in case.values())
    assert {case["kind"] for case in cases if not EXPERIMENT.alone(case)} == {"continued"}


def test_constructed_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    Clock(tick=1.0).install(monkeypatch, "experiments.constructed_vs_trained.timing")
    hard, mean, guessed = (
        EXPERIMENT.measure({"kind": kind, "heads": 1, "seed": 0, "task": 1})[0]
        for kind in ("hard", "mean", "estimated")
    )
    assert 0.04 < number(hard, "mse") < 0.06  # uniform on a step: h^2 / 12 = 0.0598, a little less as c is finite
    x, y = Task(1).fresh()
    wanted = np.mean((softmax_over_anchors((x * Task(1).w).sum(axis=-1) + Task(1).t) - y) ** 2)
    assert number(mean, "mse") == pytest.approx(wanted, rel=1e-6)
    assert number(mean, "mse") < number(hard, "mse") / 1000
    assert number(guessed, "mse") == pytest.approx(number(mean, "mse"), rel=1e-6)
    for row in (hard, mean, guessed):
        assert number(row, "error") <= number(row, "bound") < 0.5
        assert 0 < number(row, "seconds") < number(row, "proved_seconds")


def test_training_from_the_construction_and_from_nothing() -> None:
    cases = {case["kind"]: case for case in EXPERIMENT.cases(TINY) if case.get("start") in (None, "mean")}
    trained = EXPERIMENT.measure(cases["trained"])[0]
    assert 25 < number(trained, "mse") / number(trained, "printed") <= 33
    assert number(trained, "weights") == 10 * 32 + 32 + 50 * 32 + 10 * 32 + 4 * (32 * 32 + 32)
    first, last = EXPERIMENT.measure(cases["continued"])
    assert (first["epoch"], first["moved"], last["epoch"]) == (0, 0.0, 1)
    assert (first["bound"], first["proof"]) == (pytest.approx(0.173, abs=1e-3), "theorem")
    assert 0 < number(last, "moved") < 0.01  # 25 steps of 0.0001, of the values alone
    assert number(last, "error") <= number(last, "bound")
    assert number(last, "mse") < number(first, "mse") < number(trained, "mse") / 1000


def number(row: Any, column: str) -> float:
    return float(row[column])
