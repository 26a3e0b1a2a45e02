"""Tables have a line for every number of heads and every training."""

from __future__ import annotations

from attnforge.experiments.constructed_vs_trained.tables import comparison, journey, times
from tests.experiments.constructed_vs_trained.made_up import made_up


def test_tables_have_a_line_for_every_number_of_heads_and_every_training() -> None:
    table = made_up()
    assert comparison(table).splitlines()[2].startswith("| 1 | 4, 14 | 0.004 (1,000), 0.1, 0.2 |")
    assert times(table).splitlines()[-1].startswith("| 16 | 10 | 0.01 (1,000) |")
    lines = journey(table).splitlines()
    assert len(lines) == 2 + 3 * 2 * 3
    assert lines[2].startswith("| hard | all weights | 0.001 | 0.001 to 0.0005 | 0.1 to 0.1 | 0.2 to 0.2 | enclosure |")


def test_where_nothing_is_proved_the_table_says_why() -> None:
    assert "| 0.1 to 0.1 | none | the time allowed |" in journey(made_up(proved=False)).splitlines()[2]
