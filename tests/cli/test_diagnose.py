import json
from pathlib import Path

import pytest

import attnforge as af


@pytest.fixture
def soft(tmp_path: Path) -> Path:
    path = tmp_path / "soft.safetensors"
    af.constructions.truncated_linear([1.0], 0, -1, 1, anchors=21, sharpness=5.0).save(path)
    return path


def test_a_healthy_file(run, model: Path) -> None:
    result = run("diagnose", model, "--points", "256")
    assert result.exit_code == 0, result.stdout
    assert result.stdout.startswith("healthy")


def test_a_fault_is_code_8_and_says_what_to_do(run, soft: Path) -> None:
    result = run("diagnose", soft)
    assert result.exit_code == 8
    assert "FAULT: uniform attention" in result.stdout
    assert "remedy" in result.stdout


def test_json(run, soft: Path) -> None:
    result = run("diagnose", soft, "--json", "--seed", "3")
    data = json.loads(result.stdout)
    assert result.exit_code == 8
    assert data["healthy"] is False
    assert data["findings"][0]["signature"] == "uniform attention"
    assert data["seed"] == 3


def test_another_dtype(run, tmp_path: Path) -> None:
    path = tmp_path / "many.safetensors"
    af.constructions.truncated_linear([1.0], 0, 2, 4, anchors=400).save(path)
    assert run("diagnose", path).exit_code == 0
    result = run("diagnose", path, "--dtype", "float16")
    assert result.exit_code == 8
    assert "lost argmax" in result.stdout


def test_wrong_words_and_files(run, model: Path, damaged: Path) -> None:
    assert run("diagnose", model, "--dtype", "float8").exit_code != 0
    assert run("diagnose", model, "--points", "0").exit_code == 2
    assert run("diagnose", damaged).exit_code == 5


def test_a_file_that_computes_nan(run, overflowing: Path) -> None:
    result = run("diagnose", overflowing, "--json")
    assert result.exit_code == 8
    assert "score overflow" in [f["signature"] for f in json.loads(result.stdout)["findings"]]


def test_a_model_of_a_callable(run, tmp_path: Path) -> None:
    path = tmp_path / "wave.safetensors"
    af.constructions.max_affine(lambda x: x[..., 0] ** 2, af.Box(0, 1, shape=(1,)), cells=8, lipschitz=2).save(path)
    result = run("diagnose", path, "--json")
    assert result.exit_code == 0, result.stdout
    assert "not stored" in json.loads(result.stdout)["unknown"][0]
