r"""Which way the error grows: gradients of $\sigma\,(\mathrm{net}_j - f_j)$ for an output j and a sign at every point.

The network's come from autograd, in float64 with the weights as they run: in float32 or less the error's slope would
drown in the rounding of the output. A formula's come from its derivative, those of other targets from differences.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from attnforge.expression import derivative, evaluate
from attnforge.network import Network, rounded
from attnforge.targets import Box, Formula, JointFunction, Target

Array = npt.NDArray[np.float64]
Indices = npt.NDArray[np.intp]
Gradient = Callable[[Array, Indices], Array]

BESIDE = 2.0**-17  # of a side, about the cube root of the roundoff: balances rounding and curvature in differences
AT_ONCE = 64  # points differentiated at a time, as every key's weight is kept
MOST = 16  # inputs differentiated by differences at a time, drawn anew for every gradient


def network_gradient(network: Network, target: Target, dtype: str) -> Gradient:
    """Gradients (N, ...) of the chosen outputs (N,) of the network at points (N, ...), by autograd."""
    import torch

    from attnforge.runtime import AttentionNetwork, JointModule, TargetModule

    core = AttentionNetwork(rounded(network, dtype), torch.float64)
    keep = target.outputs is not None
    module: TargetModule | JointModule
    if isinstance(target, JointFunction):
        module = JointModule(core, target.keys.shape, target.query.shape, keep)
    else:
        module = TargetModule(core, target.layout, keep)

    def gradient(points: Array, which: Indices) -> Array:
        parts = [
            _differentiated(module, target, points[i : i + AT_ONCE], which[i : i + AT_ONCE])
            for i in range(0, len(points), AT_ONCE)
        ]
        return _finite(np.concatenate(parts))

    return gradient


def _differentiated(module: Any, target: Target, points: Array, which: Indices) -> Array:
    import torch

    at = torch.tensor(points, requires_grad=True)
    given = target.split(at) if isinstance(target, JointFunction) else (at,)
    values = module(*given).reshape(len(points), -1)
    chosen = values[torch.arange(len(points)), torch.from_numpy(which)].sum()
    if not chosen.requires_grad:
        return np.zeros_like(points)
    return np.asarray(torch.autograd.grad(chosen, at)[0].numpy())


def target_gradient(target: Target, box: Box, rng: np.random.Generator) -> tuple[Gradient, int]:
    """Gradients of the chosen outputs of the target, and how many values of it one gradient costs.

    With more than ``MOST`` inputs the others get NaN: they are left alone in this step.
    """
    if isinstance(target, Formula):
        return _formula_gradient(target), 0
    size = box.lower.size
    return _difference_gradient(target, box, rng), 2 * min(size, MOST)


def _formula_gradient(target: Formula) -> Gradient:
    slopes = [derivative(target.tree, name) for name in target.names]

    def gradient(points: Array, _which: Indices) -> Array:
        columns = {name: points[..., i] for i, name in enumerate(target.names)}
        with np.errstate(all="ignore"):
            found = [np.broadcast_to(evaluate(slope, columns), len(points)) for slope in slopes]
        return _finite(np.stack(found, axis=-1).astype(np.float64))

    return gradient


def _difference_gradient(target: Target, box: Box, rng: np.random.Generator) -> Gradient:
    """Central differences, one-sided at the border, in extended precision where the target has it."""
    lower, upper = box.lower.ravel(), box.upper.ravel()
    step = (upper - lower) * BESIDE

    def gradient(points: Array, which: Indices) -> Array:
        flat, rows = points.reshape(len(points), -1), np.arange(len(points))
        found = np.full(flat.shape, np.nan)
        for i in rng.permutation(flat.shape[1])[:MOST].tolist():
            ends = []
            for moved in (flat[:, i] - step[i], flat[:, i] + step[i]):
                beside = flat.copy()
                beside[:, i] = np.clip(moved, lower[i], upper[i])
                values = target.values(beside.reshape(points.shape).astype(np.longdouble))
                ends.append((values.reshape(len(points), -1)[rows, which], beside[:, i].astype(np.longdouble)))
            (below, left), (above, right) = ends
            width = right - left
            slope = np.divide(above - below, width, out=np.zeros_like(width), where=width > 0)
            found[:, i] = np.where(np.isfinite(slope), slope, 0.0)
        return found.reshape(points.shape)

    return gradient


def _finite(found: Array) -> Array:
    """Zero where there is no slope: at a jump, beyond overflow."""
    return np.where(np.isfinite(found), found, 0.0)
