"""Tables in the pages of ``docs/``: ``python scripts/tables.py`` writes them.

Those of constructions come from the registry, that of programs from their library, those of formats and of the zoo from
their records,
those of numbers from the pages of ``benchmarks/results/``.

Each stands between two comments, ``<!-- table: NAME -->`` and ``<!-- end of table -->``.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from attnforge.export import FORMATS
from attnforge.programs.library import LIBRARY
from attnforge.theorems.construction import Construction
from attnforge.theorems.registry import CONSTRUCTIONS, VARIANTS
from attnforge.zoo import entries

ROOT = Path(__file__).resolve().parent.parent
FILES = tuple(
    f"docs/{name}.md" for name in ("choosing", "comparison", "export", "programs", "quickstart", "theorems", "zoo")
)
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
    "programs": lambda: table(
        ("program", "at every token", "tokens", "default length"),
        [(code(e.name), e.description, str(len(e.vocabulary)), f"{e.max_length:,}") for e in LIBRARY],
    ),
    "formats": lambda: table(
        ("format", "writes", "takes", "needs to run", "the extra to write it", "refuses"),
        [
            (code(e.option), e.writes, e.takes, e.runs_with, "" if e.extra is None else code(e.extra), e.refuses)
            for e in FORMATS.values()
        ],
    ),
    "zoo": lambda: table(
        ("network", "kind", "computes", "inputs", "mechanism", "citation"),
        [(code(e.name), e.kind, e.computes, e.inputs, e.mechanism, e.citation) for e in entries.values()],
    ),
    "proved": lambda: section_table("programs", "The largest length that is proved"),
    "tracr": lambda: section_table("programs", "Beside tracr"),
    "peers": lambda: errors_of_peers(results("peers")),
    "first_steps": lambda: section_table("first_steps", "From an empty folder"),
}


def errors_of_peers(page: str) -> str:
    """The largest errors of a page of measurements: a line a function, a column a method, and the bound of ours."""
    lines = [[cell.strip() for cell in line.strip("|\n").split("|")] for line in page.splitlines()]
    rows = [line for line in lines if len(line) == 9 and line[0] != "function" and not line[0].startswith("---")]
    methods = list(dict.fromkeys(row[1] for row in rows))
    errors = {(row[0], row[1]): row[3] for row in rows}
    proved = {row[0]: row[8] for row in rows if row[1] == "attnforge"}
    return table(
        ("function", "proved", *methods),
        [(name, bound, *(errors.get((name, method), "") for method in methods)) for name, bound in proved.items()],
    )


def section_table(name: str, title: str) -> str:
    """The table of a section of a page of measurements."""
    section = results(name).partition(f"## {title}\n")[2].partition("\n## ")[0]
    return "".join(f"{line}\n" for line in section.splitlines() if line.startswith("|"))


def results(name: str) -> str:
    """A page of measurements."""
    return (ROOT / "benchmarks" / "results" / f"{name}.md").read_text(encoding="utf-8")


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
