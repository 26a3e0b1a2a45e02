import re
from pathlib import Path

import pytest

import attnforge as af


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_the_main_job_proves_a_bound_and_writes_both_files(run, tmp_path: Path) -> None:
    result = run()
    assert result.exit_code == 0
    bound = re.search(r"proved: \|net\(x\) - f\(x\)\| <= (\S+) on the whole domain", result.stdout)
    assert bound is not None
    assert 0 < float(bound[1]) <= 1e-6
    assert {path.name for path in tmp_path.iterdir()} == {"attnforge-demo.safetensors", "attnforge-demo.png"}
    assert (tmp_path / "attnforge-demo.png").read_bytes().startswith(b"\x89PNG")
    saved = af.load("attnforge-demo.safetensors")
    assert saved.construction == "tensor_grid"
    assert saved.certificate.bound == pytest.approx(float(bound[1]), rel=1e-3)


@pytest.mark.parametrize(("found", "name"), [("/usr/bin/attnforge", "attnforge"), (None, "'.venv x/bin/attnforge'")])
def test_it_says_what_it_wrote_and_what_to_do_next(run, tmp_path: Path, monkeypatch, found, name: str) -> None:
    monkeypatch.setattr("shutil.which", lambda _: found)
    monkeypatch.setattr("sys.argv", [str(tmp_path / ".venv x/bin/attnforge")])
    stdout = run().stdout
    assert "wrote attnforge-demo.safetensors" in stdout
    assert "wrote attnforge-demo.png" in stdout
    assert f"  {name} inspect attnforge-demo.safetensors" in stdout
    assert f"  {name} measure attnforge-demo.safetensors" in stdout


def test_a_second_run_replaces_the_files(run, tmp_path: Path) -> None:
    (tmp_path / "attnforge-demo.safetensors").write_text("old")
    assert run().exit_code == 0
    assert af.load("attnforge-demo.safetensors").anchors > 2


def test_a_directory_in_the_way_is_named_before_anything_is_written(run, tmp_path: Path) -> None:
    (tmp_path / "attnforge-demo.png").mkdir()
    result = run()
    assert result.exit_code == 2
    assert "Got the directory attnforge-demo.png" in result.stderr
    assert not (tmp_path / "attnforge-demo.safetensors").exists()
