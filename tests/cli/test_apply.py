"""``attnforge apply``: points from files and pipes, values back, and every wrong point named with its row."""

import csv
import io
from pathlib import Path

import numpy as np
import pytest

import attnforge as af


def rows(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_csv_columns_go_by_name_and_without_header_by_order(run, plane: Path) -> None:
    named = rows(run("apply", plane, "-", input="y,x\n1,0.1\n\n0.25,-0.3\n").stdout)
    ordered = rows(run("apply", plane, "-", input="0.1,1\n-0.3,0.25\n").stdout)
    assert named == ordered
    assert [(float(row["x"]), float(row["y"])) for row in named] == [(0.1, 1.0), (-0.3, 0.25)]
    assert [float(row["output"]) for row in named] == af.load(plane)([[0.1, 1.0], [-0.3, 0.25]]).tolist()


def test_output_by_suffix_and_as_data(run, data, plane: Path, tmp_path: Path) -> None:
    points = np.random.default_rng(0).uniform([-1, 0], [1, 2], size=(4, 5, 2))
    wanted = af.load(plane)(points)
    np.save(tmp_path / "p.npy", points)
    made = run("apply", plane, tmp_path / "p.npy", "-o", tmp_path / "v.npy")
    assert (made.stdout, "20" in made.stderr) == ("", True)
    np.testing.assert_array_equal(np.load(tmp_path / "v.npy", allow_pickle=False), wanted)
    told = data("apply", plane, tmp_path / "p.npy", "-o", tmp_path / "v.csv")
    assert (told["output"], told["shape"], "values" in told) == (str(tmp_path / "v.csv"), [4, 5], False)
    assert [float(row["output"]) for row in rows((tmp_path / "v.csv").read_text())] == wanted.ravel().tolist()
    assert data("apply", plane, tmp_path / "p.npy")["values"] == wanted.tolist()


def test_batches_change_nothing(run, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    points = np.linspace(-1, 1, 100)
    np.save(tmp_path / "p.npy", points)
    monkeypatch.setattr("attnforge.cli.apply.SCORES", 100)  # 14 keys: 7 points at a time
    run("apply", model, tmp_path / "p.npy", "-o", tmp_path / "v.npy")
    np.testing.assert_allclose(np.load(tmp_path / "v.npy", allow_pickle=False), af.load(model)(points), rtol=1e-14)


def test_nan_is_never_an_answer(run, overflowing: Path) -> None:
    result = run("apply", overflowing, "-", input="0.3\n")
    assert (result.exit_code, result.stdout) == (4, "")


@pytest.mark.parametrize(
    ("formula", "domain", "text", "answer"),
    [
        ("clamp(inf + x, 0, 1)", "inf=0:1,x=0:1", "x,inf\n0.25,0.5\n", {"inf": "0.5", "x": "0.25", "output": "0.75"}),
        ("clamp(output, 0, 1)", "output=0:1", "0.5\n", {"output": "0.5", "output_": "0.5"}),
    ],
)
def test_inputs_may_have_names_of_ours(run, tmp_path: Path, formula, domain, text, answer) -> None:
    run("compile", formula, "--domain", domain, "-o", tmp_path / "f.safetensors")
    assert rows(run("apply", tmp_path / "f.safetensors", "-", input=text).stdout) == [answer]


def test_inputs_without_names_and_several_outputs(run, saved) -> None:
    torch = pytest.importorskip("torch")
    layers = torch.nn.Linear(2, 3, dtype=torch.float64), torch.nn.ReLU(), torch.nn.Linear(3, 2, dtype=torch.float64)
    net = af.constructions.relu_network(torch.nn.Sequential(*layers), af.Box([-1, -1], [1, 1]))
    file = saved("nameless", net)
    found = rows(run("apply", file, "-", input="x[1],x[0]\n0.5,-0.25\n").stdout)[0]
    assert list(found) == ["x[0]", "x[1]", "output[0]", "output[1]"]
    assert [float(value) for value in found.values()] == [-0.25, 0.5, *net(np.array([[-0.25, 0.5]]))[0].tolist()]
    assert "x[0] = 3.0 in row 1" in run("apply", file, "-", input="3,0\n").stderr
    assert "x[1] = " in run("measure", file, "--points", "100").stdout


def test_tokens(run, tokens: Path, tmp_path: Path) -> None:
    points = np.random.default_rng(0).uniform(-2, 2, size=(4, 3, 2))
    np.save(tmp_path / "p.npy", points)
    header, *lines = csv.reader(io.StringIO(run("apply", tokens, tmp_path / "p.npy").stdout))
    assert header == ["output[0]", "output[1]", "output[2]"]
    np.testing.assert_array_equal(np.array(lines, dtype=float), af.load(tokens)(points))
    assert run("apply", tokens, "-", input="0,1\n").exit_code == 2  # no table has three axes


@pytest.mark.parametrize(
    ("text", "got"),
    [
        ("x,y\n0,1\n0,nan\n", "y = nan in row 2 (line 3 of the file)"),
        ("x,y\n0,1\n\ninf,1\n", "x = inf in row 2 (line 4 of the file)"),
        ("0,1\n0,2.5\n3,1\n", "y = 2.5 in row 2 (line 2 of the file) (and 1 more like it)"),
        ("x,z\n0,1\n", "x, z"),
        ("x,y,x\n0,1,2\n", "x, y, x"),
        ("x\n0\n", "x in"),
        ("x,y\n0,1\n0\n", "1 in row 2 (line 3 of the file)"),
        ("0,1\n0,one\n", "'one' in row 2"),
        ("0,1_0\n", "'1_0' in row 1"),
        ("x,y\n", ""),
        ("", ""),
        (np.array([[0.0, 1.0], [0.0, np.nan]]), "y = nan in row [1] of the array"),
        (np.zeros((2, 3)), "shape (2, 3)"),
        (np.zeros((0, 2)), ""),
        (np.full((2, 2, 2), 1.5), "x = 1.5 in row [0, 0] of the array, counting from 0 (and 3 more"),
    ],
)
def test_wrong_points_are_code_2_and_named_with_their_row(run, plane: Path, tmp_path: Path, text, got: str) -> None:
    path = tmp_path / ("p.csv" if isinstance(text, str) else "p.npy")
    path.write_text(text) if isinstance(text, str) else np.save(path, text)
    result = run("apply", plane, path)
    assert (result.exit_code, result.stdout) == (2, "")
    assert f"Got {got}" in result.stderr


def test_what_cannot_be_read_is_code_5_and_nothing_is_unpickled(run, plane: Path, tmp_path: Path) -> None:
    (tmp_path / "latin.csv").write_bytes(b"x,y\n0,1\n# caf\xe9\n")
    (tmp_path / "text.npy").write_text("x,y")
    np.save(tmp_path / "complex.npy", np.zeros((2, 2), dtype=complex))
    np.save(tmp_path / "pickled.npy", np.array([{"x": 1}], dtype=object), allow_pickle=True)
    np.save(tmp_path / "huge.npy", np.zeros((10, 2)))
    data = (tmp_path / "huge.npy").read_bytes().replace(b"(10, 2), }" + b" " * 11, b"(1000000000000, 2), }")
    assert b"1000000000000" in data  # a header that promises too much costs no memory
    (tmp_path / "huge.npy").write_bytes(data)
    for name in ("latin.csv", "text.npy", "complex.npy", "pickled.npy", "huge.npy", "none.csv", "none.npy"):
        assert run("apply", plane, tmp_path / name).exit_code == 5, name


@pytest.mark.parametrize("name", ["v.txt", "."])
def test_wrong_outputs_are_noticed_first(run, plane: Path, tmp_path: Path, name: str) -> None:
    assert run("apply", plane, tmp_path / "none.csv", "-o", tmp_path / name).exit_code == 2
