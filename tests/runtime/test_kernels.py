"""Kernels are readers of one meaning: whichever a certificate names or a caller asks for, the numbers are the same."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

import attnforge as af
from attnforge.network import FEW, Attention, Head, Linear, Network, Rows, Term, moved, with_head
from tests.network.examples import UNEQUAL, alone, head, inputs
from tests.refusals import refused
from tests.runtime.kinds import given, kind, module_of

pytestmark = pytest.mark.filterwarnings("ignore:the certificate covers")  # or nothing: these compare runs
COVERED = {"relu": {"dense", "batched"}, "grid": {"dense", "factorised"}, "window": {"dense", "window"},
           "graph": {"dense", "batched"}}  # fmt: skip


@pytest.mark.parametrize("name", COVERED)
def test_no_kernel_that_is_covered_exceeds_the_bound(name):
    net = kind(name)
    assert set(net.certificate.kernels) == COVERED[name]
    box = net.domain
    x = np.random.default_rng(0).uniform(box.lower, box.upper, size=(2000, *box.shape))
    x = x[:, None] if net.target.layout == "tokens" else x
    for kernel in ("auto", *net.certificate.kernels):
        error = np.abs(net.module(kernel=kernel)(torch.from_numpy(x)).numpy() - net.target.values(x)).max()
        assert error <= net.certificate.bound, kernel


def test_batched_is_the_kernel_of_few_keys():
    net, x = kind("relu"), given("relu", 50)
    torch.testing.assert_close(net.module(kernel="batched")(*x), net.module()(*x), rtol=0, atol=0)
    assert af.certify(net, kernel="batched").kernels == ("batched",)


REFUSED = {
    "many keys, batched": lambda: kind("window").module(kernel="batched"),
    "many keys, certified as batched": lambda: af.certify(kind("window"), kernel="batched"),
    "one row, factorised": lambda: af.certify(kind("window"), kernel="factorised"),
    "few keys by a product, factorised": lambda: module_of(product_network((12, 16)), "factorised"),
    "a product to be trained": lambda: module_of(product_network((14, 15)), "factorised", trainable=True),
    "a kernel that is none": lambda: kind("gate").module(kernel="fast"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_other_keys_are_refused(what):
    with refused((af.RefusalError, af.DomainError)):
        REFUSED[what]()


# Dense: groups of like heads


def follows(*heads):
    """A layer of these heads runs as NumPy does."""
    network = alone(Attention(tuple(replace(one, output=one.output[:, :1]) for one in heads)))
    (tokens,) = inputs(network, 2)
    found = module_of(network)(torch.tensor(tokens))
    np.testing.assert_allclose(found.numpy(), network(tokens)[..., 0], rtol=1e-12, atol=1e-13)
    return found


@pytest.fixture
def calls(monkeypatch):
    """The scales of all calls of the fused kernel."""
    found, attend = [], nn.functional.scaled_dot_product_attention

    def counted(*args, **kwargs):
        found.append(kwargs["scale"])
        return attend(*args, **kwargs)

    monkeypatch.setattr(nn.functional, "scaled_dot_product_attention", counted)
    return found


def test_equal_heads_are_one_call_of_attention_and_others_are_kept_apart(calls):
    follows(*(head(seed=i, memory=FEW + 1) for i in range(9)))
    assert calls == [1.0]
    one = head(rows=Rows())
    others = [
        replace(one, query_rows=Rows.some([0])),
        replace(one, query_rows=Rows.some([1])),
        replace(one, key_rows=Rows.some([0])),
        head(memory=FEW + 2),
    ]
    follows(one, *others, one)
    assert len(calls) == 1 + 5
    follows(*UNEQUAL)


@pytest.mark.parametrize("rows", [None, Rows("own")])
def test_heads_of_few_keys_are_written_out(calls, rows):
    """What certificates assume of them in float32 holds for no fused kernel."""
    own = int(rows is not None)
    for keys in (1, 2, 9, FEW):
        follows(head(memory=keys - own, rows=rows))
        assert not calls
    follows(head(memory=1, rows=Rows()))
    assert calls == [1.0]


def test_many_queries_are_taken_in_parts(monkeypatch):
    """However many there are, no more scores are held at once than stated."""
    heads = head(seed=1, memory=3), head(seed=2, memory=3, rows=Rows("own"))
    whole = follows(*heads)
    monkeypatch.setattr("attnforge.runtime.dense.HELD", 7)
    torch.testing.assert_close(follows(*heads), whole)


def test_features_that_are_picked_follow_the_weights():
    """Maps with one entry a column are run by picking: what changes them in place, or loads others, is noticed."""
    net, (x,) = kind("gate"), given("gate", 1)
    module = net.module()
    before, weights = module(x), module.state_dict()
    for name, weight in weights.items():
        if name.endswith((".value", "memory_values")):
            weight.mul_(2)
    assert module(x) == 2 * before
    for name, weight in weights.items():
        if name.endswith(".value"):
            weight[:, -1] += 1.0  # the constant, too: two entries
    assert module(x) == pytest.approx(2 * before + 1, abs=1e-9)
    module.load_state_dict(net.module().state_dict())
    assert module(x) == before


# Factorised: products of keys


SIZES = {"two": (14, 15), "three": (7, 8, 9), "four": (5, 4, 6, 5)}


def product_network(sizes, shuffled=True):
    """One head over a product of keys of one or two columns a factor, keys and columns in any order."""
    rng = np.random.default_rng(len(sizes))
    parts = [rng.normal(size=(p, 1 + j % 2)) for j, p in enumerate(sizes)]
    places = np.indices(sizes).reshape(len(sizes), -1)
    keys = np.hstack([part[place] for part, place in zip(parts, places, strict=True)])
    if shuffled:
        keys = keys[rng.permutation(len(keys))][:, rng.permutation(keys.shape[1])]
    query, output = 2 * rng.normal(size=(3, keys.shape[1])), rng.normal(size=(2, 1))
    head = Head(query, output, Rows.some([0, 2]), memory_keys=keys, memory_values=rng.normal(size=(len(keys), 2)))
    return Network((Linear((Term(),), np.ones((1, 3))), Attention((head,))), 3, 3)


def runs(network, dtype="float64", batch=50):
    x = torch.from_numpy(np.random.default_rng(0).normal(size=(batch, 3, 3))).to(getattr(torch, dtype))
    return x, *(module_of(network, kernel, dtype=dtype) for kernel in ("factorised", "dense"))


@pytest.mark.parametrize("shuffled", [False, True])
@pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES)
def test_a_product_of_keys_is_dense_attention_to_rounding(sizes, shuffled):
    network = product_network(sizes, shuffled=shuffled)
    x, fast, dense = runs(network)
    torch.testing.assert_close(fast(x), dense(x), rtol=1e-13, atol=1e-13)
    torch.testing.assert_close(fast.attention(x), dense.attention(x), rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(fast(x).numpy(), network(x.numpy())[..., 0], rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize(("dtype", "unit"), [("float64", 1e-13), ("float32", 2e-5)])
@pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES)
def test_the_compiled_loop_is_dense_attention_to_rounding(monkeypatch, sizes, dtype, unit):
    """Batches that are no whole number of blocks, and smaller than one; what is no number stays none, alone."""
    monkeypatch.setattr("attnforge.runtime.factorised.COMPILED", 0)
    x, fast, dense = runs(product_network(sizes), dtype, batch=150)
    torch.testing.assert_close(fast(x), dense(x), rtol=unit, atol=unit)
    torch.testing.assert_close(fast(x[:5]), dense(x[:5]), rtol=unit, atol=unit)
    x[3, 0, 1] = torch.nan
    strange = fast(x).isnan()
    assert strange[3, 0]
    assert strange.sum() == 1


def test_gradients_and_long_batches_of_a_product(monkeypatch):
    monkeypatch.setattr("attnforge.runtime.factorised.HELD", 1000)
    x, fast, dense = runs(product_network((14, 15)), batch=200)
    slopes = []
    for module in (fast, dense):
        leaf = x.clone().requires_grad_()
        module(leaf).sin().sum().backward()
        slopes.append(leaf.grad)
    torch.testing.assert_close(*slopes, rtol=1e-12, atol=1e-12)


def test_structure_is_read_from_the_keys_not_from_claims():
    """One key of a built network moved by a rounding: no product any more, and run densely."""
    network = kind("grid").network
    assert module_of(network, "factorised")
    unclaimed = with_head(network, 1, 0, claims=None)
    assert module_of(unclaimed, "factorised")

    def up(keys):
        keys[17, 1] = np.nextafter(keys[17, 1], 1e9)
        return keys

    with refused(af.RefusalError):
        module_of(moved(network, "layer1.head0.memory_keys", up), "factorised")
