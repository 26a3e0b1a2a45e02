"""The public ``optimality``: how far the values of a head are from the best ones for its keys."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from attnforge.certification.optimality import Levelled, levelled
from attnforge.compiler.compiled import Compiled
from attnforge.compiler.runnable import check_runnable
from attnforge.display import Card, Displayed
from attnforge.errors import TargetError
from attnforge.network import rounded

Array = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Optimality(Displayed):
    """What no values can do better, beside what the network does.

    Attributes:
        lower: every choice of values for the network's keys errs by at least this much, in exact arithmetic; proved.
        error: the largest error of the network that was found.
        keys: distinct slopes of the head's scores; the points below are one more.
        points: where the errors of the best values found alternate in sign, all at least ``lower``.
    """

    lower: float
    error: float
    keys: int
    points: Array
    _net: Compiled
    _best: Levelled

    @property
    def gap(self) -> float:
        """The network's error, as measured, over the lower bound: 1 is optimal."""
        return self.error / self.lower if self.lower else float("inf")

    def __repr__(self) -> str:
        return f"Optimality(lower={self.lower:.4g}, error={self.error:.4g}, gap={self.gap:.4g}, keys={self.keys})"

    def _card(self) -> Card:
        said = f"no values for these keys err by less than {self.lower:.4g}"
        facts = {
            "largest error found": f"{self.error:.4g}",
            "times the least": f"{self.gap:.4g} (1 is optimal)",
            "keys": f"{self.keys:,}",
            "alternating points": f"{len(self.points):,}",
        }
        return Card("Optimality", "proved", said, facts)

    def plot(self, *, ax: Any = None, figsize: tuple[float, float] | None = None) -> Any:
        """A figure: the network's error and that of the best values, between plus and minus the lower bound.

        Args:
            ax: where to draw, as :mod:`attnforge.plot.panels` says; None makes a new figure.
            figsize: width and height of a new figure, in inches.
        """
        from attnforge.plot.optimality import optimality as figure

        net, grid = self._net, self._best.grid
        errors = np.asarray(net.target.values(grid[:, None])).ravel() - np.asarray(net(grid)).ravel()
        return figure(self._best, errors, net.construction, net.target.describe(), ax, figsize)


def optimality(net: Compiled) -> Optimality:
    r"""How far from optimal is a head? A proved lower bound on the error of every choice of values for its keys.

    The keys fix a space of p functions, none of which has p zeros. Values whose error alternates in sign at p + 1
    points, and is E at each, show that no values err by less than E: :mod:`attnforge.certification.optimality`.

    Args:
        net: one head over its own memory, of one input and one output; anything else is refused.

    >>> import attnforge as af
    >>> found = optimality(af.compile("exp(x)", {"x": (-1, 1)}, tol=1e-6))
    >>> 0 < found.lower <= found.error, found.gap < 1.5
    (True, True)
    """
    check_runnable("optimality", net)
    best, estimate = levelled(rounded(net.network, net.dtype), net.target), net.certificate.estimate
    if estimate is None or net.certificate.norm != "sup":
        got = "none" if estimate is None else f"one in {net.certificate.norm}"
        raise TargetError("`optimality` takes a measured error in the sup norm", got, "Certify the network anew")
    return Optimality(best.lower, estimate.error, best.keys, best.points, net, best)
