"""Formulas as targets: names, values, truncated forms, storage."""

import numpy as np
import pytest

import attnforge as af
from attnforge.targets import Formula, target_from_data

BOX = af.Box([-1, -2], [1, 2])


def test_values_follow_the_names():
    points = np.array([[0.5, 0.25], [-1.0, 2.0]])
    assert Formula("x - 2*y", BOX, ("x", "y")).values(points).tolist() == [0.0, -5.0]
    assert Formula("x - 2*y", BOX, ("y", "x")).values(points).tolist() == [-0.75, 4.0]
    assert Formula("x[0] - 2*x[1]", BOX).values(points).tolist() == [0.0, -5.0]
    assert Formula("3", BOX, ("x", "y")).values(points).tolist() == [3.0, 3.0]


def test_values_keep_extended_precision():
    x = np.array([[1.0, 2.0]], dtype=np.longdouble) / 3
    assert Formula("x + y", BOX, ("x", "y")).values(x).dtype == np.longdouble


@pytest.mark.parametrize("name", ["e", "pi"])
def test_names_of_numbers_are_not_inputs(name):
    """Silently, `e` would be Euler's number and the input unused."""
    with pytest.raises(af.TargetError, match="name of its own"):
        Formula(f"x + {name}", BOX, ("x", name))


@pytest.mark.parametrize("name", ["exp", "max", "gamma", "step", "norm", "sinc", "where", "sum"])
def test_a_name_of_the_domain_is_an_input_although_a_function_has_it(name):
    formula = Formula(f"2*{name} + exp(x*{name})*max(x, {name})", BOX, ("x", name))
    points = np.array([[0.5, 0.25]])
    assert formula.values(points)[0] == pytest.approx(0.5 + np.exp(0.125) * 0.5, rel=1e-15)
    data, arrays = formula.to_data()
    assert target_from_data(data, arrays).tree == formula.tree


def test_unused_names_are_kept():
    formula = Formula("clamp(x, -1, 1)", BOX, ("x", "y"))
    assert formula.names == ("x", "y")
    assert formula.truncated_form().weights.mid.tolist() == [[1.0, 0.0]]


@pytest.mark.parametrize(
    ("text", "box", "match"),
    [
        ("gamma(x)", af.Box([-0.5], [2.0]), r"away from the poles 0, -1, -2, \.\.\.: `gamma\(x\)`"),
        ("1 + lgamma(3*x)", af.Box([-1.9], [-1.1]), r"away from the poles.*`lgamma\(3\*x\)`"),
        ("atan2(x, x - 1)", af.Box([-1.0], [2.0]), "x > 0, or y of one sign: it jumps"),
    ],
)
def test_poles_and_cuts_are_refused_with_the_reason(text, box, match):
    with pytest.raises(af.TargetError, match=match):
        Formula(text, box)


@pytest.mark.parametrize(
    ("text", "low", "high"),
    [("gamma(x)", 0.5, 3.0), ("gamma(x)", -0.9, -0.1), ("atan2(x, x - 1)", 0.5, 3.0), ("atan2(1, x)", -1.0, 1.0)],
)
def test_away_from_poles_and_cuts_there_is_a_slope(text, low, high):
    assert Formula(text, af.Box([low], [high])).lipschitz() is not None


def test_inputs_that_are_not_read_are_named():
    formula = Formula("sin(x)", BOX, ("x", "y"))
    assert formula.unused == ("y",)
    net = af.compile("clamp(x, -1, 1)", {"x": (-2, 2), "y": (0, 1)}, tol=1e-6)
    assert "unused        y: not in the formula" in net.report()
    assert "unused" not in af.compile("clamp(x, -1, 1)", {"x": (-2, 2)}, tol=1e-6).report()


def test_vectors_are_those_of_the_domain():
    formula = Formula("norm(x)", BOX, ("x[0]", "x[1]"))
    assert formula.values(np.array([[3.0, 4.0]])).tolist() == [5.0]


@pytest.mark.parametrize("text", ["where(x < 0, 0, 1)", "x + where(x < y, x, 2*y)", "where(sin(x) < 0, x, 2*x)"])
def test_branches_must_meet(text):
    with pytest.raises(af.TargetError, match=r"branches of where.* must meet at the border"):
        af.compile(text, {"x": (-1, 1), "y": (0, 1)}, tol=1e-2)


def test_the_truncated_form_encloses_the_numbers():
    form = Formula("clamp(2*x + 0.3*y - 1, -1/3, pi)", BOX, ("x", "y")).truncated_form()
    assert form.weights.mid[0].tolist() == pytest.approx([2.0, 0.3])
    assert abs(form.lower.mid + 1 / 3) <= form.lower.rad + 1e-17
    assert form.lower.rad > 0
    assert abs(float(form.upper.mid) - np.pi) <= form.upper.rad
    assert form.offsets.mid.tolist() == [-1.0]


@pytest.mark.parametrize(
    ("text", "names", "match"),
    [
        ("x + z", ("x", "y"), "z in the formula, x, y in the domain"),
        ("x + y", None, r"Several inputs need names.*x, y and 2 unnamed"),
        ("x[0] + x[2]", None, "Several inputs need names"),
        ("1/(x - x)", ("x", "y"), "finite"),
        ("log(x)", ("x", "y"), "finite"),
        ("x +", ("x", "y"), None),
        ("x", ("x[a]", "y"), "names each input once"),
        ("x", ("x[", "y"), "names each input once"),
        ("x", (f"x[{'9' * 5000}]", "y"), "needs an interval"),
    ],
)
def test_bad_formulas(text, names, match):
    with pytest.raises(af.TargetError, match=match):
        Formula(text, BOX, names)


def test_sequences_are_not_formulas():
    with pytest.raises(af.TargetError, match="one axis an input"):
        Formula("x", af.Box(-1, 1, shape=(2, 2)))


def test_what_is_not_truncated_linear_says_why():
    with pytest.raises(af.TargetError, match=r"truncated linear function of one linear form\. Got .+\. Write it as"):
        Formula("clamp(x, -1, 1) + clamp(y, -1, 1)", BOX, ("x", "y")).truncated_form()


@pytest.mark.parametrize("text", ["clamp(2*x + 0.1*y, -1, 1)", "relu(x - y/3)", "-abs(x)^2/7", "min(x, max(y, 0.1))"])
def test_storage_keeps_values(text):
    formula = Formula(text, BOX, ("x", "y"))
    data, arrays = formula.to_data()
    again = target_from_data(data, arrays)
    points = np.random.default_rng(0).uniform(-1, 1, size=(100, 2))
    assert np.array_equal(again.values(points), formula.values(points))
    assert again.describe() == formula.describe()
    assert again.names == ("x", "y")


def test_broken_storage_is_refused():
    data, arrays = Formula("x", BOX, ("x", "y")).to_data()
    for broken in (
        {},
        data | {"kind": "code"},
        data | {"text": "import os"},
        data | {"names": 5},
        data | {"names": ["y"]},
    ):
        with pytest.raises(af.FileFormatError):
            target_from_data(broken, arrays)
    with pytest.raises(af.FileFormatError):
        target_from_data(data, {})
