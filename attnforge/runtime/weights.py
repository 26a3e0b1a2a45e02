"""Where a weight lives in a module: a parameter when it is to be trained, else a buffer."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch
from torch import nn


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
