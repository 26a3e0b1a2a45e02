"""Functions of d inputs in [0, 1], and networks for a tolerance: built, or only counted where they are too large."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

import attnforge as af
from attnforge.experiments.experiment import Case
from attnforge.experiments.table import Array
from attnforge.targets import Function
from attnforge.theorems.bumps import BumpPlan
from attnforge.theorems.max_affine import selection_cost
from attnforge.theorems.two_layer import TwoLayer

TARGETS = {
    "gaussian": "exp(-sum (x_j - 1/2)^2)",
    "decaying": "exp(-sum 4 (x_j - 1/2)^2 / j^2)",
    "additive": "sum sin(3 x_j + j)",
    "ridge": "sin(8 (x_1 - x_2 + x_3 - ...) / d)",
}
CELLS = ("hard cells", "two layers")  # the papers': one key a cell of a grid, G^d of them
BY_TOLERANCE = ("tensor grid", "sparse grid", "additive", "ridge")  # ours: as many keys as a tolerance needs
ALL = (*CELLS, *BY_TOLERANCE)
STRUCTURED = ("additive", "ridge")  # constructions, each for the target of its name
FEWEST = {"sparse grid": 5, "additive": 2, "ridge": 2}  # inputs below which there is nothing to gain, and a refusal
MOST = {  # inputs above which building is refused, or takes minutes
    "tensor grid": {"gaussian": 8, "decaying": 7, "additive": 5, "ridge": 6},
    "sparse grid": {"gaussian": 8, "decaying": 10, "additive": 10, "ridge": 7},
}
EXACT = 2**53  # counts above are written as real numbers


def target(name: str, x: Array) -> Array:
    """The target at points (..., d).

    >>> target("gaussian", np.full((1, 3), 0.5)).tolist()
    [1.0]
    """
    j = np.arange(1, x.shape[-1] + 1)
    match name:
        case "gaussian":
            return np.asarray(np.exp(-((x - 0.5) ** 2).sum(axis=-1)))
        case "decaying":
            return np.asarray(np.exp(-(4 * (x - 0.5) ** 2 / j**2).sum(axis=-1)))
        case "additive":
            return np.asarray(np.sin(3 * x + j).sum(axis=-1))
    return np.asarray(np.sin(8 * (x * (-1.0) ** (j + 1)).sum(axis=-1) / x.shape[-1]))


def lipschitz(name: str, d: int) -> float:
    r"""Of the target in the sup norm: a bound of the sum of its |partial derivatives|.

    For $e^{-s}$, $s = \sum_j c_j t_j^2$, that sum is $2 e^{-s} \sum_j c_j |t_j| \le 2 e^{-s}\sqrt{Cs}$ with
    $C = \sum_j c_j$ by Cauchy and Schwarz, and $\sqrt s e^{-s} \le 1/\sqrt{2e}$.

    >>> lipschitz("additive", 4), lipschitz("ridge", 4)
    (12.0, 8.0)
    """
    if name in ("gaussian", "decaying"):
        weight = float(d) if name == "gaussian" else sum(4 / j**2 for j in range(1, d + 1))
        return math.sqrt(2 * weight / math.e)
    return 3.0 * d if name == "additive" else 8.0


def inputs(construction: str, target: str, few: Sequence[int], many: Sequence[int]) -> list[int]:
    """The numbers of inputs in which a construction is tried on a target; many only where structure is used."""
    wanted = {*few, *(many if construction in STRUCTURED else ())}
    most = MOST.get(construction, {}).get(target, max(wanted))
    return sorted(d for d in wanted if FEWEST.get(construction, 1) <= d <= most)


def measured(case: Case) -> dict[str, Any]:
    """Keys, weights, seconds of processor time to build, and the largest error at fresh points."""
    started = time.process_time()
    try:
        net, keys, parameters = _made(case)
    except af.RefusalError as refusal:
        return _row(built=False, why=str(refusal).splitlines()[0][:200])
    if net is None:
        return _row(keys=keys, parameters=parameters, built=False, why=f"not built: would need {short(keys)} keys")
    seconds = time.process_time() - started
    error = af.measure(net, points=case["points"], seed=case["seed"] + 1).sup
    sizes = _row(keys=net.anchors, parameters=net.parameters, heads=net.heads, built=True, why="")
    return sizes | {"seconds": seconds, "error": error, "bound": net.certificate.bound}


def cells_an_axis(name: str, d: int, tol: float) -> int:
    """G with L h / 2 <= tol, h = 1 / G: what hard selection needs for the tolerance, L the Lipschitz constant.

    >>> cells_an_axis("ridge", 3, 0.1)
    40
    """
    return max(math.ceil(lipschitz(name, d) / (2 * tol) * (1 - 1e-12)), 1)


def _made(case: Case) -> tuple[Any, int, int]:
    """The network, or None where it has too many cells to be built, with its keys and weights."""
    name, d, tol = case["target"], case["d"], case["tol"]
    box = af.Box(0, 1, shape=(d,))
    if case["construction"] in BY_TOLERANCE:
        build = getattr(af.constructions, case["construction"].replace(" ", "_"))
        return build(lambda x: target(name, x), box, tol=tol), 0, 0
    count = cells_an_axis(name, d, tol)
    keys, parameters = _counted(case["construction"], box, count)
    if keys > case["cells"]:
        return None, keys, parameters
    cells: Any = {"cells" if case["construction"] == "hard cells" else "grid": count}
    build = af.constructions.max_affine if case["construction"] == "hard cells" else af.constructions.two_layer
    net = build(lambda x: target(name, x), box, sharpness="hard", lipschitz=lipschitz(name, d), **cells)
    return net, keys, parameters


def _counted(construction: str, box: Any, count: int) -> tuple[int, int]:
    """Keys and weights of G cells an axis, without building them."""
    function = Function(lambda x: x[..., 0], box)
    if construction == "two layers":
        cost = TwoLayer().cost(function, BumpPlan(count, 1.0))
    else:
        cost = selection_cost(function, count ** box.shape[0])
    return cost.anchors, cost.parameters


def _row(**cells: Any) -> dict[str, Any]:
    """All columns, those not given empty; counts that real numbers do not hold exactly become real numbers."""
    empty = dict.fromkeys(("keys", "parameters", "heads", "built", "seconds", "error", "bound", "why"))
    large = {k: float(v) for k, v in cells.items() if isinstance(v, int) and v > EXACT}
    return empty | cells | large


def short(count: int) -> str:
    """A count as a text.

    >>> short(40_000), short(40_000**10)
    ('40,000', '1.0e+46')
    """
    return f"{count:,}" if count < 1_000_000 else f"{float(count):.1e}"
