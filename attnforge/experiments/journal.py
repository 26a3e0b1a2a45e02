"""The results of a sweep as they come: one line a case, only ever appended to, read again when the sweep goes on."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attnforge.experiments.table import Cell

Rows = Sequence[Mapping[str, Cell]]


@dataclass(frozen=True)
class Entry:
    """What one case gave, and how long it took."""

    rows: Rows
    seconds: float


def key(case: Mapping[str, Cell]) -> str:
    """What a case is recognised by: all of it, in the order of the names.

    >>> key({"p": 10, "kind": "hard"})
    '{"kind": "hard", "p": 10}'
    """
    return json.dumps(dict(case), sort_keys=True)


def append(path: Path, case: Mapping[str, Cell], entry: Entry, version: str) -> None:
    """Add one line and see to it that it is on disk.

    A line that was being written when the power went is ended first, so that it spoils no other.
    """
    line = {"case": dict(case), "rows": [dict(row) for row in entry.rows], "seconds": entry.seconds, "version": version}
    torn = path.exists() and path.read_bytes()[-1:] not in (b"", b"\n")
    with path.open("a", encoding="utf-8") as file:
        file.write("\n" * torn + json.dumps(line) + "\n")
        file.flush()
        os.fsync(file.fileno())


def read(path: Path, version: str) -> dict[str, Entry]:
    """The latest entry of every case measured by this version; lines that were not written to their end are left out.

    Numbers are exact: JSON as Python writes it holds the shortest decimals that read back the same, and NaN.
    """
    if not path.exists():
        return {}
    lines = [_line(text) for text in path.read_text("utf-8", errors="replace").splitlines()]
    good = [line for line in lines if line is not None and line.get("version") == version]
    return {key(line["case"]): Entry(tuple(line["rows"]), float(line["seconds"])) for line in good}


def _line(text: str) -> dict[str, Any] | None:
    try:
        found = json.loads(text)
    except ValueError:
        return None
    whole = isinstance(found, dict) and isinstance(found.get("case"), dict) and isinstance(found.get("rows"), list)
    return found if whole and isinstance(found.get("seconds"), int | float) else None
