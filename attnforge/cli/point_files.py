"""Points from CSV and NPY files. Nothing is unpickled, nothing is guessed."""

from __future__ import annotations

import csv
import io
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import typer

from attnforge.cli.numbers import number
from attnforge.cli.points import Points, input_names
from attnforge.errors import DomainError, FileFormatError

if TYPE_CHECKING:
    from attnforge import Compiled

Row = tuple[int, list[str]]  # the line it is on, and its cells


def read_points(path: Path, model: Compiled) -> Points:
    """The points of a file: NPY by its ending, CSV otherwise; ``-`` is CSV from stdin."""
    if path.suffix.lower() == ".npy":
        return from_npy(path)
    if path.suffix.lower() not in (".csv", ".txt") and str(path) != "-":
        message = f"must end in .csv or .npy, or be - for CSV from stdin. Got {path}. Rename it."
        raise typer.BadParameter(message, param_hint="INPUT")
    if model.target.layout == "tokens":
        n, d = model.network.tokens or "n", model.network.features
        raise DomainError(f"This model works on tokens and takes NPY files of shape (..., {n}, {d})", f"{path}")
    return _from_csv(text_of(path), input_names(model))


def from_npy(path: Path) -> Points:
    """Mapped, not read: a header that promises more than the file holds is refused before memory is spent."""
    try:
        found = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise unreadable(path, "a NumPy array of numbers", error) from error
    if not isinstance(found, np.ndarray) or found.dtype.kind not in "fiu":
        kind = getattr(found, "dtype", "an archive")
        raise FileFormatError("An NPY file must hold real numbers", f"{kind} in {path}", "Save it with np.save")
    keep = found.dtype in (np.float32, np.float64)
    return Points(np.array(found, dtype=found.dtype if keep else np.float64), _npy_place)


def _npy_place(where: tuple[int, ...]) -> str:
    """The NumPy index of the point."""
    return f"row {list(where[:-1])} of the array, counting from 0"


def text_of(path: Path) -> str:
    """The text of a file; ``-`` is stdin."""
    try:
        data = sys.stdin.buffer.read() if str(path) == "-" else path.read_bytes()
        return data.decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise unreadable(path, "readable UTF-8 text", error) from error


def _from_csv(text: str, names: tuple[str, ...]) -> Points:
    rows = list(rows_of(text, ","))
    order = list(range(len(names)))
    if rows and _is_header(rows[0][1], names):
        order = _order(rows.pop(0)[1], names)
    lines = [line for line, _ in rows]
    values = [_numbers(i, line, cells, names) for i, (line, cells) in enumerate(rows, start=1)]
    array = np.array(values, dtype=np.float64).reshape(len(values), len(names))[:, order]
    return Points(array, lambda where: csv_place(where[0] + 1, lines[where[0]]))


def csv_place(row: int, line: int) -> str:
    """What to call a row in a sentence."""
    return f"row {row} (line {line} of the file)"


def rows_of(text: str, separator: str) -> Iterator[Row]:
    """Rows that hold something, with the lines they end on."""
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True)
    try:
        for cells in reader:
            if any(cell.strip() for cell in cells):
                yield reader.line_num, [cell.strip() for cell in cells]
    except csv.Error as error:
        got = f"{error} at line {reader.line_num}"
        wanted = {",": "comma-separated text", ";": "text separated by semicolons", "\t": "text separated by tabs"}
        raise FileFormatError(f"The input must be {wanted[separator]}", got, "Check the quotes") from error


def _is_header(cells: list[str], names: tuple[str, ...]) -> bool:
    """Words only, or just the inputs' names: an input may be called ``inf``."""
    return sorted(cells) == sorted(names) or not any(map(is_number, cells))


def _order(header: list[str], names: tuple[str, ...]) -> list[int]:
    """Where each input's column is."""
    if sorted(header) != sorted(names):
        wanted = f"The columns must be the inputs of the model: {', '.join(names)}"
        raise DomainError(wanted, f"{', '.join(header)[:200]} in the header", "Rename, add or remove columns")
    return [header.index(name) for name in names]


def _numbers(row: int, line: int, cells: list[str], names: tuple[str, ...]) -> list[float]:
    if len(cells) != len(names):
        wanted = f"Every row must have {len(names)} column{'s' * (len(names) > 1)}: {', '.join(names)}"
        raise DomainError(wanted, f"{len(cells)} in {csv_place(row, line)}", "Separate columns by commas")
    for cell in cells:
        if not is_number(cell):
            raise DomainError("Every cell must be a number", f"{cell[:80]!r} in {csv_place(row, line)}", "Correct it")
    return [number(cell) for cell in cells]


def is_number(cell: str) -> bool:
    """Whether a cell reads as a number."""
    try:
        number(cell)
    except ValueError:
        return False
    return True


def unreadable(path: Path, wanted: str, error: Exception) -> FileFormatError:
    """The error to raise where a file cannot be read as what is wanted."""
    reason = (error.strerror if isinstance(error, OSError) else None) or str(error).splitlines()[0][:200]
    return FileFormatError(f"The input must be {wanted}", f"{path}: {reason}", "Check the path and the format")
