"""Seconds of the processor to compile and prove, against an earlier commit, side by side.

Run ``OMP_NUM_THREADS=1 .venv/bin/python benchmarks/compiling.py``: the table goes to
``benchmarks/results/compiling.md``. The rows are those of ``anchor_engine.py`` and ``certificates.py``: sizing,
fitting, the proof and the search beside it. Two processes of one thread, one a checkout, take every row in turn; a
figure is the median over ``--rounds``. ``--against`` names the commit, whose sources are unpacked into a temporary
folder. ``--quick`` takes every fourth row once, and writes nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

COMMAND = "OMP_NUM_THREADS=1 .venv/bin/python benchmarks/compiling.py"
ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results"
BEFORE = "f0b4b72"  # the last commit before evaluation and compiling were made faster
LIMIT = 60.0  # seconds of a row of that commit: grids of a quarter of a million keys are left out


def rows() -> dict[str, Callable[[], Any]]:
    """What is compiled, by its name, by the attnforge that is imported."""
    import anchor_engine
    import certificates

    import attnforge as af

    def compiled(case: Any) -> Callable[[], Any]:
        return lambda: af.compile(case.target, case.domain, tol=case.tol, construction=case.construction)

    engine = {f"{case.name}, {case.construction}, {case.tol:g}": compiled(case) for case in anchor_engine.cases()}
    return engine | {case.name: case.build for case in certificates.cases()}


def serve() -> None:
    """Compile the rows named on standard input; seconds, keys and bounds go to standard output."""
    import torch

    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    known = rows()
    for line in sys.stdin:
        started = time.process_time()
        net = known[json.loads(line)]()
        spent = time.process_time() - started
        print(json.dumps([spent, net.anchors, net.certificate.status, net.certificate.bound]), flush=True)


@dataclass(frozen=True)
class Side:
    """A process that compiles rows with the sources of one checkout."""

    process: subprocess.Popen[str]

    def compile(self, name: str) -> tuple[float, int, str, float | None]:
        """Seconds, keys, status, bound."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(name) + "\n")
        self.process.stdin.flush()
        seconds, keys, status, bound = json.loads(self.process.stdout.readline())
        return seconds, keys, status, bound


@contextmanager
def side(checkout: Path) -> Iterator[Side]:
    """Start it, end it."""
    environment = os.environ | {"PYTHONPATH": str(checkout), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, str(Path(__file__).resolve()), "--serve"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    ) as process:
        try:
            yield Side(process)
        finally:
            process.kill()


@contextmanager
def sources(commit: str) -> Iterator[Path]:
    """The package of a commit, in a folder that is removed afterwards."""
    with tempfile.TemporaryDirectory() as folder:
        archive = subprocess.run(["git", "archive", commit, "attnforge"], cwd=ROOT, stdout=subprocess.PIPE, check=True)
        subprocess.run(["tar", "-x", "-C", folder], input=archive.stdout, check=True)
        yield Path(folder)


@dataclass(frozen=True)
class Row:
    """One target: seconds before and now, keys and bounds of both."""

    name: str
    seconds: tuple[float, float]
    keys: tuple[int, int]
    stated: tuple[str, str]

    @property
    def ratio(self) -> float:
        """Times less than before."""
        return self.seconds[0] / self.seconds[1]

    @property
    def text(self) -> str:
        """A line of the table."""
        before, now = self.seconds
        cells = f"{before:.2g} | {now:.2g} | {self.ratio:.1f}"
        return f"| {self.name} | {cells} | {self.keys[0]:,} | {self.keys[1]:,} | {' | '.join(self.stated)} |"


def measured(names: Sequence[str], before: Side, now: Side, rounds: int) -> Iterator[Row]:
    """Every row by both, in turn."""
    for name in names:
        first = before.compile(name)
        if first[0] > LIMIT:
            continue
        pairs = [(first, now.compile(name))]
        pairs += [(before.compile(name), now.compile(name)) for _ in range(rounds - 1)]
        seconds = statistics.median(a[0] for a, _ in pairs), statistics.median(b[0] for _, b in pairs)
        old, new = pairs[-1]
        yield Row(name, seconds, (old[1], new[1]), (_stated(*old[2:]), _stated(*new[2:])))


def _stated(status: str, bound: float | None) -> str:
    return status if bound is None else f"{status} {bound:.2e}"


def page(found: Sequence[Row], commit: str, rounds: int) -> str:
    """Heading and table."""
    model = next((each for each in Path("/proc/cpuinfo").read_text().splitlines() if "model name" in each), "")
    ratios = [row.ratio for row in found]
    slower = sum(ratio < 1 for ratio in ratios)
    return "\n".join(
        [
            "# Seconds to compile and prove",
            "",
            f"Made by `{COMMAND}`. Python {platform.python_version()}; {model.split(':')[-1].strip()}, one thread.",
            f"Seconds of the processor at commit {commit} and now, medians of {rounds} rounds that alternate.",
            "",
            f"**{statistics.median(ratios):.1f} times less in the median; {slower} of {len(found)} rows are slower.**",
            "",
            "| target | before | now | ratio | keys before | now | stated before | now |",
            "|---|---|---|---|---|---|---|---|",
            *(row.text for row in found),
            "",
        ]
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Print and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--against", default=BEFORE, help="the commit to compare with")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="every fourth row once; nothing is written")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.serve:
        return serve()
    rounds, names = 1 if options.quick else options.rounds, list(rows())[:: 4 if options.quick else 1]
    found = []
    with sources(options.against) as folder, side(folder) as before, side(ROOT) as now:
        for row in measured(names, before, now, rounds):
            found.append(row)
            print(row.text, flush=True)
    if not options.quick:
        (RESULTS / "compiling.md").write_text(page(found, options.against, rounds))
    return None


if __name__ == "__main__":
    sys.exit(main())
