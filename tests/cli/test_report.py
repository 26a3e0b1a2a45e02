"""``attnforge report``: one page, where it is asked for."""

import json
from pathlib import Path


def test_writes_a_page_beside_the_model(run, model: Path) -> None:
    result = run("report", model, "--no-timing")
    assert result.exit_code == 0
    place = model.with_suffix(".html")
    text = place.read_text("utf-8")
    assert text.startswith("<!DOCTYPE html>")
    assert f"attnforge inspect {model.name}" in text
    assert str(place) in result.stderr.replace("\n", "")
    assert result.stdout == ""
    place.unlink()


def test_writes_where_it_is_told_and_says_so_as_json(run, tokens: Path, tmp_path: Path) -> None:
    place = tmp_path / "report.html"
    place.write_text("old")  # replaced, as compile does
    data = json.loads(run("report", tokens, "-o", place, "--json").stdout)
    assert data == {"file": str(tokens), "report": str(place), "bytes": place.stat().st_size}
    assert "on this machine" in place.read_text("utf-8")


def test_without_timing_the_page_is_the_same(run, plane: Path, tmp_path: Path) -> None:
    pages = [tmp_path / "a.html", tmp_path / "b.html"]
    for place in pages:
        assert run("report", plane, "-o", place, "--no-timing").exit_code == 0
    assert pages[0].read_bytes() == pages[1].read_bytes()


def test_the_help_says_what_files_do_not_hold(run) -> None:
    text = " ".join(run("report", "--help").stdout.split())
    assert "unless the target is a callable: files hold no code" in text


def test_a_page_ends_in_html(run, model: Path, tmp_path: Path) -> None:
    result = run("report", model, "-o", tmp_path / "report.safetensors")
    assert result.exit_code == 2
    assert "must end in .html or .htm" in result.stderr
    assert run("report", model, "-o", tmp_path / "none" / "report.html").exit_code == 2


def test_damaged_files_are_code_5(run, damaged: Path, tmp_path: Path) -> None:
    result = run("report", damaged, "-o", tmp_path / "report.html")
    assert result.exit_code == 5
    assert not (tmp_path / "report.html").exists()


def test_a_model_that_computes_nan_still_has_a_page_or_a_reason(run, overflowing: Path, tmp_path: Path) -> None:
    result = run("report", overflowing, "-o", tmp_path / "report.html", "--no-timing")
    assert result.exit_code == 0
    assert (tmp_path / "report.html").exists()
