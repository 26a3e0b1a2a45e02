"""Work that processes share: each task once, in whatever order; a worker that is killed takes nothing with it."""

import os
import signal
import sys
import threading
from concurrent.futures import BrokenExecutor

import numpy as np
import pytest

import attnforge as af
from attnforge.certification.enclosure import several_inputs
from attnforge.errors import TargetError
from attnforge.parallel import Processes, check_cluster
from tests.meeting import arrive, meeting, stuck


def total(array, port):
    arrive(port)
    return float(array.sum())


def test_one_process_is_asked_of_two_numbers():
    assert Processes().one
    assert not Processes(workers=2).one
    assert not Processes(cluster="tcp://127.0.0.1:1").one


def test_nothing_is_started_before_there_is_work():
    with Processes(cluster="nowhere").sharing():
        pass


def test_an_address_without_a_scheduler_is_refused(monkeypatch):
    monkeypatch.setattr("attnforge.parallel.PATIENCE", 0.5)
    check_cluster(None)
    for address in ("tcp://127.0.0.1:1", "nonsense://"):
        with pytest.raises(TargetError, match="address of a Dask scheduler"):
            check_cluster(address)


def test_every_verb_refuses_such_an_address_before_it_works(monkeypatch):
    monkeypatch.setattr("attnforge.parallel.PATIENCE", 0.5)
    never = pytest.raises(TargetError, match="address of a Dask scheduler")
    with never:
        af.compile(lambda x: 1 / 0, {"x": (0, 1)}, cluster="tcp://127.0.0.1:1")
    net = af.compile("relu(x)", {"x": (-1, 1)}, 1e-6)
    with never:
        af.certify(net, cluster="tcp://127.0.0.1:1")
    with never:
        af.constructions.tensor_grid("x^2", {"x": (0, 1)}, tol=1e-3, cluster="tcp://127.0.0.1:1")


def test_a_missing_package_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(TargetError, match=r"attnforge\[cluster\]"):
        check_cluster("tcp://127.0.0.1:1")


def test_a_function_that_ends_its_process_is_told_of():
    with Processes(workers=2).sharing() as pool, pytest.raises(BrokenExecutor):
        list(pool.each(os._exit, [(1,), (1,)]))


@pytest.mark.slow
def test_a_killed_worker_takes_no_arguments_with_it(cluster):
    """Arrays of 16 kB: joblib alone would leave each with one worker, and lose those of the one that is killed."""
    address, workers = cluster
    arrays, victim = [np.full(2000, i / 2000.0) for i in range(12)], workers[0].pid
    with meeting(stuck(victim)) as place, Processes(cluster=address).sharing() as pool:
        assert pool.size == 2
        threading.Thread(target=killed, args=(workers[0], place), daemon=True).start()
        found = list(pool.each(total, [(array, place.port) for array in arrays]))
    assert np.allclose(sorted(found), np.arange(12.0))
    assert place.arrivals[victim] == 2
    assert place.arrivals.total() > 12  # some were begun twice


def killed(worker, place):
    """In the middle of its second task."""
    place.wait(lambda arrivals: arrivals[worker.pid] == 2)
    worker.send_signal(signal.SIGKILL)


@pytest.mark.slow
def test_boxes_of_a_proof_are_shared_by_a_cluster(standing_cluster, monkeypatch):
    """Blocks of few boxes, so that a short proof is shared: the same bound, to the last bit."""
    monkeypatch.setattr(several_inputs, "BLOCK", 2**12)
    sent = []
    monkeypatch.setattr("attnforge.parallel.connected", counting(sent))
    net = af.compile("sin(3*x)*cos(2*y)", {"x": (-1, 1), "y": (-1, 1)}, 1e-5, construction="tensor_grid")
    shared = af.certify(net, cluster=standing_cluster)
    assert shared.status == "proved"
    assert len(sent) == 2  # to see whether it answers, and by the proof
    assert (shared.bound, shared.parts) == (net.certificate.bound, net.certificate.parts)


def counting(sent):
    from attnforge.parallel import connected

    def spy(address):
        sent.append(address)
        return connected(address)

    return spy
