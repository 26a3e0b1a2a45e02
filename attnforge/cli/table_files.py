"""Tables from CSV, NPY and Parquet files: columns chosen by name, every fault named with its place."""

from __future__ import annotations

import io
import itertools
import re
from array import array
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from attnforge.cli.numbers import number
from attnforge.cli.point_files import Row, csv_place, from_npy, is_number, rows_of, text_of, unreadable
from attnforge.cli.points import Points
from attnforge.errors import FileFormatError, TargetError
from attnforge.expression.tree import name_problem
from attnforge.targets.table import MAX_POINTS

Array = npt.NDArray[np.float64]

QUOTED = re.compile(r'"[^"]*"')
PANDAS_INDEX = re.compile(r"__index_level_\d+__")  # pandas stores row labels so, behind the columns


@dataclass(frozen=True, eq=False)
class Sheet:
    """A file whose columns are known and whose rows are not read yet.

    ``columns`` are names, or 0-based indices as text where ``named`` is false; ``take`` reads the rows of the chosen
    columns, in the order chosen.
    """

    columns: tuple[str, ...]
    named: bool
    take: Callable[[list[int]], Points]


def read_table(path: Path, inputs: list[str] | None, outputs: list[str] | None) -> tuple[Array, Array, tuple[str, ...]]:
    """Points (N, d), values (N,) or (N, k), and the names of the inputs, from a file.

    By default the last column is the value and all others are inputs. Columns that are not chosen may hold anything.

    Args:
        path: .npy and .parquet by their endings; .csv, .tsv and .txt are text whose columns are separated by tabs,
            else by semicolons, else by commas; ``-`` is such text from stdin.
        inputs, outputs: columns by name; by 0-based index where the file names none.
    """
    sheet = _open(path)
    chosen, wanted = _choose(sheet, inputs, outputs)
    rows = sheet.take([*chosen, *wanted])
    columns = [sheet.columns[i] for i in (*chosen, *wanted)]
    _check(rows, columns, path)
    points, values = rows.values[:, : len(chosen)], rows.values[:, len(chosen) :]
    names = _input_names([sheet.columns[i] if sheet.named else "" for i in chosen])
    return points, values[:, 0] if len(wanted) == 1 else values, names


def _open(path: Path) -> Sheet:
    match path.suffix.lower():
        case ".npy":
            return _npy_sheet(path)
        case ".parquet":
            return _parquet_sheet(path)
        case ".csv" | ".tsv" | ".txt":
            return _csv_sheet(path)
    if str(path) == "-":
        return _csv_sheet(path)
    wanted = "The file of a table must end in .csv, .tsv, .txt, .npy or .parquet, or be - for text from stdin"
    raise TargetError(wanted, str(path), "Rename it")


def _npy_sheet(path: Path) -> Sheet:
    found = from_npy(path)
    if found.values.ndim != 2:
        got = f"shape {found.values.shape} in {path}"
        raise TargetError("The array of a table has two axes: rows and columns", got, "Save np.column_stack of them")
    _check_count(len(found.values))
    columns = tuple(str(i) for i in range(found.values.shape[1]))
    return Sheet(columns, False, lambda order: Points(found.values[:, order].astype(np.float64), found.place))


def _csv_sheet(path: Path) -> Sheet:
    text = text_of(path)
    rows = rows_of(text, _separator(text))
    first = next(rows, None)
    if first is None:
        raise _empty(path)
    cells = first[1]
    numeric = [is_number(cell) for cell in cells]
    if not any(numeric):
        return Sheet(_distinct(cells), True, lambda order: _csv_points(rows, cells, order))
    if not all(numeric):  # a header, or a row of numbers with a slip: taking it for a header would lose a point
        i = numeric.index(False)
        got = f"{cells[i][:80]!r} beside {cells[numeric.index(True)][:80]!r} in line {first[0]}"
        remedy = "Write a header without numbers, or correct the number"
        raise TargetError("The first row must hold names only, or numbers only", got, remedy)
    columns = [str(i) for i in range(len(cells))]
    return Sheet(tuple(columns), False, lambda order: _csv_points(itertools.chain([first], rows), columns, order))


def _separator(text: str) -> str:
    """A tab or a semicolon where the first line has one outside quotes, as no number has; else a comma."""
    first = QUOTED.sub("", next((line for line in io.StringIO(text) if line.strip()), ""))
    return next((mark for mark in "\t;" if mark in first), ",")


def _csv_points(rows: Iterator[Row], columns: Sequence[str], order: list[int]) -> Points:
    """The chosen columns as numbers, read row by row: what is too long is refused before it fills the memory."""
    lines, flat = array("q"), array("d")
    for count, (line, cells) in enumerate(rows, start=1):
        _check_count(count)
        if len(cells) != len(columns):
            got = f"{len(cells)} in {csv_place(count, line)}"
            raise TargetError(f"Every row must have {len(columns)} columns, as the first has", got, "Correct this line")
        lines.append(line)
        flat.extend([_cell(cells[i], columns[i], count, line) for i in order])
    values = np.array(flat, dtype=np.float64).reshape(len(lines), len(order))
    return Points(values, lambda where: csv_place(where[0] + 1, lines[where[0]]))


def _cell(text: str, column: str, row: int, line: int) -> float:
    try:
        return number(text)
    except ValueError:
        got = f"{text[:80]!r} in column {column[:80]!r}, {csv_place(row, line)}"
        raise TargetError("Every entry must be a number, with a decimal point", got, "Correct it") from None


def _parquet_sheet(path: Path) -> Sheet:
    arrow, parquet = _pyarrow()
    try:
        file = parquet.ParquetFile(path)
        names = file.schema_arrow.names
    except (OSError, ValueError, arrow.ArrowException) as error:  # ValueError: names that are not UTF-8
        raise unreadable(path, "a Parquet file", error) from error
    _check_count(file.metadata.num_rows)
    columns = _distinct([name for name in names if not PANDAS_INDEX.fullmatch(name)])
    return Sheet(columns, True, lambda order: _parquet_points(file, path, [columns[i] for i in order]))


def _pyarrow() -> tuple[Any, Any]:
    try:
        return import_module("pyarrow"), import_module("pyarrow.parquet")
    except ImportError as error:
        remedy = "Install it: pip install 'attnforge[parquet]'; or save the table as .csv or .npy"
        raise FileFormatError("Parquet files are read by pyarrow", "no pyarrow", remedy) from error


def _parquet_points(file: Any, path: Path, columns: list[str]) -> Points:
    """The columns as float64; a missing entry is NaN, and refused as such."""
    arrow, _ = _pyarrow()
    for column in columns:
        kind = file.schema_arrow.field(column).type
        if not (arrow.types.is_integer(kind) or arrow.types.is_floating(kind) or arrow.types.is_decimal(kind)):
            got = f"{kind} in column {column[:80]!r}"
            raise TargetError("Every chosen column must hold numbers", got, "Choose others as inputs and outputs")
    try:
        table = file.read(columns=columns)
        found = [table.column(column).cast("float64").to_numpy() for column in columns]
    except (OSError, arrow.ArrowException) as error:
        raise unreadable(path, "a whole Parquet file of numbers", error) from error
    return Points(np.column_stack(found), lambda where: f"row {where[0]}, counting from 0")


def _choose(sheet: Sheet, inputs: list[str] | None, outputs: list[str] | None) -> tuple[list[int], list[int]]:
    """The columns of the inputs and of the outputs, all different, at least one of each."""
    everything = range(len(sheet.columns))
    if len(everything) < 2:
        raise TargetError("A table has at least two columns, an input and a value", f"{len(everything)}", "Add one")
    wanted = [everything[-1]] if outputs is None else [_find(name, sheet) for name in outputs]
    chosen = sorted({*everything} - {*wanted}) if inputs is None else [_find(name, sheet) for name in inputs]
    if not chosen or not wanted:
        raise TargetError("A table needs an input and an output", "none", "Name at least one column each")
    twice = [sheet.columns[i] for i, uses in Counter([*chosen, *wanted]).items() if uses > 1]
    if twice:
        got = f"{', '.join(twice)[:200]} twice"
        raise TargetError("A column is an input or an output, once", got, "Name the inputs and the outputs")
    return chosen, wanted


def _find(name: str, sheet: Sheet) -> int:
    if name not in sheet.columns:
        known = ", ".join(sheet.columns[:50]) + (", .." if len(sheet.columns) > 50 else "")
        kind = "columns" if sheet.named else "columns, which have no names, by index"
        raise TargetError(f"The {kind} of the file are {known}", repr(name)[:80], "Choose from these")
    return sheet.columns.index(name)


def _distinct(names: Sequence[str]) -> tuple[str, ...]:
    """The names, if they differ."""
    twice = [name for name, uses in Counter(names).items() if uses > 1]
    if twice:
        raise TargetError("The columns of a table must have different names", f"{twice[0][:80]!r} twice", "Rename one")
    return tuple(names)


def _check_count(count: int) -> None:
    if count > MAX_POINTS:
        raise TargetError(f"A table has at most {MAX_POINTS:,} rows", "more", "Leave rows out")


def _check(rows: Points, columns: list[str], path: Path) -> None:
    """Refuse a table without rows, and name the first number that is not finite."""
    if not len(rows.values):
        raise _empty(path)
    bad = ~np.isfinite(rows.values)
    if bad.any():
        row, column = (int(i) for i in np.argwhere(bad)[0])
        got = f"{rows.values[row, column]} in column {columns[column][:80]!r}, {rows.place((row, column))}"
        raise TargetError("Every number of a table must be finite", got, "Leave this row out")


def _empty(path: Path) -> FileFormatError:
    return FileFormatError("The file of a table must hold rows of numbers", f"none in {path}", "Check the file")


def _input_names(columns: list[str]) -> tuple[str, ...]:
    """The columns' names; x1, x2, .. by position, or the next free one, for those that cannot name an input."""
    names: list[str] = []
    taken = {name for name in columns if not name_problem(name)}
    for position, name in enumerate(columns, start=1):
        if name_problem(name):
            name = next(free for i in itertools.count(position) if (free := f"x{i}") not in taken)
            taken.add(name)
        names.append(name)
    return tuple(names)
