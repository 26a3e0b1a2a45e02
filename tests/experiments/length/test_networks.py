from __future__ import annotations

import numpy as np
import pytest

from attnforge.experiments.length.networks import (
    LOWER,
    REACH,
    UPPER,
    inputs_of,
    largest_error,
    one_head,
    sequence_weights,
)
from attnforge.network import apply


def test_layouts_compute_the_same() -> None:
    lean, _, bound = one_head(6, 2, 8)
    padded, _, same = one_head(6, 2, 8, "literal")
    x = np.random.default_rng(0).uniform(-1, 1, size=(6, 2))
    np.testing.assert_allclose(apply(lean, x), apply(padded, x), atol=1e-10)
    assert bound == same


def test_inputs_reach_the_forms_asked_for() -> None:
    w, t = sequence_weights(4, 3, seed=1)
    asked = np.array([[-1.0, 0.0, 2.0, 1e9]])
    x, form = inputs_of(asked, w, t)
    assert np.abs(x).max() <= REACH + 1e-12
    np.testing.assert_allclose(form[0, :3], asked[0, :3], atol=1e-12)
    np.testing.assert_allclose(form[0, 3], REACH * np.abs(w[3]).sum() + t[3])


def test_one_head_errs_by_the_known_share_of_a_step() -> None:
    row = largest_error({"kind": "anchors", "n": 5, "d": 2, "p": 26, "seed": 0})
    step = (UPPER - LOWER) / 25
    assert row["error"] == pytest.approx(0.061 * step, rel=0.05)  # tuned: h E(c), E = 0.063
    assert row["error"] <= row["bound"]


def test_cases_draw_forms_of_their_own() -> None:
    """The same forms would give the same error whatever n and d are."""
    cases = [{"kind": "anchors", "n": n, "d": d, "p": 26, "seed": 0} for n, d in ((5, 2), (5, 3), (10, 2))]
    assert len({largest_error(case)["error"] for case in cases}) == 3


def test_heads_share_a_row_of_anchors() -> None:
    row = largest_error({"kind": "heads", "n": 20, "d": 2, "H": 3, "sentinels": 4, "seed": 0})
    assert row["p"] == 3 * (20 - 8)
    assert 0.03 < row["error"] * (row["p"] - 1) / (UPPER - LOWER) < 0.07
