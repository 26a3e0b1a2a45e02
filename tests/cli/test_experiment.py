import json
from pathlib import Path

import pytest

from attnforge.cli import experiment as verb
from tests.experiments.toy import Toy


@pytest.fixture(autouse=True)
def toy(monkeypatch: pytest.MonkeyPatch) -> None:
    """One small experiment instead of all."""
    monkeypatch.setattr(verb, "_experiments", lambda: (Toy(),))


def test_the_help_lists_experiments_and_their_settings(run) -> None:
    assert "toy   one over the size" in run("experiment", "--help").stdout
    text = " ".join(run("experiment", "toy", "--help").stdout.split())
    for part in (
        "Does one over p fall as 1/p?",
        "--counts A,B,... Sizes. [default: (1,2,4)]",
        "--scale FLOAT",
        "--cluster",
    ):
        assert part in text


def test_list(run) -> None:
    assert "toy         one over the size" in run("experiment", "list").stdout
    data = json.loads(run("experiment", "list", "--json").stdout)
    assert data == {"experiments": [{"name": "toy", "question": "Does one over p fall as 1/p?"}]}


def test_flags_reach_the_experiment(run, tmp_path: Path) -> None:
    words = ("--counts", "2,8", "--seed", 3, "--out", tmp_path, "--workers", 1)
    result = run("experiment", "toy", *words)
    assert result.exit_code == 0, result.output
    assert "rows                                measured   2" in result.stdout
    assert "counts = [2, 8]" in (tmp_path / "toy/settings.toml").read_text()
    assert "seed = 3" in (tmp_path / "toy/settings.toml").read_text()


def test_flags_win_over_the_file_and_the_file_over_the_defaults(run, tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text("seed = 5\n[toy]\ncounts = [1]\nscale = 0.5\n")
    run("experiment", "toy", "--config", tmp_path / "s.toml", "--scale", 0.25, "--out", tmp_path, "--workers", 1)
    text = (tmp_path / "toy/settings.toml").read_text()
    assert [part in text for part in ("counts = [1]", "scale = 0.25", "seed = 5")] == [True] * 3


def test_all_writes_an_index(run, tmp_path: Path) -> None:
    result = run("experiment", "all", "--quick", "--out", tmp_path, "--workers", 1)
    assert result.exit_code == 0, result.output
    assert "1 measured, 1 confirmed" in result.stdout
    assert "| [toy](toy/verdict.md) | rows | **measured** | 2 |" in (tmp_path / "README.md").read_text()


def test_json(run, tmp_path: Path) -> None:
    data = json.loads(run("experiment", "toy", "--quick", "--json", "--out", tmp_path, "--workers", 1).stdout)
    assert (data["experiment"], data["rows"], data["measured"]) == ("toy", 2, 2)
    assert data["findings"][1]["verdict"] == "confirmed"
    data = json.loads(run("experiment", "all", "--quick", "--json", "--out", tmp_path, "--workers", 1).stdout)
    assert data["experiments"][0]["measured"] == 0


def test_a_broken_promise_is_told_by_the_exit_code(run, tmp_path: Path) -> None:
    assert run("experiment", "toy", "--scale", 1.5, "--out", tmp_path, "--workers", 1).exit_code == 4


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("toy", "--counts", "2,x"), "`counts` must be a whole number"),
        (("toy", "--counts", ""), "not empty"),
        (("toy", "--counts", "0"), "at least 1"),
        (("toy", "--counts", "1000", "--workers", "1"), "A toy must be small"),
        (("toy", "--size", "2"), "No such option: --size"),
        (("nothing",), "No such command 'nothing'"),
        (("toy", "--config", "none.toml"), "readable TOML"),
        (("toy", "--workers", "0"), "--workers"),
        (("toy", "--cluster", "nonsense"), "address of a Dask scheduler"),
    ],
)
def test_wrong_words_are_refused(run, tmp_path: Path, words: tuple[str, ...], message: str) -> None:
    result = run("experiment", *words, *(("--out", tmp_path) if words[0] == "toy" else ()))
    assert (result.exit_code, message in result.stderr) == (2, True), result.stderr


def test_a_section_for_no_experiment_is_refused(run, tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text("[toys]\nscale = 1.0\n")
    result = run("experiment", "all", "--config", tmp_path / "s.toml", "--out", tmp_path)
    assert (result.exit_code, "a section for no experiment: toys" in " ".join(result.stderr.split())) == (2, True)


def test_a_place_that_cannot_be_written_is_refused(run, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    result = run("experiment", "toy", "--quick", "--out", tmp_path / "file")
    assert (result.exit_code, "`out` must be a folder" in result.stderr) == (2, True)
