"""``attnforge bench``: how fast and how exact networks are, beside what others would use for the same work."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Annotated

import typer

from attnforge.cli.failure import ExitCode
from attnforge.cli.options import AsJson
from attnforge.cli.screen import note, print_json, print_table
from attnforge.errors import TargetError

SCRIPTS = ("evaluation", "compiling", "peers", "scaling")
FOLDER = Path(__file__).resolve().parents[2] / "benchmarks"

EPILOG = """\
Example:

\b
  attnforge bench --quick       a few minutes; prints, writes nothing
  attnforge bench evaluation    one of them in full, with its page of results
  attnforge bench --list

Beside scipy, torch, trained networks and scikit-learn: ratios are measured side by side in one run, by one thread,
in seconds of the processor. The peers are installed by pip install 'attnforge[bench]' (`./run bench` does it by
itself); lines of a peer that is missing are left out."""


def run(
    names: Annotated[list[str] | None, typer.Argument(metavar="NAME", help="Which; all without a name.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Few and short rows; nothing is written.")] = False,
    listing: Annotated[bool, typer.Option("--list", help="Name them, and stop.")] = False,
    as_json: AsJson = False,
) -> None:
    """Measure speed and accuracy beside others."""
    wanted = _scripts(names or [])
    if listing:
        about = {script.stem: _first_line(script) for script in wanted}
        if as_json:
            print_json({"benchmarks": about})
        else:
            print_table(("name", "what it measures"), list(about.items()))
        return
    spent = {script.stem: _seconds(script, quick, as_json) for script in wanted}
    if as_json:
        print_json({"seconds": spent})


def _scripts(names: list[str]) -> list[Path]:
    """The files; refused outside of a checkout, or by a name that there is none of."""
    if not FOLDER.is_dir():
        remedy = "Clone the repository and call ./run bench there"
        raise TargetError("Benchmarks are run from a checkout of attnforge", "an installed package", remedy)
    unknown = sorted(set(names) - set(SCRIPTS))
    if unknown:
        raise TargetError(
            f"A benchmark is one of {', '.join(SCRIPTS)}", ", ".join(unknown), "See attnforge bench --list"
        )
    return [FOLDER / f"{name}.py" for name in SCRIPTS if not names or name in names]


def _seconds(script: Path, quick: bool, quiet: bool) -> float:
    """Run it in a process of its own, and say how long it took."""
    note(f"{script.stem}: {_first_line(script)}")
    started = time.perf_counter()
    command = [sys.executable, str(script), *(["--quick"] if quick else [])]
    done = subprocess.run(
        command,
        check=False,
        env=os.environ | {"OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"},
        stdout=2 if quiet else None,
    )
    if done.returncode:
        raise typer.Exit(ExitCode.UNEXPECTED)
    spent = time.perf_counter() - started
    note(f"{script.stem}: {spent:.0f} s")
    return spent


def _first_line(script: Path) -> str:
    return (ast.get_docstring(ast.parse(script.read_text(encoding="utf-8"))) or "").splitlines()[0]
