"""The labels of a program's network: columns by the registers they belong to, heads by the register they write."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from attnforge.labels import HeadLabel, Labels, labels_of
from attnforge.network import Attention, Network
from attnforge.targets.programs.registers import Layout, Register


def program_labels(network: Network, layout: Layout) -> Labels:
    """Labels in the words of the program; what a head writes is read from its weights."""
    columns = tuple(name for register in layout.registers.values() for name in column_names(register))
    inputs = tuple(name for register in layout.inputs for name in column_names(register))
    found = labels_of(network, inputs, columns=columns, outputs=column_names(layout.result))
    depth, layers = 0, []
    for given, layer in zip(network.layers, found.layers, strict=True):
        if isinstance(given, Attention):
            depth += 1
            written = layout.written(depth)
            heads = tuple(_head(label, given, written) for label in layer.heads)
            layer = replace(layer, heads=heads)
        layers.append(layer)
    return replace(found, layers=tuple(layers))


def column_names(register: Register) -> tuple[str, ...]:
    """A name for every feature of a register: one a label, or its own.

    >>> from fractions import Fraction
    >>> column_names(Register((None, "value"), 0, 1, 0, ("one",)))
    ('one',)
    """
    if register.labels is None or register.size == 1:
        return (register.name,)
    return tuple(f"{register.name} = {label!s:.20}" for label in register.labels)


def _head(label: HeadLabel, layer: Attention, written: list[Register]) -> HeadLabel:
    """With the register whose features are all that the head writes; as it was where there is none such."""
    columns = np.flatnonzero((layer.heads[label.head].output != 0).any(axis=0))
    for register in written:
        if len(columns) and register.start <= columns[0] and columns[-1] < register.stop:
            return replace(label, construction="program", formula=register.name, writes=(register.name,))
    return label
