"""Random formulas of hostile scales against 400-digit arithmetic: does any network err by more than its bound?

Run ``OMP_NUM_THREADS=1 .venv/bin/python -m benchmarks.formulas --out FOLDER``. One line a formula goes to
``FOLDER/formulas.jsonl``; a run that was stopped goes on where it was. When all are done the summary goes to
``benchmarks/results/formulas.md``; ``--summary`` writes it from the lines there are. ``--only SEED`` compiles that
formula alone and prints its line. ``--lowered 0.5`` compares with half of every bound: it must fail.

A formula is drawn from its seed: one to six inputs, any operators and functions of the parser, and patterns that
destroy digits (``(f + C) - C``, ``K*((1 + f/K) - 1)``, ``f - f``, ``sqrt(f^2)``, ``sin(u)/u``, ``sign(x - x)``);
factors of up to 1e+-150 within and without; domains around zero, shifted as [1e8, 1e8 + 1], tiny and huge; one of four
dtypes; a tolerance that the size of the formula allows, or any. It is compiled by ``af.compile`` with a timeout. Then
the network runs at fresh points of the domain, corners included, and is compared with the tree of the parsed text,
evaluated by mpmath with 400 digits: fifty are left where numbers of 1e150 and 1e-150 meet twice. Points at which
400 digits do not tell the side of a jump are left out. The evaluator here shares the parser with the package, and
nothing else. ``misjudged`` are certificates whose estimate is not the error at the point that they state.

With ``--graphs`` the formulas are those that become graphs of registers: three to eight inputs, any operators nested up
to six deep, ranges as people give them, compiled with ``construction="graph"`` in float64, or every fifth one in
float32. The summary goes to ``formulas_graphs.md``.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import multiprocessing
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import mpmath
import numpy as np
import numpy.typing as npt
import torch

import attnforge as af
from attnforge.errors import AttnforgeError
from attnforge.expression import Constant, Node, Variable, evaluate, parse
from attnforge.expression.tree import fold
from attnforge.outward import machine as machine_of
from scripts.journal import Line, Rng, append, machine, mend, number, one_thread, pick, read

Array = npt.NDArray[np.float64]
COMMAND = "OMP_NUM_THREADS=1 .venv/bin/python -m benchmarks.formulas"
RESULTS = Path(__file__).parent / "results"
LINES, SUMMARY, GRAPHS = "formulas.jsonl", "formulas.md", "formulas_graphs.md"
DTYPES = ("float64", "float32", "bfloat16", "float16")
NAMES = ("x", "y", "z", "u", "v", "w", "p", "q")
DIGITS, LOST = 400, 350  # decimal digits, and those that cancellation may take before a sign is not known
POINTS = 60  # fresh ones a network
TIMEOUT = 5.0  # seconds that a formula may take to be compiled and proved
GRACE = 5.0  # seconds beyond, before a step that does not look at the clock counts as a failure
BATCH = 32  # formulas between two lines of progress
AGREE = 0.01  # relative difference between an estimate and the error at its point that is not held against it


# Formulas

FUNCTIONS = {
    "+": "(({u}) + {v})",
    "-": "({v} - ({u}))",
    "*": "({u})*({v})",
    "/": "({u})/(1.5 + ({v})^2)",
    "^": "(1.25 + ({u})^2)^(0.5*tanh({v}))",
    "abs": "abs({u})",
    "min": "min({u}, {v})",
    "max": "max({u}, {v}, -0.5)",
    "relu": "relu({u})",
    "clamp": "clamp({u}, -0.5, 0.75)",
    "sign": "sign({u})*({v})",
    "step": "({v})*step({u})",
    "sqrt": "sqrt(abs({u}))",
    "exp": "exp(-abs({u}))",
    "log": "log(1.5 + ({u})^2)",
    "sin": "sin({u})",
    "cos": "cos({u})",
    "tan": "tan(sin({u}))",
    "sinh": "sinh(tanh({u}))",
    "cosh": "cosh(sin({u}))",
    "tanh": "tanh({u})",
    "asin": "asin(0.9*sin({u}))",
    "acos": "acos(0.9*tanh({u}))",
    "atan": "atan({u})",
    "erf": "erf({u})",
    "floor": "({v})*floor({u})",
    "where": "where({u} < {v}, -({u}), -({v}))",
    "atan2": "atan2({u}, 1.25 + ({v})^2)",
    "hypot": "hypot({u}, {v})",
    "unit": "({u})*unit({u}, {v})",
    "erfc": "erfc({u})",
    "normcdf": "normcdf({u})",
    "silu": "silu({u})",
    "gelu": "gelu({u})",
    "gelu_tanh": "gelu_tanh({u})",
    "sinc": "sinc({u})",
    "sphericalj1": "sphericalj1({u})",
    "besselj0": "besselj0({u})",
    "besselj1": "besselj1({u})",
    "besselj2": "besselj2({u})",
    "gamma": "gamma(1.5 + tanh({u}))",
    "lgamma": "lgamma(0.5 + ({u})^2)",
    "digamma": "digamma(1.5 + tanh({u}))",
    "trigamma": "trigamma(1.5 + tanh({u}))",
    "sigmoid": "sigmoid({u})",
    "softplus": "softplus({u})",
    "pi": "pi*({u})",
    "e": "({u})/e",
}  # every function of the parser, where it is defined; a test compares with its table
POWERS = ("({u})^2", "({u})^3/4", "1/(1 + ({u})^2)", "(1.5 + ({u})^2)^(-0.7)")
CANCELLING = (
    "((({u}) + {big}) - {big})",
    "{big}*((1 + ({u})/{big}) - 1)",
    "(({u}) - ({u}))",
    "(0*({u}) + {v})",
    "sqrt(({u})^2)",
    "(({u})^2/({u}))",
    "(sin({u})/({u}))",
    "((exp({u}) - 1)/({u}))",
    "sign({x} - {x})",
    "step(0*{x})*({u})",
    "abs({x} - {x}) + ({u})",
    "max({x}, {x})*0 + ({u})",
    "({small}*({u}))/{small}",
    "(({u}) + {v}) - ({u})",
    "log(exp({u}))",
    "(1 - cos({small}*({u})))/{small}",
)


def power_of_ten(least: float, most: float, rng: Rng) -> str:
    """A number between two powers of ten."""
    return f"{10.0 ** rng.uniform(least, most):.3g}"


def domain(inputs: int, rng: Rng) -> dict[str, tuple[float, float]]:
    """Intervals around zero, shifted far, tiny, or huge; of one kind, as scales that differ belong to the formula."""
    kind = pick(rng, "plain", "plain", "plain", "plain", "shifted", "shifted", "tiny", "huge")
    found = {}
    for name in NAMES[:inputs]:
        middle, half = float(rng.normal()), float(10.0 ** rng.uniform(-1, 0.7))
        if kind == "shifted":
            middle, half = float(10.0 ** rng.integers(2, 13)) * pick(rng, 1.0, -1.0) + 0.5, 0.5
        scale = {"tiny": 10.0 ** rng.uniform(-150, -3), "huge": 10.0 ** rng.uniform(2, 150)}.get(kind, 1.0)
        found[name] = (float((middle - half) * scale), float((middle + half) * scale))
    return found


def leaf(box: dict[str, tuple[float, float]], rng: Rng) -> str:
    """A linear form that moves by a few units on the box: of the differences to a corner, or of the inputs as such."""
    terms = []
    names = list(rng.permutation(list(box))[: int(rng.integers(1, len(box) + 1))])
    for name in names:
        low, high = box[str(name)]
        weight = float(rng.normal() * rng.uniform(0.5, 3.0) / len(names) / (high - low))
        written = f"{weight:.3g}"
        terms.append(f"({written})*({name} - ({low!r}))" if rng.random() < 0.7 else f"({written})*{name}")
    return " + ".join([*terms, number(rng.uniform(-1, 1), rng)])


def tree(box: dict[str, tuple[float, float]], depth: int, rng: Rng) -> str:
    """A random formula: functions, powers and patterns that cancel."""
    u = leaf(box, rng)
    for _ in range(depth):
        patterns = pick(rng, tuple(FUNCTIONS.values()), tuple(FUNCTIONS.values()), POWERS, CANCELLING)
        u = pick(rng, *patterns).format(
            u=u,
            v=leaf(box, rng),
            x=pick(rng, *box),
            big=power_of_ten(0, 150, rng) if rng.random() < 0.3 else power_of_ten(3, 18, rng),
            small=power_of_ten(-150, 0, rng) if rng.random() < 0.3 else power_of_ten(-12, -3, rng),
        )
    return u


@dataclass(frozen=True)
class Drawn:
    """What a seed says."""

    text: str
    box: dict[str, tuple[float, float]]
    dtype: str
    tol: float
    construction: str = "auto"


def draw_graph(seed: int) -> Drawn:
    """The formula of a seed that is to become a graph."""
    rng = np.random.default_rng([15, seed])
    names = NAMES[: int(rng.integers(3, len(NAMES) + 1))]
    box = {name: pick(rng, (-1.0, 1.0), (0.0, 1.0), (1.0, 3.0), (1.0, 5.0), (-2.0, 0.5)) for name in names}
    text = _nested(list(rng.permutation(list(names))), int(rng.integers(2, 7)), rng)
    dtype = "float32" if rng.random() < 0.2 else "float64"
    return Drawn(text, box, dtype, _tolerance(text, box, dtype, rng), "graph")


def _nested(names: list[str], depth: int, rng: Rng) -> str:
    """Operators over operators; a leaf is an input, or a sum of some."""
    if depth == 0 or len(names) == 1:
        return " + ".join(f"{number(rng.uniform(-2, 2), rng)}*{name}" if rng.random() < 0.5 else name for name in names)
    cut = int(rng.integers(1, len(names)))
    u, v = _nested(names[:cut], depth - 1, rng), _nested(names[cut:], depth - 1, rng)
    usual = ("({u})*({v})", "({u}) + ({v})", "({u}) - ({v})", "({u})/(1.5 + ({v})^2)", *POWERS)
    pattern = pick(rng, *usual) if rng.random() < 0.6 else pick(rng, *FUNCTIONS.values())
    found = pattern.format(u=u, v=v)
    return found if "{v}" in pattern else f"({found}) + ({v})"


def draw(seed: int) -> Drawn:
    """The formula of a seed."""
    rng = np.random.default_rng([13, seed])
    box = domain(int(rng.choice([1, 2, 3, 4, 5, 6], p=[0.5, 0.25, 0.1, 0.05, 0.05, 0.05])), rng)
    text = tree(box, int(rng.integers(1, 4)), rng)
    if rng.random() < 0.25:
        text = f"{text} + {tree(box, int(rng.integers(1, 3)), rng)}"
    if rng.random() < 0.3:
        text = f"{power_of_ten(-150, 150, rng)}*({text})"
    dtype = str(rng.choice(DTYPES, p=[0.55, 0.25, 0.1, 0.1]))
    return Drawn(text, box, dtype, _tolerance(text, box, dtype, rng))


def _tolerance(text: str, box: dict[str, tuple[float, float]], dtype: str, rng: Rng) -> float:
    """A part of the formula's size that the dtype has a chance to reach, or, of every fifth formula, any number."""
    points = {name: rng.uniform(low, high, size=64) for name, (low, high) in box.items()}
    values = np.abs(evaluate(parse(text), points))
    size = float(np.median(values[np.isfinite(values)])) if np.isfinite(values).any() else 1.0
    finest = {"float64": -8.0, "float32": -4.0, "bfloat16": -1.0, "float16": -2.0}[dtype]
    if rng.random() < 0.2 or not 1e-300 < size < 1e300:
        size = 1.0
    return float(f"{size * 10.0 ** rng.uniform(finest, -0.5):.3g}")


# Values


class UnsureError(ArithmeticError):
    """The digits do not tell on which side of a jump a value lies."""


def exact(node: Node, point: dict[str, float]) -> mpmath.mpf:
    """The formula at a point with ``DIGITS`` digits; numbers of the text are float64, and exact."""

    def visit(each: Node, given: Sequence[Any]) -> Any:
        if isinstance(each, Constant):
            return mpmath.mpf(each.value)
        if isinstance(each, Variable):
            return mpmath.mpf(point[each.name])
        return MEANING[each.function](*given)

    with mpmath.workdps(DIGITS):
        return fold(node, visit)


def _sign(u: Any) -> Any:
    """-1, 0 or 1: zero only where the argument is; unsure where it may be zero and the digits do not show it."""
    if 0 < abs(u) < mpmath.mpf(10) ** -LOST:
        raise UnsureError
    return mpmath.sign(u)


def _power(u: Any, v: Any) -> Any:
    if u < 0 and v != int(v):
        raise UnsureError
    return mpmath.mpf(1) if v == 0 else u**v


MEANING: dict[str, Callable[..., Any]] = {
    "+": lambda *terms: mpmath.fsum(terms),
    "*": lambda *factors: mpmath.fprod(factors),
    "-": lambda u: -u,
    "/": lambda u, v: u / v,
    "^": _power,
    "pi": lambda: +mpmath.pi,
    "e": lambda: +mpmath.e,
    "abs": abs,
    "min": min,
    "max": max,
    "relu": lambda u: max(u, mpmath.mpf(0)),
    "clamp": lambda u, a, b: min(max(u, a), b),
    "sign": _sign,
    "step": lambda u: (1 + _sign(u)) / 2,
    "sqrt": mpmath.sqrt,
    "exp": mpmath.exp,
    "log": mpmath.log,
    "sin": mpmath.sin,
    "cos": mpmath.cos,
    "tan": mpmath.tan,
    "sinh": mpmath.sinh,
    "cosh": mpmath.cosh,
    "tanh": mpmath.tanh,
    "asin": mpmath.asin,
    "acos": mpmath.acos,
    "atan": mpmath.atan,
    "erf": mpmath.erf,
    "floor": lambda u: mpmath.floor(u) + 0 * _sign(u - mpmath.nint(u)),
    "where": lambda u, v, a, b: a if _sign(v - u) > 0 else b,
    "atan2": mpmath.atan2,
    "hypot": lambda *u: mpmath.sqrt(mpmath.fsum(v * v for v in u)),
    "unit": lambda *u: u[0] / mpmath.sqrt(mpmath.fsum(v * v for v in u)) if any(u) else mpmath.mpf(0),
    "erfc": mpmath.erfc,
    "normcdf": lambda u: mpmath.erfc(-u / mpmath.sqrt(2)) / 2,
    "silu": lambda u: u / (1 + mpmath.exp(-u)),
    "gelu": lambda u: u * mpmath.erfc(-u / mpmath.sqrt(2)) / 2,
    "gelu_tanh": lambda u: u * (1 + mpmath.tanh(mpmath.sqrt(2 / mpmath.pi) * (u + mpmath.mpf(0.044715) * u**3))) / 2,
    "sinc": lambda u: mpmath.sin(u) / u if u else mpmath.mpf(1),
    "sphericalj1": lambda u: u / 3 * mpmath.hyp0f1(2.5, -u * u / 4),
    "besselj0": lambda u: mpmath.besselj(0, u),
    "besselj1": lambda u: mpmath.besselj(1, u),
    "besselj2": lambda u: mpmath.besselj(2, u),
    "gamma": mpmath.gamma,
    "lgamma": lambda u: mpmath.log(abs(mpmath.gamma(u))),
    "digamma": mpmath.digamma,
    "trigamma": lambda u: mpmath.psi(1, u),
    "sigmoid": lambda u: 1 / (1 + mpmath.exp(-u)),
    "softplus": lambda u: mpmath.log1p(mpmath.exp(u)),
}


def error_at(node: Node, point: dict[str, float], output: float) -> float | None:
    """|output - f(point)|, rounded down; None where f has no value there or is not known."""
    try:
        wanted = exact(node, point)
    except (UnsureError, ZeroDivisionError):
        return None
    if not mpmath.isfinite(wanted) or isinstance(wanted, mpmath.mpc):
        return None
    if not math.isfinite(output):
        return math.inf
    with mpmath.workdps(DIGITS):
        found = float(abs(mpmath.mpf(output) - wanted))
    return float(np.nextafter(found, 0.0))


def fresh_points(box: dict[str, tuple[float, float]], rng: Rng) -> Array:
    """Points of the box: random ones, corners, middles of sides."""
    low, high = (np.array(end) for end in zip(*box.values(), strict=True))
    shares = rng.random((POINTS, len(box)))
    shares[: POINTS // 4] = rng.choice([0.0, 0.5, 1.0], size=(POINTS // 4, len(box)))
    return np.clip(low * (1 - shares) + high * shares, low, high)


# Running


def line(seed: int, lowered: float = 1.0, graphs: bool = False) -> Line:
    """One formula: what was drawn, proved and seen, or why there is no network."""
    drawn = draw_graph(seed) if graphs else draw(seed)
    found: Line = {"seed": seed, "target": drawn.text, "domain": drawn.box, "dtype": drawn.dtype, "tol": drawn.tol}
    started = time.monotonic()
    try:
        given = {"dtype": drawn.dtype, "construction": drawn.construction, "timeout": TIMEOUT}
        net = af.compile(drawn.text, drawn.box, drawn.tol, **given)
    except AttnforgeError as error:
        kind = "violation" if "No measured error may exceed" in str(error) else "refused"
        return _ended(found | {"status": kind, "text": f"{type(error).__name__}: {error}"[:300]}, started)
    except Exception:
        return _ended(found | {"status": "error", "text": traceback.format_exc()[-1500:]}, started)
    found = _ended(found | {"status": net.certificate.status, "chosen": net.construction}, started)
    return found | _judged(net, drawn, np.random.default_rng([14, seed]), lowered)


def _ended(found: Line, started: float) -> Line:
    seconds = time.monotonic() - started
    return found | {"seconds": round(seconds, 3), "late": seconds > TIMEOUT + GRACE}


def _judged(net: af.Compiled, drawn: Drawn, rng: Rng, lowered: float) -> Line:
    """The errors at fresh points, from below, against the bound; and the estimate against the error at its point."""
    node, names = parse(drawn.text), list(drawn.box)
    points = fresh_points(drawn.box, rng)
    estimate = net.certificate.estimate
    if estimate is not None and len(estimate.at) == len(names):
        points = np.vstack([points, np.array(estimate.at)])
    outputs = np.asarray(net(points), dtype=np.float64).reshape(len(points))
    errors = [
        error_at(node, dict(zip(names, point, strict=True)), output)
        for point, output in zip(points.tolist(), outputs.tolist(), strict=True)
    ]
    known = [(error, point) for error, point in zip(errors, points.tolist(), strict=True) if error is not None]
    error, at = max(known, default=(0.0, []))
    bound = net.certificate.bound
    found: Line = {"bound": bound, "error": error, "points": len(known), "misjudged": False}
    if estimate is not None and errors[-1] is not None and len(points) > POINTS:
        found["misjudged"] = abs(estimate.error - errors[-1]) > AGREE * max(estimate.error, errors[-1]) + _rounding(net)
    if bound is None:
        return found
    return found | {"violated": bool(error > lowered * bound), "at": at}


def _rounding(net: af.Compiled) -> float:
    """Some roundoffs of the network's values: a run of many points may differ by so much from a run of one."""
    sizes = [float(np.abs(head.memory_values).max()) for head in net.network.heads if head.memory_values is not None]
    return 32 * machine_of(net.dtype).roundoff * max(sizes, default=1.0)


def run(path: Path, formulas: int, first: int, workers: int, lowered: float, graphs: bool) -> None:
    """Append lines until there are as many as asked for."""
    mend(path)
    lines = read(path)
    done = len(lines)
    seeds = itertools.count(max((each["seed"] for each in lines), default=first - 1) + 1)
    started = time.perf_counter()
    with path.open("a") as file, multiprocessing.get_context("spawn").Pool(workers, one_thread) as pool:
        while done < formulas:
            batch = list(itertools.islice(seeds, min(BATCH * workers, formulas - done)))
            for found in pool.imap(partial(line, lowered=lowered, graphs=graphs), batch):
                append(file, found)
                done += 1
                if _is_failure(found):
                    print(json.dumps(found), flush=True)
            print(f"{done:,} formulas, {time.perf_counter() - started:.0f} s", flush=True)


def _is_failure(found: Line) -> bool:
    bad = found["status"] in ("error", "violation")
    return bad or found.get("violated", False) or found["late"] or found.get("misjudged", False)


# Summary


def summary(lines: Sequence[Line], command: str, title: str = "Random formulas of hostile scales") -> list[str]:
    """The page."""
    status = Counter(each["status"] for each in lines)
    bounded = [each for each in lines if each.get("bound") is not None]
    broken = sum(each["violated"] for each in bounded) + status["violation"]
    ratios = [each["error"] / each["bound"] for each in bounded if each["bound"]]
    seconds = np.array([each["seconds"] for each in lines])
    late, misjudged = (sum(bool(each.get(name)) for each in lines) for name in ("late", "misjudged"))
    return [
        f"# {title}",
        "",
        f"Made by `{command}`. {machine()}",
        "",
        f"**{len(lines):,} formulas: {broken} errors above a bound, {status['error']} exceptions that are not the "
        f"project's own, {late} later than the timeout of {TIMEOUT:g} s and {GRACE:g} s of grace, {misjudged} "
        "estimates that are not the error at their point.**",
        "",
        f"{len(bounded):,} have a bound; {sum(each['points'] for each in bounded):,} points were compared with "
        f"{DIGITS}-digit arithmetic. The largest error is {max(ratios, default=0.0):.3g} of its bound. Compiling took "
        f"{np.median(seconds):.2g} s in the median, {np.quantile(seconds, 0.95):.2g} s at 95 %, at most "
        f"{seconds.max():.3g} s. What is drawn and how it is judged: the heading of `benchmarks/formulas.py`; "
        "`--only SEED` repeats a line.",
        "",
        "| inputs | formulas | proved | conditional | sampled | refused | above a bound | largest error / bound |",
        "|---|---|---|---|---|---|---|---|",
        *_rows(lines),
        "",
        "Refusals by class: " + ", ".join(f"{name} {count:,}" for name, count in _refusals(lines)) + ".",
        *_failures(lines),
    ]


def _rows(lines: Sequence[Line]) -> Iterator[str]:
    for inputs in range(1, len(NAMES) + 1):
        group = [each for each in lines if len(each["domain"]) == inputs]
        if not group:
            continue
        status = Counter(each["status"] for each in group)
        bounded = [each for each in group if each.get("bound")]
        broken = sum(each["violated"] for each in bounded) + status["violation"]
        most = max((each["error"] / each["bound"] for each in bounded), default=0.0)
        counts = [status[name] for name in ("proved", "conditional", "sampled", "refused")]
        yield "| " + " | ".join(map(str, [inputs, len(group), *counts, broken, f"{most:.3g}"])) + " |"


def _refusals(lines: Sequence[Line]) -> list[tuple[str, int]]:
    return Counter(each["text"].split(":")[0] for each in lines if each["status"] == "refused").most_common()


def _failures(lines: Sequence[Line]) -> Iterator[str]:
    for each in filter(_is_failure, lines):
        what = "violation" if each.get("violated") else "late" if each["late"] else each["status"]
        what = "misjudged" if each.get("misjudged") else what
        yield f"- seed {each['seed']}, {what}: {each.get('text', '').strip().splitlines()[-1:] or each['target'][:80]}"


def main() -> None:
    """Run what is missing, then write the summary."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--formulas", type=int, default=2_000)
    parser.add_argument("--seed", type=int, default=0, help="of the first formula; the others follow")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("formulas"), help="folder of the lines")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder of the summary")
    parser.add_argument("--summary", action="store_true", help="write the summary of the lines there are")
    parser.add_argument("--only", type=int, metavar="SEED", help="this formula alone; prints its line")
    parser.add_argument("--graphs", action="store_true", help="formulas of three to eight inputs, as graphs")
    parser.add_argument("--lowered", type=float, default=1.0, help="part of every bound to compare with")
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.only is not None:
        print(json.dumps(line(options.only, options.lowered, options.graphs), indent=1))
        return
    options.out.mkdir(parents=True, exist_ok=True)
    path = options.out / LINES
    print(f"attnforge from {Path(af.__file__).parent}", file=sys.stderr)
    if not options.summary:
        run(path, options.formulas, options.seed, options.workers, options.lowered, options.graphs)
    command, name = f"{COMMAND} --formulas {options.formulas} --seed {options.seed}", SUMMARY
    page = summary(read(path), command)
    if options.graphs:
        page, name = summary(read(path), f"{command} --graphs", "Random graphs of registers"), GRAPHS
    print("\n".join(page))
    options.results.mkdir(parents=True, exist_ok=True)
    (options.results / name).write_text("\n".join(page) + "\n")


if __name__ == "__main__":
    main()
