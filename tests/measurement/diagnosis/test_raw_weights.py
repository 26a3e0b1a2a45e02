"""Weights given as matrices: checked, bounded in memory, and computed as torch does."""

import tracemalloc
from typing import Any

import numpy as np
import pytest
import torch

from attnforge.errors import AttnforgeError, TargetError
from attnforge.measurement.diagnosis import AttentionWeights, diagnose_views, weights_views

RNG = np.random.default_rng(0)
Q, K, V = RNG.normal(size=(3, 6, 4))
MEMORY = RNG.normal(size=(5, 4))
X = RNG.normal(size=(3, 7, 6))

WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "no heads": ({"heads": 0}, "`heads` must be a whole number"),
    "negative heads": ({"heads": -2}, "`heads` must be a whole number"),
    "real heads": ({"heads": 2.0}, "`heads` must be a whole number"),
    "too many heads": ({"heads": 3}, "Queries and keys have H r features"),
    "key of other rows": ({"key": K[:5]}, "`key` must have 6 rows"),
    "key of another width": ({"key": K[:, :2]}, "Queries and keys have H r features"),
    "short query bias": ({"query_bias": np.zeros(3)}, r"`query_bias` must have shape \(4,\)"),
    "upright bias": ({"key_bias": np.zeros((4, 1))}, r"`key_bias` must have shape \(4,\)"),
    "bias of no key": ({"key": None, "memory_keys": MEMORY, "key_bias": np.zeros(4)}, "`key_bias` is added"),
    "few values": ({"memory_keys": MEMORY, "memory_values": np.zeros((2, 1))}, "`memory_values` must have 5 rows"),
    "values of no keys": ({"memory_values": np.zeros((2, 1))}, "`memory_values` must have 0 rows"),
    "uneven values": ({"value": V[:, :3], "heads": 2}, "same number of columns for every head"),
    "scale": ({"scale": np.nan}, "`scale` must be a finite number"),
    "scale in words": ({"scale": "big"}, "`scale` must be a finite number"),
    "value": ({"value": "junk"}, "`value` must be a matrix of numbers"),
    "infinite query": ({"query": np.full((6, 4), np.inf)}, "`query` must be a finite matrix"),
    "empty query": ({"query": Q[:, :0]}, "`query` must be a finite matrix"),
    "nothing to attend to": ({"key": None}, "one of `key`, `memory_keys`"),
}


@pytest.mark.parametrize("name", WRONG)
def test_weights_that_do_not_fit(name: str) -> None:
    changes, text = WRONG[name]
    with pytest.raises(TargetError, match=text) as caught:
        weights_views(AttentionWeights(**{"query": Q, "key": K, **changes}), X)
    assert caught.value.got
    assert caught.value.remedy


@pytest.mark.parametrize("x", [X[..., :5], X[0, 0], X[:0], X[:, :0]])
def test_tokens_that_do_not_fit(x: np.ndarray) -> None:
    with pytest.raises(AttnforgeError, match="Tokens have 6 features"):
        weights_views(AttentionWeights(Q, K), x)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("memory", [None, MEMORY])
def test_weights_are_those_of_torch(causal: bool, memory: np.ndarray | None) -> None:
    bias = RNG.normal(size=(2, 4))
    given = AttentionWeights(
        Q, torch.from_numpy(K), V, bias[0], bias[1:], memory, heads=2, causal=causal, dtype="float64"
    )
    for view in weights_views(given, X):
        cut = slice(2 * view.head, 2 * view.head + 2)
        queries, keys = X @ Q[:, cut] + bias[0, cut], X @ K[:, cut] + bias[1, cut]
        scores = queries @ keys.transpose(0, 2, 1) / np.sqrt(2)
        if causal:
            scores[:, np.triu(np.ones((7, 7), dtype=bool), 1)] = -np.inf
        if memory is not None:
            scores = np.concatenate([queries @ memory[:, cut].T / np.sqrt(2), scores], axis=2)
        expected = np.exp(scores) / np.exp(scores).sum(axis=2, keepdims=True)
        assert np.allclose(view.ran, expected.reshape(21, -1), atol=1e-12)
        with np.errstate(invalid="ignore"):
            assert np.allclose(view.scores(slice(None)).astype(float), scores.reshape(21, -1), atol=1e-12)


def test_values_of_constant_keys_are_the_head_s_own() -> None:
    keys = np.repeat(MEMORY[:1], 2, axis=0)
    given = AttentionWeights(Q, memory_keys=keys, memory_values=[[1.0, 2.0], [1.0, 3.0]], heads=2)
    found = diagnose_views(weights_views(given, X))
    assert [(f.where.head, f.severity) for f in found.findings if f.signature == "duplicate keys"] == [
        (1, "warning"),
        (0, "note"),
    ]


def test_memory_does_not_grow_with_the_batch() -> None:
    rng = np.random.default_rng(0)
    query, key = rng.normal(size=(2, 32, 64)) / 8
    tracemalloc.start()
    try:
        views = weights_views(AttentionWeights(query, key, heads=2), rng.normal(size=(4, 1024, 32)))
        counts = [len(view.queries) for view in views]
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert counts == [128, 128]
    assert peak < 300e6  # a copy of the keys for each of the 4096 queries would take 1.1 GB
