"""Cases measured side by side: by processes of this machine, or by the workers of a Dask cluster."""

from __future__ import annotations

import time
import traceback
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import joblib

from attnforge.errors import AttnforgeError, TargetError
from attnforge.experiments.experiment import Case, Experiment
from attnforge.experiments.journal import Entry

PATIENCE = 20  # seconds until a scheduler or its first worker must have answered


@dataclass(frozen=True)
class Outcome:
    """A case with what it gave, or with what went wrong: the parts of an error of ours, or a traceback."""

    case: Case
    entry: Entry | None
    failure: str = ""
    refusal: tuple[str, str | None, str | None] | None = None


def sweep(
    experiment: Experiment[Any], cases: Sequence[Case], *, workers: int, cluster: str | None
) -> Iterator[Outcome]:
    """Measure the cases and give each as it is finished, in whatever order.

    Cases that measure time or memory come last, one at a time, in this process. An error in a case is part of its
    outcome, so that it stops no other. When a worker of a cluster dies, the scheduler gives its case to another.
    """
    together = [case for case in cases if not experiment.alone(case)]
    yield from _together(experiment, together, workers, cluster)
    yield from (attempt(experiment, case) for case in cases if experiment.alone(case))


def attempt(experiment: Experiment[Any], case: Case) -> Outcome:
    """One case, on one thread: several workers with threads of their own would only compete."""
    start = time.perf_counter()
    try:
        with one_thread():
            rows = tuple({**case, **row} for row in experiment.measure(case))
    except AttnforgeError as error:
        return Outcome(case, None, str(error), (error.requirement, error.got, error.remedy))
    except Exception:
        return Outcome(case, None, traceback.format_exc())
    return Outcome(case, Entry(rows, time.perf_counter() - start))


@contextmanager
def one_thread() -> Iterator[None]:
    """Let torch use one thread, and then as many as before."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _together(
    experiment: Experiment[Any], cases: Sequence[Case], workers: int, cluster: str | None
) -> Iterator[Outcome]:
    if not cases:
        return
    with joblib.parallel_config(**_backend(workers, cluster)), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "A worker stopped while some jobs", UserWarning)  # loky renews it: no harm
        pool = joblib.Parallel(return_as="generator_unordered", batch_size=1, pre_dispatch="all")
        yield from pool(joblib.delayed(attempt)(experiment, case) for case in cases)


def _backend(workers: int, cluster: str | None) -> dict[str, Any]:
    """What joblib is to use. A cluster's size is the cluster's affair."""
    if cluster is None:
        return {"backend": "loky", "n_jobs": workers, "inner_max_num_threads": 1}
    check_cluster(cluster)
    return {"backend": "dask", "scheduler_host": cluster, "wait_for_workers_timeout": PATIENCE, "n_jobs": -1}


def check_cluster(address: str, patience: float = PATIENCE) -> None:
    """Raise where Dask is missing, or where no scheduler with a worker answers at the address."""
    try:
        from distributed import Client
    except ImportError as error:
        requirement = "A cluster needs Dask, the extra `cluster`"
        raise TargetError(requirement, "no package distributed", "Run pip install 'attnforge[cluster]'") from error
    try:
        connect: Any = Client
        with connect(address, timeout=patience, set_as_default=False) as client:
            client.wait_for_workers(1, timeout=patience)
    except (OSError, ValueError, TimeoutError) as error:
        requirement = "`cluster` must be the address of a Dask scheduler with workers, such as tcp://host:8786"
        got = f"{address!r}: {type(error).__name__}: {error}"
        raise TargetError(
            requirement, got, "Start `dask scheduler` and `dask worker ADDRESS`, and try again"
        ) from error
