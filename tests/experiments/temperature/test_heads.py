"""Single heads: errors by hand, and what dtypes do to them."""

import numpy as np
import pytest

from attnforge.experiments.temperature.heads import HEADS, errors, fitted, winners


def curve(dtype, c, queries=1001, head="authors"):
    return errors(*HEADS[head], c, dtype, queries, seed=0)


def test_the_error_of_a_head_by_hand():
    reach, p = HEADS["authors"]
    h, c = 2 * reach / (p - 1), 5.0
    anchors, y = np.linspace(-reach, reach, p), np.linspace(-1.2 * reach, 1.2 * reach, 20_001)
    weights = np.exp(-c * ((y[:, None] - anchors) ** 2 - (y[:, None] - np.clip(y, -reach, reach)[:, None]) ** 2) / h**2)
    out = weights @ anchors / weights.sum(axis=1)
    row = curve("float64", c)
    assert row["error"] == pytest.approx(np.abs(out - np.clip(y, -reach, reach)).max() / h, rel=1e-3)
    assert row["neighbour"] == pytest.approx(np.exp(-c) / (1 + 2 * np.exp(-c) + 2 * np.exp(-4 * c)), rel=1e-9)
    assert row["lost"] == 0.0


def test_float16_underflows_then_overflows():
    soft, sharp, beyond = (curve("float16", c) for c in (10.0, 40.0, 2000.0))
    assert soft["neighbour"] > 0 == sharp["neighbour"]
    assert sharp["not_finite"] == 0.0
    assert sharp["built_for_dtype"]
    assert beyond["not_finite"] > 0
    assert beyond["error"] is None
    assert not beyond["built_for_dtype"]


@pytest.mark.parametrize(("head", "gain"), [("fine", 10), ("authors", 1)])
def test_a_power_of_two_helps_bfloat16_much_only_where_the_step_is_exact_too(head, gain):
    below, two, above = (curve("bfloat16", c, head=head)["mse"] for c in (1.8, 2.0, 2.2))
    assert gain * two < min(below, above)
    if gain == 1:
        assert 10 * two > min(below, above)


def test_too_many_anchors_lose_the_argmax():
    few, many = (winners("float16", p, seed=0) for p in (16, 1024))
    assert few["lost"] < 0.01 < 0.5 < many["lost"]


def test_fitted_values_beat_sampled_ones_at_low_sharpness():
    row = fitted(0.3)
    assert row["error"] < 1e-11 < 0.1 < row["sampled_error"]
