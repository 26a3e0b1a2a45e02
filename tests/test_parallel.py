"""Work that processes share: each task once, in whatever order; a worker that is killed takes nothing with it."""

import os
import signal
import threading
from concurrent.futures import BrokenExecutor

import numpy as np
import pytest

import attnforge as af
from attnforge.parallel import Processes, connected
from tests.meeting import arrive, meeting, stuck
from tests.refusals import refused


def total(array, port):
    arrive(port)
    return float(array.sum())


NOWHERE = "tcp://127.0.0.1:1"
VERBS = {
    "compile": lambda: af.compile(lambda x: 1 / 0, {"x": (0, 1)}, cluster=NOWHERE),
    "compile at nonsense": lambda: af.compile(lambda x: 1 / 0, {"x": (0, 1)}, cluster="nonsense://"),
    "certify": lambda: af.certify(af.compile("relu(x)", {"x": (-1, 1)}, 1e-6), cluster=NOWHERE),
    "a construction": lambda: af.constructions.tensor_grid("x^2", {"x": (0, 1)}, tol=1e-3, cluster=NOWHERE),
}


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_refuses_an_address_without_a_scheduler_before_it_works(monkeypatch, verb):
    monkeypatch.setattr("attnforge.parallel.PATIENCE", 0.5)
    with refused(af.TargetError):
        VERBS[verb]()


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
    monkeypatch.setattr("attnforge.certification.enclosure.several_inputs.BLOCK", 2**12)
    sent = []
    monkeypatch.setattr("attnforge.parallel.connected", lambda address: sent.append(address) or connected(address))
    net = af.compile("sin(3*x)*cos(2*y)", {"x": (-1, 1), "y": (-1, 1)}, 1e-5, construction="tensor_grid")
    shared = af.certify(net, cluster=standing_cluster)
    assert shared.status == "proved"
    assert len(sent) == 2  # to see whether it answers, and by the proof
    assert (shared.bound, shared.parts) == (net.certificate.bound, net.certificate.parts)
