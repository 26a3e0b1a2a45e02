"""A register trace: what every register of a run holds, beside what the program says."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from attnforge.certification.program_certificate import ProgramCertificate
from attnforge.display import Card, Displayed, Grid
from attnforge.targets.programs.registers import Layout, Register
from attnforge.targets.programs.semantics import evaluate

Array = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Traced:
    """One register: exact values, one a token; its features (n, size) as they run; the largest error, its bound."""

    name: str
    layer: int
    exact: list[Any]
    run: Array
    error: float
    bound: float

    @property
    def values(self) -> list[Any]:
        """What it holds in words: numbers as they run, labels as they are read."""
        if self.run.shape[1] == 1:
            return [float(value) for value in self.run[:, 0]]
        return self.exact if self.error < 0.5 else ["?"] * len(self.exact)


@dataclass(frozen=True, eq=False, repr=False)
class Trace(Displayed):
    """All registers of a run, layer by layer."""

    tokens: list[Any]
    registers: tuple[Traced, ...]

    def __repr__(self) -> str:
        return f"<Trace of {len(self.registers)} registers on {len(self.tokens)} tokens>"

    def _card(self) -> Card:
        header = ("layer", "register", "largest error", "proved", *map(_text, self.tokens))
        rows = [
            (
                str(each.layer),
                each.name,
                f"{each.error:.2g}",
                f"{each.bound:.2g}",
                *map(_text, each.exact),
            )
            for each in self.registers
        ]
        return Card("Trace", statement="what every register holds, token by token", grids=[Grid(header, rows)])

    def __str__(self) -> str:
        lines = [f"{'':9}{'register':<30}{'largest error':<15}{'proved':<10}exact values"]
        for each in self.registers:
            exact = " ".join(_text(value) for value in each.exact)
            lines.append(f"layer {each.layer:<3}{each.name[:29]:<30}{each.error:<15.2g}{each.bound:<10.2g}{exact}")
        return "\n".join(lines)


def _text(value: Any) -> str:
    return "1" if value is True else "0" if value is False else "-" if value is None else str(value)


def trace_of(layout: Layout, tokens: list[Any], states: list[Array], certificate: ProgramCertificate) -> Trace:
    """The trace of a run, given the (n, m) tokens after every layer; the last is the read-out."""
    nodes = [node for node, _ in layout.registers if node is not None]
    known = evaluate(layout.typed.program, tokens, *nodes)
    found = []
    for register, bound in zip(layout.registers.values(), certificate.registers, strict=True):
        node, part = register.key
        if node is None:
            continue
        exact = known[node] if part == "value" else [Fraction(1, 1 + value) for value in known[node]]
        found.append(_traced(register, exact, states[layout.depth], bound.error))
    result = layout.result
    found.append(_traced(result, known[layout.typed.program], states[-1], certificate.bound, "result"))
    return Trace(tokens, tuple(found))


def _traced(register: Register, exact: list[Any], state: Array, bound: float, name: str | None = None) -> Traced:
    run = state[:, register.features]
    if register.labels is None:
        wanted = np.array([[float(value)] for value in exact])
    else:
        wanted = np.eye(register.size)[[register.labels.place(value) for value in exact]]
    error = float(np.abs(run - wanted).max())
    return Traced(name or register.name, register.layer, exact, run, error, bound)
