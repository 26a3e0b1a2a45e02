"""Where a weight lives in a module: a parameter when it is to be trained, else a buffer."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from attnforge.errors import RefusalError

DTYPES = (torch.float64, torch.float32, torch.bfloat16, torch.float16)


def check_fits(tensor: Tensor, dtype: torch.dtype) -> None:
    """Raise unless a module runs in that dtype, with weights that are numbers of it."""
    if tensor.dtype == dtype:
        return
    name = str(dtype).removeprefix("torch.")
    if dtype not in DTYPES:
        allowed = ", ".join(str(each).removeprefix("torch.") for each in DTYPES)
        raise RefusalError(f"A module runs in {allowed}", name, "Use one of these")
    wider = tensor.is_floating_point() and torch.finfo(tensor.dtype).max > torch.finfo(dtype).max
    if wider and not tensor.is_meta and (tensor.isfinite() & ~tensor.to(dtype).isfinite()).any():
        got = f"one of {tensor.abs().max().item():.3g}, beyond {torch.finfo(dtype).max:.3g}"
        raise RefusalError(f"Every weight must fit {name}", got, f"Compile with dtype={name!r}, or use a wider dtype")


def keep(
    module: nn.Module, name: str, array: npt.NDArray[np.float64] | None, dtype: torch.dtype, trainable: bool
) -> None:
    """Register a float64 array, cast to ``dtype``, under ``name``. None is registered as None."""
    if array is None:
        module.register_buffer(name, None)
        return
    tensor = torch.tensor(array).to(dtype)
    if trainable:
        module.register_parameter(name, nn.Parameter(tensor))
    else:
        module.register_buffer(name, tensor)


def weight(module: nn.Module, name: str) -> npt.NDArray[np.float64] | None:
    """The inverse of :func:`keep`: a weight as it is at present, in float64."""
    tensor = getattr(module, name)
    return None if tensor is None else tensor.detach().cpu().double().numpy().copy()
