"""What is to be proved of a network, and what a proof says."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from attnforge.certification.certificate import LocalBound, Status
from attnforge.effort import NORMAL, Effort
from attnforge.network import Network
from attnforge.outward import Machine, add_up
from attnforge.targets import Box, Target

Array = npt.NDArray[np.float64]
Report = Callable[[float], None]


@dataclass(frozen=True, eq=False)
class Statement:
    """|run(x) - target(x)| <= bound for every x of the domain: the network with weights as the machine holds them.

    ``progress`` is told the fraction of the proof that is done. ``kernel`` is the one that runs, None for any that may
    be chosen.
    """

    run: Network
    target: Target
    domain: Box
    machine: Machine
    effort: Effort = NORMAL
    progress: Report | None = None
    kernel: str | None = None

    def about(self, target: Target) -> Statement:
        """The same network against another target on the same box."""
        return replace(self, target=target)


@dataclass(frozen=True, eq=False)
class Proof:
    """Named parts that add up to the bound, and what it rests on; ``limit`` is what kept it from being smaller.

    A bound that is infinite is none: then the search for it ended at the limit. ``registers`` are those of a graph,
    ``linear`` its bound on the whole domain at once and the sensitivities of the inputs, in whose errors it is linear;
    None where it is not.
    """

    parts: Mapping[str, float]
    status: Status = "proved"
    assumptions: tuple[str, ...] = ()
    limit: str | None = None
    registers: tuple[LocalBound, ...] = ()
    linear: tuple[float, tuple[float, ...]] | None = None

    @property
    def bound(self) -> float:
        """The sum of the parts."""
        return add_up(*self.parts.values())
