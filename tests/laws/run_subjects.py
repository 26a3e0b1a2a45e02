"""Networks of every kind in every dtype, what each is to give at its inputs, and how far off it may be."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

import attnforge as af
from attnforge import in_context
from attnforge import programs as p
from tests.catalogue import CALM, IN_EVERY_DTYPE, LOOSE, network
from tests.laws.forms import form
from tests.readers.built import SLACK

Array = np.typing.NDArray[np.float64]
Inputs = tuple[Tensor, ...]

POINTS = int(os.environ.get("ATTNFORGE_EXAMPLES", "150"))
MIDDLES = 60  # along a diagonal, at most


@dataclass(frozen=True, eq=False)
class Subject:
    """What makes a module, inputs of it in float64, what it is to give, and how far off it may be."""

    make: Callable[..., nn.Module]
    inputs: Inputs
    wanted: Array
    bound: Array | float
    net: af.Compiled | None = None
    trains: bool = True

    def some(self, at: Tensor) -> Subject:
        """At these of the inputs alone."""
        bound = self.bound if isinstance(self.bound, float) else self.bound[at.numpy()]
        return replace(self, inputs=tuple(x[at] for x in self.inputs), wanted=self.wanted[at.numpy()], bound=bound)

    def excess(self, found: Tensor) -> float:
        """By how much what a run gave is further off than proved; NaN is infinite."""
        values = found.detach().to("cpu", torch.float64).numpy().reshape(self.wanted.shape)
        with np.errstate(all="ignore"):
            over = np.abs(values - self.wanted) - SLACK * np.abs(self.wanted) - self.bound
        return float(np.nan_to_num(over, nan=np.inf).max(initial=-np.inf))


ROW: dict[str, Any] = {"effort": CALM, "domain": af.Box(-2.0, 3.0)}


def _of_net(net: af.Compiled) -> Subject:
    """A compiled target at crafted and random points of its domain."""
    largest = max(head.memory_size for head in net.network.heads)
    return _at(net, crafted(_box(net), min(max(largest, 3), MIDDLES)))


def _box(net: af.Compiled) -> af.Box:
    """The domain of one point, of so many tokens as it has."""
    target, box = net.target, net.target.domain
    if target.layout != "tokens" or form(net) == "two inputs":
        return box
    rows = net.network.tokens or getattr(target, "rows", 1)
    return box.fixed((rows, net.network.features))


def _at(net: af.Compiled, points: Array, dtype: torch.dtype = torch.float64) -> Subject:
    given = net.target.split(points) if form(net) == "two inputs" else (points,)
    with np.errstate(all="ignore"):
        wanted = np.asarray(net.target.values(points), dtype=np.float64)
    inputs = tuple(torch.from_numpy(np.ascontiguousarray(each)).to(dtype) for each in given)
    return Subject(net.module, inputs, wanted, float(net.certificate.bound), net)


def crafted(box: af.Box, rows: int) -> Array:
    """Corners and what is next to them, ends and middles of even rows along the diagonals, random points."""
    rng = np.random.default_rng(0)
    along = np.linspace(0.0, 1.0, 2 * rows - 1)
    share = rng.uniform(size=(POINTS + len(along), *box.shape))
    share[: POINTS // 3] = rng.integers(0, 2, size=share[: POINTS // 3].shape)
    share[POINTS // 6 : POINTS // 3] = np.abs(share[POINTS // 6 : POINTS // 3] - 1e-3)
    turned = rng.integers(0, 2, size=(len(along), *box.shape))
    along = along.reshape(-1, *(1 for _ in box.shape))
    share[-len(along) :] = np.where(turned, 1.0 - along, along)
    share = rng.permutation(share)
    return np.clip(box.lower + share * (box.upper - box.lower), box.lower, box.upper)


def _sharded(dtype: str) -> Subject:
    net = af.constructions.truncated_linear([1.0], 0.25, -1, 2, anchors=200, dtype=dtype, **ROW)
    bound = af.certify(net, kernel="sharded").bound

    def make(dtype: Any = None, **options: Any) -> nn.Module:
        return net.module(dtype, **{**options, "kernel": "sharded", "shards": 3})

    return replace(_of_net(net), make=make, bound=float(bound), trains=False)


def _windowed(dtype: str) -> Subject:
    net = af.constructions.truncated_linear([1.0], 0.25, -1, 2, anchors=300, dtype=dtype, **ROW)
    bound = af.certify(net, kernel="window").bound

    def make(dtype: Any = None, **options: Any) -> nn.Module:
        return net.module(dtype, **{**options, "kernel": "window"})

    return replace(_of_net(net), make=make, bound=float(bound))


def _tensors(*arrays: Array) -> Inputs:
    return tuple(torch.from_numpy(np.stack(each)) for each in arrays)


def _stepped(algorithm: Callable[[str], Any], labels: Callable[[Any, Array], Array]) -> Callable[[str], Subject]:
    """Prompts of twenty examples, each with a certificate of its own, and the exact iteration on it."""

    def build(dtype: str) -> Subject:
        net, rng = algorithm(dtype).build(2, 20), np.random.default_rng(1)
        xs = [rng.uniform(-1, 1, size=(20, 2)) for _ in range(4)] + [np.sign(rng.normal(size=(20, 2)))]
        ys = [labels(rng, x) for x in xs]
        exact = net.target.coefficients if hasattr(net.target, "coefficients") else net.target.weights
        pairs = list(zip(xs, ys, strict=True))
        wanted = [exact(x.astype(np.longdouble), y.astype(np.longdouble)).astype(float) for x, y in pairs]
        bounds = np.array([net.certify(x, y).bound for x, y in pairs])
        shape = (-1, *(1 for _ in wanted[0].shape))
        return Subject(net.module, _tensors(xs, ys), np.stack(wanted), bounds.reshape(shape))

    return build


def _numbers(rng: np.random.Generator, x: Array) -> Array:
    return np.asarray(x[:, 0] - 0.5 * x[:, 1] + 0.1 * rng.uniform(-1, 1, len(x)))


def _function_prompt(text: str, ends: tuple[float, float], tol: float) -> Callable[[str], Subject]:
    def build(dtype: str) -> Subject:
        net, prompt = in_context.function_prompt(text, {"x": ends}, tol * LOOSE[dtype], dtype=dtype)
        x = crafted(af.Box(*ends, shape=(1,)), 20)
        tokens = torch.tensor(np.asarray(prompt.tokens), dtype=torch.float64)
        inputs = torch.from_numpy(x), tokens.repeat(len(x), 1, 1)

        def make(**options: Any) -> nn.Module:
            return net.module(**{"dtype": dtype, **options})

        return Subject(make, inputs, np.asarray(prompt.target.values(x)), float(prompt.certificate.bound), trains=False)

    return build


def _program(name: str, meaning: Callable[[list[Any]], list[Any]]) -> Callable[[str], Subject]:
    """A program on random sequences of one length, beside plain Python: features are those of labels, or a number."""

    def build(dtype: str) -> Subject:
        entry = p.library[name]
        net = p.compile(entry, max_length=8, dtype=dtype)
        rng = np.random.default_rng(4)
        sequences = [[net.vocabulary[i] for i in rng.integers(0, len(net.vocabulary), 7)] for _ in range(30)]
        labels = net.layout.result.labels
        wanted = [meaning(sequence) for sequence in sequences]
        if labels is None:
            exact = np.array(wanted, dtype=float)[..., None]
        else:
            exact = np.eye(len(labels))[[[labels.place(label) for label in row] for row in wanted]]
        inputs = torch.stack([net.encode(sequence) for sequence in sequences])
        return Subject(net.module, (inputs,), exact, float(net.certificate.bound), trains=False)

    return build


OTHERS: dict[str, Callable[[str], Subject]] = {
    "shards": _sharded,
    "windows": _windowed,
    "least squares": _stepped(lambda dtype: in_context.LeastSquares(5, 0.1, dtype=dtype), _numbers),
    "function in a prompt": _function_prompt("sin(3*x)", (-1.0, 1.0), 1e-3),
    "histogram": _program("histogram", lambda given: [given.count(token) for token in given]),
}
NETWORKS = (*IN_EVERY_DTYPE, *OTHERS)


@cache
def subject(name: str, dtype: str) -> Subject | None:
    """The network in that dtype, made once; None where it is refused, or nothing is proved of it."""
    if name in IN_EVERY_DTYPE:
        net = network(name, dtype)
        return None if net is None or net.certificate.bound is None else _of_net(net)
    try:
        return OTHERS[name](dtype)
    except af.AttnforgeError:
        return None
