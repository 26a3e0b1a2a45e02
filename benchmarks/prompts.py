"""Functions of a whole prompt: how far one network is from the formula, proved for every length and measured at some.

Run ``OMP_NUM_THREADS=1 .venv/bin/python benchmarks/prompts.py``: the table goes to ``benchmarks/results/prompts.md``.
Each formula is compiled once, at 1e-8 for up to a million tokens, and tried with prompts of 3 to 100,000 tokens that
meet its conditions, against long doubles. ``--quick`` takes three formulas, and writes nothing.
"""

from __future__ import annotations

import argparse
import platform
import time
from pathlib import Path

import numpy as np
import torch

import attnforge as af

RESULTS = Path(__file__).parent / "results" / "prompts.md"
COMMAND = "OMP_NUM_THREADS=1 .venv/bin/python benchmarks/prompts.py"
LENGTHS, PROMPTS, TOL = (3, 30, 1_000, 100_000), 20, 1e-8
BOX = {"x": (-1, 1), "y": (-1, 1), "q": (-1, 1)}
VAR_X, VAR_Y = (f"tokens.mean({v}^2) - tokens.mean({v})^2" for v in "xy")
COVARIANCE = "tokens.mean(x*y) - tokens.mean(x)*tokens.mean(y)"
KERNEL = "exp(-2*(x - q)^2)"

FUNCTIONS: dict[str, tuple[str, dict[str, tuple[float, None]], str | None]] = {
    "third moment": ("tokens.mean(x^3)", {}, None),
    "variance": (VAR_X, {}, None),
    "correlation": (f"({COVARIANCE})/sqrt(({VAR_X})*({VAR_Y}))", {VAR_X: (0.3, None), VAR_Y: (0.3, None)}, None),
    "least squares through 0, at q": (
        "tokens.mean(x*y)/tokens.mean(x^2)*q", {"tokens.mean(x^2)": (0.2, None)}, None,
    ),
    "least squares with intercept, at q": (
        f"tokens.mean(y) + ({COVARIANCE})/({VAR_X})*(q - tokens.mean(x))", {VAR_X: (0.5, None)}, None,
    ),
    "softmax-free attention": ("q*tokens.mean(x*y)", {}, None),
    "kernel average at q": (
        f"tokens.mean(y*{KERNEL})/tokens.mean({KERNEL})", {f"tokens.mean({KERNEL})": (0.2, None)}, "q",
    ),
}  # fmt: skip
"""Formula, conditions, and what is the query's though it stands in means only."""


def row(name: str) -> str:
    """A line of the table."""
    text, given, query = FUNCTIONS[name]
    domain = {v: ends for v, ends in BOX.items() if v in text.replace("exp", "").replace("sqrt", "")}
    started = time.process_time()
    net = af.compile(text, domain, TOL, given=given or None, query=query)
    spent, target = time.process_time() - started, net.target
    rng, found = np.random.default_rng(0), []
    for n in LENGTHS:
        tokens = rng.uniform(target.box.lower, target.box.upper, (PROMPTS if n < LENGTHS[-1] else 2, n, len(domain)))
        t = len(target.features)
        tokens[..., t:] = tokens[:, :1, t:]
        if given:
            tokens[..., :t] = np.sign(tokens[..., :t]) * np.abs(tokens[..., :t]) ** 0.2  # spread out, as conditions ask
        tokens = tokens[target.meets(tokens)]
        computed = net(tokens[..., :t], tokens[:, 0, t:] if target.query else None)
        exact = target.values(tokens.astype(np.longdouble))
        found.append(f"{float(np.abs(computed - exact).max(initial=0.0)):.1e} ({len(tokens)})")
    size = f"{net.layers} | {net.heads} | {net.anchors}"
    proved = f"{net.certificate.bound:.1e} | {net.certify(1000).bound:.1e}"
    conditions = "; ".join(f"{key} >= {low:g}" for key, (low, _) in given.items())
    return f"| {name} | {conditions} | {size} | {proved} | {' | '.join(found)} | {spent:.1f} |"


def page(names: list[str]) -> str:
    """The table, with what made it."""
    columns = ["function", "given", "layers", "heads", "keys", "proved, n <= 10^6", "n <= 1,000"]
    columns += [f"n = {n:,}" for n in LENGTHS] + ["seconds"]
    return "\n".join(
        [
            "# Functions of a whole prompt",
            "",
            f"Made by `{COMMAND}`. Python {platform.python_version()}, attnforge {af.__version__}, torch "
            f"{torch.__version__}; one thread.",
            f"Features and query in [-1, 1], float64, tol {TOL:g}; one network a row, for every n. Largest errors",
            "measured over prompts of n tokens, in parentheses how many met the conditions; seconds to compile, proof",
            "included.",
            "",
            f"| {' | '.join(columns)} |",
            f"|{'---|' * len(columns)}",
            *(row(name) for name in names),
            "",
        ]
    )


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="three formulas, and nothing is written")
    quick = parser.parse_args().quick
    text = page(list(FUNCTIONS)[:3] if quick else list(FUNCTIONS))
    print(text)
    if not quick:
        RESULTS.write_text(text, "utf-8")


if __name__ == "__main__":
    main()
