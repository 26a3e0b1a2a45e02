"""Two inputs: target, output, error, and the cells into which the head divides the plane."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

import attnforge as af
from attnforge.plot.partition import cells_of
from attnforge.progress import Told
from attnforge.web.calls import SKETCH, call_for
from attnforge.web.jobs.line import facts
from attnforge.web.packing import finite, packed
from attnforge.web.requests import Plane
from attnforge.web.sampling import in_batches, sample_at

Array = npt.NDArray[np.float64]

SIDE = 120  # points along each input: an even number seldom meets the borders of cells, where two keys tie


def plane(asked: Plane, tell: Told) -> dict[str, Any]:
    """Everything that the view of two inputs draws, on a grid of points."""
    call = call_for(asked)
    net: Any = call.run(effort=SKETCH, progress=tell)
    (_, (left, right)), (_, (low, high)) = asked.domain.items()
    x, y = np.linspace(left, right, SIDE), np.linspace(low, high, SIDE)
    points = np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2)
    sample = sample_at(net, points)
    at = int(np.argmax(np.where(np.isfinite(sample.error), sample.error, np.inf)))
    return {
        "names": list(asked.domain),
        "x": packed(x),
        "y": packed(y),
        "target": packed(sample.wanted[:, 0].reshape(SIDE, SIDE)),
        "output": packed(sample.found[:, 0].reshape(SIDE, SIDE)),
        "error": packed(sample.error.reshape(SIDE, SIDE)),
        "worst": {"at": points[at].tolist(), "error": finite(sample.error[at])},
        "cells": _cells(net, points),
        "centres": _centres(net),
        "facts": facts(net),
        "python": call.lines("print(net)"),
    }


def _cells(net: af.Compiled, points: Array) -> dict[str, Any]:
    """The number of the key with the largest score at every point, and a colour for it that no neighbour has."""
    head = net.network.heads[0]
    if head.claims is not None and {"cell", "centre"} & set(head.claims.roles):
        chosen = cells_of(net.network, net.target).scores(points).argmax(axis=1)
    else:
        chosen = in_batches(net, lambda some: net.attention(some)[0][0].reshape(len(some), -1).argmax(axis=1), points)
    winners = chosen.reshape(SIDE, SIDE)
    return {"winner": packed(winners), "colour": packed(coloured(winners))}


def coloured(winners: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Colours 0, 1, .. of the cells of a raster, each the smallest that no cell beside it has.

    >>> coloured(np.array([[5, 5, 7], [5, 2, 7]])).tolist()
    [[1, 1, 2], [1, 0, 2]]
    """
    pairs = np.vstack(
        [
            np.column_stack([winners[:, :-1].ravel(), winners[:, 1:].ravel()]),
            np.column_stack([winners[:-1].ravel(), winners[1:].ravel()]),
            np.column_stack([winners[:-1, :-1].ravel(), winners[1:, 1:].ravel()]),
            np.column_stack([winners[1:, :-1].ravel(), winners[:-1, 1:].ravel()]),
        ]
    )
    beside: dict[int, set[int]] = {int(cell): set() for cell in np.unique(winners)}
    for a, b in np.unique(pairs[pairs[:, 0] != pairs[:, 1]], axis=0).tolist():
        beside[a].add(b)
        beside[b].add(a)
    colours: dict[int, int] = {}
    for cell in sorted(beside):
        taken = {colours[other] for other in beside[cell] if other in colours}
        colours[cell] = next(colour for colour in range(len(beside)) if colour not in taken)
    places = np.zeros(int(winners.max()) + 1, dtype=np.int64)
    places[list(colours)] = list(colours.values())
    return np.asarray(places[winners])


def _centres(net: af.Compiled) -> dict[str, Any]:
    """Where keys sit, ghosts apart."""
    claims = net.network.heads[0].claims
    if claims is None or claims.forms is not None or claims.positions.shape[1:] != (2,):
        return {"inside": [], "ghosts": []}
    is_ghost = np.array([role == "ghost" for role in claims.roles])
    return {"inside": claims.positions[~is_ghost].tolist(), "ghosts": claims.positions[is_ghost].tolist()}
