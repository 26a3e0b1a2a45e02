import math

import numpy as np
import pytest

from attnforge.experiments.dimension.targets import TARGETS, lipschitz, target

STEP = 1e-6


def test_targets_by_hand() -> None:
    x = np.array([[0.5, 1.0, 0.0]])
    assert target("gaussian", x)[0] == pytest.approx(math.exp(-0.5))
    assert target("decaying", x)[0] == pytest.approx(math.exp(-1 / 4 - 1 / 9))
    assert target("additive", x)[0] == pytest.approx(math.sin(2.5) + math.sin(5) + math.sin(3))
    assert target("ridge", x)[0] == pytest.approx(math.sin(8 * (0.5 - 1.0) / 3))


@pytest.mark.parametrize("name", TARGETS)
@pytest.mark.parametrize("d", [1, 2, 5, 9])
def test_lipschitz_constants_bound_the_gradients_and_not_by_much(name: str, d: int) -> None:
    x = np.random.default_rng(d).random((20_000, d))
    moved = x[:, None, :] + STEP * np.eye(d)
    slopes = np.abs((target(name, moved) - target(name, x)[:, None]) / STEP).sum(axis=-1).max()
    assert slopes <= lipschitz(name, d) * (1 + 1e-4)
    assert slopes >= 0.4 * lipschitz(name, d)
