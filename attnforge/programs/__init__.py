"""Sequence programs: a small typed language, compiled into softmax attention and proved for every sequence.

>>> from attnforge import programs as p
>>> opposite = p.length - 1 - p.indices
>>> net = p.compile(p.aggregate(p.select(p.indices, opposite, "=="), p.tokens), ["a", "b", "c"], max_length=20)
>>> net(["a", "b", "b", "c"]), net.certificate.status
(['c', 'b', 'b', 'a'], 'proved')
"""

from attnforge.certification.program_certificate import ProgramCertificate
from attnforge.programs.compiling import compile, proved_lengths
from attnforge.programs.library import Entry, library
from attnforge.programs.running import ProgramNetwork
from attnforge.programs.trace import Trace
from attnforge.targets.programs.language import (
    Labels,
    Numbers,
    Selector,
    aggregate,
    as_labels,
    before,
    compare,
    constant,
    everything,
    indices,
    labels,
    length,
    mean,
    numbers,
    rank,
    select,
    selector_width,
    tokens,
    upto,
    where,
)
from attnforge.targets.programs.semantics import evaluate

__all__ = [
    "Entry",
    "Labels",
    "Numbers",
    "ProgramCertificate",
    "ProgramNetwork",
    "Selector",
    "Trace",
    "aggregate",
    "as_labels",
    "before",
    "compare",
    "compile",
    "constant",
    "evaluate",
    "everything",
    "indices",
    "labels",
    "length",
    "library",
    "mean",
    "numbers",
    "proved_lengths",
    "rank",
    "select",
    "selector_width",
    "tokens",
    "upto",
    "where",
]
