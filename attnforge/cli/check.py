"""What ``attnforge certify --check`` says: the verdict of the independent checker, and its exit code."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from attnforge.cli.failure import ExitCode
from attnforge.cli.screen import print_facts, print_json, progress

if TYPE_CHECKING:
    from attnforge.certification.checker.check import Verdict

CODES = {
    "confirmed": ExitCode.OK,
    "rejected": ExitCode.NOT_CONFIRMED,
    "unprovable": ExitCode.NOT_PROVABLE,
    "undecided": ExitCode.UNDECIDED,
}


def check_file(file: Path, as_json: bool, cells: int | None, asked: dict[str, Any]) -> ExitCode:
    """Check a model file, say what came out, and return the code that goes with it."""
    from attnforge.model_file import check

    with progress("checking") as advance:
        found = check(file, cells=cells, progress=advance, **asked)
    if as_json:
        print_json({"file": str(file), **_data(found)})
    else:
        print_facts(_facts(found), {"verdict": "bold green" if found.verdict == "confirmed" else "bold red"})
    return CODES[found.verdict]


def _facts(found: Verdict) -> dict[str, str]:
    facts = {"verdict": found.verdict.upper() if found.verdict == "rejected" else found.verdict}
    if found.what is not None:
        facts["what"] = found.what
    return facts | {"reason": found.reason} | found.facts()


def _data(found: Verdict) -> dict[str, Any]:
    outcome = found.outcome
    return {
        "verdict": found.verdict,
        "what": found.what,
        "reason": found.reason,
        "cells": None if outcome is None else outcome.cells,
        "recomputed": None if outcome is None else float(outcome.reached),
        "seen": None if outcome is None else float(outcome.seen),
        "at": None if outcome is None else list(outcome.at),
    }
