r"""A graph of registers in a stream of any basis: heads read and write directions, not columns.

The i-th head that claims a formula, layer by layer, writes register 1 + inputs + i, the number that it computes before
its output map. What it reads of registers before it are products of the network's weights
(:mod:`attnforge.certification.stream`), so the heads on registers are those of a graph whose columns are registers;
what a run adds to what they read, and all that a head reads beside the registers of its formula, is noise in its
queries, keys and values. Heads that claim to be distractors are sources of which only the size is known.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt

from attnforge.certification.graph.layout import REMEDY, Written, claimed_formula, claims_formula, left
from attnforge.certification.stream import Stream, folded, is_distractor, mean_sizes, plain_map
from attnforge.errors import CertificateError, RefusalError
from attnforge.expression.intervals import Interval, absolute
from attnforge.expression.simplify import ONE
from attnforge.expression.tree import Node, variables
from attnforge.network import Attention, Head, Linear, Network
from attnforge.outward import Machine, Up, upper
from attnforge.targets.graph import number_of

Array = npt.NDArray[np.float64]

MEANT = 2.0**-40  # of the largest weight of an output: below, it is noise, above, it is compared with the target
SAID = 2.0**-20  # the same where the only head must write what the target leaves: noise would be left to it


@dataclass(frozen=True, eq=False)
class Source:
    """A head, its number among sources, its layer of attention, and the formula that it claims, if it does."""

    head: Head
    number: int
    layer: int
    tree: Node | None


class Directions:
    """The heads of a network on registers: which they are, what they read, and what a run adds to that."""

    def __init__(self, network: Network, target: object, machine: Machine) -> None:
        self.network, self.machine = network, machine
        self.inputs, self.total = network.features, 1 + network.features + len(network.heads)
        self.count = self.total - sum(map(is_distractor, network.heads))
        unsaid = self.count == self.inputs + 2 and not any(map(claims_formula, network.heads))
        self.layers = _layers(network, self.count, ONE if unsaid else None)
        exact = _Walk(self, [0.0] * self.count).to_the_end()
        self._all_read = exact.outputs()[0]
        self._is_meant = np.abs(self._all_read) >= (SAID if unsaid else MEANT) * np.abs(self._all_read).max(axis=0)
        self._is_meant[self.count :] = False
        if unsaid:
            self.layers = _layers(network, self.count, left(target, self.read_out, self.count - 1))

    @property
    def written(self) -> list[Written]:
        """The heads that claim a formula, in the order of their registers."""
        heads = [each for layer in self.layers if not isinstance(layer, Linear) for each in layer]
        claimed = [Written(each.head, each.number, each.tree, each.layer) for each in heads if each.tree is not None]
        return sorted(claimed, key=lambda each: each.column)

    @property
    def read_out(self) -> Array:
        """Weights (registers, outputs) of the last map."""
        return np.where(self._is_meant, self._all_read, 0.0)[: self.count]

    def on_registers(self, depth: int, ranges: Sequence[Interval]) -> dict[int, Written]:
        """The heads of a layer of attention on registers, by number; ``ranges`` are those of registers from 1 on."""
        walk = _Walk(self, _bounds(ranges))
        for layer in self.layers:
            if not isinstance(layer, Linear) and layer[0].layer == depth:
                return {each.number: walk.on_registers(each, each.tree) for each in layer if each.tree is not None}
            walk.follow(layer)
        raise CertificateError("The network has a layer of attention of this number", str(depth), REMEDY)

    def read_out_noise(self, ranges: Sequence[Interval]) -> Up:
        """How far a run's outputs (k,) may be from what the read-out makes of its registers."""
        walk = _Walk(self, _bounds(ranges)).to_the_end()
        return walk.outputs()[1] + walk.sizes(np.where(self._is_meant, 0.0, self._all_read))


class _Walk:
    """The stream, layer by layer, for registers that are at most so large in a run."""

    def __init__(self, graph: Directions, bounds: Sequence[float]) -> None:
        self.graph, self.bounds = graph, bounds
        self.known = np.zeros(graph.total)
        self.known[: 1 + graph.inputs] = bounds[: 1 + graph.inputs]
        rows, first = np.arange(1, 1 + graph.inputs), graph.network.layers[0]
        self.stream = Stream.embedded(first, rows, graph.total, self.sizes, graph.machine)

    def sizes(self, weights: Array) -> Up:
        """Of sums of sources that are written, times weights (S, r)."""
        return (Up.of(self.known)[None] @ Up.of(weights))[0]

    def follow(self, layer: Linear | list[Source]) -> None:
        """To the stream after a layer."""
        if isinstance(layer, Linear):
            self.stream = self.stream.mapped(layer, self.sizes)
            return
        for number, size in [(each.number, self._size(each)) for each in layer]:
            self.known[number] = size
        numbers, outputs = np.array([each.number for each in layer]), np.vstack([each.head.output for each in layer])
        self.stream = self.stream.written(numbers, outputs, self.sizes)

    def to_the_end(self) -> _Walk:
        """Before the last map."""
        for layer in self.graph.layers:
            self.follow(layer)
        return self

    def outputs(self) -> tuple[Array, Up]:
        """What the last map reads of all sources (S, k), and how far a run is off."""
        weights, constant = plain_map(self.graph.network.layers[-1])
        return self.stream.read(weights, self.sizes, constant)

    def _size(self, source: Source) -> float:
        """Of what a head writes: its register's range, or of a distractor that of its values."""
        if source.tree is not None:
            if not math.isfinite(self.bounds[source.number]):
                got, remedy = f"r[{source.number}] without bounds", "Use less noise, or a wider dtype"
                raise RefusalError("What heads add to a stream is bounded", got, remedy)
            return self.bounds[source.number]
        head, value = source.head, Up.zeros(1)
        if head.value is not None:
            weights, off = self.stream.read(head.value, self.sizes)
            value = self.sizes(weights) + off
        return float(mean_sizes(head, value, head.memory_size + (head.key is not None), self.graph.machine).most())

    def on_registers(self, source: Source, tree: Node) -> Written:
        """A head that reads the registers of its formula, its own key the constant alone, and all else as noise."""
        head, noise = folded(source.head, self.stream, self.sizes)
        formula = [0, *(number_of(name) for name in variables(tree))]
        kept: dict[str, Any] = {}
        for name, matrix in _maps(head).items():
            beside = np.ones((self.graph.total, 1), dtype=bool)
            beside[[0] if name == "key" else formula] = False
            noise[name] = noise[name] + self.sizes(np.where(beside, matrix, 0.0))
            kept[name] = np.where(beside, 0.0, matrix)[: self.graph.count]
        if "key" in noise:
            noise["score"] = ((self.sizes(head.query) + noise["query"]) * noise.pop("key")).sum()
        unit = np.eye(1, self.graph.count, source.number)
        return Written(replace(head, **kept, output=unit), source.number, tree, source.layer, noise)


def _maps(head: Head) -> dict[str, Array]:
    maps = {name: getattr(head, name) for name in ("query", "key", "value")}
    return {name: matrix for name, matrix in maps.items() if matrix is not None}


def _bounds(ranges: Sequence[Interval]) -> list[float]:
    """Of registers, the constant first: of those that are not written yet they do not matter."""
    return [1.0, *(upper(absolute(each).upper) for each in ranges)]


def _layers(network: Network, count: int, only: Node | None) -> list[Linear | list[Source]]:
    """Between the first map and the last: linear maps, and heads with their numbers, distractors' from ``count`` on.

    ``only`` is what the only head writes, where it claims nothing.
    """
    claimed: Iterator[int] = iter(range(1 + network.features, count + 1))
    distracting = iter(range(count, count + len(network.heads)))
    layers: list[Linear | list[Source]] = []
    depth = 0
    for layer in network.layers[1:-1]:
        if isinstance(layer, Linear):
            layers.append(layer)
            continue
        if not isinstance(layer, Attention) or not layer.residual:
            raise CertificateError("A stream is added to by attention", type(layer).__name__, REMEDY)
        depth += 1
        for head in layer.heads:
            _check_alone(head)
        first, sources = next(claimed), []
        claimed = chain([first], claimed)
        for head in layer.heads:
            tree = None if is_distractor(head) else _earlier(only or claimed_formula(head), first)
            sources.append(Source(head, next(distracting if tree is None else claimed), depth, tree))
        layers.append(sources)
    return layers


def _earlier(tree: Node, first: int) -> Node:
    """A formula of registers below the first that its layer writes."""
    numbers = [number_of(name) for name in variables(tree)]
    if not all(0 < number < first for number in numbers):
        got = f"a formula of {sorted(numbers)} in a layer that writes from {first} on"
        raise CertificateError("A register is a formula of registers that earlier layers write", got, REMEDY)
    return tree


def _check_alone(head: Head) -> None:
    alone = head.query_rows.indices is None and (head.key_rows is None or head.key_rows.kind == "own")
    if not alone or len(head.output) != 1:
        raise CertificateError("A head asks and reads its own token, and writes one number", "another", REMEDY)
