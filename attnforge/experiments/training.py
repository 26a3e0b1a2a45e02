"""Attention that is trained instead of constructed: the same layer, found by gradient descent."""

from __future__ import annotations

import time
from dataclasses import dataclass

import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class Fit:
    """What training took, and the mean square error after every epoch."""

    seconds: float
    losses: tuple[float, ...]


class MemoryHeads(nn.Module):
    """H softmax heads over p keys and values of their own, summed: what a constructed layer is, with free weights.

    Scores are (x W_Q + b) K^T / sqrt(r) over keys (H, p, r); values are numbers. All weights start from a normal
    distribution of the usual scale and all are trained. Takes (..., d), returns (...).
    """

    def __init__(self, features: int, anchors: int, heads: int = 1, width: int = 8, *, seed: int = 0) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(seed)

        def normal(*shape: int, scale: float) -> nn.Parameter:
            return nn.Parameter(scale * torch.randn(*shape, generator=generator))

        self.query = normal(heads, features, width, scale=features**-0.5)
        self.offset = normal(heads, 1, width, scale=1.0)
        self.keys = normal(heads, anchors, width, scale=1.0)
        self.values = normal(heads, anchors, scale=1.0)
        self.scale = width**-0.5

    def forward(self, x: Tensor) -> Tensor:
        """Values at x."""
        flat = x.reshape(1, -1, x.shape[-1])
        scores = (flat @ self.query + self.offset) @ self.keys.mT * self.scale
        mixed = torch.softmax(scores, dim=-1) @ self.values[:, :, None]
        return mixed.sum(dim=0).reshape(x.shape[:-1])


def train(
    module: nn.Module, inputs: Tensor, targets: Tensor, *, epochs: int, batch: int, rate: float = 1e-2, seed: int = 0
) -> Fit:
    """Minimise the mean square error by Adam over shuffled batches, the step size falling to zero by a cosine."""
    generator = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.Adam(module.parameters(), lr=rate)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs)
    losses = []
    start = time.perf_counter()
    for _ in range(epochs):
        total = 0.0
        for rows in torch.split(torch.randperm(len(inputs), generator=generator), batch):
            loss = nn.functional.mse_loss(module(inputs[rows]), targets[rows])
            optimizer.zero_grad()
            torch.autograd.backward(loss)
            optimizer.step()
            total += loss.item() * len(rows)
        schedule.step()
        losses.append(total / len(inputs))
    return Fit(time.perf_counter() - start, tuple(losses))
