import csv
import io
import json
from pathlib import Path

import numpy as np
import pytest

import attnforge as af


def rows(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_csv_columns_go_by_name(run, plane: Path, tmp_path: Path) -> None:
    (tmp_path / "p.csv").write_text("y,x\n1,0.1\n\n0.25,-0.3\n")
    result = run("apply", plane, tmp_path / "p.csv")
    assert result.exit_code == 0
    wanted = af.load(plane)(np.array([[0.1, 1.0], [-0.3, 0.25]]))
    assert [(float(r["x"]), float(r["y"])) for r in rows(result.stdout)] == [(0.1, 1.0), (-0.3, 0.25)]
    assert [float(r["output"]) for r in rows(result.stdout)] == wanted.tolist()


def test_csv_without_header_goes_by_order_also_from_stdin(run, plane: Path) -> None:
    result = run("apply", plane, "-", input="0.1,1\n")
    assert rows(result.stdout) == [{"x": "0.1", "y": "1.0", "output": repr(float(af.load(plane)([0.1, 1.0])))}]


def test_output_by_suffix(run, plane: Path, tmp_path: Path) -> None:
    points = np.random.default_rng(0).uniform([-1, 0], [1, 2], size=(4, 5, 2))
    np.save(tmp_path / "p.npy", points)
    result = run("apply", plane, tmp_path / "p.npy", "-o", tmp_path / "v.npy")
    assert result.stdout == ""
    assert "wrote 20 values" in result.stderr
    np.testing.assert_array_equal(np.load(tmp_path / "v.npy", allow_pickle=False), af.load(plane)(points))
    run("apply", plane, tmp_path / "p.npy", "-o", tmp_path / "v.csv")
    found = [float(r["output"]) for r in rows((tmp_path / "v.csv").read_text())]
    assert found == af.load(plane)(points).ravel().tolist()


def test_json(run, model: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "p.npy", np.array([0.0, 0.5, -1.0]))
    data = json.loads(run("apply", model, tmp_path / "p.npy", "--json").stdout)
    assert data["values"] == af.load(model)(np.array([0.0, 0.5, -1.0])).tolist()
    data = json.loads(run("apply", model, tmp_path / "p.npy", "--json", "-o", tmp_path / "v.npy").stdout)
    assert data["output"] == str(tmp_path / "v.npy")
    assert data["shape"] == [3]
    assert "values" not in data


def test_batches_change_nothing(run, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    points = np.linspace(-1, 1, 100)
    np.save(tmp_path / "p.npy", points)
    monkeypatch.setattr("attnforge.cli.apply.SCORES", 100)  # 14 keys: 7 points at a time
    run("apply", model, tmp_path / "p.npy", "-o", tmp_path / "v.npy")
    np.testing.assert_allclose(np.load(tmp_path / "v.npy", allow_pickle=False), af.load(model)(points), rtol=1e-14)


def test_nan_is_never_an_answer(run, overflowing: Path) -> None:
    result = run("apply", overflowing, "-", input="0.3\n")
    assert result.exit_code == 4
    assert "finite outputs" in result.stderr
    assert result.stdout == ""


def test_hostile_names_of_inputs_are_refused_and_shown_harmless(run) -> None:
    result = run("compile", "clamp(x, 0, 1)", "--domain", "x=-1:1", "--domain", "[red]\x1b[31m=0:1")
    assert result.exit_code == 2
    assert "\x1b" not in result.output
    assert r"[red]\x1b[31m" in result.output


def test_an_input_may_be_called_inf(run, tmp_path: Path) -> None:
    af.compile("clamp(inf + x, 0, 1)", {"inf": (0, 1), "x": (0, 1)}).save(tmp_path / "f.safetensors")
    result = run("apply", tmp_path / "f.safetensors", "-", input="x,inf\n0.25,0.5\n")
    assert rows(result.stdout) == [{"inf": "0.5", "x": "0.25", "output": "0.75"}]


def test_inputs_without_names_and_several_outputs(run, tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    layers = torch.nn.Linear(2, 3, dtype=torch.float64), torch.nn.ReLU(), torch.nn.Linear(3, 2, dtype=torch.float64)
    net = af.constructions.relu_network(torch.nn.Sequential(*layers), af.Box([-1, -1], [1, 1]))
    net.save(tmp_path / "f.safetensors")
    result = run("apply", tmp_path / "f.safetensors", "-", input="x[1],x[0]\n0.5,-0.25\n")
    found = {name: float(value) for name, value in rows(result.stdout)[0].items()}
    assert list(found) == ["x[0]", "x[1]", "output[0]", "output[1]"]
    assert list(found.values()) == [-0.25, 0.5, *net(np.array([[-0.25, 0.5]]))[0].tolist()]
    assert "x[0] = 3.0 in row 1" in run("apply", tmp_path / "f.safetensors", "-", input="3,0\n").stderr
    assert "x[1] = " in run("measure", tmp_path / "f.safetensors", "--points", "100").stdout


def test_an_input_may_be_called_output(run, tmp_path: Path) -> None:
    af.compile("clamp(output, 0, 1)", {"output": (0, 1)}).save(tmp_path / "f.safetensors")
    result = run("apply", tmp_path / "f.safetensors", "-", input="0.5\n")
    assert rows(result.stdout) == [{"output": "0.5", "output_": "0.5"}]


def test_tokens(run, tokens: Path, tmp_path: Path) -> None:
    points = np.random.default_rng(0).uniform(-2, 2, size=(4, 3, 2))
    np.save(tmp_path / "p.npy", points)
    result = run("apply", tokens, tmp_path / "p.npy")
    header, *lines = list(csv.reader(io.StringIO(result.stdout)))
    assert header == ["output[0]", "output[1]", "output[2]"]
    np.testing.assert_array_equal(np.array(lines, dtype=float), af.load(tokens)(points))


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("x,y\n0,1\n0,nan\n", "y = nan in row 2 (line 3 of the file)"),
        ("x,y\n0,1\n\ninf,1\n", "x = inf in row 2 (line 4 of the file)"),
        ("0,1\n0,2.5\n3,1\n", "y = 2.5 in row 2 (line 2 of the file) (and 1 more like it)"),
        ("x,z\n0,1\n", "Got x, z in the header"),
        ("x,y,x\n0,1,2\n", "Got x, y, x in the header"),
        ("x\n0\n", "Got x in the header"),
        ("x,y\n0,1\n0\n", "Got 1 in row 2 (line 3 of the file)"),
        ("0,1\n0,one\n", "Got 'one' in row 2"),
        ("0,1_0\n", "Got '1_0' in row 1"),
        ("x,y\n", "at least one point"),
        ("", "at least one point"),
    ],
)
def test_wrong_csv_is_code_2_and_names_the_row(run, plane: Path, tmp_path: Path, text: str, complaint: str) -> None:
    (tmp_path / "p.csv").write_text(text)
    result = run("apply", plane, tmp_path / "p.csv")
    assert result.exit_code == 2
    assert complaint in result.stderr
    assert result.stdout == ""


@pytest.mark.parametrize(
    ("array", "complaint"),
    [
        (np.array([[0.0, 1.0], [0.0, np.nan]]), "y = nan in row [1] of the array"),
        (np.zeros((2, 3)), "shape (..., 2)"),
        (np.zeros((0, 2)), "at least one point"),
        (np.full((2, 2, 2), 1.5), "x = 1.5 in row [0, 0] of the array, counting from 0 (and 3 more"),
    ],
)
def test_wrong_npy_is_code_2(run, plane: Path, tmp_path: Path, array: np.ndarray, complaint: str) -> None:
    np.save(tmp_path / "p.npy", array)
    result = run("apply", plane, tmp_path / "p.npy")
    assert result.exit_code == 2
    assert complaint in result.stderr


def test_nothing_is_unpickled(run, plane: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "p.npy", np.array([{"x": 1}], dtype=object), allow_pickle=True)
    result = run("apply", plane, tmp_path / "p.npy")
    assert result.exit_code == 5
    assert "NumPy array of numbers" in result.stderr


def test_a_header_that_promises_too_much_costs_no_memory(run, plane: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "p.npy", np.zeros((10, 2)))
    data = (tmp_path / "p.npy").read_bytes().replace(b"(10, 2), }" + b" " * 11, b"(1000000000000, 2), }")
    assert b"1000000000000" in data
    (tmp_path / "p.npy").write_bytes(data)
    assert run("apply", plane, tmp_path / "p.npy").exit_code == 5


def test_unreadable_inputs_are_code_5(run, plane: Path, tmp_path: Path) -> None:
    (tmp_path / "latin.csv").write_bytes(b"x,y\n0,1\n# caf\xe9\n")
    np.save(tmp_path / "complex.npy", np.zeros((2, 2), dtype=complex))
    (tmp_path / "text.npy").write_text("x,y")
    for name in ("latin.csv", "complex.npy", "text.npy", "none.csv", "none.npy"):
        assert run("apply", plane, tmp_path / name).exit_code == 5, name


def test_tokens_take_no_csv(run, tokens: Path, tmp_path: Path) -> None:
    (tmp_path / "p.csv").write_text("0,1\n")
    result = run("apply", tokens, tmp_path / "p.csv")
    assert result.exit_code == 2
    assert "NPY files of shape (..., 3, 2)" in result.stderr


@pytest.mark.parametrize(("name", "complaint"), [("v.txt", ".csv or .npy"), (".", "Got the directory")])
def test_wrong_outputs_are_noticed_first(run, plane: Path, tmp_path: Path, name: str, complaint: str) -> None:
    result = run("apply", plane, tmp_path / "none.csv", "-o", tmp_path / name)
    assert result.exit_code == 2
    assert complaint in result.stderr
