"""Tables from files: columns by name, and every fault named with its place."""

import io
import sys
from pathlib import Path

import numpy as np
import pytest

from attnforge.cli.table_files import read_table
from attnforge.errors import AttnforgeError, FileFormatError, TargetError
from attnforge.targets import as_table


@pytest.fixture
def write(tmp_path: Path):
    """A file with this content, by default a CSV one."""

    def save(content: str | bytes, name: str = "t.csv") -> Path:
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return save


def test_the_last_column_is_the_value(write) -> None:
    points, values, names = read_table(write("x,y,f\n0,1,2\n3,4,-5e-1\n"), None, None)
    assert points.tolist() == [[0.0, 1.0], [3.0, 4.0]]
    assert values.tolist() == [2.0, -0.5]
    assert points.dtype == values.dtype == np.float64
    assert names == ("x", "y")


@pytest.mark.parametrize(
    "text",
    [
        "x,y,f\n0,1,2\n3,4,5\n",
        "x;y;f\n0;1;2\n3;4;5\n",
        "x\ty\tf\n0\t1\t2\n3\t4\t5\n",
        "\ufeffx,y,f\r\n0,1,2\r\n\r\n3,4,5\r\n",
        "\n\n x , y , f \n 0, 1 ,2\n,,\n3,4,5",
        '"x","y","f"\n"0",1,2\n3,4,5\n',
        "x;y;f\n0;1;2\n3;4;5",
    ],
)
def test_separators_quotes_and_blank_lines(write, text: str) -> None:
    points, values, names = read_table(write(text), None, None)
    assert (points.tolist(), values.tolist(), names) == ([[0.0, 1.0], [3.0, 4.0]], [2.0, 5.0], ("x", "y"))


def test_a_separator_in_a_quoted_name_separates_nothing(write) -> None:
    points, values, names = read_table(write('"x;1\t","y"\n0,1\n3,4\n'), None, None)
    assert (points.tolist(), values.tolist(), names) == ([[0.0], [3.0]], [1.0, 4.0], ("x1",))


def test_endings_of_text_files_and_stdin(write, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("t.txt", "t.tsv", "t.CSV"):
        assert read_table(write("x\tf\n0\t1\n", name), None, None)[1].tolist() == [1.0]
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"x,f\n0,1\n")))
    assert read_table(Path("-"), None, None)[1].tolist() == [1.0]


def test_columns_by_name_in_the_order_asked(write) -> None:
    path = write("a,label,b,c,d\n1,p,2,3,4\n5,q,6,7,8\n")
    points, values, names = read_table(path, ["c", "a"], ["b", "d"])
    assert points.tolist() == [[3.0, 1.0], [7.0, 5.0]]
    assert values.tolist() == [[2.0, 4.0], [6.0, 8.0]]
    assert names == ("c", "a")
    assert read_table(path, ["b"], None)[1].tolist() == [4.0, 8.0]
    with pytest.raises(TargetError, match=r"Got 'p' in column 'label', row 1 \(line 2 of the file\)"):
        read_table(path, None, ["a"])


def test_all_other_columns_are_inputs(write) -> None:
    points, values, names = read_table(write("f,x,y\n1,2,3\n4,5,6\n"), None, ["f"])
    assert (points.tolist(), values.tolist(), names) == ([[2.0, 3.0], [5.0, 6.0]], [1.0, 4.0], ("x", "y"))


def test_without_a_header_columns_go_by_index(write) -> None:
    path = write("1,2,3\n4,5,6\n")
    points, values, names = read_table(path, None, None)
    assert (points.tolist(), values.tolist(), names) == ([[1.0, 2.0], [4.0, 5.0]], [3.0, 6.0], ("x1", "x2"))
    points, values, names = read_table(path, ["2"], ["0"])
    assert (points.tolist(), values.tolist(), names) == ([[3.0], [6.0]], [1.0, 4.0], ("x1",))


@pytest.mark.parametrize(
    ("header", "names"),
    [
        ("x 1,y,f", ("x1", "y")),
        ("y,lambda,f", ("y", "x2")),
        ("_a,_b,f", ("x1", "x2")),
        ("x2,a b,f", ("x2", "x3")),
        ("a b,x1,f", ("x2", "x1")),
        ("a b,b c,x2,f", ("x1", "x3", "x2")),
        ("x[0],x[1],f", ("x[0]", "x[1]")),
        (",x,f", ("x1", "x")),
    ],
)
def test_names_that_cannot_name_inputs_are_replaced(write, header: str, names: tuple[str, ...]) -> None:
    row = ",".join("1" for _ in header.split(","))
    assert read_table(write(f"{header}\n{row}\n"), None, None)[2] == names


def test_npy(tmp_path: Path) -> None:
    data = np.random.default_rng(0).normal(size=(5, 3))
    for dtype in (np.float64, np.float32, np.int64, ">f8"):
        np.save(tmp_path / "t.npy", data.astype(dtype))
        points, values, names = read_table(tmp_path / "t.npy", None, None)
        np.testing.assert_array_equal(points, data.astype(dtype)[:, :2])
        np.testing.assert_array_equal(values, data.astype(dtype)[:, 2])
        assert points.dtype == values.dtype == np.float64
        assert names == ("x1", "x2")
    assert read_table(tmp_path / "t.npy", ["2"], ["0", "1"])[1].shape == (5, 2)


def test_what_is_read_is_a_table(write) -> None:
    points, values, names = read_table(write("x,y,f\n0,0,1\n0,1,2\n2,1,4\n2,0,3\n"), None, None)
    table = as_table((points, values), {"y": (0, 1), "x": (0, 2)}, names)
    assert table.describe() == "table of 4 points of 2 inputs on a 2 x 2 grid"
    assert table.grid.values[..., 0].tolist() == [[1.0, 2.0], [3.0, 4.0]]


@pytest.mark.parametrize(
    ("text", "kind", "reason"),
    [
        ("", FileFormatError, r"must hold rows of numbers. Got none in"),
        ("\n , \n", FileFormatError, "must hold rows of numbers"),
        ("x,f\n", FileFormatError, "must hold rows of numbers"),
        ("x,f\n0,1\n\n0,1,2\n", TargetError, r"must have 2 columns, as the first has. Got 3 in row 2 \(line 4 of"),
        ("x,f\n0\n", TargetError, r"Got 1 in row 1 \(line 2 of the file\)"),
        ("0,1\n1\n", TargetError, r"Got 1 in row 2 \(line 2 of the file\)"),
        ("x,f\n0,1\n2,abc\n", TargetError, r"must be a number.* Got 'abc' in column 'f', row 2 \(line 3 of the file\)"),
        ("0,1\n2,abc\n", TargetError, r"Got 'abc' in column '1', row 2 \(line 2 of the file\)"),
        ("x;f\n0,5;1\n", TargetError, r"with a decimal point. Got '0,5' in column 'x'"),
        ("x,f\n0,1\n,2\n", TargetError, r"Got '' in column 'x', row 2"),
        ("x,f\n1_000,2\n", TargetError, "Got '1_000'"),
        ("x,f\n0,1\n1,nan\n", TargetError, r"must be finite. Got nan in column 'f', row 2 \(line 3 of the file\)"),
        ("x,f\n-inf,1\n", TargetError, r"Got -inf in column 'x', row 1"),
        ("x,f\n1e999,1\n", TargetError, r"Got inf in column 'x', row 1"),
        ("0.5,oops\n1,2\n", TargetError, r"names only, or numbers only. Got 'oops' beside '0.5' in line 1"),
        ("x,x,f\n1,2,3\n", TargetError, "different names. Got 'x' twice"),
        ("x\n1\n2\n", TargetError, "at least two columns"),
        ('x,f\n"0,1\n', FileFormatError, "Check the quotes"),
        (b"x,f\n\xff,1\n", FileFormatError, "UTF-8"),
    ],
)
def test_faults_are_named(write, text: str | bytes, kind: type[AttnforgeError], reason: str) -> None:
    with pytest.raises(kind, match=reason):
        read_table(write(text), None, None)


@pytest.mark.parametrize(
    ("inputs", "outputs", "reason"),
    [
        (["z"], None, "columns of the file are x, y, f. Got 'z'"),
        (None, ["0"], "columns of the file are x, y, f. Got '0'"),
        (["x", "x"], None, "once. Got x twice"),
        (["x", "f"], None, "once. Got f twice"),
        (["x"], ["x"], "Got x twice"),
        (None, ["x", "y", "f"], "needs an input and an output"),
        ([], None, "needs an input"),
        (None, [], "needs an input"),
    ],
)
def test_columns_are_chosen_once_and_exist(write, inputs, outputs, reason: str) -> None:
    with pytest.raises(TargetError, match=reason):
        read_table(write("x,y,f\n0,1,2\n"), inputs, outputs)


@pytest.mark.parametrize("name", ["x", "-1", "3", "00"])
def test_an_unknown_index_lists_the_known(write, name: str) -> None:
    with pytest.raises(TargetError, match=r"no names, by index of the file are 0, 1, 2. Got"):
        read_table(write("0,1,2\n"), [name], None)


@pytest.mark.parametrize("name", ["t.csv", "t.npy", "t.parquet"])
def test_a_missing_file_a_folder_and_an_empty_file(tmp_path: Path, name: str) -> None:
    if name == "t.parquet":
        pytest.importorskip("pyarrow")
    path = tmp_path / name
    with pytest.raises(FileFormatError, match="No such file"):
        read_table(path, None, None)
    path.write_bytes(b"")
    with pytest.raises(FileFormatError, match=name):
        read_table(path, None, None)
    path.unlink()
    path.mkdir()
    with pytest.raises(FileFormatError, match=name):
        read_table(path, None, None)


def test_other_endings_are_refused(tmp_path: Path) -> None:
    with pytest.raises(TargetError, match=r"must end in .csv, .tsv, .txt, .npy or .parquet"):
        read_table(tmp_path / "t.xlsx", None, None)


def test_npy_faults(tmp_path: Path) -> None:
    path = tmp_path / "t.npy"
    for array, kind, reason in (
        (np.zeros(3), TargetError, "two axes"),
        (np.zeros((2, 2, 2)), TargetError, "two axes"),
        (np.zeros((0, 2)), FileFormatError, "rows of numbers|NumPy array"),
        (np.zeros((3, 1)), TargetError, "at least two columns"),
        (np.array([[1.0, 2], [3, np.nan]]), TargetError, r"Got nan in column '1', row \[1\] of the array"),
        (np.zeros((2, 2), dtype=complex), FileFormatError, "real numbers"),
    ):
        np.save(path, array)
        with pytest.raises(kind, match=reason):
            read_table(path, None, None)
    np.save(path, np.array([[1, "a"]], dtype=object), allow_pickle=True)
    with pytest.raises(FileFormatError, match="NumPy array of numbers"):
        read_table(path, None, None)


def test_too_many_rows_are_refused(write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("attnforge.cli.table_files.MAX_POINTS", 3)
    np.save(tmp_path / "t.npy", np.zeros((4, 2)))
    for path in (write("x,f\n" + "0,1\n" * 4), tmp_path / "t.npy"):
        with pytest.raises(TargetError, match="at most 3 rows"):
            read_table(path, None, None)
    assert len(read_table(write("x,f\n" + "0,1\n" * 3), None, None)[0]) == 3


def test_too_many_rows_are_refused_before_the_rest_is_read(write, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("attnforge.cli.table_files.MAX_POINTS", 3)
    with pytest.raises(TargetError, match="at most 3 rows"):
        read_table(write("x,f\n" + "0,1\n" * 4 + "not,numbers\n"), None, None)


# Parquet


def test_without_pyarrow_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(FileFormatError, match=r"no pyarrow. Install it: pip install 'attnforge\[parquet\]'"):
        read_table(tmp_path / "t.parquet", None, None)


@pytest.fixture
def parquet(tmp_path: Path):
    """A Parquet file with these columns."""
    arrow, writer = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")

    def save(columns: dict[str, object]) -> Path:
        writer.write_table(arrow.table(columns), tmp_path / "t.parquet")
        return tmp_path / "t.parquet"

    return save


def test_parquet_columns(parquet) -> None:
    path = parquet({"x": [0, 1], "a.b": [2.5, 3.5], "label": ["p", "q"], "f": np.array([4, 5], dtype=np.float32)})
    points, values, names = read_table(path, ["a.b", "x"], None)
    assert (points.tolist(), values.tolist(), names) == ([[2.5, 0.0], [3.5, 1.0]], [4.0, 5.0], ("x1", "x"))
    assert points.dtype == values.dtype == np.float64
    assert read_table(path, ["x"], ["f", "a.b"])[1].tolist() == [[4.0, 2.5], [5.0, 3.5]]


def test_parquet_row_labels_of_pandas_are_no_column(parquet) -> None:
    points, values, names = read_table(parquet({"x": [0, 1], "f": [2, 3], "__index_level_0__": [7, 8]}), None, None)
    assert (points.tolist(), values.tolist(), names) == ([[0.0], [1.0]], [2.0, 3.0], ("x",))


@pytest.mark.parametrize(
    ("columns", "reason"),
    [
        ({"x": [0.0, 1.0], "f": ["a", "b"]}, "must hold numbers. Got string in column 'f'"),
        ({"x": [0.0, 1.0], "f": [True, False]}, "must hold numbers. Got bool in column 'f'"),
        ({"x": [0.0, 1.0], "f": [[1.0], [2.0]]}, "must hold numbers. Got list<"),
        ({"x": [0.0, 1.0], "f": [1.0, None]}, "must be finite. Got nan in column 'f', row 1, counting from 0"),
        ({"x": [0.0, 1.0], "f": [1.0, np.inf]}, "Got inf in column 'f', row 1"),
        ({"x": [0, 2**60 + 1], "f": [1.0, 2.0]}, "Parquet file of numbers"),
        ({"x": np.zeros(0), "f": np.zeros(0)}, "rows of numbers"),
        ({"x": [1.0, 2.0]}, "at least two columns"),
    ],
)
def test_parquet_faults(parquet, columns: dict[str, object], reason: str) -> None:
    with pytest.raises(AttnforgeError, match=reason):
        read_table(parquet(columns), None, None)


def test_parquet_is_capped(parquet, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("attnforge.cli.table_files.MAX_POINTS", 3)
    with pytest.raises(TargetError, match="at most 3 rows"):
        read_table(parquet({"x": np.arange(4.0), "f": np.arange(4.0)}), None, None)


def test_a_damaged_parquet_file_is_refused(parquet) -> None:
    path = parquet({"name": np.arange(4.0), "f": np.arange(4.0)})
    whole = path.read_bytes()
    for damaged in (whole[: len(whole) // 2], whole.replace(b"name", b"n\xffme")):
        path.write_bytes(damaged)
        with pytest.raises(FileFormatError, match="must be a Parquet file"):
            read_table(path, None, None)
