"""Choices between numbers that are equal but for roundings: the first of them is taken, on every processor."""

from __future__ import annotations

from collections.abc import Sequence

CLEARLY = 1 - 2.0**-10  # times another number: clearly less. Residuals are known to four digits (fitting.NOISY)


def first_of_least(numbers: Sequence[float]) -> int:
    """The place of the first number that no other is clearly less than.

    >>> first_of_least([3.0, 1.0001, 1.0]), first_of_least([-1.0, -1.0001, -2.0]), first_of_least([float("inf")])
    (1, 2, 0)
    """
    least = min(numbers)
    limit = least / CLEARLY if least > 0 else least * CLEARLY
    return next((i for i, number in enumerate(numbers) if number <= limit), 0)
