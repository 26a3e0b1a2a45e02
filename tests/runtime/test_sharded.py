"""Keys in shards: in one process, over torch.distributed and over Dask, equal to one softmax to its rounding."""

import multiprocessing
import signal
import socket
from functools import reduce

import numpy as np
import pytest
import torch
import torch.distributed as dist
from hypothesis import given
from hypothesis import strategies as st

import attnforge as af
from attnforge.balls import machine
from attnforge.certification.certify import certify
from attnforge.effort import as_effort
from attnforge.network import rounded
from attnforge.runtime import AttentionNetwork, audit, gathered, mean, merge, over_cluster, over_processes, partial
from attnforge.runtime import sharded as sharded_file
from tests.certification.exact import in_long_doubles as exactly
from tests.readers.mutations import mutations
from tests.runtime.test_window import row_network


@pytest.fixture(scope="module")
def net():
    return af.constructions.truncated_linear([1.0, -0.5], 0.25, -1, 2, anchors=400)


@pytest.fixture(scope="module")
def bound(net):
    return af.certify(net, kernel="sharded").bound


@pytest.fixture
def points():
    return torch.from_numpy(np.random.default_rng(0).uniform(-3, 3, size=(300, 1, 2)))


def error(net, x, out):
    return float(np.abs(out - net.target.values(x.numpy())).max())


def exact(network, x):
    """In extended precision."""
    return exactly(network, x.numpy())[..., 0]


@given(st.integers(0, 2**32), st.integers(1, 9), st.sampled_from([1.0, 30.0, 2000.0]))
def test_any_order_of_merges_is_one_softmax(seed, count, sharp):
    """Shards of any size, scores hundreds apart, so that most shards weigh nothing."""
    rng = np.random.default_rng(seed)
    q, k, v = (torch.from_numpy(rng.normal(size=size)) for size in ((7, 3), (200, 3), (200, 2)))
    cuts = sorted(rng.choice(np.arange(1, 200), count - 1, replace=False).tolist())
    parts = [partial(sharp * q, a, b) for a, b in zip(k.tensor_split(cuts), v.tensor_split(cuts), strict=True)]
    rng.shuffle(parts)
    expected = torch.softmax(sharp * q @ k.T, dim=1) @ v
    torch.testing.assert_close(mean(reduce(merge, parts)), expected, rtol=0, atol=1e-11)
    torch.testing.assert_close(mean(reduce(lambda a, b: merge(b, a), parts)), expected, rtol=0, atol=1e-11)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_exponentials_err_by_units_or_by_the_smallest_normal_number(dtype):
    vanishing, least = sharded_file.FAINT[dtype]
    near = torch.linspace(1.1 * vanishing, 0.99 * least, 20001, dtype=dtype)
    x = torch.cat(
        [near, torch.linspace(3 * vanishing, 0, 20001, dtype=dtype), torch.tensor([-torch.inf, 0.0]).to(dtype)]
    )
    exact = np.exp(x.numpy().astype(np.longdouble))
    error = np.abs(sharded_file._exponential(x).numpy().astype(np.longdouble) - exact)
    assert bool((error <= np.maximum(4 * torch.finfo(dtype).eps * exact, torch.finfo(dtype).tiny)).all())
    assert sharded_file._exponential(torch.tensor([torch.nan], dtype=dtype)).isnan()


def test_memory_does_not_grow_with_keys(monkeypatch):
    """Blocks of 64 keys and few queries give the same."""
    q, k, v = torch.rand(50, 2), torch.rand(1000, 2), torch.rand(1000, 1)
    whole = partial(q, k, v)
    monkeypatch.setattr(sharded_file, "KEYS", 64)
    monkeypatch.setattr(sharded_file, "HELD", 640)
    for one, other in zip(partial(q, k, v), whole, strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16", "float16"])
def test_shards_in_one_process_are_dense_attention(net, points, dtype):
    dense, *cut = (
        AttentionNetwork(net.network, getattr(torch, dtype), kernel=kernel, shards=shards)
        for kernel, shards in (("dense", 1), ("sharded", 1), ("sharded", 3))
    )
    x = points
    unit = 4 * machine(dtype).roundoff + 2000 * machine(dtype).accumulation
    scale = max(float(np.abs(head.memory_values).max()) for head in net.network.heads)
    for module in cut:
        torch.testing.assert_close(module(x).double(), dense(x).double(), rtol=0, atol=unit * scale)
        torch.testing.assert_close(module.attention(x)[0][0], dense.attention(x)[0][0], rtol=0.02, atol=unit)


def test_the_bound_of_a_sharded_run(net, points):
    found = af.certify(net, kernel="sharded")
    assert (found.status, found.kernels) == ("proved", ("sharded",))
    assert found.bound == af.certify(net, kernel="dense").bound
    assert "parts of at least 64" in found.assumptions[-1]
    with pytest.warns(UserWarning, match=r"not sharded: af.certify\(net, kernel='sharded'\) may"):
        module = net.module(kernel="sharded", shards=5)
    assert error(net, points, module(points).numpy()) <= found.bound


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_mutations_are_within_the_bound_of_their_own_numbers(dtype, points):
    """Every array moved, whole and entry by entry: a run in shards is no further from exact than is proved of it."""
    net = af.constructions.truncated_linear([1.0, -0.5], 0.25, -1, 2, anchors=130, dtype=dtype)
    judged = 0
    for mutation in list(mutations(net.network, np.random.default_rng(2), 1))[::3]:
        try:
            network = mutation.make()
            found = certify(network, net.target, dtype=dtype, kernel="sharded", effort=as_effort("low"))
            x = points.to(getattr(torch, dtype))
            out = AttentionNetwork(network, x.dtype, kernel="sharded", shards=2)(x).double().numpy()[..., 0]
        except af.AttnforgeError:
            continue
        if found.bound is not None:
            assert error(net, x.double(), out) <= found.bound, mutation.what
            assert np.abs(out - exact(rounded(network, dtype), x)).max() <= found.parts["rounding"], mutation.what
            judged += 1
    assert judged >= 4


def test_what_cannot_be_sharded_is_refused(net):
    with pytest.raises(af.RefusalError, match="at least 64 a shard"):
        net.module(kernel="sharded", shards=1000)
    with pytest.raises(af.RefusalError, match="kernel='sharded'"):
        net.module(shards=2)
    with pytest.raises(af.RefusalError, match="not trained"):
        net.module(kernel="sharded", trainable=True)
    small = af.compile("relu(x)", {"x": (-1, 1)}, 1e-6)
    for refused in (lambda: small.module(kernel="sharded"), lambda: af.certify(small, kernel="sharded")):
        with pytest.raises(af.RefusalError, match="few keys"):
            refused()


@pytest.mark.filterwarnings("ignore:the certificate covers")
def test_its_module_is_differentiated_audited_and_diagnosed(net, points):
    module, dense = net.module(kernel="sharded", shards=3), net.module(kernel="dense")
    slopes = []
    for each in (module, dense):
        x = points.clone().requires_grad_()
        each(x).sum().backward()
        slopes.append(x.grad)
    torch.testing.assert_close(*slopes, rtol=0, atol=1e-7)
    assert "sharded" in audit(module, points)
    assert af.diagnose(module, points).healthy == af.diagnose(dense, points).healthy


def test_modules_without_shards_are_refused(net):
    with pytest.raises(af.RefusalError, match=r"kernel=\"sharded\""), over_cluster(net.module(), "tcp://127.0.0.1:1"):
        pass


def ranked(rank, port, network, x, queue):
    """One of two processes: of a module its own shard, and of plain tensors what it knows."""
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=2)
    torch.set_num_threads(1)
    module = over_processes(AttentionNetwork(network, torch.float64, kernel="sharded", shards=2))
    kept = sum(len(keys) for keys in module.state_dict().values() if len(keys) > 64)
    generator = torch.Generator().manual_seed(0)
    q, k, v = (torch.rand(*size, generator=generator, dtype=torch.float64) for size in ((9, 2), (300, 2), (300, 1)))
    own = partial(q, k[rank * 200 :][:200], v[rank * 200 :][:200])
    expected = torch.softmax(q @ k.T, dim=1) @ v
    apart = float((mean(gathered(own)) - expected).abs().max())
    queue.put((rank, module(x).numpy(), kept, apart))
    dist.destroy_process_group()


def test_two_processes_of_torch_distributed(net, bound, points):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    spawn = multiprocessing.get_context("spawn")
    queue = spawn.Queue()
    started = [spawn.Process(target=ranked, args=(rank, port, net.network, points, queue)) for rank in range(2)]
    for process in started:
        process.start()
    found = {rank: rest for rank, *rest in (queue.get(timeout=60) for _ in started)}
    for process in started:
        process.join(20)
    alone = AttentionNetwork(net.network, torch.float64, kernel="sharded", shards=2)(points).numpy()
    for out, kept, apart in found.values():
        np.testing.assert_array_equal(out, alone)  # the same merges in the same order
        assert kept <= 2 * (net.anchors // 2 + 1) * len(net.network.heads)  # keys and values of one shard
        assert apart < 1e-15
    assert error(net, points, alone[..., 0]) <= bound


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:the certificate covers")
def test_the_workers_of_a_cluster_hold_the_shards(net, bound, points, cluster):
    address, workers = cluster
    module = net.module(kernel="sharded", shards=3)
    alone = module(points)
    with over_cluster(module, address) as remote:
        first = remote(points)
        workers[0].send_signal(signal.SIGKILL)
        workers[0].wait()
        second = remote(points)
    torch.testing.assert_close(first, alone, rtol=0, atol=1e-13)
    np.testing.assert_array_equal(first, second)  # the tree of merges does not depend on who is alive
    assert error(net, points, second.numpy()) <= bound
    np.testing.assert_array_equal(module(points), alone)  # here again


def test_a_row_of_keys_in_shards(points):
    """Other networks than built ones, and two outputs."""
    network = row_network((500,))
    x = points[..., :1] / 6
    cut, dense = (
        AttentionNetwork(network, torch.float64, kernel=kernel, shards=shards)
        for kernel, shards in (("sharded", 7), ("dense", 1))
    )
    torch.testing.assert_close(cut(x), dense(x), rtol=0, atol=1e-11)
