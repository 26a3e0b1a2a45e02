r"""A network of gates or rows of anchors against a feed-forward network, followed side by side.

At every stage the target's features lie in known intervals and the run is off by at most e. An affine stage with the
target's W, b and the network's $\tilde W, \tilde b$ takes e to
$$ |\tilde W|^T e + |\tilde W - W|^T |z| + |\tilde b - b| + \gamma_k(|\tilde W|^T|z| + |\tilde b|) . $$
An activation is Lipschitz with constant $\max(1, |s|)$ and carries e through. What its heads add is the distance
between them and the activation, as a function of the one feature they read, over all values the run can take: cells.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import numpy.typing as npt
from flint import arb

from attnforge.balls import Machine, gamma, lower, machine, upper
from attnforge.certification.checker.formula import FormulaOn
from attnforge.certification.checker.layers import attention, is_alone, run
from attnforge.certification.checker.rounding import SLACK
from attnforge.certification.checker.search import Box, Outcome, distance, exactly, halves
from attnforge.certification.checker.space import Form, Space
from attnforge.certification.checker.taylor import ONE, ZERO, Cell
from attnforge.certification.checker.values import Place, Value, constant
from attnforge.effort import check_time
from attnforge.errors import CertificateError
from attnforge.network import Attention, Layer, Linear, Network
from attnforge.targets import Activation, Affine, ReluNetwork
from attnforge.targets.expression.simplify import of, plus, times
from attnforge.targets.expression.tree import Constant, Node, Variable

Array = npt.NDArray[np.float64]
Report = Callable[[float], None]
State = tuple[Array, Array, Array]  # the target's features from below and above, and how far the run may be off

ORDER, CELLS = 4, 400
POINTS = 64  # random ones, at which a false bound may show
REMAINS = 8.0  # roundoffs of the largest value: an error that need not be cut further
Y = "y"


def compare(network: Network, target: ReluNetwork, bound: float, dtype: str, progress: Report) -> Outcome:
    """Whether the run stays within the bound of the target: first at some points, for a witness, then everywhere."""
    model = machine(dtype)
    seen, at = _attained(network, target, model)
    if seen > bound:
        return Outcome("refuted", 0.0, seen, at, POINTS)
    reached, cells = _side_by_side(network, target, model, progress)
    return Outcome("confirmed" if reached <= bound else "undecided", reached, seen, at, cells)


def _attained(network: Network, target: ReluNetwork, model: Machine) -> tuple[float, tuple[float, ...]]:
    """The largest error at random points of the domain that the run cannot fall below, and where."""
    low, high = np.atleast_2d(target.domain.lower), np.atleast_2d(target.domain.upper)
    tokens = np.arange(POINTS) % len(low)  # points of every token's own box
    worst, at = 0.0, tuple(low[0].tolist())
    with exactly(1), np.errstate(all="ignore"):
        space = Space(low.min(axis=0).tolist(), high.max(axis=0).tolist())
        shares = np.random.default_rng(0).random((POINTS, low.shape[1]))
        for point in np.clip(low[tokens] * (1 - shares) + high[tokens] * shares, low[tokens], high[tokens]).tolist():
            place = Place(space, Cell(tuple(point), tuple(point), 1), model)
            for output, value in zip(run(place, network, 1, 0.0)[0](), _values(target, point), strict=True):
                apart = lower(abs(output.model.at[0] - value)) - output.off
                worst, at = (apart, tuple(point)) if apart > worst else (worst, at)
    return worst, at


def _values(target: ReluNetwork, point: list[float]) -> list[arb]:
    """The target at a point, by balls."""
    values = [arb(x) for x in point]
    for stage in target.stages:
        if isinstance(stage, Affine):
            columns = zip(stage.weight.T.tolist(), stage.bias.tolist(), strict=True)
            values = [sum((v * w for v, w in zip(values, c, strict=True) if w), start=arb(b)) for c, b in columns]
        else:
            values = [_activated(stage, v) for v in values]
    return values


def _activated(stage: Activation, y: arb) -> arb:
    cut = y if stage.lower is None else y.max(arb(stage.lower))
    cut = cut if stage.upper is None else cut.min(arb(stage.upper))
    return cut if not stage.slope else arb(stage.slope) * y + (1 - arb(stage.slope)) * cut


def _ends(target: ReluNetwork) -> tuple[Array, Array]:
    """The box of a token; tokens share it."""
    return np.atleast_2d(target.domain.lower).min(axis=0), np.atleast_2d(target.domain.upper).max(axis=0)


def _side_by_side(network: Network, target: ReluNetwork, model: Machine, progress: Report) -> tuple[float, int]:
    """A bound of the distance between run and target over all outputs, and the cells looked at."""
    low, high = _ends(target)
    size = np.maximum(np.abs(low), np.abs(high))
    once = 0.0 if model.name == "float64" else model.roundoff * (1 + 2.0**-10)
    state: State = low, high, once * size + (model.underflow if once else 0.0)
    layers, cells = iter(network.layers), 0
    marked = False  # whether the features are followed by a constant 1
    for done, stage in enumerate(target.stages):
        if isinstance(stage, Affine):
            state, marked = _affine(stage, _next(layers, Linear), state, model)
        else:
            if not marked:
                identity = Affine(np.eye(len(state[0])), np.zeros(len(state[0])))
                state, marked = _affine(identity, _next(layers, Linear), state, model)
            if not marked:
                raise CertificateError("The heads of an activation read a constant 1 beside the features", "none")
            state, looked = _activation(stage, _next(layers, Attention), state, model)
            cells, marked = cells + looked, False
        if not np.isfinite(state[2]).all():
            return np.inf, cells
        progress((done + 1) / len(target.stages))
    if marked or next(layers, None) is not None:
        raise CertificateError("The network has the layers of the target, no more", "further layers", "Rebuild it")
    return float(state[2].max()), cells


def _next(layers: Iterator[Layer], kind: type) -> Layer:
    layer = next(layers, None)
    if layer is None or not isinstance(layer, kind):
        raise CertificateError(f"The next layer must be {kind.__name__}, as in the target", type(layer).__name__)
    return layer


def _affine(stage: Affine, layer: Layer, state: State, model: Machine) -> tuple[State, bool]:
    low, high, off = state
    weight, bias = _matrices(layer)
    if len(weight) != len(low):
        raise CertificateError(f"An affine stage reads {len(low)} features", f"{len(weight)}", "Rebuild the network")
    wide = weight.shape[1] - stage.weight.shape[1]
    if wide not in (0, 1) or (wide and (weight[:, -1].any() or bias[-1] != 1.0)):
        raise CertificateError("An affine stage writes its features, and at most a constant 1", f"{wide} more")
    weight, bias = weight[:, : stage.weight.shape[1]], bias[: len(stage.bias)]
    size = (np.maximum(np.abs(low), np.abs(high)) + off) * SLACK
    products = np.abs(weight).T @ size + np.abs(bias)
    terms = (weight != 0).sum(axis=0) + 1
    rounding = np.array([gamma(int(k), model.roundoff) for k in terms]) * products + terms * model.underflow
    rounding[~(products <= model.largest)] = np.inf
    apart = np.abs(weight - stage.weight).T @ size + np.abs(bias - stage.bias)
    exact = np.array([_range(stage, j, low, high) for j in range(len(bias))])
    return (exact[:, 0], exact[:, 1], (np.abs(weight).T @ off + apart + rounding) * SLACK), bool(wide)


def _matrices(layer: Layer) -> tuple[Array, Array]:
    plain = isinstance(layer, Linear) and len(layer.terms) == 1 and layer.terms[0].mix is None
    weight = layer.terms[0].map if isinstance(layer, Linear) and plain else None
    if weight is None or weight.ndim != 2 or not isinstance(layer, Linear):
        raise CertificateError("An affine stage is one linear map on features", "another map", "Rebuild the network")
    bias = np.zeros((1, weight.shape[1])) if layer.constant is None else layer.constant
    if len(bias) != 1:
        raise CertificateError("An affine stage is the same at every token", f"{len(bias)} rows", "Rebuild the network")
    return weight, bias[0]


def _range(stage: Affine, j: int, low: Array, high: Array) -> tuple[float, float]:
    total = arb(float(stage.bias[j]))
    for w, a, b in zip(stage.weight[:, j].tolist(), low.tolist(), high.tolist(), strict=True):
        total = total + arb(w) * arb(a).union(arb(b))
    return lower(total), upper(total)


def _activation(stage: Activation, layer: Layer, state: State, model: Machine) -> tuple[State, int]:
    low, high, off = state
    run_low, run_high = np.nextafter(low - off, -np.inf), np.nextafter(high + off, np.inf)
    added, cells = np.zeros(len(low)), 0
    tree = _tree(stage)
    for j in range(len(low)):
        check_time("checking an activation")
        added[j], looked = _local(layer, tree, j, run_low, run_high, model)
        cells += looked
    exact = np.array([_image(stage, a, b) for a, b in zip(low.tolist(), high.tolist(), strict=True)])
    return (exact[:, 0], exact[:, 1], (off * max(1.0, abs(stage.slope)) + added) * SLACK), cells


def _tree(stage: Activation) -> Node:
    """Slope * y + (1 - slope) * clamp(y, lower, upper)."""
    y: Node = Variable(Y)
    cut = y if stage.lower is None else of("max", y, Constant(stage.lower))
    cut = cut if stage.upper is None else of("min", cut, Constant(stage.upper))
    rest = plus(Constant(1.0), Constant(-stage.slope))
    return cut if not stage.slope else plus(times(Constant(stage.slope), y), times(rest, cut))


def _image(stage: Activation, low: float, high: float) -> tuple[float, float]:
    """The activation's range on an interval: piecewise linear, its extremes are at the ends or at kinks."""
    kinks = [kink for kink in (stage.lower, stage.upper) if kink is not None and low < kink < high]
    values = [_activated(stage, arb(y)) for y in (low, high, *kinks)]
    return min(map(lower, values)), max(map(upper, values))


def _local(layer: Layer, tree: Node, j: int, low: Array, high: Array, model: Machine) -> tuple[float, int]:
    """A bound of |layer - activation| at feature j, the other features being anywhere: cells, the worst cut first."""
    if not isinstance(layer, Attention):
        raise CertificateError("An activation is a layer of heads", type(layer).__name__, "Rebuild the network")
    whole = (float(low[j]),), (float(high[j]),)
    floor = REMAINS * model.roundoff * max(abs(whole[0][0]), abs(whole[1][0]))
    with exactly(ORDER), np.errstate(all="ignore"):
        heap: list[tuple[float, Box]] = [(-_distance(layer, tree, j, low, high, whole, model), whole)]
        while -heap[0][0] > floor and len(heap) < CELLS:
            parts = halves(heap[0][1], whole)
            if not parts:
                break
            heapq.heappop(heap)
            for part in parts:
                heapq.heappush(heap, (-_distance(layer, tree, j, low, high, part, model), part))
    return -heap[0][0], len(heap)


def _distance(layer: Attention, tree: Node, j: int, low: Array, high: Array, box: Box, model: Machine) -> float:
    """A bound of |layer - activation| at feature j where that feature lies in the box."""
    cell = Cell(*box, ORDER)
    space = Space(*box)
    place = Place(space, cell, model)
    row = [
        Value(place, cell.constant(arb(a).union(arb(b))), 0.0) for a, b in zip(low.tolist(), high.tolist(), strict=True)
    ]
    row[j] = Value(place, Form({0: ONE}, ZERO), 0.0)
    row.append(constant(place, 1.0))
    output = attention(place, _writing(layer, j), [lambda: row], [], 0.0)[0]()[0]
    return distance(cell, output, FormulaOn({Y: Form({0: ONE}, ZERO)}, space, cell)(tree))[0]


def _writing(layer: Attention, j: int) -> Attention:
    """The layer's heads that write feature j, and what they write there."""
    if not all(map(is_alone, layer.heads)):
        raise CertificateError("The heads of an activation read every token by itself", "heads that read others")
    writing = [head for head in layer.heads if head.output[:, j].any() or not head.output.any()]
    heads = [replace(head, output=head.output[:, j : j + 1]) for head in writing]
    if layer.residual or not heads:
        raise CertificateError("An activation is a layer of heads without residual", f"none writes feature {j}")
    return replace(layer, heads=tuple(heads))
