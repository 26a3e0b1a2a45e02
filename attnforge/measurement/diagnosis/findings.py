"""What a diagnosis says: findings with evidence, cause and remedy, and the heads' numbers."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from attnforge.display import Card, Displayed, Grid, Section
from attnforge.measurement.diagnosis.statistics import HeadStatistics

Severity = Literal["fault", "warning", "note"]
Signature = Literal[
    "uniform attention",
    "boundary artefact",
    "interpolation drift",
    "score overflow",
    "lost argmax",
    "absorbed gaps",
    "underflow",
    "duplicate keys",
    "contradicted claims",
]
ORDER: dict[str, int] = {"fault": 0, "warning": 1, "note": 2}
SHOWN_KEYS, SHOWN_HEADS = 6, 8


@dataclass(frozen=True)
class Place:
    """Where: a layer of attention, a head of it (None: all of them), keys of the head (empty: no key in particular).

    All are counted from 0. ``module`` is the path of the torch module, where there is one.
    """

    layer: int | None = None
    head: int | None = None
    keys: tuple[int, ...] = ()
    module: str = ""

    def __str__(self) -> str:
        words = [self.module] if self.module else []
        words += [f"layer {self.layer}"] if self.layer is not None else []
        words += [f"head {self.head}"] if self.head is not None else []
        if self.keys:
            listed = ", ".join(map(str, self.keys[:SHOWN_KEYS]))
            words.append(f"key{'s' if len(self.keys) > 1 else ''} {listed}{', ...' * (len(self.keys) > SHOWN_KEYS)}")
        return ", ".join(words) or "the network"


@dataclass(frozen=True)
class Finding(Displayed):
    """One failure signature: where, the numbers that show it, what causes it and what to do."""

    signature: Signature
    severity: Severity
    where: Place
    evidence: Mapping[str, float | str]
    cause: str
    remedy: str

    def __str__(self) -> str:
        lines = [f"{self.severity.upper()}: {self.signature} ({self.where})"]
        for label, text in self._facts().items():
            lines += _folded(f"  {label:<9} ", text)
        return "\n".join(lines)

    def _facts(self) -> dict[str, str]:
        facts = "; ".join(f"{name} {_number(value)}" for name, value in self.evidence.items())
        return {"evidence": facts, "cause": self.cause, "remedy": self.remedy}

    def _card(self) -> Card:
        return Card(self.signature, self.severity, str(self.where), self._facts())

    def section(self) -> Section:
        """A part of the card of a diagnosis."""
        return Section(f"{self.signature}: {self.where}", self.severity, self._facts())

    def to_dict(self) -> dict[str, Any]:
        """As plain data."""
        where = {
            "layer": self.where.layer,
            "head": self.where.head,
            "keys": list(self.where.keys),
            "module": self.where.module,
        }
        evidence = {name: _plain(value) for name, value in self.evidence.items()}
        return {
            "signature": self.signature,
            "severity": self.severity,
            "where": where,
            "evidence": evidence,
            "cause": self.cause,
            "remedy": self.remedy,
        }


@dataclass(frozen=True, repr=False)
class Diagnosis(Displayed):
    """The findings, worst first, the numbers of every head, and what could not be looked at.

    ``healthy`` means: no fault and no warning. It says that none of the known signatures was seen at the points looked
    at; it proves nothing. A certificate does.
    """

    findings: tuple[Finding, ...]
    heads: tuple[HeadStatistics, ...]
    dtype: str
    points: int
    unknown: tuple[str, ...] = field(default=())

    @property
    def healthy(self) -> bool:
        """Whether there is neither a fault nor a warning."""
        return all(finding.severity == "note" for finding in self.findings)

    @property
    def faults(self) -> tuple[Finding, ...]:
        """The findings that are faults."""
        return tuple(finding for finding in self.findings if finding.severity == "fault")

    @property
    def _looked_at(self) -> str:
        many = f"{len(self.heads):,} head{'s' * (len(self.heads) != 1)}"
        return f"{many} in {self.dtype}, {self.points:,} points"

    def __repr__(self) -> str:
        return f"<Diagnosis {verdict(self)} ({self._looked_at})>"

    def _card(self) -> Card:
        sections = [finding.section() for finding in self.findings]
        if self.heads:
            header, *rows = _rows(self.heads)
            grid = Grid(header, rows, _left(self.heads))
            sections.append(Section("numbers of the heads", grids=[grid], folded=True))
        facts = {f"not judged ({i})": text for i, text in enumerate(self.unknown, 1)}
        return Card("Diagnosis", verdict(self), self._looked_at, facts, sections=sections)

    def __str__(self) -> str:
        lines = [f"{verdict(self)} ({self._looked_at})"]
        for finding in self.findings:
            lines += ["", str(finding)]
        lines += ["", *_table(self.heads)] if self.heads else []
        lines += [line for text in self.unknown for line in _folded("not judged: ", text)]
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """As plain data, fit for JSON."""
        return {
            "healthy": self.healthy,
            "dtype": self.dtype,
            "points": self.points,
            "findings": [finding.to_dict() for finding in self.findings],
            "heads": [head.to_dict() for head in self.heads],
            "unknown": list(self.unknown),
        }


def verdict(diagnosis: Diagnosis) -> str:
    """Healthy, or how many findings of each severity."""
    counts = {kind: sum(f.severity == kind for f in diagnosis.findings) for kind in ORDER}
    said = [f"{count} {kind}{'s' * (count > 1)}" for kind, count in counts.items() if count]
    if diagnosis.healthy:
        return "healthy" + (f", {said[0]}" if said else "")
    return ", ".join(said)


def ordered(findings: list[Finding]) -> tuple[Finding, ...]:
    """Worst first; otherwise in the order found."""
    return tuple(sorted(findings, key=lambda finding: ORDER[finding.severity]))


def _table(heads: tuple[HeadStatistics, ...]) -> list[str]:
    """The numbers of the first heads, aligned."""
    rows = _rows(heads)
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(f"{cell:>{width}}" for cell, width in zip(row, widths, strict=True)) for row in rows]
    return lines + ([_left(heads)] if _left(heads) else [])


def _left(heads: tuple[HeadStatistics, ...]) -> str:
    """How many heads are not listed."""
    return f"... and {len(heads) - SHOWN_HEADS:,} more" if len(heads) > SHOWN_HEADS else ""


def _rows(heads: tuple[HeadStatistics, ...]) -> list[tuple[str, ...]]:
    """Names and numbers of the first heads."""
    header = ("layer", "head", "keys", "eff. keys", "largest", "two nearest", "score range", "gap in ulps", "c")
    rows: list[tuple[str, ...]] = [header]
    for head in heads[:SHOWN_HEADS]:
        sharp = "-" if head.sharpness is None else f"{head.sharpness:.3g}"
        numbers = (head.effective_keys, head.largest_weight, head.two_nearest, head.score_range, head.gap_in_ulps)
        rows.append((str(head.layer), str(head.head), str(head.keys), *(f"{n:.3g}" for n in numbers), sharp))
    return rows


def _folded(label: str, text: str) -> list[str]:
    return textwrap.wrap(text, 100, initial_indent=label, subsequent_indent=" " * len(label)) or [label.rstrip()]


def _number(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:.4g}"


def _plain(value: float | str) -> float | str | None:
    if isinstance(value, str):
        return value
    return float(value) if np.isfinite(value) else None
