"""What all tests share: hypothesis profiles, figures without a display, one thread a process, clusters."""

import os
import socket
import subprocess
import sys
from collections import Counter
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
THINNED = {  # tests of many long cases: the gate takes every so many of them, evenly, and leaves the others to --all
    "attacks/test_check.py": {
        "test_another_bound": 3, "test_another_domain": 3, "test_hostile_metadata": 3,
        "test_no_changed_weight_is_confirmed": 4, "test_tensors_of_another_kind": 3, "test_the_files_themselves": 3,
    },
    "attacks/test_program_mutations.py": {"test_what_is_still_proved_of_a_changed_network_is_true": 3},
    "certification/test_figures.py": {"test_figures_are_true_and_what_they_were": 4},
    "certification/test_prompts.py": {"test_every_array_of_a_block": 2},
    "compiler/test_scales.py": {"test_scales_are_met_or_refused": 2},
    "export/test_formats.py": {"test_random_networks": 2},
    "in_context/test_certificates.py": {"test_the_certificate_of_the_box_covers_its_prompts": 2},
    "in_context/test_regression.py": {"test_two_hundred_steps_stay_with_the_exact_iteration": 3},
    "laws/test_bounds.py": {"test_an_attack_does_not_exceed_the_bound": 3, "test_ranges_hold_the_outputs": 4},
    "laws/test_files.py": {"test_two_builds_have_the_same_bytes": 3},
    "laws/test_hostile_formulas.py": {"test_what_is_proved_holds_in_fifty_digits": 2},
    "laws/test_in_context_mutations.py": {"test_no_change_is_confirmed_or_proved_beyond_its_error": 2},
    "laws/test_run_modes.py": {"test_every_run_stays_inside_its_bound": 2},
    "laws/test_views.py": {"test_it_can_be_drawn": 6, "test_it_can_be_read": 3},
    "plot/test_panels.py": {
        "test_a_part_of_the_callers_figure_gets_the_panels_it_needs": 4,
        "test_panels_of_the_callers_are_drawn_into_and_returned": 4,
    },
    "readers/test_mutations.py": {"test_no_mutation_is_proved_or_confirmed_beyond_its_error": 3},
    "readers/test_ranges.py": {"test_a_changed_network_lies_in_its_own_range": 3},
    "readers/test_readers.py": {
        "test_kernels_lie_in_the_same_enclosures": 2, "test_runs_lie_in_the_checkers_enclosures": 2,
    },
}  # fmt: skip


@pytest.fixture(params=["compiled", "torch"])
def window_version(request, monkeypatch):
    """Both versions of the window kernel, whatever the batch."""
    monkeypatch.setattr("attnforge.runtime.window.COMPILED", 0 if request.param == "compiled" else float("inf"))
    return request.param


Cluster = tuple[str, list[subprocess.Popen[bytes]]]
CHECKOUT = Path(__file__).resolve().parents[1]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what a gate has no time for."""
    tests, counts = Path(__file__).parent, Counter[tuple[str, str]]()
    for item in items:
        if not item.path.is_relative_to(tests):
            continue
        path, name = item.path.relative_to(tests), item.name.partition("[")[0]
        every = THINNED.get(path.as_posix(), {}).get(name, 1)
        if path.parts[0] in SLOW or counts[path.as_posix(), name] % every:
            item.add_marker(pytest.mark.slow)
        counts[path.as_posix(), name] += 1


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
