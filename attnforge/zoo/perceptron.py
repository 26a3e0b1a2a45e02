"""Perceptrons from their weights: what the zoo's ReLU networks and trained networks are compiled from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from torch import nn

Layer = tuple[npt.ArrayLike, npt.ArrayLike]


def perceptron(layers: Sequence[Layer], activation: str, last: Sequence[nn.Module] = ()) -> nn.Sequential:
    """Maps x -> x W + b of (W, b), W (inputs, outputs), with an activation of ``torch.nn`` between them; float64."""
    from torch import nn

    parts: list[nn.Module] = []
    for weight, bias in layers:
        parts += [_linear(np.asarray(weight, np.float64), np.asarray(bias, np.float64)), getattr(nn, activation)()]
    return nn.Sequential(*parts[:-1], *last)


def _linear(weight: npt.NDArray[Any], bias: npt.NDArray[Any]) -> nn.Linear:
    import torch

    layer = torch.nn.Linear(weight.shape[0], weight.shape[1], dtype=torch.float64)
    with torch.no_grad():
        layer.weight.copy_(torch.from_numpy(weight.T.copy()))
        layer.bias.copy_(torch.from_numpy(bias.copy()))
    return layer
