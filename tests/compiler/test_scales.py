"""Huge and tiny scales, domains far from zero: a network with an honest bound, or a refusal with a reason."""

import mpmath as mp
import numpy as np
import pytest

import attnforge as af
from tests.refusals import refused

CASES = {
    "1e-306*x": (lambda x: mp.mpf(1e-306) * x, (0.0, 1.0), 1e-310),
    "min(x*1e200, 1e200)": (lambda x: min(x * mp.mpf(1e200), mp.mpf(1e200)), (0.0, 1.0), 1e196),
    "sin(1e300*x)": (lambda x: mp.sin(mp.mpf(1e300) * x), (0.0, 1e-300), 1e-4),
    "x - 1e12": (lambda x: x - mp.mpf(1e12), (1e12, 1e12 + 1), 1e-3),
    "1e140*sin(x)": (lambda x: mp.mpf(1e140) * mp.sin(x), (0.0, 3.0), 1e136),
    "sin(1e100*x)": (lambda x: mp.sin(mp.mpf(1e100) * x), (0.0, 3e-100), 1e-4),
}
BY_NAME = ["auto", "gate", "truncated_linear", "multihead_truncated_linear", "max_affine"]


def error(net, exact, ends) -> float:
    """The largest at fresh points, against 50 digits."""
    points = np.random.default_rng(5).uniform(*ends, 50)
    with mp.workdps(50):
        return float(max(abs(mp.mpf(float(net(x))) - exact(mp.mpf(float(x)))) for x in points))


@pytest.mark.parametrize("text", CASES)
@pytest.mark.parametrize("construction", BY_NAME)
def test_scales_are_met_or_refused(text, construction):
    exact, ends, tol = CASES[text]
    try:
        net = af.compile(text, {"x": ends}, tol, construction=construction)
    except (af.RefusalError, af.ToleranceError):
        return
    assert net.certificate.bound is None or error(net, exact, ends) <= net.certificate.bound


def test_sums_that_overflow_before_they_are_divided_are_refused():
    """Four values of 2.3e38 fit bfloat16, their mean does, and a kernel adds them up first."""
    text = "3.41e38*(1/(1 + (0.016*x + 0.673*y + 0.9)^2))"
    with refused(af.RefusalError):
        af.compile(text, {"x": (-3.0, 3.0), "y": (-0.1, 0.2)}, 1e37, construction="tensor_grid", dtype="bfloat16")
