"""Every mutation of a built network, judged by prover and checker: no error measured is above what either says."""

from __future__ import annotations

import tempfile
from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

import attnforge as af
from attnforge.network import Network, digest
from tests.readers.built import THOROUGH, built, error_of
from tests.readers.mutations import Mutation, mutations

CELLS = 400  # the checker may look at: few are enough to confirm most of the networks as they were built
FALSE = ("No measured error may exceed", "must be Lipschitz with constant")  # what a search beside a proof finds


@dataclass
class Tally:
    """What was found: counts by reader and outcome, and every violation in words."""

    counts: Counter[str] = field(default_factory=Counter)
    violations: list[str] = field(default_factory=list)

    def plus(self, other: Tally) -> Tally:
        """What both found."""
        return Tally(self.counts + other.counts, self.violations + other.violations)


def judge_mutations(name: str, each: int, seed: int = 0, effort: af.Effort = THOROUGH) -> Tally:
    """``each`` mutations of every field and array of the network of this name, proved with this effort."""
    tally, rng = Tally(), np.random.default_rng([seed, *name.encode()])
    for mutation in mutations(built(name).network, rng, each):
        judge(built(name), mutation, effort, tally, f"{name}, {mutation.what}")
    return tally


def judge(net: Any, mutation: Mutation, effort: Any, tally: Tally, where: str) -> None:
    """One of them, by both."""
    tally.counts["mutations"] += 1
    try:
        network = mutation.make()
    except af.AttnforgeError:
        tally.counts["cannot be made"] += 1
        return
    try:
        error = error_of(replace(net, network=network))
    except af.AttnforgeError:
        error = np.inf  # a network that does not take the target's inputs
    _prover(net, network, error, effort, tally, where)
    _checker(net, network, error, tally, where)


def certify(network: Network, net: Any, effort: Any) -> af.Certificate:
    """The network against the target of another, in its dtype."""
    return af.certify(replace(net, network=network), effort=effort)


def _prover(net: Any, network: Network, error: float, effort: Any, tally: Tally, where: str) -> None:
    try:
        found = certify(network, net, effort)
    except af.AttnforgeError as reason:
        tally.counts["prover: refused"] += 1
        if any(text in str(reason) for text in FALSE):
            tally.violations.append(f"{where}: {reason}")
        return
    except Exception as failure:  # none but the project's own is expected
        tally.violations.append(f"{where}: prover raised {failure!r}")
        return
    tally.counts[f"prover: {found.status}"] += 1
    if found.bound is not None and not error <= found.bound:
        tally.violations.append(f"{where}: error {error:.6g}, proved {found.bound:.6g}")


def _checker(net: Any, network: Network, error: float, tally: Tally, where: str) -> None:
    """A forged certificate in a file that fits together: the old bound, every digest of the new network."""
    bound = net.certificate.bound
    if bound is None or error <= bound:
        return
    forged = replace(net, network=network, certificate=replace(net.certificate, digest=digest(network)))
    try:
        with tempfile.TemporaryDirectory() as folder:
            forged.save(Path(folder) / "net")
            found = af.check(Path(folder) / "net", cells=CELLS)
    except af.FileFormatError:
        tally.counts["checker, of a false bound: no file"] += 1
        return
    except Exception as failure:
        tally.violations.append(f"{where}: checker raised {failure!r}")
        return
    tally.counts[f"checker, of a false bound: {found.verdict}"] += 1
    if found.verdict == "confirmed":
        tally.violations.append(f"{where}: error {error:.6g}, confirmed {bound:.6g}")
