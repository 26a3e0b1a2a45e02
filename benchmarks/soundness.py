"""Random networks against their certificates: does any sampled point err by more than the bound?

Run ``OMP_NUM_THREADS=1 .venv/bin/python benchmarks/soundness.py --out FOLDER``. One line a network goes to
``FOLDER/soundness.jsonl``; a run that was stopped goes on where it was. When all networks are done the summary goes to
``benchmarks/results/soundness.md`` and ``soundness_by_construction.csv``; ``--summary`` writes it from the lines there
are. ``--only SEED`` draws, builds and measures that network alone and prints its line. ``--lowered 0.9`` compares with
nine tenths of every bound, to see that violations are found (use another ``--out`` and ``--results``).

A network is drawn from its seed: construction, layout, dtype, target, domain and tolerance. It is compiled by the
public functions and run as its torch module in its dtype. The target is evaluated in float64 first; ``allowance`` is
16 times its largest difference from extended precision at 512 of the points, plus 4 units in the last place of its
largest value. Every point whose error plus the allowance is not below the bound, and the worst points in any case, are
evaluated again in extended precision, and the worst of those by ball arithmetic with 256 bits. A violation is an error
that the ball proves to be above the bound; the error a line states is the largest one so proved.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import json
import math
import multiprocessing
import platform
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, TextIO

import numpy as np
import numpy.typing as npt
import torch
from flint import arb
from torch import nn

import attnforge as af
from attnforge.anchors import Adaptive
from attnforge.balls import precision, upper
from attnforge.errors import AttnforgeError, CertificateError, DomainError
from attnforge.measurement.near_anchors import near_anchors
from attnforge.measurement.points import line_points, risky_places
from attnforge.targets import Box, Formula, JointFunction, ReluNetwork, Target, TruncatedLinear
from attnforge.targets.expression import derivative, enclose
from attnforge.targets.expression.evaluate import bounds
from attnforge.targets.expression.intervals import Interval
from attnforge.targets.relu_network import Affine

Array = npt.NDArray[np.float64]
AnyArray = npt.NDArray[Any]
Rng = np.random.Generator
Line = dict[str, Any]

ROOT = Path(__file__).parent
COMMAND = "OMP_NUM_THREADS=1 .venv/bin/python benchmarks/soundness.py"
LINES, SUMMARY, TABLE = "soundness.jsonl", "soundness.md", "soundness_by_construction.csv"
CHUNK = 4_096  # points run at a time
KEPT = 128  # of every chunk, the worst points are evaluated again in extended precision
BALLS = 8  # of every network, the worst points evaluated by balls even where nothing is near the bound
MOST_BALLS = 2_000  # and at most, where much is
PROBED = 512  # points at which the target's own error in float64 is seen
BATCH = 64  # networks between two lines of progress
SECONDS = 8  # of the processor, that a network may take to be built and proved
BITS = 256
NAMES = ("x", "y", "z")


# Formulas


SMOOTH = (
    "sin({u})",
    "cos({u})",
    "tanh({u})",
    "atan({u})",
    "erf({u})",
    "sigmoid({u})",
    "softplus({u})",
    "exp(-({u})^2)",
    "exp({u}/3)",
    "sinh({u}/2)",
    "cosh({u}/2)",
    "sqrt(1 + ({u})^2)",
    "log(2 + ({u})^2)",
    "1/(1 + ({u})^2)",
    "tan(sin({u}))",
    "asin({u}/(1 + ({u})^2))",
    "({u})^2",
    "({u})^3/4",
)
KINKS = ("abs({u})", "relu({u})", "clamp({u}, -0.5, 0.75)", "max({u}, {v})", "min({u}, {v})", "abs({u})*({v})")


def number(value: float, rng: Rng) -> str:
    """A number as text, with few digits or all of them, in brackets if it is negative."""
    written = repr(float(f"{value:.3g}")) if rng.random() < 0.5 else repr(float(value))
    return f"({written})" if written.startswith("-") else written


def linear(names: Sequence[str], box: Box, reach: float, rng: Rng) -> str:
    """A linear form of the inputs that moves by up to ``reach`` on the box."""
    weights = rng.normal(size=len(names))
    with np.errstate(divide="ignore"):
        weights *= reach / (np.abs(weights).sum() * np.maximum(box.upper - box.lower, 1e-6))
    offset = rng.uniform(-1, 1) - float(weights @ box.middle)
    terms = [f"{number(w, rng)}*{name}" for w, name in zip(weights.tolist(), names, strict=True)]
    return " + ".join([*terms, number(offset, rng)])


def tree(leaf: Callable[[], str], depth: int, kinks: float, rng: Rng) -> str:
    """A random tree of smooth functions, sums, products and, with probability ``kinks`` a node, kinks."""
    if depth == 0:
        return leaf()
    u = tree(leaf, depth - 1, kinks, rng)
    kind = rng.random()
    if kind < kinks:
        return str(rng.choice(KINKS)).format(u=u, v=leaf())
    if kind < 0.7 + 0.3 * kinks:
        return str(rng.choice(SMOOTH)).format(u=u)
    v = tree(leaf, depth - 1, 0.0, rng)
    a, b = (number(value, rng) for value in rng.normal(size=2).tolist())
    return f"({a}*({u}) + {b}*({v}))" if kind < 0.9 else f"({u})*({v})"


def sines(leaf: Callable[[], str], rng: Rng) -> str:
    """A sum of sines."""
    return " + ".join(f"{number(a, rng)}*sin({leaf()})" for a in rng.normal(size=rng.integers(1, 5)).tolist())


def powers(names: Sequence[str], degree: int, rng: Rng) -> str:
    """A polynomial of at most that degree in all."""
    every = itertools.product(range(degree + 1), repeat=len(names))
    chosen = [each for each in every if sum(each) <= degree and (not sum(each) or rng.random() < 0.7)]
    terms = [
        "*".join([number(rng.normal(), rng), *(f"{name}^{k}" for name, k in zip(names, each, strict=True) if k)])
        for each in chosen
    ]
    return " + ".join(terms)


def formula(names: Sequence[str], box: Box, rng: Rng, kinks: float = 0.0) -> str:
    """A random formula that uses every input at most a few times."""
    reach = float(rng.uniform(0.5, 5.0 if len(names) == 1 else 3.0))
    leaf = partial(linear, names, box, reach, rng)
    kind = rng.random()
    if kind < 0.3:
        return sines(leaf, rng)
    if kind < 0.45:
        return powers(names, int(rng.integers(1, 8 // len(names) + 1)), rng)
    return tree(leaf, int(rng.integers(1, 4)), kinks, rng)


def along_a_form(names: Sequence[str], box: Box, rng: Rng, kinks: float) -> str:
    """A formula of one linear form."""
    form = linear(names, box, float(rng.uniform(0.5, 5.0)), rng)
    return tree(lambda: form, int(rng.integers(1, 3)), kinks, rng)


def sum_of_few(names: Sequence[str], box: Box, rng: Rng, kinks: float) -> str:
    """A sum of formulas of one input each."""
    boxes = [Box(box.lower[[i]], box.upper[[i]]) for i in range(len(names))]
    return " + ".join(f"({formula([name], each, rng, kinks)})" for name, each in zip(names, boxes, strict=True))


def interval_box(inputs: int, rng: Rng) -> Box:
    """A box with sides between 0.1 and 6, around zero or not."""
    sides = 10.0 ** rng.uniform(-1.0, 0.8, size=inputs)
    middle = np.zeros(inputs) if rng.random() < 0.4 else rng.normal(size=inputs) * 2
    return Box(np.round(middle - sides / 2 - 0.01, 3), np.round(middle + sides / 2 + 0.01, 3))


# Networks


@dataclass(frozen=True, eq=False)
class Trial:
    """What a seed says: how to build a network, what it is compared with, and where borders may lie."""

    construction: str
    dtype: str
    text: str
    build: Callable[[], af.Compiled]
    reference: Target
    grid: int = 2


def pick(rng: Rng, *choices: Any) -> Any:
    """One of them."""
    return choices[int(rng.integers(len(choices)))]


def inputs(rng: Rng) -> int:
    """1, 2 or 3 inputs, mostly 1 and 2."""
    return int(rng.choice([1, 2, 3], p=[0.55, 0.37, 0.08]))


def tolerance(rng: Rng, dtype: str) -> float:
    """1e-1 to 1e-10 in float64, and what the narrower types have a chance to reach."""
    finest = {"float64": -10.0, "float32": -4.5, "bfloat16": -1.0, "float16": -2.0}[dtype]
    coarsest = {"float64": -1.0, "float32": -1.0, "bfloat16": 0.5, "float16": 0.0}[dtype]
    return float(f"{10.0 ** rng.uniform(finest, coarsest):.3g}")


def with_names(box: Box) -> dict[str, tuple[float, float]]:
    """The box as a domain with named inputs."""
    return dict(zip(NAMES, zip(box.lower.tolist(), box.upper.tolist(), strict=True), strict=False))


def clamp(rng: Rng, tokens: int) -> TruncatedLinear:
    """A random truncated linear function of 1 to 3 features, of each token its own or the same."""
    d = inputs(rng)
    shape = (tokens, d) if tokens > 1 and rng.random() < 0.5 else (d,)
    w = rng.normal(size=shape) * 10.0 ** rng.uniform(-1, 1)
    t = rng.normal(size=tokens) if tokens > 1 and rng.random() < 0.5 else float(rng.normal())
    lower = float(np.round(rng.normal(), 2))
    upper = lower + float(10.0 ** rng.uniform(-1, 1))
    outputs = pick(rng, None, None, 2)
    shape = (tokens, d) if tokens > 1 else (d,)
    box = Box(-(10.0 ** rng.uniform(-1, 1)), 10.0 ** rng.uniform(-1, 1), shape=shape)
    return TruncatedLinear(w, t, lower, upper, box, output=0 if outputs is None else 1, outputs=outputs)


def arguments(target: TruncatedLinear) -> tuple[tuple[Any, Any, float, float], dict[str, Any]]:
    """What the constructions by name take."""
    w = target.w if len(target.w) > 1 else target.w[0]
    t = target.t if len(target.t) > 1 else float(target.t[0])
    more = {"domain": target.domain, "output": target.output, "outputs": target.outputs}
    return (w, t, target.lower, target.upper), more


def sharpness_of(rng: Rng, step: float) -> Any:
    """Tuned, hard, or a number c / h^2."""
    return pick(rng, "tuned", "hard", float(10.0 ** rng.uniform(-0.5, 1.5) / step**2))


def written(target: TruncatedLinear, rng: Rng) -> str:
    """A clamp as a formula."""
    form = " + ".join(
        [*(f"{number(w, rng)}*{n}" for w, n in zip(target.w[0], NAMES, strict=False)), number(target.t[0], rng)]
    )
    a, b = number(target.lower, rng), number(target.upper, rng)
    return str(
        pick(rng, "clamp({s}, {a}, {b})", "min(max({s}, {a}), {b})", "relu({s})", "max({s}, {a})", "abs({s})")
    ).format(s=form, a=a, b=b)


def truncated(name: str, rng: Rng, dtype: str) -> Trial:
    """truncated_linear, multihead_truncated_linear and gate: by name, or compiled from a formula."""
    if rng.random() < 0.25:
        target = clamp(rng, 1)
        text, box = written(target, rng), Box(target.domain.lower.ravel(), target.domain.upper.ravel())
        tol = max(tolerance(rng, dtype), 1e-2 if name != "gate" else 0.0)
        build = partial(af.compile, text, with_names(box), tol, construction=name, dtype=dtype)
        return Trial(name, dtype, f"{text}, tol={tol:g}", build, Formula(text, box, NAMES[: len(box.lower)]), 16)
    layout = pick(rng, "memory", "memory", "literal")
    tokens = (
        int(rng.integers(5, 11)) if name.startswith("multi") and layout == "literal" else int(pick(rng, 1, 1, 2, 3))
    )
    target = clamp(rng, tokens)
    given, more = arguments(target)
    width, more = target.upper - target.lower, more | {"layout": layout, "dtype": dtype}
    if name == "gate":
        beta = pick(rng, None, float(10.0 ** rng.uniform(-1, 8)))
        build = partial(af.constructions.gate, *given, sharpness=beta, **more)
    elif name == "truncated_linear":
        count = int(2 + rng.integers(60 if layout == "memory" else 8) ** rng.uniform(0.3, 1.0))
        more |= {"anchors": count, "grid": pick(rng, "closed", "open")}
        build = partial(af.constructions.truncated_linear, *given, sharpness=sharpness_of(rng, width / count), **more)
    else:
        sentinels, heads = int(pick(rng, 1, 2, 2, 3)), int(rng.integers(1, 7))
        keys = tokens if layout == "literal" else int(2 * sentinels + rng.integers(1, 10))
        step = width / max(1, heads * (keys - 2 * sentinels) - 1)
        more |= {"tokens": keys, "heads": heads, "sentinels": sentinels}
        build = partial(af.constructions.multihead_truncated_linear, *given, sharpness=sharpness_of(rng, step), **more)
    return Trial(name, dtype, f"{target.describe()}, {_said(build)}", build, target, 16)


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
        box = Box(np.stack([box.lower] * 2), np.stack([box.upper] * 2))
    by = pick(rng, {"by": "gate"}, {"by": "gate"}, {"by": "anchors", "anchors": int(rng.integers(2, 40))})
    if rng.random() < 0.1:
        by = {"by": "anchors", "tol": float(10.0 ** rng.uniform(-1.5, 0))}
    build = partial(af.constructions.relu_network, module, box, dtype=dtype, **by)
    kinds = ", ".join(type(part).__name__ for part in module if not isinstance(part, nn.Linear))
    text = f"{'-'.join(map(str, widths))}, {kinds}, box {box.lower.tolist()} to {box.upper.tolist()}, {by}"
    return Trial(name, dtype, text, build, ReluNetwork.from_torch(module, box), 8)


def cells(name: str, rng: Rng, dtype: str) -> Trial:
    """max_affine, two_layer and softmax_tail: a formula with its proved Lipschitz constant, or sorting tokens."""
    d = inputs(rng)
    box, names = interval_box(d, rng), NAMES[:d]
    layout = "literal" if d == 1 and name != "softmax_tail" and rng.random() < 0.3 else "memory"
    most = 6 if layout == "literal" else (0, 40, 9, 4)[d] if name == "max_affine" else (0, 16, 5, 2)[d]
    count = int(rng.integers(1 if name == "max_affine" else 2, most + 1))
    sharpness = pick(rng, "tuned", "hard", None)
    more: dict[str, Any] = {"dtype": dtype}
    if name == "max_affine":
        more |= {"layout": layout, "cells": count}
        step = float((box.upper - box.lower).min()) / count
    else:
        more |= {"grid": count, "placement": pick(rng, "midpoints", "closed")}
        step = 0.3
        if name == "two_layer":
            more |= {"collapse": pick(rng, "affine", "uniform"), "layout": layout}
    more["sharpness"] = float(10.0 ** rng.uniform(-0.5, 1.5) / step**2) if sharpness is None else sharpness
    if rng.random() < 0.1:
        tokens = 2 if rng.random() < 0.9 else 3
        more |= {"cells" if name == "max_affine" else "grid": min(count, (0, 0, 5, 2)[tokens]), "lipschitz": 1.0}
        order = SortedTokens(Box(-0.5, 1.5, shape=(tokens, 1)))
        build = partial(getattr(af.constructions, name), order.values, order.domain, **more)
        return Trial(name, dtype, f"sorting {tokens} tokens, {_said(build)}", build, order, count)
    text = formula(names, box, rng, kinks=0.3)
    target = Formula(text, box, names)
    if name == "max_affine" and rng.random() < 0.35:
        places = rng.uniform(box.lower, box.upper, size=(int(rng.integers(1, 30)), d))
        more = {"cells": pick(rng, Adaptive(int(rng.integers(1, 30))), places), "dtype": dtype}
    if name == "max_affine" and rng.random() < 0.4:
        build = partial(af.constructions.max_affine, target, box, **more)
    else:
        build = partial(_with_lipschitz, name, target, more)
    return Trial(name, dtype, f"{text} on {with_names(box)}, {_said(build)}", build, target, count)


def _with_lipschitz(name: str, target: Formula, more: dict[str, Any]) -> af.Compiled:
    """The formula as a callable with the Lipschitz constant that its derivatives prove."""
    more = more | {"lipschitz": steepest(target)}
    net: af.Compiled = getattr(af.constructions, name)(target.values, target.domain, **more)
    return net


def steepest(target: Formula, cells_in_all: int = 128) -> float | None:
    """A Lipschitz constant in the sup norm: the largest sum of |slopes| over cells of the box; None if unbounded."""
    slopes = [derivative(target.tree, name) for name in target.names]
    per_axis = max(1, int(cells_in_all ** (1 / len(slopes))))
    edges = [np.linspace(a, b, per_axis + 1) for a, b in zip(target.domain.lower, target.domain.upper, strict=True)]
    worst = arb(0)
    with precision():
        for cell in itertools.product(*(list(itertools.pairwise(edge)) for edge in edges)):
            box = {name: Interval(arb(a), arb(b)) for name, (a, b) in zip(target.names, cell, strict=True)}
            found = [bounds(slope, box) for slope in slopes]
            worst = worst.max(sum((abs(each.lower).max(abs(each.upper)) for each in found), arb(0)))
        return upper(worst) if worst.is_finite() else None


def pairs(name: str, rng: Rng, dtype: str) -> Trial:
    """cross_attention: a formula of x, which the keys come from, and y, which the query is."""
    box = interval_box(2, rng)
    text, count = formula(NAMES[:2], box, rng, kinks=0.3), int(rng.integers(1, 9))
    target = Formula(text, box, NAMES[:2])
    step = float((box.upper - box.lower).min()) / count
    sharpness = pick(rng, "tuned", "hard", float(10.0 ** rng.uniform(-0.5, 1.5) / step**2))
    build = partial(_cross, target, count, sharpness, dtype)
    return Trial(name, dtype, f"{text} on {with_names(box)}, grid={count}, sharpness={sharpness}", build, target, count)


def _cross(target: Formula, count: int, sharpness: Any, dtype: str) -> af.Compiled:
    keys, query = (Box(target.domain.lower[[i]], target.domain.upper[[i]]) for i in (0, 1))
    return af.constructions.cross_attention(
        lambda x, y: target.values(np.concatenate([x, y], axis=-1)),
        keys,
        query,
        grid=count,
        sharpness=sharpness,
        lipschitz=steepest(target),
        dtype=dtype,
    )


def fitted(name: str, rng: Rng, dtype: str) -> Trial:
    """tensor_grid, ridge, additive, polynomial by name, and whatever ``compile`` chooses."""
    d = int(rng.choice([2, 3], p=[0.9, 0.1])) if name in ("ridge", "additive") else min(2, inputs(rng))
    box, names, tol = interval_box(d, rng), NAMES[:d], tolerance(rng, dtype)
    kinks = 0.25 if d == 1 else 0.05 if name in ("ridge", "additive") else 0.0  # in several inputs they take long
    kinks = kinks if tol > 1e-7 else 0.0
    if name == "ridge":
        text = along_a_form(names, box, rng, kinks)
    elif name == "additive":
        text = sum_of_few(names, box, rng, kinks)
    elif name == "polynomial":
        text = powers(names, int(rng.integers(1, 8 // d)), rng)
    else:
        text = formula(names, box, rng, kinks)
    if d > 1 and name in ("tensor_grid", "auto"):
        tol = max(tol, 1e-4)
    domain = with_names(box)
    build: Callable[[], af.Compiled]
    if name == "auto":
        build = partial(af.compile, text, domain, tol, dtype=dtype, max_anchors=2_000)
    elif name == "tensor_grid" and rng.random() < 0.4:
        count = int(rng.integers(2, 30 if d == 1 else 6))
        build = partial(af.constructions.tensor_grid, text, domain, anchors=count, dtype=dtype)
    else:
        build = partial(getattr(af.constructions, name), text, domain, tol=tol, dtype=dtype)
    said = _said(build) if name != "auto" else f"tol={tol:g}"
    return Trial(name, dtype, f"{text} on {domain}, {said}", build, Formula(text, box, names), 16)


def _said(build: Any) -> str:
    """The arguments a construction was given, as text."""
    words = build.args[2] if build.func is _with_lipschitz else build.keywords
    hidden = ("domain", "dtype", "outputs", "output")
    return ", ".join(f"{key}={_short(value)}" for key, value in words.items() if key not in hidden)


def _short(value: Any) -> str:
    return f"{len(value)} centres" if isinstance(value, np.ndarray) else str(value)


class SortedTokens(Target):
    """The tokens of one feature in increasing order, as a reference: exact in any precision."""

    layout = "tokens"
    outputs = 1

    def __init__(self, domain: Box) -> None:
        self.domain = domain

    def values(self, points: AnyArray) -> AnyArray:
        """In increasing order."""
        return np.sort(points, axis=-2)

    def truncated_form(self) -> Any:
        """Refused."""
        raise af.TargetError("Sorting is not a truncated linear function")

    def on(self, domain: Box) -> SortedTokens:
        """On another box."""
        return SortedTokens(domain)

    def describe(self) -> str:
        """In words."""
        return "sorting"

    def to_data(self) -> tuple[dict[str, Any], dict[str, AnyArray]]:
        """Not stored."""
        return {}, {}


@dataclass(frozen=True)
class Maker:
    """Draws networks of a construction: how often, and its share of the points, fewer where they are expensive."""

    draw: Callable[[str, Rng, str], Trial]
    often: float
    share: float


MAKERS = {
    "truncated_linear": Maker(truncated, 1.3, 1.3),
    "multihead_truncated_linear": Maker(truncated, 1.3, 1.3),
    "gate": Maker(truncated, 1.3, 1.3),
    "relu_network": Maker(relu, 1.2, 0.6),
    "two_layer": Maker(cells, 1.0, 0.4),
    "softmax_tail": Maker(cells, 1.0, 0.4),
    "max_affine": Maker(cells, 2.0, 0.9),
    "cross_attention": Maker(pairs, 0.6, 0.4),
    "tensor_grid": Maker(fitted, 2.0, 1.1),
    "ridge": Maker(fitted, 0.7, 1.3),
    "additive": Maker(fitted, 0.5, 1.3),
    "polynomial": Maker(fitted, 1.2, 1.3),
    "auto": Maker(fitted, 1.2, 1.3),
}
DTYPES = {"float64": 0.5, "float32": 0.3, "bfloat16": 0.1, "float16": 0.1}


def draw(seed: int) -> tuple[Trial, Rng]:
    """What a seed says, and the generator that places its points."""
    rng = np.random.default_rng([seed, 5])
    often = np.array([maker.often for maker in MAKERS.values()])
    name = str(rng.choice(list(MAKERS), p=often / often.sum()))
    dtype = str(rng.choice(list(DTYPES), p=list(DTYPES.values())))
    return MAKERS[name].draw(name, rng, dtype), rng


# Points


def sample(net: af.Compiled, trial: Trial, count: int, rng: Rng) -> Array:
    """Points of the domain: random, on and beside borders and anchors, at corners."""
    box, tokens = _one_point(net)
    near = count // 4
    parts = [_lattice(box, trial.grid, near, rng)]
    if len(box.shape) == 1:
        beside = near_anchors(net.network, box, near, rng)
        nudges = (
            (box.upper - box.lower)
            * rng.choice([-1, 0, 1], size=beside.shape)
            * 10.0 ** -rng.uniform(2, 17, size=beside.shape)
        )
        parts.append(np.clip(beside + nudges, box.lower, box.upper))
    if isinstance(trial.reference, TruncatedLinear):
        claimed = [head.claims.positions.ravel() for head in net.network.heads if head.claims is not None]
        places = risky_places(np.concatenate(claimed), (trial.reference.lower, trial.reference.upper))
        line = line_points(trial.reference, box, tokens if len(box.shape) == 2 else None, near, places)
        parts.append(line[:near])
    parts.append(rng.uniform(box.lower, box.upper, size=(count - sum(map(len, parts)), *box.shape)))
    return np.concatenate(parts)


def _one_point(net: af.Compiled) -> tuple[Box, int]:
    """The box of one input of the network, tokens included where it takes any."""
    tokens = net.network.tokens or max(1, math.prod(net.domain.shape[:-1]))
    if net.target.layout == "function":
        return net.domain, 1
    return net.domain.fixed((tokens, net.network.features)), tokens


def _lattice(box: Box, grid: int, count: int, rng: Rng) -> Array:
    """Points whose coordinates lie on, or 1e-17 to 1e-2 of the side beside, multiples of half a cell; or anywhere."""
    shape, sides = (count, *box.shape), box.upper - box.lower
    cells_of = rng.choice([grid, max(1, grid - 1), 2 * grid + 1, 1], size=shape)
    places = rng.integers(0, 2 * cells_of + 1) / (2 * cells_of)
    places = places + rng.choice([-1.0, 0.0, 1.0], size=shape) * 10.0 ** -rng.uniform(2, 17, size=shape)
    places = np.where(rng.random(size=shape) < 0.25, rng.random(size=shape), places)
    return np.clip(box.lower + sides * places, box.lower, box.upper)


# Measuring


@dataclass(frozen=True)
class Seen:
    """The largest error proved by balls, how many points were above the bound, and what the target was allowed."""

    measured: float
    violations: int
    points: int
    allowance: float
    at: tuple[float, ...]


def measure(net: af.Compiled, trial: Trial, bound: float, count: int, rng: Rng) -> Seen:
    """Run ``count`` points and compare, as the heading of this file says."""
    tokens = _one_point(net)[1] if isinstance(trial.reference, TruncatedLinear) else 1
    batch = max(1, math.ceil(count / tokens))  # each token is a point of its own where tokens do not meet
    points = sample(net, trial, batch, rng)
    joint = isinstance(net.target, JointFunction)
    if joint:
        points = points[np.argsort(rng.integers(0, 64, size=len(points)))]
        points[: len(points) // 2, 0] = np.repeat(points[:64, 0], math.ceil(len(points) / 128))[: len(points) // 2]
    order, module = rng.permutation(len(points))[:PROBED], net.module()
    allowance = _allowance(trial.reference, points[order])
    kept, outputs = [], []
    for part in _chunks(points, joint):
        out = _run(module, net, part)
        errors = _errors(out, trial.reference.values(part))
        worst = np.argpartition(errors, -min(KEPT, len(errors)))[-KEPT:]
        chosen = np.union1d(worst, np.flatnonzero(~(errors + allowance < bound)))
        kept.append(part[chosen])
        outputs.append(out[chosen])
    return _judged(trial.reference, np.concatenate(kept), np.concatenate(outputs), bound, batch * tokens, allowance)


def _chunks(points: Array, joint: bool) -> Iterator[Array]:
    """Pieces to run at once; of two inputs, first those that share their X, each such piece alone."""
    if joint:
        half = len(points) // 2
        starts = [0, *(np.flatnonzero(np.diff(points[:half, 0])) + 1).tolist(), half]
        yield from (points[a:b] for a, b in itertools.pairwise(starts) if b > a)
        points = points[half:]
    size = CHUNK if points.ndim < 3 else max(1, CHUNK // points.shape[1])
    yield from (points[i : i + size] for i in range(0, len(points), size))


def _run(module: Any, net: af.Compiled, points: Array) -> Array:
    """The module's values in its dtype, as float64."""
    with torch.no_grad():
        if not isinstance(net.target, JointFunction):
            return np.asarray(module(torch.from_numpy(points)).to(torch.float64).numpy())
        keys, query = (torch.from_numpy(np.ascontiguousarray(part)) for part in net.target.split(points))
        if (points[:, 0] == points[0, 0]).all():
            keys = keys[:1]
        return np.asarray(module(keys, query).to(torch.float64).numpy())


def _errors(out: AnyArray, wanted: AnyArray) -> AnyArray:
    """The largest difference over the outputs of every point; infinite where it is not a number."""
    missed = np.abs(out - wanted).reshape(len(out), -1).max(axis=1)
    return np.where(np.isnan(missed), np.inf, missed)


def _allowance(reference: Target, points: Array) -> float:
    """What float64 may do to the target: 16 times the most seen at these points, plus 4 units in the last place."""
    single, extended = reference.values(points), reference.values(points.astype(np.longdouble))
    return float(16 * np.abs(single - extended).max() + 4 * 2.0**-53 * np.abs(extended).max())


def _judged(reference: Target, points: Array, outputs: Array, bound: float, count: int, allowance: float) -> Seen:
    """Extended precision at the points kept, balls at the worst of them."""
    errors = _errors(outputs, reference.values(points.astype(np.longdouble)))
    order = np.argsort(-errors)
    near = int((errors + 2.0**-10 * allowance >= bound).sum())
    chosen = order[: max(BALLS, min(near, MOST_BALLS))]
    found = [_error_between(reference, points[i], outputs[i]) for i in chosen]
    proved = [low for low, _ in found]
    top = int(np.argmax(proved))
    at = tuple(float(value) for value in points[chosen[top]].ravel())
    return Seen(proved[top], sum(low > bound for low in proved), count, allowance, at)


def _error_between(reference: Target, point: Array, output: Array) -> tuple[float, float]:
    """The error at a point, from below and from above, by balls."""
    if not np.isfinite(output).all():
        return math.inf, math.inf
    with precision(BITS):
        wanted = exact(reference, point)
        found = [abs(arb(float(a)) - b) for a, b in zip(np.atleast_1d(output).ravel().tolist(), wanted, strict=True)]
        lows = [max(0.0, float(np.nextafter(float(each.lower()), 0.0))) for each in found]
        return max(lows), max(float(each.upper()) for each in found)


def exact(reference: Target, point: Array) -> list[arb]:
    """The target's values at a point as balls, in the order in which arrays hold them."""
    if isinstance(reference, Formula):
        return [enclose(reference.tree, {n: arb(float(x)) for n, x in zip(reference.names, point, strict=True)})]
    if isinstance(reference, SortedTokens):
        return [arb(float(value)) for value in reference.values(point).ravel()]
    if isinstance(reference, ReluNetwork):
        return [value for row in np.atleast_2d(point) for value in _stages(reference, row)]
    if isinstance(reference, TruncatedLinear):
        rows = point if point.ndim == 2 else point[None]
        return [value for i, row in enumerate(rows) for value in _clamped(reference, i, row)]
    raise TypeError(type(reference).__name__)


def _clamped(target: TruncatedLinear, token: int, row: Array) -> list[arb]:
    w, t = (values[token if len(values) > 1 else 0] for values in (target.w, target.t))
    form = sum((arb(float(a)) * arb(float(b)) for a, b in zip(w, row, strict=True)), arb(float(t)))
    value = _clip(form, target.lower, target.upper)
    return (
        [value] if target.outputs is None else [value if i == target.output else arb(0) for i in range(target.outputs)]
    )


def _stages(target: ReluNetwork, row: Array) -> list[arb]:
    state = [arb(float(value)) for value in row]
    for stage in target.stages:
        if isinstance(stage, Affine):
            columns = [[arb(float(w)) for w in column] for column in stage.weight.T]
            sums = [sum((a * b for a, b in zip(state, column, strict=True)), arb(0)) for column in columns]
            state = [total + arb(float(b)) for total, b in zip(sums, stage.bias, strict=True)]
        else:
            slope = arb(stage.slope)
            state = [slope * y + (1 - slope) * _clip(y, stage.lower, stage.upper) for y in state]
    return state


def _clip(value: arb, lower: float | None, upper: float | None) -> arb:
    value = value if lower is None else value.max(arb(lower))
    return value if upper is None else value.min(arb(upper))


# Running


class TooSlowError(Exception):
    """Building and proving took longer than ``SECONDS``."""


def _stop(_signal: int, _frame: Any) -> None:
    raise TooSlowError


def line(seed: int, count: int, lowered: float = 1.0) -> Line:
    """One network: what was drawn, proved and seen; or why there is none. Compared with a ``lowered`` part of it."""
    started = time.process_time()
    drawn: Line = {"seed": seed}
    try:
        trial, rng = draw(seed)
        drawn |= {"construction": trial.construction, "dtype": trial.dtype, "target": trial.text}
        net = _built(trial)
        built = time.process_time() - started
        drawn |= {"chosen": net.construction, "certificate": net.certificate.status, "anchors": net.anchors}
        if net.certificate.bound is None:
            return drawn | {"status": "unproved"}
        share = int(count * MAKERS[trial.construction].share)
        bound = lowered * net.certificate.bound
        seen = measure(net, trial, bound, share, rng)
        ratio = bound / seen.measured if seen.measured else None
        drawn |= {"bound": bound, "measured": seen.measured, "ratio": ratio, "points": seen.points}
        drawn |= {"violations": seen.violations, "allowance": seen.allowance}
        if seen.violations:
            drawn["at"] = seen.at
        spent = time.process_time() - started
        return drawn | {"status": "ok", "building": round(built, 4), "seconds": round(spent, 4)}
    except TooSlowError:
        return drawn | {"status": "slow"}
    except (CertificateError, DomainError) as error:
        kind = "violation" if "No measured error may exceed" in str(error) else "error"
        return drawn | {"status": kind, "text": f"{type(error).__name__}: {error}"}
    except AttnforgeError as error:
        if "must be Lipschitz with constant" in str(error):  # the constants drawn are true: the bound is not
            return drawn | {"status": "violation", "text": f"{type(error).__name__}: {error}"}
        return drawn | {"status": "refused", "text": f"{type(error).__name__}: {error}"[:300]}
    except Exception:
        return drawn | {"status": "error", "text": traceback.format_exc()[-1500:]}


def _built(trial: Trial) -> af.Compiled:
    before = signal.signal(signal.SIGPROF, _stop)
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        return trial.build()
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def run(path: Path, networks: int, points: int, first: int, workers: int, lowered: float) -> None:
    """Append lines until there are as many networks with a bound, and as many points, as asked for."""
    _mend(path)
    lines = read(path)
    done, seen = sum(map(_counts, lines)), sum(each.get("points", 0) for each in lines)
    seeds = itertools.count(max((each["seed"] for each in lines), default=first - 1) + 1)
    count, started, before = math.ceil(points / networks), time.perf_counter(), seen
    with path.open("a") as file, multiprocessing.get_context("spawn").Pool(workers, _one_thread) as pool:
        while done < networks or seen < points:
            batch = list(itertools.islice(seeds, max(1, min(BATCH * workers, networks - done))))
            for found in pool.imap(partial(line, count=count, lowered=lowered), batch):
                _append(file, found)
                done, seen = done + _counts(found), seen + found.get("points", 0)
            spent = time.perf_counter() - started
            left = spent / max(1, seen - before) * max(0, points - seen)
            print(f"{done:,} networks, {seen:,} points, {spent:.0f} s, about {left:.0f} s left", flush=True)


def _counts(found: Line) -> bool:
    """Whether a line is a network with a bound."""
    return found["status"] in ("ok", "violation")


def _one_thread() -> None:
    torch.set_num_threads(1)


def _append(file: TextIO, found: Line) -> None:
    file.write(json.dumps(found) + "\n")
    file.flush()
    if found["status"] in ("error", "violation") or found.get("violations"):
        print(json.dumps(found), flush=True)


def read(path: Path) -> list[Line]:
    """The lines so far; one that is being written, or was cut off by a stop, is left out."""
    if not path.exists():
        return []
    return [json.loads(each) for each in path.read_text().splitlines(keepends=True) if each.endswith("\n")]


def _mend(path: Path) -> None:
    """Remove a last line that was cut off by a stop."""
    if path.exists():
        text = path.read_text()
        path.write_text(text[: text.rfind("\n") + 1])


# Summary


def summary(lines: Sequence[Line], command: str) -> tuple[list[str], list[list[Any]]]:
    """The page and the rows of the table."""
    good = [each for each in lines if each["status"] == "ok"]
    status = Counter(each["status"] for each in lines)
    broken = sum(each["violations"] > 0 for each in good) + status["violation"]
    points, seconds = sum(each["points"] for each in good), sum(each["seconds"] for each in good)
    rows = list(_rows(lines))
    page = [
        "# Random networks against their certificates",
        "",
        f"Made by `{command}` in {seconds / 3600:.2f} hours of one core. {machine()}",
        "",
        f"**{len(good):,} networks, {points:,} points: {broken} networks with an error above the bound.**",
        "",
        f"Beside them {status['refused']:,} draws were refused before anything was built, {status['unproved']:,} came "
        f"with a measurement and no bound, {status['slow']:,} took longer than {SECONDS} s to prove and were left out, "
        f"{status['error']:,} failed.",
        "",
        "What is drawn, how points are placed and when an error counts as above the bound: the heading of "
        "`benchmarks/soundness.py`. Each network has a seed, and `--only SEED` repeats it.",
        "",
        "| construction | dtype | networks | points | violations | bound / measured: 5 % | median | 95 % |",
        "|---|---|---|---|---|---|---|---|",
        *("| " + " | ".join(map(str, row)) + " |" for row in rows),
        "",
        "Targets compiled by `auto` are listed under the construction that was chosen.",
        *_failures(lines),
    ]
    return page, rows


def _rows(lines: Iterable[Line]) -> Iterator[list[Any]]:
    groups: dict[tuple[str, str], list[Line]] = {}
    for each in lines:
        if each["status"] == "ok":
            groups.setdefault((each["chosen"], each["dtype"]), []).append(each)
    names = list(dict.fromkeys([*MAKERS, *(name for name, _ in groups)]))  # `auto` may choose others
    for name, dtype in sorted(groups, key=lambda key: (names.index(key[0]), list(DTYPES).index(key[1]))):
        group = groups[name, dtype]
        ratios = [each["ratio"] for each in group if each["ratio"]]
        quantiles = np.quantile(ratios, [0.05, 0.5, 0.95]) if ratios else [math.nan] * 3
        points, broken = sum(each["points"] for each in group), sum(each["violations"] > 0 for each in group)
        yield [name, dtype, len(group), f"{points:,}", broken, *(f"{value:.3g}" for value in quantiles)]


def _failures(lines: Iterable[Line]) -> Iterator[str]:
    for each in lines:
        if each["status"] in ("error", "violation") or each.get("violations"):
            got = each.get("text") or f"error {each['measured']:g} above bound {each['bound']:g}"
            said = got.strip().splitlines()[-1]
            yield f"- seed {each['seed']}, {each.get('construction')}, {each.get('dtype')}: {said}"


def machine() -> str:
    """Versions and processor."""
    model = next((each for each in Path("/proc/cpuinfo").read_text().splitlines() if "model name" in each), "")
    versions = ", ".join(f"{name} {version(name)}" for name in ("attnforge", "numpy", "torch", "python-flint"))
    return f"Python {platform.python_version()}, {versions}; {model.split(':')[-1].strip() or 'CPU'}, one thread."


def write(results: Path, page: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """The page and the table."""
    results.mkdir(parents=True, exist_ok=True)
    (results / SUMMARY).write_text("\n".join(page) + "\n")
    with (results / TABLE).open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(
            ["construction", "dtype", "networks", "points", "violations", "ratio_5", "ratio_50", "ratio_95"]
        )
        writer.writerows([str(entry).replace(",", "") for entry in row] for row in rows)


def main() -> None:
    """Run what is missing, then write the summary."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--networks", type=int, default=10_000)
    parser.add_argument("--points", type=int, default=10**9, help="in all networks together")
    parser.add_argument("--seed", type=int, default=0, help="of the first network; the others follow")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("soundness"), help="folder of the lines")
    parser.add_argument("--results", type=Path, default=ROOT / "results", help="folder of the summary")
    parser.add_argument("--summary", action="store_true", help="write the summary of the lines there are")
    parser.add_argument("--only", type=int, metavar="SEED", help="this network alone; prints its line")
    parser.add_argument("--lowered", type=float, default=1.0, help="part of every bound to compare with: 0.9 must fail")
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.only is not None:
        print(json.dumps(line(options.only, math.ceil(options.points / options.networks), options.lowered), indent=1))
        return
    options.out.mkdir(parents=True, exist_ok=True)
    path = options.out / LINES
    print(f"attnforge from {Path(af.__file__).parent}", file=sys.stderr)
    if not options.summary:
        run(path, options.networks, options.points, options.seed, options.workers, options.lowered)
    command = f"{COMMAND} --networks {options.networks} --points {options.points} --seed {options.seed}"
    page, rows = summary(read(path), command)
    print("\n".join(page))
    write(options.results, page, rows)


if __name__ == "__main__":
    main()
