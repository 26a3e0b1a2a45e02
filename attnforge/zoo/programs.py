"""Sequence programs of the library: tokens in, labels or counts out, right for every sequence up to a length."""

from __future__ import annotations

import inspect
from functools import partial

import attnforge as af
from attnforge.programs.library import LIBRARY
from attnforge.programs.library import Entry as Program
from attnforge.programs.running import ProgramNetwork
from attnforge.zoo.citations import RASP
from attnforge.zoo.entry import Entry

KIND = "program"
LONGEST = 64  # tokens: of the zoo's programs; the library's own lengths are larger

# Where a program has a literature of its own.
CITATIONS = {
    "induction": "Olsson et al. 2022, In-context Learning and Induction Heads, arXiv:2209.11895",
    "parity": "Chiang and Cholak 2022, Overcoming a Theoretical Limitation of Self-Attention, arXiv:2202.12172",
    "dyck1": "Bhattamishra et al. 2020, On the Ability and Limitations of Transformers to Recognize Formal Languages, "
    "arXiv:2009.11264",
    "dyck2": "Yao et al. 2021, Self-Attention Networks Can Process Bounded Hierarchical Languages, arXiv:2105.11115",
}


def compiled(program: Program) -> ProgramNetwork:
    """The program for its vocabulary, up to the zoo's length."""
    return af.programs.compile(program, max_length=min(program.max_length, LONGEST))


def entry(program: Program) -> Entry:
    """The record of a program of the library: its docstring says how it works."""
    length = min(program.max_length, LONGEST)
    inputs = f"1 to {length} of {len(program.vocabulary)} tokens, {program.vocabulary[0]!r}, {program.vocabulary[1]!r}"
    more = ", ..." if len(program.vocabulary) > 2 else ""
    mechanism = " ".join((inspect.getdoc(program.make) or "").split()).rstrip(".")
    mechanism = mechanism[:1].lower() + mechanism[1:]
    citation = CITATIONS.get(program.name, RASP)
    return Entry(
        program.name, KIND, program.description, inputs + more, mechanism, citation, partial(compiled, program)
    )


ENTRIES = tuple(entry(program) for program in LIBRARY)
