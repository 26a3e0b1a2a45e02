"""One page a construction, made from its record: statement, proof, bound, example, figure.

A construction's variants stand on its page. Examples are run, and what they print and draw is what the page shows.
"""

from __future__ import annotations

import io
import re
import sys
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter
from typing import Any

import attnforge as af
from attnforge.theorems.construction import Construction
from attnforge.theorems.registry import CONSTRUCTIONS, VARIANTS
from scripts.documentation import reference
from scripts.documentation.links import ROOT
from scripts.tables import table

FOLDER = "constructions"
DPI = 110


@dataclass(frozen=True)
class Page:
    """A page, by the path it has in the site, and its figures by theirs."""

    path: str
    text: str
    figures: dict[str, bytes]


def pages() -> list[Page]:
    """One for every name in the registry, in its order."""
    order = [entry.name for entry in CONSTRUCTIONS]
    entries = sorted((*CONSTRUCTIONS, *VARIANTS), key=lambda entry: order.index(entry.name))
    return [page(name, list(found)) for name, found in groupby(entries, attrgetter("name"))]


def page(name: str, entries: list[Construction[Any]]) -> Page:
    """The page of a construction and its variants."""
    made = {_figure(entry): _run(entry.documentation.example) for entry in entries}
    sections = [_section(entry, made[_figure(entry)].printed) for entry in entries]
    figures = {f"{FOLDER}/{figure}": each.drawn for figure, each in made.items()}
    return Page(f"{FOLDER}/{name}.md", f"# {name}\n\n" + "\n".join(sections) + _door(name), figures)


def with_links(text: str) -> str:
    """A page of ``docs/`` in whose tables names of constructions are links to their pages."""
    names = "|".join(entry.name for entry in CONSTRUCTIONS)
    row = re.compile(r"^\|.*$", re.MULTILINE)
    return row.sub(lambda found: re.sub(rf"`({names})`", rf"[`\1`]({FOLDER}/\1.md)", found[0]), text)


@dataclass(frozen=True)
class _Made:
    printed: str
    drawn: bytes


def _run(example: str) -> _Made:
    """What an example prints and draws."""
    names: dict[str, Any] = {"af": af}
    exec(f"net = {example}", names)  # a line of the registry, which is code of this checkout
    drawn = io.BytesIO()
    names["net"].plot().savefig(drawn, format="png", dpi=DPI)
    return _Made(str(names["net"]), drawn.getvalue())


def _section(entry: Construction[Any], printed: str) -> str:
    """What a record says, the docstring of its file, and the example. Headings of a variant name it."""
    told = entry.documentation
    variant = f", {entry.variant}" if entry.variant else ""
    facts = [
        ("computes", entry.function_class),
        ("rate", entry.rate),
        ("where", entry.conditions),
        ("theorem", told.theorem),
        ("hypotheses", told.hypotheses),
        ("bound, in exact arithmetic", told.bound),
        ("heads", told.heads),
        ("keys", told.keys),
        ("features a token", told.width),
        ("reference", entry.reference),
    ]
    module = sys.modules[type(entry).__module__]
    source = str(module.__file__).removeprefix(f"{ROOT}/").replace("\\", "/")
    return f"""\
{"## " + entry.variant.capitalize() if entry.variant else ""}

{table(("", ""), facts)}
## Statement and proof{variant}

{module.__doc__}

In full: [`{source}`](../../{source}).

## Example{variant}

```python
import attnforge as af

net = {told.example}
print(net)
net.plot()
```

```text
{printed}
```

![What `net.plot()` draws]({_figure(entry)})
"""


def _figure(entry: Construction[Any]) -> str:
    return f"{entry.name}{'_' + type(entry).__name__.lower() if entry.variant else ''}.png"


def _door(name: str) -> str:
    """How to ask for it."""
    if name in af.constructions.__all__:
        place = f"../{reference.FOLDER}/constructions.md#attnforge.constructions.{name}"
        return f"\nArguments: [`af.constructions.{name}`]({place}).\n"
    return f'\nAsked for by `af.compile(..., construction="{name}")`.\n'
