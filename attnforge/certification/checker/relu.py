r"""A network of gates or rows of anchors against a feed-forward network, followed side by side.

An affine stage with the target's W, b, run as $\tilde W, \tilde b$ on values $\tilde z$, departs by
$$ |\tilde W - W|^T |\tilde z| + |\tilde b - b| + \text{rounding of the products and their sums, in any order} . $$
What the heads of an activation add is the distance between them and the activation, as a function of the one feature
they read, over all values the run can take: cells, the same for all neurons whose heads are alike. What later stages
make of these departures, and where the target's values lie, is said in :mod:`.layered`. The run lies around them by
errors carried through absolute weights: rough, but all they do is to widen the ranges a little.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeVar

import numpy as np
import numpy.typing as npt
from flint import arb

from attnforge.certification.checker.formula import FormulaOn
from attnforge.certification.checker.layered import Departure, Range, Stage, output_error, ranges
from attnforge.certification.checker.layers import attention, is_alone, linear, one_map
from attnforge.certification.checker.listed import attained
from attnforge.certification.checker.rounding import SLACK
from attnforge.certification.checker.search import Box, Outcome, Verdict, distance, exactly, supremum
from attnforge.certification.checker.space import Form, Space
from attnforge.certification.checker.taylor import ONE, ZERO, Cell
from attnforge.certification.checker.values import Place, Value, anywhere, between, constant, input_rounding
from attnforge.effort import check_time
from attnforge.errors import CertificateError
from attnforge.expression.simplify import of, plus, times
from attnforge.expression.tree import Constant, Node, Variable
from attnforge.network import Attention, Head, Layer, Linear, Network
from attnforge.outward import Machine, machine
from attnforge.targets import Activation, Affine, ReluNetwork

Array = npt.NDArray[np.float64]
Report = Callable[[float], None]
Kind = TypeVar("Kind", Linear, Attention)

ORDER, CELLS = 4, 800
REMAINS = 8.0  # roundoffs of the largest value: an error that need not be cut further
ARRAYS = ("query", "key", "value", "memory_keys", "memory_values", "output")
Y = "y"


def compare(network: Network, target: ReluNetwork, bound: float, dtype: str, progress: Report) -> Outcome:
    """Whether the run stays within the bound of the target: first at some points, for a witness, then everywhere."""
    _check_alone(network)
    looked = attained(network, target, dtype, bound, partial(_values, target))
    if looked.seen > bound:
        return replace(looked, verdict="refuted", reached=0.0)
    reached, cells = _SideBySide(network, target, machine(dtype), progress).reached()
    verdict: Verdict = "confirmed" if reached <= bound else "undecided"
    return Outcome(verdict, reached, looked.seen, looked.at, looked.cells + cells)


def _check_alone(network: Network) -> None:
    """Raise unless layers read every token by itself: then any number of tokens is as good as one."""
    for layer in network.layers:
        mixes = isinstance(layer, Linear) and one_map(layer) is None
        if mixes or (isinstance(layer, Attention) and not all(map(is_alone, layer.heads))):
            raise CertificateError("A stage is one linear map, or heads, of every token by itself", "another layer")


class _SideBySide:
    """The network's layers against the target's stages, from the inputs to the outputs."""

    def __init__(self, network: Network, target: ReluNetwork, model: Machine, progress: Report) -> None:
        low = np.atleast_2d(target.domain.lower).min(axis=0)  # tokens share a box
        high = np.atleast_2d(target.domain.upper).max(axis=0)
        self.start = np.array([input_rounding(model, size) for size in np.maximum(np.abs(low), np.abs(high))])
        self.layers, self.model, self.progress = iter(network.layers), model, progress
        self.stages = _stages(target)
        self.forms, values = ranges(self.stages, low, high)
        self.inputs = [(low, high), *values[:-1]]
        self.distances: dict[tuple[object, ...], float] = {}  # of heads from activations on cells: many heads are alike

    def reached(self) -> tuple[float, int]:
        """A bound of the distance between run and target over all outputs, and the cells looked at."""
        off, departures = self.start, []
        for done, stage in enumerate(self.stages):
            form = self._affine(stage, _next(self.layers, Linear), _around(self.inputs[done], off))
            off = (np.abs(stage.affine.weight).T @ off + form) * SLACK
            value, slopes = np.zeros(len(off)), (np.ones(len(off)), np.ones(len(off)))
            if stage.activation is not None and np.isfinite(off).all():
                around = _around(self.forms[done], off)
                value = self._activation(stage.activation, _next(self.layers, Attention), around)
                slopes = _slopes(stage.activation, *around)
                off = (off * max(1.0, abs(stage.activation.slope)) + value) * SLACK
            if not np.isfinite(off).all():
                return np.inf, len(self.distances)
            departures.append(Departure(form, value, slopes))
            self.progress((done + 1) / len(self.stages))
        if next(self.layers, None) is not None:
            raise CertificateError("The network has the layers of the target, no more", "further layers", "Rebuild it")
        found = output_error([stage.affine.weight for stage in self.stages], departures, self.start)
        return float(found.max()), len(self.distances)

    def _affine(self, stage: Stage, layer: Linear, values: Range) -> Array:
        """How far the run's forms are from those of the target, on the values of the run."""
        affine, wanted = one_map(layer), stage.affine
        assert affine is not None
        weight, bias = affine
        wide = weight.shape[1] - wanted.weight.shape[1]
        if len(weight) != len(wanted.weight) or wide != (stage.activation is not None):
            got, remedy = f"{weight.shape}, the target's {wanted.weight.shape}", "Rebuild it"
            raise CertificateError("Stages have the target's features, and a constant 1 before heads", got, remedy)
        if wide and (weight[:, -1].any() or bias[-1] != 1.0):
            raise CertificateError("Before heads the last feature is the constant 1", "another", "Rebuild the network")
        weight, bias = weight[:, : len(wanted.bias)], bias[: len(wanted.bias)]
        size = np.maximum(np.abs(values[0]), np.abs(values[1]))
        apart = np.abs(weight - wanted.weight).T @ size + np.abs(bias - wanted.bias)
        with exactly(0):
            place = anywhere(self.model)
            row = [between(place, a, b) for a, b in zip(*values, strict=True)]
            made = [output.off for output in linear(place, layer, [lambda: row])[0]()[: len(bias)]]
        return np.asarray((apart + made) * SLACK)

    def _activation(self, stage: Activation, layer: Attention, around: Range) -> Array:
        """How far (m,) the heads are from the activation, on the forms of the run."""
        if (writes := layer.heads[0].output.shape[1]) != len(around[0]):
            raise CertificateError(f"Heads write the target's {len(around[0])} features", f"{writes}", "Rebuild it")
        reach = float(np.maximum(np.abs(around[0]), np.abs(around[1])).max())
        if not reach < 2.0**1000:
            return np.full(len(around[0]), np.inf)
        whole = 2.0 ** max(math.frexp(reach)[1], -1000)  # all ranges lie within, and are cut into the same cells
        return np.array([self._neuron(_Neuron(layer, stage, j, around), whole) for j in range(len(around[0]))])

    def _neuron(self, neuron: _Neuron, whole: float) -> float:
        """A bound of the distance for all values of the neuron."""
        check_time("checking an activation")
        floor = REMAINS * self.model.roundoff * max(abs(neuron.low), abs(neuron.high))

        def judge(box: Box) -> tuple[float, float]:
            if box[0][0] > neuron.high or box[1][0] < neuron.low:
                return 0.0, 0.0
            key = (*neuron.key, box)
            if key not in self.distances:
                self.distances[key] = neuron.distance(box, self.model)
            return self.distances[key], 0.0

        return supremum(judge, ((-whole,), (whole,)), ORDER, floor, CELLS).reached


class _Neuron:
    """The heads of a layer that write feature j, on the features that they read."""

    def __init__(self, layer: Attention, stage: Activation, j: int, around: Range) -> None:
        heads = _writing(layer, j)
        read = np.zeros(len(around[0]) + 1, dtype=bool)
        for head in heads:
            for matrix in (head.query, head.key, head.value):
                read |= False if matrix is None else np.any(matrix != 0, axis=1)
        read[j] = read[-1] = True
        features = np.flatnonzero(read)
        self.layer = replace(layer, heads=tuple(_on(head, features) for head in heads))
        self.others = [(around[0][f], around[1][f]) for f in features[:-1] if f != j]
        self.place, self.tree = int(np.flatnonzero(features == j)[0]), _tree(stage)
        self.low, self.high = float(around[0][j]), float(around[1][j])
        numbers = [getattr(head, name) for head in self.layer.heads for name in ARRAYS]
        contents = tuple(None if each is None else (each.shape, each.tobytes()) for each in numbers)
        self.key = (stage, self.place, *self.others, *contents)

    def distance(self, box: Box, model: Machine) -> float:
        """A bound of |heads - activation| where the feature lies in the box, the others being anywhere."""
        cell, space = Cell(*box, ORDER), Space(*box)
        place = Place(space, cell, model)
        row = [between(place, a, b) for a, b in self.others]
        row.insert(self.place, Value(place, Form({0: ONE}, ZERO), 0.0))
        row.append(constant(place, 1.0))
        output = attention(place, self.layer, [lambda: row], [], 0.0)[0]()[0]
        return distance(cell, output, FormulaOn({Y: Form({0: ONE}, ZERO)}, space, cell)(self.tree))[0]


def _writing(layer: Attention, j: int) -> list[Head]:
    """The heads that write feature j, and what they write there; heads that write nothing may yet be no number."""
    heads = [head for head in layer.heads if head.output[:, j].any() or not head.output.any()]
    if layer.residual or not heads:
        raise CertificateError("An activation is a layer of heads without residual", f"none writes feature {j}")
    return [replace(head, output=head.output[:, j : j + 1]) for head in heads]


def _on(head: Head, features: npt.NDArray[np.int64]) -> Head:
    """The head on these features only, which are all that it reads; and with the values only that it writes."""
    written = np.flatnonzero(head.output[:, 0]) if head.output.any() else np.arange(len(head.output))
    return replace(
        head,
        query=head.query[features],
        key=None if head.key is None else head.key[features],
        value=None if head.value is None else head.value[features][:, written],
        memory_values=None if head.memory_values is None else head.memory_values[:, written],
        output=head.output[written],
        claims=None,
    )


def _stages(target: ReluNetwork) -> list[Stage]:
    """Affine maps, each with the activation that follows; an activation without one follows the identity."""
    found: list[Stage] = []
    width, open_ = target.features, False
    for stage in target.stages:
        if isinstance(stage, Affine):
            found.append(Stage(stage, None))
            width, open_ = stage.weight.shape[1], True
        elif open_:
            found[-1], open_ = Stage(found[-1].affine, stage), False
        else:
            found.append(Stage(Affine(np.eye(width), np.zeros(width)), stage))
    return found


def _around(bounds: Range, off: Array) -> Range:
    """Bounds of the run."""
    return np.nextafter(bounds[0] - off * SLACK, -np.inf), np.nextafter(bounds[1] + off * SLACK, np.inf)


def _slopes(stage: Activation, low: Array, high: Array) -> Range:
    """The least and the largest slope of the activation on intervals."""
    a = -np.inf if stage.lower is None else stage.lower
    b = np.inf if stage.upper is None else stage.upper
    within, beyond = (low >= a) & (high <= b), (high <= a) | (low >= b)
    least = np.where(within, 1.0, np.where(beyond, stage.slope, min(1.0, stage.slope)))
    most = np.where(within, 1.0, np.where(beyond, stage.slope, max(1.0, stage.slope)))
    return least, most


def _next(layers: Iterator[Layer], kind: type[Kind]) -> Kind:
    layer = next(layers, None)
    if not isinstance(layer, kind):
        raise CertificateError(f"The next layer must be {kind.__name__}, as in the target", type(layer).__name__)
    return layer


def _tree(stage: Activation) -> Node:
    """Slope * y + (1 - slope) * clamp(y, lower, upper)."""
    y: Node = Variable(Y)
    cut = y if stage.lower is None else of("max", y, Constant(stage.lower))
    cut = cut if stage.upper is None else of("min", cut, Constant(stage.upper))
    rest = plus(Constant(1.0), Constant(-stage.slope))
    return cut if not stage.slope else plus(times(Constant(stage.slope), y), times(rest, cut))


def _values(target: ReluNetwork, point: Sequence[float]) -> list[arb]:
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
