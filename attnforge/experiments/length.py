"""Long sequences: error, time and memory against the number of tokens and features."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from attnforge.experiments.claims import within_bounds
from attnforge.experiments.experiment import Case, Experiment, Finding, Row
from attnforge.experiments.settings import Settings, setting
from attnforge.experiments.slope import fit_slope
from attnforge.experiments.table import Table, markdown

Array = npt.NDArray[np.float64]

LOWER, UPPER, REACH = -25.0, 25.0, 5.0  # of the authors: clamp(w_i . x_i + t_i, -25, 25) for x in [-5, 5]
EVALUATED = 50_000  # tokens, in all sequences of a case together: the same for every length
CHUNK = 10_000  # tokens at a time
PAIRS = 5e8  # of a query and a key: fewer tokens are evaluated where keys are many
RUNS, PATIENCE = 7, 1.0  # a time is the best of so many, or of as many as fit into some seconds
LAYOUTS = ("memory", "literal")
FLOOR = 4e6  # bytes: what is less is lost among the pages of a process
LONG = 500  # tokens from which on times are fitted: shorter calls are overhead


@dataclass(frozen=True)
class LengthSettings(Settings):
    """How long sequences are, how wide, and how many anchors and heads there are."""

    tokens: tuple[int, ...] = setting((50, 1000, 10_000), (50, 1000, 10_000), explain="Numbers n of tokens.")
    features: tuple[int, ...] = setting((10, 30, 100), (10, 100), explain="Numbers d of features.")
    anchors: tuple[int, ...] = setting((64, 128, 256, 512, 1024), (64, 128, 256), explain="Numbers p of anchors.")
    heads: tuple[int, ...] = setting((1, 2, 4, 8), (1, 2, 4), explain="Numbers H of heads, n keys each.")
    sentinels: tuple[int, ...] = setting((2, 4), (4,), explain="Sentinels a side of the heads.")
    timed: tuple[int, ...] = setting(
        (50, 250, 500, 1000, 2000, 4000, 10_000), (500, 1000, 2000, 10_000), explain="Tokens of timed runs."
    )
    widths: tuple[int, ...] = setting((10, 30, 100), (10,), explain="Features of timed runs.")
    longest: int = setting(4000, 2000, explain="Tokens up to which the paper's padded sequence is timed.")
    memory: int = setting(256, explain="Anchors of timed memory heads; the padded sequence has at least n.")


class Length(Experiment[LengthSettings]):
    """The third next check of the summary of Hu et al. 2025."""

    name: ClassVar[str] = "length"
    summary: ClassVar[str] = "long sequences: error, time and memory against n and d"
    question: ClassVar[str] = (
        "Do the rates O(1/p) and O(1/(nH)) hold for sequences of 1,000 and 10,000 tokens and for up to 100 features, "
        "and what do such sequences cost in time and memory? Token i is mapped to clamp(w_i . x_i + t_i, -25, 25), "
        "with w_i and t_i of its own."
    )
    settings = LengthSettings

    def cases(self, settings: LengthSettings) -> Sequence[Case]:
        """Errors of one head and of several, then costs."""
        seed = settings.seed
        rates: list[Case] = [
            {"kind": "anchors", "n": n, "d": d, "p": p, "seed": seed}
            for n in settings.tokens
            for d in settings.features
            for p in settings.anchors
        ]
        heads = [
            {"kind": "heads", "n": n, "d": min(settings.features), "H": h, "sentinels": sentinels, "seed": seed}
            for n in settings.tokens
            for sentinels in settings.sentinels
            for h in settings.heads
        ]
        costs = [
            {"kind": "cost", "layout": layout, "n": n, "d": d, "p": settings.memory if layout == "memory" else n}
            for layout in LAYOUTS
            for d in settings.widths
            for n in settings.timed
            if layout == "memory" or settings.memory <= n <= settings.longest
        ]
        return [*rates, *heads, *costs]

    def measure(self, case: Case) -> Sequence[Row]:
        """The largest error of many tokens; or seconds and bytes, in a process of its own."""
        return [_cost_apart(case) if case["kind"] == "cost" else _error(case)]

    def alone(self, case: Case) -> bool:
        """Costs are."""
        return bool(case["kind"] == "cost")

    def findings(self, table: Table, settings: LengthSettings) -> Sequence[Finding]:
        """Rates at every length, whether length or width matter, and how costs grow."""
        return [
            *(_anchor_rate(table, n) for n in settings.tokens),
            *(_head_rate(table, n, r) for r in settings.sentinels for n in settings.tokens),
            _flat(table),
            replace(within_bounds(table), claim="no error above the theorem's bound, in exact arithmetic"),
            *_growth(table),
            _feasible(table),
        ]

    def notes(self, table: Table, settings: LengthSettings) -> Sequence[str]:
        """Costs, and errors of several heads."""
        costs = [
            [row["layout"], f"{row['n']:,}", row["d"], f"{row['p']:,}", *_cost_texts(row)]
            for row in _rows(table.where(kind="cost"))
        ]
        header = ["layout", "tokens n", "features d", "keys p", "microseconds a token", "peak MB", "MB of weights"]
        heads = [
            [f"{row['n']:,}", row["sentinels"], row["H"], f"{row['p']:,}", f"{row['error']:.3g}", f"{row['bound']:.3g}"]
            for row in _rows(table.where(kind="heads"))
        ]
        as_text = [[str(cell) for cell in row] for row in (*costs, *heads)]
        return [
            markdown(header, as_text[: len(costs)]),
            markdown(
                ["tokens n", "sentinels a side", "heads H", "anchors in all", "error", "bound"], as_text[len(costs) :]
            ),
        ]

    def figures(self, table: Table, settings: LengthSettings) -> Mapping[str, Any]:
        """Errors against anchors in all, and costs against tokens."""
        return {"length-error": _error_figure(table), "length-cost": _cost_figure(table)}


def sequence_weights(n: int, d: int, seed: int) -> tuple[Array, Array]:
    """Weights w (n, d), of the same length for every d, and t (n,), all normal."""
    rng = np.random.default_rng([seed, n, d])
    return rng.normal(size=(n, d)) * (10 / d) ** 0.5, rng.normal(size=n)


def one_head(n: int, d: int, p: int, layout: str = "memory", seed: int = 0) -> tuple[Any, Any, float]:
    """Network, target and the theorem's bound of one tuned head; without the search that a certificate begins with."""
    from attnforge.targets import Box, TruncatedLinear
    from attnforge.theorems.truncated_linear import AnchorPlan, TruncatedLinearHead, resolve_sharpness

    w, t = sequence_weights(n, d, seed)
    target = TruncatedLinear(w, t, LOWER, UPPER, Box(-REACH, REACH))
    chosen: Any = layout
    beta = resolve_sharpness("tuned", (UPPER - LOWER) / (p - 1), p, "float64")
    plan, head = AnchorPlan(p, beta, "closed", chosen), TruncatedLinearHead()
    return head.build(target, plan), target, sum(head.bound(target, plan).values())


def many_heads(n: int, d: int, heads: int, sentinels: int, seed: int = 0) -> tuple[Any, Any, float, int]:
    """The same for H tuned heads of n keys each, w shared by the tokens; and the number of anchors in all."""
    from attnforge.targets import Box, TruncatedLinear
    from attnforge.theorems.multihead_truncated_linear import HeadsPlan, MultiheadTruncatedLinear, plan_sharpness

    w, t = sequence_weights(1, d, seed)
    target = TruncatedLinear(w[0], float(t[0]), LOWER, UPPER, Box(-REACH, REACH))
    plan = HeadsPlan(n, heads, 1.0, sentinels)
    plan = replace(plan, sharpness=plan_sharpness("tuned", plan, LOWER, UPPER))
    construction = MultiheadTruncatedLinear()
    return construction.build(target, plan), target, sum(construction.bound(target, plan).values()), heads * plan.own


def risky_forms(count: int, h: float, borders: Array, rng: np.random.Generator) -> Array:
    """Values y: half of them anywhere from a - 2h to b + 2h, half within two steps of an end or of a border."""
    anywhere = rng.uniform(LOWER - 2 * h, UPPER + 2 * h, count)
    near = rng.choice(borders, count) + rng.uniform(-2 * h, 2 * h, count)
    return np.where(np.arange(count) % 2 == 0, anywhere, near)


def inputs_of(y: Array, w: Array, t: Array) -> tuple[Array, Array]:
    """Inputs (B, n, d) in the box with w_i . x_i + t_i near y (B, n), and what the forms then are.

    x_i = s sign(w_i) has the form s |w_i|_1 + t_i; where y is out of reach, s is cut off.
    """
    reach = np.abs(w).sum(axis=-1)
    s = np.clip((y - t) / reach, -REACH, REACH)
    x = s[..., None] * np.sign(w)
    return x, np.asarray(np.einsum("bnd,nd->bn", x, np.broadcast_to(w, x.shape[1:])) + t)


def _error(case: Case) -> Row:
    """The largest error over sequences whose forms are at risky places."""
    n, d = case["n"], case["d"]
    if case["kind"] == "anchors":
        network, target, bound = one_head(n, d, case["p"], seed=case["seed"])
        anchors, heads = case["p"], 1
    else:
        network, target, bound, anchors = many_heads(n, d, case["H"], case["sentinels"], case["seed"])
        heads = case["H"]
    rows = max(1, int(min(EVALUATED, PAIRS / anchors)) // n)
    # forms of its own for every case: a head reads x through its form only, so the same forms would give equal errors
    rng, h = np.random.default_rng([case["seed"], n, d, anchors, heads]), (UPPER - LOWER) / (anchors - 1)
    borders = LOWER + h * (np.arange(heads + 1) * (anchors / heads) - 0.5)
    y = risky_forms(rows * n, h, np.array([LOWER, UPPER, *borders[1:-1]]), rng).reshape(rows, n)
    return {"p": anchors, "error": _largest(network, target, y), "bound": bound, "evaluated": rows * n}


def _largest(network: Any, target: Any, y: Array) -> float:
    import torch

    from attnforge.runtime import AttentionNetwork

    module = AttentionNetwork(network, torch.float64, False)
    w, t = np.broadcast_to(target.w, (y.shape[1], target.w.shape[-1])), np.broadcast_to(target.t, y.shape[1])
    worst, batch = 0.0, max(1, CHUNK // y.shape[1])
    for first in range(0, len(y), batch):
        x, form = inputs_of(y[first : first + batch], w, t)
        with torch.no_grad():
            found = module(torch.from_numpy(x)).numpy()[..., 0]
        worst = max(worst, float(np.abs(found - np.clip(form, LOWER, UPPER)).max()))
    return worst


def _cost_apart(case: Case) -> Row:
    """The cost, measured by a fresh process with one thread: what others allocated before does not count."""
    script = (
        "import json, sys; from attnforge.experiments.length import cost; "
        "print(json.dumps(cost(*json.loads(sys.argv[1]))))"
    )
    given = json.dumps([case["layout"], case["n"], case["d"], case["p"]])
    threads = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", script, given], env={**os.environ, **threads}, capture_output=True, text=True, check=True
    )
    row: dict[str, Any] = json.loads(done.stdout)
    return row


def cost(layout: str, n: int, d: int, p: int) -> Row:
    """Core seconds of one sequence (the best of several runs) and peak bytes of building and running the network.

    The peak is the growth of the resident set after a small network of the same kind has run.
    """
    import torch

    torch.set_num_threads(1)
    _timed(layout, 2, d, 8)
    before = _forgotten_peak()
    seconds, weights = _timed(layout, n, d, p)
    return {"seconds": seconds, "peak": _peak() - before, "weights": weights}


def _timed(layout: str, n: int, d: int, p: int) -> tuple[float, int]:
    import torch

    from attnforge.runtime import AttentionNetwork

    network, _, _ = one_head(n, d, p, layout)
    module = AttentionNetwork(network, torch.float64, False)
    weights = sum(tensor.nbytes for tensor in module.buffers())
    x = torch.rand(1, n, d, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    times: list[float] = []
    started = time.perf_counter()
    with torch.no_grad():
        while not times or (len(times) < RUNS and time.perf_counter() - started < PATIENCE):
            start = time.process_time()  # of this core: what else the machine does counts less
            module(x)
            times.append(time.process_time() - start)
    return min(times), weights


def _forgotten_peak() -> int:
    """Have Linux forget how much memory this program held before; the peak from which it then counts, in bytes."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")
    return _peak()


def _peak() -> int:
    """Bytes of the largest resident set of this program so far.

    Linux tells it in kilobytes. getrusage would count what the parent held when it started this process, too; it is
    for systems without /proc.
    """
    with suppress(OSError):
        lines = Path("/proc/self/status").read_text().splitlines()
        return 1024 * int(next(line for line in lines if line.startswith("VmHWM:")).split()[1])
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def _anchor_rate(table: Table, n: int) -> Finding:
    rows = table.where(kind="anchors", n=n)
    slopes = {d: fit_slope(*_columns(rows.where(d=d), "p")) for d in rows.distinct("d")}
    evidence = "; ".join(f"d = {d}: slope {slope}" for d, slope in slopes.items())
    # h = (b - a) / (p - 1) falls a little faster than 1/p
    return Finding.judged(f"n = {n:,}: error O(1/p)", all(s.meets(-1, 0.02) for s in slopes.values()), evidence)


def _head_rate(table: Table, n: int, sentinels: int) -> Finding:
    """The slope in H; where borders make heads sharper, the error in steps tells by how much."""
    rows = table.where(kind="heads", n=n, sentinels=sentinels).ordered("H")
    slope, steps = fit_slope(*_columns(rows, "H")), rows.numbers("error") * (rows.numbers("p") - 1) / (UPPER - LOWER)
    last = _rows(rows)[-1]
    evidence = (
        f"slope {slope} in H; from {steps[0]:.3f} to {steps[-1]:.3f} steps; {last['error']:.3g} with {last['H']} heads "
        f"and {last['p']:,} anchors"
    )
    claim = f"n = {n:,} keys a head, {sentinels} sentinels a side: error O(1/(nH))"
    return Finding.judged(claim, slope.meets(-1, 0.05) and abs(slope.value + 1) < 0.1, evidence)


def _flat(table: Table) -> Finding:
    """Whether the error for a number of anchors is the same for all lengths and widths."""
    rows = table.where(kind="anchors")
    spread = 0.0
    for p in rows.distinct("p"):
        errors = rows.where(p=p).numbers("error")
        spread = max(spread, float(errors.max() / errors.min() - 1))
    evidence = (
        f"same p, all n and d, forms drawn anew for each: errors within {100 * spread:.2g} % of each other; a head "
        "reads a token through w . x + t only"
    )
    return Finding.judged("the error depends neither on n nor on d", spread < 0.02, evidence)


def _growth(table: Table) -> list[Finding]:
    """Exponents of time and memory in n, at the narrowest width."""
    rows = table.where(kind="cost")
    narrow = rows.where(d=min(rows.distinct("d")))
    found = []
    for layout, rate, word in (("memory", 1, "linear"), ("literal", 2, "quadratic")):
        of = narrow.where(layout=layout)
        long = Table.of(row for row in _rows(of) if (row.get("n") or 0) >= LONG)
        slope = fit_slope(*_columns(long, "n", "seconds"))
        claim = f"{layout} layout: time {word} in n"
        close = slope.meets(rate, 0.1) and abs(slope.value - rate) < 0.4
        found.append(Finding.judged(claim, close, f"exponent {slope} over n = {_ends(long)}, d = {_d(narrow)}"))
        wide = rows.where(layout=layout, d=max(rows.distinct("d")))
        seen = Table.of(row for row in _rows(wide) if row["peak"] > FLOOR)
        if len(seen.distinct("n")) > 1:
            grown = fit_slope(*_columns(seen, "n", "peak"))
            evidence = f"exponent {grown} over n = {_ends(seen)}, d = {_d(seen)}"
            found.append(Finding(f"{layout} layout: growth of peak memory with n", "measured", evidence))
    return found


def _feasible(table: Table) -> Finding:
    rows = table.where(kind="cost")
    memory, literal = rows.where(layout="memory"), rows.where(layout="literal")
    n = max(set(memory.distinct("n")) & set(literal.distinct("n")))
    d, longest = max(rows.distinct("d")), max(memory.distinct("n"))
    pair = [_rows(t.where(n=n, d=d))[0] for t in (literal, memory)]
    far = _rows(memory.where(n=longest, d=d))[0]
    evidence = (
        f"n = {n:,}, d = {d}: the padded sequence takes {pair[0]['seconds'] / pair[1]['seconds']:.0f} times as long "
        f"and {pair[0]['weights'] / pair[1]['weights']:.0f} times the weights of the memory form; the latter takes "
        f"{1e3 * far['seconds']:.0f} ms and {far['peak'] / 1e6:.0f} MB for n = {longest:,}"
    )
    return Finding("cost of long sequences, one thread", "measured", evidence)


def _columns(table: Table, x: str, y: str = "error") -> tuple[Array, Array]:
    return table.numbers(x), table.numbers(y)


def _ends(table: Table) -> str:
    return f"{table.numbers('n').min():,.0f} to {table.numbers('n').max():,.0f}"


def _d(table: Table) -> str:
    return ", ".join(str(d) for d in table.distinct("d"))


def _cost_texts(row: Mapping[str, Any]) -> list[str]:
    peak = "< 4" if row["peak"] < FLOOR else f"{row['peak'] / 1e6:.0f}"
    return [f"{1e6 * row['seconds'] / row['n']:.2f}", peak, f"{row['weights'] / 1e6:.2f}"]


def _error_figure(table: Table) -> Any:
    """All on one line: one head, the same for all n and d, and several heads, which differ in the number of keys."""
    from attnforge.plot.rates import Curve, rate_curves

    single, several = table.where(kind="anchors"), table.where(kind="heads")
    counts = sorted(single.distinct("p"))
    errors = [single.where(p=p).numbers("error") for p in counts]
    low, high = [float(e.min()) for e in errors], [float(e.max()) for e in errors]
    guarded = several.where(sentinels=max(several.distinct("sentinels")))
    heads = [
        Curve(f"n = {n:,} keys a head", rows.numbers("p"), rows.numbers("error"))
        for n in guarded.distinct("n")
        if (rows := guarded.where(n=n).ordered("H"))
    ]
    curves = [Curve("one head, every n and d", counts, high, low, high), *heads]
    return rate_curves(curves, x_label="anchors in all heads", y_label="largest error", slopes=[-1])


def _cost_figure(table: Table) -> Any:
    from matplotlib.figure import Figure

    from attnforge.plot.rates import SERIES, Curve, draw_rates, legend_below
    from attnforge.plot.style import WIDTH

    figure = Figure(figsize=(WIDTH, 3.2), layout="constrained")
    panels = figure.subplots(1, 2)
    rows = table.where(kind="cost")
    widths = sorted(rows.distinct("d"))
    for axes, column, scale, label in (
        (panels[0], "seconds", 1e3, "milliseconds"),
        (panels[1], "peak", 1e-6, "peak MB"),
    ):
        curves = []
        for number, (layout, d) in enumerate((layout, d) for layout in LAYOUTS for d in widths):
            of = rows.where(layout=layout, d=d).ordered("n")
            values = scale * of.numbers(column)
            shown = values > (scale * FLOOR if column == "peak" else 0)
            name = f"{layout}, d = {d}"
            curves.append(Curve(name, of.numbers("n")[shown], values[shown], look=SERIES[number % len(SERIES)]))
        draw_rates(axes, curves, x_label="tokens n", y_label=label)
        axes.tick_params(which="minor", labelsize=7)
    legend_below(figure, panels[0])
    return figure


def _rows(table: Table) -> Sequence[Mapping[str, Any]]:
    """Rows whose cells are known to be there and of the right kind."""
    return table.rows
