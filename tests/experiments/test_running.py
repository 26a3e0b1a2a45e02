"""``attnforge experiment``: settings, folders, what is resumed, refused and told; on a small real experiment."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from attnforge.cli import app

SMALL = ("--anchors", "3,4", "--sharpness", "10,40", "--heads", 2, "--keys", 6, "--queries", 201)
FILES = {"cases.jsonl", "results.csv", "settings.toml", "verdict.md"}
FIGURES = {f"selection{name}" for name in ("", "-heads", "-window")}


@pytest.fixture
def run(tmp_path: Path):
    """An experiment with these words, in one process; of ``selection`` a small one."""

    def invoke(*words: object, name: str = "selection", out: Path = tmp_path) -> Result:
        small = SMALL if name == "selection" else ()
        said = ["experiment", name, *small, "--out", out, "--workers", 1, *words]
        return CliRunner().invoke(app, [str(word) for word in said])

    return invoke


def data(result: Result) -> dict[str, Any]:
    assert result.exit_code in (0, 4), result.output
    return json.loads(result.stdout)


def settings(folder: Path) -> dict[str, Any]:
    return tomllib.loads((folder / "selection/settings.toml").read_text())["selection"]


def journal(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "selection/cases.jsonl").read_text().splitlines()]


def test_a_run_writes_its_folder(run, tmp_path: Path) -> None:
    result = run("--formats", "png, svg")
    assert result.exit_code == 0, result.output
    images = {f"{name}.{kind}" for name in FIGURES for kind in ("png", "svg")}
    assert {path.name for path in (tmp_path / "selection").iterdir()} == FILES | images
    page = (tmp_path / "selection/verdict.md").read_text()
    assert all(f"({name}.png)" in page for name in FIGURES)
    assert page.count("**confirmed**") == result.stdout.count("confirmed") > 2


def test_what_is_known_is_not_measured_again_until_asked(run, tmp_path: Path) -> None:
    assert data(run("--json"))["measured"] == 6
    assert data(run("--json"))["measured"] == 0
    more = data(run("--json", "--sharpness", "10,40,160"))
    assert (more["measured"], len(journal(tmp_path))) == (3, 9)
    assert data(run("--json", "--again"))["measured"] == 6
    assert len(journal(tmp_path)) == 15  # earlier entries stay


def test_torn_lines_and_those_of_another_version_are_measured_again(run, tmp_path: Path) -> None:
    table = data(run("--json"))["rows"]
    path = tmp_path / "selection/cases.jsonl"
    lines = path.read_text().splitlines()
    other = json.dumps(json.loads(lines[1]) | {"version": "another"})
    path.write_text("\n".join([lines[0], other, *lines[2:5], lines[5][:40]]))
    again = data(run("--json"))
    assert (again["measured"], again["rows"]) == (2, table)


def test_the_latest_entry_of_a_case_counts_and_a_broken_promise_is_told(run, tmp_path: Path) -> None:
    """The promise of this package is that no error exceeds its bound: exit code 4, and nothing else, says so."""
    words = ("--anchors", "8,16", "--trained", 8, "--repeats", 1, "--epochs", 1)
    found = data(run(*words, "--json", name="rate-anchors"))
    assert {each["verdict"] for each in found["findings"]} <= {"confirmed", "refuted", "undecided"}
    path = tmp_path / "rate-anchors/cases.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    lie = next(line for line in lines if line["case"]["kind"] == "hard")
    lie["rows"][0]["error"] = 2 * lie["rows"][0]["bound"]
    with path.open("a") as file:
        file.write(json.dumps(lie) + "\n")
    result = run(*words, "--json", name="rate-anchors")
    assert (result.exit_code, data(result)["measured"]) == (4, 0)


def test_flags_win_over_the_file_and_the_file_over_the_defaults(run, tmp_path: Path) -> None:
    file = tmp_path / "s.toml"
    file.write_text("seed = 5\n[selection]\nheads = 3\nkeys = 7\nqueries = 101\n[temperature]\npoints = 3\n")
    words = ["experiment", "selection", "--config", file, "--keys", 6, "--anchors", 3, "--out", tmp_path]
    words += ["--sharpness", "10,.4e2", "--workers", 1]
    assert CliRunner().invoke(app, [str(word) for word in words]).exit_code == 0
    wanted = {"seed": 5, "heads": 3, "keys": 6, "queries": 101, "anchors": [3], "sharpness": [10.0, 40.0]}
    assert settings(tmp_path) == wanted
    again = tmp_path / "selection/settings.toml"
    said = ["experiment", "selection", "--config", again, "--out", tmp_path, "--json"]
    assert data(CliRunner().invoke(app, [str(word) for word in said]))["measured"] == 0  # it is what it was written as
    assert run("--quick").exit_code == 0
    assert settings(tmp_path)["seed"] == 0


def test_all_experiments_are_listed_with_their_questions_and_settings(run) -> None:
    listed = data(CliRunner().invoke(app, ["experiment", "list", "--json"]))["experiments"]
    words = CliRunner().invoke(app, ["experiment", "list"]).stdout
    assert len(listed) == 12
    for each in listed:
        assert each["name"] in words
        told = " ".join(CliRunner().invoke(app, ["experiment", each["name"], "--help"]).stdout.split())
        assert each["question"] in told
        assert all(option in told for option in ("--seed", "--quick", "--config", "--cluster", "[default:"))


@pytest.mark.parametrize(
    "words",
    [
        ("--anchors", "2,x"),
        ("--anchors", "1.5"),
        ("--anchors", ""),
        ("--anchors", "0"),
        ("--seed", "-1"),
        ("--sharpness", "nan"),
        ("--heads", "many"),
        ("--size", "2"),
        ("--config", "none.toml"),
        ("--config", "loose.toml"),
        ("--config", "unknown.toml"),
        ("--config", "odd.toml"),
        ("--workers", "0"),
        ("--formats", "gif"),
        ("--cluster", "nonsense"),
        ("--out", "loose.toml"),
    ],
    ids=" ".join,
)
def test_wrong_words_and_files_are_refused_and_nothing_is_written(run, tmp_path: Path, monkeypatch, words) -> None:
    monkeypatch.chdir(tmp_path)
    files = {"loose": "heads = 2\n", "unknown": "[selections]\nheads = 2\n", "odd": "[selection]\nheads = = 2\n"}
    for name, text in files.items():
        (tmp_path / f"{name}.toml").write_text(text)
    result = run(*words)
    assert result.exit_code == 2, result.output
    assert "error: " in result.stderr
    assert not (tmp_path / "selection/cases.jsonl").exists()
    assert run(name="nothing").exit_code == 2


def test_a_case_that_is_refused_stops_no_other(run, tmp_path: Path) -> None:
    words = ("--anchors", "8,1", "--trained", 8, "--repeats", 1, "--epochs", 1)  # a row of one anchor is none
    result = run(*words, name="rate-anchors")
    assert (result.exit_code, "Traceback" in result.stderr) == (2, False)
    kept = [json.loads(line)["case"] for line in (tmp_path / "rate-anchors/cases.jsonl").read_text().splitlines()]
    assert sorted((case["kind"], case["p"]) for case in kept) == [("hard", 8), ("trained", 8), ("tuned", 8)]


@pytest.mark.slow
def test_the_workers_of_a_cluster_measure_the_same(run, standing_cluster: str, tmp_path: Path) -> None:
    alone, together = tmp_path / "alone", tmp_path / "together"
    assert data(run("--json", out=alone))["measured"] == 6
    assert data(run("--json", "--cluster", standing_cluster, out=together))["measured"] == 6
    assert (alone / "selection/results.csv").read_text() == (together / "selection/results.csv").read_text()
