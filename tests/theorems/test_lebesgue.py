"""Cell averages of functions that are only integrable: jumps, singularities, the L_p error."""

import warnings
from itertools import pairwise

import numpy as np
import pytest
from scipy.integrate import quad

import attnforge as af
from attnforge.constructions import max_affine
from attnforge.targets import Function
from attnforge.theorems.cell_averages import AveragesPlan, CellAverages, _nodes, truncation_level

LINE, SQUARE = af.Box(0, 1, shape=(1,)), af.Box(0, 1, shape=(2,))
JUMP, POLE = 0.3, 0.5


def rough(x):
    with np.errstate(divide="ignore"):
        return (x[..., 0] > JUMP) * 1.0 + np.abs(x[..., 0] - POLE) ** -0.5


def averages(cells):
    """Averages of rough over equal cells, by its antiderivative."""
    edges = np.arange(cells + 1) / cells
    whole = np.maximum(edges - JUMP, 0) + 2 * np.sign(edges - POLE) * np.sqrt(np.abs(edges - POLE))
    return np.diff(whole) * cells


def independent(net, p=1):
    """The L_p error by QUADPACK, panel by panel between the edges of cells, the jump and the pole."""
    cells = net.anchors

    def gap(x):
        return abs(net.network(np.array([[x]]))[0, 0] - rough(np.array([x]))) ** p

    edges = np.arange(cells + 1) / cells
    beside = np.concatenate([edges[1:-1] + s / (36 * cells) for s in (-3, -1, 1, 3)])
    panels = np.unique(np.concatenate([edges, beside, [JUMP, POLE]]))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        total = sum(quad(gap, a, b, epsrel=1e-4, limit=60)[0] for a, b in pairwise(panels))
    return total ** (1 / p)


@pytest.mark.parametrize(("cells", "p"), [(8, 1), (16, 1), (7, 1), (8, 1.5)])
def test_the_reported_norm_agrees_with_an_independent_quadrature(cells, p):
    net = max_affine(rough, LINE, cells=cells, norm=p)
    assert net.certificate.estimate.error == pytest.approx(independent(net, p), rel=0.02)


def test_values_are_averages():
    net = max_affine(rough, LINE, cells=32, norm=1)
    np.testing.assert_allclose(net.network.heads[0].memory_values[:, 0], averages(32), rtol=2e-3)


def test_the_certificate_says_what_it_is():
    net = max_affine(rough, LINE, cells=16, norm=1)
    certificate = net.certificate
    assert (certificate.status, certificate.norm, certificate.bound) == ("sampled", "L1", None)
    assert "not a bound" in certificate.assumptions[0]
    assert str(certificate).startswith("sampled: no bound; L1 error, by quadrature, about 0.586")
    assert "L1 error, by quadrature, about 0.58" in net.report()
    assert af.Certificate.from_json(certificate.to_json()) == certificate
    assert max_affine(rough, LINE, cells=4, norm=1.5).certificate.norm == "L1.5"


def test_it_is_saved_and_loaded(tmp_path):
    net = max_affine(rough, LINE, cells=8, norm=1)
    net.save(tmp_path / "rough.safetensors")
    assert af.load(tmp_path / "rough.safetensors").certificate == net.certificate


def test_the_error_falls_as_the_square_root_at_the_pole():
    """The pole's two cells err by sqrt(h) each in L1, more than all others together: a factor 2^(-1/2) a doubling."""
    errors = [max_affine(rough, LINE, cells=cells, norm=1).certificate.estimate.error for cells in (8, 32, 128)]
    np.testing.assert_allclose(np.divide(errors[1:], errors[:-1]), 0.5, atol=0.03)


def test_a_jump_alone_is_of_order_one():
    def step(x):
        return (x[..., 0] > 1 / 3) * 1.0

    errors = [max_affine(step, LINE, cells=cells, norm=1).certificate.estimate.error for cells in (8, 32, 128)]
    assert np.all(np.divide(errors[1:], errors[:-1]) < 0.3)
    assert errors[0] == pytest.approx(2 * (1 / 3) * (2 / 3) / 8, rel=0.1)  # 2 t (1 - t) h where the cell is cut at t


def test_an_unbounded_function_is_truncated_by_its_tail():
    """For x^(-1/2) the tail above T has L1 norm 1/T, and the averages on one cell err by 1: T is a thousand."""
    pole = Function(lambda x: x[..., 0] ** -0.5, LINE)
    nodes = _nodes(pole, np.array([[0.0]]), np.array([[1.0]]), 1.0)
    assert truncation_level(nodes, 1, 1.0) == pytest.approx(1000, rel=0.02)
    assert nodes.values.max() > 10_000
    net = max_affine(lambda x: x[..., 0] ** -0.5, LINE, cells=1, norm=1)
    assert net.network.heads[0].memory_values[0, 0] == pytest.approx(2 - 1e-3, rel=1e-5)


def test_several_inputs_and_outputs():
    def disc(x):
        inside = np.hypot(x[..., 0] - 0.4, x[..., 1] - 0.5) < 0.3
        return np.stack([inside * 1.0, 0.1 * x[..., 0]], axis=-1)

    net = max_affine(disc, SQUARE, cells=8, norm=1)
    assert net.certificate.estimate.error == pytest.approx(0.0813, rel=0.05)
    total = net.network.heads[0].memory_values.mean(axis=0)
    np.testing.assert_allclose(total, [np.pi * 0.09, 0.05], rtol=2e-3)


def test_formulas_too():
    assert max_affine("sqrt(x)", {"x": (0, 1)}, cells=8, norm=2).certificate.estimate.error < 0.05


@pytest.mark.parametrize("norm", [0.5, 0, -1, np.inf, np.nan, "L1", None])
def test_a_norm_below_one_is_refused(norm):
    with pytest.raises(
        af.RefusalError, match=r"`norm` must be 'sup' or a number p with 1 <= p < inf\. Got .*Use norm=1"
    ):
        max_affine(rough, LINE, cells=4, norm=norm)


def test_what_is_not_integrable_is_refused():
    with pytest.raises(af.TargetError, match=r"f must be in L_2 of its domain\. Got .*Use a smaller p"):
        max_affine(rough, LINE, cells=8, norm=2)


def test_free_cells_soft_heads_and_huge_grids_are_refused():
    with pytest.raises(af.RefusalError, match=r"L_p needs a grid of cells\. Got Adaptive\. Give a number"):
        max_affine(rough, LINE, cells=af.anchors.Adaptive(4), norm=1)
    with pytest.raises(af.RefusalError, match=r"of cell averages must be 'hard'\. Got 'tuned'"):
        max_affine(rough, LINE, cells=4, norm=1, sharpness="tuned")
    with pytest.raises(af.RefusalError, match=r"at most .* bytes"):
        max_affine(rough, LINE, cells=10**9, norm=1)
    with pytest.raises(af.RefusalError, match=r"at most .* nodes\. Got 1,000,000 boxes.*fewer cells"):
        max_affine(rough, LINE, cells=10**6, norm=1)
    target = Function(rough, LINE)
    with pytest.raises(af.RefusalError, match="Cells for an L_p error are given"):
        CellAverages().size(target, 0.1, "float64")
    assert CellAverages().bound(target, AveragesPlan((4,), 1.0))["spacing"] == np.inf
