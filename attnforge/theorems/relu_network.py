r"""A ReLU network becomes attention: one head a neuron (subsumption after Hu et al. 2025; the gate is ours).

Activations here are $\mathrm{act}(y) = s y + (1-s)\,\mathrm{clamp}(y, a, b)$ with one or both ends: ReLU, LeakyReLU,
Hardtanh, ReLU6. Each affine map of the network is a linear map; each neuron is a head that computes the clamp of its
feature: by a **gate** (own token and one or two constant keys, exact up to $0.28/\beta$), or by the papers'
**anchored** heads, $\mathrm{relu}(y) = \mathrm{Range}_{[0,B]}(y)$ on the range $[\,\cdot, B]$ that interval arithmetic
gives y on the domain. A leaky slope s > 0 adds one head whose only key is the token itself: it copies $s y$.

A piecewise affine formula (sums, multiples, abs, relu, min, max and clamp) *is* such a network, with the same numbers
(:mod:`attnforge.expression.rectified`): max(x, y) takes three heads.

Errors compose: activations with $0 \le s \le 1$ are 1-Lipschitz, so with local errors $\delta_l$ at layer l
$$ e_{l+1} \le |W_{l+1}|^T (e_l + \delta_l) , $$
entry by entry. For anchored heads the tolerance is split evenly over the layers, and each layer's share is divided by
what the later weights multiply it with.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from attnforge.anchors import tuned, uniform
from attnforge.anchors.temperature import gate_sharpness
from attnforge.errors import RefusalError, TargetError
from attnforge.lemmas.kink import kink
from attnforge.lemmas.leakage import interpolation
from attnforge.network import Attention, Claims, Head, Layer, Linear, Network, Rows, Term
from attnforge.targets import Activation, Affine, Box, Formula, ReluNetwork, Target
from attnforge.theorems.construction import Construction, Cost, Documentation, Law
from attnforge.theorems.gate import gate_head
from attnforge.theorems.truncated_linear import (
    TruncatedLinearHead,
    index_keys,
    reason_not_truncated,
    score_disturbance,
)

Array = npt.NDArray[np.float64]
Means = Literal["gate", "anchors"]


@dataclass(frozen=True)
class ReluPlan:
    """By gates, or by ``anchors[l]`` anchors for every neuron of activation l; ``reach`` is max |y| there."""

    by: Means
    reach: tuple[float, ...]
    anchors: tuple[int, ...] = ()
    dtype: str = "float64"


def _two_neurons() -> ReluNetwork:
    """relu(x - y) + relu(y) / 2 on the square."""
    first = Affine(np.array([[1.0, 0.0], [-1.0, 1.0]]), np.zeros(2))
    last = Affine(np.array([[1.0], [0.5]]), np.zeros(1))
    return ReluNetwork((first, Activation(0.0, None), last), Box(-1, 1, shape=(2,)))


class ReluNetworkConstruction(Construction[ReluPlan]):
    """One head a neuron."""

    name = "relu_network"
    function_class = "ReLU, LeakyReLU, Hardtanh, ReLU6 networks; piecewise affine formulas"
    rate = "exact to rounding by gates; O(1/p) by anchors"
    conditions = "p anchors a neuron; errors are carried through the absolute weights, layer by layer"
    reference = "Hu et al. 2025, subsumption; gate ours"
    documentation = Documentation(
        theorem="paper A, subsumption of ReLU networks; gates ours",
        hypotheses="a bounded box; anchored heads cover the range that interval arithmetic gives",
        bound="sup norm in and out: e_(l+1) <= |W|^T (e_l + delta_l), delta_l the gate's or the anchored head's",
        heads="1 a neuron, and 1 a layer of leaky slope",
        keys="2 or 3 a neuron; by anchors p",
        width="that of the layer, and 1",
        example='af.compile("max(x, 1 - x, abs(y))", {"x": (-1, 1), "y": (-1, 1)}, construction="relu_network")',
    )
    law = Law(
        target=_two_neurons,
        refused=lambda: Formula("sin(x)", Box([-1], [1])),
        tols=(0.1, 1e-9),
        order=math.inf,
    )

    def accepts(self, target: Target) -> str | None:
        """Networks read from torch, and formulas that are one."""
        if not isinstance(target, Formula):
            return None if isinstance(target, ReluNetwork) else "the target is not a ReLU network"
        try:
            target.rectified()
        except TargetError as error:
            return str(error)
        return None

    def offers(self, target: Target) -> str | None:
        """But not what a single gate computes."""
        if isinstance(target, Formula) and reason_not_truncated(target) is None:
            return "a single gate computes it"
        return self.accepts(target)

    def size(self, target: Target, tol: float, dtype: str) -> ReluPlan:
        """Gates at the finest sharpness of the dtype."""
        return gate_plan(_network(target), dtype)

    def cost(self, target: Target, plan: ReluPlan) -> Cost:
        """For each neuron two maps from the layer's width, one back, and its keys."""
        keys = parameters = 0
        for i, (stage, width) in enumerate(_activations(_network(target))):
            ends = (stage.lower is not None) + (stage.upper is not None)
            each = 1 + ends if plan.by == "gate" else plan.anchors[i]
            keys += width * each + (stage.slope != 0)
            parameters += width * (5 * (width + 1) + width + 4 * each)
        affine = sum(s.weight.size + 2 * s.bias.size for s in _network(target).stages if isinstance(s, Affine))
        return Cost.of(keys, parameters + affine)

    def build(self, target: Target, plan: ReluPlan) -> Network:
        """The weights: affine stages as linear maps that append a 1, activations as layers of heads."""
        network = _network(target)
        layers: list[Layer] = []
        ranges = network.ranges()
        at, width, with_one = 0, network.features, False
        for i, stage in enumerate(network.stages):
            if isinstance(stage, Affine):
                with_one = _is_activation(network, i + 1)
                layers.append(_affine(stage, with_one))
                width = stage.weight.shape[1]
                continue
            if not with_one:
                layers.append(_affine(Affine(np.eye(width), np.zeros(width)), True))
            lower, upper = ranges[i]
            layers.append(Attention(tuple(_activation(stage, lower, upper, plan, at))))
            at, with_one = at + 1, False
        tokens = network.domain.shape[0] if network.layout == "tokens" else 1
        return Network(tuple(layers), network.features, tokens, construction=ReluNetworkConstruction.name)

    def bound(self, target: Target, plan: ReluPlan) -> dict[str, float]:
        """``spacing``: local errors in exact arithmetic, carried through the absolute weights."""
        network = _network(target)
        error, at, ranges = np.zeros(network.features), 0, network.ranges()
        for i, stage in enumerate(network.stages):
            if isinstance(stage, Affine):
                error = np.abs(stage.weight.T) @ error * (1 + 2.0**-40)
            else:
                lower, upper = ranges[i]
                error = error + abs(1 - stage.slope) * _local(stage, lower, upper, plan, at)
                at += 1
        return {"spacing": float(error.max(initial=0.0)), "leakage": 0.0}


def gate_plan(network: ReluNetwork, dtype: str) -> ReluPlan:
    """Gates as sharp as the dtype can use: 4 / (u max|y|), layer by layer."""
    return ReluPlan("gate", _reach(network), dtype=dtype)


def anchor_plan(network: ReluNetwork, tol: float, dtype: str) -> ReluPlan:
    """The fewest anchors a layer so that each layer contributes an equal share of tol."""
    reach, row = _reach(network), interpolation(tuned())
    share = tol / max(len(reach), 1)
    counts = []
    for gain, length in zip(_gains(network), _lengths(network), strict=True):
        needed = length * row * gain / share + 1
        if not needed < 2**40:
            got = f"about {needed:.2g} anchors a neuron"
            raise RefusalError("Anchored heads must be countable", got, "Ask for a larger tol, or use gates")
        counts.append(max(2, math.ceil(needed)))
    return ReluPlan("anchors", reach, tuple(counts), dtype)


def even_plan(network: ReluNetwork, anchors: int, dtype: str) -> ReluPlan:
    """The same number of anchors for every neuron."""
    reach = _reach(network)
    return ReluPlan("anchors", reach, (anchors,) * len(reach), dtype)


def _network(target: Target) -> ReluNetwork:
    if isinstance(target, Formula):
        return target.rectified()
    if not isinstance(target, ReluNetwork):
        raise RefusalError("`relu_network` takes a torch nn.Sequential", target.describe(), "Pass the module itself")
    return target


def _is_activation(network: ReluNetwork, at: int) -> bool:
    return at < len(network.stages) and isinstance(network.stages[at], Activation)


def _activations(network: ReluNetwork) -> list[tuple[Activation, int]]:
    """The activations, with their widths."""
    ranges = network.ranges()
    return [(s, len(ranges[i][0])) for i, s in enumerate(network.stages) if isinstance(s, Activation)]


def _reach(network: ReluNetwork) -> tuple[float, ...]:
    """The largest |y|, or end of the clamp, at each activation; 1 where all are zero, which any sharpness serves."""
    numbers = []
    for stage, (lower, upper) in zip(network.stages, network.ranges(), strict=True):
        if isinstance(stage, Activation):
            ends = [abs(end) for end in (stage.lower, stage.upper) if end is not None]
            numbers.append(max(float(np.abs(lower).max()), float(np.abs(upper).max()), *ends) or 1.0)
    return tuple(numbers)


def _lengths(network: ReluNetwork) -> list[float]:
    """The longest interval an anchored head must cover, at each activation."""
    numbers = []
    for stage, (lower, upper) in zip(network.stages, network.ranges(), strict=True):
        if isinstance(stage, Activation):
            numbers.append(
                max(b - a for a, b in (_interval(stage, low, high) for low, high in zip(lower, upper, strict=True)))
            )
    return numbers


def _outputs(network: ReluNetwork) -> int:
    return next(len(stage.bias) for stage in reversed(network.stages) if isinstance(stage, Affine))


def _gains(network: ReluNetwork) -> list[float]:
    """What the later affine maps multiply an error at each activation with: the largest row sum of |W|...|W|."""
    gains, product = [], np.eye(_outputs(network))
    for stage in reversed(network.stages):
        if isinstance(stage, Affine):
            product = np.abs(stage.weight) @ product
        else:
            gains.append(max(float(product.sum(axis=0).max()), 1e-300))
    return gains[::-1]


def _affine(stage: Affine, with_one: bool) -> Linear:
    """The affine map; before an activation with a constant 1 as last feature."""
    if not with_one:
        return Linear((Term(stage.weight),), stage.bias[None])
    weight = np.hstack([stage.weight, np.zeros((len(stage.weight), 1))])
    return Linear((Term(weight),), np.append(stage.bias, 1.0)[None])


def _activation(stage: Activation, lower: Array, upper: Array, plan: ReluPlan, at: int) -> list[Head]:
    """A head a neuron, and a copying head for a leaky slope."""
    n = len(lower)
    heads = []
    for j in range(n):
        output = np.zeros((1, n))
        output[0, j] = 1 - stage.slope
        if plan.by == "gate":
            beta = gate_sharpness(plan.reach[at], plan.dtype)
            heads.append(gate_head(j, n + 1, stage.lower, stage.upper, beta, output))
        else:
            a, b = _interval(stage, lower[j], upper[j])
            heads.append(_anchored(j, n + 1, a, b, plan.anchors[at], plan.dtype, output))
    if stage.slope:
        heads.append(_copy(n, stage.slope))
    return heads


def _interval(stage: Activation, low: float, high: float) -> tuple[float, float]:
    """The clamp's interval, a missing end replaced by the range of y (kept non-empty)."""
    a = stage.lower if stage.lower is not None else min(low, stage.upper if stage.upper is not None else low)
    b = stage.upper if stage.upper is not None else max(high, a)
    return (a, b) if b > a else (a, a + max(abs(a), 1.0) * 1e-3)


def _anchored(feature: int, width: int, a: float, b: float, count: int, dtype: str, output: Array) -> Head:
    """A row of anchors on [a, b] along one feature of tokens whose last feature is 1."""
    positions, h = uniform(a, b, count)
    c, centre = tuned(score_disturbance(count, dtype)), count // 2
    keys = index_keys(np.arange(count, dtype=np.float64) - centre, dtype)
    query = np.zeros((width, keys.shape[1]))
    query[feature, 0], query[-1, 0], query[-1, 1:] = 2 * c / h, 2 * c * (-a / h - centre), -c
    claims = Claims(TruncatedLinearHead.name, c / h**2, positions, ("anchor",) * count)
    return Head(query, output, memory_keys=keys, memory_values=positions[:, None], claims=claims)


def _copy(n: int, slope: float) -> Head:
    """The token's own features times the slope: a softmax over one key is 1."""
    value = np.vstack([slope * np.eye(n), np.zeros((1, n))])
    return Head(np.zeros((n + 1, 1)), np.eye(n), key=np.zeros((n + 1, 1)), value=value, key_rows=Rows("own"))


def _local(stage: Activation, lower: Array, upper: Array, plan: ReluPlan, at: int) -> Array:
    """The local error of every neuron's head, in exact arithmetic."""
    if plan.by == "gate":
        return np.full(len(lower), kink(gate_sharpness(plan.reach[at], plan.dtype)))
    lengths = [b - a for a, b in (_interval(stage, low, high) for low, high in zip(lower, upper, strict=True))]
    c = tuned(score_disturbance(plan.anchors[at], plan.dtype))
    return np.array(lengths) / (plan.anchors[at] - 1) * interpolation(c) * (1 + 2.0**-40)
