"""One list of small networks of every kind, from which laws and golden certificates are made.

A kind of network is added here by one line, and every law follows. Networks are built and proved once: they are kept in
a folder named by the digest of the sources, of the versions of what does the arithmetic and of the instructions it
uses, and loaded from there by every process. Nothing here asks the clock: efforts are counted, seconds only recorded.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import itertools
import math
import os
import pickle
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from filelock import FileLock
from threadpoolctl import threadpool_info
from torch import nn

import attnforge as af
from attnforge.errors import AttnforgeError
from tests.readers.networks import Case, fitted_case, random_case

Array = npt.NDArray[np.float64]

CHECKOUT = Path(__file__).resolve().parents[1]
CACHE = CHECKOUT / ".attnforge-catalogue"
CALM = af.Effort(seconds=math.inf)  # searches beside proofs count points, not seconds
DTYPES = ("float64", "float32", "bfloat16", "float16")
LOOSE = {"float64": 1.0, "float32": 1.0, "float16": 30.0, "bfloat16": 100.0}  # times a tolerance
RANDOM = 20  # random networks of the representation

MAKE, ICL = af.constructions, af.in_context
LINE, SQUARE, CUBE = (dict.fromkeys(names, (-1.0, 1.0)) for names in ("x", "xy", "xyz"))
UNIT = af.Box(0.0, 1.0, shape=(2,))


@dataclass(frozen=True, eq=False)
class Entry:
    """A network that is built on demand: its name, its kind, and how it is made in a dtype.

    ``only``: the one dtype it is made in, where others would be another network, or none.
    """

    name: str
    kind: str
    make: Callable[[str], Any]
    only: str | None = "float64"

    @property
    def dtypes(self) -> tuple[str, ...]:
        """In which it is made."""
        return DTYPES if self.only is None else (self.only,)


@dataclass(frozen=True, eq=False)
class Built:
    """A network, or the sentence that refused it, and the seconds that building and proving it took."""

    net: Any
    refusal: str
    seconds: float


# Functions and modules that networks are built for


def wave(x: Array) -> Array:
    """A callable of two inputs."""
    return np.asarray(np.sin(3 * x[..., 0]) * x[..., 1])


def pairs(keys: Array, query: Array) -> Array:
    """A callable of a key and a query."""
    return np.asarray(np.sin(keys[..., 0] * query[..., 0]))


def same(tokens: Array) -> Array:
    """A map of a sequence."""
    return tokens


def decay(x: Array) -> Array:
    """A smooth callable of many inputs."""
    return np.asarray(np.exp(-x.sum(axis=-1) / 3))


def sequential(*layers: nn.Module) -> nn.Module:
    """A network of torch whose weights are cosines: no random numbers of a library, no round ones."""
    module = nn.Sequential(*layers).double()
    with torch.no_grad():
        for i, weight in enumerate(module.parameters()):
            weight.copy_(torch.cos(torch.arange(1, weight.numel() + 1) * (i + 1.0)).reshape(weight.shape))
    return module


def _formula(text: str, domain: Any, tol: float, construction: str = "auto") -> Callable[[str], Any]:
    return lambda dtype: af.compile(
        text, domain, tol * LOOSE[dtype], construction=construction, dtype=dtype, effort=CALM
    )


def _row(text: str, ends: tuple[float, float], anchors: int) -> Callable[[str], Any]:
    return lambda dtype: MAKE.tensor_grid(text, {"x": ends}, anchors=anchors, dtype=dtype, effort=CALM)


def _relu(*layers: nn.Module) -> Callable[[str], Any]:
    box = af.Box(-1.0, 1.0, shape=(layers[0].in_features,))
    return lambda dtype: MAKE.relu_network(sequential(*layers), box, dtype=dtype, effort=CALM)


def _named(construction: str, *given: Any, **options: Any) -> Callable[[str], Any]:
    return lambda dtype: getattr(MAKE, construction)(*given, dtype=dtype, effort=CALM, **options)


RAMP = {"domain": af.Box(-2.0, 3.0)}

IN_EVERY_DTYPE: dict[str, tuple[str, Callable[[str], Any]]] = {
    "row of 84": ("row", _row("exp(2*x)", (-3, -1), 80)),
    "row of 200": ("row", _row("sin(3*x)", (-1, 1), 200)),
    "row of 300": ("row", _row("sin(9*x)", (0, 3), 280)),
    "sine": ("row", _formula("sin(3*x)", LINE, 1e-3, "tensor_grid")),
    "bell": ("row", _formula("exp(-x^2)", {"x": (-3, 3)}, 1e-3, "tensor_grid")),
    "large values": ("row", _formula("1000*cos(x)", {"x": (0, 3)}, 1.0)),
    "tiny values": ("row", _formula("1e-6*cos(x)", {"x": (0, 3)}, 1e-8)),
    "grid": ("grid", _formula("sin(3*x)*cos(2*y)", SQUARE, 1e-3, "tensor_grid")),
    "fine grid": ("grid", _named("tensor_grid", "exp(x + y)", SQUARE, anchors=(13, 13))),
    "grid of three": ("grid", _formula("x*y*z", CUBE, 1e-1, "tensor_grid")),
    "ridge": ("sum", _formula("sin(x + 2*y)", SQUARE, 1e-2, "ridge")),
    "additive": ("sum", _formula("sin(x) + y^2", SQUARE, 1e-2, "additive")),
    "additive of three": ("sum", _formula("exp(x) + abs(y) + z^3", CUBE, 1e-2, "additive")),
    "sparse grid": (
        "sum", _formula("exp(-(a + b + c + d + g)/3)", dict.fromkeys("abcdg", (0, 1)), 5e-2, "sparse_grid"),
    ),
    "polynomial": ("row", _formula("x^3 - x", LINE, 1e-2, "polynomial")),
    "graph": ("graph", _formula("x*y*exp(-z^2)", CUBE, 1e-2, "graph")),
    "deep graph": ("graph", _formula("sin(x*y) + exp(-(x + z)^2)*y", CUBE, 1e-2, "graph")),
    "graph of kinks": ("graph", _formula("max(x, y)*abs(z) + relu(x - z)", CUBE, 1e-2, "graph")),
    "relu": ("relu", _relu(nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 1))),
    "relu, eight neurons": ("relu", _relu(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 1))),
    "deep relu": ("relu", _relu(nn.Linear(2, 5), nn.ReLU(), nn.Linear(5, 4), nn.ReLU(), nn.Linear(4, 2))),
    "leaky relu": ("relu", _relu(nn.Linear(2, 3), nn.LeakyReLU(0.125), nn.Linear(3, 1))),
    "hardtanh": ("relu", _relu(nn.Linear(2, 3), nn.Hardtanh(-0.25, 0.5), nn.Linear(3, 1))),
    "truncated": ("ramp", _named("truncated_linear", [1.0], 0.25, -1, 2, anchors=8, **RAMP)),
    "truncated, two inputs": ("ramp", _named("truncated_linear", [1.0, -0.5], 0.25, -1, 2, anchors=5, **RAMP)),
    "truncated, many": ("ramp", _named("truncated_linear", [1.0], 0.25, -1, 2, anchors=100, **RAMP)),
    "truncated, window": ("ramp", _named("truncated_linear", [1.0], 0.25, -1, 2, anchors=3000, **RAMP)),
    "truncated, tokens": ("ramp", _named("truncated_linear", [[1.0], [0.5]], [0.1, 0.2], -1, 2, anchors=4, **RAMP)),
    "truncated, literal": (
        "ramp", _named("truncated_linear", [1.0], 0.25, -1, 2, anchors=6, layout="literal", **RAMP),
    ),
    "multihead": ("ramp", _named("multihead_truncated_linear", [1.0], 0.25, -1, 2, tokens=6, heads=2, **RAMP)),
    "multihead, literal": (
        "ramp",
        _named("multihead_truncated_linear", [1.0], 0.25, -1, 2, tokens=6, heads=2, layout="literal", **RAMP),
    ),
    "gate": ("gate", _named("gate", [1.0, -0.5], 0.25, -1, 2, domain=af.Box(-3, 3))),
    "gate, tokens": ("gate", _named("gate", [[1.0], [0.5]], [0.1, 0.2], -1, 2, domain=af.Box(-3, 3))),
    "gate, literal": ("gate", _named("gate", [[1.0, 0.5]], 0.1, -1, 2, layout="literal", domain=af.Box(-3, 3))),
    "two layers": ("cells", _named("two_layer", wave, UNIT, grid=3, lipschitz=3.2)),
    "softmax tail": ("cells", _named("softmax_tail", wave, UNIT, grid=3, lipschitz=3.2)),
    "partition": ("cells", _named("max_affine", "x^2", af.Box(-1.0, 1.0), cells=4)),
    "partition, hard": ("cells", _named("max_affine", "x^2", af.Box(-1.0, 1.0), cells=4, sharpness="hard")),
    "partition, sequence": ("cells", _named("max_affine", same, af.Box(0, 1, shape=(2, 1)), cells=3, lipschitz=1.0)),
    "cross-attention": (
        "cells",
        _named("cross_attention", pairs, *(af.Box(0, end, shape=(1,)) for end in (1, 2)), grid=9, lipschitz=3),
    ),
    "multiplier": ("register", _named("multiplier", keys=3)),
    "exponential": ("register", _named("exponential", [(0, 1), (-1, 0)])),
    "logistic": ("register", _named("logistic", [1.0, -2.0], 0.5, domain=af.Box(-1.0, 1.0))),
    "clamp": ("gate", _formula("clamp(3*x - 1, -1, 1)", LINE, 1e-2)),
}  # fmt: skip

FORMULAS: dict[str, tuple[str, Any, float]] = {
    "readme": ("sin(8*x) + abs(x)", LINE, 1e-4),
    "wave and kink, fine": ("sin(8*x) + abs(x)", LINE, 1e-6),
    "tanh times kink": ("tanh(3*x)*abs(x - 0.3)", LINE, 1e-6),
    "wave plus kink of another input": ("sin(5*x) + abs(y - 1)", SQUARE, 1e-6),
    "maximum of three": ("max(x, 1 - x, abs(y))", SQUARE, 1e-6),
    "cubic": ("x^3 - x", LINE, 1e-9),
    "cubic kinks": ("max(x, -0.3, x^3)", LINE, 1e-6),
    "fine wave": ("sin(8*x)", LINE, 1e-13),
    "maximum": ("max(x, abs(y))", SQUARE, 1e-6),
    "two bells": ("exp(-x^2)*cos(3*y)", SQUARE, 1e-6),
    "Franke": (
        "0.75*exp(-((9*x-2)^2 + (9*y-2)^2)/4) + 0.75*exp(-(9*x+1)^2/49 - (9*y+1)/10)"
        " + 0.5*exp(-((9*x-7)^2 + (9*y-3)^2)/4) - 0.2*exp(-(9*x-4)^2 - (9*y-7)^2)",
        {"x": (0, 1), "y": (0, 1)},
        1e-4,
    ),
    "hyperbola": ("1/(1 + 25*x^2)", LINE, 1e-6),
    "logarithm": ("log(1 + x)*y", {"x": (0, 2), "y": (-1, 1)}, 1e-6),
    "root": ("sqrt(x + 1.5)*y", SQUARE, 1e-6),
    "quotient": ("x*y/(z + 2)", CUBE, 1e-6),
    "cyclic": ("x^2*y + y^2*z", CUBE, 1e-6),
    "cosine times input": ("cos(2*x)*y + x*exp(-z^2)", CUBE, 1e-6),
    "quotient of tanh": ("tanh(2*x)*y/z", {"x": (-1, 1), "y": (-1, 1), "z": (0.5, 2)}, 1e-4),
    "nested": ("sin(3*sin(2*x) + y)", SQUARE, 1e-6),
    "softplus": ("softplus(x + y)*z", CUBE, 1e-6),
    "clamped product": ("clamp(x*y, -0.5, 0.25) + z", CUBE, 1e-6),
    "exchanged ends": ("clamp(y, 0.5, -0.5)*x", SQUARE, 1e-6),
    "gaussian of a distance": ("exp(-(x - y)^2)", SQUARE, 1e-8),
    "minimum": ("min(x*y, x + y)", SQUARE, 1e-6),
    "polynomial of three": ("x*y*z + x^2 - z^3", CUBE, 1e-9),
    "angle": ("atan2(y, x + 2)", SQUARE, 1e-6),
    "steep": ("tanh(20*x)", LINE, 1e-6),
    "two outputs": (["sin(x)*y", "sin(x)*z + y"], CUBE, 1e-4),
    "plane": ("2*x - y + 1", SQUARE, 1e-12),
    "constant": ("3 + 0*x", LINE, 1e-12),
}

POINTS = np.linspace(0.0, 1.0, 9)


def _table(_: str) -> Any:
    return af.compile((POINTS, POINTS**2), effort=CALM)


def _emulated(_: str) -> Any:
    rng = np.random.default_rng(0)
    matrices = (rng.normal(size=(2, width)) for width in (2, 2, 1))
    return ICL.attention_prompt(*matrices, tokens=3)[1].compiled


def _alone(dtype: str) -> Any:
    """A network that nothing built: no name, no number of tokens that anybody said."""
    net = MAKE.truncated_linear([1.0], 0.0, -1, 1, anchors=4, domain=af.Box(-1.5, 1.5), dtype=dtype, effort=CALM)
    formula = af.compile("clamp(x, -1, 1)", {"x": (-1.5, 1.5)}, 0.1, construction="truncated_linear", effort=CALM)
    return formula.with_network(replace(net.network, construction="", tokens=1))


def _algorithm(name: str, *, build: dict[str, Any], **options: Any) -> Callable[[str], Any]:
    return lambda dtype: getattr(ICL, name)(dtype=dtype, **options).build(features=2, **build)


BOUNDED: dict[str, Any] = {"data_bound": 1.0}
STEPS: dict[str, Any] = {"steps": 5, "learning_rate": 0.1}

OTHERS: dict[str, tuple[str, Callable[[str], Any]]] = {
    "two layers, tokens": ("cells", _named("two_layer", same, af.Box(0, 1, shape=(2, 1)), grid=2, lipschitz=1.0)),
    "a network alone": ("ramp", _alone),
    "callable on cells": (
        "cells",
        lambda dtype: MAKE.max_affine(wave, UNIT, cells=3, lipschitz=3.2, dtype=dtype, effort=CALM),
    ),
    "free cells": (
        "cells",
        lambda dtype: MAKE.max_affine(
            "abs(x) + y^2", SQUARE, cells=np.array([[-0.5, -0.5], [0.0, 0.25], [0.5, 0.75]]), dtype=dtype, effort=CALM
        ),
    ),
    "cell averages": ("cells", _named("max_affine", "sign(x)", af.Box(-1.0, 1.0), cells=4, norm=2)),
    "callable on a row": (
        "row",
        lambda dtype: af.compile(np.sin, {"t": (-1, 1)}, 1e-3, lipschitz=1.0, dtype=dtype, effort=CALM),
    ),
    "callable on a sparse grid": (
        "sum",
        lambda dtype: MAKE.sparse_grid(decay, af.Box(0.0, 1.0, shape=(5,)), tol=5e-2, dtype=dtype, effort=CALM),
    ),
    "table": ("table", _table),
    "head in a prompt": ("prompt", _emulated),
    "least squares, interpolation": (
        "in-context",
        _algorithm("LeastSquares", steps=3, learning_rate=0.1, route="interpolation", build=BOUNDED),
    ),
    "least squares, Chebyshev": (
        "in-context",
        _algorithm("LeastSquares", steps=8, schedule="chebyshev", spectrum=(0.03, 1.0), build=BOUNDED),
    ),
    "Poisson": ("in-context", _algorithm("Poisson", steps=5, learning_rate=0.05, build=BOUNDED)),
    "kernel ridge": ("in-context", _algorithm("KernelRidge", steps=5, alpha=0.5, build={"examples": 8})),
    "least squares, float32": (
        "in-context",
        lambda _: ICL.LeastSquares(dtype="float32", **STEPS).build(features=2, **BOUNDED),
    ),
    "mean of a prompt": (
        "functional",
        lambda dtype: af.compile(
            "tokens.mean(x*y)*q", dict.fromkeys("xyq", (0, 1)), 1e-3, query=["q"], tokens=6, dtype=dtype, effort=CALM
        ),
    ),
    "mean of a prompt, float32": (
        "functional",
        lambda _: af.compile(
            "tokens.mean(x*y)", dict.fromkeys("xy", (0, 1)), 1e-3, tokens=6, dtype="float32", effort=CALM
        ),
    ),
}


def _laws() -> dict[str, Callable[[str], Any]]:
    """Every construction of the registry on its own case, at its coarse tolerance."""
    from attnforge.theorems.registry import CONSTRUCTIONS

    def make(each: Any, _: str) -> Any:
        return af.compile(each.law.target(), tol=each.law.tols[0], construction=each.name, effort=CALM)

    return {each.name: partial(make, each) for each in CONSTRUCTIONS}


def _random(seed: int, dtype: str) -> Any:
    """A random network, for the function that is zero: its bound is how large its output can be."""
    case = _of_one_token(seed)
    names = [f"x{i}" for i in range(case.network.features)]
    ends = zip(case.lower.tolist(), case.upper.tolist(), strict=True)
    zero = af.compile("0*x0", dict(zip(names, ends, strict=True)), dtype=dtype, effort=CALM)
    return zero.with_network(case.network)


def _of_one_token(seed: int) -> Case:
    """Heads over constant keys for even seeds; else the next network of the whole representation that takes a point."""
    if seed % 2 == 0:
        return fitted_case(seed)
    cases = (random_case(1000 * seed + at) for at in itertools.count())
    return next(case for case in cases if _is_function(case))


def _is_function(case: Case) -> bool:
    box = np.all(case.lower < case.upper) and case.tokens == 1 and not case.told
    return bool(box) and case.network(case.lower[None, :]).shape == (1, 1)


def _zoo(name: str) -> Callable[[str], Any]:
    return lambda _: af.zoo.get(name)


def _listed() -> list[Entry]:
    formulas = {name: _formula(*given) for name, given in FORMULAS.items()}
    laws = {f"law: {name}": make for name, make in _laws().items()}
    zoo = {f"zoo: {name}": name for name in af.zoo.list()}
    return [
        *(Entry(name, kind, make, None) for name, (kind, make) in IN_EVERY_DTYPE.items()),
        *(Entry(name, "formula", make) for name, make in formulas.items()),
        *(Entry(name, kind, make) for name, (kind, make) in OTHERS.items()),
        *(Entry(name, "construction", make) for name, make in laws.items()),
        *(Entry(title, af.zoo.entries[name].kind, _zoo(name)) for title, name in zoo.items()),
        *(Entry(f"random {seed}", "random", partial(_random, seed)) for seed in range(RANDOM)),
    ]


ENTRIES: dict[str, Entry] = {entry.name: entry for entry in _listed()}
"""By name. The names in golden files are these, with the dtype in brackets where an entry has several."""


# What is built, once


@cache
def built(name: str, dtype: str | None = None) -> Built:
    """The network of a name, in its own dtype or in another one; from the folder, where it is there."""
    entry = ENTRIES[name]
    dtype = dtype or entry.dtypes[0]
    path = _folder() / f"{hashlib.sha256(f'{name} {dtype}'.encode()).hexdigest()[:20]}.pickle"
    with FileLock(path.with_suffix(".lock")):
        if path.exists():
            return pickle.loads(path.read_bytes())
        result = _build(entry, dtype)
        _store(path, result)
        return result


def network(name: str, dtype: str | None = None) -> Any:
    """The network itself; None where it is refused in that dtype."""
    return built(name, dtype).net


def _build(entry: Entry, dtype: str) -> Built:
    started = time.process_time()
    try:
        net, refusal = entry.make(dtype), ""
    except AttnforgeError as error:
        net, refusal = None, str(error)
    return Built(net, refusal, time.process_time() - started)


def _store(path: Path, result: Built) -> None:
    """Programs and targets that hold functions without a name are not stored: they are built by every process."""
    try:
        content = pickle.dumps(result)
    except (AttnforgeError, pickle.PicklingError, TypeError, AttributeError):
        return
    part = path.with_suffix(f".{os.getpid()}")
    part.write_bytes(content)
    part.replace(path)


@cache
def _folder() -> Path:
    folder = CACHE / digest_of_sources()
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def digest_of_sources() -> str:
    """Of all that decides what is built: sources, data, versions, and the instructions that libraries use here."""
    found = hashlib.sha256(repr(arithmetic()).encode())
    for root in (
        CHECKOUT / "attnforge",
        CHECKOUT / "tests" / "catalogue.py",
        CHECKOUT / "tests" / "readers" / "networks.py",
    ):
        for path in sorted(root.rglob("*")) if root.is_dir() else [root]:
            if path.is_file() and path.suffix in (".py", ".json", ".npz", ".safetensors", ".csv"):
                found.update(path.relative_to(CHECKOUT).as_posix().encode() + path.read_bytes())
    return found.hexdigest()[:24]


def arithmetic() -> dict[str, Any]:
    """Versions of the libraries that compute, and the instructions and threads that they use."""
    from numpy._core._multiarray_umath import __cpu_features__ as features

    blas = sorted({str((each.get("architecture"), each["num_threads"])) for each in threadpool_info()})
    versions = {name: importlib.metadata.version(name) for name in ("numpy", "scipy", "torch", "python-flint")}
    return {
        "versions": versions,
        "blas": blas,
        "numpy": sorted(name for name, there in features.items() if there),
        "torch": torch.backends.cpu.get_cpu_capability(),
        "mkl": os.environ.get("MKL_ENABLE_INSTRUCTIONS", ""),
    }
