"""What all tests share: hypothesis profiles, figures without a display, one thread a process, clusters."""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.clock import Clock

os.environ.setdefault("MPLBACKEND", "Agg")  # before anything imports matplotlib
os.environ.setdefault("OMP_NUM_THREADS", "1")  # before anything imports torch: small problems, several processes
os.environ.setdefault(
    "ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16"
)  # as scripts/setup.sh: tiles may be announced, not given

# No deadline: the first example of a test may pay for importing torch. The same examples everywhere; others are drawn
# where somebody looks for failures, with HYPOTHESIS_PROFILE=random.
_COMMON = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("same", derandomize=True, max_examples=50, **_COMMON)
settings.register_profile("random", max_examples=200, **_COMMON)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "same"))

SLOW = ("experiments", "test_notebooks.py", "test_site.py")  # folders and files that ./test leaves to --all


@pytest.fixture(params=["compiled", "torch"])
def window_version(request, monkeypatch):
    """Both versions of the window kernel, whatever the batch."""
    monkeypatch.setattr("attnforge.runtime.window.COMPILED", 0 if request.param == "compiled" else float("inf"))
    return request.param


Cluster = tuple[str, list[subprocess.Popen[bytes]]]
CHECKOUT = Path(__file__).resolve().parents[1]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what a gate has no time for."""
    tests = Path(__file__).parent
    for item in items:
        if item.path.is_relative_to(tests) and item.path.relative_to(tests).parts[0] in SLOW:
            item.add_marker(pytest.mark.slow)


def pytest_configure() -> None:
    """How many points the search beside a proof looks at hangs on the pace of a target: here, no value takes time."""
    Clock().install(pytest.MonkeyPatch(), "measurement.pace")


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """What the package looks at instead of a clock, wherever one decides what is done."""
    found = Clock()
    found.install(monkeypatch)
    return found


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    """The address of a scheduler, and the processes of its two workers, which a test may kill."""
    with running_cluster(tmp_path) as found:
        yield found


@pytest.fixture(scope="session")
def standing_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a scheduler with two workers, for all tests that kill none."""
    with running_cluster(tmp_path_factory.mktemp("cluster")) as (address, _):
        yield address


@contextmanager
def running_cluster(folder: Path) -> Iterator[Cluster]:
    """A scheduler and two workers, as processes of their own that know the checkout."""
    from distributed import Client

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"tcp://127.0.0.1:{free.getsockname()[1]}"
    surroundings = {**os.environ, "PYTHONPATH": str(CHECKOUT), "OMP_NUM_THREADS": "1"}
    scheduler = ["from distributed.cli.dask_scheduler import main; main()", "--host", address, "--no-dashboard"]
    worker = ["from distributed.cli.dask_worker import main; main()", address, "--nthreads", "1", "--no-nanny"]
    started = []
    for words in (scheduler, [*worker, "--no-dashboard"], [*worker, "--no-dashboard"]):
        with (folder / f"log{len(started)}").open("wb") as log:
            command = [sys.executable, "-c", *words]
            started.append(subprocess.Popen(command, cwd=folder, env=surroundings, stdout=log, stderr=log))
    try:
        with Client(address, timeout=60, set_as_default=False) as client:
            client.wait_for_workers(2, timeout=60)
        yield address, started[1:]
    finally:
        for process in started:
            process.kill()
            process.wait()
