"""Work shared among processes, of this machine or of a Dask cluster: the one place that tells joblib which.

Tasks go to loky where there are several ``workers``, to Dask where there is the address of a ``cluster``. What a task
needs travels with it: joblib would leave larger arrays with single workers of a cluster, and with such a worker they
would be lost. So whatever a killed worker was at, or had finished and not handed over, the scheduler gives to another.

Tasks should take about a second: one costs loky a millisecond, and Dask some 40.
"""

from __future__ import annotations

import socket
import warnings
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import BrokenExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

from attnforge.errors import TargetError

PATIENCE = 20.0  # seconds until a scheduler or its first worker must have answered
DEFAULT_PORT = 8786  # Dask's own


@dataclass(frozen=True)
class Processes:
    """Those that may share work: ``workers`` of this machine (-1: one a core), or the workers at ``cluster``.

    >>> with Processes(workers=2).sharing() as pool:
    ...     sorted(pool.each(divmod, [(7, 2), (9, 4)]))
    [(2, 1), (3, 1)]
    """

    workers: int = 1
    cluster: str | None = None

    @property
    def one(self) -> bool:
        """Whether there is this process alone."""
        return self.workers == 1 and self.cluster is None

    @contextmanager
    def sharing(self) -> Iterator[Pool]:
        """A pool, started or connected with at its first use, until the end."""
        with ExitStack() as opened:
            yield Pool(self, opened)


class Pool:
    """Processes that are at work as long as what they were opened for."""

    def __init__(self, processes: Processes, opened: ExitStack) -> None:
        self._processes, self._opened = processes, opened
        self._parallel: Any = None

    @property
    def size(self) -> int:
        """How many tasks run side by side."""
        from joblib import effective_n_jobs

        self._started()
        return int(effective_n_jobs(-1 if self._processes.cluster else self._processes.workers))

    def each(self, work: Callable[..., Any], arguments: Iterable[tuple[Any, ...]]) -> Iterator[Any]:
        """What ``work`` makes of each of the arguments, as it is finished, in whatever order."""
        from joblib import delayed

        try:
            yield from self._started()([delayed(_done)((work, given)) for given in arguments])
        except Exception as error:
            if type(error).__name__ == "KilledWorker":  # of Dask, which may be absent
                raise BrokenExecutor(" ".join(str(error).split())) from error
            raise

    def _started(self) -> Any:
        if self._parallel is None:
            import joblib

            self._opened.enter_context(warnings.catch_warnings())
            warnings.filterwarnings("ignore", "A worker stopped while some jobs", UserWarning)  # loky renews it
            self._opened.enter_context(joblib.parallel_config(**self._backend()))
            # Nothing is handed over in read-only files on disk (max_nbytes), which a function may not write to.
            pool = joblib.Parallel(return_as="generator_unordered", batch_size=1, pre_dispatch="all", max_nbytes=None)
            self._parallel = self._opened.enter_context(pool)
        return self._parallel

    def _backend(self) -> dict[str, Any]:
        """What joblib is to use. A cluster's size is the cluster's affair."""
        workers, cluster = self._processes.workers, self._processes.cluster
        if cluster is None:
            return {"backend": "loky", "n_jobs": workers, "inner_max_num_threads": 1}
        client = self._opened.enter_context(connected(cluster))
        return {"backend": "dask", "client": client, "wait_for_workers_timeout": PATIENCE, "n_jobs": -1}


def _done(task: tuple[Callable[..., Any], tuple[Any, ...]]) -> Any:
    """In a worker. One argument, a tuple: what joblib finds inside it, it does not leave with single workers."""
    work, arguments = task
    return work(*arguments)


@contextmanager
def connected(address: str) -> Iterator[Any]:
    """The client of a Dask scheduler that has workers; raises where Dask is missing, or nothing answers."""
    try:
        from distributed import Client
    except ImportError as error:
        requirement = "A cluster needs Dask, the extra `cluster`"
        raise TargetError(requirement, "no package distributed", "Run pip install 'attnforge[cluster]'") from error
    with ExitStack() as opened:
        connect: Any = Client
        try:
            _knock(address)
            client = opened.enter_context(connect(address, timeout=PATIENCE, set_as_default=False))
            client.wait_for_workers(1, timeout=PATIENCE)
        except (OSError, TypeError, ValueError, TimeoutError) as error:
            requirement = "`cluster` must be the address of a Dask scheduler with workers, such as tcp://host:8786"
            got = f"{address!r}: {type(error).__name__}: {error}"
            remedy = "Start `dask scheduler` and `dask worker ADDRESS`, and try again"
            raise TargetError(requirement, got, remedy) from error
        yield client


def _knock(address: str) -> None:
    """Raise an OSError where nothing listens: a socket says so before a client starts its threads."""
    from distributed.comm.addressing import parse_address, parse_host_port

    scheme, place = parse_address(address)
    if scheme in ("tcp", "tls"):
        socket.create_connection(parse_host_port(place, DEFAULT_PORT), PATIENCE).close()


def check_cluster(address: str | None) -> None:
    """Raise where an address is given and no scheduler with a worker answers there."""
    if address is not None:
        with connected(address):
            pass
