"""``attnforge bench``: which benchmarks there are, what is refused, and that scripts are run with what was asked."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from attnforge.cli import bench

SCRIPT = '"""A toy. It says what it was given."""\nimport os, sys\nprint(sys.argv[1:], os.environ["OMP_NUM_THREADS"])\n'


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setattr(bench, "FOLDER", tmp_path)
    monkeypatch.setattr(bench, "SCRIPTS", ("toy", "broken"))
    (tmp_path / "toy.py").write_text(SCRIPT)
    (tmp_path / "broken.py").write_text('"""Fails."""\nraise SystemExit(3)\n')
    return tmp_path


def test_every_benchmark_is_listed_and_has_a_quick_run(run) -> None:
    listed = json.loads(run("bench", "--list", "--json").stdout)["benchmarks"]
    assert tuple(listed) == bench.SCRIPTS
    assert all(listed.values())
    assert all('"--quick"' in (bench.FOLDER / f"{name}.py").read_text() for name in listed)


def test_a_script_is_run_by_one_thread_with_what_was_asked(run, folder, capfd) -> None:
    assert run("bench", "toy", "--quick").exit_code == 0
    assert "['--quick'] 1" in capfd.readouterr().out
    assert list(json.loads(run("bench", "toy", "--json").stdout)["seconds"]) == ["toy"]


def test_failures_and_wrong_names_are_reported(run, folder, monkeypatch) -> None:
    assert run("bench", "broken").exit_code == 1
    assert "A benchmark is one of" in run("bench", "nonsense").stderr
    monkeypatch.setattr(bench, "FOLDER", folder / "absent")
    assert "checkout" in run("bench").stderr
