"""The public ``certify``: a network or a compiled target, with what was seen added to what was proved."""

from __future__ import annotations

from typing import Any, overload

from attnforge.certification import Certificate
from attnforge.certification.certify import certify as prove
from attnforge.certification.enclosure.cost import Cost, cost
from attnforge.certification.program_certificate import ProgramCertificate
from attnforge.certification.rules import is_expanded
from attnforge.certification.statement import Statement
from attnforge.compiler.budget import UNLIMITED, Budget, budget
from attnforge.compiler.compiled import Compiled
from attnforge.compiler.estimating import with_estimate
from attnforge.compiler.runnable import Uncertified
from attnforge.compiler.targets import as_target, compared_with
from attnforge.effort import Effort, as_effort
from attnforge.errors import CertificateError
from attnforge.network import Network
from attnforge.outward import machine
from attnforge.programs.running import ProgramNetwork
from attnforge.progress import Progress
from attnforge.targets import PromptTarget, Target

OWN = "Leave out target, domain and kernel"
KERNELS = ("dense", "batched", "factorised", "window", "sharded")


@overload
def certify(network: ProgramNetwork) -> ProgramCertificate: ...


@overload
def certify(
    network: Network | Compiled,
    target: Any = None,
    domain: Any = None,
    *,
    effort: str | Effort | None = None,
    timeout: float | None = None,
    workers: int = 1,
    cluster: str | None = None,
    require: str | None = None,
    progress: Progress = False,
    kernel: str | None = None,
) -> Certificate: ...


def certify(
    network: Network | Compiled | ProgramNetwork,
    target: Any = None,
    domain: Any = None,
    *,
    effort: str | Effort | None = None,
    timeout: float | None = None,
    workers: int = 1,
    cluster: str | None = None,
    require: str | None = None,
    progress: Progress = False,
    kernel: str | None = None,
) -> Certificate | ProgramCertificate:
    """Prove a bound of |network - target| on the domain, from network and target alone: an ``af.Certificate``.

    Of a compiled program it is the ``ProgramCertificate`` for all sequences, proved once more from the weights.

    Args:
        network: a Network (run in float64), a Compiled, which brings its own target, domain and dtype, or a program's.
        target: what it is compared with, as for :func:`compile`; needed for a bare Network.
        domain: where; defaults to the target's own.
        effort: ``"low"``, ``"normal"``, ``"high"`` or an ``af.Effort``: how hard to prove.
        timeout: seconds after which the bound proved so far is stated, or none: then it is ``sampled``.
        workers: processes that share a long proof; -1 for all cores.
        cluster: the address of a Dask scheduler, whose workers share it instead.
        require: ``"proved"`` or ``"conditional"``: refuse a certificate that says less.
        progress: True shows how far the proof is; a callable is told (fraction, text).
        kernel: ``"dense"``, ``"batched"``, ``"factorised"``, ``"window"`` or ``"sharded"``, for a run by that alone
            (``net.module(kernel=...)``); refused where it cannot serve.
    """
    if isinstance(network, ProgramNetwork):
        return _certified_program(network, target, domain, kernel)
    if kernel not in (None, *KERNELS):
        raise CertificateError(f"`kernel` must be one of {', '.join(KERNELS)}", repr(kernel), "Leave it out for all")
    against, construction, dtype = _asked(network, target, domain)
    judged = network.network if isinstance(network, Compiled) else network
    if isinstance(against, PromptTarget):
        return prove(judged, against, dtype=dtype)
    with budget(effort, timeout, workers, require, progress, cluster) as given:
        proved_anew = certified(judged, against, construction, dtype, given, kernel=kernel).certificate
    given.accepted(proved_anew, construction)
    return proved_anew


def _certified_program(network: ProgramNetwork, target: Any, domain: Any, kernel: str | None) -> ProgramCertificate:
    if (target, domain, kernel) != (None, None, None):
        got = "another target, domain or kernel"
        raise CertificateError("A program is certified for its own sequences, as every kernel runs", got, OWN)
    return network.certify()


def _asked(network: Any, target: Any, domain: Any) -> tuple[Target, str, str]:
    """What it is compared with, what it is called, and what it runs in."""
    if isinstance(network, Compiled):
        return compared_with(network.target, target, domain), network.construction, network.dtype
    if not isinstance(network, Network):
        got = type(network).__name__
        raise CertificateError("A compiled network, or a Network, is certified", got, "Pass what af.compile returns")
    if target is None:
        raise CertificateError("A bare network is certified against a target", "none", "Pass target= and domain=")
    return as_target(target, domain), "network", "float64"


def proof_cost(compiled: Compiled | ProgramNetwork, effort: str | Effort | None = None) -> Cost | None:
    """About how long proving its bound again will take; None where that is not known beforehand."""
    if isinstance(compiled, ProgramNetwork):
        return None
    given, model = as_effort(effort), machine(compiled.dtype)
    if not is_expanded(Statement(compiled.network, compiled.target, compiled.target.domain, model, given)):
        return None
    return cost(compiled.network, compiled.target, compiled.target.domain, model, given)


def certified(
    network: Network,
    target: Target,
    construction: str,
    dtype: str,
    budget: Budget = UNLIMITED,
    reason: str = "asked for by name",
    kernel: str | None = None,
) -> Compiled:
    """The network with its certificate: the bound, and the largest error a quick search finds."""
    effort, report = budget.effort, budget.watch.step(f"proving {construction}")
    proved = prove(network, target, dtype=dtype, progress=report, effort=effort, kernel=kernel)
    budget.watch.say(f"measuring {construction}")
    bare = Uncertified(network, target, dtype)
    certificate = with_estimate(proved, bare, effort)
    return Compiled(network, target, certificate, construction, dtype, reason).sharing(bare)
