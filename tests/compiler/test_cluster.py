"""A slow callable compiled by the workers of a cluster: one is killed, and the cache has all the others found."""

import math
import os
import signal
import threading
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import attnforge as af
from attnforge.effort import as_effort


class Slow:
    """A function that takes a while for every point, and writes down who was asked for how many of them."""

    def __init__(self, trace: Path) -> None:
        self.trace = str(trace)

    def __call__(self, x):
        with open(self.trace, "a") as file:
            file.write(f"{os.getpid()} {len(x)}\n")
        time.sleep(2e-3 * len(x))
        return np.sin(3 * x)

    def asked(self) -> list[tuple[int, int]]:
        lines = Path(self.trace).read_text().splitlines() if Path(self.trace).exists() else []
        return [(int(pid), int(rows)) for pid, rows in map(str.split, lines)]


@pytest.mark.slow
def test_a_worker_is_killed_and_what_was_found_is_kept(cluster, tmp_path):
    address, workers = cluster
    first, cache, pids = Slow(tmp_path / "trace"), tmp_path / "cache", {each.pid for each in workers}
    killed: list[int] = []

    def kill() -> None:
        """The first worker, once both have been asked."""
        while not killed:
            if {pid for pid, _ in first.asked()} >= pids:
                killed.append(workers[0].pid)
                workers[0].send_signal(signal.SIGKILL)
            time.sleep(0.02)

    threading.Thread(target=kill, daemon=True).start()
    effort = replace(as_effort("low"), seconds=math.inf)  # a search asks for as many points, whatever its pace
    net = af.compile(first, {"x": (0, 1)}, 1e-4, effort=effort, cluster=address, cache=cache)
    assert killed, "no worker was killed before the end"
    asked = first.asked()
    assert sum(rows for pid, rows in asked if pid in pids) > 0.25 * sum(
        rows for _, rows in asked
    )  # few at a time are not sent
    assert asked[-1][0] != killed[0]
    x = np.linspace(0, 1, 1000)
    assert np.abs(net(x) - np.sin(3 * x)).max() <= 1e-4
    again = Slow(tmp_path / "again")
    resumed = af.compile(again, {"x": (0, 1)}, 1e-4, effort=effort, cache=cache)
    told = sum(rows for _, rows in again.asked())  # five to see whose cache it is
    assert told <= 0.05 * sum(rows for _, rows in asked)
    assert resumed.certificate.digest == net.certificate.digest
