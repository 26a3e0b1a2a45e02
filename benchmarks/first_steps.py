"""Seconds from an empty folder to a certified network, a figure and an ONNX file: the lines of ``docs/quickstart.md``.

Run ``python benchmarks/first_steps.py`` in a checkout whose changes are committed: it clones it into a temporary
folder, runs there the first block of that page, line by line, and writes ``benchmarks/results/first_steps.md``.
Nothing of the checkout's own ``.venv`` is used. It takes some minutes and 2 GB, which are removed again.
"""

from __future__ import annotations

import os
import platform
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE, RESULTS = ROOT / "docs" / "quickstart.md", ROOT / "benchmarks" / "results" / "first_steps.md"
CLONE = "git clone REPOSITORY attnforge"
WRITTEN = ("attnforge-demo.safetensors", "attnforge-demo.png", "wave.safetensors", "wave.html", "wave.onnx")


@dataclass(frozen=True)
class Step:
    """A line of the page, what came of it, and how many seconds it took: by the clock, and of the processor."""

    line: str
    gives: str
    clock: float
    processor: float


def lines() -> list[str]:
    """The commands of the page's first block, without what is said of them."""
    block = PAGE.read_text(encoding="utf-8").partition("```console\n")[2].partition("```")[0]
    return [line.removeprefix("$ ").partition("  #")[0].rstrip() for line in block.splitlines()]


def run(folder: Path) -> list[Step]:
    """Every line in turn, in a shell, the first in the folder and the others in the clone."""
    first, *others = lines()
    assert first.startswith(CLONE), "the page begins with a clone"
    clone = folder / "attnforge"
    steps = [Step(first, "the sources", *_seconds(["git", "clone", "--quiet", str(ROOT), str(clone)], folder))]
    there = set[str]()
    for line in others:
        spent = _seconds(["bash", "-c", line], clone)
        new = {name for name in WRITTEN if (clone / name).is_file()} - there
        there |= new
        steps.append(Step(line, ", ".join(f"`{name}`" for name in WRITTEN if name in new), *spent))
    assert there == set(WRITTEN), f"not written: {set(WRITTEN) - there}"
    return steps


def _seconds(command: list[str], folder: Path) -> tuple[float, float]:
    started, before = time.perf_counter(), _of_children()
    done = subprocess.run(command, cwd=folder, env=_environment(), capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")
    return time.perf_counter() - started, _of_children() - before


def _of_children() -> float:
    spent = os.times()
    return spent.children_user + spent.children_system


def _environment() -> dict[str, str]:
    """That of the caller, without what would let the checkout's packages in."""
    return {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}


def page(steps: list[Step], megabytes: float, load: float) -> str:
    """The table, a line a command; what stands before it says how it was made."""
    rows = [f"| `{step.line}` | {step.gives} | {step.clock:.0f} | {step.processor:.0f} |" for step in steps]
    machine = f"Python {platform.python_version()}, {os.cpu_count()} cores, {platform.system()}"
    return f"""\
# From a clone to the first network, figure and ONNX file

Made by `python benchmarks/first_steps.py`. {machine}, {load:.1f} processes at work on average,
others' included. The clone is of a folder on the same disk, packages come from a mirror nearby: {megabytes:,.0f} MB in
the end, for which another connection may need longer.

## From an empty folder

| command | gives | seconds by the clock | of the processor |
|---|---|---|---|
{chr(10).join(rows)}
"""


def main() -> None:
    """Measure, and write the page."""
    with tempfile.TemporaryDirectory() as folder:
        steps = run(Path(folder))
        size = sum(path.lstat().st_size for path in Path(folder, "attnforge", ".venv").rglob("*")) / 1e6
    RESULTS.write_text(page(steps, size, os.getloadavg()[2]), encoding="utf-8")


if __name__ == "__main__":
    main()
