"""Arrays as the representation holds them: of one dtype, finite, not empty, read-only."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from attnforge.errors import TargetError

Array = npt.NDArray[np.float64]
Indices = npt.NDArray[np.int64]

REMEDY = "Rebuild the network, or mend the arrays"


def weights(what: str, array: Any, *axes: int) -> Array:
    """A read-only view of a float64 array with one of these numbers of axes; anything else is refused.

    Another dtype is not converted: readers would round it at different places.
    """
    _check(what, array, np.dtype(np.float64), axes)
    if not np.isfinite(array).all():
        raise TargetError("Every weight must be finite", f"NaN or infinity in {what}", REMEDY)
    return _frozen(array)


def optional_weights(what: str, array: Any, *axes: int) -> Array | None:
    """The same where there may be none."""
    return None if array is None else weights(what, array, *axes)


def indices(array: Any) -> Indices:
    """A read-only view of distinct int64 numbers of tokens."""
    _check("row indices", array, np.dtype(np.int64), (1,))
    if array.min() < 0 or len(np.unique(array)) != len(array):
        raise TargetError("Rows are distinct tokens, counted from 0", str(array.tolist())[:80], REMEDY)
    return _frozen(array)


def _check(what: str, array: Any, dtype: np.dtype[Any], axes: tuple[int, ...]) -> None:
    wanted = f"{what}: an array of {dtype} with {' or '.join(map(str, axes))} axes, not empty"
    if not isinstance(array, np.ndarray):
        raise TargetError(wanted, type(array).__name__, REMEDY)
    if array.dtype != dtype or array.ndim not in axes or array.size == 0:
        raise TargetError(wanted, f"{array.dtype} of shape {array.shape}", REMEDY)


def _frozen(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    view = array.view(np.ndarray)
    view.flags.writeable = False
    return view
