"""The labels of a network that was made for a target: in its names, on its domain, tried at its points."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from attnforge.labels.labels import Labels, labels_of
from attnforge.network import Network
from attnforge.targets import JointFunction, Target

POINTS = 64  # at which claimed formulas are tried


def target_labels(network: Network, target: Target | None, tried: bool = False) -> Labels:
    """The labels, with names of the target's inputs; ``tried``: claimed formulas compared with the heads at points."""
    if target is None:
        return labels_of(network)
    names, box = target.columns or _names(network, target), None
    if target.layout == "function" and target.domain.shape == (network.features,):
        box = target.domain
    points = _points(network, target) if tried and box is not None else None
    return labels_of(network, names, box, columns=target.columns, points=points)


def _names(network: Network, target: Target) -> tuple[str, ...]:
    """Of the features of a token: the user's, Y of two inputs, else x, or x0, x1 and so on."""
    if target.names is not None and len(target.names) == network.features:
        return target.names
    letter = "Y" if isinstance(target, JointFunction) else "x"
    count = network.features
    return (letter,) if count == 1 else tuple(f"{letter}{i}" for i in range(count))


def _points(network: Network, target: Target) -> npt.NDArray[np.float64]:
    """Points (N, 1, d) of the domain, the same every time."""
    box = target.domain
    share = np.random.default_rng(0).uniform(size=(POINTS, 1, network.features))
    return np.clip(box.lower + share * (box.upper - box.lower), box.lower, box.upper)
