"""Error maps: curves and maps with the worst point, against the bound."""

import numpy as np
import pytest

import attnforge as af
from attnforge.plot import error_map
from attnforge.plot.style import COLUMN

SQUARE = {"x": (-1, 1), "y": (0, 2)}


def said(axes):
    return [text.get_text() for text in axes.get_legend().get_texts()]


def test_a_curve_its_bound_and_its_worst_point():
    net = af.compile("sin(8*x) + abs(x)", {"x": (-1, 1)}, tol=1e-3)
    figure = error_map(net)
    axes = figure.axes[0]
    error, bound, worst = axes.get_lines()
    assert figure.get_figwidth() == COLUMN
    assert axes.get_yscale() == "log"
    assert error.get_ydata().max() <= worst.get_ydata()[0] <= bound.get_ydata()[0] == net.certificate.bound
    assert worst.get_ydata()[0] >= net.certificate.estimate.error
    assert said(axes)[1] == f"proved bound {net.certificate.bound:.2g}"


def test_without_a_bound_the_worst_point_is_not_called_one():
    net = af.constructions.max_affine(lambda x: np.sin(3 * x[..., 0]), af.Box(0, 1, shape=(1,)), cells=6)
    assert net.certificate.bound is None
    assert said(error_map(net).axes[0])[-1].endswith("(not a bound)")


def test_truncated_forms_are_followed_through_their_kinks():
    net = af.constructions.truncated_linear([1.0, -0.5], 0.1, -1, 1, anchors=9)
    axes = error_map(net).axes[0]
    assert "w · x + t" in axes.get_xlabel()
    assert axes.get_lines()[0].get_xdata()[0] == pytest.approx(-1.7)


def test_two_inputs_are_a_map():
    figure = error_map(af.compile("exp(-x^2)*cos(3*y)", SQUARE, tol=1e-3))
    assert figure.axes[0].images
    assert (figure.axes[0].get_xlabel(), figure.axes[0].get_ylabel()) == ("x", "y")
    assert "ring: worst point seen" in figure.get_suptitle()


@pytest.mark.parametrize(
    "build",
    [
        lambda: af.compile(([0.0, 0.5, 1.0], [0.0, 0.25, 1.0])),
        lambda: af.compile((np.random.default_rng(0).uniform(size=(9, 2)), np.arange(9.0))),
        lambda: af.compile((np.random.default_rng(0).uniform(size=(9, 3)), np.arange(9.0))),
        lambda: af.constructions.max_affine("x*y*z", dict.fromkeys("xyz", (0, 1)), cells=2, sharpness="hard"),
        lambda: af.constructions.max_affine(
            lambda x: np.sign(x[..., 0] - 0.3), af.Box(0, 1, shape=(1,)), cells=8, norm=1
        ),
    ],
    ids=["table", "table of two", "table of three", "three inputs", "L1"],
)
def test_other_kinds_are_drawn(build):
    error_map(build()).draw_without_rendering()


def test_a_target_that_is_not_known_is_refused(tmp_path):
    af.compile(lambda x: np.sin(x), {"x": (0, 1)}, tol=1e-2).save(tmp_path / "net")
    with pytest.raises(af.TargetError):
        error_map(af.load(tmp_path / "net"))
