"""Which inputs a figure shows in a row, and forms in words."""

import numpy as np
import pytest

import attnforge as af
from attnforge.plot.paths import form_of, form_text, input_names, shown_inputs
from attnforge.targets import Formula, Function, JointFunction


@pytest.mark.parametrize(
    ("weights", "offset", "names", "text"),
    [
        ((0.5, 1.0, -1.0), 0.0, ("x", "y", "z"), "0.5 x + y − z"),
        ((-2.0, 0.0), 0.25, ("x", "y"), "− 2 x + 0.25"),
        ((1.0, 1.0), -3.0, ("a-b", "$y$"), "a-b + $y$ − 3"),
        ((1e-5, -1.0), 0.0, ("x", "y"), "1e-05 x − y"),
        ((1.0,) * 5, 0.0, tuple("abcde"), "w · x + t"),
        ((0.0, 0.0, 2.0, 0.0, -1.0), 0.0, tuple("abcde"), "2 c − e"),
        ((0.0, 0.0), 0.0, ("x", "y"), "0"),
        ((1.0, 2.0), 0.0, None, "w · x + t"),
    ],
)
def test_forms_in_words(weights, offset, names, text):
    assert form_text(np.array(weights), offset, names) == text


def test_inputs_have_names():
    one, two, tokens = af.Box(0, 1, shape=(1,)), af.Box(0, 1, shape=(2,)), af.Box(0, 1, shape=(2, 1))
    assert input_names(Formula("a*b", two, ("a", "b"))) == ("a", "b")
    assert input_names(Function(lambda x: x[..., 0], one)) == ("x",)
    assert input_names(Function(lambda x: x[..., 0], two)) == ("x0", "x1")
    assert input_names(JointFunction(lambda x, y: x[..., 0] * y[..., 0], one, one)) == ("X", "Y")
    assert input_names(JointFunction(lambda x, y: x[..., 0, 0] * y[..., 0], tokens, one)) == ("X0,0", "X1,0", "Y")


def test_a_truncated_linear_function_is_followed_a_third_beyond_its_kinks():
    net = af.constructions.gate([1.0, 2.0], 0.0, -1, 1)
    along, points, name = shown_inputs(net.target, net.network, 5)
    assert (along[0], along[-1]) == (pytest.approx(-1.7), pytest.approx(1.7))
    assert points.shape == (5, 1, 2)
    assert np.allclose(points[:, 0] @ [1.0, 2.0], along)
    assert "w · x + t" in name


def test_other_targets_are_followed_through_their_domain():
    net = af.compile("sin(3*x)", {"x": (-1, 2)}, tol=1e-2)
    along, points, name = shown_inputs(net.target, net.network, 4)
    assert along.tolist() == [-1, 0, 1, 2]
    assert points.tolist() == [[-1], [0], [1], [2]]
    assert name == "x"
    assert form_of(net.target, net.network) is None


def test_sequences_move_along_their_diagonal():
    box = af.Box(0, 1, shape=(2, 1))
    net = af.constructions.two_layer(lambda x: np.sort(x, axis=-2), box, grid=3, lipschitz=1)
    _, points, name = shown_inputs(net.target, net.network, 3)
    assert points[1].tolist() == [[0.5], [0.5]]
    assert "diagonal" in name
