"""No certificate rests on a float64 evaluation of the target: digits that cancel, arguments that are zero."""

import numpy as np
import pytest

import attnforge as af
from attnforge.certification.certify import certify
from attnforge.certification.target_range import values_at
from attnforge.targets import Box, Formula
from benchmarks.formulas import error_at

HIDDEN = "1e17*((1 + 1e-17*x) - 1)"  # x, and 0 in float64
ZERO_ONE = {"x": (0.0, 1.0)}


def true_error(net, text, box):
    """The largest error at fresh points, against 400 digits."""
    low, high = (np.array(ends) for ends in zip(*box.values(), strict=True))
    points = low + (high - low) * np.random.default_rng(5).random((50, len(box)))
    outputs = np.asarray(net(points)).reshape(-1).tolist()
    node = Formula(text, Box(low, high), tuple(box)).tree
    found = [
        error_at(node, dict(zip(box, point, strict=True)), output)
        for point, output in zip(points.tolist(), outputs, strict=True)
    ]
    return max(error for error in found if error is not None)


@pytest.mark.parametrize("sharpness", ["tuned", "hard"])
@pytest.mark.parametrize("cells", [4, 32])
def test_cells_with_the_values_of_float64_have_an_honest_bound(sharpness, cells):
    """All zero; cells built from the formula itself have its true values, and a bound of half a cell."""
    box = Box([0.0], [1.0])
    zeros = af.constructions.max_affine(lambda x: 0 * x[..., 0], box, cells=cells, sharpness=sharpness, lipschitz=1.0)
    found = certify(zeros.network, Formula(HIDDEN, box, ("x",)))
    assert found.status == "proved"
    assert found.bound >= 1 - 1 / cells
    built = af.constructions.max_affine(HIDDEN, ZERO_ONE, cells=cells, sharpness=sharpness)
    assert true_error(built, HIDDEN, ZERO_ONE) <= built.certificate.bound
    assert built.certificate.estimate.error <= 1 / cells


@pytest.mark.parametrize("build", ["two_layer", "softmax_tail"])
def test_bumps_with_the_values_of_float64_have_an_honest_bound(build):
    zeros = getattr(af.constructions, build)(lambda x: 0 * x[..., 0], Box([0.0], [1.0]), grid=6, lipschitz=1.0)
    found = certify(zeros.network, Formula(HIDDEN, Box([0.0], [1.0]), ("x",)))
    assert found.status == "proved"
    assert found.bound >= 11 / 12


def test_cross_attention_with_the_values_of_float64_has_an_honest_bound():
    text, box = "1e17*((1 + 1e-17*(x + y)) - 1)", {"x": (0.0, 1.0), "y": (0.0, 1.0)}
    zeros = af.constructions.cross_attention(
        lambda x, y: 0 * x[..., 0] * y[..., 0], Box([0.0], [1.0]), Box([0.0], [1.0]), grid=4, lipschitz=2.0
    )
    found = certify(zeros.network, Formula(text, Box([0.0, 0.0], [1.0, 1.0]), tuple(box)))
    assert found.bound >= 2 - 1 / 4


@pytest.mark.parametrize("text", [HIDDEN, "(x + 1e16) - 1e16", "sqrt(x^2)", "sin(x)/x", "x", "1e-300*x", "sign(x - x)"])
def test_values_are_enclosed(text):
    target, points = Formula(text, Box([0.25], [1.0]), ("x",)), np.linspace(0.25, 1.0, 7)[:, None]
    found, wanted = values_at(target, points), target.enclosed(points)
    assert np.all(np.abs(found.mid[:, 0] - wanted.mid) <= found.rad[:, 0] + wanted.rad)
    assert np.all(found.rad <= 2.0**-45 * np.abs(found.mid).max())


@pytest.mark.parametrize(
    ("text", "box"),
    [
        ("step(0*x)*(3*y - 1)", {"x": (-1.0, 1.0), "y": (-1.0, 1.0)}),
        ("sign(x - x) + sin(3*x)", {"x": (-1.0, 1.0)}),
        ("sign(0)*x + x", {"x": (-1.0, 1.0)}),
        ("abs(x - x) + x^2", {"x": (-1.0, 1.0)}),
        ("max(x, x)*0 + cos(x)", {"x": (-1.0, 1.0)}),
        ("relu(0*x) + x*y", {"x": (-1.0, 1.0), "y": (-1.0, 1.0)}),
        ("sign(0)*x*y + step(0)*x", {"x": (-1.0, 1.0), "y": (-1.0, 1.0)}),
        (HIDDEN, ZERO_ONE),
        ("sin(1e9*x) + x", {"x": (1e8, 1e8 + 1e-7)}),
    ],
)
def test_arguments_that_are_zero_are_enclosed_or_refused(text, box):
    try:
        net = af.compile(text, box, tol=1e-2)
    except af.RefusalError:
        return
    if net.certificate.bound is not None:
        assert true_error(net, text, box) <= net.certificate.bound


def test_the_radius_of_a_coefficient_is_kept():
    """step(pi - pi) is a number between 0 and 1, as far as balls can tell: the linear form has that for a slope."""
    form = Formula("step(pi - pi)*x + x", Box([-1.0], [1.0]), ("x",)).truncated_form()
    slope = form.weights
    assert slope.mid[0, 0] - slope.rad[0, 0] <= 1.0
    assert slope.mid[0, 0] + slope.rad[0, 0] >= 2.0
