"""One network, run by everything that runs networks, beside what its definition says: how far apart they are.

Differences in float64 are held to 1e-12, relative to values above 1; in float32 to what the certificate of that dtype
charges for rounding. Where there is no such charge, or it is exceeded, since a proof may count roundings of scores to
the choice of a cell, the checker is asked for its bound of the run at that very input.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from flint import arb

import attnforge as af
from attnforge.balls import machine
from attnforge.certification.certify import certify
from attnforge.certification.checker.search import exactly
from attnforge.certification.window import window_rounding
from attnforge.effort import as_effort
from attnforge.errors import AttnforgeError
from attnforge.export.interface import Exported, exported
from attnforge.network import apply, apply_layer, layers_in, rounded
from attnforge.programs.library import LIBRARY
from attnforge.programs.running import encoded
from attnforge.runtime import AttentionNetwork
from attnforge.runtime.module import KERNELS
from attnforge.targets import JointFunction
from tests.export.running import RUN, ran
from tests.readers.built import BUILT, built, points_of
from tests.readers.comparison import enclose
from tests.readers.exact import exact_output
from tests.readers.networks import Case as Cell

Array = npt.NDArray[np.float64]

SAME = 1e-12  # in float64, relative to values above 1
POINTS, EXACT = 60, 3  # runs of every network; and those of NumPy that are compared with exact values


@dataclass(frozen=True, eq=False)
class Compared:
    """A model in a dtype, inputs for it, and what its certificate charges for rounding.

    ``read`` takes what the certificate is about out of the outputs. ``charged`` is asked with the name of a kernel, or
    None for those that may be chosen; it returns None where nothing is proved.
    """

    model: Any
    dtype: str
    given: tuple[Array, ...]
    charged: Callable[[str | None], float | None]
    read: Callable[[Any], Any] = lambda tokens: tokens

    @property
    def interface(self) -> Exported:
        """The network as it runs, and the shapes that the formats give it."""
        return exported(self.model, self.dtype)

    @property
    def tokens(self) -> list[Array]:
        """The inputs as the network takes them."""
        alone = (self.interface.alone, self.interface.told_alone)
        return [x[..., None, :] if is_alone else x for x, is_alone in zip(self.given, alone, strict=False)]

    def shaped(self, tokens: Any) -> Any:
        """The network's tokens as the formats return them."""
        tokens = tokens[..., 0, :] if self.interface.alone else tokens
        return tokens[..., 0] if self.interface.scalar else tokens


@dataclass(frozen=True)
class Outcome:
    """How far a reader is from the definition, how far it may be, or why it does not run.

    ``by_checker``: the certificate charges less, or nothing; the checker's enclosure of the run at this input says it.
    """

    difference: float = 0.0
    allowed: float = 0.0
    by_checker: bool = False
    refusal: str = ""

    @property
    def holds(self) -> bool:
        """Whether it is as close as it must be; NaN is not."""
        return bool(self.refusal) or self.difference <= self.allowed


Case = Callable[[str], Compared]


def compare(case: Compared, reader: str, folder: Path) -> Outcome:
    """Of one reader: ``numpy``, a kernel of the torch module, or a format, which is written into the folder."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # that a certificate does not cover a kernel: it is compared
            return _compared(case, reader, folder)
    except AttnforgeError as error:
        return Outcome(refusal=str(error))


def _compared(case: Compared, reader: str, folder: Path) -> Outcome:
    wanted = case.shaped(apply(case.interface.network, *case.tokens))
    if reader == "numpy":
        found, wanted = _numpy(case, wanted)
    elif reader in KERNELS:
        found = _kernel(case, reader)
    else:
        found = ran(reader, case.model, [x.astype(case.dtype) for x in case.given], folder / reader, case.dtype)
    assert found.shape == wanted.shape
    found, wanted = case.read(found), case.read(wanted)
    if case.dtype == "float64":
        scale = np.maximum(1.0, np.abs(wanted))
        return Outcome(float((np.abs(found - wanted) / scale).max()), SAME)
    apart = np.abs(found.astype(np.float64) - wanted)
    charged = case.charged(reader if reader in ("window", "sharded") else None)
    if charged is not None and (reader == "window" or apart.max() <= charged):
        return Outcome(float(apart.max()), charged)
    return _by_checker(case, apart.reshape(len(apart), -1).max(axis=1))


def _by_checker(case: Compared, apart: Array) -> Outcome:
    """The input at which a run is furthest off for what the checker, which knows no windows, encloses there."""
    tokens, told = case.tokens[0], (*case.tokens, None)[1]
    network, rows = case.interface.network, 0 if told is None else told.shape[-2]
    allowed = np.empty(len(apart))
    for i in range(len(apart)):
        point = np.concatenate([x[i].ravel() for x in case.tokens])
        with exactly(1):
            found = enclose(Cell(network, tokens.shape[-2], rows, point, point), case.dtype, 1)
        allowed[i] = max(value.off for value in found)
    worst = int(np.argmax(apart / allowed))
    return Outcome(float(apart[worst]), float(allowed[worst]), by_checker=True)


def _numpy(case: Compared, wanted: Array) -> tuple[Array, Array]:
    """In float64 against exact values by balls, at few points; in float32 against float64."""
    network = case.interface.network
    if case.dtype == "float64":
        few = [x[:EXACT] for x in case.tokens]
        exact = [
            exact_output(network, *(_balls(rows) for rows in (*point, None)[:2])) for point in zip(*few, strict=True)
        ]
        rows = np.array([[[float(ball.mid()) for ball in row] for row in each] for each in exact])
        return wanted[:EXACT], case.shaped(rows)
    if network.context is not None:
        raise af.RefusalError("NumPy runs float32 networks of one input", "two", "Use torch")
    (state,) = (x.astype(np.float32) for x in case.tokens)
    for layer in layers_in(network, np.float32):
        state = apply_layer(layer, state)
    return case.shaped(state), wanted


def _balls(rows: Array | None) -> list[list[arb]] | None:
    return None if rows is None else [[arb(x) for x in row] for row in rows.tolist()]


def _kernel(case: Compared, kernel: str) -> Array:
    dtype = getattr(torch, case.dtype)
    module = AttentionNetwork(case.interface.network, dtype, kernel=kernel, shards=3 if kernel == "sharded" else 1)
    with torch.no_grad():
        found = module(*(torch.from_numpy(x).to(dtype) for x in case.tokens))
    return np.asarray(case.shaped(found).numpy())


READERS = ("numpy", *KERNELS, *RUN)
"""All of them."""


# Networks


def _target(make: Callable[[], af.Compiled], dtype: str) -> Compared:
    """A compiled target, whose bound is proved anew in the dtype."""
    net = make()
    points = points_of(net, POINTS)[-1]
    split = net.target.split(points)[::-1] if isinstance(net.target, JointFunction) else (points,)  # queries come first
    return Compared(net, dtype, tuple(_in(x, dtype) for x in split), cache(partial(_rounding, net, dtype)))


def _rounding(net: af.Compiled, dtype: str, kernel: str | None) -> float | None:
    if kernel == "window":
        return window_rounding(rounded(net.network, dtype), net.domain, machine(dtype), forced=True)
    try:
        found = certify(net.network, net.target, dtype=dtype, effort=as_effort("low"), kernel=kernel)
    except AttnforgeError:  # anchors that the dtype does not separate
        return None
    return found.parts.get("rounding")


def _in(x: Any, dtype: str) -> Array:
    """Numbers that the dtype has."""
    return np.asarray(x).astype(dtype).astype(np.float64)


def _examples(dtype: str, labels: str = "real", count: int = 8, inputs: int = 2) -> tuple[Array, Array]:
    rng = np.random.default_rng(0)
    x = _in(rng.uniform(-1, 1, size=(count, inputs)), dtype)
    y = rng.integers(0, 2, size=count) if labels == "classes" else rng.uniform(0, 1, size=count)
    return x, _in(y, dtype)


def _regression(make: Callable[[str], Any], dtype: str, labels: str = "real") -> Compared:
    """A network that fits its prompt; the certificate of that prompt is about the weights in its tokens."""
    net = make(dtype)
    x, y = _examples(dtype, labels)
    data = net.values(x, y) if isinstance(net, af.in_context.BayesianNetwork) else (x, y)
    net = getattr(net, "regression", net)
    rounding = net.certify(*data).parts.get("rounding")
    return Compared(net, dtype, (_in(net.prompt(*data), dtype)[None],), lambda _: rounding, net._read)


def _kernel_regression(dtype: str) -> Compared:
    net = af.in_context.KernelRegression(dtype=dtype).build(features=2)
    x, y = _examples(dtype)
    asked = _in(np.random.default_rng(1).uniform(-1, 1, size=(5, 2)), dtype)
    rounding = net.certify(x, y, asked).parts["rounding"]
    return Compared(net, dtype, tuple(_in(z, dtype)[None] for z in net.prompt(x, y, asked)), lambda _: rounding)


def _function_prompt(dtype: str) -> Compared:
    net, prompt = af.in_context.function_prompt("sin(3*x)", {"x": (-1, 1)}, 1e-3, dtype=dtype)
    points = _in(np.linspace(-1, 1, POINTS)[:, None, None], dtype)
    told = np.broadcast_to(_in(prompt.tokens, dtype), (POINTS, *prompt.tokens.shape))
    rounding = prompt.certificate.parts.get("rounding")
    return Compared(net, dtype, (points, told), lambda _: rounding)


def _functional(text: str, names: str, query: list[str], dtype: str) -> Compared:
    """A function of a whole prompt, which is written at its first token."""
    net = af.compile(text, dict.fromkeys(names, (0, 1)), 1e-3, query=query, tokens=6, dtype=dtype)
    rng = np.random.default_rng(0)
    rows = _in(rng.uniform(size=(POINTS, 6, len(names) - len(query))), dtype)
    tokens = net.prompt(rows, _in(rng.uniform(size=(POINTS, len(query))), dtype) if query else None)
    rounding = net.certificate.parts["rounding"]
    return Compared(net, dtype, (tokens,), lambda _: rounding, lambda out: out[..., 0, :])


def _program(name: str, dtype: str) -> Compared:
    (entry,) = (each for each in LIBRARY if each.name == name)
    net = af.programs.compile(entry.make(entry.small), entry.small, max_length=6, dtype=dtype)
    rng = np.random.default_rng(0)
    given = [[entry.small[i] for i in rng.integers(len(entry.small), size=6)] for _ in range(20)]
    rounding = net.certificate.parts["rounding"]
    return Compared(net.network, dtype, (encoded(net.layout, given),), lambda _: rounding)  # of tokens, as all formats


ICL = af.in_context
MORE: dict[str, Callable[[], af.Compiled]] = {
    "max_affine, free cells": lambda: af.constructions.max_affine(
        "abs(x) + y^2", {"x": (-1, 1), "y": (-1, 1)}, cells=np.array([[-0.5, -0.5], [0.0, 0.25], [0.5, 0.75]])
    ),
    "cell averages": lambda: af.constructions.max_affine("sign(x)", af.Box(-1.0, 1.0), cells=4, norm=2),
    "tensor_grid, 400 keys": lambda: af.compile(
        "sin(3*x)*cos(2*y)", {"x": (-2, 2), "y": (-2, 2)}, 1e-9, construction="tensor_grid"
    ),
    "truncated_linear, 3,000 keys": lambda: af.constructions.truncated_linear(
        [1.0], 0.25, -1, 2, anchors=3000, domain=af.Box(-2, 3, shape=(1,))
    ),
}
ALGORITHMS: dict[str, tuple[Callable[[str], Any], str]] = {
    "least squares": (lambda t: ICL.LeastSquares(steps=5, learning_rate=0.1, dtype=t).build(2, certify=False), "real"),
    "least squares, interpolation": (
        lambda t: ICL.LeastSquares(steps=3, learning_rate=0.1, route="interpolation", dtype=t).build(2, data_bound=1.0),
        "real",
    ),
    "ridge": (lambda t: ICL.Ridge(steps=5, learning_rate=0.1, alpha=0.3, dtype=t).build(2, certify=False), "real"),
    "lasso": (lambda t: ICL.Lasso(steps=5, learning_rate=0.1, alpha=0.1, dtype=t).build(2, certify=False), "real"),
    "elastic net": (
        lambda t: ICL.ElasticNet(steps=5, learning_rate=0.1, alpha=0.1, dtype=t).build(2, certify=False),
        "real",
    ),
    "Huber": (lambda t: ICL.Huber(steps=5, learning_rate=0.1, dtype=t).build(2, certify=False), "real"),
    "logistic": (lambda t: ICL.Logistic(steps=5, learning_rate=0.1, dtype=t).build(2, certify=False), "classes"),
    "softmax": (
        lambda t: ICL.SoftmaxRegression(steps=5, learning_rate=0.1, classes=2, dtype=t).build(2, certify=False),
        "classes",
    ),
    "Poisson": (
        lambda t: ICL.Poisson(steps=5, learning_rate=0.05, dtype=t).build(2, data_bound=1.0, certify=False),
        "classes",
    ),
    "Bayesian": (lambda t: ICL.BayesianLinear(steps=5, dtype=t).build(2, examples=8, data_bound=1.0), "real"),
    "kernel ridge": (lambda t: ICL.KernelRidge(steps=5, alpha=0.5, dtype=t).build(features=2, examples=8), "real"),
}

CASES: dict[str, Case] = {
    **{name: partial(_target, partial(built, name)) for name in BUILT if "[" not in name},
    **{name: partial(_target, cache(make)) for name, make in MORE.items()},
    **{f"in context: {name}": partial(_regression, make, labels=y) for name, (make, y) in ALGORITHMS.items()},
    "in context: kernel regression": _kernel_regression,
    "in context: function prompt": _function_prompt,
    "prompt: mean": partial(_functional, "tokens.mean(x*y)*q", "xyq", ["q"]),
    "prompt: variance": partial(_functional, "tokens.mean(x^2) - tokens.mean(x)^2", "x", []),
    **{f"program: {entry.name}": partial(_program, entry.name) for entry in LIBRARY},
}
"""By name; a construction of the registry comes with the networks of :mod:`.built`."""
