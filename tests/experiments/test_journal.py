import json
from pathlib import Path

from attnforge.experiments.journal import Entry, append, key, read


def test_what_is_appended_is_read_back_exactly(tmp_path: Path) -> None:
    path = tmp_path / "cases.jsonl"
    append(path, {"p": 1}, Entry([{"p": 1, "error": 0.1 + 0.2, "note": None}], 0.5), "1")
    append(path, {"p": 2}, Entry([], 0.25), "1")
    found = read(path, "1")
    assert found[key({"p": 1})].rows == ({"p": 1, "error": 0.1 + 0.2, "note": None},)
    assert found[key({"p": 2})] == Entry((), 0.25)


def test_the_latest_entry_of_a_case_counts_and_earlier_ones_stay(tmp_path: Path) -> None:
    path = tmp_path / "cases.jsonl"
    for error in (1.0, 2.0):
        append(path, {"p": 1}, Entry([{"error": error}], 0.0), "1")
    assert read(path, "1")[key({"p": 1})].rows == ({"error": 2.0},)
    assert len(path.read_text().splitlines()) == 2


def test_a_torn_line_is_left_out_and_spoils_no_other(tmp_path: Path) -> None:
    path = tmp_path / "cases.jsonl"
    append(path, {"p": 1}, Entry([{"error": 1.0}], 0.0), "1")
    with path.open("a") as file:
        file.write('{"case": {"p": 2}, "rows": [{"err')
    assert list(read(path, "1")) == [key({"p": 1})]
    append(path, {"p": 3}, Entry([{"error": 3.0}], 0.0), "1")
    assert list(read(path, "1")) == [key({"p": 1}), key({"p": 3})]


def test_entries_of_another_version_and_lines_of_another_kind_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "cases.jsonl"
    append(path, {"p": 1}, Entry([], 0.0), "1")
    with path.open("a") as file:
        file.write(json.dumps([1, 2]) + "\n" + json.dumps({"case": 3, "version": "2"}) + "\n\n")
    assert read(path, "2") == {}
    assert read(tmp_path / "none.jsonl", "1") == {}


def test_a_case_is_recognised_whatever_the_order_of_its_names() -> None:
    assert key({"a": 1, "b": 0.5}) == key({"b": 0.5, "a": 1})
    assert key({"a": 1}) != key({"a": 2})
