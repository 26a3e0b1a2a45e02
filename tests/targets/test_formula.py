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


@pytest.mark.parametrize("name", ["e", "pi", "exp", "max"])
def test_names_of_numbers_and_functions_are_not_inputs(name):
    """Silently, `e` would be Euler's number and the input unused."""
    with pytest.raises(af.TargetError, match="name of its own"):
        Formula(f"x + {name}" if name in ("e", "pi") else "x", BOX, ("x", name))


def test_unused_names_are_kept():
    formula = Formula("clamp(x, -1, 1)", BOX, ("x", "y"))
    assert formula.names == ("x", "y")
    assert formula.truncated_form().weights.mid.tolist() == [[1.0, 0.0]]


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
