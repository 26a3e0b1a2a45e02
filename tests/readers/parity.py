"""A network of the catalogue, run by all that runs networks, beside what its definition says: how far apart they are.

Differences in float64 are held to 1e-12, relative to values above 1, those in float32 to what the certificate of that
dtype charges for rounding. Where that is exceeded, since a proof may count roundings of scores to the choice of a cell,
or where there is no such charge, the checker is asked for its bound of the run at that very input.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

import attnforge as af
from attnforge.network import Network, apply, apply_layer, layers_in, rounded
from tests.catalogue import ENTRIES, network
from tests.export.running import RUN, ran
from tests.laws.forms import form, given
from tests.readers.built import QUICK, points_of
from tests.readers.comparison import KERNELS, exact_output, module_of, off_at

Array = npt.NDArray[np.float64]

SAME = 1e-12  # in float64, relative to values above 1
POINTS, EXACT = 60, 3  # runs of every network; and those of NumPy that are compared with exact values
PROMPTS = 4


@dataclass(frozen=True, eq=False)
class Compared:
    """A model in a dtype, inputs of its network as formats take them, and what its certificate charges for rounding.

    ``read`` takes what the certificate is about out of the outputs. ``charged`` is asked with the name of a kernel, or
    None for those that may be chosen; it returns None where nothing is proved.
    """

    model: Any
    network: Network
    dtype: str
    given: tuple[Array, ...]
    charged: Callable[[str | None], float | None]
    read: Callable[[Any], Any]

    @property
    def tokens(self) -> list[Array]:
        """The inputs as the network takes them: a point is a token."""
        return [x[..., None, :] if x.ndim == 2 else x for x in self.given]


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


def compare(case: Compared, reader: str, folder: Path) -> Outcome:
    """Of one reader: ``numpy``, a kernel of the torch module, or a format, which is written into the folder."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # that a certificate does not cover a kernel: it is compared
            return _compared(case, reader, folder)
    except af.AttnforgeError as error:
        return Outcome(refusal=str(error))


def _compared(case: Compared, reader: str, folder: Path) -> Outcome:
    wanted = apply(case.network, *case.tokens)
    if reader == "numpy":
        found, wanted = _numpy(case, wanted)
    elif reader in KERNELS:
        found = _kernel(case, reader)
    else:
        found = ran(reader, case.model, [x.astype(case.dtype) for x in case.given], folder / reader, case.dtype)
    assert found.size == wanted.size
    found = case.read(np.asarray(found, dtype=np.float64).reshape(wanted.shape))
    wanted = case.read(wanted)
    apart = np.abs(found - wanted)
    if case.dtype == "float64":
        relative = float((apart / np.maximum(1.0, np.abs(wanted))).max())
        if relative <= SAME:
            return Outcome(relative, SAME)
    charged = case.charged(reader if reader in ("window", "sharded") else None)
    if charged is not None and (reader == "window" or apart.max() <= charged):
        return Outcome(float(apart.max()), charged)
    return _by_checker(case, apart.reshape(len(apart), -1).max(axis=1))


def _by_checker(case: Compared, apart: Array) -> Outcome:
    """The input at which a run is furthest off for what the checker, which knows no windows, encloses there."""
    given = [list(point) for point in zip(*case.tokens, strict=True)][: len(apart)]
    allowed = np.array([off_at(case.network, point, case.dtype) for point in given])
    worst = int(np.argmax(apart / allowed))
    return Outcome(float(apart[worst]), float(allowed[worst]), by_checker=True)


def _numpy(case: Compared, wanted: Array) -> tuple[Array, Array]:
    """In float64 against exact values by balls, at few points; in float32 against float64."""
    if case.dtype == "float64":
        exact = [exact_output(case.network, *point) for point in zip(*(x[:EXACT] for x in case.tokens), strict=True)]
        return wanted[:EXACT], np.array([[[float(ball.mid()) for ball in row] for row in each] for each in exact])
    if case.network.context is not None:
        raise af.RefusalError("NumPy runs float32 networks of one input", "two", "Use torch")
    (state,) = (x.astype(np.float32) for x in case.tokens)
    for layer in layers_in(case.network, np.float32):
        state = apply_layer(layer, state)
    return state, wanted


def _kernel(case: Compared, kernel: str) -> Array:
    module = module_of(case.network, case.dtype, kernel=kernel, shards=3 if kernel == "sharded" else 1)
    with torch.no_grad():
        found = module(*(torch.from_numpy(x).to(getattr(torch, case.dtype)) for x in case.tokens))
    return np.asarray(found.numpy())


READERS = ("numpy", *KERNELS, *RUN)
"""All of them."""


# Networks


def compared(name: str, dtype: str) -> Compared:
    """A network of the catalogue, as it runs in a dtype, with inputs that the dtype has."""
    net = network(name)
    match form(net):
        case "program":
            return _program(net, dtype)
        case "prompt":
            return _prompted(net, dtype)
        case "two inputs":  # queries come first
            inputs = net.target.split(points_of(net, POINTS)[-1])[::-1]
        case _:
            inputs = (points_of(net, POINTS)[-1],)
    return _case(net, dtype, inputs, cache(partial(_rounding, net, dtype)))


def _case(model: Any, dtype: str, inputs: Any, charged: Any, read: Callable[[Any], Any] = lambda out: out) -> Compared:
    run = rounded(getattr(model, "network", model), dtype)
    return Compared(model, run, dtype, tuple(_in(x, dtype) for x in inputs), charged, read)


def _program(net: Any, dtype: str) -> Compared:
    """A program on sequences of one length; formats take it as tokens."""
    tokens = np.stack([np.asarray(net.encode(given(net, seed=seed)[0])) for seed in range(PROMPTS)])
    same = net if dtype == net.dtype else af.programs.compile(net.program, net.vocabulary, net.max_length, dtype=dtype)
    return _case(net.network, dtype, (tokens,), lambda _: same.certificate.parts["rounding"])


def _prompted(net: Any, dtype: str) -> Compared:
    """A network on a prompt; the certificate of a regression on it is about the weights in its tokens."""
    data = tuple(x[0] for x in given(net, 1)) if np.ndim(given(net, 1)[0]) == 3 else given(net, 1)
    if hasattr(net, "regression"):  # of the posterior of a Bayesian
        data, net = net.values(*data), net.regression
    data = tuple(_in(x, dtype) for x in data)
    tokens = net.prompt(*data)
    tokens = tuple(np.asarray(x)[None] for x in (tokens if isinstance(tokens, tuple) else (tokens,)))
    if hasattr(net.target, "query"):  # a function of the prompt, written at its first token
        return _case(net, dtype, tokens, lambda _: None, lambda out: out[..., :1, :])
    there = type(net)(net.network, net.target, None, net.construction, dtype)
    rounding = cache(lambda _: there.certify(*data).parts.get("rounding"))
    return _case(net, dtype, tokens, rounding, getattr(net, "_read", lambda out: out))


def _rounding(net: Any, dtype: str, kernel: str | None) -> float | None:
    try:
        found = af.certify(replace(net, dtype=dtype), effort=QUICK, kernel=kernel)
    except af.AttnforgeError:  # anchors that the dtype does not separate
        return None
    return found.parts.get("rounding")


def _in(x: Any, dtype: str) -> Array:
    """Numbers that the dtype has."""
    return np.asarray(x).astype(dtype).astype(np.float64)


CASES = tuple(name for name, entry in ENTRIES.items() if entry.kind != "random" and entry.only in (None, "float64"))
"""All entries that are built in float64; random networks have a comparison of their own."""
