"""A tidy table: one observation a row, one variable a column."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from attnforge.display import Card, Displayed, Grid
from attnforge.errors import RefusalError

Array = npt.NDArray[np.float64]
Cell = str | int | float | bool | None
SHOWN = 40  # rows that a notebook shows


@dataclass(frozen=True, repr=False)
class Table(Displayed):
    """Rows, each a mapping of columns to cells; a row may lack columns that others have.

    >>> table = Table.of([{"p": 10, "error": 0.1}, {"p": 20, "error": 0.05}])
    >>> table.where(p=20).numbers("error").tolist()
    [0.05]
    """

    rows: tuple[Mapping[str, Any], ...]  # cells; readers know which are there and of which kind

    @classmethod
    def of(cls, rows: Iterable[Mapping[str, Any]]) -> Table:
        """A table of these rows."""
        return cls(tuple(rows))

    def __len__(self) -> int:
        return len(self.rows)

    def __repr__(self) -> str:
        return f"<Table of {len(self):,} rows: {', '.join(self.columns)}>"

    def _card(self) -> Card:
        rows = [[_shown(row.get(name)) for name in self.columns] for row in self.rows[:SHOWN]]
        left = len(self) - SHOWN
        grid = Grid(self.columns, rows, f"and {left:,} more rows" if left > 0 else "")
        return Card("Table", statement=f"{len(self):,} rows", grids=[grid])

    @property
    def columns(self) -> tuple[str, ...]:
        """Names in the order in which they first appear."""
        return tuple(dict.fromkeys(name for row in self.rows for name in row))

    def where(self, **cells: Cell) -> Table:
        """The rows whose columns have these values."""
        return Table.of(row for row in self.rows if all(row.get(name) == cell for name, cell in cells.items()))

    def only(self, keep: Callable[[Mapping[str, Any]], bool]) -> Table:
        """The rows that ``keep`` says yes to.

        >>> len(Table.of([{"p": 10}, {"p": 20}]).only(lambda row: row["p"] > 10))
        1
        """
        return Table.of(row for row in self.rows if keep(row))

    def having(self, *columns: str) -> Table:
        """The rows in which these columns hold a number or a text."""
        return Table.of(row for row in self.rows if all(row.get(column) is not None for column in columns))

    def ordered(self, *columns: str) -> Table:
        """The rows in ascending order of these columns."""
        return Table.of(sorted(self.rows, key=lambda row: tuple(_number(row.get(column)) for column in columns)))

    def numbers(self, column: str) -> Array:
        """A column as numbers; what is missing is NaN."""
        return np.array([_number(row.get(column)) for row in self.rows], dtype=np.float64)

    def points(self, x: str, y: str) -> tuple[Array, Array]:
        """Two columns as numbers: what a curve is drawn through, or a slope fitted to."""
        return self.numbers(x), self.numbers(y)

    def ratios(self, column: str, to: str) -> Array:
        """A column as multiples of another one."""
        return np.asarray(self.numbers(column) / self.numbers(to))

    def value(self, column: str, at: int = 0) -> float:
        """The number in the first row, or in another one; NaN where there are no rows."""
        return float(self.numbers(column)[at]) if self.rows else np.nan

    def by(self, column: str) -> dict[Any, Table]:
        """The rows by the values of a column, in the order in which they appear.

        >>> {p: len(rows) for p, rows in Table.of([{"p": 20}, {"p": 10}, {"p": 20}]).by("p").items()}
        {20: 2, 10: 1}
        """
        return {value: self.where(**{column: value}) for value in self.distinct(column)}

    def grouped(self, by: str, column: str) -> dict[Any, Array]:
        """The numbers of a column by the values of another one, in their ascending order.

        >>> table = Table.of([{"p": 20, "error": 0.1}, {"p": 10, "error": 0.3}, {"p": 20, "error": 0.2}])
        >>> {p: errors.tolist() for p, errors in table.grouped("p", "error").items()}
        {10: [0.3], 20: [0.1, 0.2]}
        """
        return {value: rows.numbers(column) for value, rows in sorted(self.by(by).items())}

    def medians(self, by: str, column: str) -> dict[Any, float]:
        """The median of a column by the values of another one.

        >>> Table.of([{"p": 8, "error": 3.0}, {"p": 8, "error": 1.0}, {"p": 8, "error": 2.0}]).medians("p", "error")
        {8: 2.0}
        """
        return {value: float(np.median(numbers)) for value, numbers in self.grouped(by, column).items()}

    def texts(self, column: str) -> list[str]:
        """A column as texts."""
        return [str(row.get(column, "")) for row in self.rows]

    def distinct(self, column: str) -> list[Any]:
        """The values of a column, each once, in the order in which they appear."""
        return list(dict.fromkeys(row[column] for row in self.rows if row.get(column) is not None))

    def to_dataframe(self) -> Any:
        """A pandas DataFrame of all columns, a row a row."""
        try:
            import pandas
        except ImportError:
            remedy = "Run pip install pandas; or use `rows`, or `to_csv()`"
            raise RefusalError("A data frame needs pandas", "no pandas", remedy) from None
        return pandas.DataFrame([dict(row) for row in self.rows], columns=list(self.columns))

    def to_csv(self) -> str:
        """Comma-separated text; numbers read back as the same numbers, missing cells are empty.

        >>> print(Table.of([{"p": 10, "error": 0.1}, {"p": 20}]).to_csv(), end="")
        p,error
        10,0.1
        20,
        """
        out = io.StringIO()
        writer = csv.DictWriter(out, self.columns, restval="", lineterminator="\n")
        writer.writeheader()
        writer.writerows({name: "" if cell is None else cell for name, cell in row.items()} for row in self.rows)
        return out.getvalue()

    def to_markdown(self, columns: Mapping[str, str | Callable[[Mapping[str, Any]], str]]) -> str:
        """A Markdown table: headers, and below each what its format, or function, makes of a row.

        >>> print(Table.of([{"p": 1000, "error": 0.125}]).to_markdown({"anchors p": "{p:,}", "error": "{error:.2g}"}))
        | anchors p | error |
        |---|---|
        | 1,000 | 0.12 |
        """
        forms = [form.format_map if isinstance(form, str) else form for form in columns.values()]
        return markdown(list(columns), [[form(row) for form in forms] for row in self.rows])


def markdown(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table.

    >>> print(markdown(["p", "error"], [["10", "0.1"]]))
    | p | error |
    |---|---|
    | 10 | 0.1 |
    """
    lines = [_line(header), "|" + "---|" * len(header), *(_line(row) for row in rows)]
    return "\n".join(lines)


def span(numbers: npt.ArrayLike, form: str = ".2g") -> str:
    """The least and the largest.

    >>> span([3.0, 1.0, 2.0])
    '1 to 3'
    """
    return f"{np.min(numbers):{form}} to {np.max(numbers):{form}}"


def listed(numbers: Iterable[Any], form: str = "") -> str:
    """All of them.

    >>> listed([1.0, 0.125], ".2g")
    '1, 0.12'
    """
    return ", ".join(f"{number:{form}}" for number in numbers)


def change(numbers: Sequence[Any] | Array, form: str = ".3g") -> str:
    """The first and the last.

    >>> change([3.0, 7.0, 1.0])
    '3 to 1'
    """
    return f"{numbers[0]:{form}} to {numbers[-1]:{form}}"


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _shown(cell: Cell) -> str:
    if cell is None:
        return ""
    return f"{cell:.6g}" if isinstance(cell, float) else str(cell)


def _number(cell: Cell) -> float:
    return np.nan if cell is None or isinstance(cell, str) else float(cell)
