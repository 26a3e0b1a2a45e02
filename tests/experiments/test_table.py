import csv
import io

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from attnforge.experiments.table import Table, markdown

ROWS = [{"kind": "hard", "p": 10, "error": 0.1}, {"kind": "tuned", "p": 10}, {"kind": "hard", "p": 5, "error": 0.2}]


def test_choosing_and_ordering_rows() -> None:
    table = Table.of(ROWS)
    assert table.columns == ("kind", "p", "error")
    assert table.where(kind="hard").ordered("p").numbers("error").tolist() == [0.2, 0.1]
    assert table.distinct("kind") == ["hard", "tuned"]
    assert len(table.having("error")) == 2
    assert np.isnan(table.where(kind="tuned").numbers("error")).all()
    assert table.texts("kind") == ["hard", "tuned", "hard"]


def test_rows_by_a_question_and_columns_in_pairs_and_groups() -> None:
    table = Table.of(ROWS)
    assert table.only(lambda row: row["p"] < 10).rows == (ROWS[2],)
    x, y = table.having("error").points("p", "error")
    assert (x.tolist(), y.tolist()) == ([10, 5], [0.1, 0.2])
    groups = table.having("error").grouped("p", "error")
    assert list(groups) == [5, 10]  # ascending, unlike the rows
    assert groups[10].tolist() == [0.1]
    assert Table.of({"p": 8, "error": error} for error in (3.0, 1.0, 2.0)).medians("p", "error") == {8: 2.0}
    assert table.only(lambda row: False).grouped("p", "error") == {}


@given(st.lists(st.floats(allow_nan=False), min_size=1))
def test_numbers_survive_the_file(numbers: list[float]) -> None:
    text = Table.of({"x": number} for number in numbers).to_csv()
    assert [float(row["x"]) for row in csv.DictReader(io.StringIO(text))] == numbers


def test_cells_with_separators_survive_the_file() -> None:
    text = Table.of([{"a": 'say "no", twice', "b": None}]).to_csv()
    assert list(csv.DictReader(io.StringIO(text))) == [{"a": 'say "no", twice', "b": ""}]


def test_bars_in_cells_do_not_end_them() -> None:
    assert markdown(["a"], [["|x|"]]).splitlines()[-1] == "| \\|x\\| |"
