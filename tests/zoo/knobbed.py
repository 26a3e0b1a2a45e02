"""Networks of every kind behind knobs, what they err by, and what is done to them: for tests and a benchmark."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache, partial
from typing import Any

import numpy as np
import torch

import attnforge as af
from attnforge import programs
from attnforge.certification.program_certificate import certify_program
from attnforge.certification.stream import DISTRACTOR, is_distractor
from attnforge.compiler import Compiled
from attnforge.effort import EFFORTS
from attnforge.errors import AttnforgeError
from attnforge.network import Attention, Claims, Head, Network, Rows
from attnforge.programs.running import ProgramNetwork
from attnforge.zoo import knobs
from attnforge.zoo.knobs.basis import orthogonal
from attnforge.zoo.knobs.streams import Coordinates, carried, hidden_streams
from tests.attacks.test_program_mutations import mutants, result_error
from tests.readers.built import built, error_of
from tests.readers.comparison import Tally
from tests.readers.judging import judge
from tests.readers.mutations import Mutation, mutations

CUBE = dict.fromkeys("xyz", (-1, 1))
LENGTH = 3  # of sequences, all of which are tried


def _mlp() -> Compiled:
    torch.manual_seed(0)
    layers = (torch.nn.Linear(2, 16), torch.nn.ReLU(), torch.nn.Linear(16, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1))
    return af.constructions.relu_network(torch.nn.Sequential(*layers).double(), af.Box(-1.0, 1.0, shape=(2,)))


def _program(name: str) -> Callable[[], ProgramNetwork]:
    return lambda: programs.compile(programs.library[name], programs.library[name].small[:2], max_length=LENGTH)


def _prompt() -> Any:
    inputs, given = dict.fromkeys("xyq", (-1, 1)), {"tokens.mean(x^2)": (0.2, None)}
    return af.compile("tokens.mean(x*y)/tokens.mean(x^2)*q", inputs, 1e-4, given=given)


def _regression() -> Any:
    return af.in_context.LeastSquares(steps=2, learning_rate=0.1).build(features=2, examples=4, data_bound=1.0)


def _average() -> Any:
    return af.in_context.KernelRegression(bandwidth=0.5).build(features=2, examples=4, data_bound=1.0)


KINDS: dict[str, Callable[[], Any]] = {
    "row of anchors": partial(built, "sine"),
    "row of anchors, float32": partial(built, "bell [float32]"),
    "product of rows": partial(built, "grid"),
    "ridge": lambda: af.compile("sin(x + 2*y)", {"x": (0, 1), "y": (0, 1)}, 1e-2, construction="ridge"),
    "sum of rows": partial(built, "additive"),
    "truncated linear": partial(built, "truncated, two inputs"),
    "gate": partial(built, "gate"),
    "cells": partial(built, "partition, hard"),
    "cells, callable": partial(built, "callable on cells"),
    "ReLU network": partial(built, "relu"),
    "ReLU network, 16 x 16": _mlp,
    "hardtanh network": partial(built, "hardtanh"),
    "leaky ReLU network": partial(built, "leaky relu"),
    "graph": lambda: af.constructions.graph("x*y*exp(-z^2)", CUBE, 1e-4),
    "graph, terms added": lambda: af.constructions.graph("sin(x + y) + exp(x - y) + x*y + y*z", CUBE, 1e-4),
    "graph, kink": lambda: af.constructions.graph("relu(x*y + z)*z", CUBE, 1e-4),
    "graph, two outputs": lambda: af.compile(["sin(x)*y", "sin(x)*z + y"], CUBE, 1e-4, construction="graph"),
    "multiplier": partial(built, "multiplier"),
    "exponential": partial(built, "exponential"),
    "logistic": partial(built, "logistic"),
    "two layers, callable": partial(built, "two layers"),
    "attention and a softmax": partial(built, "softmax tail"),
    "cross-attention": partial(built, "cross-attention"),
    "head as a prompt": partial(built, "head in a prompt"),
    "program: majority": _program("majority"),
    "program: sort": _program("sort"),
    "program: induction": _program("induction"),
    "program: balanced": _program("balanced"),
    "regression in context": _regression,
    "kernel regression": _average,
    "function of a prompt": _prompt,
}

KNOBS: dict[str, dict[str, Any]] = {
    "basis": {"basis": "random"},
    "distractors": {"distractors": 2},
    "superposed": {"superposed": 1.0},
    "noise": {"noise": 1e-10},
    "basis, distractors": {"basis": "random", "distractors": 2},
    "all": {"basis": "random", "distractors": 2, "superposed": 1.0, "noise": 1e-10},
}


@cache
def plain(kind: str) -> Any:
    """The network before any knob, made once."""
    return KINDS[kind]()


@cache
def knobbed(kind: str, knob: str) -> Any:
    """The network behind a knob, or the refusal as it was raised."""
    return knobs.apply(plain(kind), **KNOBS[knob])


def measured(net: Any) -> float | None:
    """The largest error found: on points of the domain, or on all short sequences; None for prompts."""
    if isinstance(net, ProgramNetwork):
        return float(result_error(net.network, net, net.vocabulary))
    if net.target.layout == "prompt":
        return None
    return error_of(net)


def aimed(network: Network, rng: np.random.Generator, each: int) -> Iterator[Mutation]:
    """Changes aimed at what proofs of knobs rest on: claims of distractors, what they write, and left inverses."""
    for _ in range(each):
        seed = int(rng.integers(2**31))
        yield Mutation("a head claims to be a distractor", lambda s=seed: _in_head(network, s, _claiming))
        yield Mutation("a head claims to be none", lambda s=seed: _in_head(network, s, _unclaimed, is_distractor))
        yield Mutation("a distractor writes elsewhere", lambda s=seed: _in_head(network, s, _writing, is_distractor))
        yield Mutation("one token asks a distractor", lambda s=seed: _in_head(network, s, _asked, is_distractor))
        yield Mutation("a distractor has a key", lambda s=seed: _in_head(network, s, _keyed, is_distractor))
        yield Mutation("no left inverse", lambda s=seed: _skewed(network, np.random.default_rng(s)))


def _in_head(network: Network, seed: int, change: Any, wanted: Callable[[Head], bool] = lambda _: True) -> Network:
    rng, layers = np.random.default_rng(seed), list(network.layers)
    places = [
        (i, j)
        for i, layer in enumerate(layers)
        if isinstance(layer, Attention)
        for j, head in enumerate(layer.heads)
        if wanted(head)
    ]
    if not places:
        return network
    i, j = places[rng.integers(len(places))]
    heads = list(layers[i].heads)  # type: ignore[union-attr]
    heads[j] = change(heads[j], rng)
    layers[i] = replace(layers[i], heads=tuple(heads))
    return replace(network, layers=tuple(layers))


def _claiming(head: Head, _: np.random.Generator) -> Head:
    return replace(head, claims=Claims(DISTRACTOR, 0.0, np.zeros(1), ()))


def _unclaimed(head: Head, _: np.random.Generator) -> Head:
    return replace(head, claims=None)


def _asked(head: Head, rng: np.random.Generator) -> Head:
    return replace(head, query_rows=Rows.some([int(rng.integers(4))]))


def _keyed(head: Head, rng: np.random.Generator) -> Head:
    """One token by number, with values of any size."""
    width, scale = len(head.query), 2.0 ** rng.integers(-20, 8)
    key, value = (scale * rng.normal(size=(width, n)) for n in (head.query.shape[1], len(head.output)))
    return replace(head, key_rows=Rows.some([int(rng.integers(4))]), key=key, value=value)


def _writing(head: Head, rng: np.random.Generator) -> Head:
    added = rng.normal(size=head.output.shape) * 2.0 ** rng.integers(-40, 1)
    return replace(head, output=head.output + added)


def _skewed(network: Network, rng: np.random.Generator) -> Network:
    """One stream written in a basis, and read in another that is close to it."""
    try:
        streams = hidden_streams(network)
    except af.RefusalError:
        return network
    stream = streams[rng.integers(len(streams))]
    basis = orthogonal(stream.width, rng)
    moved = basis + rng.normal(size=basis.shape) * 2.0 ** rng.integers(-40, -2)
    return carried(network, {stream: Coordinates(basis, moved.T)})


def judged(net: Any, each: int, seed: int) -> Tally:
    """Mutations of a network, of every array and aimed ones, and whether a proof understates one."""
    tally, rng = Tally(), np.random.default_rng(seed)
    if isinstance(net, ProgramNetwork):
        found = [*mutants(net.network, seed)] if each > 1 else [*mutants(net.network, seed)][::9]
        made = [*found, *((mutation.what, mutation.make()) for mutation in aimed(net.network, rng, each))]
        for what, network in made:
            _judged_program(net, network, tally, what)
        return tally
    for mutation in [*mutations(net.network, rng, each), *aimed(net.network, rng, each)]:
        judge(net, mutation, EFFORTS["low"], tally, mutation.what)
    return tally


def _judged_program(net: ProgramNetwork, network: Network, tally: Tally, what: str) -> None:
    tally.counts["mutations"] += 1
    try:
        found = certify_program(network, net.layout, net.dtype)
    except AttnforgeError:
        tally.counts["prover: refused"] += 1
        return
    tally.counts["prover: proved"] += 1
    try:
        error = result_error(network, net, net.vocabulary)
    except (AttnforgeError, IndexError):
        error = np.inf  # short sequences do not have a token that it names
    if not error <= found.bound:
        tally.violations.append(f"{what}: error {error:.6g}, proved {found.bound:.6g}")
