"""Bounds of trained heads: proved, with what proved them, or none with the reason."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from attnforge.experiments.constructed_vs_trained.continuing import proved
from attnforge.network import Network
from tests.experiments.constructed_vs_trained.small_head import TARGET, small_head


def with_values(network: Network, change: Any) -> Network:
    attention: Any = network.layers[1]
    head = attention.heads[0]
    heads = (replace(head, memory_values=change(head.memory_values)),)
    return replace(network, layers=(network.layers[0], replace(attention, heads=heads)))


def test_a_head_as_it_was_built_is_proved_by_the_theorem_and_one_that_moved_by_enclosure() -> None:
    assert proved(small_head(), TARGET, 4_000)["proof"] == "theorem"
    noise = 0.05 * np.random.default_rng(0).standard_normal((12, 1))
    network = with_values(small_head(), lambda values: values + noise)
    x = np.random.default_rng(1).uniform(-1, 1, (20_000, 3, 2))
    error = float(np.abs(network(x)[..., 0] - TARGET.values(x)).max())
    found: Any = proved(network, TARGET, 4_000)
    assert found["proof"] == "enclosure"
    assert error <= found["bound"] <= 1.1 * error


def test_where_nothing_is_proved_the_reason_is_told() -> None:
    found = proved(with_values(small_head(), lambda values: 1e307 * values), TARGET, 4_000)
    assert found["bound"] is None
    assert "Sums over the keys of a head must stay below" in str(found["proof"])
