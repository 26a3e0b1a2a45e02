"""``attnforge compile --table``: columns by name from every kind of file, and every fault named with its place."""

import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import attnforge as af

Read = Callable[..., tuple[list, list, tuple[str, ...]]]


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    """A file with this content, by default a CSV one."""

    def save(content: str | bytes | np.ndarray, name: str = "t.csv") -> Path:
        path = tmp_path / name
        if isinstance(content, np.ndarray):
            np.save(path, content, allow_pickle=True)
        else:
            path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return save


@pytest.fixture
def read(run, data, tmp_path: Path) -> Read:
    """The points, the values and the names of the inputs of a table that was compiled and saved."""

    def found(path: Path, *options: str, **settings: object) -> tuple[list, list, tuple[str, ...]]:
        told = data("compile", "--table", path, *options, "-o", tmp_path / "f.safetensors", **settings)
        table = af.load(tmp_path / "f.safetensors").target
        return table.points.tolist(), np.asarray(table.values(table.points)).tolist(), tuple(told["domain"]["names"])

    return found


@pytest.fixture
def refused(run, monkeypatch, tmp_path: Path) -> Callable[..., str]:
    """What is said of a table that cannot be read: in a line or three, with a code and without a file."""
    monkeypatch.chdir(tmp_path)

    def complaint(path: Path, *options: str) -> str:
        result = run("compile", "--table", path, *options, "-o", "made.safetensors")
        assert result.exit_code in (2, 3, 5), result.output
        assert "Traceback" not in result.stderr
        assert not (tmp_path / "made.safetensors").exists()
        return " ".join(result.stderr.split())

    return complaint


def test_every_verb_works_on_a_table(run, data, write, tmp_path: Path) -> None:
    points = np.random.default_rng(0).uniform(size=(80, 2))
    rows = [f"{x!r},some text,{y!r},{x**2 + y!r}" for x, y in points.tolist()]
    table, file, figure = write("\n".join(["x,note,y,z", *rows])), tmp_path / "f.safetensors", tmp_path / "f.png"
    made = run("compile", "--table", table, "--inputs", "x, y", "--tol", "1e-3", "-o", file, "--figure", figure)
    assert made.exit_code == 0, made.stderr
    assert figure.exists()
    measured = data("measure", file)
    assert (measured["evaluations"], measured["sup"] <= 1e-3) == (80, True)
    certified = data("certify", file, code=4)  # nothing between the points is proved
    assert certified["recomputed"]["assumptions"] == certified["stored"]["assumptions"]
    assert "table" in run("inspect", file).stdout
    asked = run("apply", file, "-", input="x,y\n0.5,0.5\n").stdout
    assert float(asked.split(",")[-1]) == pytest.approx(0.75, abs=1e-2)


@pytest.mark.parametrize(
    "text",
    [
        "x,y,f\n0,1,2\n3,4,-5e-1\n",
        "x;y;f\n0;1;2\n3;4;-.5",
        "x\ty\tf\n0\t1\t2\n3\t4\t-0.5\n",
        "\ufeffx,y,f\r\n0,1,2\r\n\r\n3,4,-.5\r\n",
        "\n\n x , y , f \n 0, 1 ,2\n,,\n3,4,-.5",
        '"x","y","f"\n"0",1,2\n3,4,-.5\n',
    ],
)
@pytest.mark.parametrize("name", ["t.csv", "-"])
def test_the_last_column_is_the_value_whatever_separates(read, write, text: str, name: str) -> None:
    settings = {"input": text.encode()} if name == "-" else {}
    path = Path("-") if settings else write(text)
    assert read(path, **settings) == ([[0.0, 1.0], [3.0, 4.0]], [2.0, -0.5], ("x", "y"))


def test_a_separator_in_a_quoted_name_separates_nothing(read, write) -> None:
    assert read(write('"x;1\t","y"\n0,1\n3,4\n')) == ([[0.0], [3.0]], [1.0, 4.0], ("x1",))
    for name in ("t.txt", "t.tsv", "t.CSV"):
        assert read(write("x\tf\n0\t1\n2\t3\n", name)) == ([[0.0], [2.0]], [1.0, 3.0], ("x",))


def test_columns_are_chosen_by_name_or_by_index(read, write) -> None:
    path = write("a,label,b,c,d\n1,p,2,3,4\n5,q,6,7,8\n")
    chosen = read(path, "--inputs", "c,a", "--outputs", "b,d")
    assert chosen == ([[3.0, 1.0], [7.0, 5.0]], [[2.0, 4.0], [6.0, 8.0]], ("c", "a"))
    assert read(path, "--inputs", "b")[1] == [4.0, 8.0]  # the last one
    assert read(write("f,x,y\n1,2,3\n4,5,6\n"), "--outputs", "f")[::2] == ([[2.0, 3.0], [5.0, 6.0]], ("x", "y"))
    nameless = write("1,2,3\n4,5,6\n")
    assert read(nameless) == ([[1.0, 2.0], [4.0, 5.0]], [3.0, 6.0], ("x1", "x2"))
    assert read(nameless, "--inputs", "2", "--outputs", "0") == ([[3.0], [6.0]], [1.0, 4.0], ("x1",))


NAMES = {
    "x 1,y,f": ["x1", "y"], "y,lambda,f": ["y", "x2"], "_a,_b,f": ["x1", "x2"], "x2,a b,f": ["x2", "x3"],
    "a b,x1,f": ["x2", "x1"], "a b,b c,x2,f": ["x1", "x3", "x2"], "x[0],x[1],f": ["x[0]", "x[1]"], ",x,f": ["x1", "x"],
}  # fmt: skip


@pytest.mark.parametrize(("header", "names"), NAMES.items())
def test_names_that_cannot_name_inputs_are_replaced(data, write, header: str, names: list[str]) -> None:
    rows = "\n".join(",".join([number] * (header.count(",") + 1)) for number in "12")
    assert data("compile", "--table", write(f"{header}\n{rows}\n"))["domain"]["names"] == names


@pytest.mark.parametrize("dtype", ["<f8", "<f4", "<i8", ">f8"])
def test_npy(read, write, dtype: str) -> None:
    numbers = np.array([[0.5, 1, 2], [3, 4, 5]]).astype(dtype)
    points, values, names = read(write(numbers, "t.npy"))
    assert (points, values, names) == (numbers[:, :2].tolist(), numbers[:, 2].tolist(), ("x1", "x2"))


def test_a_domain_must_be_the_box_of_the_points(run, write, refused) -> None:
    path = write("x,y\n0,1\n1,2\n2,5\n")
    assert run("compile", "--table", path, "--domain", "x=0:2").exit_code == 0
    assert "3" in refused(path, "--domain", "x=0:3")


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("", "t.csv"),
        ("\n , \n", "t.csv"),
        ("x,f\n", "t.csv"),
        ("x,f\n0,1\n\n0,1,2\n", "3 in row 2 (line 4 of the file)"),
        ("x,f\n0\n", "1 in row 1 (line 2 of the file)"),
        ("0,1\n1\n", "1 in row 2 (line 2 of the file)"),
        ("x,f\n0,1\n2,abc\n", "'abc' in column 'f', row 2 (line 3 of the file)"),
        ("0,1\n2,abc\n", "'abc' in column '1', row 2 (line 2 of the file)"),
        ("x;f\n0,5;1\n", "'0,5' in column 'x'"),
        ("x,f\n0,1\n,2\n", "'' in column 'x', row 2"),
        ("x,f\n1_000,2\n", "'1_000'"),
        ("x,f\n0,1\n1,nan\n", "nan in column 'f', row 2 (line 3 of the file)"),
        ("x,f\n-inf,1\n", "-inf in column 'x', row 1"),
        ("x,f\n1e999,1\n", "inf in column 'x', row 1"),
        ("0.5,oops\n1,2\n", "'oops' beside '0.5' in line 1"),
        ("x,x,f\n1,2,3\n", "'x' twice"),
        ("x\n1\n2\n", "Got"),
        ('x,f\n"0,1\n', "line 2"),
        (b"x,f\n\xff,1\n", "t.csv"),
    ],
)
def test_faults_are_named_with_their_place(refused, write, text: str | bytes, place: str) -> None:
    assert place in refused(write(text))


ODD = [
    "--inputs=z",
    "--outputs=0",
    "--inputs=x,x",
    "--inputs=x,f --outputs=f",
    "--outputs=x,y,f",
    "--inputs=",
    "--outputs=",
]


@pytest.mark.parametrize("options", ODD)
def test_columns_are_chosen_once_and_exist(refused, write, options: str) -> None:
    assert "error: " in refused(write("x,y,f\n0,1,2\n"), *options.split())


@pytest.mark.parametrize("name", ["x", "-1", "3", "00"])
def test_an_unknown_index_lists_the_known(refused, write, name: str) -> None:
    assert "0, 1, 2" in refused(write("0,1,2\n"), f"--inputs={name}")


@pytest.mark.parametrize("name", ["t.csv", "t.npy", "t.parquet"])
def test_a_missing_file_a_folder_and_an_empty_file(refused, tmp_path: Path, name: str) -> None:
    pytest.importorskip("pyarrow") if name == "t.parquet" else None
    path = tmp_path / name
    assert name in refused(path)
    path.write_bytes(b"")
    assert name in refused(path)
    path.unlink()
    path.mkdir()
    assert name in refused(path)


SHAPES = [np.zeros(shape) for shape in (3, (2, 2, 2), (0, 2), (3, 1))]
CELLS = [np.array([[1.0, 2], [3, np.nan]]), np.zeros((2, 2), dtype=complex), np.array([[1, "a"]], dtype=object)]


@pytest.mark.parametrize("array", [*SHAPES, *CELLS])
def test_arrays_that_are_no_table(refused, write, array: np.ndarray) -> None:
    assert "Got" in refused(write(array, "t.npy"))


def test_too_many_rows_are_refused_before_the_rest_is_read(run, refused, write, monkeypatch) -> None:
    monkeypatch.setattr("attnforge.cli.table_files.MAX_POINTS", 3)
    for path in (write("x,f\n" + "0,1\n" * 4 + "not,numbers\n"), write(np.zeros((4, 2)), "t.npy")):
        assert "at most 3 rows" in refused(path)
    assert run("compile", "--table", write("x,f\n0,1\n1,1\n2,1\n")).exit_code == 0


# Parquet


@pytest.fixture
def parquet(tmp_path: Path) -> Callable[..., Path]:
    """A Parquet file with these columns."""
    arrow, writer = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")

    def save(**columns: object) -> Path:
        writer.write_table(arrow.table(columns), tmp_path / "t.parquet")
        return tmp_path / "t.parquet"

    return save


def test_parquet_columns(read, parquet) -> None:
    columns = {"x": [0, 1], "a.b": [2.5, 3.5], "label": ["p", "q"], "f": np.array([4, 5], dtype=np.float32)}
    path = parquet(**columns)
    assert read(path, "--inputs", "a.b,x") == ([[2.5, 0.0], [3.5, 1.0]], [4.0, 5.0], ("x1", "x"))
    assert read(path, "--inputs", "x", "--outputs", "f,a.b")[1] == [[4.0, 2.5], [5.0, 3.5]]
    row_labels = {"x": [0, 1], "f": [2, 3], "__index_level_0__": [7, 8]}  # as pandas writes them
    assert read(parquet(**row_labels)) == ([[0.0], [1.0]], [2.0, 3.0], ("x",))


@pytest.mark.parametrize(
    ("columns", "got"),
    [
        ({"x": [0.0, 1.0], "f": ["a", "b"]}, "string in column 'f'"),
        ({"x": [0.0, 1.0], "f": [True, False]}, "bool in column 'f'"),
        ({"x": [0.0, 1.0], "f": [[1.0], [2.0]]}, "list<"),
        ({"x": [0.0, 1.0], "f": [1.0, None]}, "nan in column 'f', row 1"),
        ({"x": [0.0, 1.0], "f": [1.0, np.inf]}, "inf in column 'f', row 1"),
        ({"x": [0, 2**60 + 1], "f": [1.0, 2.0]}, "Got"),
        ({"x": np.zeros(0), "f": np.zeros(0)}, "Got"),
        ({"x": [1.0, 2.0]}, "Got"),
    ],
)
def test_parquet_faults(refused, parquet, columns: dict[str, object], got: str) -> None:
    assert got in refused(parquet(**columns))


def test_parquet_is_capped_and_damage_is_noticed(refused, parquet, monkeypatch: pytest.MonkeyPatch) -> None:
    path = parquet(name=np.arange(4.0), f=np.arange(4.0))
    whole = path.read_bytes()
    for damaged in (whole[: len(whole) // 2], whole.replace(b"name", b"n\xffme")):
        path.write_bytes(damaged)
        assert "t.parquet" in refused(path)
    path.write_bytes(whole)
    monkeypatch.setattr("attnforge.cli.table_files.MAX_POINTS", 3)
    assert "at most 3 rows" in refused(path)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert "attnforge[parquet]" in refused(path)
