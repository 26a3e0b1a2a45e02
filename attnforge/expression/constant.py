"""Numbers as people write them: ``-pi/2``, ``sqrt(2)``, ``1e-3``."""

from __future__ import annotations

import math

import numpy as np

from attnforge.errors import TargetError
from attnforge.expression.parse import checked_text, parse
from attnforge.expression.points import enclosed_values
from attnforge.expression.tree import joined, variables

EXAMPLES = "Write a number, or one such as pi, 2*pi, -pi/2, sqrt(2) or 1e-3"


def constant(text: str) -> float:
    """The float64 nearest to an expression without variables, read by the parser of formulas.

    It is enclosed in balls first, so that the last digit is right also where ``pi`` cancels.

    >>> constant("-pi/2"), constant("1e-3")
    (-1.5707963267948966, 0.001)
    """
    tree = parse(checked_text(text))
    if names := variables(tree):
        raise TargetError("A constant has no variables", f"{names[0]!r} in {text!r:.80}", EXAMPLES)
    value = float(enclosed_values(joined([tree]), (), np.zeros((1, 0))).mid[0, 0])
    if not math.isfinite(value):
        raise TargetError("A constant must have a finite value", f"{text!r:.80}", EXAMPLES)
    return value
