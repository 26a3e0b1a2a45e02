import json
from pathlib import Path

import pytest

import attnforge as af


def test_an_honest_file_is_within_its_bound(run, model: Path) -> None:
    result = run("measure", model, "--points", "2000")
    assert result.exit_code == 0
    assert "within the bound" in result.stdout
    assert "x = " in result.stdout
    assert result.stderr == ""  # no bar where nobody looks


def test_json_is_what_the_library_finds(run, model: Path) -> None:
    data = json.loads(run("measure", model, "--points", "500", "--seed", "7", "--json").stdout)
    found = af.measure(af.load(model), points=500, seed=7)
    assert (data["sup"], data["rms"], data["at"]) == (found.sup, found.rms, found.at.tolist())
    assert data["within_bound"] is True
    assert data["sup"] <= data["bound"]


def test_an_error_above_the_bound_is_code_4(run, forged: Path) -> None:
    result = run("measure", forged, "--points", "500")
    assert result.exit_code == 4
    assert "ABOVE the bound" in result.stdout
    result = run("measure", forged, "--points", "500", "--json")
    assert result.exit_code == 4
    assert json.loads(result.stdout)["within_bound"] is False


def test_a_network_that_computes_nan_is_code_4(run, overflowing: Path) -> None:
    result = run("measure", overflowing, "--points", "500", "--json")
    assert result.exit_code == 4
    assert json.loads(result.stdout)["within_bound"] is False


def test_a_model_on_tokens(run, tokens: Path) -> None:
    data = json.loads(run("measure", tokens, "--points", "300", "--json").stdout)
    assert (len(data["at"]), len(data["at"][0])) == (3, 2)


@pytest.mark.parametrize("option", [["--points", "0"], ["--points", "99999999999"], ["--seed", "-1"]])
def test_absurd_numbers_are_refused_at_once(run, model: Path, option: list[str]) -> None:
    result = run("measure", model, *option)
    assert result.exit_code == 2
    assert f"Invalid value for '{option[0]}'" in result.stderr
