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
from attnforge.compiler import Compiled
from attnforge.targets.joint import JointFunction
from tests.catalogue import CALM, IN_EVERY_DTYPE, LOOSE, network
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
    net: Compiled | None = None
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


def _of_net(net: Compiled) -> Subject:
    """A compiled target at crafted and random points of its domain."""
    largest = max(head.memory_size for head in net.network.heads)
    return _at(net, crafted(_box(net), min(max(largest, 3), MIDDLES)))


def _box(net: Compiled) -> af.Box:
    """The domain of one point, of so many tokens as it has."""
    target, box = net.target, net.target.domain
    if target.layout != "tokens" or isinstance(target, JointFunction):
        return box
    rows = net.network.tokens or getattr(target, "rows", 1)
    return box.fixed((rows, net.network.features))


def _at(net: Compiled, points: Array, dtype: torch.dtype = torch.float64) -> Subject:
    given = net.target.split(points) if isinstance(net.target, JointFunction) else (points,)
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


def coarser(subject: Subject, dtype: torch.dtype) -> Subject | None:
    """At points of the domain that another dtype has; None where it has none there, or points are a prompt."""
    if subject.net is None or isinstance(subject.net.target, JointFunction):
        return None
    box = _box(subject.net)
    given = subject.inputs[0].to(dtype).double()
    if not dtype.is_floating_point:
        given = subject.inputs[0].round()
    lower, upper = (torch.as_tensor(np.broadcast_to(end, box.shape).copy()) for end in (box.lower, box.upper))
    within = ((given >= lower) & (given <= upper)).flatten(1).all(dim=1)
    return _at(subject.net, given[within].numpy(), dtype) if within.any() else None


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


def _classes(_: np.random.Generator, x: Array) -> Array:
    return (x[:, 0] > 0.1).astype(float)


def _kernel(kernel: str, examples: int) -> Callable[[str], Subject]:
    def build(dtype: str) -> Subject:
        net = in_context.KernelRegression(0.5, kernel, dtype).build(2)
        rng, data = np.random.default_rng(2), []
        for _ in range(5):
            data.append([rng.uniform(-1, 1, size=shape) for shape in ((examples, 2), (examples,), (7, 2))])
        wanted = [net.target.average(*(z.astype(np.longdouble) for z in each)).astype(float) for each in data]
        bounds = np.array([net.certify(*each).bound for each in data])
        prompts = [net.prompt(*each) for each in data]
        wanted = np.stack(wanted).reshape(5, 7, 1)
        return Subject(net.module, _tensors(*zip(*prompts, strict=True)), wanted, bounds.reshape(5, 1, 1))

    return build


def _prompt_formula(dtype: str) -> Subject:
    tol = 1e-3 if dtype in ("float64", "float32") else 0.5
    net = af.compile("tokens.mean(x*y)*q", dict.fromkeys("xyq", (0, 1)), tol, query=["q"], dtype=dtype, effort=CALM)
    rng = np.random.default_rng(3)
    x, q = rng.uniform(size=(40, 6, 2)), rng.uniform(size=(40, 1))
    x[:10], q[:10] = x[:10].round(), q[:10].round()
    wanted = (x[..., 0] * x[..., 1]).mean(axis=1) * q[:, 0]
    return Subject(net.module, _tensors(x, q), wanted, float(net.certificate.bound))


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


def _head_prompt(dtype: str) -> Subject:
    rng = np.random.default_rng(0)
    matrices = (rng.normal(size=(2, width)) for width in (2, 2, 1))
    net, prompt = in_context.attention_prompt(*matrices, tokens=5, dtype=dtype)
    x = rng.uniform(-1, 1, size=(30, 5, 2))
    x[:8] = np.sign(x[:8])
    tokens = torch.tensor(np.asarray(prompt.tokens), dtype=torch.float64)

    def make(**options: Any) -> nn.Module:
        return net.module(**{"dtype": dtype, **options})

    inputs = torch.from_numpy(x), tokens.repeat(len(x), 1, 1)
    return Subject(make, inputs, prompt.exact(x), float(prompt.certificate.bound), trains=False)


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
    "huber": _stepped(lambda dtype: in_context.Huber(5, 0.1, delta=0.3, dtype=dtype), _numbers),
    "logistic regression": _stepped(lambda dtype: in_context.Logistic(5, 0.5, dtype=dtype), _classes),
    "kernel ridge": _stepped(
        lambda dtype: in_context.KernelRidge(alpha=0.5, bandwidth=0.7, steps=6, dtype=dtype), _numbers
    ),
    "gaussian average": _kernel("gaussian", 30),
    "softmax average": _kernel("softmax", 100),
    "mean of a prompt": _prompt_formula,
    "function in a prompt": _function_prompt("sin(3*x)", (-1.0, 1.0), 1e-3),
    "fine function in a prompt": _function_prompt("exp(2*x)", (-3.0, -1.0), 1e-6),
    "head in a prompt": _head_prompt,
    "histogram": _program("histogram", lambda given: [given.count(token) for token in given]),
    "reverse": _program("reverse", lambda given: given[::-1]),
    "sort": _program("sort", sorted),
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
