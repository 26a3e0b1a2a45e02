"""What is shown while a target is being evaluated: a bar on a terminal, nothing elsewhere unless asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass(frozen=True)
class Bar:
    """Where progress goes: rows evaluated, and remarks. ``advance`` is None where nobody looks."""

    advance: Callable[[int, int], None] | None
    say: Callable[[str], None]


@contextmanager
def evaluation_bar(shown: bool) -> Iterator[Bar]:
    """A bar of the evaluations asked for at present, on the standard error stream."""
    if not shown:
        yield Bar(None, lambda _: None)
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("evaluating the target"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("evaluating", total=None)

        def advance(done: int, total: int) -> None:
            bar.update(task, completed=done, total=total)

        yield Bar(advance, lambda text: bar.console.print(text, markup=False, highlight=False))
