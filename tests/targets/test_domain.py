"""Boxes and what may be handed in as a domain."""

import numpy as np
import pytest

import attnforge as af
from attnforge.targets import as_box


def test_numbers_broadcast_to_a_shape():
    box = af.Box(-1, 2, shape=(2, 3))
    assert box.shape == (2, 3)
    assert np.all(box.lower == -1)
    assert np.all(box.upper == 2)
    assert np.all(box.middle == 0.5)


def test_arrays_and_flat_arrays():
    assert af.Box([-1, 0], [1, 2]).shape == (2,)
    assert af.Box(-1, [1, 2]).lower.tolist() == [-1, -1]
    assert af.Box(np.arange(6), 10, shape=(2, 3)).lower.tolist() == [[0, 1, 2], [3, 4, 5]]
    assert af.Box(-1, 1).shape == ()


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ((1, -1), "lower <= upper.*lower=1.0, upper=-1.0 at entry 0.*Swap"),
        (([0, 0], [1, -1]), "at entry 1"),
        ((np.nan, 1), "`lower` must be finite"),
        ((0, np.inf), "`upper` must be finite.*compact"),
        (("a", 1), "ends of an interval are numbers. Got 'a'"),
        ((0, {}), "`upper` must be numbers"),
        (([0, 0], [1, 1, 1]), "fit the shape"),
        (([0, 0], 1, (3,)), r"fit the shape \(3,\)"),
    ],
)
def test_bad_boxes(arguments, match):
    with pytest.raises(af.DomainError, match=match):
        af.Box(*arguments)


def test_a_single_point_is_a_box():
    af.Box(1, 1, shape=(2,)).check(np.ones((3, 2)))


def test_fixing_the_shape():
    box = af.Box(-1, 1)
    assert box.fixed((2,)).shape == (2,)
    assert box.fixed((4, 2)).shape == (4, 2)
    assert af.Box([-1, 0], [1, 2]).fixed((4, 2)).lower[3].tolist() == [-1, 0]
    fixed = af.Box(-1, 1, shape=(2,))
    assert fixed.fixed((2,)) is fixed
    with pytest.raises(af.DomainError, match=r"points of shape \(3,\).*shape \(2,\)"):
        fixed.fixed((3,))
    with pytest.raises(af.DomainError):
        fixed.fixed((2, 3))


def test_check_accepts_the_border_and_names_the_culprit():
    box = af.Box([-1, 0], [1, 2])
    box.check(np.array([[-1.0, 0.0], [1.0, 2.0]]))
    with pytest.raises(af.DomainError, match=r"\[0\.0, 2\.0\] at entry \(1,\).*-0\.5 at index \(1, 1\).*larger domain"):
        box.check(np.array([[0.0, 1.0], [0.0, -0.5]]))
    with pytest.raises(af.DomainError, match="finite"):
        box.check(np.array([np.nan, 1.0]))
    with pytest.raises(af.DomainError, match="at entry"):
        box.check(np.array([np.nextafter(1.0, 2), 1.0]))


def test_domains_as_people_write_them():
    box, names = as_box({"x": (-1, 1), "y": [0, 2]})
    assert names == ("x", "y")
    assert box.upper.tolist() == [1, 2]
    box, names = as_box([(-1, 1), (0, 2)])
    assert names is None
    assert box.lower.tolist() == [-1, 0]
    given = af.Box(0, 1)
    assert as_box(given) == (given, None)


@pytest.mark.parametrize("domain", [5, "x", None, {}, [], {"x": 1}, {"x": (1, 2, 3)}, [(1, "a")], {"x": (2, 1)}])
def test_domains_that_are_none(domain):
    with pytest.raises(af.DomainError) as caught:
        as_box(domain)
    assert "Got" in str(caught.value)


def test_ends_may_be_constants():
    box, names = as_box({"x": ("-pi", "pi"), "y": (0, "2*pi")})
    assert (box.lower.tolist(), box.upper.tolist(), names) == ([-np.pi, 0], [np.pi, 2 * np.pi], ("x", "y"))
    assert af.Box("-pi/2", ["sqrt(2)", 3]).upper.tolist() == [np.sqrt(2), 3]
    with pytest.raises(af.DomainError, match=r"ends of an interval.*Got 'q': a constant has no variables.*-pi/2"):
        as_box({"x": (0, "q")})
    with pytest.raises(af.DomainError, match="lower, upper"):
        as_box({"x": "pi"})


def test_bounds_are_copies():
    lower = np.zeros(2)
    box = af.Box(lower, np.ones(2))
    lower[:] = 5
    assert box.lower.tolist() == [0, 0]
