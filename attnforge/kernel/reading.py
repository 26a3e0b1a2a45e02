"""Plain data from anywhere: every field of a derivation is of its kind and within its limits, or it is refused."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from typing import Any, NoReturn, TypeVar

from attnforge.errors import CertificateError

T = TypeVar("T")

REMEDY = "Prove the network again"


def refuse(requirement: str, got: object) -> NoReturn:
    """A derivation that is none."""
    raise CertificateError(requirement, ascii(got)[:80], REMEDY)


def fields(value: Any, names: Collection[str], what: str) -> Mapping[str, Any]:
    """A mapping with exactly these fields.

    >>> fields({"a": 1}, {"a"}, "a pair")
    {'a': 1}
    """
    if not isinstance(value, Mapping) or set(value) != set(names):
        refuse(f"The fields of {what} are {', '.join(sorted(names))}", value)
    return value


def whole(value: Any, least: int, most: int, what: str) -> int:
    """A whole number between two, both included."""
    if type(value) is not int or not least <= value <= most:
        refuse(f"{what} is a whole number from {least} to {most}", value)
    return value


def real(value: Any, what: str) -> float:
    """A finite number."""
    if type(value) not in (int, float) or not abs(value) < math.inf:
        refuse(f"{what} is a finite number", value)
    try:
        return float(value)
    except OverflowError:
        refuse(f"{what} is a finite number", "a larger one")


def truth(value: Any, what: str) -> bool:
    """Yes or no."""
    if type(value) is not bool:
        refuse(f"{what} is true or false", value)
    return value


def listed(value: Any, most: int, what: str, entry: Callable[[Any], T]) -> tuple[T, ...]:
    """A list of so many entries at most.

    >>> listed([1, 2], 3, "a list of degrees", lambda each: whole(each, 0, 8, "a degree"))
    (1, 2)
    """
    if not isinstance(value, list | tuple) or len(value) > most:
        refuse(f"{what} is a list of up to {most} entries", value)
    return tuple(map(entry, value))
