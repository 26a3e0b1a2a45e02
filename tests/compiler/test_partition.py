"""The cell of a point: the key that attends most."""

import numpy as np
import pytest

import attnforge as af
from attnforge.anchors import Adaptive
from attnforge.compiler import partition as module
from attnforge.compiler.partition import partition
from attnforge.constructions import gate, max_affine


def total(x):
    return x.sum(axis=-1)


@pytest.mark.parametrize("shape", [(), (5,), (3, 4)])
def test_one_index_a_point(shape):
    net = max_affine(total, af.Box(0, 1, shape=(2,)), cells=(3, 5), sharpness="hard")
    x = np.random.default_rng(0).random((*shape, 2))
    wanted = np.floor(x[..., 0] * 3) * 5 + np.floor(x[..., 1] * 5)
    found = partition(net, x)
    assert found.shape == shape
    assert found.dtype == np.int64
    assert np.array_equal(found, wanted)


def test_one_input_takes_numbers():
    net = max_affine(total, af.Box(0, 1, shape=(1,)), cells=10, sharpness="hard")
    assert partition(net, 0.55) == 5
    assert partition(net, [0.05, 0.95]).tolist() == [0, 9]
    assert partition(net, [[0.05], [0.95]]).tolist() == [0, 9]
    assert partition(net, []).shape == (0,)


def test_ghosts_have_numbers_too():
    net = max_affine(total, af.Box(0, 1, shape=(1,)), cells=10)
    positions = net.network.heads[0].claims.positions[:, 0]
    x = np.array([0.031, 0.62])
    assert np.array_equal(partition(net, x), np.abs(x[:, None] - positions).argmin(axis=1))


def test_all_tokens_share_their_cell():
    net = max_affine(lambda x: np.sort(x, axis=-2), af.Box(0, 1, shape=(3, 1)), cells=Adaptive(20))
    x = np.random.default_rng(0).random((6, 3, 1))
    centres = net.network.heads[0].claims.positions[:20]
    distance = np.linalg.norm(x.reshape(6, 1, 3) - centres, axis=-1)
    assert np.array_equal(partition(net, x), distance.argmin(axis=1))


def test_large_batches_run_in_pieces(monkeypatch):
    net = max_affine(total, af.Box(0, 1, shape=(2,)), cells=4, sharpness="hard")
    x = np.random.default_rng(0).random((100, 2))
    whole = partition(net, x)
    monkeypatch.setattr(module, "CHUNK", 64)
    assert np.array_equal(partition(net, x), whole)


def test_other_constructions_and_points_outside_are_refused():
    with pytest.raises(af.RefusalError, match=r"Only max_affine divides its domain.*Got a network of gate\. Use net"):
        partition(gate([1.0], 0.0, -1, 1), [[0.0]])
    with pytest.raises(af.DomainError, match="certified domain"):
        partition(max_affine(total, af.Box(0, 1, shape=(2,)), cells=4, sharpness="hard"), [0.5, 2.0])
