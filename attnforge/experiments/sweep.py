"""Cases measured side by side: by processes of this machine, or by the workers of a Dask cluster."""

from __future__ import annotations

import time
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from attnforge.errors import AttnforgeError
from attnforge.experiments.experiment import Case, Measuring
from attnforge.experiments.journal import Entry
from attnforge.parallel import Processes


@dataclass(frozen=True)
class Outcome:
    """A case with what it gave, or with what went wrong: the parts of an error of ours, or a traceback."""

    case: Case
    entry: Entry | None
    failure: str = ""
    refusal: tuple[str, str | None, str | None] | None = None


def sweep(experiment: Measuring, cases: Sequence[Case], *, workers: int, cluster: str | None) -> Iterator[Outcome]:
    """Measure the cases and give each as it is finished, in whatever order.

    Cases that measure time or memory come last, one at a time, in this process. An error in a case is part of its
    outcome, so that it stops no other. When a worker of a cluster dies, the scheduler gives its case to another.
    """
    together = [case for case in cases if not experiment.alone(case)]
    with Processes(workers, cluster).sharing() as pool:
        yield from pool.each(attempt, ((experiment, case) for case in together)) if together else ()
    yield from (attempt(experiment, case) for case in cases if experiment.alone(case))


def attempt(experiment: Measuring, case: Case) -> Outcome:
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
