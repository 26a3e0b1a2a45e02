"""Networks of cells, hard, tuned, and tuned without ghosts, and what they err near the end of the domain."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

import attnforge as af
from attnforge.experiments.boundary.changed_keys import without
from attnforge.experiments.boundary.settings import NEAR
from attnforge.experiments.boundary.targets import (
    Target,
    counted,
    even_points,
    looked_at,
    smooth_target,
    transition,
)
from attnforge.experiments.experiment import Row

Array = npt.NDArray[np.float64]

CELLS = ("hard cells", "tuned cells, ghosts", "tuned cells, no ghosts")
TUNED, BARE = CELLS[1:]
FITTED = "fitted"  # a head on a grid of anchors, for comparison
TOL = 1e-6  # asked of it: it takes as many anchors as that needs


def cell_networks(f: Target, cells: int) -> dict[str, Callable[[Array], Array]]:
    """The three networks of cells, as functions of (N,) arrays."""
    box = af.Box(0, 1, shape=(1,))
    hard = af.constructions.max_affine(f, box, cells=cells, sharpness="hard").network
    tuned = af.constructions.max_affine(f, box, cells=cells, sharpness="tuned").network
    bare = without(tuned, "ghost")
    return {name: as_function(network) for name, network in zip(CELLS, (hard, tuned, bare), strict=True)}


def as_function(network: af.Network) -> Callable[[Array], Array]:
    """A network of one token and one feature as a function of (N,) arrays."""
    return lambda x: network(x[:, None, None])[:, 0, 0]


def smooth_errors(name: str, cells: int) -> list[Row]:
    """Largest errors under a smooth target near the upper end, and in the middle half of the domain."""
    f, x = smooth_target(name), even_points(cells)
    rows: list[Row] = []
    for method, run in cell_networks(f, cells).items():
        error = np.abs(run(x) - f(x[:, None]))
        inside = float(error[(x > 0.25) & (x < 0.75)].max())
        rows.append({"method": method, "end": float(error[x >= 1 - NEAR / cells].max()), "inside": inside})
    return rows


def transition_errors(name: str, width: float, distance: float, cells: int) -> list[Row]:
    """Largest errors under a target with a transition so many steps from the end."""
    at = 1 - distance / cells
    f, x = transition(name, width, at), counted(looked_at(at, cells), distance, cells)
    return [
        {"method": method, "error": float(np.abs(run(x) - f(x[:, None])).max())}
        for method, run in cell_networks(f, cells).items()
    ]


def fitted_errors(name: str, width: float, distance: float, cells: int) -> Row:
    """The same for a fitted head; steps are those of the cells it is compared with."""
    at = 1 - distance / cells
    f, x = transition(name, width, at), looked_at(at, cells)
    net = af.constructions.tensor_grid(f, af.Box(0, 1, shape=(1,)), tol=TOL)
    error = np.abs(as_function(net.network)(x) - f(x[:, None]))
    end = float(error[x >= 1 - NEAR / cells].max())
    return {"method": FITTED, "error": float(error.max()), "end": end, "anchors": net.anchors}
