"""Linear maps that write the affine image of each token's form, shared by the constructions that read one form."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from attnforge.network import Linear, Term
from attnforge.targets import Target

Array = npt.NDArray[np.float64]


def form_of(target: Target) -> tuple[Array, Array, float, float]:
    """Numbers w (rows, d), t (rows,), a, b of a truncated linear target, as float64 numbers."""
    form = target.truncated_form()
    return form.weights.mid, form.offsets.mid, float(form.lower.mid), float(form.upper.mid)


def tokens_of(target: Target) -> int | None:
    """How many tokens the network takes: one for functions, None where any number will do."""
    if target.layout == "function":
        return 1
    rows = len(target.truncated_form().offsets.mid)
    if len(target.domain.shape) == 2:
        rows = max(rows, target.domain.shape[0])
    return rows if rows > 1 else None


def form_and_one(w: Array, t: Array, scale: float, shift: float) -> Linear:
    """Token i becomes (scale (w_i . x_i + t_i) + shift, 1)."""
    rows, d = w.shape
    maps = np.zeros((rows, d, 2))
    maps[:, :, 0] = scale * w
    constant = np.stack([scale * t + shift, np.ones(rows)], axis=1)
    return Linear((Term(maps[0] if rows == 1 else maps),), constant)


def products_per_token(w: Array, tokens: int, width: int) -> Array:
    """Maps (tokens, d, width) that write w_i * x_i, entry by entry, into the first d features."""
    d = w.shape[1]
    maps = np.zeros((tokens, d, width))
    maps[:, np.arange(d), np.arange(d)] = w
    return maps
