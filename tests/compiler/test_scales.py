"""Huge and tiny scales, domains far from zero: a network with an honest bound, or a refusal with a reason."""

import numpy as np
import pytest

import attnforge as af
from attnforge.anchors.edges import Edge
from attnforge.anchors.mesh import Spacing
from attnforge.anchors.panels import Panels
from attnforge.anchors.product_grid import ProductGrid
from attnforge.anchors.temperature import per_step
from attnforge.certification.certify import certify
from tests.certification.exact import true_error

CASES = [
    ("1e-306*x", (0.0, 1.0), 1e-310),
    ("min(x*1e200, 1e200)", (0.0, 1.0), 1e196),
    ("sin(1e300*x)", (0.0, 1e-300), 1e-4),
    ("x - 1e12", (1e12, 1e12 + 1), 1e-3),
    ("1e140*sin(x)", (0.0, 3.0), 1e136),
    ("sin(1e100*x)", (0.0, 3e-100), 1e-4),
]


@pytest.mark.parametrize(("text", "interval", "tol"), CASES)
@pytest.mark.parametrize(
    "construction", ["auto", "gate", "truncated_linear", "multihead_truncated_linear", "max_affine"]
)
def test_scales_are_met_or_refused(text, interval, tol, construction):
    try:
        net = af.compile(text, {"x": interval}, tol, construction=construction)
    except (af.RefusalError, af.ToleranceError):
        return
    assert net.certificate.bound is None or true_error(net, text, {"x": interval}) <= net.certificate.bound


@pytest.mark.parametrize("interval", [(1e-310, 3e-310), (-1e308, 1e308)])
def test_domains_whose_sides_cannot_be_divided_by_are_refused(interval):
    with pytest.raises(af.DomainError, match="Sides of a domain"):
        af.compile("x", {"x": interval}, 1e-3)


@pytest.mark.parametrize("step", [1e-160, 0.0, 1e160])
def test_a_sharpness_that_is_no_number_is_refused(step):
    with pytest.raises(af.RefusalError, match="must be a float64 number"):
        per_step(2.7, step)


def test_cells_narrower_than_the_gaps_between_numbers_are_refused():
    with pytest.raises(af.RefusalError, match="wider than the gaps between float64 numbers"):
        ProductGrid(af.Box([1e8], [1e8 + 1e-7]).lower, af.Box([1e8], [1e8 + 1e-7]).upper, (4,), 0)


def test_an_edge_without_a_jump_wishes_nothing():
    panels = Panels(np.array([0.0, 1.0]), (4,))
    flat = Edge(0.5, 1, 0.0)
    values = np.array([[1.0], [-1.0], [1.0], [-1.0], [1.0]])
    with_edge, without = (Spacing.wanted(panels, edges, 1e-3, values) for edges in ([flat], []))
    assert np.array_equal(with_edge.gaps, without.gaps)


def test_sums_that_overflow_before_they_are_divided_are_refused():
    """Seven values of 1.8e38 fit bfloat16, their mean does, and a kernel adds them up first."""
    text = "3.41e38*(1/(1 + (0.016*x + 0.673*y + 0.9)^2))"
    net = af.compile(text, {"x": (-3.0, 3.0), "y": (-0.1, 0.2)}, 1e37, effort="low")
    with pytest.raises(af.RefusalError, match="Sums over the keys"):
        certify(net.network, net.target, dtype="bfloat16")
