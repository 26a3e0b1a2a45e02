"""Columns of scores: query and key weights side by side, one group a condition; and how sharp they are."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from attnforge.outward import machine
from attnforge.targets.programs.forms import Form
from attnforge.targets.programs.registers import Layout

Array = npt.NDArray[np.float64]


def sharpness(max_length: int, dtype: str) -> float:
    r"""The gap L between selected and other keys: n keys at a gap L weigh $n e^{-L}$, which is to be below a roundoff.

    A power of two, so that products by it are exact in every dtype.

    >>> sharpness(1000, "float64"), sharpness(64, "float32")
    (64.0, 32.0)
    """
    return power_of_two(math.log(max_length / machine(dtype).roundoff))


def power_of_two(least: float) -> float:
    """The next power of two."""
    return 2.0 ** math.ceil(math.log2(least))


@dataclass
class Columns:
    """Columns of a head under construction: for each the weights (m,) that queries and keys read it by."""

    layout: Layout
    query: list[Array] = field(default_factory=list)
    key: list[Array] = field(default_factory=list)
    memory: list[float] = field(default_factory=list)

    def add(self, query: Array, key: Array, memory: float = 0.0) -> None:
        """One more column; ``memory`` is its entry of the constant key."""
        self.query.append(query)
        self.key.append(key)
        self.memory.append(memory)

    def form(self, form: Form, constant: bool = True) -> Array:
        """The weights (m,) by which a form is read off the registers."""
        weights = np.zeros(self.layout.features)
        for node, entries in form.weights.items():
            weights[self.layout[node].features] = [float(entry) for entry in entries]
        if constant:
            weights[0] += float(form.constant)
        return weights

    @property
    def one(self) -> Array:
        """The weights by which the constant one is read."""
        return self.form(Form({}, Fraction(1)))

    @property
    def nothing(self) -> Array:
        """No weights."""
        return np.zeros(self.layout.features)

    @property
    def matrices(self) -> tuple[Array, Array]:
        """W_Q and W_K, at least one column."""
        query, key = self.query or [self.nothing], self.key or [self.nothing]
        return np.stack(query, axis=1), np.stack(key, axis=1)

    @property
    def constant_key(self) -> Array:
        """The one constant key, (1, r)."""
        return np.array([self.memory or [0.0]])
