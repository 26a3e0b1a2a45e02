"""Maps of two inputs: directions, marks and words."""

import numpy as np
import pytest

import attnforge as af
from attnforge.plot.plane import limits, mesh, plane


def test_a_mesh_is_in_the_order_of_an_image():
    assert mesh(af.Box([0, 5], [1, 7]), 2).tolist() == [[0, 5], [1, 5], [0, 7], [1, 7]]


def test_limits_leave_room():
    assert limits(np.array([1.0, 3.0])) == (1.0, 3.0)
    assert limits(np.array([2.0, 2.0])) == (1.5, 2.5)


def test_inputs_have_their_directions_and_names():
    net = af.compile("sin(a) + 10*b", {"a": (-1, 1), "b": (0, 2)}, tol=1e-2, construction="tensor_grid")
    figure = plane(net)
    left = figure.axes[0]
    image = left.images[0]
    assert (left.get_xlabel(), left.get_ylabel()) == ("a", "b")
    assert list(image.get_extent()) == [-1, 1, 0, 2]
    values = image.get_array()
    assert values.shape == (129, 129)
    assert values[-1, 0] == pytest.approx(np.sin(-1) + 20)  # rows are b
    assert values[0, -1] == pytest.approx(np.sin(1))


def test_the_worst_point_and_the_anchors_are_marked():
    net = af.compile(lambda p: np.exp(-(p[..., 0] ** 2)) * np.cos(3 * p[..., 1]), [(-1, 1), (-1, 1)], tol=1e-4)
    right = plane(net).axes[2]
    assert right.get_lines()[0].get_xydata()[0] == pytest.approx(net.certificate.estimate.at)
    claims = net.network.heads[0].claims
    inside = np.abs(claims.positions).max(axis=1) <= 1 + 1e-9
    assert len(right.collections[0].get_offsets()) == inside.sum() > 0
    assert right.get_title() == f"largest error seen {net.certificate.estimate.error:.2g}"


def test_a_bound_is_named():
    net = af.compile("x*y", {"x": (-1, 1), "y": (-1, 1)}, tol=0.2, construction="max_affine")
    figure = plane(net)
    assert figure.axes[2].get_title() == f"error; proved bound {net.certificate.bound:.2g}"
    assert "not a bound" not in figure.get_suptitle()


def test_forms_are_lines():
    net = af.compile("abs(x - 2*y)", {"x": (-1, 1), "y": (-1, 1)}, tol=1e-3, construction="ridge")
    (lines,) = plane(net).axes[2].collections
    assert len(lines.levels) > 5
