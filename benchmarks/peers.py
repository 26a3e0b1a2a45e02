"""What users would pick instead: accuracy, seconds to build, memory, points a second, and what is proved.

Run ``OMP_NUM_THREADS=1 .venv/bin/python benchmarks/peers.py``: the tables go to ``benchmarks/results/peers.md``. Every
function is compiled to a tolerance; interpolants then get as many numbers as we have keys (a grid of as many points an
axis, at least), networks are trained for ``--seconds`` of the processor on fresh random points: two layers of 256 ReLU
units, one attention head with as many keys, and a Kolmogorov-Arnold network (pykan, if it is there). Errors are the
largest of 100,000 fresh points, the same for all. Each line is a process of its own with one thread; seconds are the
processor's, memory is the peak above the start. In context, 200 steps of gradient descent by frozen attention are
compared with the same steps in NumPy, and with scikit-learn's solver. ``--quick``: two functions, 3 s of training,
nothing is written. Peers are installed by the extra ``bench``.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import io
import math
import multiprocessing
import os
import platform
import resource
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from numpy.polynomial import chebyshev
from scipy.fft import dct
from scipy.interpolate import CubicSpline, RegularGridInterpolator
from sklearn.linear_model import LinearRegression, LogisticRegression
from torch import nn

import attnforge as af
from attnforge.experiments.training import MemoryHeads

Array = npt.NDArray[np.float64]
Evaluate = Callable[[Array], Array]

COMMAND = "OMP_NUM_THREADS=1 .venv/bin/python benchmarks/peers.py"
RESULTS = Path(__file__).parent / "results"
FRESH, BATCH, REPEATS, CALLS = 100_000, 20_000, 5, 100
TRAINED = 4096  # points of a batch in training
FRANKE = (
    "0.75*exp(-((9*x-2)^2 + (9*y-2)^2)/4) + 0.75*exp(-(9*x+1)^2/49 - (9*y+1)/10)"
    " + 0.5*exp(-((9*x-7)^2 + (9*y-3)^2)/4) - 0.2*exp(-(9*x-4)^2 - (9*y-7)^2)"
)


@dataclass(frozen=True)
class Problem:
    """A function of d inputs on a cube, what is asked of ours, and whether it is a network of ReLUs."""

    name: str
    text: str
    inputs: int
    lower: float
    tol: float
    construction: str = "tensor_grid"

    @property
    def target(self) -> Any:
        """Text, or the torch network."""
        return relu_network() if self.text == "relu" else self.text

    @property
    def domain(self) -> Any:
        """A box."""
        return dict.fromkeys("xyzvw"[: self.inputs], (self.lower, 1.0))

    def values(self, points: Array) -> Array:
        """At (N, d)."""
        if self.text == "relu":
            with torch.no_grad():
                return relu_network()(torch.from_numpy(points)).numpy()[:, 0]
        x, y, z, v, _ = np.pad(points, ((0, 0), (0, 5 - self.inputs))).T
        return {
            "sin(8 x) + abs(x)": lambda: np.sin(8 * x) + np.abs(x),
            "Franke": lambda: franke(x, y),
            "Genz oscillatory": lambda: np.cos(0.6 * np.pi + 2 * (x + y + z)),
            "Genz corner peak": lambda: (1 + x + y + z + v) ** -5.0,
        }[self.name]()

    def points(self, count: int, seed: int) -> Array:
        """Uniform ones (N, d)."""
        return np.random.default_rng(seed).uniform(self.lower, 1.0, (count, self.inputs))


def franke(x: Array, y: Array) -> Array:
    """Franke's function."""
    a, b = 9 * x, 9 * y
    hills = 0.75 * np.exp(-((a - 2) ** 2 + (b - 2) ** 2) / 4) + 0.75 * np.exp(-((a + 1) ** 2) / 49 - (b + 1) / 10)
    return hills + 0.5 * np.exp(-((a - 7) ** 2 + (b - 3) ** 2) / 4) - 0.2 * np.exp(-((a - 4) ** 2) - (b - 7) ** 2)


def relu_network() -> nn.Sequential:
    """5-32-32-1, from a seed."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        layers = nn.Linear(5, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 1)
    return nn.Sequential(*layers).double()


PROBLEMS = (
    Problem("sin(8 x) + abs(x)", "sin(8*x) + abs(x)", 1, -1.0, 1e-6),
    Problem("Franke", FRANKE, 2, 0.0, 1e-8),
    Problem("Genz oscillatory", "cos(0.6*pi + 2*(x + y + z))", 3, 0.0, 5e-7),
    Problem("Genz corner peak", "(1 + x + y + z + v)^-5", 4, 0.0, 1e-5),
    Problem("ReLU network 5-32-32-1", "relu", 5, -1.0, 1e-9, "relu_network"),
)


def ours(problem: Problem) -> af.Compiled:
    """Compiled and certified."""
    return af.compile(problem.target, problem.domain, problem.tol, construction=problem.construction)


@dataclass(frozen=True)
class Built:
    """What evaluates, and how many numbers it stores."""

    run: Evaluate
    numbers: int
    proved: str = ""


def attention(problem: Problem, keys: int, seconds: float) -> Built:
    """Ours, with its bound."""
    del keys, seconds
    net = ours(problem)
    stated = f"{net.certificate.status} {net.certificate.bound or 0:.1e}" if net.certificate.bound else "sampled"
    return Built(lambda x: np.asarray(net(x)).reshape(len(x)), net.parameters, stated)


def hard_cells(problem: Problem, keys: int, seconds: float) -> Built:
    """The papers' selection of the nearest of as many anchors."""
    del seconds
    box = af.Box(problem.lower, 1.0, shape=(problem.inputs,))
    a_side = math.ceil(keys ** (1 / problem.inputs))
    net = af.constructions.max_affine(problem.values, box, cells=a_side, sharpness="hard")
    return Built(lambda x: np.asarray(net(x)), net.parameters)


def grid(problem: Problem, keys: int) -> tuple[list[Array], Array]:
    """Axes of as many points, and the values on their product."""
    axes = [np.linspace(problem.lower, 1.0, math.ceil(keys ** (1 / problem.inputs)))] * problem.inputs
    points = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1)
    return axes, problem.values(points.reshape(-1, problem.inputs)).reshape(points.shape[:-1])


def interpolator(method: str, problem: Problem, keys: int, seconds: float) -> Built:
    """Of scipy: along one axis a CubicSpline, else a RegularGridInterpolator."""
    del seconds
    axes, values = grid(problem, keys)
    if len(axes) == 1 and method == "cubic":
        spline = CubicSpline(axes[0], values)
        return Built(lambda x: spline(x[:, 0]), values.size)
    return Built(RegularGridInterpolator(axes, values, method=method), values.size)


def polynomial(problem: Problem, keys: int, seconds: float) -> Built:
    """The Chebyshev interpolant at as many points an axis."""
    del seconds
    size, d = math.ceil(keys ** (1 / problem.inputs)), problem.inputs
    half = (1.0 - problem.lower) / 2
    axis = problem.lower + half * (1 + np.cos(np.pi * (np.arange(size) + 0.5) / size))
    points = np.stack(np.meshgrid(*[axis] * d, indexing="ij"), axis=-1)
    coefficients = problem.values(points.reshape(-1, d)).reshape(points.shape[:-1])
    for each in range(d):
        coefficients = dct(coefficients, type=2, axis=each) / size
        np.moveaxis(coefficients, each, 0)[0] /= 2

    def run(x: Array) -> Array:
        rows = [chebyshev.chebvander((column - problem.lower) / half - 1, size - 1) for column in x.T]
        out = np.tensordot(rows[0], coefficients, axes=1)
        for row in rows[1:]:
            out = np.einsum("nk,nk...->n...", row, out)
        return out

    return Built(run, coefficients.size)


def trained(module: nn.Module, problem: Problem, seconds: float, rate: float) -> Built:
    """Adam on fresh random points, the step falling to zero by a cosine over the seconds of the processor."""
    optimizer, started, step = torch.optim.Adam(module.parameters(), lr=rate), time.process_time(), 0
    while (spent := time.process_time() - started) < seconds:
        optimizer.param_groups[0]["lr"] = rate * (1 + math.cos(math.pi * spent / seconds)) / 2
        points = problem.points(TRAINED, 10**6 + step)
        x, y = (torch.from_numpy(each).float() for each in (points, problem.values(points)))
        optimizer.zero_grad()
        nn.functional.mse_loss(module(x).reshape(-1), y).backward()
        optimizer.step()
        step += 1

    def run(x: Array) -> Array:
        with torch.no_grad():
            return module(torch.from_numpy(x).float()).reshape(-1).double().numpy()

    return Built(run, sum(each.numel() for each in module.parameters()))


def multilayer(problem: Problem, keys: int, seconds: float) -> Built:
    """A perceptron, trained."""
    del keys
    torch.manual_seed(0)
    layers = nn.Linear(problem.inputs, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 1)
    return trained(nn.Sequential(*layers), problem, seconds, 3e-3)


def trained_attention(problem: Problem, keys: int, seconds: float) -> Built:
    """One head over as many keys, trained."""
    return trained(MemoryHeads(problem.inputs, keys, seed=0), problem, seconds, 1e-2)


def kolmogorov_arnold(problem: Problem, keys: int, seconds: float) -> Built:
    """Pykan's network with one hidden layer of 2 d + 1 units, by its own optimiser."""
    del keys
    from kan import KAN

    width = [problem.inputs, 2 * problem.inputs + 1, 1]
    net = KAN(width=width, grid=20, k=3, grid_range=[problem.lower, 1.0], seed=0, auto_save=False)
    points = problem.points(TRAINED, 10**6)
    x, y = (torch.from_numpy(each).float() for each in (points, problem.values(points)[:, None]))
    data, started = (
        {"train_input": x, "train_label": y, "test_input": x[:10], "test_label": y[:10]},
        time.process_time(),
    )
    with contextlib.redirect_stderr(io.StringIO()), contextlib.redirect_stdout(io.StringIO()):
        while time.process_time() - started < seconds:
            net.fit(data, opt="LBFGS", steps=2, lamb=0.0, update_grid=False)

    def run(at: Array) -> Array:
        with torch.no_grad():
            return net(torch.from_numpy(at).float())[:, 0].double().numpy()

    return Built(run, sum(each.numel() for each in net.parameters()))


METHODS: dict[str, Callable[[Problem, int, float], Built]] = {
    "attnforge": attention,
    "hard selection (the papers)": hard_cells,
    "scipy, linear": partial(interpolator, "linear"),
    "scipy, cubic": partial(interpolator, "cubic"),
    "Chebyshev": polynomial,
    "perceptron, trained": multilayer,
    "attention, trained": trained_attention,
    "pykan, trained": kolmogorov_arnold,
}


@dataclass(frozen=True)
class Row:
    """What came of one method on one function."""

    problem: str
    method: str
    numbers: int
    error: float
    building: float
    mebibytes: float
    rate: float
    call: float
    proved: str

    @property
    def text(self) -> str:
        """A line of the table."""
        cells = f"{self.numbers:,} | {self.error:.1e} | {self.building:.2g} | {self.mebibytes:.0f} | {self.rate:.2g}"
        return f"| {self.problem} | {self.method} | {cells} | {self.call * 1e6:.0f} | {self.proved or 'no'} |"


def seconds_of(work: Callable[[], object]) -> float:
    """Of the processor."""
    started = time.process_time()
    work()
    return time.process_time() - started


def measured(name: str, problem: Problem, keys: int, seconds: float) -> Row:
    """Build, then evaluate at fresh points, in batches and one by one."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    start, started = resident(), time.process_time()
    built = METHODS[name](problem, keys, seconds)
    building = time.process_time() - started
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024 - start
    fresh = problem.points(FRESH, 1)
    parts = np.array_split(fresh, FRESH // BATCH)
    error = max(float(np.abs(built.run(part) - problem.values(part)).max()) for part in parts)
    batch = min(seconds_of(lambda: built.run(parts[0])) for _ in range(REPEATS))
    call = seconds_of(lambda: [built.run(fresh[k : k + 1]) for k in range(CALLS)]) / CALLS
    return Row(problem.name, name, built.numbers, error, building, max(peak, 0.0), BATCH / batch, call, built.proved)


def resident() -> float:
    """Memory of this process in MiB."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


def applies(name: str, problem: Problem) -> bool:
    """Whether the method takes so many inputs in minutes, and is installed."""
    if name == "pykan, trained":
        return importlib.util.find_spec("kan") is not None
    if name == "scipy, cubic":
        return problem.inputs <= 3
    return not (name == "hard selection (the papers)" and problem.inputs > 4)


def functions(quick: bool, seconds: float) -> Iterator[Row]:
    """Every method on every function, each in a process of its own."""
    for problem in PROBLEMS[:2] if quick else PROBLEMS:
        with multiprocessing.get_context("spawn").Pool(1, maxtasksperchild=1) as pool:
            keys = pool.apply(keys_of, (problem,))
            for name in METHODS:
                if applies(name, problem):
                    yield pool.apply(measured, (name, problem, keys, seconds))


def keys_of(problem: Problem) -> int:
    """Of ours: what the others may store; of a ReLU network as many as its own numbers."""
    net = ours(problem)
    return sum(each.numel() for each in relu_network().parameters()) if problem.text == "relu" else net.anchors


def regressions() -> Iterator[str]:
    """Frozen attention, the same descent in NumPy, and a solver, on one prompt."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 10))
    w = rng.normal(size=10)
    top = float(np.linalg.eigvalsh(X.T @ X / len(X))[-1])
    y, labels = X @ w + 0.1 * rng.normal(size=300), (rng.uniform(size=300) < 1 / (1 + np.exp(-X @ w))).astype(float)
    cases: Sequence[tuple[str, Any, Array, float, Callable[[Array], Array], Any]] = (
        ("least squares", af.in_context.LeastSquares, y, 1 / top, lambda z: z, LinearRegression(fit_intercept=False)),
        (
            "logistic",
            af.in_context.Logistic,
            labels,
            4 / top,
            lambda z: 1 / (1 + np.exp(-z)),
            LogisticRegression(C=np.inf, fit_intercept=False, tol=1e-10, max_iter=1000),
        ),
    )
    for name, algorithm, answers, rate, mean, solver in cases:
        net = algorithm(steps=200, learning_rate=rate).build(features=10, examples=300)

        def descent(answers: Array = answers, rate: float = rate, mean: Callable[[Array], Array] = mean) -> Array:
            at = np.zeros(10)
            for _ in range(200):
                at = at - rate * X.T @ (mean(X @ at) - answers) / len(X)
            return at

        solved = solver.fit(X, answers).coef_.ravel()
        run = partial(net, X, answers)
        run()
        works = run, descent, partial(solver.fit, X, answers)
        times = [min(seconds_of(work) for _ in range(REPEATS)) for work in works]
        apart = float(np.abs(run() - descent()).max()), float(np.abs(run() - solved).max())
        cells = " | ".join(f"{1e3 * each:.2g}" for each in times)
        yield f"| {name} | {cells} | {apart[0]:.1e} | {apart[1]:.1e} | {net.certify(X, answers).bound:.1e} |"


def page(rows: Sequence[Row], in_context: Sequence[str], seconds: float) -> str:
    """Headings and tables."""
    model = next((each for each in Path("/proc/cpuinfo").read_text().splitlines() if "model name" in each), "")
    names = (
        "attnforge",
        "numpy",
        "scipy",
        "torch",
        "scikit-learn",
        *(["pykan"] if importlib.util.find_spec("kan") else []),
    )
    versions = ", ".join(f"{name} {version(name)}" for name in names)
    head = "| function | method | numbers | largest error | seconds to build | MiB | points/s | one call, us | proved |"
    return "\n".join(
        [
            "# What users would pick instead",
            "",
            f"Made by `{COMMAND}`. Python {platform.python_version()}, {versions};",
            f"{model.split(':')[-1].strip()}, one thread. Trained for {seconds:g} s each. What is compared, and how:",
            "the heading of `benchmarks/peers.py`. Seconds of attnforge include the proof.",
            "",
            head,
            "|---|---|---|---|---|---|---|---|---|",
            *(row.text for row in rows),
            "",
            "An interpolant builds faster, and Chebyshev's is more accurate on analytic functions at equal size. What",
            "we claim is exact weights of an attention layer with a proved bound, not a better interpolator.",
            "",
            "## In context",
            "",
            "300 examples of 10 features, 200 steps from 0; milliseconds. *Apart*: from the same steps in NumPy, and",
            "from the minimiser that scikit-learn finds (200 steps of logistic regression end short of it).",
            "",
            "| regression | attention | NumPy | scikit-learn | apart from NumPy | scikit-learn | certified drift |",
            "|---|---|---|---|---|---|---|",
            *in_context,
            "",
        ]
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Print and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60.0, help="of training")
    parser.add_argument("--quick", action="store_true", help="two functions, 3 s of training; nothing is written")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    seconds, rows = 3.0 if options.quick else options.seconds, []
    for row in functions(options.quick, seconds):
        rows.append(row)
        print(row.text, flush=True)
    in_context = list(regressions())
    print(*in_context, sep="\n")
    if not options.quick:
        (RESULTS / "peers.md").write_text(page(rows, in_context, seconds))


if __name__ == "__main__":
    sys.exit(main())
