r"""Kinks of affine values, by gates: |u| = 2 relu(u) - u, max(u, v) = v + relu(u - v)."""

from __future__ import annotations

from collections.abc import Sequence

from attnforge.expression.intervals import is_undefined
from attnforge.expression.simplify import ZERO, of
from attnforge.expression.tree import Constant
from attnforge.theorems.graph.registers import Registered
from attnforge.theorems.graph.ridges import Ridges
from attnforge.theorems.graph.values import Value, constant, negated, scaled


class Kinks:
    """Of values, which are written down first where they are not affine."""

    def __init__(self, ridges: Ridges) -> None:
        self.ridges, self.registers = ridges, ridges.registers

    def kink(self, name: str, parts: Sequence[Value]) -> Value:
        """A function by its name."""
        flat = [self.ridges.affine(part) for part in parts]
        if name == "relu":
            return self._relu(flat[0])
        if name == "abs":
            return self._larger(flat[0], negated(flat[0]))
        if name == "clamp":
            return self._clamp(*flat)
        sign = Constant(1.0 if name == "max" else -1.0)
        first, *others = (scaled(sign, each) for each in flat)
        for other in others:
            first = self._larger(first, other)
        return scaled(sign, first)

    def _larger(self, u: Value, v: Value) -> Value:
        """V + relu(u - v), which is one of them where the range of the difference says so."""
        apart = self.ridges.sum([u, negated(v)])
        gate = self._relu(apart)
        return u if gate is apart else v if gate.constant else self.ridges.sum([v, gate])

    def _relu(self, u: Value) -> Value:
        within = self.registers.range(u.tree)
        if not is_undefined(within) and within.lower >= 0:
            return u
        if not is_undefined(within) and within.upper <= 0:
            return constant(ZERO)
        return self.registers.write(Registered("gate", of("relu", u.tree), (u.tree,), (0.0, None)))

    def _clamp(self, u: Value, a: Value, b: Value) -> Value:
        plain = isinstance(a.tree, Constant) and isinstance(b.tree, Constant)
        if not plain:
            return self.kink("min", [self.kink("max", [u, a]), b])
        low, high = a.tree.value, b.tree.value  # type: ignore[union-attr]
        if low >= high:  # min(max(u, a), b) = b
            return b
        within = self.registers.range(u.tree)
        if not is_undefined(within) and within.lower >= low and within.upper <= high:
            return u
        return self.registers.write(Registered("gate", of("clamp", u.tree, a.tree, b.tree), (u.tree,), (low, high)))
