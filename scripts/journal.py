"""Lines of a long run that may be stopped and goes on where it was, and the machine that wrote them."""

from __future__ import annotations

import json
import platform
from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path
from typing import Any, TextIO

import numpy as np
import torch

Line = dict[str, Any]
Rng = np.random.Generator


def read(path: Path) -> list[Line]:
    """The lines so far; one that is being written, or was cut off by a stop, is left out."""
    if not path.exists():
        return []
    return [json.loads(each) for each in path.read_text().splitlines(keepends=True) if each.endswith("\n")]


def mend(path: Path) -> None:
    """Remove a last line that was cut off by a stop."""
    if path.exists():
        text = path.read_text()
        path.write_text(text[: text.rfind("\n") + 1])


def append(file: TextIO, line: Line) -> None:
    """Write one line, and have it there whatever comes next."""
    file.write(json.dumps(line) + "\n")
    file.flush()


def one_thread() -> None:
    """What every process of a run does first: small problems are not shared by threads."""
    torch.set_num_threads(1)


def machine() -> str:
    """Versions and processor."""
    model = next((each for each in Path("/proc/cpuinfo").read_text().splitlines() if "model name" in each), "")
    versions = ", ".join(f"{name} {version(name)}" for name in ("attnforge", "numpy", "torch", "python-flint"))
    return f"Python {platform.python_version()}, {versions}; {model.split(':')[-1].strip() or 'CPU'}, one thread."


def table(*rows: Iterable[Any]) -> list[str]:
    """A table in Markdown: the first row is its heading."""
    lines = ["| " + " | ".join(map(str, row)) + " |" for row in rows]
    return [lines[0], "|" + "---|" * (lines[0].count("|") - 1), *lines[1:]]


# What is drawn


def pick(rng: Rng, *choices: Any) -> Any:
    """One of them."""
    return choices[int(rng.integers(len(choices)))]


def number(value: float, rng: Rng) -> str:
    """A number as text, with few digits or all of them, in brackets if it is negative."""
    written = repr(float(f"{value:.3g}")) if rng.random() < 0.5 else repr(float(value))
    return f"({written})" if written.startswith("-") else written
