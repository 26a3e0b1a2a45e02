"""What every experiment answers: its settings, its cases, one case measured, the figures and the findings."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, ClassVar, Generic, Literal, Protocol, TypeVar

import numpy as np

from attnforge.experiments.settings import Settings
from attnforge.experiments.table import Cell, Table

Case = Mapping[str, Any]  # of cells
Row = Mapping[str, Cell]
S = TypeVar("S", bound=Settings)


def crossed(**columns: Any) -> list[Case]:
    """Cases of all combinations of the columns' values, the last column running fastest; a text is one value.

    >>> crossed(kind="hard", p=(8, 16), seed=0)
    [{'kind': 'hard', 'p': 8, 'seed': 0}, {'kind': 'hard', 'p': 16, 'seed': 0}]
    """
    choices = [
        each if isinstance(each, Iterable) and not isinstance(each, str) else [each] for each in columns.values()
    ]
    return [dict(zip(columns, cells, strict=True)) for cells in product(*choices)]


@dataclass(frozen=True)
class Finding:
    """A claim, what became of it, and the numbers that say so.

    ``confirmed`` and ``refuted`` are for claims that could have come out either way, ``undecided`` for those that too
    few or too noisy results leave open; what has no claim behind it is ``measured``. A ``law`` is a promise of
    attnforge itself: refuted, it is a defect.
    """

    claim: str
    verdict: Literal["confirmed", "refuted", "undecided", "measured"]
    evidence: str
    law: bool = False

    @classmethod
    def judged(cls, claim: str, holds: bool | np.bool_, evidence: str) -> Finding:
        """Confirmed or refuted.

        >>> Finding.judged("two is even", 2 % 2 == 0, "2 = 2 * 1").verdict
        'confirmed'
        """
        return cls(claim, "confirmed" if holds else "refuted", evidence)


class Measuring(Protocol):
    """What a sweep asks of an experiment, or of anything else that has cases."""

    def measure(self, case: Case) -> Sequence[Row]:
        """What is found in one case: rows of the table, to which the case's own columns are added."""
        ...

    def alone(self, case: Case) -> bool:
        """Whether nothing else of the sweep may run at the same time."""
        ...


class Experiment(ABC, Generic[S]):
    """One question, asked of many cases.

    A case is a flat mapping of names to numbers and texts that says all there is to know to measure it: cases are
    measured in any order, by any process, and are recognised by it when a sweep is resumed. All methods are pure
    functions of their arguments.
    """

    name: ClassVar[str]
    summary: ClassVar[str]  # a line for lists
    question: ClassVar[str]
    settings: type[S]

    @abstractmethod
    def cases(self, settings: S) -> Sequence[Case]:
        """All cases to measure."""

    @abstractmethod
    def measure(self, case: Case) -> Sequence[Row]:
        """What is found in one case: rows of the table, to which the case's own columns are added."""

    @abstractmethod
    def findings(self, table: Table, settings: S) -> Sequence[Finding]:
        """What the table says about the claims."""

    @abstractmethod
    def figures(self, table: Table, settings: S) -> Mapping[str, Any]:
        """Figures by file name, without suffix."""

    def notes(self, table: Table, settings: S) -> Sequence[str]:
        """Paragraphs of Markdown for the verdict, between the findings and the figures: tables, say."""
        return ()

    def alone(self, case: Case) -> bool:
        """Whether nothing else of the sweep may run at the same time, because the case measures time or memory."""
        return False
