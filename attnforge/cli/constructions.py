"""``attnforge constructions``: what can be built, how fast its error falls, and where it comes from."""

from __future__ import annotations

from attnforge.cli.options import AsJson
from attnforge.cli.screen import print_json, print_table

EPILOG = """\
Example:

\b
  attnforge constructions
  attnforge compile "clamp(x, 0, 1)" --domain x=-2:2 --construction gate"""

COLUMNS = ("name", "function_class", "rate", "reference")


def run(as_json: AsJson = False) -> None:
    """List what `compile` chooses among."""
    from attnforge.theorems.registry import CONSTRUCTIONS

    rows = [[str(getattr(entry, column)) for column in COLUMNS] for entry in CONSTRUCTIONS]
    if as_json:
        print_json({"constructions": [dict(zip(COLUMNS, row, strict=True)) for row in rows]})
    else:
        print_table([column.replace("_", " ") for column in COLUMNS], rows)
