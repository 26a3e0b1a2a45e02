"""Gradient descent on the examples of a prompt: frozen attention against exact iteration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

import attnforge as af
from attnforge.experiments.claims import falls_as
from attnforge.experiments.descent import DELTA, EXAMPLES, FEATURES, KINDS, REACH, Problem, problem
from attnforge.experiments.experiment import Case, Experiment, Finding, Row
from attnforge.experiments.settings import Settings, setting
from attnforge.experiments.slope import Slope, fit_slope
from attnforge.experiments.table import Table, markdown

Array = npt.NDArray[np.float64]

DTYPES = ("float64", "float32")
MARKS = 28  # numbers of steps at which rows are taken, equally far apart on a logarithmic axis
BETWEEN = 21  # residuals between two anchors at which a link is looked at
QUERIES = 50  # points at which kernel regression predicts
FRESH = 100_000  # points at which a function of a prompt is measured
ONE_STEP, CONVERGED = 1e-10, 1e-9  # of |step| and |w*|: what float64 must keep to for the claims to be called confirmed
DIGITS = 1e-13  # kernel regression in float64, relative to the largest label
FLOOR = 1e-17  # zeros are drawn here


INTERPOLATED = ("least squares", "Huber", "logistic")
SIZED = ("least squares", "logistic")
FUNCTIONS: dict[str, tuple[float, float]] = {
    "sin(8*x)": (-1.0, 1.0),
    "1/(1 + 25*x^2)": (-1.0, 1.0),
    "log(x)": (0.5, 4.0),
    "abs(x)": (-1.0, 1.0),
}


@dataclass(frozen=True)
class InContextSettings(Settings):
    """How many steps, sharpnesses, anchors and sizes."""

    steps: int = setting(1000, 200, explain="Blocks of the stack.")
    sharpnesses: int = setting(36, 15, explain="Sharpnesses of the aggregation head between 1e-7 and 1.")
    anchors: tuple[int, ...] = setting(
        (10, 20, 40, 80, 160, 320), (10, 20, 40, 80), explain="Numbers p of anchors of the interpolation route."
    )
    examples: tuple[int, ...] = setting(
        (10, 30, 100, 300, 1000, 3000), (10, 100, 1000), explain="Numbers n of examples, of 10 features."
    )
    features: tuple[int, ...] = setting((1, 2, 5, 10, 20, 50), (1, 5, 20), explain="Numbers d of inputs, n = 300.")
    draws: int = setting(5, 2, explain="Prompts a size, and of kernel regression.")
    tolerances: tuple[float, ...] = setting(
        (1e-2, 1e-4, 1e-6, 1e-8, 1e-10), (1e-2, 1e-6), explain="Asked of functions as prompts."
    )


class InContext(Experiment[InContextSettings]):
    """Hu et al. 2025, section 4, and what it leaves open."""

    name: ClassVar[str] = "in-context"
    summary: ClassVar[str] = "gradient descent in the prompt: drift, convergence, routes, sizes"
    question: ClassVar[str] = (
        "Does softmax attention with frozen weights take steps of gradient descent on the examples of its prompt, and "
        "do T stacked blocks converge to the minimiser? Eight regressions, d = 10 inputs and n = 300 examples unless "
        "said otherwise; exact iteration is done in float64, by code that shares nothing with the networks."
    )
    settings = InContextSettings

    def cases(self, settings: InContextSettings) -> Sequence[Case]:
        """Stacks of steps, both routes, sizes of the prompt, functions as prompts and kernel regression."""
        seed, steps = settings.seed, settings.steps
        return [
            *({"part": "steps", "kind": k, "dtype": t, "steps": steps, "seed": seed} for k in KINDS for t in DTYPES),
            *(
                {"part": "sharpness", "dtype": t, "heads": heads, "count": settings.sharpnesses, "seed": seed}
                for t in DTYPES
                for heads in (1, 2)
            ),
            *(
                {"part": "interpolation", "kind": k, "asked": asked, "p": p, "steps": min(steps, 200), "seed": seed}
                for k in INTERPOLATED
                for asked in ("hard", "tuned")
                for p in settings.anchors
            ),
            *(
                {"part": "size", "kind": k, "n": n, "d": d, "steps": min(steps, 200), "draws": settings.draws}
                | {"seed": seed}
                for k in SIZED
                for n, d in _sizes(settings)
            ),
            *({"part": "prompt", "function": f, "tol": tol} for f in FUNCTIONS for tol in settings.tolerances),
            *(
                {"part": "kernel", "kernel": kernel, "dtype": t, "draws": settings.draws, "seed": seed}
                for kernel in ("gaussian", "softmax")
                for t in DTYPES
            ),
        ]

    def measure(self, case: Case) -> Sequence[Row]:
        """The rows of one part."""
        match case["part"]:
            case "steps":
                return along_the_stack(problem(case["kind"], seed=case["seed"]), case["dtype"], case["steps"])
            case "sharpness":
                return by_sharpness(
                    problem("least squares", seed=case["seed"]), case["dtype"], case["heads"], case["count"]
                )
            case "interpolation":
                return [interpolated(case["kind"], case["asked"], case["p"], case["steps"], case["seed"])]
            case "size":
                return [sized(case["kind"], case["n"], case["d"], case["steps"], case["draws"], case["seed"])]
            case "prompt":
                return [prompted(case["function"], case["tol"])]
        return [averaged(case["kernel"], case["dtype"], case["draws"], case["seed"])]

    def findings(self, table: Table, settings: InContextSettings) -> Sequence[Finding]:
        """The paper's claim, the question it leaves open, and ours."""
        return [
            _one_step(table),
            _converges(table),
            _settles(table),
            _certified(table),
            *_orders(table),
            *_rates(table),
            _any_size(table),
            _one_network(table),
            _kernel(table),
        ]

    def notes(self, table: Table, settings: InContextSettings) -> Sequence[str]:
        """One line a regression, after all steps."""
        rows = [_summary(table, kind) for kind in KINDS]
        header = ["regression", "factor a step", "exact", "to the minimiser", "drift", "certified", "drift, float32"]
        said = (
            f"After {settings.steps:,} steps, in the Euclidean norm; factors a step are fitted to the distances from "
            "the minimiser above the floor, of attention and of exact iteration."
        )
        return [said, markdown(header, rows)]

    def figures(self, table: Table, settings: InContextSettings) -> Mapping[str, Any]:
        """Distance to the minimiser, drift below its bound, and what routes and sizes cost."""
        return {
            "in-context-convergence": _convergence_figure(table),
            "in-context-drift": _drift_figure(table),
            "in-context-routes": _routes_figure(table),
        }


def along_the_stack(task: Problem, dtype: str, steps: int, marks: Sequence[int] | None = None) -> list[Row]:
    """Distances after some of the steps: to exact iteration, to the minimiser, of a block from a step, certified."""
    net = task.network(steps, dtype)
    found, exact, minimiser = task.attention(net), task.iterates(steps), task.minimiser()
    stepped = task.step(np.concatenate([task.start[None], found[:-1]]))
    size, moved = _norm(minimiser), _norm(stepped[0])
    return [
        {
            "step": count,
            "drift": _norm(found[count - 1] - exact[count - 1]),
            "bound": certified_drift(replace(net, steps=count), task),
            "block_error": _norm((found - stepped)[:count], largest=True) / moved,
            "distance": _norm(found[count - 1] - minimiser) / size,
            "exact_distance": _norm(exact[count - 1] - minimiser) / size,
        }
        for count in marks or _marks(steps)
    ]


def certified_drift(net: Any, task: Problem) -> float | None:
    """The proved bound of the drift on these examples; None where there is none, or only infinity."""
    try:
        bound = float(net.certify(task.x, task.y).drift)
    except af.RefusalError:
        return None
    return bound if np.isfinite(bound) else None


def by_sharpness(task: Problem, dtype: str, heads: int, count: int) -> list[Row]:
    """Relative error of one step from zero by the sharpness of the aggregation head, and at the one chosen."""
    from attnforge.theorems.in_context.block import block
    from attnforge.theorems.in_context.sharpness import TYPICAL, balanced

    built = task.network(1, dtype)
    reach = float(max(np.abs(task.x).max(), np.abs(task.y).max()))
    chosen = balanced(dtype, TYPICAL * reach, reach, heads == 2)
    exact = task.step(task.start)

    def error(beta: float) -> float:
        sharpness = replace(chosen, aggregation=beta)
        net = replace(built, sharpness=sharpness, block=block(built.algorithm, built.features, sharpness))
        return _norm(task.attention(net)[0] - exact) / _norm(exact)

    betas = [*np.geomspace(1e-7, 1.0, count).tolist(), chosen.aggregation]
    return [{"beta": beta, "error": error(beta), "chosen": i == count} for i, beta in enumerate(betas)]


def interpolated(kind: str, asked: str, p: int, steps: int, seed: int) -> Row:
    """The interpolation route: drift after all steps, and the largest error of the link.

    A prompt of the single example (1, y) moves the weight from 0 by -rate r(-y): what the network makes of r is read
    off its answer, with the error of the sum on top. Labels of logistic regression are 0 or 1, so there is nothing to
    be read off.
    """
    task = problem(kind, seed=seed)
    options: dict[str, Any] = {"route": "interpolation", "anchors": p, "sharpness": asked}
    drift = _norm(task.attention(task.network(steps, **options))[-1] - task.iterates(steps)[-1])
    if task.kind.link == "logistic":
        return {"drift": drift}
    reach = 2 * DELTA if task.kind.link == "clamp" else REACH
    y = np.linspace(-reach, reach, BETWEEN * (p - 1) + 1)
    single = Problem(task.kind, np.ones((1, 1)), np.zeros(1))
    answers = single.network(1, **options)(np.ones((len(y), 1, 1)), y[:, None])
    wanted = np.clip(-y, -DELTA, DELTA) if task.kind.link == "clamp" else -y
    return {"drift": drift, "error": float(np.abs(answers[:, 0] / -single.rate - wanted).max())}


def sized(kind: str, examples: int, features: int, steps: int, draws: int, seed: int) -> Row:
    """Largest drift and error of a block over some prompts of one size; the bound of the worst."""
    found = [
        along_the_stack(problem(kind, examples, features, seed=1000 * seed + draw), "float64", steps, [steps])[0]
        for draw in range(draws)
    ]
    worst = max(found, key=lambda row: float(row["drift"] or 0.0))
    return {name: worst[name] for name in ("drift", "bound", "block_error")}


def prompted(function: str, tol: float) -> Row:
    """A function as a prompt of the frozen network; refused where one head cannot have the tolerance."""
    domain = FUNCTIONS[function]
    try:
        net, prompt = af.in_context.function_prompt(function, {"x": domain}, tol=tol)
    except (af.RefusalError, af.ToleranceError):
        return {"tokens": None, "error": None, "bound": None, "digest": None}
    x = np.random.default_rng(0).uniform(*domain, size=FRESH)
    error = float(np.abs(net(x, prompt) - _function(function, x)).max())
    return {"tokens": len(prompt.tokens), "error": error, "bound": prompt.certificate.bound, "digest": net.digest}


def averaged(kernel: Any, dtype: str, draws: int, seed: int) -> Row:
    """Kernel regression against the closed form: the largest difference, relative to the largest label."""
    net = af.in_context.KernelRegression(bandwidth=1.0, kernel=kernel, dtype=dtype).build(FEATURES)
    worst = 0.0
    for draw in range(draws):
        task = problem("least squares", seed=1000 * seed + draw)
        queries = np.random.default_rng([seed, draw]).normal(size=(QUERIES, FEATURES))
        scores = queries @ task.x.T
        if kernel == "gaussian":
            scores = -((queries[:, None] - task.x) ** 2).sum(axis=-1) / 2
        weights = np.exp(scores - scores.max(axis=1, keepdims=True))
        exact = weights @ task.y / weights.sum(axis=1)
        found = net.predict(task.x, task.y, queries)
        worst = max(worst, float(np.abs(found - exact).max() / np.abs(task.y).max()))
    return {"error": worst}


def factor_a_step(steps: npt.ArrayLike, distances: npt.ArrayLike, floor: float) -> Slope:
    """The factor q of distances ~ C q^step, with its interval, from those at least ten times above the floor.

    >>> print(factor_a_step([1, 2, 3, 4], [0.5, 0.25, 0.125, 1e-9], 1e-9))
    0.500 (95 % CI 0.500 to 0.500)
    """
    count, distance = np.asarray(steps, dtype=np.float64), np.asarray(distances, dtype=np.float64)
    above = distance > 10 * floor
    fitted = fit_slope(np.exp(count[above] / count.max()), distance[above])  # the exponent is per largest step
    value, low, high = (float(np.exp(each / count.max())) for each in (fitted.value, fitted.low, fitted.high))
    return Slope(value, low, high, fitted.points)


def _function(text: str, x: Array) -> Array:
    values = {"sin(8*x)": np.sin(8 * x), "1/(1 + 25*x^2)": 1 / (1 + 25 * x**2), "abs(x)": np.abs(x)}
    return np.asarray(values[text] if text in values else np.log(x))


def _sizes(settings: InContextSettings) -> list[tuple[int, int]]:
    pairs = [*((n, FEATURES) for n in settings.examples), *((EXAMPLES, d) for d in settings.features)]
    return list(dict.fromkeys(pairs))


def _marks(steps: int) -> list[int]:
    return sorted({round(count) for count in np.geomspace(1, steps, MARKS)})


def _norm(weights: Array, *, largest: bool = False) -> float:
    """Euclidean, of all weights (d, K) together; ``largest``: of every step (steps, d, K), the largest."""
    if largest:
        return float(np.linalg.norm(weights.reshape(len(weights), -1), axis=1).max())
    return float(np.linalg.norm(weights))


def _last(table: Table, kind: str, dtype: str) -> Table:
    rows = table.where(part="steps", kind=kind, dtype=dtype).ordered("step")
    return Table.of(rows.rows[-1:])


def _finals(table: Table, column: str, dtype: str) -> dict[str, float]:
    """A column after all steps, by regression."""
    found = {kind: _last(table, kind, dtype).numbers(column) for kind in KINDS}
    return {kind: float(values[0]) for kind, values in found.items() if len(values)}


def _worst(values: Mapping[str, float]) -> str:
    kind = max(values, key=lambda each: values[each])
    return f"{values[kind]:.1e} ({kind})"


def _one_step(table: Table) -> Finding:
    double, single = (_finals(table, "block_error", dtype) for dtype in DTYPES)
    claim = (
        f"one block is one step of gradient descent: all {len(double)} regressions, to {ONE_STEP:g} of the first step"
    )
    ranked = sorted(double, key=lambda kind: double[kind])
    evidence = (
        f"largest error of a block, anywhere along the stack: float64 {_worst(double)}, all others at most "
        f"{double[ranked[-2]]:.1e}; float32 {_worst(single)}"
    )
    return Finding.judged(claim, max(double.values()) <= ONE_STEP, evidence)


def _converges(table: Table) -> Finding:
    double, single = (_finals(table, "distance", dtype) for dtype in DTYPES)
    steps = int(table.where(part="steps").numbers("step").max())
    factors = {kind: _factors(table, kind) for kind in double}
    apart = max(abs(mine.value - exact.value) for mine, exact in factors.values())
    slowest = max(factors, key=lambda kind: factors[kind][0].value)
    evidence = (
        f"after {steps:,} blocks |w - w*| / |w*| is at most {_worst(double)} in float64 and {_worst(single)} in "
        f"float32; it falls by a constant factor a block, at slowest {factors[slowest][0]} ({slowest}), within "
        f"{apart:.1e} of the factor of exact iteration"
    )
    falls = all(mine.high < 1 for mine, _ in factors.values())
    claim = f"T stacked blocks converge to the minimiser (left open): to {CONVERGED:g} of |w*|, geometrically"
    return Finding.judged(claim, falls and max(double.values()) <= CONVERGED, evidence)


def _factors(table: Table, kind: str) -> tuple[Slope, Slope]:
    """Of attention in float64 and of exact iteration, on the same steps."""
    rows = table.where(part="steps", kind=kind, dtype="float64").ordered("step")
    floor = float(rows.numbers("distance").min())
    steps, mine = rows.numbers("step"), rows.numbers("distance")
    exact = np.where(mine > 10 * floor, rows.numbers("exact_distance"), 0.0)
    return factor_a_step(steps, mine, floor), factor_a_step(steps, exact, 0.0)


def _settles(table: Table) -> Finding:
    """Errors of one sign that add up would give the drift the slope 1 in the number of steps, random ones 1/2."""
    slopes = {}
    for kind in _finals(table, "drift", "float64"):
        rows = table.where(part="steps", kind=kind, dtype="float64")
        slopes[kind] = fit_slope(rows.numbers("step"), rows.numbers("drift"))
    steepest = max(slopes, key=lambda kind: slopes[kind].value)
    evidence = f"steepest growth of the drift with the number of blocks: slope {slopes[steepest]} ({steepest})"
    claim = "errors of the blocks do not add up: drift grows slower than the square root of their number"
    return Finding.judged(claim, all(each.high < 0.5 for each in slopes.values()), evidence)


def _certified(table: Table) -> Finding:
    rows = table.having("drift", "bound")
    ratio = rows.numbers("drift") / rows.numbers("bound")
    lacking = len(table.where(part="steps").having("drift")) - len(table.where(part="steps").having("drift", "bound"))
    evidence = f"{len(rows)} rows, largest drift / bound {ratio.max():.2g}, median {np.median(ratio):.1e}"
    evidence += f"; {lacking} rows have no finite bound (float32)" if lacking else ""
    return Finding.judged("no drift above its certified bound", bool(np.all(ratio <= 1)), evidence)


def _orders(table: Table) -> list[Finding]:
    """Truncation of the small-sharpness route, where it is above rounding and below saturation."""
    found = []
    for heads, order in ((1, 2), (2, 4)):
        rows = table.where(part="sharpness", dtype="float64", heads=heads)
        beta, error = (rows.where(chosen=False).numbers(column) for column in ("beta", "error"))
        best = int(error.argmin())
        kept = (beta > 3 * beta[best]) & (beta < 0.1)
        chosen = float(rows.where(chosen=True).numbers("error")[0])
        more = f"least {error[best]:.1e} at beta {beta[best]:.1e}; {chosen:.1e} at the one chosen by formula"
        claim = f"small-sharpness route, {heads} head{'s' * (heads > 1)}: error O(beta^{order})"
        found.append(falls_as(claim, beta[kept], error[kept], order, slack=0.05, more=more))
    return found


def _rates(table: Table) -> list[Finding]:
    """The interpolation route: the paper's hard selection, and what tuning it gives."""
    rows = table.where(part="interpolation")
    largest = int(rows.numbers("p").max())
    hard = {kind: rows.where(kind=kind, asked="hard").ordered("p") for kind in ("least squares", "Huber")}
    tuned = {kind: rows.where(kind=kind, asked="tuned").ordered("p") for kind in INTERPOLATED}
    findings = [
        falls_as(
            f"interpolation route, hard, {kind}: error of the link O(1/p)",
            each.numbers("p") - 1,
            each.numbers("error"),
            -1,
            slack=0.02,
            more=f"weights after all steps are off by {each.numbers('drift')[-1]:.1e} at p = {largest}",
        )
        for kind, each in hard.items()
    ]
    at = "; ".join(f"{kind} {each.numbers('drift')[-1]:.1e}" for kind, each in tuned.items())
    slope = fit_slope(tuned["logistic"].numbers("p"), tuned["logistic"].numbers("drift"))
    evidence = f"drift at p = {largest}: {at}; logistic falls with slope {slope}"
    return [*findings, Finding("interpolation route, tuned", "measured", evidence)]


def _any_size(table: Table) -> Finding:
    rows = table.where(part="size")
    parts = []
    for kind in SIZED:
        each = rows.where(kind=kind)
        by_examples, by_features = each.where(d=FEATURES).ordered("n"), each.where(n=EXAMPLES).ordered("d")
        blocks = each.numbers("block_error").max()
        parts.append(f"{kind} {_span(by_examples, 'n')}, {_span(by_features, 'd')}, blocks to {blocks:.1e}")
    return Finding("drift against the size of the prompt, float64", "measured", "; ".join(parts))


def _span(rows: Table, column: str) -> str:
    size, drift = rows.numbers(column), rows.numbers("drift")
    return f"{drift[0]:.1e} to {drift[-1]:.1e} for {column} = {size[0]:.0f} to {size[-1]:,.0f}"


def _one_network(table: Table) -> Finding:
    rows = table.where(part="prompt")
    made = rows.having("error")
    digests, ratio = made.distinct("digest"), made.numbers("error") / made.numbers("tol")
    functions = len(made.distinct("function"))
    tokens = made.numbers("tokens")
    refused = ", ".join(f"{row['function']} at {row['tol']:g}" for row in rows.rows if row.get("error") is None)
    evidence = (
        f"{len(digests)} SHA-256 for {len(made)} prompts of {functions} functions, largest error / tol "
        f"{ratio.max():.2f}, {tokens.min():.0f} to {tokens.max():,.0f} tokens; refused: {refused or 'none'}"
    )
    holds = len(digests) == 1 and bool(np.all(ratio <= 1))
    return Finding.judged(
        "one frozen network computes every function it is prompted with, each within its tolerance", holds, evidence
    )


def _kernel(table: Table) -> Finding:
    rows = table.where(part="kernel")
    double, single = (float(rows.where(dtype=dtype).numbers("error").max()) for dtype in DTYPES)
    claim = f"kernel regression equals its closed form to rounding ({DIGITS:g} in float64)"
    return Finding.judged(
        claim, double <= DIGITS, f"largest difference {double:.1e} in float64, {single:.1e} in float32"
    )


def _summary(table: Table, kind: str) -> list[str]:
    double, single = (_last(table, kind, dtype) for dtype in DTYPES)
    mine, exact = _factors(table, kind)
    bound = double.numbers("bound")[0]
    cells = [f"{double.numbers('distance')[0]:.1e}", f"{double.numbers('drift')[0]:.1e}"]
    cells += ["none" if np.isnan(bound) else f"{bound:.1e}", f"{single.numbers('drift')[0]:.1e}"]
    return [kind, f"{mine.value:.4f}", f"{exact.value:.4f}", *cells]


def _small_multiples(table: Table, y_label: str) -> tuple[Any, list[tuple[str, Any]]]:
    """Two rows of panels, one a regression."""
    from matplotlib.figure import Figure

    from attnforge.plot.rates import plain
    from attnforge.plot.style import WIDTH

    kinds = table.where(part="steps").distinct("kind")
    figure = Figure(figsize=(WIDTH, 4.2), layout="constrained")
    panels = figure.subplots(2, (len(kinds) + 1) // 2, sharex=True, sharey=True, squeeze=False)
    for i, (kind, axes) in enumerate(zip(kinds, panels.flat, strict=False)):
        plain(axes, "steps" if i >= len(kinds) // 2 else "", y_label if i % panels.shape[1] == 0 else "", kind)
        axes.set(xscale="log", yscale="log")
    return figure, list(zip(kinds, panels.flat, strict=False))


def _convergence_figure(table: Table) -> Any:
    from attnforge.plot.rates import legend_below
    from attnforge.plot.style import BLUE, ORANGE, SKY

    figure, panels = _small_multiples(table, "|w − w*| / |w*|")
    for kind, axes in panels:
        rows = {dtype: table.where(part="steps", kind=kind, dtype=dtype).ordered("step") for dtype in DTYPES}
        double = rows["float64"]
        axes.plot(double.numbers("step"), _seen(double, "exact_distance"), color=SKY, lw=4, label="exact iteration")
        for dtype, colour, marker in (("float64", BLUE, "o"), ("float32", ORANGE, "s")):
            look = {"color": colour, "marker": marker, "ms": 2.2, "lw": 0.9}
            axes.plot(rows[dtype].numbers("step"), _seen(rows[dtype], "distance"), label=f"attention, {dtype}", **look)
    legend_below(figure, panels[0][1])
    return figure


def _drift_figure(table: Table) -> Any:
    from attnforge.plot.rates import legend_below
    from attnforge.plot.style import BLUE, GREEN, ORANGE

    figure, panels = _small_multiples(table, "distance to exact iteration")
    for kind, axes in panels:
        double, single = (table.where(part="steps", kind=kind, dtype=dtype).ordered("step") for dtype in DTYPES)
        for rows, column, label, look in (
            (double, "bound", "certified, float64", (GREEN, "^", "--")),
            (double, "drift", "measured, float64", (BLUE, "o", "-")),
            (single, "drift", "measured, float32", (ORANGE, "s", "-")),
        ):
            colour, marker, dash = look
            axes.plot(
                rows.numbers("step"),
                _seen(rows, column),
                color=colour,
                marker=marker,
                ls=dash,
                ms=2.2,
                lw=0.9,
                label=label,
            )
    legend_below(figure, panels[0][1])
    return figure


def _routes_figure(table: Table) -> Any:
    from matplotlib.figure import Figure

    from attnforge.plot.rates import draw_rates
    from attnforge.plot.style import WIDTH

    figure = Figure(figsize=(WIDTH, 5.4), layout="constrained")
    panels = figure.subplots(2, 2)
    drawn = (
        (
            _sharpness_curves(table),
            "sharpness beta of the sum",
            "relative error of one step",
            "small-sharpness route",
            (),
        ),
        (_anchor_curves(table), "anchors p", "error", "interpolation route", (-1,)),
        (_size_curves(table), "examples n, or inputs d", "distance to exact iteration", "size of the prompt", ()),
        (_prompt_curves(table), "tolerance asked for", "error", "functions as prompts", ()),
    )
    for axes, (curves, x_label, y_label, title, slopes) in zip(panels.flat, drawn, strict=True):
        draw_rates(axes, curves, x_label=x_label, y_label=y_label, title=title, slopes=slopes)
        place = {"loc": "center right", "bbox_to_anchor": (1.0, 0.36)} if title == "interpolation route" else {}
        axes.legend(fontsize=7, frameon=False, handlelength=2.0, labelspacing=0.25, **place)
    _choices(panels[0, 0], table)
    counts = table.where(part="interpolation").distinct("p")
    panels[0, 1].set_xticks(counts, [str(count) for count in counts])
    panels[0, 1].minorticks_off()
    panels[1, 1].invert_xaxis()
    panels[1, 1].minorticks_off()
    panels[1, 0].set_ylim(top=panels[1, 0].get_ylim()[1] * 100)  # room for the legend
    return figure


def _choices(axes: Any, table: Table) -> None:
    """The sharpness chosen by formula, ringed."""
    rows = table.where(part="sharpness", chosen=True)
    axes.plot(rows.numbers("beta"), rows.numbers("error"), "o", mfc="none", mec="black", ms=7, mew=0.9, zorder=4)


def _sharpness_curves(table: Table) -> list[Any]:
    from attnforge.plot.rates import Curve

    curves = []
    for dtype in DTYPES:
        for heads in (1, 2):
            rows = table.where(part="sharpness", dtype=dtype, heads=heads, chosen=False)
            curves.append(
                Curve(f"{dtype}, {heads} head{'s' * (heads > 1)}", rows.numbers("beta"), _seen(rows, "error"))
            )
    return curves


def _anchor_curves(table: Table) -> list[Any]:
    from attnforge.plot.rates import Curve

    found = table.where(part="interpolation")
    series = [("least squares", "hard", "error"), ("Huber", "hard", "error"), ("Huber", "tuned", "error")]
    series += [("logistic", "hard", "drift"), ("logistic", "tuned", "drift"), ("least squares", "tuned", "error")]
    named = {"error": "link", "drift": "weights"}
    return [
        Curve(f"{kind}, {asked}, {named[column]}", rows.numbers("p"), _seen(rows, column))
        for kind, asked, column in series
        for rows in [found.where(kind=kind, asked=asked).ordered("p")]
    ]


def _size_curves(table: Table) -> list[Any]:
    from attnforge.plot.rates import Curve

    curves = []
    for kind in SIZED:
        rows = table.where(part="size", kind=kind)
        by_examples, by_features = rows.where(d=FEATURES).ordered("n"), rows.where(n=EXAMPLES).ordered("d")
        curves.append(Curve(f"{kind}, n", by_examples.numbers("n"), _seen(by_examples, "drift")))
        curves.append(Curve(f"{kind}, d", by_features.numbers("d"), _seen(by_features, "drift")))
    return curves


def _prompt_curves(table: Table) -> list[Any]:
    from attnforge.plot.rates import Curve
    from attnforge.plot.style import GREY

    rows = table.where(part="prompt")
    curves = [
        Curve(text, each.numbers("tol"), _seen(each, "error"))
        for text in FUNCTIONS
        for each in [rows.where(function=text).having("error").ordered("tol")]
    ]
    tols = np.unique(rows.numbers("tol"))
    return [*curves, Curve("tolerance", tols, tols, look=(GREY, "", ":"))]


def _seen(rows: Table, column: str) -> Array:
    """A column for a logarithmic axis, which has no zero."""
    return np.asarray(np.maximum(rows.numbers(column), FLOOR))
