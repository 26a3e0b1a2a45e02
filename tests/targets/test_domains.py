"""Boxes, and what may be handed in as a domain, by every verb that takes one."""

import numpy as np
import pytest

import attnforge as af
from tests.refusals import refused

WAVE = af.formula("sin(x)*y")
NET = af.compile("x + y", {"x": (-1, 1), "y": (0, 2)}, 1e-3)


def test_numbers_arrays_and_constants():
    box = af.Box(-1, 2, shape=(2, 3))
    assert (box.shape, box.middle.tolist()) == ((2, 3), [[0.5] * 3] * 2)
    assert af.Box(-1, [1, 2]).lower.tolist() == [-1, -1]
    assert af.Box(np.arange(6), 10, shape=(2, 3)).lower.tolist() == [[0, 1, 2], [3, 4, 5]]
    assert af.Box(-1, 1).shape == ()
    assert af.Box("-pi/2", ["sqrt(2)", 3]).upper.tolist() == [np.sqrt(2), 3]
    assert af.Box("0.1 + 0.2 - 0.3", "10^20*sin(pi) + 1").lower == 2.0**-55  # of the float64 numbers written, exactly
    lower = np.zeros(2)
    copied = af.Box(lower, np.ones(2))
    lower[:] = 5
    assert copied.lower.tolist() == [0, 0]


WRONG_BOXES = {
    "swapped": (1, -1), "one swapped": ([0, 0], [1, -1]), "NaN": (np.nan, 1), "infinite": (0, np.inf),
    "a name": ("a", 1), "no number": (0, {}), "two shapes": ([0, 0], [1, 1, 1]), "another shape": ([0, 0], 1, (3,)),
    "a pole": ("1/0", 2),
    "no value": ("log(-1)", 2), "empty": ("", 1), "not a number": ("nan", 1), "digits": ("1_0", 11),
    "huge": ("9^9^9", 1), "code": ("__import__('os')", 1), "complex": (1j, 2), "None": (None, 1),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG_BOXES)
def test_what_is_no_box(name):
    with refused():
        af.Box(*WRONG_BOXES[name])


def test_a_box_knows_its_points_and_takes_their_shape():
    box = af.Box([-1, 0], [1, 2])
    box.check(np.array([[-1.0, 0.0], [1.0, 2.0]]))
    af.Box(1, 1, shape=(2,)).check(np.ones((3, 2)))  # a point is a box
    assert af.Box(-1, 1).fixed((4, 2)).shape == box.fixed((4, 2)).shape == (4, 2)
    for wrong in ([0.0, -0.5], [np.nan, 1.0], [np.nextafter(1.0, 2), 1.0]):
        with refused(af.DomainError):
            box.check(np.array([[0.0, 1.0], wrong]))
    for shape in ((3,), (2, 3)):
        with refused(af.DomainError):
            box.fixed(shape)


WRONG = [5, "x", None, {}, [], {"x": 1}, {"x": (1, 2, 3)}, [(1, "a")], {"x": (2, 1)}, {"x": "pi"}, {"x": (0, "q")}]


@pytest.mark.parametrize("domain", WRONG, ids=str)
def test_domains_that_are_none(domain):
    for verb in (lambda d: af.compile("x", d, 1e-2), lambda d: af.compile(np.sin, d, 1e-2), WAVE.enclose,
                 lambda d: af.constructions.tensor_grid(np.sin, d, tol=1e-2), NET.range):  # fmt: skip
        if domain is not None or verb != NET.range:  # which then takes the network's own
            with refused():
                verb(domain)


@pytest.mark.parametrize("domain", [{"y": (0, "2*pi"), "x": ("-pi", "pi")}, [("-pi", "pi"), (0, "2*pi")]])
def test_domains_as_people_write_them(domain):
    net = af.compile(WAVE, domain, 1e-1)
    assert net.domain.upper.tolist() == [np.pi, 2 * np.pi]
    assert WAVE.enclose(domain) == WAVE.enclose(af.Box([-np.pi, 0], [np.pi, 2 * np.pi]))
