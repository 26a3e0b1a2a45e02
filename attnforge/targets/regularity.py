"""What is known of a function's smoothness: Lipschitz constants, given by the user or proved from a formula."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from attnforge.errors import TargetError, is_number

FACTORS = {"sup": lambda inputs: 1.0, "l2": math.sqrt, "l1": float}


@dataclass(frozen=True)
class Lipschitz:
    """|f(x) - f(y)| <= constant |x - y| for all x, y of the domain; the largest entry on the left.

    ``norm`` is the norm of x - y: ``sup``, ``l2`` or ``l1``. ``proved`` is set where attnforge derived it itself.

    >>> Lipschitz(2.0).in_sup_norm(4), 4.0 <= Lipschitz(2.0, "l2").in_sup_norm(4) < 4.0001
    (2.0, True)
    """

    constant: float
    norm: str = "sup"
    proved: bool = False

    def __post_init__(self) -> None:
        if self.norm not in FACTORS:
            raise TargetError("The norm of a Lipschitz constant is sup, l2 or l1", repr(self.norm), "Use 'sup'")
        if not (is_number(self.constant) and math.isfinite(self.constant) and self.constant >= 0):
            got = repr(self.constant)
            raise TargetError("A Lipschitz constant is a finite number, at least 0", got, "Leave it out if unknown")

    def in_sup_norm(self, inputs: int) -> float:
        """The constant for the sup norm of x - y with that many inputs: |x|_2 <= sqrt(d) |x|, |x|_1 <= d |x|."""
        factor = FACTORS[self.norm](inputs)
        return self.constant if factor == 1.0 else math.nextafter(self.constant * factor, math.inf)


def as_lipschitz(given: Any) -> Lipschitz | None:
    """A number, a Lipschitz or None."""
    if given is None or isinstance(given, Lipschitz):
        return given
    try:
        return Lipschitz(float(given))
    except (TypeError, ValueError) as error:
        if isinstance(error, TargetError):
            raise
        raise TargetError("`lipschitz` must be a number or af.Lipschitz(constant, norm)", repr(given)) from None
