"""What a network of the catalogue is asked, by its form, and what some forms cannot do yet."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

import attnforge as af

Array = npt.NDArray[np.float64]

TOKENS, EXAMPLES, LENGTH = 3, 8, 6  # of sequences of any length, of prompts, of programs

PROMPTS = "one model with check, encode and decode: networks of prompts are drawn, searched and enclosed as others are"
PROGRAMS = "programs as models: measured, searched and drawn as others are"

EMULATED = "a figure of tokens that attend to each other; or the heads in a prompt go"

GAPS: dict[tuple[str, str], str] = {
    ("head in a prompt", "plot"): EMULATED,
    **{("prompt", law): PROMPTS for law in ("measure", "attack", "diagnose", "plot")},
    **{
        ("program", law): PROGRAMS
        for law in ("measure", "attack", "diagnose", "plot", "range")
    },
}  # fmt: skip
"""Form and law: what will close the gap. A test sees that each is one."""


def form(net: Any) -> str:
    """A point, a row of tokens, two inputs, listed points, a prompt, or a sequence of labels."""
    if hasattr(net, "vocabulary"):
        return "program"
    if net.target.layout == "prompt":
        return "prompt"
    if hasattr(net.target, "tokens"):
        return "head in a prompt"
    if net.network.context is not None:
        return "two inputs"
    if hasattr(net.target, "points"):
        return "listed"
    return "tokens" if net.target.layout == "tokens" else "point"


def given(net: Any, count: int = 40, seed: int = 0) -> tuple[Any, ...]:
    """Inputs that the network takes: corners and random points of its domain, or random prompts and sequences."""
    rng = np.random.default_rng(seed)
    match form(net):
        case "program":
            words = list(net.vocabulary)
            return ([words[i] for i in rng.integers(len(words), size=min(LENGTH, net.max_length))],)
        case "prompt":
            return prompts(net, rng, count)
        case "listed":
            return (net.target.points,)
        case "two inputs":
            return tuple(net.target.split(spread(net.domain, rng, count)))
    return (spread(of_one_length(net), rng, count),)  # points, or rows of tokens


def of_one_length(net: Any) -> af.Box:
    """The domain of one input; of sequences of any length, of some tokens."""
    if net.target.layout != "tokens":
        return net.domain
    rows = net.network.tokens or (net.domain.shape[0] if len(net.domain.shape) == 2 else TOKENS)
    return net.domain.fixed((rows, net.network.features))


def spread(box: af.Box, rng: np.random.Generator, count: int) -> Array:
    """Points of a box, a quarter of them corners and a quarter on its edges."""
    share = rng.uniform(size=(count, *box.shape))
    share[: count // 4] = share[: count // 4].round()
    edges = share[count // 4 : count // 2]
    edges[rng.uniform(size=edges.shape) < 0.5] = rng.integers(0, 2)
    return np.clip(box.lower + share * (box.upper - box.lower), box.lower, box.upper)


def prompts(net: Any, rng: np.random.Generator, count: int) -> tuple[Any, ...]:
    """Prompts that the network takes: tokens, examples with their labels, queries of networks that answer some."""
    if hasattr(net.target, "query"):
        return next(inputs for inputs in _rows(net, rng) if _is_taken(net, inputs))
    x = rng.uniform(-1, 1, size=(count, net.target.examples or EXAMPLES, _inputs(net)))
    y = (x[..., 0] > 0).astype(float)
    if isinstance(net, af.in_context.KernelNetwork):
        return x, y, x[:, :2] / 2
    answers = getattr(net.target, "outputs", None) or 1
    several = answers > 1 and net.target.algorithm.link != "softmax"
    return x, (y[..., None] * np.ones(answers) if several else y)


def _inputs(net: Any) -> int:
    """Of an example, as callers give it: what is appended for an intercept left out."""
    features = net.target.features
    return features if isinstance(features, int) else features.inputs - net.target.algorithm.free


def _rows(net: Any, rng: np.random.Generator) -> Iterator[tuple[Array, ...]]:
    """Prompts of a function of prompts: those that its conditions leave out are among them."""
    names, query = net.target.names, net.target.query
    box = net.domain
    while True:
        share = rng.uniform(size=(LENGTH, len(names))).round(int(rng.integers(0, 3)))
        rows = box.lower + share * (box.upper - box.lower)
        asked = [names.index(name) for name in query]
        tokens = np.delete(rows, asked, axis=1)
        yield (tokens, rows[0, asked]) if asked else (tokens,)


def _is_taken(net: Any, inputs: tuple[Array, ...]) -> bool:
    try:
        net(*inputs)
    except af.DomainError:
        return False
    return True
