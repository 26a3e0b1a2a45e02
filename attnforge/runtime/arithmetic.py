"""The arithmetic a certificate assumes, kept where torch may change it behind a module's back.

``torch.autocast`` casts the operands of products to half precision; it is switched off inside our modules, whatever is
around them. Settings of the process may let float32 products be computed in fewer bits (TensorFloat-32, bfloat16):
those are not ours to change, and are noticed. Another one lets attention of half types be computed in those types:
:func:`halves_stay_halves`.
"""

from __future__ import annotations

import warnings
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch

BACKENDS = {"cpu": ("mkldnn",), "cuda": ("cuda",)}  # whose settings count on a device
HALVES = (torch.bfloat16, torch.float16)
FULL = ("none", "ieee")  # "none": as the setting above it says


def as_written(device: torch.device) -> AbstractContextManager[Any]:
    """Inside, products are computed in the dtype of their operands."""
    cast = device.type != "meta" and torch.is_autocast_enabled(device.type)  # nothing is computed on that device
    return torch.autocast(device.type, enabled=False) if cast else nullcontext()


def halves_stay_halves(dtype: torch.dtype) -> bool:
    """Whether attention of a half type may be accumulated in that type, where torch writes it out."""
    return dtype in HALVES and _halves_allowed()


@torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]
def _halves_allowed() -> bool:
    """A graph is captured for the setting of that time."""
    return bool(torch.backends.cuda.fp16_bf16_reduction_math_sdp_allowed())  # type: ignore[no-untyped-call]


def reduced_precision(device: torch.device) -> str | None:
    """The setting by which float32 products on a device may have fewer bits than float32; None if there is none."""
    above = str(getattr(torch.backends, "fp32_precision", "none"))
    for name in BACKENDS.get(device.type, ()):
        backend = getattr(torch.backends, name)
        whole = str(getattr(backend, "fp32_precision", "none"))
        found = str(getattr(backend.matmul, "fp32_precision", "none")) if hasattr(backend, "matmul") else "none"
        said = next((each for each in (found, whole, above) if each != "none"), "none")
        if said not in FULL:
            return f"torch.backends.{name}.matmul.fp32_precision = {said!r}"
    if not hasattr(torch.backends, "fp32_precision") and torch.get_float32_matmul_precision() != "highest":
        return f"torch.set_float32_matmul_precision({torch.get_float32_matmul_precision()!r})"
    return None


def warn_of_reduced_precision(dtype: torch.dtype, device: torch.device) -> None:
    """Say once that what runs may not be what was certified."""
    setting = reduced_precision(device) if dtype == torch.float32 and not torch.compiler.is_compiling() else None
    if setting is not None:
        remedy = 'torch.set_float32_matmul_precision("highest") makes it so'
        message = f"no certificate covers float32 products in fewer bits, as {setting} allows; {remedy}"
        warnings.warn(message, UserWarning, stacklevel=4)
