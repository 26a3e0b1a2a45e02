import pytest

from attnforge.experiments.dimension import Dimension, DimensionSettings
from attnforge.experiments.settings import quick
from attnforge.experiments.table import Table
from tests.experiments.dimension.made_up import GROWTH, rows


@pytest.mark.parametrize("settings", [DimensionSettings(), quick(DimensionSettings)])
def test_cases_are_distinct_and_plain(settings: DimensionSettings) -> None:
    cases = Dimension().cases(settings)
    assert len({tuple(sorted(each.items())) for each in cases}) == len(cases)
    assert all(isinstance(cell, str | int | float) for each in cases for cell in each.values())


def test_constructions_get_the_targets_they_are_made_for() -> None:
    pairs = {(each["construction"], each["target"]) for each in Dimension().cases(DimensionSettings())}
    assert {pair for pair in pairs if pair[0] in ("additive", "ridge")} == {
        ("additive", "additive"),
        ("ridge", "ridge"),
    }


def test_figures_and_notes() -> None:
    table = Table.of([*rows(GROWTH).rows, {"target": "ridge", "construction": "tensor grid", "d": 20, "tol": 1e-2}])
    figures = Dimension().figures(table, DimensionSettings())
    assert list(figures) == ["dimension", "dimension-tolerances"]
    for figure in figures.values():
        figure.draw_without_rendering()
    said, counts = Dimension().notes(table, DimensionSettings())
    assert said.startswith("Keys for tol = 0.01")
    assert "| gaussian | tensor grid | 9 | 243 | 6,561 | 59,049 |  |" in counts
    assert "| ridge | tensor grid | 9 | 243 | 6,561 | 59,049 | *refused* |" in counts


def test_what_was_only_counted_is_in_brackets() -> None:
    table = Table.of(row | {"built": row["construction"] != "hard cells"} for row in rows(GROWTH).rows)
    counts = Dimension().notes(table, DimensionSettings())[1]
    assert "| gaussian | hard cells | (2,500) |" in counts
