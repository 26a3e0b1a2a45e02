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
from attnforge.network import flatten, moved
from attnforge.runtime import AttentionNetwork, gathered, mean, merge, over_cluster, over_processes, partial
from tests.refusals import refused

pytestmark = pytest.mark.filterwarnings("ignore:the certificate covers")


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


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_shards_in_one_process_are_dense_attention(net, points, dtype):
    """To a few roundings of what is written and two thousand of what is summed, in float32 at least."""
    summed = torch.finfo(dtype if dtype == torch.float64 else torch.float32).eps / 2
    unit = 2 * torch.finfo(dtype).eps + 2000 * summed
    scale = max(float(np.abs(head.memory_values).max()) for head in net.network.heads)
    dense = net.module(dtype, kernel="dense")
    for shards in (1, 3):
        module = net.module(dtype, kernel="sharded", shards=shards)
        torch.testing.assert_close(module(points).double(), dense(points).double(), rtol=0, atol=unit * scale)
        torch.testing.assert_close(module.attention(points)[0][0], dense.attention(points)[0][0], rtol=0.02, atol=unit)


def test_blocks_of_few_keys_and_queries_give_the_same(monkeypatch, net, points):
    """Memory does not grow with keys."""
    module = net.module(kernel="sharded", shards=3)
    whole = module(points)
    monkeypatch.setattr("attnforge.runtime.sharded.KEYS", 64)
    monkeypatch.setattr("attnforge.runtime.sharded.HELD", 640)
    torch.testing.assert_close(module(points), whole, rtol=0, atol=1e-13)


def test_the_bound_of_a_sharded_run(net, points):
    found = af.certify(net, kernel="sharded")
    assert (found.status, found.kernels) == ("proved", ("sharded",))
    assert found.bound == af.certify(net, kernel="dense").bound
    assert "parts of at least 64" in found.assumptions[-1]
    assert error(net, points, net.module(kernel="sharded", shards=5)(points).numpy()) <= found.bound


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_changed_arrays_are_within_the_bound_of_their_own_numbers(dtype, points):
    """A run in shards is no further from the target than is proved of the changed network."""
    net = af.constructions.truncated_linear([1.0, -0.5], 0.25, -1, 2, anchors=130, dtype=dtype)
    rng, judged = np.random.default_rng(2), 0
    for name, array in flatten(net.network)[1].items():
        for size in (1e-6, 1e-3, 0.1) if array.dtype == np.float64 and "claims" not in name else ():
            noise = size * rng.normal(size=array.shape)
            try:
                other = net.with_network(moved(net.network, name, lambda each, noise=noise: each * (1 + noise)))
                found = af.certify(other, kernel="sharded", effort="low")
            except af.AttnforgeError:
                continue
            if found.bound is not None:
                x = points.to(getattr(torch, dtype))
                out = other.module(kernel="sharded", shards=2)(x).double().numpy()
                assert error(net, x.double(), out) <= found.bound, name
                judged += 1
    assert judged >= 4


REFUSED = {
    "few keys a shard": lambda net, few: net.module(kernel="sharded", shards=1000),
    "shards of another kernel": lambda net, few: net.module(shards=2),
    "shards to be trained": lambda net, few: net.module(kernel="sharded", trainable=True),
    "few keys": lambda net, few: few.module(kernel="sharded"),
    "few keys, certified": lambda net, few: af.certify(few, kernel="sharded"),
    "a cluster without shards": lambda net, few: over_cluster(net.module(), "tcp://127.0.0.1:1").__enter__(),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_cannot_be_sharded_is_refused(net, what):
    with refused(af.RefusalError):
        REFUSED[what](net, af.compile("relu(x)", {"x": (-1, 1)}, 1e-6))


def test_its_module_is_differentiated_and_diagnosed(net, points):
    module, dense = net.module(kernel="sharded", shards=3), net.module(kernel="dense")
    slopes = []
    for each in (module, dense):
        x = points.clone().requires_grad_()
        each(x).sum().backward()
        slopes.append(x.grad)
    torch.testing.assert_close(*slopes, rtol=0, atol=1e-7)
    assert af.diagnose(module, points).healthy == af.diagnose(dense, points).healthy


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
