"""Arrays inside JSON: their bytes in base 64, of which the page makes typed arrays without parsing a digit."""

from __future__ import annotations

import base64
import math
from typing import Any

import numpy as np
import numpy.typing as npt

WHOLE = 65535  # the largest number of two bytes: a weight of one


def packed(values: npt.ArrayLike) -> dict[str, Any]:
    """Numbers in float32: seven digits are more than a screen shows, and its range holds every error of float64.

    >>> packed([1.0, 2.0])
    {'kind': 'f32', 'shape': [2], 'data': 'AACAPwAAAEA='}
    """
    array = np.ascontiguousarray(values, dtype="<f4")
    return {"kind": "f32", "shape": list(array.shape), "data": base64.b64encode(array.tobytes()).decode("ascii")}


def packed_weights(weights: npt.ArrayLike) -> dict[str, Any]:
    """Attention weights, between 0 and 1, as whole numbers of two bytes; what is not finite is shown as zero."""
    array = np.nan_to_num(np.asarray(weights, dtype=np.float64), nan=0.0, posinf=0.0, neginf=0.0)
    whole = np.ascontiguousarray(np.rint(np.clip(array, 0.0, 1.0) * WHOLE), dtype="<u2")
    return {"kind": "u16", "shape": list(whole.shape), "data": base64.b64encode(whole.tobytes()).decode("ascii")}


def unpacked(data: dict[str, Any]) -> npt.NDArray[np.float64]:
    """The array again; weights between 0 and 1.

    >>> unpacked(packed([0.5, 2.0])).tolist(), unpacked(packed_weights([0.0, 1.0])).tolist()
    ([0.5, 2.0], [0.0, 1.0])
    """
    kind = {"f32": "<f4", "u16": "<u2"}[data["kind"]]
    array = np.frombuffer(base64.b64decode(data["data"]), dtype=kind).reshape(data["shape"])
    return np.asarray(array, dtype=np.float64) / (WHOLE if kind == "<u2" else 1)


def finite(value: Any) -> float | None:
    """A number that JSON can hold, or None."""
    number = float(value)
    return number if math.isfinite(number) else None
