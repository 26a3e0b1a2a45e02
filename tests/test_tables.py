"""Tables in the documentation are those of the registry."""

from __future__ import annotations

import pytest

from scripts import tables

TEXTS = {name: (tables.ROOT / name).read_text(encoding="utf-8") for name in tables.FILES}


@pytest.mark.parametrize("name", tables.FILES)
def test_the_tables_are_the_registry_s(name):
    assert tables.PLACE.search(TEXTS[name]), "the file holds a table"
    assert tables.with_tables(TEXTS[name]) == TEXTS[name], "run python scripts/tables.py"


def test_every_table_stands_somewhere():
    found = [match[2] for text in TEXTS.values() for match in tables.PLACE.finditer(text)]
    assert sorted(found) == sorted(tables.TABLES)


def test_another_rate_is_seen(monkeypatch):
    monkeypatch.setattr("attnforge.theorems.gate.Gate.rate", "O(1) | at best")
    assert r"O(1) \| at best" in tables.with_tables(TEXTS["docs/choosing.md"]) != TEXTS["docs/choosing.md"]
