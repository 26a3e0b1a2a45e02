"""Every mutation of a built network, judged by prover and checker: no error measured is above what either says."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from attnforge.certification.certify import certify
from attnforge.certification.checker.check import check as check_certificate
from attnforge.compiler import Compiled
from attnforge.effort import NORMAL, Effort
from attnforge.errors import AttnforgeError
from attnforge.network import Network, digest
from tests.readers.built import built, error_of
from tests.readers.comparison import Tally
from tests.readers.mutations import Mutation, mutations

CELLS = 400  # the checker may look at: few are enough to confirm most of the networks as they were built


def judge_mutations(name: str, each: int, seed: int = 0, effort: Effort = NORMAL) -> Tally:
    """``each`` mutations of every field and array of the network of this name, proved with this effort."""
    tally, rng = Tally(), np.random.default_rng([seed, *name.encode()])
    for mutation in mutations(built(name).network, rng, each):
        judge(built(name), mutation, effort, tally, f"{name}, {mutation.what}")
    return tally


def judge(net: Compiled, mutation: Mutation, effort: Effort, tally: Tally, where: str) -> None:
    """One of them, by both."""
    tally.counts["mutations"] += 1
    try:
        network = mutation.make()
    except AttnforgeError:
        tally.counts["cannot be made"] += 1
        return
    try:
        error = error_of(Compiled(network, net.target, net.certificate, net.construction, net.dtype))
    except AttnforgeError:
        error = np.inf  # a network that does not take the target's inputs
    _prover(net, network, error, effort, tally, where)
    _checker(net, network, error, tally, where)


def _prover(net: Compiled, network: Network, error: float, effort: Effort, tally: Tally, where: str) -> None:
    try:
        found = certify(network, net.target, dtype=net.dtype, effort=effort)
    except AttnforgeError:
        tally.counts["prover: refused"] += 1
        return
    except Exception as failure:  # none but the project's own is expected
        tally.violations.append(f"{where}: prover raised {failure!r}")
        return
    tally.counts[f"prover: {found.status}"] += 1
    if found.bound is not None and not error <= found.bound:
        tally.violations.append(f"{where}: error {error:.6g}, proved {found.bound:.6g}")


def _checker(net: Compiled, network: Network, error: float, tally: Tally, where: str) -> None:
    """A forged certificate: the old bound, every digest of the new network."""
    bound = net.certificate.bound
    if bound is None or error <= bound:
        return
    forged = replace(net.certificate, digest=digest(network))
    try:
        found = check_certificate(network, net.target, forged, net.dtype, Effort(cells=CELLS))
    except Exception as failure:
        tally.violations.append(f"{where}: checker raised {failure!r}")
        return
    tally.counts[f"checker, of a false bound: {found.verdict}"] += 1
    if found.verdict == "confirmed":
        tally.violations.append(f"{where}: error {error:.6g}, confirmed {bound:.6g}")
