"""Heads over products of keys: the same numbers as dense attention, and refused where keys are no product."""

import numpy as np
import pytest
import torch

import attnforge as af
from attnforge.network import Attention, Head, Linear, Network, Rows, Term, with_head
from attnforge.runtime import AttentionNetwork
from attnforge.runtime.audit import audit
from attnforge.runtime.factorised import FactorisedHead
from attnforge.runtime.module import factors
from attnforge.runtime.product_loop import CONSTANTS, _exponentials_all

SIZES = {"two": (14, 15), "three": (7, 8, 9), "four": (5, 4, 6, 5)}


def product_network(sizes, outputs=2, shuffled=True):
    """One head over a product of keys of one or two columns a factor, keys and columns in any order."""
    rng = np.random.default_rng(len(sizes))
    parts = [rng.normal(size=(p, 1 + j % 2)) for j, p in enumerate(sizes)]
    places = np.indices(sizes).reshape(len(sizes), -1)
    keys = np.hstack([part[place] for part, place in zip(parts, places, strict=True)])
    if shuffled:
        keys = keys[rng.permutation(len(keys))][:, rng.permutation(keys.shape[1])]
    values, width = rng.normal(size=(len(keys), outputs)), 3
    head = Head(
        2 * rng.normal(size=(width, keys.shape[1])),
        rng.normal(size=(outputs, 2)),
        Rows.some([0, 2]),
        memory_keys=keys,
        memory_values=values,
    )
    return Network((Linear((Term(),), np.ones((1, width))), Attention((head,))), width, 3)


def runs(network, dtype=torch.float64, batch=50):
    x = torch.from_numpy(np.random.default_rng(0).normal(size=(batch, 3, 3))).to(dtype)
    return x, *(AttentionNetwork(network, dtype, kernel=kernel) for kernel in ("factorised", "dense"))


@pytest.mark.parametrize("shuffled", [False, True])
@pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES)
def test_it_is_dense_attention_to_rounding(sizes, shuffled):
    network = product_network(sizes, shuffled=shuffled)
    x, fast, dense = runs(network)
    assert isinstance(fast.layers[1].groups[0], FactorisedHead)
    assert sorted(fast.layers[1].groups[0].sizes) == sorted(sizes)
    torch.testing.assert_close(fast(x), dense(x), rtol=1e-13, atol=1e-13)
    torch.testing.assert_close(fast.attention(x), dense.attention(x), rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(fast(x).numpy(), network(x.numpy()), rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize(("dtype", "unit"), [(torch.float32, 1e-5), (torch.bfloat16, 0.05), (torch.float16, 5e-3)])
def test_in_other_dtypes(dtype, unit):
    x, fast, dense = runs(product_network((14, 15)), dtype)
    assert fast(x).dtype == dtype
    torch.testing.assert_close(fast(x).double(), dense(x).double(), rtol=unit, atol=unit)


@pytest.mark.parametrize(("dtype", "unit"), [(torch.float64, 1e-13), (torch.float32, 2e-5)])
@pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES)
def test_the_compiled_loop_is_dense_attention_to_rounding(monkeypatch, sizes, dtype, unit):
    """Batches that are no whole number of blocks, and smaller than one; what is no number stays none, alone."""
    monkeypatch.setattr("attnforge.runtime.factorised.COMPILED", 0)
    x, fast, dense = runs(product_network(sizes), dtype, batch=150)
    torch.testing.assert_close(fast(x), dense(x), rtol=unit, atol=unit)
    torch.testing.assert_close(fast(x[:5]), dense(x[:5]), rtol=unit, atol=unit)
    x[3, 0, 1] = torch.nan
    strange = fast(x).isnan()
    assert strange[3, 0].all()
    assert strange.sum() == 2


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_exponentials_of_the_compiled_loop(dtype):
    """Against extended precision: below 2 units in the last place, sums of one's own size, and none below the least."""
    scores = np.random.default_rng(0).uniform(-80, 0, (40, 500)).astype(dtype)
    scores[0], scores[1] = 0.0, -1e4
    bits = np.vstack([scores, scores[:1]]).view(np.int64 if dtype is np.float64 else np.int32)
    weights, room, total = bits[:-1].view(dtype), bits[-1].view(dtype), np.empty(500, dtype)
    _exponentials_all(weights, bits[:-1], room, bits[-1], total, CONSTANTS[np.dtype(dtype).name])
    exact = np.exp(scores.astype(np.longdouble))
    assert np.abs(weights / exact - 1)[np.arange(40) != 1].max() <= 2 * np.finfo(dtype).eps
    assert weights[1].max() <= 2 * np.finfo(dtype).tiny
    np.testing.assert_allclose(total, weights.sum(axis=0), rtol=40 * np.finfo(dtype).eps)


def test_long_batches_are_cut(monkeypatch):
    monkeypatch.setattr("attnforge.runtime.factorised.HELD", 1000)
    x, fast, dense = runs(product_network((14, 15)), batch=200)
    assert fast.layers[1].groups[0].at_once < 400
    torch.testing.assert_close(fast(x), dense(x), rtol=1e-13, atol=1e-13)


def test_gradients_are_those_of_dense_attention():
    x, fast, dense = runs(product_network((14, 15)), batch=3)
    slopes = []
    for module in (fast, dense):
        given = x.clone().requires_grad_()
        module(given).sin().sum().backward()
        slopes.append(given.grad)
    torch.testing.assert_close(*slopes, rtol=1e-12, atol=1e-12)


def test_its_operations_are_softmax_and_linear_maps():
    x, fast, _ = runs(product_network((14, 15)))
    assert {"_softmax", "mul in a head"} <= audit(fast, x)


@pytest.mark.parametrize("name", ["query", "memory_keys", "memory_values"])
def test_the_whole_head_can_be_read_from_it(name):
    network = product_network((7, 8, 9))
    group = AttentionNetwork(network, torch.float64).layers[1].groups[0]
    np.testing.assert_array_equal(getattr(group, name)[0].numpy(), getattr(network.heads[0], name))


def test_structure_is_read_from_the_keys_not_from_claims():
    """One key of a built network moved by a rounding: no product any more, and run densely."""
    net = af.compile("sin(3*x)*cos(2*y)", {"x": (-2, 2), "y": (-2, 2)}, 1e-9, construction="tensor_grid")
    assert factors(net.network.heads[0]) == [[0, 1], [2, 3]]
    keys = net.network.heads[0].memory_keys.copy()
    keys[17, 1] = np.nextafter(keys[17, 1], 1e9)
    moved = with_head(net.network, 1, 0, memory_keys=keys)
    assert factors(moved.heads[0]) is None
    with pytest.raises(af.RefusalError, match="products of constant keys"):
        AttentionNetwork(moved, torch.float64, kernel="factorised")


def test_what_is_trained_is_dense():
    network = product_network((14, 15))
    module = AttentionNetwork(network, torch.float64, trainable=True)
    assert module.layers[1].groups[0].memory_keys.shape == (1, 210, 3)
    with pytest.raises(af.RefusalError, match="to be trained"):
        AttentionNetwork(network, torch.float64, trainable=True, kernel="factorised")


def test_few_keys_are_not_factorised():
    """Certificates charge what a factorised run rounds from 193 keys on."""
    assert factors(product_network((12, 16)).heads[0]) is None
    assert factors(product_network((14, 14)).heads[0]) is not None


def test_an_unknown_kernel_is_refused():
    with pytest.raises(af.DomainError, match="auto, dense, batched, factorised"):
        AttentionNetwork(product_network((14, 15)), torch.float64, kernel="fast")
