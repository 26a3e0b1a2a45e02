"""``attnforge compile --table``, and the other verbs on what it makes."""

import json
from pathlib import Path

import numpy as np
import pytest

import attnforge as af

POINTS = np.random.default_rng(0).uniform(size=(80, 2))
VALUES = POINTS[:, 0] ** 2 + POINTS[:, 1]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("tables") / "data.csv"
    rows = [f"{x!r},some text,{y!r},{z!r}" for (x, y), z in zip(POINTS.tolist(), VALUES.tolist(), strict=True)]
    path.write_text("\n".join(["x,note,y,z", *rows]))
    return path


def test_every_verb_works_on_a_table(run, data: Path, tmp_path: Path) -> None:
    file, figure, asked = tmp_path / "f.safetensors", tmp_path / "f.png", tmp_path / "p.csv"
    made = run("compile", "--table", data, "--inputs", "x, y", "--tol", "1e-3", "-o", file, "--figure", figure)
    assert made.exit_code == 0, made.stderr
    assert "table of 80 points of 2 inputs" in made.stdout
    assert "80 listed points only" in made.stdout
    assert figure.exists()
    measured = json.loads(run("measure", file, "--json").stdout)
    assert measured["evaluations"] == 80
    assert measured["sup"] <= 1e-3
    assert "table" in run("inspect", file).stdout
    certified = json.loads(run("certify", file, "--json").stdout)
    assert certified["recomputed"]["assumptions"] == certified["stored"]["assumptions"]
    asked.write_text("x,y\n0.5,0.5\n")
    assert float(run("apply", file, asked).stdout.split(",")[-1]) == pytest.approx(0.75, abs=1e-2)


def test_columns_are_chosen_by_name(run, data: Path) -> None:
    found = json.loads(run("compile", "--table", data, "--inputs", "y,x", "--outputs", "z", "--json").stdout)
    assert found["domain"]["names"] == ["y", "x"]
    assert found["domain"]["lower"] == [POINTS[:, 1].min(), POINTS[:, 0].min()]


def test_npy_and_stdin(run, tmp_path: Path) -> None:
    x = np.linspace(0, 1, 20)
    np.save(tmp_path / "t.npy", np.column_stack([x, np.exp(x)]))
    file = tmp_path / "f.safetensors"
    assert run("compile", "--table", tmp_path / "t.npy", "--tol", "1e-7", "-o", file).exit_code == 0
    assert float(af.load(file)(0.5)) == pytest.approx(np.exp(0.5), abs=1e-5)
    assert (
        json.loads(run("compile", "--table", "-", "--json", input="0,1\n1,2\n2,5\n").stdout)["construction"] == "table"
    )


def test_a_domain_must_be_the_box_of_the_points(run, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("x,y\n0,1\n1,2\n2,5\n")
    assert run("compile", "--table", tmp_path / "t.csv", "--domain", "x=0:2").exit_code == 0
    refused = run("compile", "--table", tmp_path / "t.csv", "--domain", "x=0:3")
    assert refused.exit_code != 0
    assert "nothing beyond its points" in refused.stderr


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ([], "Missing argument 'EXPR'. Give a function in quotes, or --table FILE."),
        (["x", "--table", "t.csv"], "Got both EXPR and --table t.csv"),
        (["x", "--domain", "x=0:1", "--inputs", "x"], "choose columns of a table. Got EXPR"),
        (["--table", "missing.csv"], "missing.csv: No such file"),
        (["--table", "t.xlsx"], "must end in .csv"),
    ],
)
def test_what_is_wrong_is_said(run, words: list[str], complaint: str) -> None:
    result = run("compile", *words)
    assert result.exit_code != 0
    assert complaint in result.stderr
    assert "Traceback" not in result.stderr


def test_unknown_columns_are_named(run, data: Path) -> None:
    assert "x, note, y, z" in run("compile", "--table", data, "--inputs", "q").stderr
