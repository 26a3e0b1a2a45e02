r"""Where a target's values lie on boxes: by its Lipschitz constant, or enclosed.

Of a callable with $|f(x) - f(y)| \le L\|x - y\|$ the range over a box with midpoint m and radii r is
$f(m) \pm L\|r\|$, on condition that L is right. A formula is a Taylor model on each of many boxes at once
(:mod:`attnforge.kernel.formula`) of degree 1, whose range is off by a multiple of $r^2$ only, and a ball of all its
values, which is better on large boxes. With more inputs than models are made for it is evaluated on intervals. A ReLU
network is one map and one clamp after the other of such models, an attention head a network of one layer
(:mod:`attnforge.kernel.run`), whose rounding in float64 is charged and not needed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import UnionType
from typing import Any

import numpy as np
import numpy.typing as npt
from flint import arb

from attnforge.effort import check_time
from attnforge.errors import CertificateError, TargetError
from attnforge.expression.evaluate import bounds
from attnforge.expression.intervals import Interval
from attnforge.expression.tree import Apply, Constant, Node, Variable
from attnforge.kernel.degrees import degrees
from attnforge.kernel.formula import formula_models
from attnforge.kernel.models import Models
from attnforge.kernel.run import run_network
from attnforge.kernel.theorem import Output
from attnforge.network import Attention, Head, Network, Rows
from attnforge.outward import MACHINES, Balls, precision
from attnforge.proving.statements import outputs_of
from attnforge.targets import (
    Activation,
    Affine,
    AttentionHead,
    Formula,
    Formulas,
    ReluNetwork,
    Target,
    TruncatedLinear,
)

Array = npt.NDArray[np.float64]
Range = Callable[[Array, Array], tuple[Array, Array]]

MOST_INPUTS = 4  # of a formula that is expanded
LARGE = 16  # a box is, where what an expansion leaves out is no smaller a part of the range than one of so many
BLURRED = 2.0**-46  # of a value: models at a point that are wider give way to balls of more bits
CHUNK = 8192  # points at which values are enclosed at a time

NORMS: dict[str, Callable[[Array], Array]] = {
    "sup": lambda r: r.max(axis=1),
    "l2": lambda r: np.sqrt(np.square(r).sum(axis=1)) * (1 + 2.0**-48),
    "l1": lambda r: r.sum(axis=1) * (1 + 2.0**-48),
}


def range_of(target: Target) -> Range:
    """A function from boxes, lower and upper corners (B, D), to lower and upper bounds (B, K) of the target there."""
    if isinstance(target, Formula):
        return enclosed_range(target, MOST_INPUTS)
    return _lipschitz(target)


def enclosed_range(target: Target, inputs: int) -> Range:
    """The same, proved: of formulas, truncated linear functions, ReLU networks and attention heads.

    The points of tokens are rows of all their features, and the values of all tokens are in a row, too. Models are made
    of formulas of at most so many inputs.
    """
    kinds: tuple[tuple[type | UnionType, Callable[[Any, int], Range]], ...] = (
        (Formula | Formulas | TruncatedLinear, _enclosed),
        (ReluNetwork, _rectified),
        (AttentionHead, _attended),
    )
    for kind, range_ in kinds:
        if isinstance(target, kind):
            return range_(target, inputs)
    wanted = "The range of a target is proved of what can be read: formulas, ReLU networks, truncated linear functions"
    raise TargetError(wanted, target.describe(), "Ask for net.range, which needs no target, or give a formula")


def target_models(target: Target, inputs: Models) -> Models:
    """The outputs (B, K) of formulas or of a ReLU network of one token, its inputs (B, D) being models."""
    if isinstance(target, Formula | Formulas):
        trees = (target.tree,) if isinstance(target, Formula) else target.trees
        return Models.joined([_model(tree, target.names, inputs).shaped(-1, 1) for tree in trees], -1)
    if isinstance(target, ReluNetwork):
        return _run(target, inputs.shaped(-1, 1, target.features)).shaped(inputs.shape[0], -1)
    wanted = "A target is enclosed as a function of its inputs where it can be read: formulas, ReLU networks"
    raise TargetError(wanted, target.describe(), "Give a formula")


def values_at(target: Target, points: Array) -> Balls:
    """Values (B, K) at points (B, D), all outputs of all tokens in a row: a formula's enclosed, a callable's as given.

    Models hold the formula's values within a few roundings of each operation, many points at once; where cancellation
    leaves less than that, balls of as many bits as it takes are asked.
    """
    if isinstance(target, Formulas):
        found = target.enclosed(points)
        return Balls(found.mid.reshape(len(points), -1), found.rad.reshape(len(points), -1))
    if not isinstance(target, Formula):
        return Balls.exact(seen_at(target, points))
    parts = []
    for first in range(0, len(points), CHUNK):
        check_time("enclosing values")
        parts.append(_formula_values(target, points[first : first + CHUNK]))
    return Balls(*(np.concatenate([getattr(part, name) for part in parts])[:, None] for name in ("mid", "rad")))


def _formula_values(target: Formula, points: Array) -> Balls:
    model = _model(target.tree, target.names, Models.constant(degrees(points.shape[1], 1), points))
    mid, rad = model.c[0].copy(), model.rest.values.copy()
    with np.errstate(invalid="ignore"):
        lost = np.flatnonzero(~(rad <= BLURRED * np.abs(mid)))
    if len(lost):
        found = target.enclosed(points[lost])
        mid[lost], rad[lost] = found.mid, found.rad
    return Balls(mid, rad)


def seen_at(target: Target, points: Array) -> Array:
    """Values (B, K) at points (B, D) in float64: to tell where to look, not for a bound."""
    found = np.asarray(target.values(points.reshape(-1, *target.domain.shape)), dtype=np.float64)
    return found.reshape(len(points), -1)


def _lipschitz(target: Target) -> Range:
    known = target.lipschitz()
    if known is None:
        raise CertificateError("This bound rests on a Lipschitz constant or a formula", "neither", "Pass lipschitz=")
    constant, norm = known.constant, NORMS[known.norm]

    def bounds_on(lower: Array, upper: Array) -> tuple[Array, Array]:
        middle = lower / 2 + upper / 2
        radius = np.maximum(upper - middle, middle - lower) * (1 + 2.0**-50)
        value, reach = seen_at(target, middle), constant * norm(radius)[:, None]
        reach = reach + 2.0**-50 * (np.abs(value) + reach)
        return value - reach, value + reach

    return bounds_on


def _enclosed(target: Formula | Formulas | TruncatedLinear, inputs: int) -> Range:
    def bounds_on(lower: Array, upper: Array) -> tuple[Array, Array]:
        entries = outputs_of(target, lower.shape[1] // target.domain.shape[-1])
        found = [_entry(each, lower, upper, inputs) for each in entries]
        return np.stack([low for low, _ in found], axis=1), np.stack([high for _, high in found], axis=1)

    return bounds_on


def _entry(entry: Output, lower: Array, upper: Array, inputs: int) -> tuple[Array, Array]:
    """The range (B,) of one output."""
    read = list(entry.inputs.values())
    lower, upper, names = lower[:, read], upper[:, read], tuple(entry.inputs)
    if len(read) > inputs:
        return _by_intervals(entry.tree, names, lower, upper)
    variables = Models.variables(degrees(len(read), 1), lower, upper)
    with np.errstate(all="ignore"):
        model = _model(entry.tree, names, variables)
        low, high = model.range()
        if len(large := np.flatnonzero(~(LARGE * model.rest.values <= high - low))):
            ends = _model(entry.tree, names, variables[large].flat()).range()
            low[large], high[large] = np.fmax(low[large], ends[0]), np.fmin(high[large], ends[1])
    return low, high


def _rectified(target: ReluNetwork, _: int) -> Range:
    def bounds_on(lower: Array, upper: Array) -> tuple[Array, Array]:
        boxes, size = lower.shape
        state = Models.variables(degrees(size, 1), lower, upper).shaped(boxes, size // target.features, target.features)
        low, high = _run(target, state).range()
        return low.reshape(boxes, -1), high.reshape(boxes, -1)

    return bounds_on


def _run(target: ReluNetwork, state: Models) -> Models:
    for stage in target.stages:
        state = _stage(stage, state)
    return state


def _stage(stage: Affine | Activation, state: Models) -> Models:
    if isinstance(stage, Affine):
        return state.through(stage.weight).less(-stage.bias)
    inner: Node
    inner = y = Variable("y")
    if stage.lower is not None:
        inner = Apply("max", (inner, Constant(stage.lower)))
    if stage.upper is not None:
        inner = Apply("min", (inner, Constant(stage.upper)))
    slope = Constant(stage.slope)
    rest = Apply("*", (Apply("+", (Constant(1.0), Apply("-", (slope,)))), inner))  # in models: of the exact 1 - slope
    tree = Apply("+", (Apply("*", (slope, y)), rest)) if stage.slope else inner
    return formula_models(tree, {"y": state.shaped(state.rest.values.size)}).shaped(*state.shape)


def _attended(target: AttentionHead, _: int) -> Range:
    head = Head(target.query, np.eye(target.outputs or 1), key=target.key, value=target.value, key_rows=Rows())
    network, features = Network((Attention((head,)),), len(target.query)), len(target.query)

    def bounds_on(lower: Array, upper: Array) -> tuple[Array, Array]:
        boxes, size = lower.shape
        state = Models.variables(degrees(size, 1), lower, upper).shaped(boxes, size // features, features)
        with np.errstate(all="ignore"):
            low, high = run_network(network, state, MACHINES["float64"]).range()
        return low.reshape(boxes, -1), high.reshape(boxes, -1)

    return bounds_on


def _model(tree: Node, names: Sequence[str], inputs: Models) -> Models:
    return formula_models(tree, {name: inputs[:, i] for i, name in enumerate(names)})


def _by_intervals(tree: Node, names: Sequence[str], lower: Array, upper: Array) -> tuple[Array, Array]:
    found = np.empty((len(lower), 2))
    with precision():
        for row, (low, high) in enumerate(zip(lower, upper, strict=True)):
            sides = {name: Interval(arb(a), arb(b)) for name, a, b in zip(names, low, high, strict=True)}
            found[row] = _outward(bounds(tree, sides))
    return found[:, 0], found[:, 1]


def _outward(found: Interval) -> tuple[float, float]:
    """Floats around an interval; everything where it is undefined."""
    if not (found.lower.is_finite() and found.upper.is_finite()):
        return -np.inf, np.inf
    low, high = float(found.lower), float(found.upper)
    return float(np.nextafter(low, -np.inf)), float(np.nextafter(high, np.inf))
