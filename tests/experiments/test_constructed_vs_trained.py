"""Constructed against trained: cases, values computed otherwise, findings that can fail, figures and tables."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from attnforge.certification.certify import certify
from attnforge.experiments.constructed_vs_trained import (
    CONSTRUCTED,
    KEYS,
    MEAN,
    STARTS,
    ConstructedVsTrained,
    ConstructedVsTrainedSettings,
    Task,
    build,
    comparison,
    estimated,
    journey,
    plain,
    ratios,
    times,
)
from attnforge.experiments.settings import quick
from attnforge.experiments.table import Cell, Table

EXPERIMENT = ConstructedVsTrained()
TINY = replace(quick(ConstructedVsTrainedSettings), heads=(1,), epochs=1, further=1, cells=1)
TASK = Task(0)
Array = npt.NDArray[np.float64]


def made_up(*, ratio: float = 1000.0, gain: float = 0.5, proved: bool = True) -> Table:
    """A table in which the construction is so many times better and sooner, and training from it gains so much."""
    rows: list[dict[str, Cell]] = []
    for case in EXPERIMENT.cases(ConstructedVsTrainedSettings()):
        row: dict[str, Cell] = dict(case)
        if case["kind"] == "trained":
            row |= {"mse": 4.0 / case["heads"], "error": 14.0, "printed": 0.125 / case["heads"], "seconds": 10.0}
        elif case["kind"] == "continued":
            for epoch in (0, 50):
                after = {"mse": 1e-3 * gain ** (epoch / 50), "error": 0.1, "moved": 0.1, "undecided": 0.5}
                bound = 0.2 if proved or not epoch else None
                rows.append({**case, **after, "epoch": epoch, "bound": bound, "theorem": None})
            continue
        else:
            row |= {"mse": 4.0 / case["heads"] / ratio, "error": 0.1, "bound": 0.2, "seconds": 10.0 / ratio}
            row |= {"proved_seconds": 10.0 / ratio, "library_seconds": 10.0 / ratio}
        rows.append(row)
    return Table.of(rows)


def verdicts(table: Table) -> dict[str, str]:
    return {each.claim: each.verdict for each in EXPERIMENT.findings(table, ConstructedVsTrainedSettings())}


def test_cases_are_distinct_scalars_and_all_but_the_continued_are_timed_alone() -> None:
    cases = EXPERIMENT.cases(ConstructedVsTrainedSettings())
    assert len({json.dumps(case, sort_keys=True) for case in cases}) == len(cases) == 5 * 5 * 5 + 3 * 2 * 3
    assert all(isinstance(cell, str | int | float) for case in cases for cell in case.values())
    assert {case["kind"] for case in cases if not EXPERIMENT.alone(case)} == {"continued"}


def test_the_task_is_the_authors() -> None:
    x, y = TASK.training()
    assert x.shape == (800, 50, 10)
    assert TASK.test()[0].shape == (200, 50, 10)
    assert -5 <= x.min() < -4.99 < 4.99 < x.max() <= 5
    form = np.einsum("bij,ij->bi", x, TASK.w) + TASK.t
    assert np.allclose(y, np.minimum(np.maximum(form, -25), 25))
    assert 0 < np.mean(np.abs(y) == 25) < 0.1
    assert not np.array_equal(x[:200], TASK.test()[0])
    assert np.array_equal(x, Task(0).training()[0])
    assert not np.array_equal(TASK.w, Task(1).w)


def test_least_squares_finds_the_forms_although_samples_are_clipped() -> None:
    w, t = estimated(*TASK.training())
    assert np.allclose(w, TASK.w, atol=1e-12)
    assert np.allclose(t, TASK.t, atol=1e-11)
    x, y = TASK.training()
    inside = np.abs(y) < 25
    off = np.abs(estimated(x, np.where(inside, y, 24.9))[0] - TASK.w)  # clipped samples taken for exact ones
    assert off.max() > 1e-3


def softmax_over_anchors(y: Array) -> Array:
    """Gaussian weights of c = 1.4 over p anchors on [-25, 25], written out."""
    anchors, h = np.linspace(-25, 25, KEYS, retstep=True)
    scores = MEAN * (2 * y[..., None] * anchors - anchors**2) / h**2
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return np.asarray(weights @ anchors / weights.sum(axis=-1))


def test_one_head_against_the_softmax_written_out() -> None:
    network, target = build("mean", 1, TASK.w, TASK.t)
    x, _ = TASK.data(9, 20)
    wanted = softmax_over_anchors((x * TASK.w).sum(axis=-1) + TASK.t)
    assert np.allclose(network(x)[..., 0], wanted, atol=1e-9)
    assert certify(network, target).bound == pytest.approx(0.173, abs=1e-3)


@pytest.mark.parametrize("kind", STARTS)
def test_heads_hold_p_keys_each_and_four_are_better_than_one(kind: str) -> None:
    bounds = []
    for heads in (1, 4):
        network, target = build(kind, heads, TASK.w, TASK.t)
        assert [head.memory_size for head in network.heads] == [KEYS] * heads
        bounds.append(certify(network, target).bound or 0.0)
    assert bounds[1] < bounds[0] / 3


def test_constructed_rows() -> None:
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
        assert 0 < number(row, "seconds") < number(row, "proved_seconds") < 2


def number(row: Any, column: str) -> float:
    return float(row[column])


def test_findings_confirm_and_refute() -> None:
    good = verdicts(made_up())
    assert set(good.values()) == {"confirmed", "measured"}
    worse = verdicts(made_up(ratio=99.0, gain=1.0, proved=False))
    compared = [claim for claim in worse if "at least 100 times" in claim]
    assert len(compared) == len(CONSTRUCTED) + 5
    lowered = [claim for claim in worse if "lowers its mean square error" in claim]
    for claim in [*compared, *lowered, "what training makes of the construction can be certified again"]:
        assert worse[claim] == "refuted"


def test_one_number_of_heads_below_the_ratio_refutes() -> None:
    rows = [{**row, "mse": 1.0} if row["kind"] == "hard" and row["heads"] == 8 else row for row in made_up().rows]
    found = verdicts(Table.of(rows))
    assert [claim.split(": ")[1] for claim, verdict in found.items() if verdict == "refuted"] == ["hard selection"]


def test_an_error_above_its_bound_and_more_heads_that_do_not_help_are_seen() -> None:
    rows = [{**row, "error": 0.3} if row["kind"] == "tuned" else row for row in made_up().rows]
    assert verdicts(Table.of(rows))["no error above its certified bound"] == "refuted"
    flat = [{**row, "mse": 4.0} if row["kind"] == "trained" else row for row in made_up().rows]
    claim = "trained: the mean square error falls with H (Hu et al.)"
    assert (verdicts(made_up())[claim], verdicts(Table.of(flat))[claim]) == ("confirmed", "refuted")
    assert claim not in verdicts(Table.of(row for row in made_up().rows if row.get("heads") in (None, 4)))


def test_ratios_are_of_medians() -> None:
    rows: list[dict[str, Cell]] = [{"kind": "trained", "heads": 1, "mse": mse} for mse in (1.0, 4.0, 100.0)]
    rows += [{"kind": "hard", "heads": 1, "mse": mse} for mse in (0.01, 0.02, 0.9)]
    assert ratios(Table.of(rows), "hard", "mse") == {1: pytest.approx(200)}


def test_tables_have_a_line_for_every_number_of_heads_and_every_training() -> None:
    table = made_up()
    assert comparison(table).splitlines()[2].startswith("| 1 | 4, 14 | 0.004 (1,000), 0.1, 0.2 |")
    assert times(table).splitlines()[-1].startswith("| 16 | 10 | 0.01 (1,000) |")
    lines = journey(table).splitlines()
    assert len(lines) == 2 + 3 * 2 * 3
    assert lines[2].startswith("| hard | all weights | 0.001 | 0.001 to 0.0005 | 0.1 to 0.1 | 0.2 to 0.2 | refused |")


@pytest.mark.parametrize(("value", "text"), [(9.96, "10"), (12_345.6, "12,000"), (3.2e12, "3.2e+12"), (99.0, "99")])
def test_plain_numbers(value: float, text: str) -> None:
    assert plain(value) == text


def test_figures_draw_with_one_curve_a_variant() -> None:
    figures = EXPERIMENT.figures(made_up(), ConstructedVsTrainedSettings())
    heads, spread, continued = (figures[f"constructed-vs-trained-{name}"] for name in ("heads", "time", "continued"))
    assert len(heads.axes[0].lines) == 1 + len(STARTS)
    assert len(spread.axes[0].lines) == 6
    assert [len(axes.lines) for axes in continued.axes] == [6] * 9


def test_training_from_the_construction_and_from_nothing() -> None:
    cases = {case["kind"]: case for case in EXPERIMENT.cases(TINY) if case.get("start") in (None, "mean")}
    trained = EXPERIMENT.measure(cases["trained"])[0]
    assert 25 < number(trained, "mse") / number(trained, "printed") <= 33
    assert number(trained, "weights") == 10 * 32 + 32 + 50 * 32 + 10 * 32 + 4 * (32 * 32 + 32)
    first, last = EXPERIMENT.measure(cases["continued"])
    assert (first["epoch"], first["moved"], last["epoch"]) == (0, 0.0, 1)
    assert first["bound"] == first["theorem"] == pytest.approx(0.173, abs=1e-3)
    assert 0 < number(last, "moved") < 0.01  # 25 steps of 0.0001, of the values alone
    assert number(last, "error") <= number(last, "bound")
    assert number(last, "mse") < number(first, "mse") < number(trained, "mse") / 1000
