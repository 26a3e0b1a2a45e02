"""Constructed heads against the softmax written out, and against each other."""

from __future__ import annotations

import numpy as np
import pytest

from attnforge.certification.certify import certify
from attnforge.experiments.constructed_vs_trained.building import build
from attnforge.experiments.constructed_vs_trained.continuing import STARTS
from attnforge.experiments.constructed_vs_trained.task import KEYS, Task
from tests.experiments.constructed_vs_trained.softmax import softmax_over_anchors

TASK = Task(0)


def test_one_head_against_the_softmax_written_out() -> None:
    network, target = build("mean", 1, TASK.w, TASK.t)
    x, _ = TASK.data(9, 20)
    wanted = softmax_over_anchors((x * TASK.w).sum(axis=-1) + TASK.t)
    assert np.allclose(network(x)[..., 0], wanted, atol=1e-9)
    assert certify(network, target).bound == pytest.approx(0.173, abs=1e-3)


@pytest.mark.parametrize("kind", STARTS)
def test_heads_hold_p_keys_each_and_four_are_better_than_one(kind: str) -> None:
    bounds = []
    for heads in (1, 4):
        network, target = build(kind, heads, TASK.w, TASK.t)
        assert [head.memory_size for head in network.heads] == [KEYS] * heads
        bounds.append(certify(network, target).bound or 0.0)
    assert bounds[1] < bounds[0] / 3
