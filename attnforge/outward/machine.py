"""What each dtype does to a number: unit roundoff, range, and the precision its attention kernel accumulates in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import numpy.typing as npt

from attnforge.errors import RefusalError
from attnforge.outward.upward import Up

if TYPE_CHECKING:
    import torch

Array = npt.NDArray[np.float64]
DType: TypeAlias = "str | torch.dtype"


@dataclass(frozen=True)
class Machine:
    """The floating-point model a rounding bound assumes.

    Every elementary operation of the dtype returns the exact result times ``1 + e``, ``|e| <= roundoff``, or errs by
    at most ``underflow`` absolutely. Inside attention, scores, exponentials and weighted sums are accumulated with
    ``accumulation`` (float32 for the half types: PyTorch's kernels never round a score to a half type), but the
    weights may be rounded to the dtype before they meet the values. ``underflow`` allows kernels that flush numbers
    below the smallest normal one to zero; float16 numbers are made from float32 ones, which keeps its subnormals.
    """

    name: str
    roundoff: float
    accumulation: float
    largest: float
    underflow: float
    bytes: int

    def cast(self, sizes: Up) -> Up:
        """What float64 numbers of these sizes lose when they are rounded to the dtype; the half types through float32.

        >>> float(MACHINES["float64"].cast(Up.of(1.0)))
        0.0
        """
        if self.name == "float64":
            return sizes * 0.0
        return sizes * (self.roundoff * (1 + 2.0**-10)) + self.underflow


MACHINES = {
    "float64": Machine("float64", 2.0**-53, 2.0**-53, float(np.finfo(np.float64).max), 2.0**-1022, 8),
    "float32": Machine("float32", 2.0**-24, 2.0**-24, float(np.finfo(np.float32).max), 2.0**-126, 4),
    "bfloat16": Machine("bfloat16", 2.0**-8, 2.0**-24, 2.0**127 * (2 - 2.0**-7), 2.0**-126, 2),
    "float16": Machine("float16", 2.0**-11, 2.0**-24, 65504.0, 2.0**-24, 2),
}


def dtype_name(dtype: DType) -> str:
    """The name of a dtype, given by its name or as torch has it.

    >>> dtype_name("float32"), dtype_name(np.float32)
    ('float32', 'float32')
    """
    text = str(getattr(dtype, "__name__", dtype)).removeprefix("torch.")
    return machine(text).name


def machine(dtype: str) -> Machine:
    """The model of a dtype, by name.

    >>> machine("float16").largest
    65504.0
    """
    if dtype not in MACHINES:
        raise RefusalError("`dtype` must be one of " + ", ".join(MACHINES), repr(dtype)[:80], "Choose one of these")
    return MACHINES[dtype]


def round_to(values: Array, dtype: str) -> Array:
    """The float64 array whose entries are ``values`` rounded to nearest in ``dtype`` (ties to even).

    >>> round_to(np.array([1.0 + 2.0**-9, 3.14159]), "bfloat16").tolist()
    [1.0, 3.140625]
    """
    machine(dtype)
    values = np.asarray(values, dtype=np.float64)
    if dtype == "float64":
        return values
    with np.errstate(over="ignore"):
        single = values.astype(np.float32)  # the half types are reached through float32, as a PyTorch cast does
        if dtype == "float32":
            return single.astype(np.float64)
        if dtype == "float16":
            return single.astype(np.float16).astype(np.float64)
    return _round_to_bfloat16(single)


def _round_to_bfloat16(single: npt.NDArray[np.float32]) -> Array:
    """Drop the lower 16 bits of a float32, rounding to nearest, ties to even."""
    bits = single.view(np.uint32)
    rounded = (bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) & np.uint32(0xFFFF0000)
    return np.where(np.isfinite(single), rounded.view(np.float32), single).astype(np.float64)
