"""Is a time limit kept? Every verb that takes one, over targets that would take long, each in a process of its own.

Run ``OMP_NUM_THREADS=1 .venv/bin/python -m benchmarks.timeouts``: the table goes to ``benchmarks/results/timeouts.md``.
``--timeout`` is the limit in seconds, ``--only TEXT`` runs the cases whose name contains it and only prints, with
``--formulas N`` as many random formulas of ``benchmarks/formulas.py`` are added. A case later than ``LATE`` times its
limit prints where it was, and fails the run, as does an exception that is not the project's own. Networks are made
before the clock starts; what is timed is the one call.
"""

from __future__ import annotations

import argparse
import faulthandler
import itertools
import json
import multiprocessing
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

import attnforge as af
from attnforge.errors import AttnforgeError
from benchmarks.formulas import draw, draw_graph
from scripts.journal import machine

COMMAND = "OMP_NUM_THREADS=1 .venv/bin/python -m benchmarks.timeouts"
PAGE = Path(__file__).parent / "results" / "timeouts.md"
LATE = 1.5  # times the limit
KILLED = 10  # times the limit, when a case is given up

Made = Callable[[float], Any]  # what is timed, of its limit
Case = tuple[str, Callable[[], Made]]  # its name, and what prepares it

ONE = {
    "chirp": ("sin(1/(x + 0.01))", (0, 1)),
    "quadratic chirp": ("sin(200*x^2)", (-1, 1)),
    "rectified wave": ("abs(sin(30*x))", (-1, 1)),
    "wave of a wave": ("sin(x + exp(5*x))", (-1, 1)),
    "Weierstrass": (" + ".join(f"cos({3**k}*pi*x)/{2**k}" for k in range(9)), (-1, 1)),
    "Runge": ("1/(1 + 1000*(x - 0.2371)^2)", (-1, 1)),
    "spike": ("relu(0.01 - 10000*(x - 0.2371)^2)*sin(x)", (-1, 1)),
    "many pieces": ("max(" + ", ".join(f"{k / 7:g}*x - {k * k / 90:g}" for k in range(-20, 21)) + ")", (-2, 2)),
    "deep": ("".join(["sin(2*"] * 12) + "x" + ")" * 12, (-1, 1)),
    "steps": ("floor(40*x)*exp(x)", (-1, 1)),
    "cusp": ("sqrt(abs(x - 0.3))*cos(20*x)", (-1, 1)),
    "gamma": ("gamma(1.5 + x)*besselj0(50*x)", (-1, 1)),
}
SEVERAL = {
    "two: ridged": "sin(30*x*y)",
    "two: spikes": "relu(0.01 - 10000*(x - 0.2371)^2)*relu(0.01 - 10000*(y + 0.1)^2)",
    "two: quotient": "cos(8*x)/(1.1 + sin(9*x*y))",
    "two: kinks": "abs(sin(9*x) - y) + max(x*y, x - y, y^2)",
    "three: product": "exp(-x^2)*cos(3*y)*sin(5*z)",
    "three: norm": "sqrt(x^2 + y^2 + z^2 + 0.01)",
    "three: minima": "min(x*y, y*z, z*x, x + y - z, sin(4*x*y*z))",
    "four: mixed": "exp(x*y)*sin(z + 3*w) + abs(x - w)*y",
    "five: deep": "tanh(sin(3*x*y + z) * cos(w - v*x)) + sqrt(1 + (x*v)^2)",
    "six: Gaussian": "exp(-(x^2 + y^2 + z^2 + w^2 + v^2 + u^2))*(1 + x*y*z*w*v*u)",
    "six: maxima": "max(x*y, z*w, v*u, x*u - y*v) + min(sin(9*x), cos(9*u))",
}
NAMES = ("x", "y", "z", "w", "v", "u")


def domain(text: str) -> dict[str, tuple[float, float]]:
    """[-1, 1] for every input that a formula has."""
    words = set(re.findall(r"[a-z]+", text))
    return {name: (-1.0, 1.0) for name in NAMES if name in words}


def network(activation: str, *widths: int) -> torch.nn.Sequential:
    """A network of random weights."""
    torch.manual_seed(0)
    layers: list[torch.nn.Module] = []
    for i, (n, m) in enumerate(itertools.pairwise(widths)):
        layers += [*([getattr(torch.nn, activation)()] if i else []), torch.nn.Linear(n, m)]
    return torch.nn.Sequential(*layers).double()


def compiled(target: Any, box: Any, tol: float, **asked: Any) -> Callable[[], Made]:
    """The case of compiling a target."""
    return lambda: lambda limit: af.compile(target, box, tol, timeout=limit, **asked)


def formulas() -> Iterator[Case]:
    """One input at three tolerances, several at two."""
    for (name, (text, ends)), tol in itertools.product(ONE.items(), (1e-6, 1e-10, 1e-13)):
        yield f"compile {name}, {tol:g}", compiled(text, {"x": ends}, tol)
    for (name, text), tol in itertools.product(SEVERAL.items(), (1e-4, 1e-9)):
        yield f"compile {name}, {tol:g}", compiled(text, domain(text), tol)
    for text, dtype in ((ONE["chirp"][0], "float32"), (SEVERAL["two: quotient"], "float16")):
        yield f"compile {text} in {dtype}", compiled(text, domain(text), 1e-5, dtype=dtype)


def by_name() -> Iterator[Case]:
    """Every construction, asked for by its name."""
    from attnforge.theorems.registry import CONSTRUCTIONS

    for each in CONSTRUCTIONS:
        for text in ("sin(40*x)", "cos(8*x)/(1.1 + sin(9*x*y))", SEVERAL["four: mixed"]):
            yield f"compile {each.name} {text}", compiled(text, domain(text), 1e-7, construction=each.name)


def networks() -> Iterator[Case]:
    """Networks of torch, scikit-learn and ONNX; and functions that are only called, or listed."""
    for activation, widths in itertools.product(
        ("ReLU", "GELU", "Tanh", "SiLU"),
        ((4, 32, 32, 2), (2, 64, 64, 1), (8, 64, 1), (2, 128, 128, 1), (4, 64, 64, 64, 2)),
    ):
        name = f"{activation} {'-'.join(map(str, widths))}"
        model = network(activation, *widths)
        for tol in (1e-2, 1e-6):
            yield f"compile {name}, {tol:g}", compiled(model, [(-1, 1)] * widths[0], tol)
    yield "compile ONNX 4-48-48-1", _onnx
    yield "compile scikit-learn 3-50-50-1", _sklearn
    yield "compile callable", compiled(lambda x: np.sin(50 * x[:, 0] * x[:, 1]), [(-1, 1)] * 2, 1e-6, lipschitz=100.0)
    yield "compile slow callable", compiled(_slow, [(-1, 1)] * 2, 1e-3)
    rng = np.random.default_rng(0)
    table = rng.uniform(-1, 1, (6000, 3)), rng.normal(size=6000)
    yield "compile table of 6,000 points", compiled(table, None, 1e-6)
    axes = (np.linspace(-1, 1, 200), np.linspace(-1, 1, 200))
    yield "compile grid of 40,000 points", compiled((axes, rng.normal(size=(200, 200))), None, 1e-6)


def _slow(x: Any) -> Any:
    time.sleep(0.002 * len(x))
    return np.sin(9 * x[:, 0]) * x[:, 1]


def _onnx() -> Made:
    path = Path(tempfile.mkdtemp()) / "net.onnx"
    torch.onnx.export(network("Tanh", 4, 48, 48, 1), torch.zeros(1, 4, dtype=torch.float64), str(path), dynamo=False)
    return lambda limit: af.compile(path, [(-1, 1)] * 4, 1e-6, timeout=limit)


def _sklearn() -> Made:
    import warnings

    from sklearn.neural_network import MLPRegressor

    rng = np.random.default_rng(0)
    points = rng.uniform(-1, 1, (200, 3))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = MLPRegressor(hidden_layer_sizes=(50, 50), activation="tanh", max_iter=20, random_state=0).fit(
            points, points.prod(axis=1)
        )
    return lambda limit: af.compile(model, [(-1, 1)] * 3, 1e-6, timeout=limit)


BUILT: dict[str, tuple[Any, Any, float, dict[str, Any]]] = {
    "chirp": (ONE["chirp"][0], {"x": (0, 1)}, 1e-2, {"construction": "tensor_grid"}),
    "two inputs": ("cos(8*x)/(1.1 + sin(9*x*y))", domain("x*y"), 1e-3, {"construction": "tensor_grid"}),
    "hard cells": ("sin(3*x)*cos(y)", domain("x*y"), 0.05, {"construction": "max_affine"}),
    "graph": (SEVERAL["five: deep"], domain(SEVERAL["five: deep"]), 1e-4, {}),
    "GELU 4-32-32-2": (network("GELU", 4, 32, 32, 2), [(-1, 1)] * 4, 1e-2, {}),
    "GELU 4-32-32-2, 1e-6": (network("GELU", 4, 32, 32, 2), [(-1, 1)] * 4, 1e-6, {}),
    "ReLU 4-32-32-2": (network("ReLU", 4, 32, 32, 2), [(-1, 1)] * 4, 1e-4, {}),
    "Tanh 2-64-64-1": (network("Tanh", 2, 64, 64, 1), [(-1, 1)] * 2, 1e-3, {}),
    "ReLU 10-100-100-10": (network("ReLU", 10, 100, 100, 10), [(-1, 1)] * 10, 1e-4, {}),
    "many cells": ("sin(3*x)*cos(y)", domain("x*y"), 0.005, {"construction": "max_affine"}),
}
VERBS: dict[str, Callable[[Any, float], Any]] = {
    "certify": lambda net, limit: af.certify(net, timeout=limit),
    "certify, high": lambda net, limit: af.certify(net, effort="high", timeout=limit),
    "measure": lambda net, limit: af.measure(net, timeout=limit),
    "measure, high": lambda net, limit: af.measure(net, effort="high", timeout=limit),
    "attack": lambda net, limit: af.attack(net, seconds=limit),
    "polish": lambda net, limit: af.polish(net, timeout=limit),
}


def verbs() -> Iterator[Case]:
    """What is done with a network that there is; it is built without a limit, before the clock starts."""
    for (name, built), (verb, called) in itertools.product(BUILT.items(), VERBS.items()):
        yield f"{verb} {name}", partial(_verb, built, called)
    for name, built in BUILT.items():
        yield f"check {name}", partial(_check, built)
        yield f"command check {name}", partial(_command, built)


def _built(target: Any, box: Any, tol: float, asked: dict[str, Any]) -> Any:
    return af.compile(target, box, tol, effort="low", timeout=60, **asked)


def _verb(built: Any, called: Callable[[Any, float], Any]) -> Made:
    return partial(called, _built(*built))


def _saved(built: Any) -> str:
    path = str(Path(tempfile.mkdtemp()) / "net.safetensors")
    _built(*built).save(path)
    return path


def _check(built: Any) -> Made:
    path = _saved(built)
    return lambda limit: af.check(path, timeout=limit)


def _command(built: Any) -> Made:
    path = _saved(built)

    def run(limit: float) -> int:
        words = [sys.executable, "-m", "attnforge", "certify", "--check", "--timeout", str(limit), path]
        code = subprocess.run(words, capture_output=True).returncode
        if code not in (0, 4, 6, 7):
            raise RuntimeError(f"exit code {code}")
        return code

    return run


def random_formulas(count: int) -> Iterator[Case]:
    """Of hostile scales, every fourth one a graph."""
    for seed in range(count):
        each = draw_graph(seed) if seed % 4 == 3 else draw(seed)
        asked = {"dtype": each.dtype, "construction": each.construction}
        yield f"random formula {seed}", compiled(each.text, each.box, each.tol, **asked)


# Running


def measured(case: Case, limit: float) -> dict[str, Any]:
    """Seconds and outcome of one case, in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        process = multiprocessing.get_context("fork").Process(target=_child, args=(case, limit, folder))
        process.start()
        process.join(KILLED * limit + 90)
        if process.is_alive():
            process.kill()
            process.join()
        said, where = Path(folder, "said"), Path(folder, "where")
        found = json.loads(said.read_text()) if said.exists() else {"seconds": KILLED * limit, "ended": "killed"}
        return {"name": case[0], "cpu": 0.0} | found | {"where": where.read_text() if where.exists() else ""}


def _child(case: Case, limit: float, folder: str) -> None:
    try:
        made = case[1]()
    except AttnforgeError as error:
        Path(folder, "said").write_text(json.dumps({"seconds": 0.0, "ended": f"not built: {type(error).__name__}"}))
        return
    with Path(folder, "where").open("w") as file:
        faulthandler.dump_traceback_later(1.2 * limit, file=file)
        wall, cpu = time.monotonic(), time.process_time()
        try:
            found = made(limit)
            ended = getattr(getattr(found, "certificate", found), "status", None) or type(found).__name__
        except AttnforgeError as error:
            ended = type(error).__name__
        except Exception as error:
            ended = f"foreign: {type(error).__name__}: {error}"[:200]
        seconds = {"seconds": time.monotonic() - wall, "cpu": time.process_time() - cpu}
        faulthandler.cancel_dump_traceback_later()
    Path(folder, "said").write_text(json.dumps(seconds | {"ended": ended}))
    os._exit(0)


def main() -> None:
    """Run the cases, print or write the table, and fail where a limit is not kept."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--timeout", type=float, default=6.0)
    parser.add_argument("--only", default="")
    parser.add_argument("--formulas", type=int, default=0)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    af.compile("sin(3*x)*y", domain("x*y"), 1e-3)  # loads what is loaded at the first use
    cases = itertools.chain(formulas(), by_name(), networks(), verbs(), random_formulas(asked.formulas))
    lines = []
    for case in cases:
        if asked.only in case[0]:
            lines.append(measured(case, asked.timeout))
            print(_row(lines[-1], asked.timeout), flush=True)
            if lines[-1]["where"]:
                print(_place(lines[-1]["where"]), flush=True)
    bad = [each for each in lines if _is_late(each, asked.timeout) or each["ended"].startswith("foreign")]
    if not asked.only:
        PAGE.write_text(page(lines, asked.timeout, asked.formulas))
    sys.exit(1 if bad else 0)


def _is_late(line: dict[str, Any], limit: float) -> bool:
    return bool(line["seconds"] > LATE * limit)


def _row(line: dict[str, Any], limit: float) -> str:
    numbers = (f"{line['seconds']:.2f}", f"{line['cpu']:.2f}", f"{line['seconds'] / limit:.2f}")
    return "| " + " | ".join([line["name"].replace("|", "/"), *numbers, line["ended"]]) + " |"


def _place(dumped: str) -> str:
    """Where a late case was: the frames of the package, innermost first."""
    frames = re.findall(r'File ".*?/(attnforge/[^"]*)", line (\d+) in (\S+)', dumped)
    return "    late in " + " < ".join(f"{path}:{number} {name}" for path, number, name in frames[:14])


def page(lines: list[dict[str, Any]], limit: float, count: int) -> str:
    """The table as Markdown."""
    late = sum(_is_late(each, limit) for each in lines)
    foreign = sum(each["ended"].startswith("foreign") for each in lines)
    worst = max(lines, key=lambda each: float(each["seconds"]))
    options = f" --timeout {limit:g}" + (f" --formulas {count}" if count else "")
    return "\n".join(
        [
            "# Time limits",
            "",
            f"Made by `{COMMAND}{options}`. {machine()}",
            "",
            f"**{len(lines):,} calls with a limit of {limit:g} s: {late} took more than {LATE:g} times as long, "
            f"{foreign} ended with an exception that is not the project's own.** The longest, {worst['name']}, took "
            f"{worst['seconds'] / limit:.2f} of its limit. Seconds are by the clock and of the processor; a command's "
            "include its start, and its processor's time is not counted.",
            "",
            "| call | seconds | of the processor | seconds / limit | ended as |",
            "|---|---|---|---|---|",
            *(_row(each, limit) for each in lines),
            "",
        ]
    )


if __name__ == "__main__":
    main()
