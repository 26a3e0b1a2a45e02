"""Branch and bound for heads over any cells: never below what is measured, rarely far above, and able to fail."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import attnforge as af
from attnforge.anchors import Adaptive
from attnforge.certification.certify import certify
from attnforge.certification.enclosure.model_layers import largest_mean
from attnforge.certification.target_range import range_of
from attnforge.constructions import max_affine
from attnforge.network import Rows, with_head
from attnforge.targets import Formula, Function

SQUARE = af.Box(0, 1, shape=(2,))


def peak(x):
    return np.exp(-60 * ((x[..., 0] - 0.3) ** 2 + (x[..., 1] - 0.6) ** 2))


def mixture(seed, axes):
    """A sum of waves in random directions, and its Lipschitz constant in the sup norm."""
    rng = np.random.default_rng(seed)
    waves, phases, sizes = rng.normal(size=(4, axes)) * 5, rng.uniform(0, 7, 4), rng.normal(size=4)

    def f(x):
        return np.sin(x @ waves.T + phases) @ sizes

    return f, float(np.abs(sizes) @ np.abs(waves).sum(axis=1))


def measured(net, f, seed=0, count=4000):
    """The largest error on random points, and beside the faces between them and their cell's neighbours."""
    rng = np.random.default_rng(seed)
    box = net.domain
    x = rng.uniform(box.lower, box.upper, (count, *box.shape))
    ends = rng.choice([0.0, 1.0], size=(64, *box.shape)) * (box.upper - box.lower) + box.lower
    x = np.concatenate([x, ends])
    return float(np.abs(net(x) - f(x)).max())


def edited(net, **changes):
    """The network with arrays of its head replaced."""
    return with_head(net.network, -1, 0, **changes)


def head(net):
    return net.network.heads[0]


def moved(array, index, by):
    array = array.copy()
    array[index] += by
    return array


@given(seed=st.integers(0, 10**6), count=st.integers(1, 40), axes=st.integers(1, 2), dtype=st.sampled_from(["float64", "float32"]))  # fmt: skip  # noqa: E501
def test_measured_errors_of_random_centres_stay_below_the_bound(seed, count, axes, dtype):
    f, constant = mixture(seed, axes)
    centres = np.random.default_rng(seed).random((count, axes))
    try:
        net = max_affine(f, af.Box(0, 1, shape=(axes,)), cells=centres, lipschitz=constant, dtype=dtype)
    except af.RefusalError as refusal:
        assert (axes, dtype) == (2, "float32")  # centres too close together
        assert "tell the scores of cells apart" in str(refusal)  # noqa: PT017
        return
    assert net.certificate.status == "conditional"
    assert measured(net, f, seed) <= net.certificate.bound


@given(seed=st.integers(0, 10**6), count=st.integers(1, 60), axes=st.integers(1, 2))
def test_measured_errors_of_adaptive_cells_stay_below_the_bound(seed, count, axes):
    f, constant = mixture(seed, axes)
    net = max_affine(f, af.Box(-1, 1, shape=(axes,)), cells=Adaptive(count), lipschitz=constant)
    assert measured(net, f, seed) <= net.certificate.bound


@pytest.mark.parametrize("count", [30, 110])
def test_the_bound_is_within_a_few_per_cent(count):
    net = max_affine(peak, SQUARE, cells=Adaptive(count), lipschitz=9.4)
    assert net.certificate.bound <= 1.06 * af.measure(net, points=20_000).sup
    assert set(net.certificate.parts) == {"spacing", "leakage", "rounding"}
    assert net.certificate.parts["rounding"] < 1e-10
    assert 0 < net.certificate.parts["leakage"] < 0.01 * net.certificate.bound  # far keys are counted


def test_a_smaller_lipschitz_norm_is_used_as_given():
    nets = [
        max_affine(peak, SQUARE, cells=Adaptive(40), lipschitz=known)
        for known in (af.Lipschitz(6.65, "l2"), af.Lipschitz(6.65 * 2**0.5, "sup"))
    ]
    assert nets[0].certificate.bound == pytest.approx(nets[1].certificate.bound, rel=0.03)


def test_a_loose_constant_costs_work_not_soundness():
    net = max_affine(peak, SQUARE, cells=Adaptive(30), lipschitz=1000)
    assert measured(net, peak) <= net.certificate.bound <= 3


def test_a_moved_value_enlarges_the_bound_by_as_much():
    net = max_affine(peak, SQUARE, cells=Adaptive(60), lipschitz=9.4)
    network = edited(net, memory_values=moved(head(net).memory_values, 7, 0.5))
    bound = certify(network, net.target).bound
    assert bound > net.certificate.bound + 0.2
    assert measured(af.Compiled(network, net.target, net.certificate, "max_affine", "float64"), peak) <= bound


def test_a_moved_centre_is_certified_as_it_is_and_not_as_it_was():
    net = max_affine(peak, SQUARE, cells=Adaptive(60), lipschitz=9.4)
    near = int(np.linalg.norm(head(net).claims.positions - [0.3, 0.6], axis=1).argmin())
    network = edited(net, memory_keys=moved(head(net).memory_keys, (near, 0), 20.0))
    spoilt = af.Compiled(network, net.target, net.certificate, "max_affine", "float64")
    bound = certify(network, net.target).bound
    assert net.certificate.bound < measured(spoilt, peak) <= bound


def test_claims_are_not_trusted():
    net = max_affine(peak, SQUARE, cells=Adaptive(60), lipschitz=9.4)
    claims = replace(head(net).claims, positions=np.zeros((60, 2)), sharpness=1e9)
    assert certify(edited(net, claims=claims), net.target).bound == net.certificate.bound
    for claims in (replace(head(net).claims, roles=("cell",) * 60), None):
        assert certify(edited(net, claims=claims), net.target).bound == net.certificate.bound


def test_soft_heads_are_bounded_too():
    net = max_affine(peak, SQUARE, cells=Adaptive(60), lipschitz=9.4)
    network = edited(net, query=head(net).query / 50)
    soft = af.Compiled(network, net.target, net.certificate, "max_affine", "float64")
    bound = certify(network, net.target).bound
    error = measured(soft, peak)
    assert error <= bound <= 1.2 * error


def test_heads_that_skip_rows_are_refused_and_others_charged_for_what_they_write():
    net = max_affine(peak, SQUARE, cells=Adaptive(9), lipschitz=9.4)
    with pytest.raises(af.CertificateError, match="Every token asks the head"):
        certify(edited(net, query_rows=Rows.some([0])), net.target)
    double = certify(edited(net, output=np.array([[2.0]])), net.target).bound
    assert double == pytest.approx(certify(edited(net, memory_values=2 * head(net).memory_values), net.target).bound)
    assert double > 1.5 * net.certificate.bound


def test_a_part_of_the_domain_has_a_smaller_bound_a_larger_one_none():
    net = max_affine(peak, SQUARE, cells=Adaptive(60), lipschitz=9.4)
    corner = af.Box([0.8, 0.0], [1.0, 0.2])
    assert certify(net.network, net.target, corner).bound < 0.8 * net.certificate.bound
    with pytest.raises(af.CertificateError, match="where the target lives"):
        certify(net.network, net.target, af.Box([0, 0], [1.0, 1.5]))


def test_targets_of_another_shape_are_refused():
    net = max_affine(peak, SQUARE, cells=Adaptive(9), lipschitz=9.4)
    other = Function(lambda x: x, SQUARE, lipschitz=af.Lipschitz(1.0))
    with pytest.raises(af.CertificateError, match="must write the target's 2 outputs"):
        certify(net.network, other)


def test_scores_too_large_for_the_dtype_are_refused():
    centres = np.array([[0.0, 0.0], [1e-5, 0.0], [1.0, 1.0]])
    with pytest.raises(af.RefusalError, match=r"must tell the scores of cells apart\. Got scores off by .*float64"):
        max_affine(peak, SQUARE, cells=centres, lipschitz=9.4, dtype="float32")
    assert max_affine(peak, SQUARE, cells=centres, lipschitz=9.4).certificate.bound < 1.04


def test_without_a_constant_there_is_no_bound():
    certificate = max_affine(peak, SQUARE, cells=Adaptive(9)).certificate
    assert certificate.status == "sampled"
    assert certificate.bound is None


@given(seed=st.integers(0, 10**6), keys=st.integers(1, 8))
def test_extremes_of_weighted_means(seed, keys):
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(1, keys)) * 10.0 ** rng.uniform(-3, 3)
    low = rng.uniform(0.0, 1.0, (1, keys))
    high = low + rng.uniform(0.0, 1.0, (1, keys))
    low[0, 0] = high[0, 0] = 1.0
    corners = (np.arange(2**keys)[:, None] >> np.arange(keys)) & 1
    weights = np.where(corners, high, low)
    best = ((weights * values).sum(axis=1) / weights.sum(axis=1)).max()
    found = float(largest_mean(*(each[..., None] for each in (values, low, high)))[0, 0])
    assert best <= found <= best + 1e-9 * np.abs(values).max()


@given(seed=st.integers(0, 10**6))
def test_ranges_of_formulas_and_callables_hold_every_value(seed):
    rng = np.random.default_rng(seed)
    lower = rng.uniform(-1, 0.9, (5, 2))
    upper = np.minimum(lower + rng.uniform(0, 0.5, (5, 2)), 1.0)
    box = af.Box(-1, 1, shape=(2,))
    formula = Formula("sin(3*x)*y + abs(x)", box, ("x", "y"))
    plain = Function(lambda p: np.sin(3 * p[..., 0]) * p[..., 1] + np.abs(p[..., 0]), box, lipschitz=af.Lipschitz(5.0))
    inside = lower[:, None] + rng.random((5, 50, 2)) * (upper - lower)[:, None]
    for target in (formula, plain):
        low, high = range_of(target)(lower, upper)
        found = target.values(inside)
        assert np.all((found >= low - 1e-15) & (found <= high + 1e-15))


def test_undefined_formulas_have_no_range():
    low, high = range_of(Formula("1/x + y", af.Box([-1, -1], [2, 1]), ("x", "y")))(
        np.array([[-1.0, 0.0], [1.0, 0.0]]), np.array([[1.0, 0.0], [2.0, 0.0]])
    )
    assert (low[0, 0], high[0, 0]) == (-np.inf, np.inf)
    assert low[1, 0] == pytest.approx(0.5)
