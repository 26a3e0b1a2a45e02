"""The 100 AI-Feynman equations as graphs of registers: how many are proved, with how many keys, how tightly, how fast.

Run ``OMP_NUM_THREADS=1 .venv/bin/python benchmarks/feynman.py``: the tables go to ``benchmarks/results/feynman.md`` and
``feynman.csv``. The equations and their ranges are facts of Udrescu and Tegmark (2020), AI Feynman: a physics-inspired
method for symbolic regression, Science Advances 6, eaay2631 (``benchmarks/data/feynman.csv``). Tolerances are relative
to the largest of 20,000 uniform samples; errors are looked for at 100,000 fresh points and by a climb from the worst.
"""

from __future__ import annotations

import argparse
import csv
import statistics
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

import attnforge as af
from attnforge.certification.checker.check import check as check_bound
from attnforge.effort import until

ROOT = Path(__file__).parent
COMMAND = "OMP_NUM_THREADS=1 .venv/bin/python benchmarks/feynman.py"
STATED = ((1e-6, "float64"), (1e-10, "float64"), (1e-4, "float32"))  # tolerances and dtypes of the tables
SAMPLES, FRESH, LIMIT = 20_000, 100_000, 60.0
CHECK_LIMIT = 30.0  # seconds of the independent checker
HEADING = """# The AI-Feynman equations as graphs of registers

Made by `{command}`. Every equation of Udrescu and Tegmark (2020) on its published ranges, compiled with
`construction="graph"` to a tolerance relative to its largest value. *Proved*: bounds at most the tolerance.
*Tightness*: bound over the largest error found at {fresh:,} fresh points and by a climb. *Confirmed*: with
`--check`, by the independent checker within {check:g} s.

| tol | dtype | proved | keys: median, most | layers | tightness: median, 90 % | seconds: median, most | confirmed |
|---|---|---|---|---|---|---|---|"""


@dataclass(frozen=True)
class Row:
    """One equation at one tolerance; bound and error are relative to the largest value."""

    name: str
    tol: float
    dtype: str
    keys: int | None
    layers: int | None
    bound: float | None
    error: float | None
    seconds: float
    reason: str = ""
    checked: str = ""

    @property
    def proved(self) -> bool:
        """Whether the bound is within the tolerance."""
        return self.bound is not None and self.bound <= self.tol


def equations() -> list[dict[str, str]]:
    """Name, formula and ranges."""
    with (ROOT / "data" / "feynman.csv").open() as file:
        return [row for row in csv.DictReader(file) if row["Filename"]]


def domain_of(row: dict[str, str]) -> dict[str, tuple[float, float]]:
    """The inputs and their ranges."""
    numbers = [i for i in range(1, 11) if row.get(f"v{i}_name")]
    return {row[f"v{i}_name"]: (float(row[f"v{i}_low"]), float(row[f"v{i}_high"])) for i in numbers}


def measured(row: dict[str, str], tol: float, dtype: str, check: bool) -> Row:
    """Compile, prove and measure one equation; and hand it to the independent checker."""
    domain, start = domain_of(row), time.perf_counter()
    try:
        target = af.Box([low for low, _ in domain.values()], [high for _, high in domain.values()])
        points = np.random.default_rng(0).uniform(target.lower, target.upper, size=(SAMPLES, len(domain)))
        scale = float(np.abs(_values(row, domain, points)).max())
        start = time.perf_counter()
        net = af.compile(row["Formula"], domain, tol * scale, construction="graph", dtype=dtype, timeout=LIMIT)
    except af.AttnforgeError as refusal:
        return Row(row["Filename"], tol, dtype, None, None, None, None, time.perf_counter() - start, _line(refusal))
    seconds = time.perf_counter() - start
    bound = net.certificate.bound
    found = af.measure(net, points=FRESH).sup / scale
    reason = "" if bound is not None else net.certificate.assumptions[0]
    stated = None if bound is None else bound / scale
    told = verdict(net) if check and bound is not None else ""
    return Row(row["Filename"], tol, dtype, net.anchors, net.layers, stated, found, seconds, reason, told)


def verdict(net: af.Compiled) -> str:
    """What the independent checker says of the bound, within its time."""
    with until(CHECK_LIMIT):
        return check_bound(net.network, net.target, net.certificate, net.dtype).verdict


def _values(row: dict[str, str], domain: dict[str, tuple[float, float]], points: np.ndarray) -> np.ndarray:
    from attnforge.compiler.targets import as_target

    return as_target(row["Formula"], domain).values(points)


def _line(error: Exception) -> str:
    return " ".join(str(error).split())[:160]


def summary(rows: list[Row]) -> str:
    """One line of the table."""
    good = [row for row in rows if row.proved]
    if not good:
        return f"| {rows[0].tol:g} | {rows[0].dtype} | 0 of {len(rows)} | | | | | |"
    ratios = [row.bound / max(row.error, 1e-300) for row in good if row.bound is not None and row.error is not None]
    keys = [row.keys for row in good if row.keys is not None]
    layers = [row.layers for row in good if row.layers is not None]
    seconds = [row.seconds for row in rows]
    tight = f"{statistics.median(ratios):.2g}, {np.percentile(ratios, 90):.2g}"
    times = f"{statistics.median(seconds):.2g}, {max(seconds):.2g}"
    first = (
        f"| {rows[0].tol:g} | {rows[0].dtype} | {len(good)} of {len(rows)} | {statistics.median(keys):g}, {max(keys)}"
    )
    confirmed = sum(row.checked == "confirmed" for row in rows) if any(row.checked for row in rows) else "not asked"
    return f"{first} | {max(layers)} | {tight} | {times} | {confirmed} |"


def main() -> None:
    """Print and write the page; fail if an error exceeds a bound."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", help="names of equations")
    parser.add_argument("--dtype", choices=sorted({dtype for _, dtype in STATED}), help="one of the dtypes")
    parser.add_argument("--check", action="store_true", help="hand every certificate to the independent checker")
    asked = parser.parse_args()
    command = " ".join([COMMAND, *sys.argv[1:]])
    page, everything = [HEADING.format(command=command, fresh=FRESH, check=CHECK_LIMIT)], list[Row]()
    for tol, dtype in STATED if asked.dtype is None else [each for each in STATED if each[1] == asked.dtype]:
        rows = []
        for row in equations():
            if not asked.only or row["Filename"] in asked.only:
                rows.append(measured(row, tol, dtype, asked.check))
                print(rows[-1], flush=True)
        everything += rows
        page.append(summary(rows))
    false = [row for row in everything if row.bound is not None and row.error is not None and row.error > row.bound]
    page.append(f"\nErrors above a bound: {len(false)}. Not proved within the tolerance:\n")
    page += [
        f"- {row.name} at {row.tol:g} in {row.dtype}: {row.reason or f'bound {row.bound:.3g}'}"
        for row in everything
        if not row.proved
    ]
    print("\n".join(page))
    if not asked.only and asked.dtype is None:
        (ROOT / "results" / "feynman.md").write_text("\n".join(page) + "\n")
        with (ROOT / "results" / "feynman.csv").open("w", newline="") as file:
            writer = csv.DictWriter(file, list(asdict(everything[0])))
            writer.writeheader()
            writer.writerows(asdict(row) for row in everything)
    sys.exit(1 if false else 0)


if __name__ == "__main__":
    main()
