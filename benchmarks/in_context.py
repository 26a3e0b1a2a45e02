"""Regressions in context: how far attention is from the exact iteration, measured and certified; files; checks.

Run ``OMP_NUM_THREADS=1 .venv/bin/python benchmarks/in_context.py``: the table goes to
``benchmarks/results/in_context.md``. Every regression with d = 10 features and n = 300 examples, 200 steps in float64,
on ``--seeds`` data sets from the ``--first`` on; saved, loaded and checked with a data bound. The exact iteration is
that of long doubles.
"""

from __future__ import annotations

import argparse
import platform
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from itertools import repeat
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch

import attnforge as af
from attnforge import in_context
from attnforge.in_context.regression import Regression

Array = npt.NDArray[np.float64]

RESULTS = Path(__file__).parent / "results" / "in_context.md"
FEATURES, EXAMPLES, STEPS, BOUND = 10, 300, 200, 5.0

REGRESSIONS: dict[str, tuple[Regression, float]] = {
    "least squares": (in_context.LeastSquares(), 1.0),
    "ridge": (in_context.Ridge(alpha=0.1), 0.9),
    "lasso": (in_context.Lasso(alpha=0.1), 1.0),
    "elastic net": (in_context.ElasticNet(alpha=0.1), 0.9),
    "Huber": (in_context.Huber(delta=0.5), 1.0),
    "logistic": (in_context.Logistic(), 4.0),
    "softmax": (in_context.SoftmaxRegression(classes=4), 2.0),
    "Poisson": (in_context.Poisson(), 0.1),
}
"""Each with its step size in units of one over the largest eigenvalue of X^T X / n."""


@dataclass(frozen=True)
class Row:
    """Of one regression: drifts over the seeds, seconds of a proof, the bound of a box, what became of a file."""

    name: str
    measured: list[float]
    certified: list[float]
    seconds: float
    box: str
    checked: str

    def __str__(self) -> str:
        ratios = np.array(self.certified) / np.array(self.measured)
        numbers = f"{np.median(self.measured):.1e} | {np.median(self.certified):.1e}"
        return (
            f"| {self.name} | {numbers} | {np.median(ratios):.0f} | {ratios.max():.0f} | {self.seconds:.1f} "
            f"| {self.box} | {self.checked} |"
        )


def data(seed: int) -> tuple[Array, dict[str, Array], float]:
    """Examples, values for every kind of regression, and one over the largest eigenvalue of X^T X / n."""
    rng = np.random.default_rng(seed)
    x, w = rng.normal(size=(EXAMPLES, FEATURES)), rng.normal(size=FEATURES) / 2
    values = {
        "logistic": (rng.random(EXAMPLES) < 1 / (1 + np.exp(-x @ w))).astype(np.float64),
        "softmax": rng.integers(0, 4, EXAMPLES).astype(np.float64),
        "Poisson": rng.poisson(np.exp(x @ w / 2)).astype(np.float64),
        "real": x @ w + 0.3 * rng.normal(size=EXAMPLES),
    }
    return x, values, 1 / float(np.linalg.eigvalsh(x.T @ x / EXAMPLES)[-1])


def row(name: str, seeds: range) -> Row:
    """One line of the table."""
    torch.set_num_threads(1)
    regression, factor = REGRESSIONS[name]
    measured, certified, seconds = [], [], []
    for seed in seeds:
        x, values, rate = data(seed)
        y = values.get(name, values["real"])
        net = replace(regression, steps=STEPS, learning_rate=factor * rate).build(FEATURES)
        exact = net.target.weights(x.astype(np.longdouble), y.astype(np.longdouble))
        measured.append(float(np.abs(net(x, y) - exact).max()))
        start = time.perf_counter()
        bound = net.certify(x, y).bound
        seconds.append(time.perf_counter() - start)
        assert bound is not None
        certified.append(bound)
    return Row(name, measured, certified, float(np.median(seconds)), *from_file(regression))


def from_file(regression: Regression) -> tuple[str, str]:
    """The bound for all prompts of a data box, and the checker's verdict on the saved network."""
    rate = 0.01 if isinstance(regression, in_context.Poisson) else "auto"
    net = replace(regression, steps=STEPS, learning_rate=rate).build(FEATURES, data_bound=BOUND)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "net.safetensors"
        net.save(path)
        same = af.load(path).certificate == net.certificate
        verdict = af.check(path).verdict
    box = "none" if net.certificate is None else f"{net.certificate.bound:.1e}"
    return box, f"{verdict}, {'loaded' if same else 'NOT the same after loading'}"


def main() -> None:
    """Measure, and write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=10, help="data sets")
    parser.add_argument("--first", type=int, default=0, help="the first of them")
    parser.add_argument("--workers", type=int, default=1, help="processes; seconds are then those of a shared machine")
    parser.add_argument("--out", type=Path, default=RESULTS, help="the page to write")
    options = parser.parse_args()
    lines, seeds = [], range(options.first, options.first + options.seeds)
    with ProcessPoolExecutor(options.workers) as pool:
        for found in pool.map(row, REGRESSIONS, repeat(seeds)):
            lines.append(str(found))
            print(lines[-1], flush=True)
    options.out.write_text(PAGE.format(**facts(options.seeds, options.first)) + "\n".join(lines) + "\n")


def facts(seeds: int, first: int) -> dict[str, object]:
    """What the page says of the run."""
    return {
        "seeds": seeds,
        "first": f" --first {first}" if first else "",
        "machine": platform.processor() or platform.machine(),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "torch": torch.__version__,
        "features": FEATURES,
        "examples": EXAMPLES,
        "steps": STEPS,
        "bound": f"{BOUND:g}",
    }


PAGE = """# In-context regressions: drift measured and certified

Command: `OMP_NUM_THREADS=1 .venv/bin/python benchmarks/in_context.py --seeds {seeds}{first}`; {machine},
Python {python}, NumPy {numpy}, torch {torch}.

d = {features}, n = {examples}, {steps} steps, float64. *Measured*: the largest entry of |attention - exact iteration|
(long doubles), median over {seeds} data sets. *Certified*: `net.certify(X, y).bound`, rounding included. *Box*: the
bound for every prompt of at most 1,024 examples with |x|, |y| <= {bound}, at the automatic step size (Poisson's loss
has none: its curvature is unbounded). *File*: the network with that certificate, saved, loaded, and judged by the
independent checker.

| regression | measured | certified | certified / measured, median | largest | seconds | box | file |
|---|---|---|---|---|---|---|---|
"""


if __name__ == "__main__":
    main()
