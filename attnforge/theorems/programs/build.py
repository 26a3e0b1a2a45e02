"""The network of a program: an embedding, one layer of attention for each layer of registers, a read-out."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from attnforge.network import Attention, Head, Layer, Linear, Network, Term
from attnforge.targets.programs.language import (
    Comparison,
    LabelAggregate,
    LabelTable,
    NumberAggregate,
    Numbers,
    NumberTable,
    Square,
    Width,
)
from attnforge.targets.programs.registers import Layout, Register
from attnforge.theorems.programs.columns import Columns, sharpness
from attnforge.theorems.programs.lookup import cell_head, pair_head
from attnforge.theorems.programs.selection import count_head, mean_head, values


def build(layout: Layout, dtype: str) -> Network:
    """The weights, as sharp as a dtype needs."""
    level = sharpness(layout.typed.max_length, dtype)
    layers: list[Layer] = [embedding(layout)]
    for depth in range(1, layout.depth + 1):
        heads = tuple(head(layout, register, level) for register in layout.written(depth))
        layers.append(Attention(heads, residual=True))
    layers.append(readout(layout))
    width = sum(register.size for register in layout.inputs)
    return Network(tuple(layers), width, construction="program")


def embedding(layout: Layout) -> Linear:
    """Inputs to their registers, and the constant one."""
    width = sum(register.size for register in layout.inputs)
    place, constant, at = np.zeros((width, layout.features)), np.zeros((1, layout.features)), 0
    for register in layout.inputs:
        place[at : at + register.size, register.features] = np.eye(register.size)
        at += register.size
    constant[0, 0] = 1.0
    return Linear((Term(place),), constant)


def readout(layout: Layout) -> Linear:
    """Registers to the features of the result: one a label, or one number."""
    return Linear((Term(values(layout, layout.typed.program, layout.result)),))


def reciprocal_of(layout: Layout, node: Width) -> npt.NDArray[np.float64]:
    """The weights by which 1/(1 + w) is read."""
    weights = np.zeros(layout.features)
    weights[layout.registers[node, "reciprocal"].features] = 1.0
    return weights


def head(layout: Layout, register: Register, level: float) -> Head:
    """The head that writes a register."""
    typed, (node, part) = layout.typed, register.key
    match node:
        case Width() if part == "reciprocal":
            return count_head(layout, node, register, level)
        case Width():
            return cell_head(layout, reciprocal_of(layout, node), typed.cells(node), register, level)
        case LabelAggregate() | NumberAggregate():
            return mean_head(layout, node, register, level)
        case Comparison(number) | Square(number):
            return cell_head(layout, Columns(layout).form(typed.form(number)), typed.cells(node), register, level)
        case LabelTable(_, (Numbers() as number,)) | NumberTable(_, (Numbers() as number,)):
            return cell_head(layout, Columns(layout).form(typed.form(number)), typed.cells(node), register, level)
        case LabelTable() | NumberTable():
            return pair_head(layout, node, register, level)
        case _:
            raise AssertionError(f"no head writes {register.name}")
