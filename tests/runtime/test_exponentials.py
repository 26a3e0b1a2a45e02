"""Exponentials of the kernels that write a softmax out err by no more than certificates charge for them."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from attnforge.runtime import sharded
from attnforge.runtime.product_loop import CONSTANTS, _exponentials_all


@pytest.mark.parametrize("shape", [(1, 2, 4096), (8, 2, 3), (512, 2, 1)])
def test_of_a_softmax_in_float32(shape):
    """Of exp(x) beside exp(0), x so small that their sum is 1: what is left is the exponential itself."""
    scores = torch.zeros(shape)
    scores[:, 1] = -17.5 - 69 * torch.rand(shape[0], shape[2], generator=torch.Generator().manual_seed(0))
    found, exact = torch.softmax(scores, dim=1)[:, 1].double(), scores[:, 1].double().exp()
    units = 2.0 ** (exact.log2().floor() - 23)
    assert ((found - exact).abs() <= 2 * units).all()  # ULPS are 4; the kernel promises one


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_of_the_compiled_loop_over_products(dtype):
    """Against extended precision: below 2 units in the last place, sums of one's own size, and none below the least."""
    scores = np.random.default_rng(0).uniform(-80, 0, (40, 500)).astype(dtype)
    scores[0], scores[1] = 0.0, -1e4
    bits = np.vstack([scores, scores[:1]]).view(np.int64 if dtype is np.float64 else np.int32)
    weights, room, total = bits[:-1].view(dtype), bits[-1].view(dtype), np.empty(500, dtype)
    _exponentials_all(weights, bits[:-1], room, bits[-1], total, CONSTANTS[np.dtype(dtype).name])
    exact = np.exp(scores.astype(np.longdouble))
    assert np.abs(weights / exact - 1)[np.arange(40) != 1].max() <= 2 * np.finfo(dtype).eps
    assert weights[1].max() <= 2 * np.finfo(dtype).tiny
    np.testing.assert_allclose(total, weights.sum(axis=0), rtol=40 * np.finfo(dtype).eps)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_of_shards(dtype):
    """By units, or by the smallest normal number."""
    vanishing, least = sharded.FAINT[dtype]
    near, far = torch.linspace(1.1 * vanishing, 0.99 * least, 20001), torch.linspace(3 * vanishing, 0, 20001)
    x = torch.cat([near, far, torch.tensor([-torch.inf, 0.0])]).to(dtype)
    exact = np.exp(x.numpy().astype(np.longdouble))
    error = np.abs(sharded._exponential(x).numpy().astype(np.longdouble) - exact)
    assert bool((error <= np.maximum(4 * torch.finfo(dtype).eps * exact, torch.finfo(dtype).tiny)).all())
    assert sharded._exponential(torch.tensor([torch.nan], dtype=dtype)).isnan()
