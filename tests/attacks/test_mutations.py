"""One weight at a time, by as little as breaks the bound, in files that are consistent: the checker never confirms.

Whoever can write a file can write its digests. So a weight is changed, every digest is written anew, and the only thing
left that is wrong is the bound.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import attnforge as af
from attnforge.model_file import check
from attnforge.network import Network, flatten, unflatten
from attnforge.network.flatten import is_weight
from attnforge.targets import Target
from tests.attacks.files import agreeing, join, split

CELLS = 2000  # the honest files are confirmed within it
FIRST, LAST = -20, 12  # powers of two of the relative changes tried
TRIES = 6  # weights of an array that are tried until one matters
POINTS = 3000
BEYOND = 1.02  # of the bound: what a change must lead to


def _relu():
    module = torch.nn.Sequential(torch.nn.Linear(1, 2), torch.nn.LeakyReLU(0.125), torch.nn.Linear(2, 1)).double()
    with torch.no_grad():
        module[0].weight[:], module[0].bias[:] = torch.tensor([[1.5], [-1.0]]), torch.tensor([0.25, 0.1])
        module[2].weight[:], module[2].bias[:] = torch.tensor([[0.7, -0.4]]), torch.tensor([0.3])
    return af.constructions.relu_network(module, af.Box(-1.0, 1.0))


MODELS = {
    "one input": lambda: af.compile("sin(2*x)", {"x": (0, 2)}, tol=1e-2),
    "one input in float32": lambda: af.compile("exp(-x^2)", {"x": (-2, 2)}, tol=1e-2, dtype="float32"),
    "two inputs": lambda: af.constructions.tensor_grid("sin(x)*y", {"x": (0, 2), "y": (0, 1)}, tol=5e-2),
    "truncated linear": lambda: af.constructions.truncated_linear([1.0, -0.5], 0.25, -1, 2, anchors=5),
    "gate": lambda: af.constructions.gate([1.0, -0.5], 0.25, -1, 2),
    "cells": lambda: af.constructions.max_affine("x^2", af.Box(-1.0, 1.0), cells=4),
    "relu": _relu,
}

IDLE = {"relu": {"network.layer1.head2.query", "network.layer1.head2.key"}}  # one key: its weight is 1 at any score


@dataclass(frozen=True)
class Saved:
    """A model, its file's parts, and points at which errors are looked for."""

    target: Target
    bound: float
    metadata: dict[str, Any]
    arrays: dict[str, np.ndarray]
    points: np.ndarray

    @property
    def weights(self) -> list[str]:
        """The names of all arrays of weights that are not empty."""
        return [n for n in self.arrays if n.startswith("network.") and is_weight(n) and self.arrays[n].size]

    def error(self, arrays: dict[str, np.ndarray]) -> float:
        """The largest error of a run in float64 with these weights."""
        held = {n.removeprefix("network."): a for n, a in arrays.items() if n.startswith("network.")}
        network: Network = unflatten(self.metadata["network"], held)
        with np.errstate(all="ignore"):
            found = network(self.points[:, None])[:, 0].ravel()
        return float(np.nanmax(np.abs(found - self.target.values(self.points).ravel())))


@cache
def saved(name: str, folder: Path) -> Saved:
    net = MODELS[name]()
    path = folder / name.replace(" ", "_")
    net.save(path)
    assert check(path, cells=CELLS, workers=1).verdict == "confirmed"
    box, rng = net.target.domain, np.random.default_rng(0)
    steps = np.linspace(0, 1, POINTS)[:, None]
    spread = rng.uniform(box.lower, box.upper, (POINTS, box.lower.size))
    points = np.concatenate([box.lower + steps * (box.upper - box.lower), spread])
    return Saved(net.target, net.certificate.bound, *split(path), points)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("models")


def smallest_break(model: Saved, name: str, rng: np.random.Generator) -> dict[str, np.ndarray] | None:
    """The arrays with one weight of this name changed so that the stored bound is false; None if none matters."""
    array = model.arrays[name]
    scale = float(np.abs(array).max()) or 1.0
    for index in rng.permutation(array.size)[:TRIES]:
        for power in range(FIRST, LAST):
            changed = array.copy()
            by = 2.0**power * (abs(float(array.flat[index])) or scale)
            changed.flat[index] += by if rng.random() < 0.5 else -by
            arrays = model.arrays | {name: changed}
            if BEYOND * model.bound < model.error(arrays) < np.inf:
                return arrays
    return None


@pytest.mark.parametrize("name", MODELS)
def test_no_changed_weight_is_confirmed(name, folder, tmp_path):
    model = saved(name, folder)
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    idle = set()
    for array in model.weights:
        arrays = smallest_break(model, array, rng)
        if arrays is None:
            idle.add(array)
            continue
        honest = join(tmp_path / "net", agreeing(model.metadata, arrays), arrays, honest=True)
        found = check(honest, cells=CELLS, workers=1)
        assert found.verdict in ("rejected", "undecided"), (array, model.bound, model.error(arrays))
        plain = join(tmp_path / "plain", model.metadata, arrays)
        told = check(plain, cells=CELLS, workers=1)
        assert (told.verdict, told.what) == ("rejected", "network")
    assert idle == IDLE.get(name, set())


@pytest.mark.parametrize("name", ["one input", "gate"])
def test_the_file_digest_alone_is_not_enough(name, folder, tmp_path):
    """The certificate still names the old network."""
    model = saved(name, folder)
    arrays = smallest_break(model, model.weights[-1], np.random.default_rng(1))
    found = check(join(tmp_path / "net", model.metadata, arrays, honest=True), cells=CELLS, workers=1)
    assert (found.verdict, found.what) == ("rejected", "network")


def test_a_change_that_breaks_nothing_is_confirmed(folder, tmp_path):
    """Verdicts are about the bound: a weight off by a rounding, in a consistent file, is as good."""
    model = saved("one input", folder)
    name = next(n for n in model.weights if n.endswith("memory_values"))
    changed = model.arrays[name].copy()
    changed.flat[0] = np.nextafter(changed.flat[0], np.inf)
    arrays = model.arrays | {name: changed}
    path = join(tmp_path / "net", agreeing(model.metadata, arrays), arrays, honest=True)
    assert check(path, cells=CELLS, workers=1).verdict == "confirmed"


def test_the_tool_takes_networks_apart_and_back(folder):
    model = saved("gate", folder)
    held = {n.removeprefix("network."): a for n, a in model.arrays.items() if n.startswith("network.")}
    again = flatten(unflatten(model.metadata["network"], held))[1]
    assert all(np.array_equal(again[n], a) for n, a in held.items())
    assert model.error(model.arrays) <= model.bound
