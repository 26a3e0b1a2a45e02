"""What is known of a network of the zoo before it is built: a record."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attnforge.display import Card, Displayed
from attnforge.display.card import Grid
from attnforge.effort import Effort
from attnforge.errors import TargetError

if TYPE_CHECKING:
    from attnforge.compiler import Compiled
    from attnforge.programs import ProgramNetwork

    Built = Compiled | ProgramNetwork

UNHURRIED = Effort(seconds=math.inf)  # the search beside a proof counts points, not seconds: the same on a busy machine
SIZES = Path(__file__).parent / "sizes.json"  # as benchmarks/zoo.py found them


@dataclass(frozen=True)
class Size:
    """Layers of attention, heads, keys that weights hold (tokens of a prompt not counted), and weights."""

    layers: int
    heads: int
    keys: int
    weights: int

    @staticmethod
    def of(net: Built) -> Size:
        """The size of a network that is built."""
        from attnforge.network import count_keys

        return Size(net.layers, net.heads, count_keys(net.network), net.parameters)


@dataclass(frozen=True)
class Entry(Displayed):
    """A named network: what it computes, by which mechanism, and who thought of it; it is built on demand.

    Attributes:
        name: by which ``get`` finds it.
        kind: entries of one kind are built by the same means.
        computes: the function, in words or as a formula.
        inputs: what it takes, and where it is certified.
        mechanism: what its heads do: the ground truth for whoever looks inside.
        citation: where the construction, the function or the data come from.
        build: makes the network; the same bytes every time.
    """

    name: str
    kind: str
    computes: str
    inputs: str
    mechanism: str
    citation: str
    build: Callable[[], Built]

    @property
    def size(self) -> Size | None:
        """How large it is, as it was last measured; None of an entry that is new."""
        known = _sizes().get(self.name)
        return None if known is None else Size(**known)

    def facts(self) -> dict[str, str]:
        """The record in words."""
        facts = {name: getattr(self, name) for name in ("kind", "computes", "inputs", "mechanism", "citation")}
        size = self.size
        if size is None:
            return facts
        counts = f"{size.layers} layers of attention, {size.heads} heads, {size.keys:,} keys, {size.weights:,} weights"
        return facts | {"size": counts}

    def to_data(self) -> dict[str, Any]:
        """The record as JSON has it."""
        facts = {name: value for name, value in self.facts().items() if name != "size"}
        return {"name": self.name, **facts, "size": None if self.size is None else asdict(self.size)}

    def __str__(self) -> str:
        return "\n".join([self.name, *(f"  {label:<11}{text}" for label, text in self.facts().items())])

    def __repr__(self) -> str:
        return f"<Entry {self.name}: {self.computes}>"

    def _card(self) -> Card:
        return Card(self.name, "", self.computes, self.facts())


@dataclass(frozen=True, eq=False, repr=False)
class Catalogue(Mapping[str, Entry], Displayed):
    """Entries by name, in order; ``print`` it for a table, or let a notebook show it."""

    records: tuple[Entry, ...]

    def __getitem__(self, name: str) -> Entry:
        for record in self.records:
            if record.name == name:
                return record
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        return iter([record.name for record in self.records])

    def __len__(self) -> int:
        return len(self.records)

    def find(self, name: str) -> Entry:
        """The entry of a name; a TargetError suggests others where there is none."""
        from difflib import get_close_matches

        if name in self:
            return self[name]
        near = get_close_matches(str(name), self, n=3, cutoff=0.4)
        remedy = f"Did you mean {' or '.join(near)}? " if near else ""
        raise TargetError(
            "The zoo has networks by name", repr(name)[:60], f"{remedy}attnforge.zoo.list() names all {len(self)}"
        )

    def of_kind(self, kind: str | None) -> Catalogue:
        """The entries of a kind, all of them where it is None; a TargetError where there is none such."""
        if kind is None:
            return self
        if kind not in self.kinds:
            raise TargetError("The zoo has networks of kinds", repr(kind)[:60], f"Use one of {', '.join(self.kinds)}")
        return Catalogue(tuple(record for record in self.records if record.kind == kind))

    @property
    def kinds(self) -> tuple[str, ...]:
        """All kinds, in order."""
        return tuple(dict.fromkeys(record.kind for record in self.records))

    def rows(self) -> list[tuple[str, str, str, str, str]]:
        """Name, kind, keys, inputs and what it computes, of every entry."""
        return [
            (each.name, each.kind, "" if each.size is None else f"{each.size.keys:,}", each.inputs, each.computes)
            for each in self.records
        ]

    def __str__(self) -> str:
        rows = [COLUMNS, *self.rows()]
        widths = [max(len(row[i]) for row in rows) for i in range(len(COLUMNS) - 1)]
        pad = [[f"{cell:<{width}}" for cell, width in zip(row, widths, strict=False)] + [row[-1]] for row in rows]
        return "\n".join("  ".join(row) for row in pad)

    def __repr__(self) -> str:
        return f"<Catalogue of {len(self)} networks of {len(self.kinds)} kinds>"

    def _card(self) -> Card:
        return Card("Zoo", "", f"{len(self)} networks of {len(self.kinds)} kinds", grids=[Grid(COLUMNS, self.rows())])


COLUMNS = ("name", "kind", "keys", "inputs", "computes")


@cache
def _sizes() -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = json.loads(SIZES.read_text(encoding="utf-8"))
    return found
