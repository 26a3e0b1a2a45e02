"""Which program a network claims to run, and which head writes which register: from claims and targets, never trusted.

A ReLU network is a program as it stands: a block for every activation, its forms the affine maps before it; an
activation with a slope is two blocks, the clamp and the number times the slope. A graph of formulas has a block for all
heads of a layer whose formulas are one function of their affine parts.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt
from flint import arb

from attnforge.certification.stream import is_distractor, plain_map
from attnforge.errors import CertificateError
from attnforge.expression import parse, to_text
from attnforge.expression.simplify import plus, times
from attnforge.expression.tree import Apply, Constant, Node, Variable, variables
from attnforge.kernel.steps import Block, Forms, Steps, form_name
from attnforge.network import Attention, Head, Linear, Network
from attnforge.outward import Balls, Machine, upper
from attnforge.targets import Activation, Affine, ReluNetwork
from attnforge.targets.graph import Step, register, substituted

Array = npt.NDArray[np.float64]
Numbers = npt.NDArray[np.int64]

READ = 2.0**-20  # of the largest weight of a column: what is read of a direction, and no rounding
MEANT = 2.0**-40  # of the largest weight of an output: below, it is a rounding
REMEDY = "Rebuild the network"


@dataclass(frozen=True, eq=False)
class Claim:
    """A program, and for every layer of attention the source that each number is which its heads write.

    ``trees`` are what the registers of a graph claim to be, as formulas of registers r[1], .., in their order.
    """

    steps: Steps
    places: tuple[Numbers, ...]
    trees: tuple[Node, ...] = ()
    outputs: tuple[Node, ...] = ()


def of_relu_network(network: Network, target: ReluNetwork) -> Claim:
    """The target as a program; its neurons are the heads of its layers, in their order."""
    forms = Forms({0: Balls.exact(np.eye(target.features))}, Balls.exact(np.zeros(target.features)))
    blocks: list[Block] = []
    places: list[Numbers] = []
    attention = [layer for layer in network.layers if isinstance(layer, Attention)]
    known = 1 + target.features
    extra = _count_sources(target)
    for stage in target.stages:
        if isinstance(stage, Affine):
            forms = _mapped(forms, stage)
            continue
        blocks.append(Block(_clamp(stage), (forms,)))
        numbers = [*range(known, known + forms.count)]
        if stage.slope:
            blocks.append(Block(times(Constant(stage.slope), Variable(form_name(0))), (forms,)))
            numbers += range(known + forms.count, known + 2 * forms.count)
        if len(places) == len(attention):
            raise CertificateError("A network has a layer of heads for each activation", f"{len(attention)}", REMEDY)
        placed, extra = _in_order(attention[len(places)], numbers, extra)
        places.append(placed)
        known += len(numbers)
        forms = _activated(stage, len(blocks), forms.count)
    return Claim(Steps(target.features, tuple(blocks), forms), tuple(places))


def _count_sources(target: ReluNetwork) -> int:
    count, width = 1 + target.features, target.features
    for stage in target.stages:
        width = stage.weight.shape[1] if isinstance(stage, Affine) else width
        count += 0 if isinstance(stage, Affine) else width * (2 if stage.slope else 1)
    return count


def _mapped(forms: Forms, stage: Affine) -> Forms:
    weight = Balls.exact(stage.weight)
    offset = (forms.offset[None] @ weight)[0] + Balls.exact(stage.bias)
    return Forms({block: each @ weight for block, each in forms.weights.items()}, offset)


def _clamp(stage: Activation) -> Node:
    y = Variable(form_name(0))
    if stage.lower is None or stage.upper is None:
        end = Constant(stage.upper if stage.lower is None else stage.lower)  # type: ignore[arg-type]
        return (
            Apply("min" if stage.lower is None else "max", (y, end))
            if end.value or stage.lower is None
            else Apply("relu", (y,))
        )
    return Apply("clamp", (y, Constant(stage.lower), Constant(stage.upper)))


def _activated(stage: Activation, last: int, count: int) -> Forms:
    """What activations are of the last blocks: clamps times one less the slope, and numbers times the slope."""
    identity, none = np.eye(count), Balls.exact(np.zeros(count))
    if not stage.slope:
        return Forms({last: Balls.exact(identity)}, none)
    rest = Balls.exact(np.array(1.0)) - Balls.exact(np.array(stage.slope))
    mixed = {last - 1: Balls(identity * rest.mid, identity * rest.rad), last: Balls.exact(identity)}
    return Forms(mixed, none)


def _in_order(layer: Attention, numbers: Sequence[int], extra: int) -> tuple[Numbers, int]:
    """The sources that a layer writes: these, head after head, and others where heads claim to be distractors."""
    left, found = list(numbers), list[int]()
    for head in layer.heads:
        for _ in head.output:
            if is_distractor(head):
                found.append(extra)
                extra += 1
            elif not left:
                raise CertificateError("A network has a head for each register", "more", REMEDY)
            else:
                found.append(left.pop(0))
    if left:
        raise CertificateError("A network has a head for each register", "fewer", REMEDY)
    return np.array(found, dtype=np.int64), extra


@dataclass(frozen=True, eq=False)
class _Written:
    """A head that claims a formula, its layer, and the number of its register in formulas."""

    head: Head
    depth: int
    number: int
    step: Step


def of_graph(network: Network, machine: Machine) -> Claim:
    """The formulas that heads claim, and what the last map reads of them."""
    written = _written(network)
    blocks: dict[tuple[object, ...], list[_Written]] = defaultdict(list)
    for each in written:
        function, names = _function(each.step)
        blocks[each.depth, to_text(function), len(names)].append(each)
    ordered = sorted(blocks.values(), key=lambda some: some[0].depth)
    place = {n: (0, n - 1) for n in range(1, 1 + network.features)}
    place |= {each.number: (b, j) for b, some in enumerate(ordered, start=1) for j, each in enumerate(some)}
    widths = [network.features, *map(len, ordered)]
    made = [_block(some, place, widths) for some in ordered]
    source = {n: 1 + sum(widths[:b]) + j for n, (b, j) in place.items()}
    places, extra = [], 1 + sum(widths)
    number_of_head = {id(each.head): each.number for each in written}
    for layer in network.layers:
        if isinstance(layer, Attention):
            numbers = [source[number_of_head[id(h)]] for h in layer.heads if not is_distractor(h)]
            placed, extra = _in_order(layer, numbers, extra)
            places.append(placed)
    weights = _read_out(network, places, extra)
    outputs = Forms(_by_blocks(weights[1 : sum(widths) + 1], widths), Balls.exact(weights[0]))
    trees = tuple(each.step.tree for each in sorted(written, key=lambda each: each.number))
    texts = tuple(_sum_of(weights[:, k], source) for k in range(weights.shape[1]))
    return Claim(Steps(network.features, tuple(made), outputs), tuple(places), trees, texts)


def _written(network: Network) -> list[_Written]:
    layers = [layer for layer in network.layers if isinstance(layer, Attention)]
    heads = [(head, depth) for depth, layer in enumerate(layers) for head in layer.heads if not is_distractor(head)]
    columns = [np.flatnonzero(np.any(head.output != 0, axis=0)) for head, _ in heads]
    first = 1 + network.features
    plain = sorted(int(each[0]) for each in columns if len(each) == 1) == [*range(first, first + len(heads))]
    steps = [_claimed(head) for head, _ in heads]
    numbers = [int(each[0]) for each in columns] if plain else _numbers(network, [head for head, _ in heads], steps)
    return [_Written(*each, n, step) for each, n, step in zip(heads, numbers, steps, strict=True)]


def _claimed(head: Head) -> Step:
    if head.claims is None or head.claims.formula is None or len(head.output) != 1:
        raise CertificateError("Every head claims the formula it writes", "a head without one", REMEDY)
    return Step.of(parse(head.claims.formula))


def _numbers(network: Network, heads: Sequence[Head], steps: Sequence[Step]) -> list[int]:
    """The numbers of registers that heads write along directions: by who reads them, in formulas and in weights.

    Those with the same readers are told apart by the order of heads.
    """
    first = 1 + network.features
    sizes = _sizes_read(network, heads)
    wanted = np.zeros((len(heads), len(heads)))
    for reader, step in enumerate(steps):
        for form in step.forms.values():
            for n, weight in form.weights.items():
                if 0 <= n - first < len(heads):
                    wanted[n - first, reader] += abs(float(weight.mid()))

    def groups(weights: Array) -> dict[bytes, list[int]]:
        found: dict[bytes, list[int]] = defaultdict(list)
        for i, row in enumerate(weights):
            found[(row > 0).tobytes()].append(i)
        return found

    written, claimed = groups(sizes), groups(wanted)
    if {key: len(each) for key, each in written.items()} != {key: len(each) for key, each in claimed.items()}:
        return [first + i for i in range(len(heads))]
    place = {i: n for key, each in written.items() for i, n in zip(each, claimed[key], strict=True)}
    return [first + place[i] for i in range(len(heads))]


def _sizes_read(network: Network, heads: Sequence[Head]) -> Array:
    """How much (writers, readers) heads read of the numbers of heads, relative to all they read; roundings are none."""
    at = {id(head): i for i, head in enumerate(heads)}
    found, directions = np.zeros((len(heads), len(heads))), np.zeros((len(heads), network.features))
    for layer in network.layers:
        if isinstance(layer, Linear):
            directions = directions @ plain_map(layer)[0]
            continue
        if not isinstance(layer, Attention):
            raise CertificateError("A stream is added to by attention", type(layer).__name__, REMEDY)
        mine = [head for head in layer.heads if id(head) in at]
        for head in mine:
            for matrix in (head.query, head.key, head.value):
                if matrix is not None and matrix.any():
                    read = np.abs(directions @ matrix) / np.abs(matrix).max(axis=0, initial=np.finfo(np.float64).tiny)
                    found[:, at[id(head)]] += np.where(read >= READ, read, 0.0).sum(axis=1)
        directions = directions.copy() if layer.residual else np.zeros((len(heads), mine[0].output.shape[1]))
        for head in mine:
            directions[at[id(head)]] = head.output[0]
    return found


def _function(step: Step) -> tuple[Node, tuple[str, ...]]:
    """The function of a step of forms y[0], y[1], .., and how the step names these."""
    names = tuple(name for name in variables(step.function) if name in step.forms)
    return substituted(step.function, {name: Variable(form_name(i)) for i, name in enumerate(names)}), names


def _block(some: Sequence[_Written], place: dict[int, tuple[int, int]], widths: Sequence[int]) -> Block:
    function, names = _function(some[0].step)
    forms = []
    for i in range(len(names)):
        mine = [each.step.forms[_function(each.step)[1][i]] for each in some]
        weights: dict[int, Balls] = {}
        for column, form in enumerate(mine):
            for n, weight in form.weights.items():
                if n not in place:
                    raise CertificateError("A formula is one of registers that are written", f"r[{n}]", REMEDY)
                block, row = place[n]
                into = weights.setdefault(block, Balls.exact(np.zeros((widths[block], len(some)))))
                into.mid[row, column], into.rad[row, column] = _ball(weight)
        offsets = np.array([_ball(form.offset) for form in mine])
        forms.append(Forms(weights, Balls(offsets[:, 0], offsets[:, 1])))
    return Block(function, tuple(forms))


def _ball(weight: arb) -> tuple[float, float]:
    middle = float(weight.mid())
    return middle, upper(abs(weight - arb(middle)))


def _read_out(network: Network, places: Sequence[Numbers], count: int) -> Array:
    """Weights (sources, outputs) of the outputs, without roundings."""
    rows, directions = [*range(1 + network.features)], np.eye(1 + network.features, network.features, -1)
    left = list(places)
    for layer in network.layers:
        if isinstance(layer, Linear):
            weights, constant = plain_map(layer)
            directions = directions @ weights
            directions[0] += constant
        elif isinstance(layer, Attention):
            written = np.vstack([head.output for head in layer.heads])
            kept = directions if layer.residual else np.zeros((len(rows), written.shape[1]))
            rows, directions = [*rows, *left.pop(0).tolist()], np.vstack([kept, written])
    found = np.zeros((count, directions.shape[1]))
    found[rows] = directions
    return np.where(np.abs(found) >= MEANT * np.abs(found).max(axis=0), found, 0.0)


def _by_blocks(weights: Array, widths: Sequence[int]) -> dict[int, Balls]:
    ends = np.cumsum([0, *widths])
    parts = {b: weights[first:last] for b, (first, last) in enumerate(pairwise(ends.tolist()))}
    return {b: Balls.exact(part) for b, part in parts.items() if part.any()}


def _sum_of(weights: Array, source: dict[int, int]) -> Node:
    terms = [times(Constant(float(weights[s])), register(n)) for n, s in source.items() if weights[s]]
    return plus(Constant(float(weights[0])), *terms)
