from __future__ import annotations

import numpy as np

from attnforge.experiments.length.networks import one_head
from attnforge.network import apply


def test_layouts_compute_the_same() -> None:
    lean, _, bound = one_head(6, 2, 8)
    padded, _, same = one_head(6, 2, 8, "literal")
    x = np.random.default_rng(0).uniform(-1, 1, size=(6, 2))
    np.testing.assert_allclose(apply(lean, x), apply(padded, x), atol=1e-10)
    assert bound == same
