"""Runs of heads and linear maps that err as much as a model of arithmetic allows, in the direction that hurts most.

Every operation takes one number from -1 to 1 that says how far, of what it may, its result is off. Orders of summation,
blocks of keys, where a half type rounds weights, how a kernel divides are drawn by a seed; the numbers are then chosen
by ascent, one after another, so that the result is as large or as small as it gets.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from attnforge.kernel.softmax import SoftmaxArithmetic
from attnforge.outward import Machine

Array = npt.NDArray[np.float64]


class Rounding:
    """Operations on batches of executions (B,), each with its own deviations (B, n)."""

    def __init__(self, deviations: Array, machine: Machine, rng: np.random.Generator) -> None:
        self.deviations, self.machine, self.rng, self.used = deviations, machine, rng, 0

    def off(self) -> Array:
        self.used += 1
        return self.deviations[:, (self.used - 1) % self.deviations.shape[1]]

    def to(self, exact: Array, unit: float) -> Array:
        """An operation's result: within a unit of it, or nothing of what is below the normal numbers."""
        off = self.off()
        tiny = np.abs(exact) <= self.machine.underflow
        return exact * np.where(tiny, (1 + off) / 2, 1 + unit * off)

    def plus(self, one: Array, two: Array, unit: float) -> Array:
        """To nearest: adding zero is exact, and no sum is further off than its smaller addend."""
        exact = one + two
        found, most = self.to(exact, unit), np.minimum(np.abs(one), np.abs(two))
        return np.where(np.abs(exact) > self.machine.underflow, exact + np.clip(found - exact, -most, most), found)

    def sum(self, terms: Sequence[Array], unit: float) -> Array:
        """In an order that the generator draws."""
        left = list(terms)
        while len(left) > 1:
            one = left.pop(int(self.rng.integers(len(left))))
            two = left.pop(int(self.rng.integers(len(left))))
            left.append(self.plus(one, two, unit))
        return left[0]

    def product(self, one: Array, two: Array | float, unit: float, exact: bool) -> Array:
        return one * two if exact else self.to(one * two, unit)


def is_power(value: float) -> bool:
    return value == 0 or abs(float(np.frexp(value)[0])) == 0.5


def linear(run: Rounding, rows: Sequence[Array], weights: Array, constant: Sequence[float] = ()) -> list[Array]:
    """Features times a matrix, and a constant, which may come first."""
    unit, found = run.machine.roundoff, []
    for column, weight in enumerate(weights.T):
        pairs = [(row, w) for row, w in zip(rows, weight, strict=True) if w != 0]
        terms = [run.product(row, w, unit, is_power(w) and abs(w) >= 1) for row, w in pairs]
        terms += [np.full(rows[0].shape, constant[column])] if len(constant) and constant[column] else []
        found.append(run.sum(terms, unit) if terms else np.zeros(rows[0].shape))
    return found


def head(run: Rounding, query: Sequence[Array], keys: Array, values: Array, on: SoftmaxArithmetic) -> list[Array]:
    """The mean of values (p, v) by softmax weights for keys (p, f), cast to the dtype."""
    unit, half, rng = on.unit, run.machine.roundoff, run.rng
    scores = [run.sum([run.product(q, k, unit, is_power(k)) for q, k in zip(query, key, strict=True)], unit)
              for key in keys]  # fmt: skip
    far, large = on.rates
    top = np.max(scores, axis=0)
    weights = []
    for score in scores:
        apart = score - top
        apart = apart + unit * (far * run.off() * np.abs(apart) + large * run.off() * np.abs(score))
        exact = np.exp(apart)
        ulp = np.where((exact < 1) & (exact >= 0.5), unit, 2 * unit * exact) if on.written_out else (2 * unit * exact)
        ulp = np.where(exact == 1.0, unit, ulp) if on.written_out else ulp
        weight = exact + on.exponential / (2 * unit) * ulp * run.off()
        for _ in range(on.blocks - 1):  # rescaled by an exponential, which errs, and the product rounds
            weight = weight * (1 + on.exponential * run.off())
        weights.append(np.where(weight <= run.machine.underflow, weight * (1 + run.off()) / 2, weight))
    reading = rng.integers(3) if on.is_half else 0  # not rounded, in the numerator alone, in both
    seldom = [run.to(w, half) for w in weights] if reading else weights
    below = weights if reading < 2 else seldom
    total = run.sum(below, unit)
    for _ in range(on.blocks - 1):
        total = run.to(total, unit)
    first, found = rng.random() < 0.5, []
    inverse = run.to(1 / total, unit)
    for value in values.T:
        shares = [run.to(w * inverse, unit) for w in seldom] if first else seldom
        terms = [run.to(w * v, unit) for w, v in zip(shares, value, strict=True)]
        mean = run.sum([t for t, v in zip(terms, value, strict=True) if v != 0] or [terms[0]], unit)
        for _ in range(on.blocks - 1):
            mean = run.to(mean, unit)
        found.append(run.to(mean if first else run.to(mean * inverse, unit), half))
    return found


def furthest(execute: Callable[[Rounding], Array], machine: Machine, seed: int, count: int, rounds: int = 6) -> Array:
    """The largest and the smallest result of an execution with so many operations, of all that were tried."""
    found = []
    for sign in (1.0, -1.0):
        rng = np.random.default_rng([seed, 1])
        best = rng.choice([-1.0, 1.0], size=count)
        value = -np.inf
        for _ in range(rounds):
            flips = np.where(np.eye(count, dtype=bool), -best, best)
            tried = np.concatenate([best[None], flips])
            results = sign * execute(Rounding(tried, machine, np.random.default_rng(seed)))
            better = results[1:] > results[0]
            joint = np.where(better, -best, best)
            both = np.stack([joint, tried[int(np.argmax(results))]])
            ends = sign * execute(Rounding(both, machine, np.random.default_rng(seed)))
            value, best = max(value, results.max(), ends.max()), both[int(np.argmax(ends))]
        found.append(sign * value)
    return np.array(found)
