"""Heads that share a row of anchors, their sentinels correct, shifted or missing, and what they err at borders."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

import attnforge as af
from attnforge.experiments.boundary.cells import as_function
from attnforge.experiments.boundary.changed_keys import shifted, without
from attnforge.experiments.experiment import Row

Array = npt.NDArray[np.float64]

LOWER, UPPER = 0.0, 2.0  # of the clamp that heads share: not symmetric, so that what heads count twice cannot cancel
SENTINELS = 2  # a side
KINDS = ("hard", "tuned")
PLACES = ("correct", "shifted", "missing")  # of sentinels


def shared_row(kind: str, heads: int, keys: int) -> af.Network:
    """A row of anchors dealt out to heads of so many keys, sentinels counted."""
    return af.constructions.multihead_truncated_linear(
        [1.0],
        0.0,
        LOWER,
        UPPER,
        tokens=keys,
        heads=heads,
        sharpness=kind,
        sentinels=SENTINELS,
        domain=af.Box(LOWER, UPPER),
    ).network


def placed(network: af.Network, place: str) -> af.Network:
    """With sentinels where they belong, half a step further out, or nowhere."""
    if place == "correct":
        return network
    return without(network, "sentinel") if place == "missing" else shifted(network, 0.5)


def step(heads: int, keys: int) -> float:
    """Between two anchors of the row.

    >>> step(heads=3, keys=11)  # 21 anchors in all
    0.1
    """
    return (UPPER - LOWER) / (heads * (keys - 2 * SENTINELS) - 1)


def borders(heads: int, keys: int) -> Array:
    """Half-way between the last anchor of a head and the next one's first."""
    own = keys - 2 * SENTINELS
    return np.asarray(LOWER + step(heads, keys) * (own * np.arange(1, heads) - 0.5))


def border_errors(kind: str, place: str, heads: int, keys: int) -> Row:
    """Largest errors within one step of a border between heads, and farther than two."""
    y = np.linspace(LOWER, UPPER, 40_001)
    h = step(heads, keys)
    away = np.abs(y[:, None] - borders(heads, keys)).min(axis=1) / h
    error = np.abs(as_function(placed(shared_row(kind, heads, keys), place))(y) - y)
    return {"border": float(error[away <= 1].max()), "inside": float(error[away > 2].max()), "step": h}
