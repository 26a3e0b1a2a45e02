"""One experiment from its settings to its folder: measure what is missing, then write table, figures and verdict."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import joblib

from attnforge.display import Card, Displayed, Grid
from attnforge.errors import TargetError
from attnforge.experiments.experiment import Experiment, Finding
from attnforge.experiments.journal import Entry, append, key, read
from attnforge.experiments.settings import Settings, changed, to_toml
from attnforge.experiments.settings import quick as quick_settings
from attnforge.experiments.sweep import sweep
from attnforge.experiments.table import Table
from attnforge.experiments.verdict import verdict
from attnforge.experiments.writing import SHOWN, check_formats, save_figure, write_text

JOURNAL, RESULTS, VERDICT, SETTINGS = "cases.jsonl", "results.csv", "verdict.md", "settings.toml"


class FailedCasesError(RuntimeError):
    """Cases of an experiment raised errors; the others are in the journal."""


@dataclass(frozen=True, eq=False, repr=False)
class Result(Displayed):
    """What an experiment found, and the folder it wrote."""

    experiment: Experiment[Any]
    folder: Path
    table: Table
    findings: tuple[Finding, ...]
    measured: int
    seconds: float

    def __repr__(self) -> str:
        return f"<Result of {self.experiment.name}: {len(self.findings)} findings, {len(self.table):,} rows>"

    def _card(self) -> Card:
        rows = [(finding.claim, finding.verdict, finding.evidence) for finding in self.findings]
        facts = {"rows": f"{len(self.table):,}", "folder": str(self.folder)}
        grid = Grid(("claim", "verdict", "evidence"), rows)
        return Card(self.experiment.name, statement=self.experiment.question, facts=facts, grids=[grid])


def run(
    experiment: Experiment[Any],
    settings: Settings | None = None,
    *,
    out: str | os.PathLike[str],
    quick: bool = False,
    workers: int | None = None,
    cluster: str | None = None,
    again: bool = False,
    command: str = "",
    formats: Sequence[str] = SHOWN,
    progress: Callable[[int, int], None] | None = None,
) -> Result:
    """Run an experiment and write its folder.

    Every finished case is appended to ``cases.jsonl`` at once. Run again with the same folder, the experiment goes on
    where it was interrupted: cases measured before by the same code are not measured again.

    Args:
        experiment: what to run; :data:`attnforge.experiments.EXPERIMENTS` lists them.
        settings: of its own type; by default those of the full run, or with ``quick`` of the quick one.
        out: a folder, made where missing; the experiment writes into the folder of its name below.
        quick: take the quick settings.
        workers: processes; by default one a core.
        cluster: address of a Dask scheduler whose workers measure the cases instead.
        again: measure all cases anew; earlier entries of the journal stay, the latest count.
        command: what the verdict says made it.
        formats: of the figures: ``png``, which the verdict shows, ``svg``, ``pdf``.
        progress: told the number of finished cases and of all.
    """
    if settings is None:
        settings = quick_settings(experiment.settings) if quick else experiment.settings()
    check_formats(formats)
    if workers is not None and workers < 1:
        raise TargetError("`workers` must be at least 1", str(workers), "Leave it out for one a core")
    changed(settings, asdict(settings))  # raises where they hold what they must not
    folder = Path(out) / experiment.name
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        got = f"{out}: {error.strerror}"
        raise TargetError("`out` must be a folder that can be written", got, "Choose another") from error
    started = time.perf_counter()
    entries, measured = _measured(experiment, settings, folder, workers or joblib.cpu_count(), cluster, again, progress)
    table = Table.of(row for entry in entries for row in entry.rows)
    findings = tuple(experiment.findings(table, settings))
    figures, notes = experiment.figures(table, settings), experiment.notes(table, settings)
    write_text(folder / RESULTS, table.to_csv())
    write_text(folder / SETTINGS, to_toml(experiment.name, settings))
    for name, figure in figures.items():
        save_figure(figure, folder / name, formats)
    spent = sum(entry.seconds for entry in entries)
    write_text(folder / VERDICT, verdict(experiment, findings, notes, list(figures), len(table), command, spent))
    return Result(experiment, folder, table, findings, measured, time.perf_counter() - started)


def _measured(
    experiment: Experiment[Any],
    settings: Settings,
    folder: Path,
    workers: int,
    cluster: str | None,
    again: bool,
    progress: Callable[[int, int], None] | None,
) -> tuple[list[Entry], int]:
    """The entries of all cases, in their order, and how many of them had to be measured."""
    version, path = _version(), folder / JOURNAL
    told = progress or (lambda done, total: None)
    cases = {key(case): case for case in experiment.cases(settings)}
    known = {} if again else read(path, version)
    missing = [case for name, case in cases.items() if name not in known]
    told(len(cases) - len(missing), len(cases))
    failures = []
    for done, outcome in enumerate(sweep(experiment, missing, workers=workers, cluster=cluster), 1):
        if outcome.entry is None:
            failures.append(outcome)
        else:
            append(path, outcome.case, outcome.entry, version)
            known[key(outcome.case)] = outcome.entry
        told(len(cases) - len(missing) + done, len(cases))
    if failures:
        first = next((each for each in failures if each.refusal is None), failures[0])
        if first.refusal is not None:
            requirement, got, remedy = first.refusal
            raise TargetError(f"In the case {dict(first.case)} of {experiment.name}: {requirement}", got, remedy)
        count = f"{len(failures)} of {len(cases)} cases of {experiment.name} failed; the others are kept"
        raise FailedCasesError(f"{count}. The first was {dict(first.case)}:\n{first.failure}")
    return [known[name] for name in cases], len(missing)


def _version() -> str:
    """What measured: the version, and a hash of all sources, since results of other code are no results of this one."""
    import attnforge

    digest = hashlib.sha256()
    for path in sorted(Path(attnforge.__file__).parent.rglob("*.py")):
        digest.update(path.read_bytes())
    return f"{attnforge.__version__} {digest.hexdigest()[:16]}"
