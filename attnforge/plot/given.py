"""What is handed to a figure: compiled targets told from other things, and numbers from NumPy, torch or lists."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from attnforge.errors import TargetError
from attnforge.labels import Labels, target_labels
from attnforge.network import Network
from attnforge.targets import Target

Array = npt.NDArray[np.float64]


def check_compiled(net: Any, figure: str) -> None:
    """Refuse what has no target on a box of points: bare networks, in-context networks, prompts.

    >>> import attnforge as af
    >>> check_compiled(af.constructions.gate([1.0], 0.0, -1, 1).network, "section")
    Traceback (most recent call last):
    attnforge.errors.TargetError: plot.section draws a compiled target. Got Network, which is none. Use \
plot.graph, or what af.compile, af.constructions or af.load return.
    """
    target = getattr(net, "target", None)
    if isinstance(target, Target) and target.layout != "prompt" and isinstance(getattr(net, "network", None), Network):
        return
    remedy = "Use plot.graph, or what af.compile, af.constructions or af.load return"
    if hasattr(net, "compiled"):
        remedy = "Pass its .compiled"
    elif not isinstance(net, Network) and not hasattr(net, "network"):
        remedy = "Pass what af.compile, af.constructions or af.load return"
    raise TargetError(f"plot.{figure} draws a compiled target", f"{type(net).__name__}, which is none", remedy)


def network_of(net: Any) -> Network:
    """The network itself, or the one that a compiled target or an in-context network holds."""
    found = net if isinstance(net, Network) else getattr(net, "network", None)
    if isinstance(found, Network):
        return found
    remedy = "Pass its .compiled" if hasattr(net, "compiled") else "Pass a network, or what af.compile returns"
    raise TargetError("plot.graph draws a network", f"{type(net).__name__}, which holds none", remedy)


def labels_for(net: Any) -> Labels:
    """The labels of a network, or of the one that it holds, in the names of the inputs of its target."""
    return target_labels(network_of(net), getattr(net, "target", None))
