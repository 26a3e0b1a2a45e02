"""Attention that is trained instead of constructed: the same layer, found by gradient descent."""

from __future__ import annotations

import time
from collections.abc import Callable
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


class PaddedSelfAttention(nn.Module):
    """One layer of multi-head self-attention over a padded sequence, as Hu et al. 2025 train it.

    A token becomes ``width`` features by a linear map, multiplied feature by feature by factors of its own position
    (ones at first); p - n free tokens, on a line from -1 to 1 at first, stand behind the n tokens. H heads of width / H
    features attend over all p, a linear map follows, and the first n tokens are read. Takes (batch, n, d), returns
    (batch, n, width).
    """

    def __init__(
        self, features: int, tokens: int, padded: int, heads: int = 1, width: int = 32, *, seed: int = 0
    ) -> None:
        super().__init__()
        self.heads = heads
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.embed = nn.Linear(features, width)
            self.project = nn.Linear(width, 3 * width)
            self.mix = nn.Linear(width, width)
        self.factors = nn.Parameter(torch.ones(tokens, width))
        self.extra = nn.Parameter(torch.linspace(-1.0, 1.0, padded - tokens)[:, None].repeat(1, width))

    def forward(self, x: Tensor) -> Tensor:
        """All output features of the n tokens."""
        rows = torch.cat([self.embed(x) * self.factors, self.extra.expand(len(x), -1, -1)], dim=1)
        query, key, value = self.project(rows).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        attended = nn.functional.scaled_dot_product_attention(query, key, value)
        out: Tensor = self.mix(attended.transpose(1, 2).flatten(2))
        return out[:, : x.shape[1]]


def train(
    module: nn.Module,
    inputs: Tensor,
    targets: Tensor,
    *,
    epochs: int,
    batch: int,
    rate: float = 1e-2,
    seed: int = 0,
    constant: bool = False,
    after: Callable[[int], None] | None = None,
) -> Fit:
    """Minimise the mean square error by Adam over shuffled batches, the step size falling to zero by a cosine.

    With ``constant`` the step size stays. ``after`` is told the number of epochs done, after each; its time counts.
    """
    generator = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.Adam(module.parameters(), lr=rate)
    schedule = None if constant else torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs)
    losses = []
    start = time.perf_counter()
    for epoch in range(epochs):
        total = 0.0
        for rows in torch.split(torch.randperm(len(inputs), generator=generator), batch):
            loss = nn.functional.mse_loss(module(inputs[rows]), targets[rows])
            optimizer.zero_grad()
            torch.autograd.backward(loss)
            optimizer.step()
            total += loss.item() * len(rows)
        if schedule is not None:
            schedule.step()
        losses.append(total / len(inputs))
        if after is not None:
            after(epoch + 1)
    return Fit(time.perf_counter() - start, tuple(losses))
