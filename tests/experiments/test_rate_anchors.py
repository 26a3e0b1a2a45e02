from typing import Any

import numpy as np
import pytest

from attnforge.anchors import hard
from attnforge.experiments.rate_anchors import CONSTRUCTED, RateAnchors, RateAnchorsSettings
from attnforge.experiments.settings import quick
from attnforge.experiments.table import Table

BOTH = [RateAnchorsSettings(), quick(RateAnchorsSettings)]
TUNED = 0.063  # error of a tuned head over the spacing


def rows(settings: RateAnchorsSettings, **powers: float) -> Table:
    """Errors that fall as the theorems say, h/2 and less; those of a kind in ``powers`` as that power of p - 1."""
    found: list[dict[str, Any]] = []
    for kind, share in zip(CONSTRUCTED, (0.5, TUNED), strict=True):
        for p in settings.anchors:
            error = share * 2 * (p - 1) ** powers.get(kind, -1.0)
            found.append({"kind": kind, "p": p, "error": error, "mse": error**2 / 3, "bound": 1.02 * error})
    for p in settings.trained:
        for start in range(settings.repeats):
            error = (1 + 0.1 * start) * p ** powers.get("trained", -1.0)
            found.append({"kind": "trained", "p": p, "start": start, "error": error, "mse": error**2 / 3})
    return Table.of(found)


def verdicts(table: Table, settings: RateAnchorsSettings) -> list[str]:
    return [each.verdict for each in RateAnchors().findings(table, settings)]


@pytest.mark.parametrize("settings", BOTH)
def test_cases_are_distinct_and_plain(settings: RateAnchorsSettings) -> None:
    cases = RateAnchors().cases(settings)
    assert len({tuple(sorted(case.items())) for case in cases}) == len(cases)
    assert len(cases) == 2 * len(settings.anchors) + settings.repeats * len(settings.trained)
    assert all(isinstance(cell, str | int | float) for case in cases for cell in case.values())


def test_trained_cases_name_what_they_depend_on() -> None:
    first, second = (RateAnchors().cases(RateAnchorsSettings(seed=seed, epochs=7)) for seed in (0, 1))
    assert [case for case in first if case not in second] == [case for case in first if case["kind"] == "trained"]
    assert {case["epochs"] for case in first if case["kind"] == "trained"} == {7}


def test_hard_selection_is_two_anchors_that_share_the_weight() -> None:
    (row,) = RateAnchors().measure({"kind": "hard", "p": 9})  # anchors a quarter apart
    place = np.linspace(0, 0.5, 100_001)  # from an anchor to the middle, in steps
    error = place - 1 / (1 + np.exp(hard("float64") * (1 - 2 * place)))
    assert row["error"] == pytest.approx(0.25 * error.max(), rel=1e-4)
    assert 0.8 * 0.125 < float(row["error"] or 0) <= float(row["bound"] or 0) <= 0.125 * (1 + 1e-9)
    # half of the domain is between the ends; beyond them the clamp is flat and the error is none
    assert row["mse"] == pytest.approx(0.25**2 * np.mean(error**2) / 2, rel=0.02)


def test_tuned_heads_err_as_little_as_they_say() -> None:
    (row,) = RateAnchors().measure({"kind": "tuned", "p": 33})
    assert 0.9 * TUNED * 2 / 32 < float(row["error"] or 0) <= float(row["bound"] or 0) < TUNED * 2 / 32


def test_training_is_repeatable_and_depends_on_the_start() -> None:
    case = {"kind": "trained", "p": 8, "start": 0, "epochs": 2, "seed": 0}
    first, again, other = (RateAnchors().measure(each)[0] for each in (case, case, case | {"start": 1}))
    assert (first["mse"], first["error"]) == (again["mse"], again["error"])
    assert first["error"] != other["error"]
    assert 0 < float(first["mse"] or 0) <= float(first["error"] or 0) ** 2
    assert "bound" not in first


def test_training_longer_helps() -> None:
    case = {"kind": "trained", "p": 8, "start": 0, "seed": 0}
    short, long = (float(RateAnchors().measure(case | {"epochs": epochs})[0]["mse"] or 0) for epochs in (1, 20))
    assert long < 0.5 * short


@pytest.mark.parametrize("settings", BOTH)
def test_claims_that_hold_are_confirmed(settings: RateAnchorsSettings) -> None:
    assert verdicts(rows(settings), settings) == ["confirmed"] * 4


@pytest.mark.parametrize("settings", BOTH)
@pytest.mark.parametrize(("place", "kind"), [(0, "hard"), (1, "tuned"), (3, "trained")])
@pytest.mark.parametrize("power", [-0.8, -0.5, 0.0, -1.3])
def test_other_rates_are_refuted(settings: RateAnchorsSettings, place: int, kind: str, power: float) -> None:
    found = verdicts(rows(settings, **{kind: power}), settings)
    assert found[place] == "refuted"
    assert found.count("refuted") == 1


def test_an_error_above_its_bound_is_seen() -> None:
    settings = RateAnchorsSettings()
    table = Table.of(row | ({"bound": 0.9 * row["error"]} if row.get("p") == 64 else {}) for row in rows(settings).rows)
    assert verdicts(table, settings) == ["confirmed", "confirmed", "refuted", "confirmed"]


def test_trained_heads_are_compared_where_both_exist() -> None:
    settings = RateAnchorsSettings(anchors=(8, 16, 32), trained=(8, 16, 64), repeats=1)
    last = RateAnchors().findings(rows(settings), settings)[-1]
    assert "at p = 16 the median trained head errs 0.94 times" in last.evidence  # 1/16 over 1/15


def test_the_figure() -> None:
    settings = RateAnchorsSettings()
    figures = RateAnchors().figures(rows(settings), settings)
    assert list(figures) == ["rate-anchors"]
    figure = figures["rate-anchors"]
    figure.draw_without_rendering()
    assert [axes.get_ylabel() for axes in figure.axes] == ["largest error", "mean square error"]
    names = [text.get_text() for text in figure.legends[0].get_texts()]
    assert names == ["constructed, hard", "constructed, tuned", "trained: median and range"]
    assert all(len(axes.collections) == 1 for axes in figure.axes)  # the band over the starts
