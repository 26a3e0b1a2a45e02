"""Trained and constructed: errors on fresh data, and the seconds of one core until the weights are there."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch

from attnforge.certification.certify import certify
from attnforge.experiments.constructed_vs_trained.networks import as_module, build, by_library
from attnforge.experiments.constructed_vs_trained.task import BATCH, FEATURES, KEYS, TOKENS, Task, errors, estimated
from attnforge.experiments.experiment import Row
from attnforge.experiments.table import Array
from attnforge.experiments.training import PaddedSelfAttention, train
from attnforge.network import Network, count_parameters

WIDTH, RATE = 32, 1e-3  # features inside the trained model, and its step size
REPEATS = 20  # builds that are timed together


def trained(task: Task, heads: int, epochs: int) -> Row:
    """The authors' model, trained by their protocol and judged on fresh data."""
    (x, y), (test_x, test_y), (fresh_x, fresh_y) = task.training(), task.test(), task.fresh()
    module = PaddedSelfAttention(FEATURES, TOKENS, KEYS, heads, WIDTH, seed=task.seed)
    inputs, targets = torch.tensor(x, dtype=torch.float32), _channels(y)
    start = time.process_time()
    train(module, inputs, targets, epochs=epochs, batch=BATCH, rate=RATE, seed=task.seed, constant=True)
    seconds = time.process_time() - start
    with torch.no_grad():
        printed = (module(torch.tensor(test_x, dtype=torch.float32)) - _channels(test_y)).square().mean()
        out = module(torch.tensor(fresh_x, dtype=torch.float32))[..., 0].double().numpy()
    weights = sum(each.numel() for each in module.parameters())
    return {**errors(out, fresh_y), "printed": float(printed), "seconds": seconds, "weights": weights}


def _channels(y: Array) -> torch.Tensor:
    """The targets as the first of all output features, the others zero."""
    wide = torch.zeros(*y.shape, WIDTH)
    wide[..., 0] = torch.tensor(y)
    return wide


def constructed(task: Task, kind: str, heads: int, *, library: bool) -> Row:
    """The construction: errors, bound, and the times of weights, of weights and proof, and of the public call."""
    x, y = task.training()

    def make() -> Network:
        w, t = estimated(x, y) if kind == "estimated" else (task.w, task.t)
        return build(kind, heads, w, t)[0]

    network, seconds = _timed(make, 1 if kind == "estimated" else REPEATS)
    certificate, proof = _timed(lambda: certify(network, task.target()), 3)
    fresh_x, fresh_y = task.fresh()
    row = {
        **errors(_run(network, task, fresh_x), fresh_y),
        "bound": certificate.bound,
        "seconds": seconds,
        "proved_seconds": seconds + proof,
        "weights": count_parameters(network)[0],
    }
    if kind == "mean" and library:
        row["library_seconds"] = _timed(lambda: by_library(task, heads), 1)[1]
    return row


def _timed(call: Callable[[], Any], repeats: int) -> tuple[Any, float]:
    """What the call returns, and its seconds of one core, after one call that fills caches and loads modules."""
    found = call()
    start = time.process_time()
    for _ in range(repeats):
        call()
    return found, (time.process_time() - start) / repeats


def _run(network: Network, task: Task, x: Array) -> Array:
    with torch.no_grad():
        out: Array = as_module(network, task.target(), trainable=False)(torch.tensor(x)).numpy()
    return out
