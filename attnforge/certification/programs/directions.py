r"""A program's registers in a stream of any basis: heads read and write directions, not features of their own.

The i-th head of a layer that claims not to be a distractor writes the i-th register of that layer, the numbers that it
computes before its output map. What heads read of registers are products of the network's weights
(:mod:`attnforge.certification.stream`): so there is a head on registers, whose weights are rounded to $2^{-46}$ of the
largest of their column, as products of weights made for columns are but for their own rounding. What that leaves, what
a run adds, and what is read of distractors, is noise in queries, keys and values.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from attnforge.certification.programs.held import State
from attnforge.certification.stream import Noise, Stream, folded, is_distractor, mean_sizes, plain_map
from attnforge.errors import CertificateError
from attnforge.network import Attention, Head, Layer, Linear, Network
from attnforge.outward import Balls, Machine, Up
from attnforge.targets.programs.registers import Layout

Array = npt.NDArray[np.float64]
Heads = list[tuple[Head, Noise]]

KEPT = 46  # bits of the weights on registers, of the largest in a column
REMEDY = "Build the network anew"


class Directions:
    """The stream of a program's network, layer by layer, and what its heads read of registers."""

    def __init__(self, network: Network, layout: Layout, state: State, machine: Machine) -> None:
        self.layout, self.state, self.machine = layout, state, machine
        first, *middle, self.last = network.layers
        width = sum(register.size for register in layout.inputs)
        if network.context is not None or network.tokens is not None or network.features != width:
            got = f"{network.features} features"
            raise CertificateError(f"A program's network takes {width} features of every token", got, REMEDY)
        self.layers = _layers(middle, layout)
        self.distractors = [0.0] * sum(len(head.output) for head in network.heads if is_distractor(head))
        self.following = layout.features  # the first source of the next distractor
        self.depth = 0
        rows = np.concatenate([np.arange(*_ends(layout, each.key)) for each in layout.inputs])
        total = layout.features + len(self.distractors)
        self.stream = Stream.embedded(first, rows, total, self.sizes, machine)

    def sizes(self, weights: Array) -> Up:
        """Of sums of sources that are written, times weights (S, r)."""
        features = self.layout.features
        beside = (Up.of(self.distractors)[None] @ Up.of(weights[features:]))[0]
        return self.state.sizes(np.abs(weights[:features])) + beside

    def heads(self) -> Heads:
        """Those of the next layer that write registers, on registers, and the noise in what they read."""
        self._map_to_attention()
        registers = self.layout.written(self.depth + 1)
        claimed = [head for head in self._attention().heads if not is_distractor(head)]
        if len(claimed) != len(registers) or any(
            len(head.output) != register.size for head, register in zip(claimed, registers, strict=False)
        ):
            got = f"{len(claimed)} heads in layer {self.depth + 1}"
            raise CertificateError(f"One head a register, {len(registers)} here, of its size", got, REMEDY)
        units = [np.eye(register.size, self.layout.features, register.start) for register in registers]
        return [self._on_registers(head, unit) for head, unit in zip(claimed, units, strict=True)]

    def follow(self, state: State) -> None:
        """Past the next layer of attention, after which registers are in this state."""
        layer = self._attention()
        self.layers.pop(0)
        registers = iter(self.layout.written(self.depth + 1))
        places, sizes = [], {}
        for head in layer.heads:
            if is_distractor(head):
                start = self.following
                self.following += len(head.output)
                sizes[start] = self._mean_sizes(head)
            else:
                start = next(registers).start
            places.append(np.arange(start, start + len(head.output)))
        for start, each in sizes.items():
            at = start - self.layout.features
            self.distractors[at : at + len(each)] = each
        self.state, self.depth = state, self.depth + 1
        outputs = np.vstack([head.output for head in layer.heads])
        self.stream = self.stream.written(np.concatenate(places), outputs, self.sizes)

    def read_out(self) -> tuple[Array, Up]:
        """Weights (features, results) of the last map on registers, and how far a run is off."""
        self._map_to_attention()
        weights, constant = plain_map(self.last)
        return self._rounded(*self.stream.read(weights, self.sizes, constant))

    def _map_to_attention(self) -> None:
        while self.layers and isinstance(layer := self.layers[0], Linear):
            self.stream = self.stream.mapped(layer, self.sizes)
            self.layers.pop(0)

    def _attention(self) -> Attention:
        """The next layer, behind the maps before it."""
        layer = self.layers[0] if self.layers else None
        if not isinstance(layer, Attention):
            raise CertificateError("Attention follows the maps of a stream", type(layer).__name__, REMEDY)
        return layer

    def _on_registers(self, head: Head, output: Array) -> tuple[Head, Noise]:
        on_sources, noise = folded(head, self.stream, self.sizes)
        kept: dict[str, Any] = {}
        for name, off in noise.items():
            kept[name], noise[name] = self._rounded(getattr(on_sources, name), off)
        return replace(on_sources, **kept, output=output), noise

    def _rounded(self, weights: Array, off: Up) -> tuple[Array, Up]:
        """Weights on registers of few bits, and how far a run is off with what that leaves."""
        registers = weights[: self.layout.features]
        largest = np.abs(registers).max(axis=0, initial=0.0)
        unit = np.ldexp(1.0, np.frexp(np.where(largest > 0, largest, 1.0))[1] - KEPT)
        kept = np.rint(registers / unit) * unit
        left = np.vstack([Up.of(Balls.exact(registers) - Balls.exact(kept)).values, np.abs(weights[len(kept) :])])
        return kept, off + self.sizes(left)

    def _mean_sizes(self, head: Head) -> list[float]:
        """Of a distractor's numbers: those of its values, in sequences of any length."""
        if any(rows is not None and rows.indices is not None for rows in (head.query_rows, head.key_rows)):
            raise CertificateError("All tokens ask a distractor, and are its keys", "some, by number", REMEDY)
        value = Up.zeros(len(head.output))
        if head.value is not None:
            weights, off = self.stream.read(head.value, self.sizes)
            value = self.sizes(weights) + off
        keys = head.memory_size + (0 if head.key is None else self.layout.typed.max_length)
        return [float(size) for size in mean_sizes(head, value, keys, self.machine).values]


def _ends(layout: Layout, key: object) -> tuple[int, int]:
    register = layout.registers[key]  # type: ignore[index]
    return register.start, register.stop


def _layers(layers: list[Layer], layout: Layout) -> list[Linear | Attention]:
    found: list[Linear | Attention] = []
    for layer in layers:
        if not isinstance(layer, Linear) and not (isinstance(layer, Attention) and layer.residual):
            raise CertificateError("A stream is added to by attention", type(layer).__name__, REMEDY)
        found.append(layer)
    if sum(isinstance(layer, Attention) for layer in found) != layout.depth:
        raise CertificateError(f"A program's network has {layout.depth} layers of attention", "others", REMEDY)
    return found
