"""A network as a list of array operations, from which every format is written: one reading of it for all.

States are (batch, rows, features). A head's scores are products with its memory keys and with the keys of tokens, side
by side; after a softmax the columns of each meet their values. Sharpness and scales are in the weights already.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import numpy.typing as npt

from attnforge.network import Attention, Head, Layer, Linear, Network, Rows, Softmax, Term

Array = npt.NDArray[np.float64]
Operation = Literal[
    "matmul",  # products of the last two axes
    "rows",  # of each row of the first by a matrix of its own, (n, m, k)
    "add",
    "multiply",
    "sum",  # over the last axis, which stays
    "softmax",  # over the last axis
    "transpose",  # of the last two axes
    "concat",  # along the last axis
    "slice",  # of the last axis, from start to stop
    "take",  # the listed rows
    "place",  # rows into zeros, in the places listed, as many as the second one has
]


@dataclass(frozen=True)
class Step:
    """What is computed, from which values, and for whom: ``note`` says which part of the network it is."""

    name: str
    operation: Operation
    inputs: tuple[str, ...]
    note: str = ""
    span: tuple[int, int] = (0, 0)
    rows: tuple[int, ...] = ()


@dataclass
class Program:
    """Steps in order, constants by name, the name of the result; inputs are ``tokens`` and perhaps ``context``."""

    steps: list[Step] = field(default_factory=list)
    constants: dict[str, Array] = field(default_factory=dict)
    output: str = "tokens"

    def constant(self, name: str, value: Array) -> str:
        """A constant of that name."""
        self.constants[name] = np.asarray(value)
        return name

    def step(self, operation: Operation, *inputs: str, note: str = "", **options: tuple[int, ...]) -> str:
        """The name of what a new step computes."""
        name = f"{operation}_{len(self.steps)}"
        self.steps.append(Step(name, operation, inputs, note, **options))  # type: ignore[arg-type]
        return name

    def added(self, parts: Sequence[str], note: str = "") -> str:
        """The sum of some values."""
        total = parts[0]
        for part in parts[1:]:
            total = self.step("add", total, part, note=note)
        return total


def lowered(network: Network) -> Program:
    """The operations of a network.

    >>> program = lowered(Network((Linear((Term(np.eye(2)),), np.ones((1, 2))),), 2))
    >>> [(step.operation, step.inputs) for step in program.steps]
    [('matmul', ('tokens', 'layer0.map0')), ('add', ('matmul_0', 'layer0.constant'))]
    """
    program, told = Program(), "context"
    for i, second in enumerate(network.context_layers):
        told = _linear(program, second, told, f"context_layer{i}")
    seen: dict[int, str] = {}
    state = "tokens"
    for i, layer in enumerate(network.layers):
        name = seen.setdefault(id(layer), f"layer{i}")  # one that is applied again has its weights once
        state = _layer(program, layer, state, told, name)
    program.output = state
    return program


def _layer(program: Program, layer: Layer, state: str, told: str, name: str) -> str:
    if isinstance(layer, Linear):
        return _linear(program, layer, state, name)
    if isinstance(layer, Softmax):
        return program.step("softmax", state, note=name)
    return _attention(program, layer, state, told, name)


def _linear(program: Program, layer: Linear, state: str, name: str) -> str:
    parts = [_term(program, term, state, f"{name}.{{}}{i}") for i, term in enumerate(layer.terms)]
    if layer.constant is not None:
        parts.append(program.constant(f"{name}.constant", layer.constant))
    return program.added(parts, name)


def _term(program: Program, term: Term, state: str, name: str) -> str:
    if term.map is not None:
        maps = program.constant(name.format("map"), term.map)
        state = program.step("matmul" if term.map.ndim == 2 else "rows", state, maps, note=name.format("term"))
    if term.mix is not None:
        mix = program.constant(name.format("mix"), term.mix)
        state = program.step("matmul", mix, state, note=name.format("term"))
    return state


def _attention(program: Program, layer: Attention, state: str, told: str, name: str) -> str:
    parts = [state] if layer.residual else []
    for i, head in enumerate(layer.heads):
        parts.append(_head(program, head, state, told, f"{name}.head{i}"))
    return program.added(parts, name)


def _head(program: Program, head: Head, state: str, told: str, name: str) -> str:
    """What a head adds to the state."""
    asking = _rows(program, head.query_rows, state, name)
    query = program.step("matmul", asking, program.constant(f"{name}.query", head.query), note=name)
    scores, values = [], []
    if head.memory_keys is not None and head.memory_values is not None:
        keys = program.constant(f"{name}.memory_keys", np.ascontiguousarray(head.memory_keys.T))
        scores.append(program.step("matmul", query, keys, note=f"{name}, scores of its memory"))
        values.append(("matmul", program.constant(f"{name}.memory_values", head.memory_values)))
    if head.key_rows is not None and head.key is not None and head.value is not None:
        own = head.key_rows.kind == "own"
        source = told if head.key_rows.source == "context" else state
        rows = asking if own else _rows(program, head.key_rows, source, name)
        key, value = (
            program.step("matmul", rows, program.constant(f"{name}.{part}", getattr(head, part)), note=name)
            for part in ("key", "value")
        )
        if own:
            scores.append(program.step("sum", program.step("multiply", query, key, note=name), note=name))
        else:
            turned = program.step("transpose", key, note=name)
            scores.append(program.step("matmul", query, turned, note=f"{name}, scores of tokens"))
        values.append(("multiply" if own else "matmul", value))
    both = len(scores) == 2
    weights = program.step("softmax", program.step("concat", *scores, note=name) if both else scores[0], note=name)
    parts, spans = [], [(0, head.memory_size), (head.memory_size, -1)]
    for (operation, value), span in zip(values, spans if both else [(0, -1)], strict=True):
        share = program.step("slice", weights, note=name, span=span) if both else weights
        parts.append(program.step(operation, share, value, note=name))  # type: ignore[arg-type]
    mean = program.added(parts, name)
    out = program.step("matmul", mean, program.constant(f"{name}.output", head.output), note=f"{name}, written")
    if head.query_rows.indices is None:
        return out
    return program.step("place", out, state, note=name, rows=tuple(head.query_rows.indices.tolist()))


def _rows(program: Program, rows: Rows, source: str, name: str) -> str:
    if rows.indices is None:
        return source
    return program.step("take", source, note=name, rows=tuple(rows.indices.tolist()))
