"""A slow callable compiled by the workers of a cluster: one is killed, and the cache has all the others found."""

import math
import os
import signal
import threading
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import attnforge as af
from attnforge.effort import as_effort
from attnforge.targets.evaluation import BATCHES_A_WORKER, FIRST_BATCH
from tests.meeting import arrive, meeting, stuck


class Sent:
    """A function that writes down who was asked for how many points; the processes of a cluster meet there."""

    def __init__(self, trace: Path, port: int = 0, pids: frozenset[int] = frozenset()) -> None:
        self.trace, self.port, self.pids = str(trace), port, pids

    def __call__(self, x):
        with open(self.trace, "a") as file:
            file.write(f"{os.getpid()} {len(x)}\n")
        if os.getpid() in self.pids:
            arrive(self.port)
        return np.sin(3 * x)

    def asked(self) -> list[tuple[int, int]]:
        lines = Path(self.trace).read_text().splitlines() if Path(self.trace).exists() else []
        return [(int(pid), int(rows)) for pid, rows in map(str.split, lines)]


@pytest.mark.slow
def test_a_worker_is_killed_and_what_was_found_is_kept(cluster, tmp_path, clock, monkeypatch):
    """However quick the function is, it is sent; and its pace is not asked for, which takes fresh points."""
    monkeypatch.setattr("attnforge.targets.evaluation.WORTH_SENDING", 0.0)
    address, workers = cluster
    victim, cache, pids = workers[0].pid, tmp_path / "cache", frozenset(each.pid for each in workers)

    effort = replace(as_effort("low"), seconds=math.inf)
    with meeting(stuck(victim)) as place:

        def kill() -> None:
            """The first worker, in the middle of its second batch."""
            place.wait(lambda arrivals: arrivals[victim] == 2)
            workers[0].send_signal(signal.SIGKILL)

        threading.Thread(target=kill, daemon=True).start()
        first = Sent(tmp_path / "trace", place.port, pids)
        net = af.compile(first, {"x": (0, 1)}, 1e-4, effort=effort, cluster=address, cache=cache)
    assert place.arrivals[victim] == 2
    asked = first.asked()
    round_ = FIRST_BATCH * BATCHES_A_WORKER * len(workers)
    assert sum(rows for pid, rows in asked if pid in pids - {victim}) >= round_ - FIRST_BATCH  # but the victim's first
    assert asked[-1][0] != victim
    x = np.linspace(0, 1, 1000)
    assert np.abs(net(x) - np.sin(3 * x)).max() <= 1e-4
    again = Sent(tmp_path / "again")
    resumed = af.compile(again, {"x": (0, 1)}, 1e-4, effort=effort, cache=cache)
    told = sum(rows for _, rows in again.asked())  # five to see whose cache it is
    assert told <= 0.05 * sum(rows for _, rows in asked)
    assert resumed.certificate.digest == net.certificate.digest
