"""Files of ReLU networks with arrays of other shapes and other fields, consistent again: a verdict, never a crash."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import numpy as np
import pytest
import torch

import attnforge as af
from attnforge.model_file import check
from tests.attacks.files import agreeing, join, split

PARTS = {
    "features read": [("network.layer0.term0.map", 0)],
    "features of the heads": [("network.layer0.term0.map", 1), ("network.layer0.constant", 1), ("head.read", 0)],
    "features written": [("head.output", 1), ("network.layer2.term0.map", 0)],
    "outputs": [("network.layer2.term0.map", 1), ("network.layer2.constant", 1)],
    "scores": [("head.query", 1), ("head.key", 1), ("head.memory_keys", 1)],
    "values": [("head.value", 1), ("head.memory_values", 1), ("head.output", 0)],
    "keys": [("head.memory_keys", 0), ("head.memory_values", 0)],
    "target's inputs": [("target.stage0.weight", 0), ("target.domain.lower", -1), ("target.domain.upper", -1)],
    "target's neurons": [("target.stage0.weight", 1), ("target.stage0.bias", 0), ("target.stage2.weight", 0)],
    "target's outputs": [("target.stage2.weight", 1), ("target.stage2.bias", 0)],
    "target's tokens": [("target.domain.lower", 0), ("target.domain.upper", 0)],
}
READ = ("query", "key", "value")
OTHERS: list[Any] = [None, True, False, -1, 0, 2, 1.5, "", "all", "some", "own", "context", "softmax", "affine", [], {}]
LEFT_OUT = {"certificate", "digest", "reason", "format", "construction", "claims"}  # nothing that a run depends on


def cut(array: np.ndarray, axis: int) -> np.ndarray:
    return np.delete(array, -1, axis)


def zero(array: np.ndarray, axis: int) -> np.ndarray:
    return np.concatenate([array, np.zeros_like(array.take([-1], axis))], axis)


def again(array: np.ndarray, axis: int) -> np.ndarray:
    return np.concatenate([array, array.take([-1], axis)], axis)


def named(arrays: dict[str, np.ndarray], name: str) -> list[str]:
    """The arrays that a name of the table means: one, or those of every head."""
    if not name.startswith("head."):
        return [name]
    ends = READ if name == "head.read" else (name.removeprefix("head."),)
    return [each for each in arrays if ".head" in each and each.split(".")[-1] in ends]


def resized(arrays: dict[str, np.ndarray]) -> Iterator[dict[str, np.ndarray]]:
    """One axis of one array, and all axes that must have one length, by one less or more."""
    joint = [[(each, axis) for name, axis in part for each in named(arrays, name)] for part in PARTS.values()]
    alone = [[(name, axis)] for name, array in arrays.items() for axis in range(array.ndim)]
    for places in joint + alone:
        for change in (cut, zero, again):
            found = dict(arrays)
            for name, axis in places:
                found[name] = change(found[name], axis)
            yield found


def replaced(arrays: dict[str, np.ndarray]) -> Iterator[dict[str, np.ndarray]]:
    """One array left out, turned, of one more axis, of another dtype."""
    for name, array in arrays.items():
        yield {other: each for other, each in arrays.items() if other != name}
        for found in (
            array.T,
            array[None],
            array.astype(np.float32),
            array.astype(np.int64),
            np.full_like(array, np.nan),
        ):
            yield arrays | {name: np.ascontiguousarray(found)}


def edited(part: Any) -> Iterator[Any]:
    """The same with one field, anywhere within, replaced or left out; lists also shorter, longer and reversed."""
    if isinstance(part, dict | list):
        for at in [name for name in part if name not in LEFT_OUT] if isinstance(part, dict) else range(len(part)):
            for each in edited(part[at]):
                found = copy.copy(part)
                found[at] = each
                yield found
            found = copy.copy(part)
            del found[at]
            yield found
    if isinstance(part, list):
        yield from ([*part, *part[-1:]], part[::-1])
    yield from OTHERS


def parts_of(tokens, folder):
    """Metadata and arrays of a network whose last neuron is not used: without it the values are the same."""
    torch.manual_seed(0)
    module = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU(), torch.nn.Linear(2, 1)).double()
    with torch.no_grad():
        module[2].weight[:, 1] = 0.0
    box = af.Box(-1.0, 1.0, shape=(2,) if tokens is None else (tokens, 2))
    af.constructions.relu_network(module, box).save(folder / "honest")
    return split(folder / "honest")


def judged(path, metadata, arrays):
    """What the checker says of the file, whose digests are right: a verdict, or why it is not read."""
    with suppress(LookupError, TypeError, ValueError, AttributeError):  # no target that a certificate could be about
        metadata = agreeing(metadata, arrays)
    join(path, metadata, arrays, honest=True)
    try:
        found = check(path, cells=200, workers=1).verdict
    except af.AttnforgeError:
        return "unreadable"
    if found == "confirmed":
        assert error(af.load(path)) <= 1e-12
    return found


def error(net):
    points = np.random.default_rng(0).uniform(net.domain.lower, net.domain.upper, (50, *net.domain.shape))
    wanted = net.target.values(points)
    return np.abs(net.network(points if points.ndim == 3 else points[:, None]).reshape(wanted.shape) - wanted).max()


@pytest.mark.parametrize("tokens", [None, 2])
def test_arrays_of_other_shapes(tokens, tmp_path):
    metadata, arrays = parts_of(tokens, tmp_path)
    assert judged(tmp_path / "net", metadata, arrays) == "confirmed"
    found = {judged(tmp_path / "net", metadata, forged) for make in (resized, replaced) for forged in make(arrays)}
    assert {"rejected", "unreadable"} <= found


@pytest.mark.parametrize("tokens", [None, 2])
def test_other_fields(tokens, tmp_path):
    metadata, arrays = parts_of(tokens, tmp_path)
    forged = [each for each in edited(metadata) if isinstance(each, dict) and "target" in each]
    found = {judged(tmp_path / "net", each, arrays) for each in forged}
    assert {"rejected", "unreadable"} <= found
