"""The verdict of an experiment as a page of Markdown, and the index of several."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable, Sequence
from importlib.metadata import version
from typing import Any

from attnforge.experiments.experiment import Experiment, Finding
from attnforge.experiments.table import markdown

HEADER = ["claim", "verdict", "evidence"]
PACKAGES = ("attnforge", "numpy", "scipy", "torch")


def verdict(
    experiment: Experiment[Any],
    findings: Sequence[Finding],
    notes: Sequence[str],
    figures: Sequence[str],
    rows: int,
    command: str,
    seconds: float,
) -> str:
    """Question, findings, notes, figures, and how they were made."""
    parts = [f"# {experiment.name}", experiment.question, findings_table(findings), *notes]
    parts += [f"![{name.replace('-', ' ')}]({name}.png)" for name in figures]
    parts.append(
        f"{rows:,} rows in [results.csv](results.csv); settings in [settings.toml](settings.toml). {made_by(command)}"
    )
    parts.append(f"{machine()}; {seconds:.0f} s of measuring, all cases added up.")
    return "\n\n".join(parts) + "\n"


def index(entries: Iterable[tuple[Experiment[Any], Sequence[Finding]]], command: str) -> str:
    """One line a finding, over all experiments."""
    rows = [
        [f"[{experiment.name}]({experiment.name}/verdict.md)", *_cells(finding)]
        for experiment, findings in entries
        for finding in findings
    ]
    table = markdown(["experiment", *HEADER], rows)
    return "\n\n".join(["# Experiments", made_by(command), table, machine() + "."]) + "\n"


def findings_table(findings: Sequence[Finding]) -> str:
    """Claims, verdicts and evidence.

    >>> print(findings_table([Finding("error falls as 1/p", "confirmed", "slope -1.00")]))
    | claim | verdict | evidence |
    |---|---|---|
    | error falls as 1/p | **confirmed** | slope -1.00 |
    """
    return markdown(HEADER, [_cells(finding) for finding in findings])


def _cells(finding: Finding) -> list[str]:
    return [finding.claim, f"**{finding.verdict}**", finding.evidence]


def made_by(command: str) -> str:
    """The command, where it is known."""
    return f"Made by `{command}`." if command else "Made from Python."


def machine() -> str:
    """Versions and cores: what a reader needs to compare times."""
    versions = ", ".join(f"{name} {version(name)}" for name in PACKAGES)
    return f"Python {platform.python_version()}, {versions}; {platform.machine()}, {os.cpu_count()} cores"
