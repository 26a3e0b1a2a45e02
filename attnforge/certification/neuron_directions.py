r"""ReLU networks whose states are in any basis: neurons are directions, not columns.

The i-th head of a layer that claims not to be a distractor computes the i-th neuron, a number $a_i$ before its output
map. What the next layer's heads read of it are products of the network's weights (:mod:`.stream`): a head is a gate on
the neurons before it and the constant 1, compared with $\mathrm{clamp}(\sum_i W_{ij} a_i + b_j)$ of the target's own W
and b for all numbers $a_i$ of a run; what a run rounds in between, and what is read of distractors, is noise in queries
and values. So a neuron's local error holds departures of weights, too, and forms in exact arithmetic carry errors from
layer to layer as in :mod:`.composition`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from attnforge.certification.composition import (
    Place,
    check_alone,
    columns,
    interval,
    slopes_between,
    started,
    within,
)
from attnforge.certification.graph.heads import with_noise
from attnforge.certification.registers import Forms, Registers
from attnforge.certification.stream import Stream, folded, is_distractor, mean_sizes, plain_map
from attnforge.certification.three_keys import PARTS, bound_layer
from attnforge.effort import check_time
from attnforge.errors import CertificateError
from attnforge.network import Attention, Head, Layer, Network
from attnforge.outward import Balls, Machine, Up
from attnforge.targets import Activation, Affine, Box, ReluNetwork, Target, TruncatedForm
from attnforge.targets.relu_network import interval_stage

Array = npt.NDArray[np.float64]

REMEDY = "Rebuild the network"
ALTERNATING = "Along directions, maps and clamps without a slope take turns, a map first and last"


@dataclass(frozen=True, eq=False)
class Sources:
    """The constant 1, the neurons of a block in their place, and distractors of these sizes."""

    registers: Registers
    block: int
    place: Place
    distractors: Up

    @property
    def count(self) -> int:
        """Of all."""
        return 1 + len(self.place.low) + self.distractors.shape[0]

    def sizes(self, weights: Array) -> Up:
        """Of sums of sources times weights (S, r)."""
        known = np.concatenate([np.ones(1), self.place.size.values, self.distractors.values])
        return (Up(known)[None] @ Up.of(weights))[0]


def bound_turned(network: Network, target: Target, domain: Box, machine: Machine) -> dict[str, float]:
    """Named parts of the error at the output where their sum is largest."""
    if not isinstance(target, ReluNetwork):
        raise CertificateError("Neurons are compared with those of a ReLU network", target.describe(), REMEDY)
    lower, upper = (np.atleast_2d(bound) for bound in (domain.lower, domain.upper))
    begun = started(lower.min(axis=0), upper.max(axis=0), machine)
    sources = Sources(begun.registers, begun.block, begun.place, Up.zeros(0))
    affine, clamps = _stages(target, network)
    first, *layers = network.layers
    stream = Stream.embedded(first, np.arange(1, sources.count), sources.count, sources.sizes, machine)
    for i, (stage, clamp) in enumerate(zip(affine, clamps, strict=False)):
        attention = layers[2 * i]
        if not isinstance(attention, Attention) or attention.residual:
            raise CertificateError(ALTERNATING, type(attention).__name__, REMEDY)
        sources, stream = _activated(stage, clamp, attention, sources, stream, machine)
        if i + 1 < len(clamps):
            stream = stream.mapped(layers[2 * i + 1], sources.sizes)  # type: ignore[arg-type]
    error = _read_out(affine[-1], layers[-1], sources, stream).error.values[:, 1:]
    worst = int(error.sum(axis=1).argmax())
    return dict(zip(PARTS, error[worst].tolist(), strict=True))


def _stages(target: ReluNetwork, network: Network) -> tuple[list[Affine], list[Activation]]:
    """The target's maps, and the clamps between them."""
    affine, clamps = target.stages[::2], target.stages[1::2]
    maps = [each for each in affine if isinstance(each, Affine)]
    found = [each for each in clamps if isinstance(each, Activation) and not each.slope]
    turns = len(maps) == len(affine) == len(clamps) + 1 and len(found) == len(clamps) > 0
    if not turns or len(network.layers) != len(target.stages):
        raise CertificateError(ALTERNATING, f"{len(network.layers)} layers", REMEDY)
    for layer in network.layers[::2]:
        plain_map(layer)
    return maps, found


def _activated(
    stage: Affine, clamp: Activation, attention: Attention, sources: Sources, stream: Stream, machine: Machine
) -> tuple[Sources, Stream]:
    """The neurons that a layer of heads computes of those before it, and the stream that they write."""
    heads = [head for head in attention.heads if not is_distractor(head)]
    if len(heads) != stage.weight.shape[1] or len(stage.weight) != len(sources.place.low):
        raise CertificateError(f"The activation has {stage.weight.shape[1]} heads, one a neuron", f"{len(heads)}")
    forms, place = _formed(stage, sources)
    local, a, b = _neurons(heads, stage, clamp, place, sources, stream, machine)
    noise = Up(np.hstack([np.zeros((len(heads), 1)), local.values]))
    block = sources.registers.write(forms, slopes_between(0.0, *place.run, a, b), noise)
    error = sources.registers.error(block)
    below, above = place.middle.mid - place.middle.rad, place.middle.mid + place.middle.rad
    middle = Balls.between(*interval_stage(clamp, np.nextafter(below, -np.inf), np.nextafter(above, np.inf)))
    low, high = within(middle, error, *interval_stage(clamp, place.low, place.high))
    others = [_mean(head, sources, stream, machine) for head in attention.heads if is_distractor(head)]
    sizes = Up(np.concatenate([np.zeros(0), *(each.values for each in others)]))
    after = Sources(sources.registers, block, Place(low, high, middle, error), sizes)
    return after, _written(attention, after, machine)


def _formed(stage: Affine, sources: Sources) -> tuple[Forms, Place]:
    """The target's forms of the neurons that a run has, in exact arithmetic."""
    weights, place = Balls.exact(stage.weight), sources.place
    forms = sources.registers.read({sources.block: weights}, columns(*(Up.zeros(len(stage.bias)),) * 2))
    middle = (place.middle[None] @ weights)[0] + Balls.exact(stage.bias)
    low, high = within(middle, forms.error, *interval_stage(stage, place.low, place.high))
    return forms, Place(low, high, middle, forms.error)


def _neurons(
    heads: Sequence[Head], stage: Affine, clamp: Activation, place: Place, sources: Sources, stream: Stream,
    machine: Machine,
) -> tuple[Up, Array, Array]:  # fmt: skip
    """Local errors (n, 3) of heads, and the intervals that they clamp to: what these cut off is charged, too."""
    local, a, b = np.zeros((len(heads), 3)), np.empty(len(heads)), np.empty(len(heads))
    low, high = interval_stage(stage, *sources.place.run)  # all that a gate without an end there has to let pass
    for j, head in enumerate(heads):
        check_time("proving neurons")
        check_alone(head)
        if len(head.output) != 1:
            raise CertificateError("A neuron is one number", f"{len(head.output)}", REMEDY)
        a[j], b[j] = interval(clamp, head, low[j], high[j])
        local[j] = _gate(head, stage, j, (a[j], b[j]), sources, stream, machine)
    beyond = Up.zeros(len(heads)) if clamp.upper is not None else Up.of(np.maximum(place.high - b, 0.0))
    beyond = beyond + (Up.zeros(len(heads)) if clamp.lower is not None else Up.of(np.maximum(a - place.low, 0.0)))
    return Up.of(local) + Up(np.stack([beyond.values, *[np.zeros(len(heads))] * 2], axis=1)), a, b


def _gate(
    head: Head, stage: Affine, j: int, ends: tuple[float, float], sources: Sources, stream: Stream, machine: Machine
) -> Array:
    """The parts (3,) of a head's error, for all numbers of a run that it reads."""
    on_sources, noise = folded(head, stream, sources.sizes)
    count, kept = 1 + len(sources.place.low), dict[str, Any]()
    for name in noise:
        matrix = getattr(on_sources, name)
        noise[name] = noise[name] + sources.sizes(np.where(np.arange(len(matrix))[:, None] < count, 0.0, matrix))
        kept[name] = matrix[:count]
    if np.any(noise.pop("key", Up.zeros(1)).values):
        raise CertificateError("The keys of a gate are constants", "keys that vary or round", REMEDY)
    small = with_noise(replace(on_sources, **kept, output=np.ones((1, 1)), claims=None), noise)
    more = len(small.query) - count
    low, high = (
        np.concatenate([np.ones(1), end, side * np.ones(more)])
        for end, side in zip(sources.place.run, (-1.0, 1.0), strict=True)
    )
    weights = np.concatenate([np.zeros(1), stage.weight[:, j], np.zeros(more)])[None]
    numbers = (Balls.exact(np.array([each])) for each in (float(stage.bias[j]), *ends))
    form = TruncatedForm(Balls.exact(weights), *numbers)
    return np.asarray(bound_layer([small], form, low, high, machine)[0])


def _mean(head: Head, sources: Sources, stream: Stream, machine: Machine) -> Up:
    """Sizes of a distractor's numbers."""
    check_alone(head)
    value = Up.zeros(len(head.output))
    if head.value is not None:
        weights, off = stream.read(head.value, sources.sizes)
        value = sources.sizes(weights) + off
    return mean_sizes(head, value, head.memory_size + (head.key is not None), machine)


def _written(attention: Attention, sources: Sources, machine: Machine) -> Stream:
    """The stream that heads write, without what was there before."""
    width = attention.heads[0].output.shape[1]
    nothing = Stream(Balls.exact(np.zeros((sources.count, width))), Up.zeros(width), machine)
    claimed = [head.output for head in attention.heads if not is_distractor(head)]
    others = [head.output for head in attention.heads if is_distractor(head)]
    return nothing.written(np.arange(1, sources.count), np.vstack([*claimed, *others]), sources.sizes)


def _read_out(stage: Affine, layer: Layer, sources: Sources, stream: Stream) -> Forms:
    """The outputs: forms of the last neurons, by the run's weights in place of the target's."""
    weights, constant = plain_map(layer)
    read, off = stream.read(weights, sources.sizes, constant)
    wanted = np.zeros(read.shape)
    if stage.weight.shape != (len(sources.place.low), read.shape[1]):
        raise CertificateError("The layers have the target's widths", f"{weights.shape}", REMEDY)
    wanted[0], wanted[1 : 1 + len(stage.weight)] = stage.bias, stage.weight
    made = off + sources.sizes(Up.of(Balls.exact(read) - Balls.exact(wanted)).values)
    return sources.registers.read({sources.block: Balls.exact(stage.weight)}, columns(made * 0.0, made))
