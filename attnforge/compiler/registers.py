"""Graphs of registers for people: what every register is, and what it holds at a point beside its exact value."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from attnforge.errors import TargetError
from attnforge.expression import evaluate, parse, variables
from attnforge.expression.tree import Node
from attnforge.network import Attention, Network
from attnforge.network.apply import apply_layer

if TYPE_CHECKING:
    from attnforge.compiler.compiled import Compiled

Array = npt.NDArray[np.float64]


class Register(NamedTuple):
    """A register: its name and formula, the layer and the keys of the head that writes it; inputs have layer 0."""

    name: str
    formula: str
    layer: int
    keys: int


class Traced(NamedTuple):
    """What a register holds, beside what its formula gives with exact registers before it."""

    name: str
    formula: str
    computed: Array
    exact: Array


def registers(network: Network) -> list[Register]:
    """The registers that heads claim to write, by number; none where the network is no graph."""
    found = []
    attentions = [layer for layer in network.layers if isinstance(layer, Attention)]
    for depth, layer in enumerate(attentions, start=1):
        for head in layer.heads:
            columns = np.flatnonzero(np.any(head.output != 0, axis=0))
            if head.claims is None or head.claims.formula is None or len(columns) != 1:
                return []
            keys = head.memory_size + (head.key_rows is not None)
            found.append((int(columns[0]), Register(f"r[{columns[0]}]", head.claims.formula, depth, keys)))
    return [register for _, register in sorted(found)]


def trace(compiled: Compiled, points: Array) -> list[Traced]:
    """Every register at (N, d) points: the inputs first, then what heads write."""
    network, known = compiled.network, registers(compiled.network)
    if not known:
        raise TargetError("Graphs of registers are traced", f"`{compiled.construction}`", 'Use construction="graph"')
    state = points[:, None]
    for layer in network.layers[:-1]:
        state = apply_layer(layer, state)
    names = compiled.target.names or tuple(f"x[{i}]" for i in range(points.shape[1]))
    exact = {f"r[{i + 1}]": points[:, i].astype(np.longdouble) for i in range(points.shape[1])}
    rows = [Traced(f"r[{i + 1}]", name, state[:, 0, i + 1], points[:, i]) for i, name in enumerate(names)]
    for register in known:
        tree = parse(register.formula)
        value = _value(tree, exact)
        exact[register.name] = value
        number = int(register.name[2:-1])
        rows.append(Traced(register.name, register.formula, state[:, 0, number], value.astype(np.float64)))
    return rows


def _value(tree: Node, exact: dict[str, npt.NDArray[np.longdouble]]) -> npt.NDArray[np.longdouble]:
    read = variables(tree)
    return np.asarray(evaluate(tree, {name: exact[name] for name in read}), dtype=np.longdouble)
