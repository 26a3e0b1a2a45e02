"""Affine forms in words."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]

LONGEST = 4  # names of a form that is written out


def form_text(weights: Array, offset: float, names: Sequence[str] | None) -> str:
    """The form in the names of the inputs, if it is short; else in general.

    >>> form_text(np.array([1.0, -2.0]), 0.5, ("x", "y"))
    'x − 2 y + 0.5'
    """
    if names is None or np.count_nonzero(weights) > LONGEST:
        return "w · x + t"
    terms = [_term(w, name) for w, name in zip(weights.tolist(), names, strict=True) if w]
    constant = [_term(offset, "")] if offset else []
    return " ".join([*terms, *constant]).removeprefix("+ ") or "0"


def _term(factor: float, name: str) -> str:
    """A signed summand; a factor of one goes without saying."""
    size = f"{abs(factor):.3g}"
    size = "" if name and size == "1" else size
    return " ".join(part for part in ("−" if factor < 0 else "+", size, name) if part)
