"""Temperature: the largest error against the sharpness c, in every dtype, and where the winning key is lost."""

from __future__ import annotations

import math
from typing import Any, cast

import numpy as np
import numpy.typing as npt

import attnforge as af
from attnforge.anchors import hard
from attnforge.errors import AttnforgeError, TargetError
from attnforge.progress import Told
from attnforge.web.calls import SKETCH, call_for
from attnforge.web.jobs.line import as_points, first_heads, inputs_along, keys_of, sharpness_of
from attnforge.web.limits import SHARPNESS
from attnforge.web.packing import finite
from attnforge.web.requests import Network
from attnforge.web.sampling import in_batches

Array = npt.NDArray[np.float64]

DTYPES = ("float64", "float32", "bfloat16", "float16")
SWEPT = ("max_affine", "tensor_grid", "truncated_linear")
RANGE, POINTS = (0.02, 300.0), 33  # sharpnesses, evenly in their logarithm
TUNED = (0.25, 3.0)  # between them weights overlap just enough: sampled values tie at 1 to 3, fitted ones like less
LOST = 0.01  # of the inputs with another winner than the nearest key: then the argmax counts as lost


def temperature(asked: Network, tell: Told) -> dict[str, Any]:
    """A curve a dtype for the construction of the view, and the regimes by name.

    Networks are built in float64 and run in every dtype, so that a curve shows what the dtype does and nothing else.
    """
    if asked.construction not in SWEPT:
        raise TargetError("Sharpness is swept in one row of anchors", asked.construction, f"Use {', '.join(SWEPT)}")
    base = asked.model_copy(update={"dtype": "float64"})
    ends = (max(min(RANGE[0], 2 / base.p**2), SHARPNESS[0]), RANGE[1])  # with a stretch of the uniform regime
    sharpnesses = np.geomspace(*ends, POINTS).tolist()
    rows: list[dict[str, tuple[float | None, float]]] = []
    for i, c in enumerate(sharpnesses):
        tell(i / POINTS, f"c = {c:.3g}")
        rows.append(_row(base.model_copy(update={"sharpness": c})))
    curves = {
        dtype: {"error": [row[dtype][0] for row in rows], "lost": [row[dtype][1] > LOST for row in rows]}
        for dtype in DTYPES
    }
    python = _lines(base, ends)
    return {"c": sharpnesses, "curves": curves, "regimes": regimes(base.p), "named": _named(base), "python": python}


def _lines(base: Network, ends: tuple[float, float]) -> str:
    """The curve of float64 in Python: beta is c times what it is at c = 1."""
    call = call_for(base.model_copy(update={"sharpness": 1.0}))
    imports, _, build = call.lines().splitlines()
    build = build.replace(f"sharpness={call.options['sharpness']!r}", f"sharpness=c * {call.options['sharpness']!r}")
    loop = f"for c in np.geomspace({ends[0]:.4g}, {ends[1]:g}, {POINTS}):"
    report = "    print(c, net.certificate.estimate.error)"
    return "\n".join(["import numpy as np", imports, "", loop, f"    {build}", report])


def _named(base: Network) -> dict[str, float | None]:
    """The sharpness that each regime by name comes to."""
    found: dict[str, float | None] = {}
    for name in ("hard", "tuned", "tolerance"):
        found[name] = sharpness_of(call_for(base.model_copy(update={"sharpness": name})).run(effort=SKETCH))
    return found


def regimes(p: int) -> list[dict[str, Any]]:
    """Names of stretches of c, for p anchors.

    Weights have a standard deviation of 1/sqrt(2c) steps: at c = 6/p^2 that of p equal weights, and the head averages
    all it holds. From c = ln(1/u) on a neighbour weighs less than a rounding: nothing but the staircase is left.
    """
    uniform, last = 6 / p**2, hard("float64")
    return [
        {"name": "uniform", "from": 0.0, "to": uniform},
        {"name": "soft", "from": uniform, "to": TUNED[0]},
        {"name": "tuned", "from": TUNED[0], "to": TUNED[1]},
        {"name": "steps", "from": TUNED[1], "to": last},
        {"name": "hard", "from": last, "to": RANGE[1]},
    ]


def _row(asked: Network) -> dict[str, tuple[float | None, float]]:
    """Largest error, None where it is not finite, and the share of inputs that lose their key, dtype by dtype."""
    try:
        net = call_for(asked).run(effort=SKETCH)
    except AttnforgeError:
        return dict.fromkeys(DTYPES, (None, 0.0))
    along = inputs_along(asked, first_heads(net))
    return {dtype: _in_dtype(net, along, dtype) for dtype in DTYPES}


def _in_dtype(net: af.Compiled, along: Array, dtype: str) -> tuple[float | None, float]:
    """At inputs that the dtype holds: rounding of inputs is not what is looked at."""
    import torch

    ends = (float(net.domain.lower.min()), float(net.domain.upper.max()))
    rounded = torch.from_numpy(along).to(getattr(torch, dtype)).double().clamp(*ends).numpy()
    points, module = as_points(net, rounded), cast(Any, net.module(dtype=dtype))
    with torch.no_grad():
        found = in_batches(net, lambda some: module(torch.from_numpy(some)).double().numpy().reshape(len(some)), points)
        weights = module.attention(torch.from_numpy(points))[0][0].double().numpy().reshape(len(along), -1)
    wanted = np.asarray(net.target.values(points), dtype=np.float64).reshape(len(along))
    error = float(np.abs(found - wanted).max()) if np.isfinite(found).all() else math.inf
    return finite(error), _lost(net, rounded, weights)


def _lost(net: af.Compiled, along: Array, weights: Array) -> float:
    """The share of inputs at which a key weighs more than the nearest, or than both where it is halfway between two."""
    at = np.array(keys_of(first_heads(net)[0])["x"])
    if len(at) < 2 or len(at) != weights.shape[1]:
        return 0.0
    broken = np.logical_not(np.isfinite(weights).all(axis=1)).reshape(-1)
    held = np.where(broken[:, None], 0.0, weights)
    distance, slack = np.abs(along[:, None] - at), 0.01 * float(np.diff(np.sort(at)).min())
    near = distance <= distance.min(axis=1, keepdims=True) + slack
    return float(np.mean(broken | (np.where(near, held, 0.0).max(axis=1) < held.max(axis=1))))
