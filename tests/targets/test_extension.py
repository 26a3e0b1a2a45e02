"""Removable singularities of sin(u)/u: filled where they are, and only there."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import attnforge as af
from attnforge.certification.checker.check import check
from attnforge.targets import Formula
from attnforge.targets.expression import evaluate, parse, to_text
from attnforge.targets.extension import extension
from attnforge.targets.stored import target_from_data
from tests.clock import at_most

RABI = "(a*t)*sin((w-v)*t/2)^2/((w-v)*t/2)^2"
CALLS = 1_000_000  # 500 for each of the 2,000 nodes that a formula may have
FIVE = {"a": (0, 1), "t": (0, 2), "w": (-1, 1), "v": (-1, 1)}


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("sin(x)/x", "sinc(x)"),
        ("1 - 3*sin(x)/x", "1 - 3*sinc(x)"),
        ("sin(x/2)/x", "sinc(x/2)/2"),
        ("sin(2*x)/(4*x)", "2*sinc(2*x)/4"),
        ("sin(-x)/x", "-sinc(-x)"),
        ("sin(pi*x)/(pi*x)", "sinc(pi*x)"),
        ("sin(x)^2/x^2", "sinc(x)^2"),
        ("(sin(x)/x)^2", "sinc(x)^2"),
        ("sin(x)^2*x^-2", "sinc(x)^2"),
        ("sin(x)^3/x", "sin(x)^2*sinc(x)"),
        ("sin(x)/x^2", "sinc(x)/x"),
        ("sin(x*y)/x", "sinc(x*y)*y"),
        ("sin(x/y)/x", "sinc(x/y)/y"),
        ("sin(x)*y/(x*y)", "y*sinc(x)/y"),
        ("exp(sin(x - y)/(x - y))", "exp(sinc(x - y))"),
        (RABI, "a*t*sinc((w - v)*t/2)^2"),
    ],
)
def test_quotients_become_sinc(text, written):
    found, notes = extension(parse(text))
    assert to_text(found) == written
    assert len(notes) == 1
    values = {name: np.random.default_rng(0).uniform(0.1, 1.0, size=50) for name in "atwvxy"}
    values |= {"w": values["w"] + 1, "y": values["y"] + 1}
    np.testing.assert_allclose(evaluate(found, values), evaluate(parse(text), values), rtol=1e-12)


@pytest.mark.parametrize("text", ["sin(x)*x", "x/sin(x)", "sin(x)/y", "sin(1/x)/y", "sin(x)/(x + 1)", "cos(x)/x", "x"])
def test_nothing_else_does(text):
    assert extension(parse(text)) == (parse(text), [])


def test_hostile_powers_cost_nothing():
    with at_most(CALLS), pytest.raises(af.TargetError):
        Formula("sin(x)/x*" + "(" * 9 + "2" + "^64)" * 9, af.Box([-1], [1]))
    with at_most(CALLS), pytest.raises(af.TargetError):
        Formula("sin(x)/x^2" + "*sin(x*(x+1)/3)/(x+1)" * 90, af.Box([-1], [1]))


def test_the_target_says_what_it_means():
    target = Formula("sin(x)/x", af.Box([-1], [2]))
    assert target.extension == "sin(x)/x is taken as its continuous extension at 0"
    assert target.values(np.array([[0.0], [1.0]])).tolist() == [1.0, np.sin(1.0)]
    assert target.describe() == "sin(x)/x"
    again = target_from_data(*target.to_data())
    assert (again.extension, again.describe()) == (target.extension, target.describe())
    assert target.lipschitz().constant < 1


def test_it_stays_as_it_is_where_it_is_finite():
    target = Formula("sin(x)/x", af.Box([1], [2]))
    assert target.extension is None
    assert to_text(target.tree) == "sin(x)/x"
    assert target.on(af.Box([-1], [1])).extension is not None
    assert Formula("sin(x)/x", af.Box([-1], [1])).on(af.Box([1], [2])).extension is None


@pytest.mark.parametrize(
    "text", ["sin(x - x)/(x - x)", "sin(0*x)/(0*x)", "sin(relu(x))/relu(x)", "sin(x)/x^2", "y*sin(x)/(x*y)", "1/x"]
)
def test_other_singularities_are_refused(text):
    with pytest.raises(af.TargetError, match="finite on its domain"):
        Formula(text, af.Box([-1, -1], [1, 1]), ("x", "y"))


def test_the_certificate_lists_it():
    net = af.compile("sin(x)/x", {"x": (-1, 1)}, tol=1e-3)
    assert net.certificate.status == "proved"
    assert net.certificate.bound <= 1e-3
    assert "sin(x)/x is taken as its continuous extension at 0" in net.certificate.assumptions
    assert float(net(0.0)) == pytest.approx(1.0, abs=1e-3)


def test_a_certificate_without_it_is_rejected():
    net = af.compile("sin(x)/x", {"x": (-1, 1)}, tol=1e-2)
    kept = tuple(each for each in net.certificate.assumptions if "extension" not in each)
    silent = dataclasses.replace(net.certificate, assumptions=kept)
    assert check(net.network, net.target, net.certificate, "float64").verdict == "confirmed"
    assert check(net.network, net.target, silent, "float64").what == "assumptions"


def test_several_inputs():
    target = Formula(RABI, af.Box(*np.array(list(FIVE.values()), float).T), tuple(FIVE))
    assert to_text(target.tree) == "a*t*sinc((w - v)*t/2)^2"
    assert target.extension is not None
    assert target.extension.endswith("is taken as its continuous extension where (w - v)*t/2 = 0")
    points = np.array([[0.5, 1.0, 0.25, 0.25], [0.5, 0.0, 0.25, 0.5], [1.0, 1.0, 1.0, -1.0]])
    assert target.values(points).tolist() == pytest.approx([0.5, 0.0, np.sin(1.0) ** 2])


def test_the_sombrero():
    target = Formula("sin(hypot(x, y))/hypot(x, y)", af.Box([-1, -1], [1, 1]), ("x", "y"))
    assert target.values(np.zeros((1, 2))).tolist() == [1.0]
