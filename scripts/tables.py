"""Tables in README and docs/theorems.md, from the registry and from measured results: ``python scripts/tables.py``.

Each stands between two comments, ``<!-- table: NAME -->`` and ``<!-- end of table -->``.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from attnforge.theorems.construction import Construction
from attnforge.theorems.registry import CONSTRUCTIONS, VARIANTS

ROOT = Path(__file__).resolve().parent.parent
FILES = ("README.md", "docs/theorems.md")
PLACE = re.compile(r"(<!-- table: (\w+) -->\n).*?(<!-- end of table -->)", re.DOTALL)

TABLES = {
    "constructions": lambda: table(
        ("construction", "function class", "rate", "conditions", "reference"),
        [(code(e.name), e.function_class, e.rate, e.conditions, e.reference) for e in CONSTRUCTIONS],
    ),
    "theorems": lambda: table(
        ("construction", "theorem", "hypotheses", "bound, in exact arithmetic", "file"),
        [
            (title(e), e.documentation.theorem, e.documentation.hypotheses, e.documentation.bound, code(file_of(e)))
            for e in (*CONSTRUCTIONS, *VARIANTS)
        ],
    ),
    "sizes": lambda: table(
        ("construction", "heads", "keys", "width"),
        [
            (title(e), e.documentation.heads, e.documentation.keys, e.documentation.width)
            for e in (*CONSTRUCTIONS, *VARIANTS)
        ],
    ),
    "peers": lambda: errors_of_peers((ROOT / "benchmarks/results/peers.md").read_text(encoding="utf-8")),
}


def errors_of_peers(page: str) -> str:
    """A line a function, a column a method: the largest errors measured, and below them the seconds to build."""
    lines = [line.strip("| ").split(" | ") for line in page.splitlines() if line.startswith("| ")]
    first = lines.index(next(line for line in lines if line[0] == "function")) + 1
    measured = {(cells[0], cells[1]): f"{cells[3]} ({cells[4]} s)" for cells in lines[first:] if len(cells) == 9}
    functions, methods = (tuple(dict.fromkeys(names)) for names in zip(*measured, strict=True))
    rows = [(function, *(measured.get((function, each), "") for each in methods)) for function in functions]
    return table(("largest error (seconds to build)", *methods), rows)


def table(header: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    """Rows of Markdown; a bar inside a cell is escaped."""
    cells = [header, ("---",) * len(header), *(tuple(cell.replace("|", "\\|") for cell in row) for row in rows)]
    return "".join(f"| {' | '.join(row)} |\n" for row in cells)


def code(text: str) -> str:
    """Text as code."""
    return f"`{text}`"


def title(entry: Construction[object]) -> str:
    """The name, and what tells a variant from the construction it belongs to."""
    return code(entry.name) + (f" {entry.variant}" if entry.variant else "")


def file_of(entry: Construction[object]) -> str:
    """The file, in ``attnforge/theorems/``."""
    return type(entry).__module__.rpartition(".")[2] + ".py"


def with_tables(text: str) -> str:
    """The text with every table as the registry has it."""
    return PLACE.sub(lambda found: found[1] + TABLES[found[2]]() + found[3], text)


if __name__ == "__main__":
    for name in FILES:
        path = ROOT / name
        before = path.read_text(encoding="utf-8")
        after = with_tables(before)
        path.write_text(after, encoding="utf-8")
        sys.stdout.write(f"{name}: {'unchanged' if after == before else 'written'}\n")
