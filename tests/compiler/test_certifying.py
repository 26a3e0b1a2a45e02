"""The public certify and measure."""

import numpy as np
import pytest

import attnforge as af


@pytest.fixture(scope="module")
def net():
    return af.compile("clamp(2*x + 0.5*y, -1, 1)", {"x": (-1, 1), "y": (-2, 2)}, 0.05, construction="truncated_linear")


def test_a_bare_network_against_text(net):
    found = af.certify(net.network, "clamp(2*x + 0.5*y, -1, 1)", {"x": (-1, 1), "y": (-2, 2)})
    assert found.bound == net.certificate.bound
    assert found.digest == net.certificate.digest


def test_the_order_of_names_matters(net):
    swapped = af.certify(net.network, "clamp(2*y + 0.5*x, -1, 1)", {"y": (-1, 1), "x": (-2, 2)})
    assert swapped.bound == net.certificate.bound
    try:
        wrong = af.certify(net.network, "clamp(2*x + 0.5*y, -1, 1)", {"y": (-2, 2), "x": (-1, 1)}).bound
    except af.AttnforgeError:
        return
    assert wrong > 0.5


def test_a_smaller_domain_is_not_worse(net):
    small = af.certify(net.network, "clamp(2*x + 0.5*y, -1, 1)", {"x": (-0.1, 0.1), "y": (-0.1, 0.1)})
    assert small.bound <= net.certificate.bound


def test_certifying_a_compiled_target_again_changes_nothing(net):
    assert af.certify(net) == net.certificate


def test_networks_alone_need_a_target(net):
    with pytest.raises(af.CertificateError, match="Pass target="):
        af.certify(net.network)
    with pytest.raises(af.DomainError, match="domain"):
        af.certify(net.network, "clamp(2*x, -1, 1)")


def test_measurements_repeat(net):
    first, second = af.measure(net, points=3000, seed=5), af.measure(net, points=3000, seed=5)
    assert (first.sup, first.rms) == (second.sup, second.rms)
    assert np.array_equal(first.at, second.at)
    assert af.measure(net, points=3000, seed=6).rms != first.rms
    assert first.rms < first.sup <= net.certificate.bound


def test_measuring_against_another_target():
    net = af.compile("clamp(2*x, -1, 1)", {"x": (-1, 1)}, 1e-6)
    assert af.measure(net, "clamp(2*x, -1, 1) + 0.25", points=1000).sup == pytest.approx(0.25, abs=1e-5)


def test_measuring_against_another_target_of_two_inputs(net):
    assert 0.2 < af.measure(net, "clamp(2*x + 0.5*y, -1, 1) + 0.25", points=1000).sup < 0.32


def test_progress_runs_from_nothing_to_all(net):
    seen = []
    af.measure(net, points=30_000, progress=lambda fraction, text: seen.append(fraction))
    assert seen == sorted(seen)
    assert 0 <= seen[0] < seen[-1] <= 1


@pytest.mark.parametrize("points", [0, -3])
def test_points_must_be_positive(net, points):
    with pytest.raises(af.AttnforgeError, match="`points` must be a whole number, at least 1"):
        af.measure(net, points=points)


def test_a_false_lipschitz_constant_is_refuted_with_the_point():
    steep = lambda x: np.sin(40 * x)  # noqa: E731
    with pytest.raises(
        af.TargetError, match=r"Lipschitz with constant 1 in the sup norm.*error .* at \(.*\): it is not"
    ):
        af.compile(steep, {"x": (-1, 1)}, tol=0.05, lipschitz=1.0)
    assert af.compile(steep, {"x": (-1, 1)}, tol=0.5, lipschitz=40.0).certificate.status == "conditional"
