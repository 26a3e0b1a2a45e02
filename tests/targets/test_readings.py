"""What a formula is recognised as: a clamp, a polynomial, a ReLU network, branches that meet, quotients to continue."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import attnforge as af
from tests.clock import at_most
from tests.refusals import refused

SQUARE = {"x": (-2, 1), "y": (-1, 3)}
KINDS = ("gate", "polynomial", "relu_network")  # they know their formulas exactly, and refuse all others


def made(text, kind):
    """Measured: a wrong coefficient is an error above the tolerance."""
    net = af.compile(text, SQUARE, 1e-6, construction=kind, effort="low")
    assert af.measure(net, points=500).sup <= 1e-6


READ = {
    "x": "gate polynomial", "2*x - y/4 + 1": "gate polynomial", "-(x - 3*(y + 1))*2": "gate polynomial",
    "(x + y)/2^-1": "gate polynomial", "x^1 + y*abs(-2)": "gate polynomial", "x*y^0*0 + y": "polynomial",
    "(x - x)*y + x": "gate polynomial", "max(2, 3)*x + min(1, 2)": "gate polynomial",
    "sqrt(2)*x/3 + pi": "gate polynomial", "3": "polynomial", "x*y": "polynomial", "x^2": "polynomial", "1/x": "",
    "2^x": "", "sin(x)": "", "(x + y)*(x - y)": "polynomial", "(x + 2*y)^2/4": "polynomial", "-(x - 1)^3": "polynomial",
    "x^12": "polynomial", "x^13": "", "x^7*x^6": "", "x^(1 + 1)": "polynomial", "x^(2 + 0*y)": "polynomial",
    "sqrt(x - x + 4)*y": "gate polynomial", "x^-1*x^2 + 5": "", "abs(x)": "relu_network",
    "relu(x)": "gate relu_network", "clamp(x + y, -1, 1)": "gate relu_network",
    "min(max(x, -1), 1)": "gate relu_network", "max(-1, min(1, x))": "gate relu_network",
    "min(1, 2, max(x, -3, -1))": "gate relu_network", "3*clamp(x, -1, 1) + 2": "gate relu_network",
    "2 - clamp(x, -1, 0.5)/2": "gate relu_network", "relu(1 - relu(x))": "gate relu_network",
    "clamp(clamp(x, -1, 1), -0.5, 3)": "gate relu_network", "clamp(2*relu(x) - 1, -5, 0.5)": "gate relu_network",
    "relu(x)^1 + 0*y": "gate relu_network", "clamp(x, 1, -1)": "relu_network", "max(x, y)": "relu_network",
    "x + relu(x)": "relu_network", "relu(x) + relu(y)": "relu_network", "abs(abs(x) - 0.5)": "relu_network",
    "max(x, 2*y) - abs(x + 1)": "relu_network", "3*(abs(x)/4) + sqrt(4)^2": "relu_network",
    "where(x < y, x + 2*(x - y), x)": "relu_network", "clamp(x, y, 1)": "relu_network", "relu(x)*relu(y)": "",
    "clamp(x*y, 0, 1)": "", "x*abs(y)": "", "abs(x)^2": "", "abs(x)/3": "", "pi*abs(x)": "", "max(sin(x), y)": "",
    "(pi - pi)*relu(x) + x": "", "clamp(x, -1/3, 0.5)": "gate", "x^7*(y + 1)^3 - x": "polynomial",
}  # fmt: skip


@pytest.mark.parametrize("text", READ)
def test_each_formula_is_read_by_those_that_can(text):
    for kind in KINDS:
        if kind in READ[text]:
            made(text, kind)
        else:
            with refused(af.RefusalError):
                made(text, kind)


def test_what_cannot_be_divided_or_named_is_no_formula_here():
    for text in ("x/0", "x*(1/0)", "x/(pi - pi)", "log(-1)*x", "x + z", "x^(3*pi/pi)"):
        with refused(af.TargetError):
            made(text, "gate")


numbers = st.integers(-8, 8).map(lambda n: n / 4)
leaves = st.one_of(st.sampled_from(["x", "y"]), numbers.map(lambda n: f"({n})"))


def piecewise(inner):
    two = st.tuples(inner, inner)
    return st.one_of(
        two.map(lambda t: f"({t[0]} + {t[1]})"),
        st.tuples(numbers, inner).map(lambda t: f"({t[0]})*({t[1]})"),
        inner.map(lambda t: f"abs({t})"),
        inner.map(lambda t: f"relu(-{t})"),
        st.lists(inner, min_size=2, max_size=4).map(lambda t: f"max({', '.join(t)})"),
        two.map(lambda t: f"min({t[0]}, {t[1]})"),
        st.tuples(inner, inner, inner).map(lambda t: f"clamp({t[0]}, {t[1]}, {t[2]})"),
        st.tuples(inner, inner, inner, numbers).map(
            lambda t: f"where({t[0]} < {t[1]}, {t[2]} + ({t[3]})*({t[0]} - ({t[1]})), {t[2]})"
        ),
    )


@settings(derandomize=True, deadline=None, max_examples=40)
@given(st.recursive(leaves, piecewise, max_leaves=8))
def test_piecewise_affine_formulas_are_relu_networks_to_the_last_digits(text):
    try:
        net = af.compile(text, SQUARE, 1e-9, construction="relu_network", effort="low")
    except (af.RefusalError, af.TargetError):  # without a kink, or branches that are not seen to meet
        return
    points = np.random.default_rng(0).uniform([-2, -1], [1, 3], size=(200, 2))
    np.testing.assert_allclose(net.target.rectified().values(points)[:, 0], net.target.values(points), atol=1e-12)
    assert net.certificate.bound <= 1e-9


def test_hostile_polynomials_end_early():
    cube = "((1 + x)*(1 + y)*(1 + z))^12"
    names = {f"x{i}": (0, 1) for i in range(13)}
    for text, domain in (
        ("+".join(f"{i}*{cube}" for i in range(1, 120)), dict.fromkeys("xyz", (0, 1))),
        (f"({'+'.join(names)} + 1)^12", names),
    ):
        with at_most(10_000_000), refused(af.RefusalError):
            af.compile(text, domain, 1e-3, construction="polynomial")


# Clamps.


def test_the_truncated_form_encloses_its_numbers():
    form = af.formula("clamp(2*x + 0.3*y - 1, -1/3, pi)", ("x", "y")).on(af.Box([-1, -2], [1, 2])).truncated_form()
    assert (form.weights.mid[0].tolist(), form.offsets.mid.tolist()) == ([2.0, 0.3], [-1.0])
    assert 0 < form.lower.rad < 1e-16
    assert abs(float(form.upper.mid) - np.pi) <= form.upper.rad
    ends = af.formula("x/3 + 0.1*y", ("x", "y")).on(af.Box([-2, -1], [2, 3])).truncated_form()
    assert float(ends.lower.mid) <= -2 / 3 - 0.1
    assert 2 / 3 + 0.1 * 3 <= float(ends.upper.mid) < 0.9667  # of what has no bound of its own, rounded outward


def test_clamps_of_tokens_by_hand():
    clamp, box = af.constructions.truncated_linear, af.Box(-2, 2)
    one = clamp([1.0, -2.0], 0.5, -1, 1, anchors=5, domain=box).target
    assert one.values(np.array([[[0.25, 0.0]], [[2.0, 0.0]], [[0.0, 1.0]]])).tolist() == [[0.75], [1.0], [-1.0]]
    each = clamp([[1.0], [2.0], [-1.0]], [0.0, 0.5, 0.0], -1, 1, anchors=5, domain=box).target
    assert each.values(np.full((1, 3, 1), 0.25)).tolist() == [[0.25, 1.0, -0.25]]
    form = clamp([0.1, 0.2], 0.3, -0.7, 0.9, anchors=5, domain=box).target.truncated_form()
    assert (form.weights.mid.tolist(), form.weights.rad.any(), float(form.lower.mid)) == ([[0.1, 0.2]], False, -0.7)


# Branches.

MEETING = [
    "where(x < 0, -x, x)", "where(x >= 1, x, 1)", "where(x <= y, x^2, y^2)", "where(x < 0.1, 0.1, x)",
    "where(3*x < 1, x, 1/3)", "where(x < pi, x, pi)", "where(x < 1/3, 9*x^2, 1)", "where(x > 0, x, exp(x) - 1)",
    "where(x < 0, sin(x)*y, tanh(x))", "where(x < 2, sqrt(x + 2), x)", "where(x < 0, 0, where(x < 1, x, 1))",
    "where(abs(x) < 1, x^2/2, abs(x) - 1/2)", "where(abs(x) < 1, 1 - abs(x), 0)",
    "where(x^2 + y^2 < 1, (1 - x^2 - y^2)^3, 0)", "where(hypot(x, y) < 1, 1 - hypot(x, y), 0)",
    "where(x < 0, x/(y + 3), x*z)", "where(x + y < z, x + y, z)", "where(x + y < 0, exp(x + y) - 1, x + y)",
    "where(2*x < y, sin(4*x - 2*y)*z, tanh(y - 2*x))", "where(1 < 2, x, y)", "where(x < 1/3, sin(3*x), sin(1))",
    "[x, where(x - 1 < 0, 0, x - 1)]",
]  # fmt: skip
APART = [
    "where(x < 0, 1, x)", "where(x < 0, 0, x + 1e-300)", "where(x < 0.1, 1/10, x)", "where(x < y, x, x + y)",
    "where(x^2 < 1, x, 1)", "where(x < 0, 0, exp(x))", "where(x < 0, y, z)", "where(sin(x) < 0, x, 2*x)",
    "where(x*y < 0, x, 0)", "where(x + y < 0, exp(x - y) - 1, x + y)", "where(x < y, sin(x), sin(y + 1))",
    "where(exp(x) < 1, x, 0)", "where(x < y, max(x, y), x)", "where((x + y + z)^9 < 1, 0, x)",
    "t = x^2; [where(x < 0, t, t + 1), x]", "x + where(x < y, x, 2*y)",
]  # fmt: skip
CUBE = dict.fromkeys("xyz", (-2, 2))


@pytest.mark.parametrize("text", MEETING)
def test_branches_that_meet_have_no_jump(text):
    target = af.formula(text, ("x", "y", "z")).on(af.Box(-2, 2, shape=(3,)))
    target.check_joined()
    rng, t = np.random.default_rng(0), np.linspace(-1, 1, 20_001)[:, None]
    for start, way in rng.uniform(-1, 1, size=(5, 2, 3)):
        values = target.values(start + t * way)
        assert np.abs(np.diff(values, axis=0)).max() < 0.01  # by slopes, of steps of a ten thousandth


@pytest.mark.parametrize("text", APART)
def test_no_other_branches_are_called_continuous(text):
    with refused(af.TargetError):
        af.compile(text, CUBE, 10.0)


# Quotients sin(u)/u.

CONTINUED = {
    "sin(x)/x": 1.0, "1 - 3*sin(x)/x": -2.0, "sin(x/2)/x": 0.5, "sin(2*x)/(4*x)": 0.5, "sin(-x)/x": -1.0,
    "sin(pi*x)/(pi*x)": 1.0, "sin(x)^2/x^2": 1.0, "(sin(x)/x)^2": 1.0, "sin(x)^2*x^-2": 1.0, "sin(x)^3/x": 0.0,
    "sin(x*y)/x": 0.5, "sin(x/(y + 1))/x": 2 / 3, "exp(sin(x - y + 0.5)/(x - y + 0.5))": np.e,
    "(y*2)*sin((x-0)*2/2)^2/((x-0)*2/2)^2": 1.0, "sin(hypot(x, y - 0.5))/hypot(x, y - 0.5)": 1.0,
}  # fmt: skip


@pytest.mark.parametrize("text", CONTINUED)
def test_quotients_are_filled_where_they_are_removable(text):
    target = af.formula(text, ("x", "y")).on(af.Box([-1, 0.25], [1, 1]))
    assert target.values(np.array([[0.0, 0.5]]))[0] == pytest.approx(CONTINUED[text], abs=1e-15)
    assert "is taken as its continuous extension" in target.extension
    points = np.random.default_rng(0).uniform([-1, 0.25], [1, 1], (50, 2))
    plain = af.formula(text, ("x", "y"))(points)
    np.testing.assert_allclose(target.values(points), plain, rtol=1e-11)
    away = af.formula(text, ("x", "y")).on(af.Box([0.9, 0.25], [1, 0.3]))
    assert away.extension is None or "hypot" in text


@pytest.mark.parametrize(
    "text",
    ["sin(x - x)/(x - x)", "sin(0*x)/(0*x)", "sin(relu(x))/relu(x)", "sin(x)/x^2", "y*sin(x)/(x*y)", "1/x", "cos(x)/x"],
)
def test_other_singularities_are_refused(text):
    with refused(af.TargetError):
        af.formula(text, ("x", "y")).on(af.Box([-1, -1], [1, 1]))


def test_hostile_powers_of_quotients_cost_nothing():
    for text in ("sin(x)/x*" + "(" * 9 + "2" + "^64)" * 9, "sin(x)/x^2" + "*sin(x*(x+1)/3)/(x+1)" * 90):
        with at_most(2_000_000), refused(af.TargetError):
            af.compile(text, {"x": (-1, 1)}, 1e-2)


def test_the_certificate_lists_the_extension_and_is_rejected_without(tmp_path):
    net = af.compile("sin(x)/x", {"x": (-1, 1)}, tol=1e-2)
    assert net.certificate.status == "proved"
    assert float(net(0.0)) == pytest.approx(1.0, abs=1e-2)
    kept = tuple(each for each in net.certificate.assumptions if "extension" not in each)
    assert len(kept) == len(net.certificate.assumptions) - 1
    silent = dataclasses.replace(net.certificate, assumptions=kept)
    net.save(tmp_path / "whole")
    type(net)(net.network, net.target, silent, net.construction, net.dtype).save(tmp_path / "silent")
    assert af.check(tmp_path / "whole").verdict == "confirmed"
    assert af.check(tmp_path / "silent").what == "assumptions"


def test_poles_cuts_and_unused_inputs():
    for text, low, high in (("gamma(x)", -0.5, 2.0), ("1 + lgamma(3*x)", -1.9, -1.1), ("atan2(x, x - 1)", -1.0, 2.0)):
        with refused(af.TargetError):
            af.compile(text, {"x": (low, high)}, 1e-2)
    for text, low, high in (("gamma(x)", -0.9, -0.1), ("atan2(x, x - 1)", 0.5, 3.0), ("atan2(1, x)", -1.0, 1.0)):
        assert af.formula(text).on(af.Box([low], [high])).lipschitz() is not None
    assert "y: not in the formula" in af.compile("clamp(x, -1, 1)", {"x": (-2, 2), "y": (0, 1)}, 1e-6).report()


# Slopes.


@settings(deadline=None, max_examples=30)
@given(
    st.sampled_from(["sin(8*x) + abs(y)", "1/(1 + 25*x^2) + y", "max(x, y) - exp(x)*y", "[2*x + y, sin(x)]"]),
    st.lists(st.floats(-1, 1), min_size=4, max_size=4),
)
def test_proved_constants_hold_between_random_points(text, numbers):
    target = af.formula(text, ("x", "y")).on(af.Box(-1, 1, shape=(2,)))
    known, (a, b) = target.lipschitz(), np.array(numbers).reshape(2, 1, 2)
    assert known.proved
    assert np.abs(target.values(a) - target.values(b)).max() <= known.constant * np.abs(a - b).max() + 1e-12
