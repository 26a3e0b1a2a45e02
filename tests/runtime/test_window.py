"""Windows over even rows of keys: what is left out weighs no more than is said, and rows are read from the numbers."""

import numpy as np
import pytest
import torch

import attnforge as af
from attnforge.network import Attention, Head, Linear, Network, Rows, Term
from attnforge.runtime import AttentionNetwork, audit
from attnforge.runtime.window import WindowHead

SIZES = {"one row": (500,), "two": (60, 71), "three": (30, 25, 28)}


def row_network(sizes, c=0.7, seed=0, scale=1.0):
    """Values over a product of rows of keys, in any order, that tokens (x ; 1) ask for places of."""
    rng, d = np.random.default_rng(seed), len(sizes)
    places = np.indices(sizes).reshape(d, -1)[:, rng.permutation(int(np.prod(sizes)))]
    at = [scale * (places[j] - n // 3) for j, n in enumerate(sizes)]
    keys = np.column_stack([part for k in at for part in (k, k**2 / scale)])
    query = np.zeros((d + 1, 2 * d))
    for j, n in enumerate(sizes):
        query[j, 2 * j], query[d, 2 * j], query[d, 2 * j + 1] = c * n / scale, c * (n / 3 - 1) / scale, -c / scale
    encode = Linear((Term(np.eye(d, d + 1)),), np.eye(1, d + 1, d))
    values = rng.normal(size=(len(keys), 2))
    head = Head(query, rng.normal(size=(2, 2)), Rows(), memory_keys=keys, memory_values=values)
    return Network((encode, Attention((head,))), d, None)


def runs(network, kernel="window", dtype=torch.float64, batch=80, reach=0.55):
    rng = np.random.default_rng(1)
    x = torch.from_numpy(rng.uniform(-reach, reach, size=(batch, 3, network.features))).to(dtype)
    return x, *(AttentionNetwork(network, dtype, kernel=each) for each in (kernel, "dense"))


@pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES)
def test_it_is_dense_attention_but_for_the_tail(sizes, window_version):
    """Far beyond the rows' ends, too."""
    network = row_network(sizes, scale=1.0 if window_version == "compiled" else 0.3)
    for reach in (0.55, 3.0):
        x, window, dense = runs(network, reach=reach)
        assert max(window.layers[1].groups[0].counts) < 20
        torch.testing.assert_close(window(x), dense(x), rtol=0, atol=3e-11)
        torch.testing.assert_close(window.attention(x), dense.attention(x), rtol=0, atol=1e-11)


def test_it_is_differentiable():
    x, window, dense = runs(row_network((60, 71)), batch=5)
    slopes = []
    for module in (window, dense):
        given = x.clone().requires_grad_()
        out = module(given)
        out.sin().sum().backward()
        slopes.append(given.grad)
    torch.testing.assert_close(out, window(x), rtol=0, atol=3e-11)
    torch.testing.assert_close(*slopes, rtol=0, atol=1e-8)


def test_float32_sees_places_that_dense_attention_loses(window_version):
    """Of 16,384 keys, products of queries and keys in float32 find another one for many queries."""
    rng, n = np.random.default_rng(0), 2**14
    k = np.arange(n) - n // 2.0
    query, high = np.array([[n, 0.0, 0.0], [0.0, -1.0, -1.0]]), (k**2).astype(np.float32).astype(np.float64)
    keys = np.column_stack([k, high, k**2 - high])  # offsets in two numbers that float32 holds
    head = Head(query, np.eye(1), memory_keys=keys, memory_values=np.sin(8 * k / n)[:, None])
    network = Network((Linear((Term(np.eye(1, 2)),), np.eye(1, 2, 1)), Attention((head,))), 1, 1)
    x = torch.from_numpy(rng.uniform(-0.9, 0.9, size=(2000, 1, 1))).float()
    exact = AttentionNetwork(network, torch.float64, kernel="dense")(x.double())
    window, dense = (AttentionNetwork(network, torch.float32, kernel=kernel)(x) for kernel in ("window", "dense"))
    assert float((window - exact).abs().max()) < 1e-6 < 1e-5 < float((dense - exact).abs().max())


def test_what_is_no_number_stays_none(window_version):
    x, window, _ = runs(row_network((60, 71)), batch=2)
    x[0, 1, 0] = torch.nan
    out = window(x)
    assert bool(out[0, 1].isnan().all())
    assert not bool(out[1].isnan().any())
    assert not bool(out[0, 0].isnan().any())


@pytest.mark.parametrize("change", ["a key", "an offset that bends the other way", "offsets that vary"])
def test_other_keys_are_no_rows(change):
    network = row_network((500,))
    head = network.heads[0]
    keys, query = head.memory_keys.copy(), head.query.copy()
    if change == "a key":
        keys[17, 0] += 0.02
    elif change == "an offset that bends the other way":
        keys[:, 1] *= -1
    else:
        query[0, 1] = 1e-3
    other = Head(query, head.output, memory_keys=keys, memory_values=head.memory_values)
    moved = Network((network.layers[0], Attention((other,))), network.features, None)
    with pytest.raises(af.RefusalError, match="products of even rows"):
        AttentionNetwork(moved, torch.float64, kernel="window")


def test_it_is_chosen_for_many_keys_in_float64():
    net = af.constructions.truncated_linear([1.0, -0.5], 0.25, -1, 2, anchors=5000)
    assert "window" in net.certificate.kernels
    group = next(part for part in net.module().modules() if isinstance(part, WindowHead))
    assert group.counts == [7]
    x = np.random.default_rng(0).uniform(-3, 3, size=(500, 4, 2))
    assert np.abs(net(x) - net.target.values(x)).max() <= net.certificate.bound
    assert not any(isinstance(part, WindowHead) for part in net.module(dtype="float32").modules())


def test_what_a_certificate_does_not_cover_is_warned_of():
    net = af.constructions.truncated_linear([1.0, -0.5], 0.25, -1, 2, anchors=50)
    with pytest.warns(UserWarning, match="covers dense, batched, not window"):
        net.module(kernel="window")


def test_half_types_have_none():
    with pytest.raises(af.RefusalError, match="float64 or float32"):
        AttentionNetwork(row_network((500,)), torch.bfloat16, kernel="window")


def test_its_module_is_diagnosed_and_audited():
    net = af.constructions.truncated_linear([1.0, -0.5], 0.25, -1, 2, anchors=5000)
    x = torch.rand(4, 3, 2, dtype=torch.float64)
    assert af.diagnose(net.module(), x).healthy
    assert "window" in audit(net.module(), x)
