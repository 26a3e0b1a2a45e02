import json
from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def _looks_are_milliseconds(clock):
    clock.tick = 1e-3


def test_an_honest_file_withstands(run, model: Path) -> None:
    result = run("measure", model, "--attack", "--seconds", "0.3")
    assert result.exit_code == 0
    assert "within the bound" in result.stdout
    assert "x = " in result.stdout
    assert "of the domain" in result.stdout
    assert result.stderr == ""  # no bar where nobody looks


def test_json(run, model: Path) -> None:
    result = run("measure", model, "--attack", "--seconds", "0.3", "--seed", "7", "--json")
    data = json.loads(result.stdout)
    assert (result.exit_code, data["within_bound"], data["seed"], data["seconds"]) == (0, True, 7, 0.3)
    assert 0 < data["error"] <= data["bound"]
    assert {"at", "evaluations", "starts", "boxes", "pruned", "largest_left", "status"} <= set(data)


def test_a_beaten_bound_is_code_4(run, forged: Path) -> None:
    result = run("measure", forged, "--attack", "--seconds", "0.3")
    assert result.exit_code == 4
    assert "ABOVE the bound" in result.stdout
    result = run("measure", forged, "--attack", "--seconds", "0.3", "--json")
    assert result.exit_code == 4
    assert json.loads(result.stdout)["within_bound"] is False


def test_a_network_that_computes_nan_is_code_4(run, overflowing: Path) -> None:
    result = run("measure", overflowing, "--attack", "--seconds", "0.3", "--json")
    data = json.loads(result.stdout)
    assert (result.exit_code, data["error"], data["within_bound"]) == (4, None, False)


def test_a_model_on_tokens(run, tokens: Path) -> None:
    data = json.loads(run("measure", tokens, "--attack", "--seconds", "0.3", "--json").stdout)
    assert (len(data["at"]), len(data["at"][0])) == (3, 2)
    assert data["pruned"] is None


def test_seconds_without_an_attack_are_refused(run, model: Path) -> None:
    result = run("measure", model, "--seconds", "5")
    assert result.exit_code == 2
    assert "add --attack" in result.stderr


@pytest.mark.parametrize("seconds", ["0", "-1", "1e9"])
def test_absurd_times_are_refused(run, model: Path, seconds: str) -> None:
    result = run("measure", model, "--attack", "--seconds", seconds)
    assert result.exit_code == 2
    assert "Invalid value for '--seconds'" in result.stderr


def test_not_a_number_of_seconds_is_refused(run, model: Path) -> None:
    result = run("measure", model, "--attack", "--seconds", "nan")
    assert result.exit_code == 2
    assert "seconds" in result.stderr
