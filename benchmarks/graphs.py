"""Formulas of many inputs as graphs of registers: keys, bounds and seconds of functions that people use as tests.

Run ``OMP_NUM_THREADS=1 .venv/bin/python benchmarks/graphs.py``: the tables go to ``benchmarks/results/graphs.md``, the
figure to ``graphs.png``. Tolerances are relative to the largest of 20,000 uniform samples, but for piecewise affine
formulas and products, where they are absolute; errors are looked for at 100,000 fresh points and by a climb from the
worst. Keys grow linearly with the number of inputs (Rosenbrock), and with the logarithm of the tolerance.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import attnforge as af
from attnforge.compiler.targets import as_target

ROOT = Path(__file__).parent
COMMAND = "OMP_NUM_THREADS=1 .venv/bin/python benchmarks/graphs.py"
SAMPLES, FRESH, LIMIT = 20_000, 100_000, 60.0
DIMENSIONS, TOLERANCES = (5, 10, 20, 40), (1e-4, 1e-5, 1e-6, 1e-7, 1e-8, 1e-9)
HEADING = f"""# Formulas of many inputs

Made by `{COMMAND}`. *Seconds* are CPU seconds of compiling and proving; bounds and errors of the first table are
relative to the function's largest value.
"""
Domain = dict[str, tuple[float, float]]


@dataclass(frozen=True)
class Case:
    """A formula on a domain; ``relative`` tolerances are multiplied by its largest value."""

    name: str
    text: str
    domain: Domain
    tol: float = 1e-6
    relative: bool = True
    construction: str = "graph"


@dataclass(frozen=True)
class Row:
    """What became of it."""

    case: Case
    keys: int
    layers: int
    bound: float
    error: float
    seconds: float


def rosenbrock(d: int) -> Case:
    """On [-2, 2]^d."""
    terms = [f"100*(x[{i + 1}] - x[{i}]^2)^2 + (1 - x[{i}])^2" for i in range(d - 1)]
    return Case(f"Rosenbrock, {d} inputs", " + ".join(terms), _box(d, 2.0))


def ackley(d: int) -> Case:
    """On [-5, 5]^d; its root reaches 0 at the centre."""
    squares, cosines = (" + ".join(part.format(i) for i in range(d)) for part in ("x[{}]^2", "cos(2*pi*x[{}])"))
    text = f"-20*exp(-0.2*sqrt(({squares})/{d})) - exp(({cosines})/{d}) + 20 + exp(1)"
    return Case(f"Ackley, {d} inputs", text, _box(d, 5.0))


def rastrigin(d: int) -> Case:
    """On [-5, 5]^d."""
    terms = [f"x[{i}]^2 - 10*cos(2*pi*x[{i}])" for i in range(d)]
    return Case(f"Rastrigin, {d} inputs", f"{10 * d} + " + " + ".join(terms), _box(d, 5.0))


def _box(d: int, side: float) -> Domain:
    return {f"x[{i}]": (-side, side) for i in range(d)}


BLACK_SCHOLES = Case(
    "Black-Scholes call",
    "S*normcdf((log(S/K) + (r + v^2/2)*T)/(v*sqrt(T))) - K*exp(-r*T)*normcdf((log(S/K) + (r - v^2/2)*T)/(v*sqrt(T)))",
    {"S": (50, 150), "K": (50, 150), "r": (0.01, 0.1), "v": (0.1, 0.5), "T": (0.25, 2)},
)
ARM = Case(
    "robot arm, 6 joints",
    "cos(a) + 0.8*cos(a+b) + 0.6*cos(a+b+c) + 0.5*cos(a+b+c+d) + 0.3*cos(a+b+c+d+g) + 0.2*cos(a+b+c+d+g+h)",
    dict.fromkeys("abcdgh", (-np.pi / 2, np.pi / 2)),
)
PLANCK = Case("Planck", "2*h*n^3/c^2/(exp(h*n/(k*T)) - 1)", dict.fromkeys(("h", "n", "c", "k", "T"), (1.0, 5.0)))
GRAVITY = Case(
    "gravity, 9 inputs",
    "G*m*n/((x - a)^2 + (y - b)^2 + (z - c)^2)",
    dict.fromkeys(("G", "m", "n", "a", "b", "c"), (1.0, 2.0)) | dict.fromkeys(("x", "y", "z"), (3.0, 4.0)),
)
NAMED = (GRAVITY, rosenbrock(20), rosenbrock(40), ackley(10), rastrigin(10), BLACK_SCHOLES, ARM, PLANCK)
PRODUCTS = (
    Case("x y", "x*y", dict.fromkeys("xy", (-1.0, 1.0)), 5e-14, relative=False),
    Case("16 factors", "*".join(f"x[{i}]" for i in range(16)), {f"x[{i}]": (0.5, 1.5) for i in range(16)}, 1e-9, False),
)
AFFINE = tuple(
    Case(text, text, dict.fromkeys(names, (-1.0, 1.0)), 1e-12, relative=False, construction="auto")
    for text, names in (
        ("max(x, y)", "xy"),
        ("abs(abs(x) - 0.5)", "x"),
        ("max(min(a, b), c) - abs(x + y)", "abcxy"),
        ("max(a, b, c, d, x, y)", "abcdxy"),
        ("clamp(max(a - 2*b, abs(c - d)), -1, min(x, y))", "abcdxy"),
    )
)


def measured(case: Case, points: int = FRESH) -> Row:
    """Compile, prove and measure."""
    ends = np.array(list(case.domain.values()))
    at = np.random.default_rng(0).uniform(ends[:, 0], ends[:, 1], size=(SAMPLES, len(ends)))
    scale = float(np.abs(as_target(case.text, case.domain).values(at)).max()) if case.relative else 1.0
    start = time.process_time()
    net = af.compile(case.text, case.domain, case.tol * scale, construction=case.construction, timeout=LIMIT)
    seconds = time.process_time() - start
    bound = float("inf") if net.certificate.bound is None else net.certificate.bound
    return Row(case, net.anchors, net.layers, bound / scale, af.measure(net, points=points).sup / scale, seconds)


def table(rows: Sequence[Row]) -> list[str]:
    """One line a row."""
    lines = ["| function | tolerance | keys | layers | proved | measured | seconds |", "|---|---|---|---|---|---|---|"]
    for row in rows:
        numbers = f"{row.keys:,} | {row.layers} | {row.bound:.2g} | {row.error:.2g} | {row.seconds:.2g}"
        lines.append(f"| {row.case.name} | {row.case.tol:g} | {numbers} |")
    return lines


def draw(by_inputs: Sequence[Row], by_tolerance: Sequence[Row]) -> None:
    """Keys against inputs, and against the tolerance."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.0, 2.8), layout="constrained")
    left, right = figure.subplots(1, 2)
    left.plot(DIMENSIONS, [row.keys for row in by_inputs], "o-", color="#0072b2")
    left.set_xlabel("inputs")
    left.set_ylabel("keys")
    left.set_title("Rosenbrock at 1e-6 (relative)", fontsize=9)
    right.semilogx([row.case.tol for row in by_tolerance], [row.keys for row in by_tolerance], "o-", color="#d55e00")
    right.invert_xaxis()
    right.set_xlabel("relative tolerance")
    right.set_title("Rosenbrock, 10 inputs", fontsize=9)
    figure.savefig(ROOT / "results" / "graphs.png", dpi=120)


def main() -> None:
    """Print and write the page; fail if an error exceeds a bound, or a bound its tolerance."""
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    named, products, affine = ([measured(case) for case in cases] for cases in (NAMED, PRODUCTS, AFFINE))
    by_inputs = [measured(rosenbrock(d), SAMPLES) for d in DIMENSIONS]
    tolerances = [Case(f"{tol:g}", rosenbrock(10).text, rosenbrock(10).domain, tol) for tol in TOLERANCES]
    by_tolerance = [measured(case, SAMPLES) for case in tolerances]
    draw(by_inputs, by_tolerance)
    page = [HEADING, *table(named), "", "Absolute errors of products:", "", *table(products), ""]
    page += ["Piecewise affine formulas, by `auto`:", "", *table(affine), ""]
    page += ["![keys against inputs and tolerance](graphs.png)", "", "Keys of Rosenbrock's function:", ""]
    page += [f"- {row.case.name}: {row.keys:,}" for row in by_inputs]
    page += [f"- 10 inputs at {row.case.tol:g}: {row.keys:,}" for row in by_tolerance]
    print("\n".join(page))
    (ROOT / "results" / "graphs.md").write_text("\n".join(page) + "\n")
    rows = [*named, *products, *affine, *by_inputs, *by_tolerance]
    sys.exit(0 if all(row.error <= row.bound <= row.case.tol for row in rows) else 1)


if __name__ == "__main__":
    main()
