r"""What is known of the registers of a run: each feature is what the program says, up to an error.

A register of labels holds $e_c$, one of numbers v, up to ``leakage + rounding + relative |v|`` in every feature. One
that no layer has written yet holds 0, up to what was written there by mistake. Nothing else is known of a token: the
label of one register is not taken to say anything of another's, so that sums over registers are bounded term by term.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from attnforge.outward import Up
from attnforge.targets.programs.registers import Key, Register

Array = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Held:
    """A register, whether it is written yet, and how far a run may be from what it should hold."""

    register: Register
    is_written: bool
    leakage: float = 0.0
    rounding: float = 0.0
    relative: float = 0.0

    @property
    def is_labels(self) -> bool:
        """Whether it holds one of several labels."""
        return self.register.labels is not None

    @property
    def nominal(self) -> Up:
        """The largest feature that it should hold."""
        if not self.is_written:
            return Up.of(0.0)
        if self.is_labels:
            return Up.of(1.0)
        return Up.of(max(abs(float(self.register.lower)), abs(float(self.register.upper)))) * (1 + 2.0**-52)

    @property
    def error(self) -> Up:
        """How far a feature may be off."""
        return Up.of(self.leakage) + self.rounding + self.nominal * self.relative

    @property
    def is_exact(self) -> bool:
        """Whether it holds exactly what it should."""
        return self.leakage == self.rounding == self.relative == 0.0

    @property
    def total(self) -> Up:
        """Of the sum of its features' sizes in a run."""
        return self.nominal + self.error * float(self.register.size)

    def worse(self, amount: float) -> Held:
        """The same after something was written that should not be."""
        return self if amount == 0.0 else replace(self, rounding=float(Up.of(self.rounding) + amount))


@dataclass(frozen=True, eq=False)
class State:
    """All registers of every token; the features are theirs."""

    held: dict[Key, Held]

    def __iter__(self) -> Iterator[Held]:
        return iter(self.held.values())

    def __getitem__(self, key: Key) -> Held:
        return self.held[key]

    def but(self, changed: Iterable[Held]) -> State:
        """The same with some registers changed."""
        return State({**self.held, **{each.register.key: each for each in changed}})

    def nominal(self, departures: Array) -> Up:
        """Of departures (m, r) of weights, times what registers should hold: (r,).

        Of labels, one counts; the registers add up.
        """
        total = Up.zeros(departures.shape[1])
        for each in self:
            rows = departures[each.register.features]
            if each.is_written and rows.any():
                total = total + Up.of(rows).most(0) * each.nominal
        return total

    def sizes(self, weights: Array) -> Up:
        """Of features times weights (m, r) in a run: (r,)."""
        return self.nominal(weights) + self.errors(weights)

    def errors(self, weights: Array) -> Up:
        """What the errors of registers make of features times weights (m, r): (r,)."""
        total = Up.zeros(weights.shape[1])
        for each in self:
            rows = weights[each.register.features]
            if not each.is_exact and rows.any():
                total = total + Up.of(rows).sum(0) * each.error
        return total
