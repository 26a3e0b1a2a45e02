"""Functions of the language end to end: compiled, proved, run, and confirmed by the checker."""

import numpy as np
import pytest

import attnforge as af

ONE = {"x": (-3.0, 3.0)}
PLANE = {"x[0]": (-1.0, 1.0), "x[1]": (-1.0, 1.0)}
CASES = [
    ("sinc(2*x)", ONE, 1e-3),
    ("besselj0(2*x) - besselj1(x)", ONE, 1e-3),
    ("gelu(x) - silu(x)/2", ONE, 1e-3),
    ("erfc(x) + normcdf(-x)", ONE, 1e-3),
    ("lgamma(x)", {"x": (-0.8, -0.2)}, 1e-3),
    ("where(x < 0, exp(x) - 1, x)", ONE, 1e-2),
    ("where(abs(x) <= 1, x^2/2, abs(x) - 1/2)", ONE, 1e-2),
    ("where(x > 1, log(x), x - 1)", ONE, 1e-2),  # without a value where it is not chosen
    ("where(x[0] < x[1], 2*x[1] - x[0], x[0])", PLANE, 1e-9),
    ("mean(cos(2*pi*x))", PLANE, 1e-2),
    ("prod(cos(x)/2)", PLANE, 1e-2),
    ("atan2(x[0], 2 + x[1])", PLANE, 1e-2),
]


@pytest.mark.parametrize(("text", "domain", "tol"), CASES, ids=[case[0] for case in CASES])
def test_the_bound_is_proved_kept_and_confirmed(text, domain, tol, tmp_path):
    net = af.compile(text, domain, tol, require="proved")
    assert net.certificate.bound <= tol
    points = np.random.default_rng(0).uniform(*np.array(list(domain.values())).T, size=(500, len(domain)))
    errors = np.abs(net(points).reshape(-1) - net.target.accurate(points).astype(np.float64))
    assert errors.max() <= net.certificate.bound
    if len(domain) == 1:  # in the plane it may take minutes
        net.save(tmp_path / "net")
        assert af.check(tmp_path / "net").verdict == "confirmed"


def test_a_jump_may_be_followed_in_the_mean():
    net = af.constructions.max_affine("where(x < 0, 0, 1)", {"x": (-1, 1)}, cells=16, norm=1)
    assert net.certificate.norm == "L1"


@pytest.mark.parametrize("text", ["floor(x)", "floor(2*x) + x"])
def test_floor_is_refused_as_sign_and_step_are(text):
    with pytest.raises(af.TargetError, match=r"continuous network can only follow a continuous function.*a jump of 1"):
        af.compile(text, ONE, 1e-2)


def test_the_length_of_a_vector_is_proved_around_zero():
    net = af.compile("norm(x)", PLANE, 0.05)
    assert net.certificate.status == "proved"
    assert net.certificate.bound <= 0.05
