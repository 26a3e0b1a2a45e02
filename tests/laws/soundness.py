"""Random networks of every construction against their certificates: does any sampled point err by more than the bound?

A seed says construction, layout, dtype, target, domain and tolerance. The network is built by the public functions and
run in its dtype at random points, at borders of cells and their neighbours, at corners, and around the worst of these.
The target is written once more in plain arithmetic, which shares no line with the package, and evaluated in float64;
``allowance`` is 16 times its largest difference from 60 digits at some of the points, plus 4 units in the last place.
Every point whose error plus the allowance is not below the bound, and the worst points in any case, are judged in 60
digits: a violation is an error above the bound there.
"""

from __future__ import annotations

import itertools
import math
import re
import signal
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import mpmath as mp
import numpy as np
import numpy.typing as npt
import torch
from scipy import special
from torch import nn

import attnforge as af
from scripts.journal import Line, Rng, number, pick

Array = npt.NDArray[np.float64]
Library = Mapping[str, Callable[..., Any]]

DIGITS = 60
PROBED, BALLS, MOST = 24, 8, 500  # points at which float64 is compared with 60 digits; judged in any case; at most
ROUNDS, AROUND = 3, 24  # searches around the worst points, and how many these are
NAMES = ("x", "y", "z")
MAKE = af.constructions

SMOOTH = (
    "sin({u})", "cos({u})", "tanh({u})", "atan({u})", "erf({u})", "sigmoid({u})", "softplus({u})", "exp(-({u})^2)",
    "exp({u}/3)", "sinh({u}/2)", "cosh({u}/2)", "sqrt(1 + ({u})^2)", "log(2 + ({u})^2)", "1/(1 + ({u})^2)",
    "tan(sin({u}))", "asin({u}/(1 + ({u})^2))", "({u})^2", "({u})^3/4",
)  # fmt: skip
KINKS = ("abs({u})", "relu({u})", "clamp({u}, -0.5, 0.75)", "max({u}, {v})", "min({u}, {v})", "abs({u})*({v})")


# What functions mean, in plain arithmetic


def _meaning(
    own: Any, larger: Callable[..., Any], smaller: Callable[..., Any], more: Mapping[str, Any]
) -> dict[str, Any]:
    names = ("sin", "cos", "tan", "tanh", "exp", "sinh", "cosh", "sqrt", "log")
    return {
        **{name: getattr(own, name) for name in names},
        "abs": abs,
        "max": larger,
        "min": smaller,
        "relu": lambda u: larger(u, 0 * u),
        "clamp": lambda u, a, b: smaller(larger(u, a), b),
        "sigmoid": lambda u: 1 / (1 + own.exp(-u)),
        **more,
    }


SINGLE: dict[str, Any] = _meaning(np, np.maximum, np.minimum, {
    "atan": np.arctan, "asin": np.arcsin, "erf": special.erf, "softplus": lambda u: np.logaddexp(0.0, u),
    "number": float, "sort": lambda given: list(np.sort(np.stack(given), axis=0)),
})  # fmt: skip
EXACT: dict[str, Any] = _meaning(mp, max, min, {
    "atan": mp.atan, "asin": mp.asin, "erf": mp.erf, "softplus": lambda u: mp.log1p(mp.exp(u)),
    "number": mp.mpf, "sort": sorted,
})  # fmt: skip
DIGIT = re.compile(r"(?<![\w.])\d+\.?\d*(?:e[+-]?\d+)?")

Meaning = Callable[[list[Any], int, Library], list[Any]]
"""Of the entries of a point, or of a token and its place: the values there, by the functions of a library."""


def formula_meaning(text: str, names: Sequence[str]) -> Meaning:
    """A drawn text as Python: numbers as the float64 that they are."""
    code = compile(DIGIT.sub(lambda found: f"number({float(found[0])!r})", text.replace("^", "**")), text, "eval")
    return lambda entries, _, library: [eval(code, {**library, **dict(zip(names, entries, strict=False))})]


def clamp_meaning(w: Array, t: Array, ends: tuple[float, float], place: tuple[int, int] | None) -> Meaning:
    """clamp(w . x + t, a, b), of each token its own; one of so many features, where ``place`` says which."""

    def meaning(entries: list[Any], token: int, library: Library) -> list[Any]:
        of, number = library["clamp"], library["number"]
        weights, offset = (each[token if len(each) > 1 else 0] for each in (np.atleast_2d(w), np.atleast_1d(t)))
        form = sum((number(a) * b for a, b in zip(weights.tolist(), entries, strict=True)), number(float(offset)))
        value = of(form, *map(number, ends))
        return [value] if place is None else [value if i == place[0] else 0 * value for i in range(place[1])]

    return meaning


def module_meaning(module: nn.Sequential) -> Meaning:
    """A network of linear maps and activations that are straight but for two kinks."""

    def meaning(entries: list[Any], _: int, library: Library) -> list[Any]:
        number, state = library["number"], entries
        for part in module:
            if isinstance(part, nn.Linear):
                bias = [0.0] * part.out_features if part.bias is None else part.bias.tolist()
                rows = zip(part.weight.tolist(), bias, strict=True)
                state = [sum((number(w) * y for w, y in zip(row, state, strict=True)), number(b)) for row, b in rows]
            else:
                slope, low, high = _activation(part)
                kept = [library["clamp"](y, *map(number, (low, high))) for y in state]
                state = [number(slope) * y + (1 - number(slope)) * k for y, k in zip(state, kept, strict=True)]
        return state

    return meaning


def _activation(part: nn.Module) -> tuple[float, float, float]:
    ends = {nn.Hardtanh: lambda: (part.min_val, part.max_val), nn.ReLU6: lambda: (0.0, 6.0)}
    slope = part.negative_slope if isinstance(part, nn.LeakyReLU) else 0.0
    return (slope, *ends.get(type(part), lambda: (0.0, 1e300))())


# Formulas


def linear(names: Sequence[str], box: af.Box, reach: float, rng: Rng) -> str:
    """A linear form of the inputs that moves by up to ``reach`` on the box."""
    weights = rng.normal(size=len(names))
    weights *= reach / (np.abs(weights).sum() * np.maximum(box.upper - box.lower, 1e-6))
    offset = rng.uniform(-1, 1) - float(weights @ box.middle)
    terms = [f"{number(w, rng)}*{name}" for w, name in zip(weights.tolist(), names, strict=True)]
    return " + ".join([*terms, number(offset, rng)])


def tree(leaf: Callable[[], str], depth: int, kinks: float, rng: Rng) -> str:
    """A random tree of smooth functions, sums, products and, with probability ``kinks`` a node, kinks."""
    if depth == 0:
        return leaf()
    u, kind = tree(leaf, depth - 1, kinks, rng), rng.random()
    if kind < kinks:
        return str(rng.choice(KINKS)).format(u=u, v=leaf())
    if kind < 0.7 + 0.3 * kinks:
        return str(rng.choice(SMOOTH)).format(u=u)
    v = tree(leaf, depth - 1, 0.0, rng)
    a, b = (number(value, rng) for value in rng.normal(size=2).tolist())
    return f"({a}*({u}) + {b}*({v}))" if kind < 0.9 else f"({u})*({v})"


def powers(names: Sequence[str], degree: int, rng: Rng) -> str:
    """A polynomial of at most that degree in all."""
    every = itertools.product(range(degree + 1), repeat=len(names))
    chosen = [each for each in every if sum(each) <= degree and (not sum(each) or rng.random() < 0.7)]
    terms = [
        "*".join([number(rng.normal(), rng), *(f"{name}^{k}" for name, k in zip(names, each, strict=True) if k)])
        for each in chosen
    ]
    return " + ".join(terms)


def formula(names: Sequence[str], box: af.Box, rng: Rng, kinks: float = 0.0) -> str:
    """A random formula that uses every input at most a few times."""
    leaf = partial(linear, names, box, float(rng.uniform(0.5, 5.0 if len(names) == 1 else 3.0)), rng)
    kind = rng.random()
    if kind < 0.3:
        return " + ".join(f"{number(a, rng)}*sin({leaf()})" for a in rng.normal(size=rng.integers(1, 5)).tolist())
    if kind < 0.45:
        return powers(names, int(rng.integers(1, 8 // len(names) + 1)), rng)
    return tree(leaf, int(rng.integers(1, 4)), kinks, rng)


def interval_box(inputs: int, rng: Rng) -> af.Box:
    """A box with sides between 0.1 and 6, around zero or not."""
    sides = 10.0 ** rng.uniform(-1.0, 0.8, size=inputs)
    middle = np.zeros(inputs) if rng.random() < 0.4 else rng.normal(size=inputs) * 2
    return af.Box(np.round(middle - sides / 2 - 0.01, 3), np.round(middle + sides / 2 + 0.01, 3))


# Networks


@dataclass(frozen=True, eq=False)
class Trial:
    """What a seed says: how to build a network, what it is compared with, and where borders may lie.

    ``whole``: the meaning is that of all tokens together.
    """

    construction: str
    dtype: str
    text: str
    build: Callable[[], af.Compiled]
    meaning: Meaning
    grid: int = 2
    whole: bool = False


def inputs(rng: Rng) -> int:
    """1, 2 or 3 inputs, mostly 1 and 2."""
    return int(rng.choice([1, 2, 3], p=[0.55, 0.37, 0.08]))


def tolerance(rng: Rng, dtype: str) -> float:
    """1e-1 to 1e-10 in float64, and what the narrower types have a chance to reach."""
    finest = {"float64": -10.0, "float32": -4.5, "bfloat16": -1.0, "float16": -2.0}[dtype]
    coarsest = {"float64": -1.0, "float32": -1.0, "bfloat16": 0.5, "float16": 0.0}[dtype]
    return float(f"{10.0 ** rng.uniform(finest, coarsest):.3g}")


def named(box: af.Box) -> dict[str, tuple[float, float]]:
    """The box as a domain with named inputs."""
    return dict(zip(NAMES, zip(box.lower.tolist(), box.upper.tolist(), strict=True), strict=False))


def sharpness_of(rng: Rng, step: float) -> Any:
    """Tuned, hard, or a number c / h^2."""
    return pick(rng, "tuned", "hard", float(10.0 ** rng.uniform(-0.5, 1.5) / step**2))


def truncated(name: str, rng: Rng, dtype: str) -> Trial:
    """truncated_linear, multihead_truncated_linear and gate: by name, or compiled from a formula."""
    layout = pick(rng, "memory", "memory", "literal")
    tokens = (
        int(rng.integers(5, 11)) if name.startswith("multi") and layout == "literal" else int(pick(rng, 1, 1, 2, 3))
    )
    d, compiled = inputs(rng), rng.random() < 0.25
    tokens = 1 if compiled else tokens
    own = tokens > 1 and rng.random() < 0.5
    w = rng.normal(size=(tokens, d) if own else d) * 10.0 ** rng.uniform(-1, 1)
    t = rng.normal(size=tokens) if tokens > 1 and rng.random() < 0.5 else float(rng.normal())
    lower = float(np.round(rng.normal(), 2))
    upper = lower + float(10.0 ** rng.uniform(-1, 1))
    low, high = -(10.0 ** rng.uniform(-1, 1)), 10.0 ** rng.uniform(-1, 1)
    if compiled:
        form = " + ".join([*(f"{number(a, rng)}*{n}" for a, n in zip(w.tolist(), NAMES, strict=False)), number(t, rng)])
        shapes = ("clamp({s}, {a}, {b})", "min(max({s}, {a}), {b})", "relu({s})", "max({s}, {a})", "abs({s})")
        text = str(pick(rng, *shapes)).format(s=form, a=number(lower, rng), b=number(upper, rng))
        tol = max(tolerance(rng, dtype), 1e-2 if name != "gate" else 0.0)
        domain = dict.fromkeys(NAMES[:d], (low, high))
        build = partial(af.compile, text, domain, tol, construction=name, dtype=dtype)
        return Trial(name, dtype, f"{text}, tol={tol:g}", build, formula_meaning(text, NAMES), 16)
    outputs = pick(rng, None, None, (1, 2))
    more: dict[str, Any] = {"domain": af.Box(low, high, shape=(tokens, d) if tokens > 1 else (d,))}
    more |= {"layout": layout, "dtype": dtype} | ({} if outputs is None else {"output": 1, "outputs": 2})
    more |= _size_of(name, rng, layout, tokens, upper - lower)
    build = partial(getattr(MAKE, name), w, t, lower, upper, **more)
    said = f"clamp({w.tolist()} . x + {np.asarray(t).tolist()}, {lower}, {upper}), {_said(build)}"
    return Trial(name, dtype, said, build, clamp_meaning(w, np.asarray(t), (lower, upper), outputs), 16)


def _size_of(name: str, rng: Rng, layout: str, tokens: int, width: float) -> dict[str, Any]:
    if name == "gate":
        return {"sharpness": pick(rng, None, float(10.0 ** rng.uniform(-1, 8)))}
    if name == "truncated_linear":
        count = int(2 + rng.integers(60 if layout == "memory" else 8) ** rng.uniform(0.3, 1.0))
        grid = pick(rng, "closed", "open")
        return {"anchors": count, "grid": grid, "sharpness": sharpness_of(rng, width / count)}
    sentinels, heads = int(pick(rng, 1, 2, 2, 3)), int(rng.integers(1, 7))
    keys = tokens if layout == "literal" else int(2 * sentinels + rng.integers(1, 10))
    step = width / max(1, heads * (keys - 2 * sentinels) - 1)
    return {"tokens": keys, "heads": heads, "sentinels": sentinels, "sharpness": sharpness_of(rng, step)}


def relu(name: str, rng: Rng, dtype: str) -> Trial:
    """A ReLU network with random weights."""
    widths = [inputs(rng), *rng.integers(1, 7, size=rng.integers(1, 3)).tolist(), int(rng.integers(1, 3))]
    parts: list[nn.Module] = []
    for a, b in itertools.pairwise(widths):
        part = nn.Linear(a, b, bias=bool(rng.random() < 0.8)).double()
        for weights in part.parameters():
            weights.data = torch.from_numpy(rng.normal(size=tuple(weights.shape)) / math.sqrt(a))
        slope, ends = float(rng.uniform(-0.3, 0.5)), np.sort(rng.normal(size=2)).tolist()
        parts += [part, pick(rng, nn.ReLU(), nn.ReLU(), nn.LeakyReLU(slope), nn.Hardtanh(*ends), nn.ReLU6())]
    module = nn.Sequential(*parts[: -1 if rng.random() < 0.8 else None])
    box = interval_box(widths[0], rng)
    if rng.random() < 0.2:
        box = af.Box(np.stack([box.lower] * 2), np.stack([box.upper] * 2))
    by = pick(rng, {"by": "gate"}, {"by": "gate"}, {"by": "anchors", "anchors": int(rng.integers(2, 40))})
    if rng.random() < 0.1:
        by = {"by": "anchors", "tol": float(10.0 ** rng.uniform(-1.5, 0))}
    build = partial(MAKE.relu_network, module, box, dtype=dtype, **by)
    kinds = ", ".join(type(part).__name__ for part in module if not isinstance(part, nn.Linear))
    text = f"{'-'.join(map(str, widths))}, {kinds}, box {box.lower.tolist()} to {box.upper.tolist()}, {by}"
    return Trial(name, dtype, text, build, module_meaning(module), 8)


def cells(name: str, rng: Rng, dtype: str) -> Trial:
    """max_affine, two_layer and softmax_tail: a formula, or sorting tokens, which has the Lipschitz constant 1."""
    d = inputs(rng)
    box, names = interval_box(d, rng), NAMES[:d]
    layout = "literal" if d == 1 and name != "softmax_tail" and rng.random() < 0.3 else "memory"
    most = 6 if layout == "literal" else (0, 40, 9, 4)[d] if name == "max_affine" else (0, 16, 5, 2)[d]
    count = int(rng.integers(1 if name == "max_affine" else 2, most + 1))
    more: dict[str, Any] = {"dtype": dtype, "cells" if name == "max_affine" else "grid": count}
    step = float((box.upper - box.lower).min()) / count if name == "max_affine" else 0.3
    if name == "max_affine":
        more |= {"layout": layout}
    else:
        more |= {"placement": pick(rng, "midpoints", "closed")}
        more |= {"collapse": pick(rng, "affine", "uniform"), "layout": layout} if name == "two_layer" else {}
    more["sharpness"] = sharpness_of(rng, step)
    if rng.random() < 0.1:
        tokens = 2 if rng.random() < 0.9 else 3
        more |= {"cells" if name == "max_affine" else "grid": min(count, (0, 0, 5, 2)[tokens]), "lipschitz": 1.0}
        build = partial(getattr(MAKE, name), _sorted, af.Box(-0.5, 1.5, shape=(tokens, 1)), **more)
        meaning: Meaning = lambda entries, _, library: library["sort"](entries)  # noqa: E731
        return Trial(name, dtype, f"sorting {tokens} tokens, {_said(build)}", build, meaning, count, whole=True)
    text = formula(names, box, rng, kinks=0.3)
    if name == "max_affine" and rng.random() < 0.35:
        places = rng.uniform(box.lower, box.upper, size=(int(rng.integers(1, 30)), d))
        more = {"cells": pick(rng, af.anchors.Adaptive(int(rng.integers(1, 30))), places), "dtype": dtype}
    build = partial(getattr(MAKE, name), text, named(box), **more)
    return Trial(name, dtype, f"{text} on {named(box)}, {_said(build)}", build, formula_meaning(text, NAMES), count)


def _sorted(tokens: Any) -> Any:
    return np.sort(tokens, axis=-2)


def pairs(name: str, rng: Rng, dtype: str) -> Trial:
    """cross_attention: a formula of x, which the keys come from, and y, which the query is."""
    box = interval_box(2, rng)
    text, count = formula(NAMES[:2], box, rng, kinks=0.3), int(rng.integers(1, 9))
    sharpness = sharpness_of(rng, float((box.upper - box.lower).min()) / count)

    def build() -> af.Compiled:
        target = MAKE.max_affine(text, named(box), cells=1, effort="low").target  # knows a Lipschitz constant
        keys, query = (af.Box(box.lower[[i]], box.upper[[i]]) for i in (0, 1))
        joint = lambda x, y: target.values(np.concatenate([x, y], axis=-1))  # noqa: E731
        options = {"grid": count, "sharpness": sharpness, "dtype": dtype, "lipschitz": target.lipschitz()}
        return MAKE.cross_attention(joint, keys, query, **options)

    said = f"{text} on {named(box)}, grid={count}, sharpness={sharpness}"
    return Trial(name, dtype, said, build, formula_meaning(text, NAMES), count)


def fitted(name: str, rng: Rng, dtype: str) -> Trial:
    """tensor_grid, ridge, additive, polynomial by name, and whatever ``compile`` chooses."""
    d = int(rng.choice([2, 3], p=[0.9, 0.1])) if name in ("ridge", "additive") else min(2, inputs(rng))
    box, names, tol = interval_box(d, rng), NAMES[:d], tolerance(rng, dtype)
    kinks = 0.25 if d == 1 else 0.05 if name in ("ridge", "additive") else 0.0  # in several inputs they take long
    kinks = kinks if tol > 1e-7 else 0.0
    if name == "ridge":
        form = linear(names, box, float(rng.uniform(0.5, 5.0)), rng)
        text = tree(lambda: form, int(rng.integers(1, 3)), kinks, rng)
    elif name == "additive":
        boxes = [af.Box(box.lower[[i]], box.upper[[i]]) for i in range(d)]
        text = " + ".join(f"({formula([n], each, rng, kinks)})" for n, each in zip(names, boxes, strict=True))
    elif name == "polynomial":
        text = powers(names, int(rng.integers(1, 8 // d)), rng)
    else:
        text = formula(names, box, rng, kinks)
    tol = max(tol, 1e-4) if d > 1 and name in ("tensor_grid", "auto") else tol
    options: dict[str, Any] = {"tol": tol, "dtype": dtype}
    if name == "auto":
        build = partial(af.compile, text, named(box), max_anchors=2_000, **options)
    else:
        if name == "tensor_grid" and rng.random() < 0.4:
            options = {"anchors": int(rng.integers(2, 30 if d == 1 else 6)), "dtype": dtype}
        build = partial(getattr(MAKE, name), text, named(box), **options)
    return Trial(name, dtype, f"{text} on {named(box)}, {_said(build)}", build, formula_meaning(text, NAMES), 16)


def _said(build: partial[Any]) -> str:
    """The arguments a construction was given, as text."""
    words = {key: value for key, value in build.keywords.items() if key not in ("domain", "dtype", "outputs", "output")}
    return ", ".join(f"{k}={f'{len(v)} centres' if isinstance(v, np.ndarray) else v}" for k, v in words.items())


MAKERS: dict[str, tuple[Callable[[str, Rng, str], Trial], float, float]] = {
    "truncated_linear": (truncated, 1.3, 1.3), "multihead_truncated_linear": (truncated, 1.3, 1.3),
    "gate": (truncated, 1.3, 1.3), "relu_network": (relu, 1.2, 0.6), "two_layer": (cells, 1.0, 0.4),
    "softmax_tail": (cells, 1.0, 0.4), "max_affine": (cells, 2.0, 0.9), "cross_attention": (pairs, 0.6, 0.4),
    "tensor_grid": (fitted, 2.0, 1.1), "ridge": (fitted, 0.7, 1.3), "additive": (fitted, 0.5, 1.3),
    "polynomial": (fitted, 1.2, 1.3), "auto": (fitted, 1.2, 1.3),
}  # fmt: skip
"""Who draws networks of a construction, how often, and its share of the points, fewer where they are expensive."""
DTYPES = {"float64": 0.5, "float32": 0.3, "bfloat16": 0.1, "float16": 0.1}


def draw(seed: int) -> tuple[Trial, Rng]:
    """What a seed says, and the generator that places its points."""
    rng = np.random.default_rng([seed, 5])
    often = np.array([often for _, often, _ in MAKERS.values()])
    name = str(rng.choice(list(MAKERS), p=often / often.sum()))
    return MAKERS[name][0](name, rng, str(rng.choice(list(DTYPES), p=list(DTYPES.values())))), rng


# Measuring


def _one_input(net: af.Compiled) -> af.Box:
    """The box of one input of the network, tokens included where it takes any."""
    if net.target.layout == "function" or net.network.context is not None:
        return net.domain
    return net.domain.fixed((net.network.tokens or max(1, math.prod(net.domain.shape[:-1])), net.network.features))


def _points(box: af.Box, grid: int, count: int, rng: Rng) -> Array:
    """Corners, then coordinates on, or 1e-17 to 1e-2 of the side beside, multiples of half a cell, or anywhere."""
    shape, sides = (count, *box.shape), box.upper - box.lower
    cells_of = rng.choice([grid, max(1, grid - 1), 2 * grid + 1, 1], size=shape)
    places = rng.integers(0, 2 * cells_of + 1) / (2 * cells_of)
    places = places + rng.choice([-1.0, 0.0, 1.0], size=shape) * 10.0 ** -rng.uniform(2, 17, size=shape)
    places = np.where(rng.random(size=shape) < 0.25, rng.random(size=shape), places)
    places[count // 2 :] = rng.random(size=places[count // 2 :].shape)
    places[: count // 16] = places[: count // 16].round()
    return np.clip(box.lower + sides * places, box.lower, box.upper)


def wanted(trial: Trial, points: Array, library: Library) -> Any:
    """The target's values at the points (N, ...), flat, by a library of arrays; or at one point, by exact numbers."""
    if trial.whole or points.ndim < 3:
        return trial.meaning(list(np.moveaxis(points.reshape(len(points), -1), -1, 0)), 0, library)
    rows = (trial.meaning(list(np.moveaxis(points[:, i], -1, 0)), i, library) for i in range(points.shape[1]))
    return [value for row in rows for value in row]


def _exact(trial: Trial, point: Array) -> list[Any]:
    entries = np.array([mp.mpf(float(x)) for x in point.ravel()], dtype=object).reshape(1, *point.shape)
    return [value[0] if isinstance(value, np.ndarray) else value for value in _one_by_one(trial, entries)]


def _one_by_one(trial: Trial, entries: Any) -> list[Any]:
    if trial.whole or entries.ndim < 3:
        return trial.meaning(list(entries.reshape(-1)), 0, EXACT)
    return [value for i in range(entries.shape[1]) for value in trial.meaning(list(entries[0, i]), i, EXACT)]


def _errors(net: af.Compiled, trial: Trial, points: Array) -> tuple[Array, Array]:
    """What a run gives (N, K), and its largest error (N,) as float64 knows it; infinite where it is no number."""
    with np.errstate(all="ignore"):
        found = np.asarray(net.at_points(points), dtype=np.float64).reshape(len(points), -1)
        meant = np.stack([np.broadcast_to(each, len(points)) for each in wanted(trial, points, SINGLE)], axis=1)
        missed = np.abs(found - meant).max(axis=1)
    return found, np.where(np.isnan(missed), np.inf, missed)


def measure(net: af.Compiled, trial: Trial, bound: float, count: int, rng: Rng) -> Line:
    """The largest error in 60 digits, how many points were above the bound there, and what float64 was allowed."""
    box = _one_input(net)
    points = _points(box, trial.grid, max(64, count), rng)
    found, errors = _errors(net, trial, points)
    for scale in 10.0 ** -np.arange(1.0, 2 * ROUNDS, 2):
        worst = points[np.argsort(-errors)[:AROUND]].repeat(8, axis=0)
        beside = scale * (box.upper - box.lower) * rng.normal(size=worst.shape)
        more = np.clip(worst + beside, box.lower, box.upper)
        outputs, missed = _errors(net, trial, more)
        points, found, errors = (np.concatenate(both) for both in ((points, more), (found, outputs), (errors, missed)))
    with mp.workdps(DIGITS):
        allowance = _allowance(trial, points[rng.permutation(len(points))[:PROBED]])
        order = np.argsort(-errors)
        near = int((~(errors + allowance < bound)).sum())
        judged = [(_error(trial, points[i], found[i]), i) for i in order[: max(BALLS, min(near, MOST))]]
    largest, at = max(judged)
    line = {"measured": largest, "points": len(points), "allowance": allowance}
    violations = sum(error > bound for error, _ in judged)
    return line | {"violations": violations} | ({"at": points[at].ravel().tolist()} if violations else {})


def _allowance(trial: Trial, points: Array) -> float:
    single = np.stack([np.broadcast_to(each, len(points)) for each in wanted(trial, points, SINGLE)], axis=1)
    apart = max(_error(trial, *each) for each in zip(points, single, strict=True))
    return 16 * apart + 4 * 2.0**-53 * float(np.abs(single).max())


def _error(trial: Trial, point: Array, output: Array) -> float:
    """The error at a point in 60 digits."""
    if not np.isfinite(output).all():
        return math.inf
    return max(float(abs(mp.mpf(a) - b)) for a, b in zip(output.tolist(), _exact(trial, point), strict=True))


class TooSlowError(Exception):
    """Building and proving took longer than it may."""


@contextmanager
def _limited(seconds: float) -> Iterator[None]:
    """So many seconds of the processor; none of them counts where there is no limit."""

    def stop(*_: Any) -> None:
        raise TooSlowError

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def line(seed: int, count: int, lowered: float = 1.0, limit: float = 0.0) -> Line:
    """One network: what was drawn, proved and seen; or why there is none. Compared with a ``lowered`` part of it."""
    drawn: Line = {"seed": seed}
    try:
        trial, rng = draw(seed)
        drawn |= {"construction": trial.construction, "dtype": trial.dtype, "target": trial.text}
        with _limited(limit):
            net = trial.build()
        drawn |= {"chosen": net.construction, "certificate": net.certificate.status, "anchors": net.anchors}
        if net.certificate.bound is None:
            return drawn | {"status": "unproved"}
        bound = lowered * net.certificate.bound
        seen = measure(net, trial, bound, int(count * MAKERS[trial.construction][2]), rng)
        ratio = bound / seen["measured"] if seen["measured"] else None
        return drawn | seen | {"status": "ok", "bound": bound, "ratio": ratio}
    except TooSlowError:
        return drawn | {"status": "slow"}
    except (af.CertificateError, af.DomainError) as error:
        kind = "violation" if "No measured error may exceed" in str(error) else "error"
        return drawn | {"status": kind, "text": f"{type(error).__name__}: {error}"}
    except af.AttnforgeError as error:
        false = "must be Lipschitz with constant" in str(error)  # the constants drawn are true: the bound is not
        return drawn | {"status": "violation" if false else "refused", "text": f"{type(error).__name__}: {error}"[:300]}
    except Exception:
        return drawn | {"status": "error", "text": traceback.format_exc()[-1500:]}
