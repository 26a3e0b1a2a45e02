"""Frozen attention that fits its prompt: convergence, error a layer, sharpness, and functions as prompts, as figures.

Run ``OMP_NUM_THREADS=1 .venv/bin/python examples/in_context.py``: figures go to ``docs/images/in_context_*.svg`` and
``.png``, the tables of ``docs/in-context.md`` to the screen. ``--out DIR`` writes the figures into another folder,
``--quick`` takes few steps and few sharpnesses and leaves out the timings. Needs scikit-learn, the judge of the fits.

All problems have d = 10 features and n = 300 examples drawn from a normal distribution.
"""

from __future__ import annotations

import argparse
import multiprocessing
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import matplotlib
import numpy as np
import numpy.typing as npt
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullLocator
from scipy import optimize, special
from sklearn import linear_model  # type: ignore[import-untyped]

from attnforge import in_context
from attnforge.compiler.in_context import stacked
from attnforge.in_context.regression import Regression
from attnforge.lemmas.link_row import Row
from attnforge.plot.style import BLUE, GREEN, ORANGE, SKY
from attnforge.targets.in_context.algorithm import Algorithm, Link
from attnforge.theorems.in_context.block import block
from attnforge.theorems.in_context.interpolation import Asked, row_for
from attnforge.theorems.in_context.sharpness import TYPICAL, balanced

Array = npt.NDArray[np.float64]
Judge = Callable[[Array, Array], Array]

ASKED: tuple[Asked, ...] = ("hard", "tuned")
IMAGES = Path(__file__).parent.parent / "docs" / "images"
FEATURES, EXAMPLES, SEED = 10, 300, 0
ALPHA, DELTA, CLASSES = 0.1, 0.5, 4
DRAWN = 6  # the first so many problems; the tables have all
WIDTH, COLUMN = 7.2, 3.6  # inches: two columns of a paper, and one
LABEL = 8  # points
FLOOR = 1e-17  # errors of zero are drawn here


@dataclass(frozen=True, eq=False)
class Case:
    """A regression, its data, its step size in units of one over the largest eigenvalue of X^T X / n, and its judge."""

    name: str
    regression: Regression
    y: Array
    rate: float
    judge: Judge
    by: str


@dataclass(frozen=True, eq=False)
class Run:
    """The iterates (steps, d K) of attention and of exact arithmetic, the judge's weights, and the network."""

    case: Case
    net: in_context.InContextNetwork
    attention: Array
    exact: Array
    solution: Array

    @property
    def apart(self) -> Array:
        """The largest entry of |w_attention - w_exact| after every step."""
        return np.asarray(np.abs(self.attention - self.exact).max(axis=-1))


def problems() -> tuple[Array, list[Case]]:
    """The examples X, and what is fitted to them."""
    rng = np.random.default_rng(SEED)
    x, w = rng.normal(size=(EXAMPLES, FEATURES)), rng.normal(size=FEATURES) / 2
    y = x @ w + 0.3 * rng.normal(size=EXAMPLES)
    labels = (rng.random(EXAMPLES) < 1 / (1 + np.exp(-x @ w))).astype(np.float64)
    counts = rng.poisson(np.exp(x @ w / 4)).astype(np.float64)
    scores = x @ rng.normal(size=(FEATURES, CLASSES)) + rng.gumbel(size=(EXAMPLES, CLASSES))
    classes = scores.argmax(axis=1).astype(np.float64)
    sharp = {"fit_intercept": False, "tol": 1e-14, "max_iter": 100_000}
    newton = {**sharp, "solver": "newton-cholesky"}
    ridge = judged(linear_model.Ridge(alpha=ALPHA * EXAMPLES, fit_intercept=False))
    lasso = judged(linear_model.Lasso(alpha=ALPHA, **sharp))
    logistic = judged(linear_model.LogisticRegression(C=1 / (ALPHA * EXAMPLES), **newton))
    elastic = judged(linear_model.ElasticNet(alpha=ALPHA, l1_ratio=0.5, **sharp))
    softmax = judged(linear_model.LogisticRegression(C=1 / (ALPHA * EXAMPLES), **sharp))
    poisson = judged(linear_model.PoissonRegressor(alpha=ALPHA, **newton))
    return x, [
        Case("least squares", in_context.LeastSquares(), y, 1.0, least_squares, "NumPy's lstsq"),
        Case("ridge", in_context.Ridge(alpha=ALPHA), y, 0.9, ridge, "scikit-learn"),
        Case("lasso", in_context.Lasso(alpha=ALPHA), y, 1.0, lasso, "scikit-learn"),
        Case("Huber", in_context.Huber(delta=DELTA), y, 1.0, huber, "SciPy"),
        Case("logistic", in_context.Logistic(alpha=ALPHA), labels, 2.5, logistic, "scikit-learn"),
        Case("Poisson", in_context.Poisson(alpha=ALPHA), counts, 0.3, poisson, "scikit-learn"),
        Case("elastic net", in_context.ElasticNet(alpha=ALPHA), y, 0.9, elastic, "scikit-learn"),
        Case(
            "softmax", in_context.SoftmaxRegression(classes=CLASSES, alpha=ALPHA), classes, 1.5, softmax, "scikit-learn"
        ),
    ]


def judged(model: linear_model.LinearRegression) -> Judge:
    """The weights scikit-learn's model finds."""
    return lambda x, y: np.atleast_2d(model.fit(x, y).coef_).T.reshape(-1)


def least_squares(x: Array, y: Array) -> Array:
    """The solution of the normal equations."""
    return np.asarray(np.linalg.lstsq(x, y)[0])


def huber(x: Array, y: Array) -> Array:
    """Where the gradient of the Huber loss vanishes: the minimiser, for the loss is convex."""
    found = optimize.root(lambda w: x.T @ np.clip(x @ w - y, -DELTA, DELTA), least_squares(x, y), tol=1e-15)
    return np.asarray(found.x)


def largest_curvature(x: Array) -> float:
    """The largest eigenvalue of X^T X / n."""
    return float(np.linalg.eigvalsh(x.T @ x / len(x))[-1])


def exact_iterates(net: in_context.InContextNetwork, x: Array, y: Array) -> Array:
    """The iterates (steps, d K) of the algorithm in float64, without attention."""
    return net.target.trajectory(x, y).reshape(net.steps, -1)


def run(case: Case, x: Array, steps: int, dtype: str = "float64", data_bound: float | None = None) -> Run:
    """Attention, exact iteration and judge on one problem."""
    regression = replace(case.regression, steps=steps, learning_rate=case.rate / largest_curvature(x), dtype=dtype)
    net = regression.build(FEATURES, data_bound=data_bound)
    attention = net.trajectory(x, case.y).reshape(steps, -1)
    return Run(case, net, attention, exact_iterates(net, x, case.y), case.judge(x, case.y))


def convergence_figure(runs: list[Run]) -> Figure:
    """Distance to the judge's solution against the step: attention and exact iteration on top of each other."""
    figure, panels = small_multiples(runs)
    for axes, each in zip(panels, runs, strict=True):
        step = np.arange(1, each.net.steps + 1)
        exact, attention = (distances(each.solution, iterates) for iterates in (each.exact, each.attention))
        axes.plot(step, exact, color=SKY, lw=4.5, label="exact iteration")
        axes.plot(step, attention, color=ORANGE, lw=1.2, ls="--", label="softmax attention")
        axes.set_title(f"{each.case.name} ({each.case.by})", fontsize=8.5)
    return finished(figure, panels, "step (block of layers)", "distance to the solution")


def distances(solution: Array, iterates: Array) -> Array:
    """|w - solution| of every iterate."""
    return np.asarray(np.maximum(np.linalg.norm(iterates - solution, axis=-1), FLOOR))


def drift_figure(runs: list[Run], x: Array) -> Figure:
    """|w_attention - w_exact| against the step, below the certified drift."""
    figure, panels = small_multiples(runs)
    for axes, each in zip(panels, runs, strict=True):
        step, counts = np.arange(1, each.net.steps + 1), certified_counts(each.net.steps)
        found = [each.net.with_steps(count).certify(x, each.case.y) for count in counts]
        bounds = [certificate.bound for certificate in found]
        axes.plot(counts, bounds, color=ORANGE, lw=1.2, marker="o", ms=3, label="certified drift")
        axes.plot(step, np.maximum(each.apart, FLOOR), color=BLUE, lw=1.2, label="measured |attention − exact|")
        axes.set_xscale("log")
        axes.set_title(f"{each.case.name}, q = {found[-1].contraction:.3g}", fontsize=8.5)
    return finished(figure, panels, "step (block of layers)", "distance to the exact iterate")


def certified_counts(steps: int) -> list[int]:
    """A handful of numbers of steps, equally far apart on a logarithmic axis."""
    return sorted({round(count) for count in np.geomspace(1, steps, 9)})


def sharpness_figure(x: Array, y: Array, steps: int, sharpnesses: int) -> Figure:
    """|w_attention - w_exact| of least squares against beta, by dtype and number of heads; the formula's choice."""
    figure = Figure(figsize=(COLUMN, 3.3), layout="constrained")
    axes = figure.subplots()
    betas = np.geomspace(1e-7, 1.0, sharpnesses)
    for dtype, color in (("float64", BLUE), ("float32", ORANGE)):
        for extrapolated, ls in ((False, "--"), (True, "-")):
            label = f"{dtype}, {'two heads' if extrapolated else 'one head'}"
            apart = error_by_sharpness(x, y, steps, dtype, extrapolated)
            axes.plot(betas, [apart(beta)[0] for beta in betas], color=color, ls=ls, lw=1.2, label=label)
            error, chosen = apart(None)
            axes.plot(chosen, error, "o" if extrapolated else "s", color=color, mec="black", mew=0.8, ms=6)
    axes.plot([], [], "o", color="white", mec="black", mew=0.8, ms=6, label="chosen by formula, two heads")
    axes.plot([], [], "s", color="white", mec="black", mew=0.8, ms=6, label="chosen by formula, one head")
    axes.set(xscale="log", yscale="log", ylim=(1e-14, 1))
    axes.set_xlabel("sharpness β of the aggregation head", fontsize=LABEL)
    axes.set_ylabel(f"|w$_{{attention}}$ − w$_{{exact}}$| after {steps} steps", fontsize=LABEL)
    tidy(axes)
    figure.legend(loc="outside upper center", ncols=2, frameon=False, fontsize=7, columnspacing=1.0, handlelength=2.0)
    return figure


def error_by_sharpness(
    x: Array, y: Array, steps: int, dtype: str, extrapolated: bool
) -> Callable[[float | None], tuple[float, float]]:
    """From a sharpness, or None for the formula's, to the error of least squares after all steps and the sharpness."""
    kind = in_context.LeastSquares if extrapolated else OneHead
    largest = float(max(np.abs(x).max(), np.abs(y).max()))
    rate = 1 / largest_curvature(x)
    built = kind(steps=steps, learning_rate=rate, dtype=dtype).build(FEATURES, data_bound=largest)
    judge = exact_iterates(built, x, y)[-1]
    chosen = balanced(dtype, TYPICAL * largest, largest, extrapolated)

    def apart(beta: float | None) -> tuple[float, float]:
        sharpness = chosen if beta is None else replace(chosen, aggregation=beta)
        net = built.with_network(stacked([block(built.algorithm, built.features, sharpness)], built.target))
        return float(np.linalg.norm(net(x, y) - judge)), sharpness.aggregation

    return apart


class OneHead(in_context.LeastSquares):
    """Least squares by a single aggregation head a step, without extrapolation."""

    extrapolated = False


FUNCTIONS: tuple[tuple[str, Callable[[Array], Array], tuple[float, float], float], ...] = (
    ("sin(8*x)*exp(-x)", lambda x: np.sin(8 * x) * np.exp(-x), (-1.0, 1.0), 1e-4),
    ("1/(1 + 25*x^2)", lambda x: 1 / (1 + 25 * x**2), (-1.0, 1.0), 1e-6),
    ("log(x)", np.log, (0.5, 4.0), 1e-8),
)


def prompt_figure(points: int) -> Figure:
    """One frozen network, three prompts, three functions: values above, errors under their certified bounds below."""
    figure = Figure(figsize=(WIDTH, 3.6), layout="constrained")
    grid = figure.subplots(2, len(FUNCTIONS), sharex="col")
    digests = set()
    for (upper, lower), (text, f, domain, tol) in zip(grid.T, FUNCTIONS, strict=True):
        net, prompt = in_context.function_prompt(text, {"x": domain}, tol=tol)
        digests.add(net.digest)
        bound = prompt.certificate.bound
        assert bound is not None  # expressions are proved
        x = np.linspace(*domain, points)
        found = net(x, prompt)
        error = np.abs(found - f(x))
        print(f"{text} on {domain}: {len(prompt.tokens)} tokens, bound {bound:.3g}, seen {error.max():.3g}")
        upper.plot(x, f(x), color=SKY, lw=4.5, label="function")
        upper.plot(x, found, color=ORANGE, lw=1.2, ls="--", label="frozen network")
        upper.set_title(f"{text},  {len(prompt.tokens)} tokens", fontsize=8.5, parse_math=False)
        lower.plot(x, np.maximum(error, FLOOR), color=BLUE, lw=0.8, label="|network − function|")
        lower.axhline(bound, color=GREEN, lw=1.4, ls=":", label="certified bound")
        lower.set(yscale="log", ylim=(bound * 1e-4, bound * 5))
        lower.set_xlabel("x", fontsize=LABEL)
        lower.yaxis.set_minor_locator(NullLocator())
        for axes in (upper, lower):
            axes.tick_params(labelsize=7)
            axes.spines[["top", "right"]].set_visible(False)
    (digest,) = digests  # the same bytes for every function, domain and tolerance
    print(f"one network: SHA-256 {digest[:16]}…")
    grid[0, 0].set_ylabel("value", fontsize=LABEL)
    grid[1, 0].set_ylabel("error", fontsize=LABEL)
    shared_legend(figure, [grid[0, 0], grid[1, 0]])
    return figure


def small_multiples(runs: list[Run]) -> tuple[Figure, list[Axes]]:
    """Two rows of panels, one a run."""
    figure = Figure(figsize=(WIDTH, 4.2), layout="constrained")
    return figure, list(figure.subplots(2, (len(runs) + 1) // 2, sharey=True).flat)


def finished(figure: Figure, panels: list[Axes], along: str, up: str) -> Figure:
    """Axes, labels at the edges and one legend for all panels."""
    columns = len(panels) // 2
    for i, axes in enumerate(panels):
        axes.set_yscale("log")
        tidy(axes)
        if i >= columns:
            axes.set_xlabel(along, fontsize=LABEL)
        if i % columns == 0:
            axes.set_ylabel(up, fontsize=LABEL)
    shared_legend(figure, panels[:1])
    return figure


def tidy(axes: Axes) -> None:
    """Few ticks, small labels, no frame above and to the right."""
    axes.tick_params(labelsize=7)
    axes.yaxis.set_major_locator(LogLocator(numticks=8))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(color="#dddddd", lw=0.5)


def shared_legend(figure: Figure, panels: list[Axes]) -> None:
    """One row above all panels."""
    entries = [entry for axes in panels for entry in zip(*axes.get_legend_handles_labels(), strict=True)]
    handles, labels = zip(*entries, strict=True)
    figure.legend(handles, labels, loc="outside upper center", ncols=len(labels), frameon=False, fontsize=8)


def print_runs(runs: list[Run], x: Array) -> None:
    """The table of what was measured and certified."""
    print("| regression | heads | layers | to the judge | apart | certified | ratio | q | apart in float32 |")
    print("|---|---|---|---|---|---|---|---|---|")
    for each in runs:
        bound, apart = each.net.certify(x, each.case.y), float(each.apart[-1])
        judge = float(np.abs(each.attention[-1] - each.solution).max())
        heads = len(each.net.network.heads) // each.net.steps
        single = run(each.case, x, each.net.steps, "float32").apart[-1]
        counts = f"{each.case.name} | {heads} | {len(each.net.block)}"
        found = f"{judge:.1e} | {apart:.1e} | {bound.bound:.1e} | {bound.bound / apart:,.0f}"
        print(f"| {counts} | {found} | {bound.contraction:.3f} | {single:.1e} |")


def print_kernels(draws: int) -> None:
    """A table of kernel regression: measured and certified on prompts of 50 queries, certified within 5."""
    print("| kernel | dtype | measured | certified | median ratio (range) | all prompts within 5 |")
    print("|---|---|---|---|---|---|")
    for kernel in ("gaussian", "softmax"):
        for dtype in ("float64", "float32", "bfloat16"):
            regression = in_context.KernelRegression(1.0, kernel, dtype)  # type: ignore[arg-type]
            net, box = regression.build(FEATURES), regression.build(FEATURES, data_bound=5.0).certificate
            pairs = [kernel_errors(net, np.random.default_rng(seed)) for seed in range(draws)]
            (seen, proved), ratios = np.max(pairs, axis=0), np.array([b / a for a, b in pairs])
            spread = f"{np.median(ratios):.0f} ({ratios.min():.0f} to {ratios.max():.0f})"
            whole = "none" if box is None else f"{box.bound:.2g}"
            print(f"| {kernel} | {dtype} | {seen:.1e} | {proved:.1e} | {spread} | {whole} |")


def kernel_errors(net: in_context.KernelNetwork, rng: np.random.Generator) -> tuple[float, float]:
    """The largest error on one prompt, against extended precision, and its certified bound."""
    x, queries = rng.normal(size=(EXAMPLES, FEATURES)), rng.normal(size=(50, FEATURES))
    data = (x, x @ rng.normal(size=FEATURES) / 3 + rng.normal(size=EXAMPLES), queries)
    exact = net.target.average(*(each.astype(np.longdouble) for each in data))
    return float(np.abs(net(*data) - exact).max()), float(net.certify(*data).bound or 0.0)


def cost(examples: int) -> tuple[float, float]:
    """Milliseconds a step of logistic regression, and MiB of peak memory of 20 steps; in a process of its own."""
    torch.set_num_threads(1)
    rng = np.random.default_rng(SEED)
    x = rng.normal(size=(examples, FEATURES))
    y = (x[:, 0] > rng.normal(size=examples)).astype(np.float64)
    net = in_context.Logistic(steps=20, learning_rate=1.0).build(FEATURES)
    net(x[:10], y[:10])  # what the first call loads is not counted
    Path("/proc/self/clear_refs").write_text("5")  # Linux forgets the peak so far
    before, times = resident("VmRSS"), []
    for _ in range(3):
        start = time.perf_counter()
        net(x, y)
        times.append(time.perf_counter() - start)
    return min(times) / net.steps * 1000, (resident("VmHWM") - before) / 1024


def resident(name: str) -> int:
    """Memory of this process in KiB: ``VmRSS`` now, or ``VmHWM`` at its peak. Linux only."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith(name)).split()[1])


def print_costs() -> None:
    """The table of time and memory against the number of examples."""
    print("| examples | ms a step | peak MiB |\n|---|---|---|")
    for examples in (100, 1000, 10_000, 100_000):
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            milliseconds, memory = pool.apply(cost, (examples,))
        print(f"| {examples:,} | {milliseconds:.2f} | {memory:.1f} |")


def print_links() -> None:
    """The largest error of interpolated links on [-6, 6] against the number of anchors, hard and tuned."""
    counts, forms = (10, 20, 40, 80, 160), np.linspace(-6.0, 6.0, 20_001)
    exact: dict[Link, Array] = {"identity": forms, "logistic": special.expit(forms) - 0.5}
    print(f"| link | sharpness | {' | '.join(f'p = {p}' for p in counts)} |\n|---|---|{'---|' * len(counts)}")
    for link, values in exact.items():
        for asked in ASKED:
            rows = [row_for(Algorithm(link, 0.1), 6.0, p, asked, "float64") for p in counts]
            errors = [np.abs(interpolated(row, forms) - values).max() for row in rows]
            print(f"| {link} | {asked} | {' | '.join(f'{error:.2g}' for error in errors)} |")


def interpolated(row: Row, forms: Array) -> Array:
    """The row's answers, weighed by a softmax of its scores at linear forms."""
    scores = row.beta * (2 * forms[:, None] * row.levels - row.levels**2)
    return np.asarray(special.softmax(scores, axis=1) @ row.answers)


def save(figure: Figure, folder: Path, name: str) -> None:
    """As SVG and PNG, with nothing that changes from run to run."""
    folder.mkdir(parents=True, exist_ok=True)
    figure.draw_without_rendering()
    figure.set_layout_engine("none")  # found once, for both files
    with matplotlib.rc_context({"svg.hashsalt": name}):
        figure.savefig(folder / f"in_context_{name}.svg", metadata={"Date": None})
    figure.savefig(folder / f"in_context_{name}.png", dpi=200)


def main(arguments: list[str] | None = None) -> None:
    """Draw all figures and print all tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, default=IMAGES, help="the folder of the figures")
    parser.add_argument("--quick", action="store_true", help="few steps and sharpnesses, no timings")
    options = parser.parse_args(arguments)
    steps = 20 if options.quick else 200

    x, cases = problems()
    runs = [run(case, x, steps) for case in cases]
    print_runs(runs, x)
    save(convergence_figure(runs[:DRAWN]), options.out, "convergence")
    save(drift_figure(runs[:DRAWN], x), options.out, "drift")
    save(sharpness_figure(x, cases[0].y, steps, 5 if options.quick else 36), options.out, "sharpness")
    save(prompt_figure(200 if options.quick else 4001), options.out, "prompts")
    print_links()
    print_kernels(2 if options.quick else 20)
    if not options.quick:
        print_costs()


if __name__ == "__main__":
    main()
