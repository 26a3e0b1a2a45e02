"""Every network of the zoo, one record each, in a file of its kind.

A new one is a record in ``ENTRIES`` of that file; a new kind is a file with ``ENTRIES``, named here. ``list``, ``get``,
the shell, the table of ``docs/zoo.md`` and ``benchmarks/zoo.py`` take it from there.
"""

from __future__ import annotations

from attnforge.zoo import (
    fitted,
    functionals,
    graphs,
    in_context,
    partitions,
    programs,
    prompts,
    ramps,
    rectified,
    registers,
    tables,
    trained,
)
from attnforge.zoo.entry import Catalogue, Entry

_FILES = (
    ramps,
    rectified,
    partitions,
    fitted,
    tables,
    registers,
    graphs,
    trained,
    functionals,
    in_context,
    prompts,
    programs,
)

RECORDS: tuple[Entry, ...] = tuple(entry for file in _FILES for entry in file.ENTRIES)

entries = Catalogue(RECORDS)
