"""Targets with transitions near an end, networks for them with and without keys that guard the ends, and their errors.

Networks are cells of [0, 1], and rows of heads that share anchors.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

import attnforge as af
from attnforge.experiments.clamp import several_heads, step
from attnforge.experiments.experiment import Row
from attnforge.experiments.table import Array
from attnforge.network import with_heads, without_keys

Target = Callable[[Array], Array]  # of (..., 1) arrays

SMOOTH = ("exp", "root")  # e^x, and sqrt(1 - x), whose slope is infinite at the end
NEAR = 2.0  # steps from an end that count as near it
MIDDLE = 16.0  # steps from both ends, at least, that count as the interior
LINE = af.Box(0, 1, shape=(1,))
CELLS = ("hard cells", "tuned cells, ghosts", "tuned cells, no ghosts")
TUNED, BARE = CELLS[1:]
FITTED = "fitted"  # a head on a grid of anchors, for comparison
TOL = 1e-6  # asked of it: it takes as many anchors as that needs
ENDS = (0.0, 2.0)  # of the clamp that heads share: not symmetric, so that what heads count twice cannot cancel
SENTINELS = 2  # a side
KINDS = ("hard", "tuned")
PLACES = ("correct", "shifted", "missing")  # of sentinels


def smooth_target(name: str) -> Target:
    """One of SMOOTH.

    >>> smooth_target("root")(np.array([[0.0], [0.75]])).tolist()
    [1.0, 0.5]
    """
    return lambda x: np.asarray(np.exp(x[..., 0]) if name == "exp" else np.sqrt(np.maximum(1 - x[..., 0], 0.0)))


def transition(name: str, width: float, at: float) -> Target:
    """A tanh of this width, a kink or a jump, at a place.

    >>> transition("jump", 0.0, 0.5)(np.array([[0.4], [0.5]])).tolist()
    [-1.0, 1.0]
    """

    def f(points: Array) -> Array:
        x = points[..., 0] - at
        if name == "tanh":
            return np.asarray(np.tanh(x / width))
        return np.abs(x) if name == "kink" else np.where(x >= 0, 1.0, -1.0)

    return f


def title(name: str, width: float) -> str:
    """What a transition is called in tables and figures."""
    return {"tanh": f"tanh, w = {width:g}", "kink": "kink |x - t|", "jump": "jump from -1 to 1"}[name]


def even_points(cells: int) -> Array:
    """Points of [0, 1], more of them near the upper end."""
    return np.unique(np.concatenate([np.linspace(0, 1, 20_001), np.linspace(1 - NEAR / cells, 1, 2001)]))


def looked_at(at: float, cells: int) -> Array:
    """Points of [0, 1]: everywhere, more of them near the end and near the transition, never on it."""
    h = 1 / cells
    around = at + np.linspace(-4 * h, 4 * h, 8001)
    close = at + np.concatenate([-np.geomspace(1e-9, h, 400), np.geomspace(1e-9, h, 400)])
    points = np.concatenate([even_points(cells), around, close])
    return np.unique(points[(points >= 0) & (points <= 1) & (points != at)])


def counted(x: Array, distance: float, cells: int) -> Array:
    """Points at which a transition is judged: the end's half of the domain, or if it is in the interior, the interior.

    A network without ghosts errs at the ends whatever the transition does.
    """
    margin = MIDDLE / 2 / cells
    return x[x >= 0.5] if distance < MIDDLE else x[(x >= margin) & (x <= 1 - margin)]


def cell_networks(f: Target, cells: int) -> dict[str, Callable[[Array], Array]]:
    """The three networks of cells, as functions of (N,) arrays."""
    hard = af.constructions.max_affine(f, LINE, cells=cells, sharpness="hard").network
    tuned = af.constructions.max_affine(f, LINE, cells=cells, sharpness="tuned").network
    networks = (hard, tuned, without_keys(tuned, "ghost"))
    return {name: as_function(network) for name, network in zip(CELLS, networks, strict=True)}


def as_function(network: af.Network) -> Callable[[Array], Array]:
    """A network of one token and one feature as a function of (N,) arrays."""
    return lambda x: network(x[:, None, None])[:, 0, 0]


def smooth_errors(name: str, cells: int) -> list[Row]:
    """Largest errors under a smooth target near the upper end, and in the middle half of the domain."""
    f, x = smooth_target(name), even_points(cells)
    places = {"end": x >= 1 - NEAR / cells, "inside": (x > 0.25) & (x < 0.75)}
    errors = {method: np.abs(run(x) - f(x[:, None])) for method, run in cell_networks(f, cells).items()}
    return [
        {"method": method, **{name: float(error[at].max()) for name, at in places.items()}}
        for method, error in errors.items()
    ]


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
    net = af.constructions.tensor_grid(f, LINE, tol=TOL)
    error = np.abs(as_function(net.network)(x) - f(x[:, None]))
    end = float(error[x >= 1 - NEAR / cells].max())
    return {"method": FITTED, "error": float(error.max()), "end": end, "anchors": net.anchors}


def shared_row(kind: str, heads: int, keys: int) -> af.Network:
    """A row of anchors dealt out to heads of so many keys, sentinels counted."""
    return several_heads(heads, keys, SENTINELS, kind, ENDS).network


def placed(network: af.Network, place: str) -> af.Network:
    """With sentinels where they belong, half a step further out, or nowhere."""
    if place == "correct":
        return network
    return without_keys(network, "sentinel") if place == "missing" else shifted(network, 0.5)


def borders(heads: int, keys: int) -> tuple[Array, float]:
    """Half-way between the last anchor of a head and the next one's first; and the step between two anchors."""
    own = keys - 2 * SENTINELS
    h = step(heads * own, *ENDS)
    return np.asarray(ENDS[0] + h * (own * np.arange(1, heads) - 0.5)), h


def border_errors(kind: str, place: str, heads: int, keys: int) -> Row:
    """Largest errors within one step of a border between heads, and farther than two."""
    y = np.linspace(*ENDS, 40_001)
    places, h = borders(heads, keys)
    away = np.abs(y[:, None] - places).min(axis=1) / h
    error = np.abs(as_function(placed(shared_row(kind, heads, keys), place))(y) - y)
    return {"border": float(error[away <= 1].max()), "inside": float(error[away > 2].max()), "step": h}


def shifted(network: af.Network, steps: float) -> af.Network:
    """The network with its sentinels moved outwards; keys are (kappa, kappa^2), counted in steps."""

    def moved(head: Any) -> Any:
        outwards = np.array([role == "sentinel" for role in head.claims.roles]) * np.sign(head.memory_keys[:, 0])
        kappa = head.memory_keys[:, 0] + steps * outwards
        return replace(head, memory_keys=np.stack([kappa, kappa**2], axis=1))

    return with_heads(network, moved)
