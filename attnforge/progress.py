"""What is shown while something takes long: a bar on a terminal, or whatever a caller does with it; nothing unasked."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

Told = Callable[[float, str], None]
Progress = bool | Told


class Watch:
    """Tells a caller the fraction of the present step that is done, and what the step is.

    >>> said = []
    >>> watch = Watch(lambda fraction, text: said.append((fraction, text)))
    >>> watch.say("sizing")
    >>> watch.step("proving")(0.5)
    >>> watch.rows(3, 4)
    >>> said
    [(0.0, 'sizing'), (0.5, 'proving'), (0.75, 'evaluating the target: 3 of 4')]
    """

    def __init__(self, told: Told | None) -> None:
        self.told = told

    def say(self, text: str) -> None:
        """A step begins."""
        if self.told is not None:
            self.told(0.0, _printable(text))

    def step(self, text: str) -> Callable[[float], None]:
        """Who is told the fraction of a step."""
        told, shown = self.told, _printable(text)
        return (lambda _: None) if told is None else lambda fraction: told(min(max(fraction, 0.0), 1.0), shown)

    def rows(self, done: int, total: int) -> None:
        """Rows of the target evaluated, of those asked for at present."""
        self.step(f"evaluating the target: {done:,} of {total:,}")(done / max(total, 1))


def _printable(text: str) -> str:
    """On one line, without controls: a step may be called by a name that a file brings."""
    return "".join(each if each.isprintable() else " " for each in text)


SILENT = Watch(None)


@contextmanager
def watched(progress: Progress) -> Iterator[Watch]:
    """False: nobody looks; True: a bar on the standard error stream; a callable is told (fraction, text)."""
    if callable(progress):
        yield Watch(progress)
        return
    if not progress:
        yield SILENT
        return
    from rich.console import Console
    from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bars

    columns = (TextColumn("{task.description}", markup=False), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with Bars(*columns, console=Console(stderr=True), transient=True) as bars:
        task, steps = bars.add_task("starting", total=1.0), set[str]()

        def tell(fraction: float, text: str) -> None:
            bars.update(task, completed=fraction, description=text)
            name = text.partition(":")[0]
            if name not in steps:  # also where the bar itself is not drawn: in a file, or a pipe
                steps.add(name)
                bars.console.print(f"{name} ...", markup=False, highlight=False)

        yield Watch(tell)
