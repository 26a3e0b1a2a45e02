"""What a verb may spend: effort, time, processes and threads, and who watches. Every verb's door goes through here."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypedDict

from attnforge.effort import NORMAL, Effort, as_effort, until, working
from attnforge.errors import RefusalError, ToleranceError, is_number
from attnforge.parallel import check_cluster
from attnforge.progress import SILENT, Progress, Watch, watched

if TYPE_CHECKING:
    from attnforge.certification import Certificate

RANKS = ("sampled", "conditional", "proved")


class Asked(TypedDict, total=False):
    """What every verb takes beside its own arguments.

    Keys:
        effort: ``"low"``, ``"normal"``, ``"high"`` or an ``af.Effort``: how hard to search and prove.
        timeout: seconds after which the best so far is returned with its honest status, or refused.
        workers: processes, where work can be shared; -1 is one a processor.
        cluster: the address of a Dask scheduler, whose workers share it instead.
        require: ``"proved"`` or ``"conditional"``: a lesser certificate is refused.
        max_bytes: a network of more is refused, with what it would take; 2 GiB unless given.
        progress: True for a bar on the standard error stream, or a callable that is told (fraction, text).
    """

    effort: str | Effort | None
    timeout: float | None
    workers: int
    cluster: str | None
    require: str | None
    max_bytes: int | None
    progress: Progress


@dataclass(frozen=True, eq=False)
class Budget:
    """An effort, a least status, a largest size, and a watch that is told how far it is."""

    effort: Effort = NORMAL
    require: str | None = None
    watch: Watch = SILENT
    max_bytes: int | None = None

    def lacks(self, certificate: Certificate) -> str | None:
        """Why the certificate is less than what is required; None where it is not."""
        least = RANKS.index(self.require or RANKS[0])
        if RANKS.index(certificate.status) >= least:
            return None
        return f"its certificate would be {certificate.status} only: {'; '.join(certificate.assumptions)}"

    def accepted(self, certificate: Certificate, name: str) -> None:
        """Refuse a certificate that is less than what is required."""
        lacks = self.lacks(certificate)
        if lacks is not None:
            remedy = "Raise timeout or effort, state a Lipschitz constant, or leave require out"
            raise RefusalError(f"`{name}` must reach require={self.require!r}", lacks, remedy)


UNLIMITED = Budget()


@contextmanager
def budget(
    effort: str | Effort | None = None,
    timeout: float | None = None,
    workers: int = 1,
    require: str | None = None,
    progress: Progress = False,
    cluster: str | None = None,
    max_bytes: int | None = None,
) -> Iterator[Budget]:
    """What was asked for, checked and in force."""
    if require is not None and require not in RANKS:
        raise RefusalError(f"`require` must be one of {', '.join(RANKS)}", repr(require)[:80], "Use 'proved'")
    check_limit("max_bytes", max_bytes)
    found = as_effort(effort, workers, cluster)
    check_cluster(found.cluster)
    with until(timeout), working(found), one_thread(), watched(progress) as watch:
        yield Budget(found, require, watch, max_bytes)


def positive(tol: float) -> float:
    """The tolerance asked for: a positive number."""
    try:
        if 0 < tol < math.inf:
            return float(tol)
    except (TypeError, OverflowError):
        pass
    raise ToleranceError("`tol` must be a positive number", repr(tol)[:80], "Ask for 1e-3, say")


def check_limit(name: str, most: float | None) -> None:
    """Raise unless a limit of size is a number, or none is set."""
    if most is not None and not is_number(most):
        raise RefusalError(f"`{name}` must be a number", repr(most)[:80], "Leave it out for no other limit")


@contextmanager
def one_thread() -> Iterator[None]:
    """One thread for linear algebra, in NumPy and in torch.

    More cores are for ``workers``. And the order in which a fit's sums are added up, hence its last bits, would depend
    on the number of threads: with one, the same call gives the same bytes everywhere.
    """
    import torch
    from threadpoolctl import threadpool_limits

    before = torch.get_num_threads()
    with threadpool_limits(1):
        torch.set_num_threads(1)
        try:
            yield
        finally:
            torch.set_num_threads(before)
