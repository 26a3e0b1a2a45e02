"""What reaches the eye: styled on a terminal, plain lines in a pipe, and never a user's markup or control character."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import typer
from rich import box
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text


def console(stderr: bool = False) -> Console:
    """A console that interprets nothing it is given, and wraps lines on a terminal only."""
    out = Console(stderr=stderr, highlight=False, markup=False, emoji=False)
    out.soft_wrap = not out.is_terminal
    return out


def clean(text: str) -> str:
    r"""The text with every character that does not print shown escaped; line ends stay.

    >>> clean("a\x1b[31mb")
    'a\\x1b[31mb'
    """
    return "".join(c if c == "\n" or c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def line(text: str) -> str:
    r"""The text made fit for one line: what a file calls a construction cannot add lines to a report.

    >>> line("gate\ncertificate  proved")
    'gate\\ncertificate  proved'
    """
    return clean(text).replace("\n", "\\n")


def say(text: str, style: str = "") -> None:
    """A line on stdout, wrapped by the terminal and not by us: a long command can be copied."""
    console().print(Text(clean(text), style=style), soft_wrap=True)


def note(text: str, style: str = "") -> None:
    """A line on stderr: what a person wants to know and a program does not."""
    console(stderr=True).print(Text(clean(text), style=style))


def print_json(data: Mapping[str, Any]) -> None:
    """One JSON object on stdout, ASCII only; NaN is not JSON and is a defect here."""
    typer.echo(json.dumps(data, indent=2, allow_nan=False))


def print_facts(facts: Mapping[str, str | tuple[str, ...]], styles: Mapping[str, str] | None = None) -> None:
    """Labels and values in two columns; long values wrap inside theirs, a tuple has several lines."""
    out, styles = console(), styles or {}
    if not out.is_terminal:
        width = max(map(len, facts))
        for label, value in facts.items():
            out.print(Text(f"{label:<{width}}  {_lines(value, width + 2)}"))
        return
    grid = Table.grid(padding=(0, 2))
    grid.add_column(no_wrap=True, style="cyan")
    grid.add_column(overflow="fold")
    for label, value in facts.items():
        grid.add_row(Text(label), Text(_lines(value), style=styles.get(label, "")))
    out.print(grid)


def _lines(value: str | tuple[str, ...], indent: int = 0) -> str:
    return ("\n" + " " * indent).join(map(line, (value,) if isinstance(value, str) else value))


def print_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A table: ruled on a terminal, aligned words elsewhere."""
    out = console()
    if not out.is_terminal:
        widths = [max(len(row[i]) for row in [header, *rows]) for i in range(len(header))]
        for row in [header, *rows]:
            words = "  ".join(f"{line(cell):<{width}}" for cell, width in zip(row, widths, strict=True))
            out.print(Text(words.rstrip()))
        return
    table = Table(box=box.SIMPLE_HEAD, header_style="bold", padding=(0, 1))
    for i, name in enumerate(header):
        table.add_column(name, no_wrap=i == 0)
    for row in rows:
        table.add_row(*(Text(line(cell), style="" if i else "cyan") for i, cell in enumerate(row)))
    out.print(table)


@contextmanager
def working(what: str) -> Iterator[None]:
    """A spinner on stderr while something runs that cannot say how far it is."""
    out = console(stderr=True)
    if not out.is_interactive:
        yield
        return
    with out.status(Text(f"{what} ...")):
        yield


@contextmanager
def progress(what: str) -> Iterator[Callable[..., None]]:
    """A bar on stderr; the function it gives takes the fraction done, and what is being done."""
    out = console(stderr=True)
    if not out.is_interactive:
        yield lambda fraction, text="": None
        return
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with Progress(*columns, console=out, transient=True) as bar:
        task = bar.add_task(what, total=1.0)
        yield lambda fraction, text=what: bar.update(task, completed=fraction, description=clean(text))
