"""Adaptive quadrature, which cell means and errors in the mean rest on: jumps, singularities, and a limit of nodes."""

import numpy as np
import pytest

import attnforge as af
from attnforge.targets.quadrature import quadrature
from tests.refusals import refused

HALVES = np.array([[0.0], [0.5]]), np.array([[0.5], [1.0]])
SQUARE = np.zeros((1, 2)), np.ones((1, 2))
RULE = (np.polynomial.legendre.leggauss(8)[0] + 1) / 4  # nodes of the first half


def found(f, boxes=HALVES, **changes):
    return quadrature(f, *boxes, **({"monitor": np.abs, "rtol": 1e-7, "enough": 10**6, "most": 10**6} | changes))


@pytest.mark.parametrize(
    ("f", "wanted", "close", "boxes"),
    [
        (lambda x: x**5, 1 / 6, 1e-14, HALVES),
        (lambda x: (x > 0.3) * 1.0, 0.7, 1e-6, HALVES),
        (lambda x: np.abs(x - 0.3) ** -0.5, 2 * (np.sqrt(0.3) + np.sqrt(0.7)), 1e-5, HALVES),
        (lambda x: (np.hypot(*x.T) < 1)[:, None] * 1.0, np.pi / 4, 1e-3, SQUARE),
        (lambda x: np.where(np.isin(x, RULE), np.inf, x), 0.5, 1e-5, HALVES),
    ],
)
def test_integrals(f, wanted, close, boxes):
    result = found(f, boxes, rtol=min(1e-7, close) if boxes is HALVES else 1e-4)
    assert result.integral(result.values[:, 0]) == pytest.approx(wanted, rel=close)
    assert result.doubt < 1e-2


def test_means_edges_doubt_and_limits():
    result = found(lambda x: x)
    np.testing.assert_allclose(result.means(result.values, 2), [[0.25], [0.75]], rtol=1e-14)
    asked = []
    found(lambda x: asked.append(x) or np.abs(x - 0.5) ** -0.5)
    assert not np.isin(np.concatenate(asked), [0, 0.5, 1]).any()
    asked.clear()
    found(lambda x: asked.append(x) or (x > 1 / 3) * 1.0, enough=200)
    assert len(np.concatenate(asked)) <= 200
    assert found(lambda x: 1 / np.abs(x - 0.3)).doubt > 5e-3  # its integral diverges
    with refused(af.TargetError):
        found(lambda x: np.where(x > 0.7, np.nan, x))
    with refused(af.RefusalError):
        found(lambda x: x, most=10)
