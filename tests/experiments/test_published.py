"""Every experiment of the registry: what is published follows from its table, can come out otherwise, and is measured.

Tables, verdicts and figures are those in ``experiments/results``.
"""

from __future__ import annotations

import csv
import json
import math
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from attnforge.experiments import EXPERIMENTS, Table, experiment

RESULTS = Path(__file__).resolve().parents[2] / "experiments/results"
NAMES = [each.name for each in EXPERIMENTS]
MACHINE = {"seconds", "peak", "proved_seconds", "library_seconds"}  # columns that are of the machine


def cell(text: str) -> Any:
    """A cell as it was before it was written."""
    if text in ("True", "False"):
        return text == "True"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


@cache
def published(name: str) -> tuple[Any, Table]:
    """The settings and the table of a folder."""
    settings = tomllib.loads((RESULTS / name / "settings.toml").read_text())[name]
    with (RESULTS / name / "results.csv").open() as file:
        rows = [{key: cell(text) for key, text in row.items() if text} for row in csv.DictReader(file)]
    lists = {key: tuple(value) if isinstance(value, list) else value for key, value in settings.items()}
    return experiment(name).settings(**lists), Table.of(rows)


def verdicts(name: str, table: Table) -> dict[str, str]:
    return {each.claim: each.verdict for each in experiment(name).findings(table, published(name)[0])}


@pytest.mark.parametrize("name", NAMES)
def test_cases_are_distinct_and_flat_and_the_table_has_the_first(name: str) -> None:
    settings, table = published(name)
    cases = experiment(name).cases(settings)
    assert len({json.dumps(case, sort_keys=True) for case in cases}) == len(cases)
    assert all(isinstance(value, int | float | str) for case in cases for value in case.values())
    known = {json.dumps({key: row.get(key) for key in cases[0]}, sort_keys=True) for row in table.rows}
    assert json.dumps(dict(cases[0]), sort_keys=True) in known


@pytest.mark.parametrize("name", NAMES)
def test_the_verdict_follows_from_the_table(name: str) -> None:
    settings, table = published(name)
    page = (RESULTS / name / "verdict.md").read_text()
    for each in experiment(name).findings(table, settings):
        cells = (each.claim, f"**{each.verdict}**", each.evidence)
        assert "| " + " | ".join(text.replace("|", "\\|") for text in cells) + " |" in page
    for note in experiment(name).notes(table, settings):
        assert note in page


@pytest.mark.parametrize("name", NAMES)
def test_the_figures_are_drawn_from_the_table(name: str) -> None:
    settings, table = published(name)
    figures = experiment(name).figures(table, settings)
    assert set(figures) == {path.stem for path in (RESULTS / name).glob("*.png")}
    for figure in figures.values():
        figure.draw_without_rendering()
        assert figure.axes


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


WAYS = {  # of spoiling a column
    "root": lambda v, i: abs(v) ** 0.5 if _number(v) else v,
    "cube": lambda v, i: abs(v) ** 3 if _number(v) else v,
    "large": lambda v, i: v * 1e6 if _number(v) else v,
    "small": lambda v, i: v * 1e-6 if _number(v) else v,
    "inverse": lambda v, i: 1 / v if _number(v) and v else v,
    "flat": lambda v, i: 0.5 if _number(v) else v,
    "uneven": lambda v, i: v * (1e3 if i % 7 == 3 else 1) if _number(v) else v,
    "wild": lambda v, i: v * 10.0 ** (i * i % 5) if _number(v) else v,
    "fallen": lambda v, i: v / (1 + i) if _number(v) else v,
    "other": lambda v, i: v * (1 + i) if _number(v) else not v if isinstance(v, bool) else v,
}
AIMED = {  # where no column spoilt alone turns a claim: rows as they would be if it came out the other way
    "temperature": lambda row: row | {"error": 1 / row["beta"]} if row["part"] == "named" else row,
    "boundary": lambda row: row | {"error": 9.0} if row.get("distance") == 0.0 else row,
    "length": lambda row: row | {"error": 1 / row["H"]} if row["kind"] == "heads" else row,
    "dimension": lambda row: row | {"keys": row["d"] ** 2} if row["construction"] == "hard cells" else row,
}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.filterwarnings("ignore::RuntimeWarning", "ignore::numpy.exceptions.RankWarning")
def test_every_claim_can_come_out_otherwise(name: str) -> None:
    """Spoilt, tables give other verdicts: no claim is confirmed, or refuted, whatever is measured."""
    settings, table = published(name)
    before = verdicts(name, table)
    left = {claim for claim, verdict in before.items() if verdict != "measured"}
    given = set().union(*(case.keys() for case in experiment(name).cases(settings)))
    texts = {key for row in table.rows for key, value in row.items() if isinstance(value, str)} - {"digest"}
    tables = [
        [row | ({column: way(row[column], i)} if column in row else {}) for i, row in enumerate(table.rows)]
        for column in table.columns
        if column not in given | texts
        for way in WAYS.values()
        if (column, way) != ("refused", WAYS["other"])
    ]
    if name in AIMED:
        tables.append([AIMED[name](dict(row)) for row in table.rows])
    for rows in tables:
        found = verdicts(name, Table.of(rows))
        left = {claim for claim in left if found.get(claim) == before[claim]}
    assert left == set()


MEASURED = {  # experiments, and the kinds of their cases that are measured anew: not those of training, nor of time
    "rate-anchors": ("hard", "tuned"),
    "rate-heads": ("hard", "tuned"),
    "selection": (4,),
    "temperature": ("curve", "named", "row"),
    "boundary": ("smooth", "heads"),
    "universality": ("rate", "bump", "cells"),
    "lebesgue": ("rate", "check"),
    "dtype": ("truncated_linear", "gate", "selection"),
}


def smallest(name: str, kind: Any) -> dict[str, Any]:
    """The case of this kind with the least to do; its kind is the first thing it says."""
    cases = [case for case in experiment(name).cases(published(name)[0]) if next(iter(case.values())) == kind]
    return dict(min(cases, key=lambda case: math.prod(v for v in case.values() if isinstance(v, int) and v > 0)))


@pytest.mark.parametrize(("name", "kind"), [(name, kind) for name, kinds in MEASURED.items() for kind in kinds])
def test_measured_anew_the_numbers_are_those_published(name: str, kind: Any) -> None:
    case = smallest(name, kind)
    published_rows = [row for row in published(name)[1].rows if row.items() >= case.items()]
    found = experiment(name).measure(case)
    assert len(found) == len(published_rows)
    for row, wanted in zip(found, published_rows, strict=True):
        numbers = {key: value for key, value in row.items() if isinstance(value, int | float) and key not in MACHINE}
        assert numbers == pytest.approx({key: wanted[key] for key in numbers}, rel=0.01, abs=1e-12)


# Numbers computed by hand


def measured(name: str, **case: Any) -> dict[str, Any]:
    return dict(experiment(name).measure(case)[0])


def test_hard_heads_err_by_half_a_step_less_the_softness_of_ties() -> None:
    """Of two heads of four anchors h = 2/7 apart; at c = ln 2^53 the staircase errs by sigma(c (2 t - 1)) - t steps."""
    found = measured("rate-heads", kind="hard", fixed="each", keys=6, heads=2)
    c, place = 53 * np.log(2), np.linspace(0.5, 1, 100_001)
    assert found["error"] == pytest.approx((1 / (1 + np.exp(-c * (2 * place - 1))) - place).max() * 2 / 7, rel=1e-6)
    assert found["error"] <= found["bound"]


def test_two_anchors_share_the_weight_by_their_distance() -> None:
    """At -1 and 1, h = 2: at s steps from the middle the nearer one weighs 1 / (1 + e^(-2 c s)) exactly."""
    rows = experiment("selection").measure({"p": 2, "heads": 1, "c": 3.0, "queries": 1001})
    for row in rows[1:]:
        assert row["weight"] == pytest.approx(1 / (1 + np.exp(-6 * row["distance"])), abs=1e-12)
    assert (rows[0]["one_hot"], rows[0]["at_ties"], rows[0]["nearest_wins"]) == (0.0, pytest.approx(0.5), 1.0)


def test_a_sorted_pair_a_jump_and_a_tuned_row() -> None:
    sort = measured("universality", kind="rate", construction="max_affine, hard", target="sort", grid=4, seed=0)
    assert sort["error"] == pytest.approx(1 / 8, rel=1e-3)
    jump = measured("lebesgue", kind="rate", target="jump", norm=1, cells=8, seed=0)
    assert (jump["error"], jump["sup"]) == (pytest.approx(1 / 18, rel=0.01), pytest.approx(2 / 3, rel=0.01))
    row = measured("dtype", kind="truncated_linear", dtype="float64", p=21)
    assert row["error"] == pytest.approx(0.0622 * 0.1, rel=0.02)


@pytest.mark.parametrize(
    ("name", "case"),
    [
        ("rate-anchors", {"kind": "trained", "p": 8, "start": 0, "seed": 0}),
        ("rate-heads", {"kind": "trained", "fixed": "each", "keys": 3, "heads": 2, "start": 1, "seed": 0}),
    ],
)
def test_training_is_repeatable_depends_on_its_start_and_helps(name: str, case: dict[str, Any]) -> None:
    first, again = (measured(name, **case, epochs=2) for _ in range(2))
    other, longer = measured(name, **case | {"start": 5}, epochs=2), measured(name, **case, epochs=20)
    assert (first["mse"], first["error"]) == (again["mse"], again["error"])
    assert first["error"] != other["error"]
    assert longer["mse"] < 0.7 * first["mse"] <= 0.7 * first["error"] ** 2
    assert first.get("bound") is None


def test_constructed_heads_beat_a_short_training() -> None:
    compared = experiment("constructed-vs-trained")
    case = {"heads": 1, "seed": 0, "task": 1}
    hard, mean = (dict(compared.measure({"kind": kind, **case})[0]) for kind in ("hard", "mean"))
    assert 0.04 < hard["mse"] < 0.06  # uniform on a step: h^2 / 12 = 0.0598, a little less as c is finite
    assert mean["mse"] < hard["mse"] / 1000
    for row in (hard, mean):
        assert row["error"] <= row["bound"] < 0.5
    trained = dict(compared.measure({"kind": "trained", "epochs": 1, **case})[0])
    assert trained["mse"] > 1000 * mean["mse"]
    assert trained["weights"] == 10 * 32 + 32 + 50 * 32 + 10 * 32 + 4 * (32 * 32 + 32)
