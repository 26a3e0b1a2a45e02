"""A formula as a graph of registers: one head a node, its range, its error, and its share of the bound."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import numpy.typing as npt

import attnforge as af
from attnforge.compiler.registers import Register, registers
from attnforge.errors import TargetError
from attnforge.network import Attention, Head
from attnforge.progress import Told
from attnforge.web.calls import graph_call
from attnforge.web.jobs.certificate import PROVING, described
from attnforge.web.jobs.line import facts
from attnforge.web.packing import packed, packed_weights
from attnforge.web.requests import Graph

Array = npt.NDArray[np.float64]

POINTS = 200  # random points of the domain at which registers are looked at
REGISTER = re.compile(r"r\[(\d+)\]")


def graph(asked: Graph, tell: Told) -> dict[str, Any]:
    """Nodes and edges, and at random points what every register holds and whom its head attends to."""
    call = graph_call(asked)
    net = call.run(timeout=PROVING, progress=tell)
    known = registers(net.network)
    if not known:
        requirement = "This view shows graphs of registers"
        raise TargetError(
            requirement, f"`{net.construction}` for {asked.function}", "Look at it as a function of one input"
        )
    lower, upper = net.domain.lower, net.domain.upper
    points = np.random.default_rng(0).uniform(lower, upper, size=(POINTS, len(lower)))
    traced = {each.name: each for each in net.trace(points)}
    bounds = {each.name: each for each in net.certificate.registers}
    inputs = [{"name": f"r[{i + 1}]", "formula": name, "layer": 0, "keys": 0} for i, name in enumerate(asked.domain)]
    heads = [
        {
            **_node(register),
            "bound": _bound(bounds.get(register.name)),
            "values": packed(traced[register.name].computed),
            "error": packed(np.abs(traced[register.name].computed - traced[register.name].exact)),
            "head": _head(net, register, points),
        }
        for register in known
    ]
    return {
        "nodes": [*inputs, *heads],
        "edges": [[f"r[{number}]", each.name] for each in known for number in _read(each.formula)],
        "certificate": described(net.certificate),
        "facts": facts(net),
        "python": call.lines("print(net)", "for register in net.certificate.registers:", "    print(register)"),
    }


def _node(register: Register) -> dict[str, Any]:
    return {"name": register.name, "formula": register.formula, "layer": register.layer, "keys": register.keys}


def _read(formula: str) -> list[int]:
    """Numbers of the registers that a formula reads."""
    return sorted({int(number) for number in REGISTER.findall(formula)})


def _bound(found: Any) -> dict[str, float] | None:
    """Range, local error, sensitivity and share of a register, as the certificate has them."""
    return None if found is None else {name: float(value) for name, value in found._asdict().items() if name != "name"}


def _head(net: af.Compiled, register: Register, points: Array) -> dict[str, Any]:
    """Weights (points, keys) of the head that writes the register."""
    layers = [layer for layer in net.network.layers if isinstance(layer, Attention)]
    heads = layers[register.layer - 1].heads
    at = next(i for i, head in enumerate(heads) if _writes(head) == register.name)
    weights = net.attention(points)[register.layer - 1][at].reshape(len(points), -1)
    claims = heads[at].claims
    roles = list(claims.roles) if claims is not None and len(claims.roles) == weights.shape[1] else []
    return {"weights": packed_weights(weights), "roles": roles}


def _writes(head: Head) -> str:
    return f"r[{int(np.flatnonzero(np.any(head.output != 0, axis=0))[0])}]"
