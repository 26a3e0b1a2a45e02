"""Adaptive quadrature of jumps and singularities."""

import numpy as np
import pytest

from attnforge.errors import RefusalError, TargetError
from attnforge.targets.quadrature import quadrature

HALVES = np.array([[0.0], [0.5]]), np.array([[0.5], [1.0]])
SETTINGS = {"monitor": np.abs, "rtol": 1e-7, "enough": 10**6, "most": 10**6}


def integral(f, boxes=HALVES, **changes):
    found = quadrature(f, *boxes, **(SETTINGS | changes))
    return found.integral(found.values[:, 0])


def test_smooth_functions_are_exact_and_means_belong_to_their_box():
    assert integral(lambda x: x**5) == pytest.approx(1 / 6, rel=1e-14)
    found = quadrature(lambda x: x, *HALVES, **SETTINGS)
    np.testing.assert_allclose(found.means(found.values, 2), [[0.25], [0.75]], rtol=1e-14)


def test_jumps_and_singularities_inside_a_box():
    assert integral(lambda x: (x > 0.3) * 1.0) == pytest.approx(0.7, rel=1e-6)
    assert integral(lambda x: np.abs(x - 0.3) ** -0.5) == pytest.approx(2 * (np.sqrt(0.3) + np.sqrt(0.7)), rel=1e-5)


def test_several_axes():
    disc = np.zeros((1, 2)), np.ones((1, 2))
    area = integral(lambda x: (np.hypot(*x.T) < 1)[:, None] * 1.0, disc, rtol=1e-4)
    assert area == pytest.approx(np.pi / 4, rel=1e-3)


def test_edges_are_never_asked_for():
    seen = []
    quadrature(lambda x: seen.append(x) or np.abs(x - 0.5) ** -0.5, *HALVES, **SETTINGS)
    x = np.concatenate(seen)
    assert not np.any((x == 0) | (x == 0.5) | (x == 1))


def test_infinite_nodes_are_moved_and_infinite_stretches_refused():
    rule = (np.polynomial.legendre.leggauss(8)[0] + 1) / 4  # nodes of the first half
    assert integral(lambda x: np.where(np.isin(x, rule), np.inf, x)) == pytest.approx(0.5, rel=1e-5)
    with pytest.raises(TargetError, match=r"finite almost everywhere\. Got NaN or infinity around"):
        integral(lambda x: np.where(x > 0.7, np.nan, x))


def test_doubt_tells_a_divergent_integral():
    def doubt(power):
        return quadrature(lambda x: np.abs(x - 0.3) ** -power, *HALVES, **SETTINGS).doubt

    assert doubt(0.5) < 1e-5
    assert doubt(1.0) > 5e-3


def test_the_limit_of_nodes_is_kept():
    calls = []
    quadrature(lambda x: calls.append(len(x)) or (x > 1 / 3) * 1.0, *HALVES, **(SETTINGS | {"enough": 200}))
    assert sum(calls) <= 200
    with pytest.raises(RefusalError, match=r"at most 10 nodes\. Got 2 boxes with 48 nodes\. Ask for fewer"):
        integral(lambda x: x, most=10)
