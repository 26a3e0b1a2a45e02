"""Every network of the catalogue gives the same by every way to run it, within what its certificate charges.

As its definition says in NumPy; one input or many, of several axes, none at all; from NumPy and torch, by names.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas
import pytest
import torch

import attnforge as af
from attnforge.network import apply, head_places, moved, rounded
from tests.accounts import certificate_of, read, title
from tests.catalogue import ENTRIES, network
from tests.laws.forms import form, given

GOLDEN = read()
EVERY = [
    (name, dtype)
    for name, entry in ENTRIES.items()
    for dtype in entry.dtypes
    if GOLDEN[title(name, dtype)]["status"] != "refused" and entry.kind != "program"
]
COUNT = 12
KERNELS = ("dense", "batched", "factorised", "window", "sharded")
POINTS = ("point", "tokens", "listed", "head in a prompt")


def charged(net: Any) -> float:
    """How far two runs of a network may be apart: each from the exact values by its roundings."""
    certificate = certificate_of(net)
    charge = certificate.parts.get("rounding", certificate.bound)
    return 2 * charge if charge is not None else 1e-9 if net.dtype == "float64" else 1e-3


def prompts_of(net: Any) -> tuple[np.ndarray, ...]:
    """Inputs with one leading axis."""
    inputs = given(net, COUNT)
    lonely = form(net) == "prompt" and hasattr(net.target, "query")
    return tuple(np.stack([each] * COUNT) if lonely else np.asarray(each) for each in inputs)


def apart(one: Any, other: Any) -> float:
    one, other = (np.asarray(each, dtype=np.float64) for each in (one, other))
    assert one.shape == other.shape
    return float(np.nan_to_num(np.abs(one - other), nan=np.inf).max(initial=0.0))


@pytest.mark.parametrize(("name", "dtype"), EVERY)
def test_shapes_and_arrays_of_every_kind_give_the_same(name, dtype):
    net = network(name, dtype)
    inputs, charge = prompts_of(net), charged(net)
    count = len(inputs[0]) // 2 * 2
    inputs = tuple(each[:count] for each in inputs)
    values = net(*inputs)
    assert isinstance(values, np.ndarray)
    assert values.dtype == np.float64
    first = np.asarray(net(*(each[0] for each in inputs)))
    assert apart(first.reshape(values[0].shape), values[0]) <= charge  # one input: a number, or an array of one
    folded = net(*(each.reshape(2, -1, *each.shape[1:]) for each in inputs))
    assert apart(folded.reshape(values.shape), values) <= charge
    backwards = net(*(each[::-1] for each in inputs))
    assert apart(backwards[::-1], values) <= charge
    assert net(*(each[:0] for each in inputs)).shape == (0, *values.shape[1:])
    tensors = net(*map(torch.from_numpy, inputs))
    assert isinstance(tensors, torch.Tensor)
    assert tensors.dtype == torch.float64
    assert apart(tensors.detach().numpy(), values) <= charge


@pytest.mark.filterwarnings("ignore:the certificate covers")
@pytest.mark.parametrize(("name", "dtype"), EVERY)
def test_kernels_and_definition_give_the_same(name, dtype):
    net = network(name, dtype)
    if form(net) not in POINTS:
        pytest.skip("the law of parity takes prompts and two inputs")
    (points,), charge = given(net, COUNT), charged(net)
    values = np.asarray(net(points))
    tokens = points if points.ndim == 3 else points[:, None, :]
    meant = apply(rounded(net.network, dtype), tokens)
    assert apart(meant.reshape(values.shape), values) <= charge
    run = 0
    for kernel in KERNELS:
        try:
            module = net.module(kernel=kernel, **({"shards": 3} if kernel == "sharded" else {}))
        except af.AttnforgeError:
            continue
        run += 1
        with torch.no_grad():
            off = apart(module(torch.from_numpy(points)).double().numpy(), values)
        assert off <= charge or off <= 2 * af.certify(net, kernel=kernel).parts["rounding"], kernel
    assert run >= 1


@pytest.mark.parametrize("name", ["two bells", "polynomial of three"])
def test_names_give_the_same(name):
    net = network(name)
    (points,) = given(net, COUNT)
    by_name = dict(zip("xyz", points.T, strict=False))
    assert apart(net(**by_name), net(points)) == 0.0
    assert apart(net(pandas.DataFrame(by_name).iloc[:, ::-1]), net(points)) == 0.0
    assert apart(net(pandas.DataFrame(by_name).iloc[0]), net(points[0])) == 0.0


@pytest.mark.parametrize("name", ["readme", "graph", "gate", "grid"])
def test_a_weight_that_is_off_is_seen(name):
    """The mutation: the charge is small against what a weight does."""
    net = network(name)
    (points,) = given(net, COUNT)
    place = "layer{}.head{}.output".format(*head_places(net.network)[-1])
    other = moved(net.network, place, lambda array: array * (1 + 1e-4))
    meant = apply(other, points if points.ndim == 3 else points[:, None, :])
    values = np.asarray(net(points))
    assert apart(meant.reshape(values.shape), values) > charged(net)
