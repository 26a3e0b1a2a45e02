r"""Straight-line programs of registers: what a network computes step by step, as a target of statements.

Block 0 are the inputs. A later block is m registers that are one function g, entry by entry, of k linear forms of
registers of earlier blocks, and outputs are linear forms of registers,
$$ y^{(i)} = \sum_{b} W_{ib}^T r_b + t_i, \qquad r = g(y^{(0)}, \dots, y^{(k-1)}), \qquad
   \text{out} = \sum_b O_b^T r_b + t . $$
Weights and offsets are balls: a program stands for all programs whose numbers lie in them, and what is proved of it
holds for each. It is about inputs at which every register has a value.

**Beyond the ends.** A root, a broken power from 0 on and an arc have an end, which the exact argument never leaves and
that of a run may, by its error. There g is taken as at the end (:func:`extended`); on the exact arguments that changes
nothing, and those lie where it ends (:func:`natural`), whatever enclosures say.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import numpy.typing as npt

from attnforge.errors import CertificateError
from attnforge.expression.evaluate import evaluate
from attnforge.expression.tree import Apply, Constant, Node, Variable, bottom_up, fold, variables, varies
from attnforge.outward import Balls

Array = npt.NDArray[np.float64]

REMEDY = "Write it as functions of linear forms of earlier registers"
ROOTS, ARCS = ("sqrt",), ("asin", "acos")


def form_name(i: int) -> str:
    """How functions of blocks name their forms."""
    return f"y[{i}]"


@dataclass(frozen=True, eq=False)
class Forms:
    """m linear forms: weights (m_b, m) of the registers of blocks b, and offsets (m,)."""

    weights: Mapping[int, Balls]
    offset: Balls

    def __post_init__(self) -> None:
        arrays = [end for each in (*self.weights.values(), self.offset) for end in (each.mid, each.rad)]
        fits = all(each.mid.ndim == 2 and each.mid.shape[1:] == self.offset.shape for each in self.weights.values())
        if not fits or self.offset.mid.ndim != 1 or not all(np.isfinite(each).all() for each in arrays):
            raise CertificateError("Linear forms have finite weights, a column each", "others", REMEDY)

    @property
    def count(self) -> int:
        """How many."""
        return len(self.offset.mid)

    def dense(self, widths: Sequence[int]) -> Balls:
        """Weights (1 + all registers, m) of the constant, and of the registers of blocks of these widths."""
        mid, rad = np.zeros((1 + sum(widths), self.count)), np.zeros((1 + sum(widths), self.count))
        mid[0], rad[0] = self.offset.mid, self.offset.rad
        for block, weights in self.weights.items():
            first = 1 + sum(widths[:block])
            mid[first : first + widths[block]], rad[first : first + widths[block]] = weights.mid, weights.rad
        return Balls(mid, rad)


@dataclass(frozen=True, eq=False)
class Block:
    """Registers that are this function of y[0], y[1], .., each of its own forms."""

    function: Node
    forms: tuple[Forms, ...]

    @property
    def count(self) -> int:
        """How many registers."""
        return self.forms[0].count

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Of the forms."""
        return tuple(form_name(i) for i in range(len(self.forms)))

    @cached_property
    def extended(self) -> Node:
        """The function, continued beyond the ends of roots and arcs."""
        return extended(self.function)

    @cached_property
    def natural(self) -> tuple[Array, Array]:
        """Between which numbers (k,) the exact forms are."""
        low, high = np.array([natural(self.function, name) for name in self.names]).T
        return low, high


@dataclass(frozen=True, eq=False)
class Steps:
    """A program: how many inputs, its blocks from number 1 on, and its outputs."""

    inputs: int
    blocks: tuple[Block, ...]
    outputs: Forms
    widths: tuple[int, ...] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "widths", (self.inputs, *(block.count for block in self.blocks if block.forms)))
        if len(self.widths) != 1 + len(self.blocks):
            raise CertificateError("A register is a function of forms", "of none", REMEDY)
        for number, block in enumerate(self.blocks, start=1):
            if any(forms.count != block.count for forms in block.forms) or set(variables(block.function)) - {
                *block.names
            }:
                raise CertificateError("A block's function reads its own forms", f"block {number}", REMEDY)
        for number, forms in [(n, f) for n, b in enumerate(self.blocks, start=1) for f in b.forms] + [
            (len(self.widths), self.outputs)
        ]:
            if any(not 0 <= b < number or len(w.mid) != self.widths[b] for b, w in forms.weights.items()):
                raise CertificateError("Forms read the registers of earlier blocks", f"block {number}", REMEDY)

    @property
    def sources(self) -> int:
        """The constant 1 and all registers."""
        return 1 + sum(self.widths)

    def first(self, block: int) -> int:
        """Where a block starts among the sources."""
        return 1 + sum(self.widths[:block])

    def values(self, points: Array) -> Array:
        """Outputs (N, k) at points (N, inputs), about: by the middles of the balls, in float64."""
        known = [np.asarray(points, dtype=np.float64)]

        def of(forms: Forms) -> Array:
            return np.asarray(forms.offset.mid + sum(known[b] @ w.mid for b, w in forms.weights.items()))

        for block in self.blocks:
            known.append(evaluate(block.extended, dict(zip(block.names, map(of, block.forms), strict=True))))
        return of(self.outputs)


def extended(function: Node) -> Node:
    """The function continued beyond the ends of its roots and arcs: as at the end."""

    def visit(node: Node, parts: Sequence[Node]) -> Node:
        if not isinstance(node, Apply):
            return node
        if node.function in ROOTS or _is_broken_power(node):
            return Apply(node.function, (Apply("relu", (parts[0],)), *parts[1:]))
        if node.function in ARCS:
            return Apply(node.function, (Apply("clamp", (parts[0], Constant(-1.0), Constant(1.0))),))
        return Apply(node.function, tuple(parts))

    return fold(function, visit)


def _is_broken_power(node: Apply) -> bool:
    """A power from 0 on that ends there."""
    if node.function != "^" or varies(node.arguments[1]):
        return False
    power = float(evaluate(node.arguments[1], {}))
    return power > 0 and not power.is_integer()


def natural(function: Node, name: str) -> tuple[float, float]:
    """Where a function can be taken in one variable, as far as a root or an arc of that alone says so."""
    for node in bottom_up(function):
        if isinstance(node, Apply) and node.arguments and node.arguments[0] == Variable(name):
            if node.function in ARCS:
                return -1.0, 1.0
            if node.function in ROOTS or _is_broken_power(node):
                return 0.0, math.inf
    return -math.inf, math.inf
