"""Names and claims change nothing; weights that were moved a little are proved anew, not refused."""

import pytest

from attnforge.targets import ReluNetwork
from tests.readers.built import BUILT, built
from tests.readers.erasing import SIZES, erased, is_deep, perturbed, proved, written_size

BOUNDED = [name for name in BUILT if built(name).certificate.bound is not None]
ONE_INPUT = ["truncated, two inputs [float32]", "multihead", "partition", "partition, hard", "sine", "polynomial"]
NETWORKS = ["relu", "leaky relu", "hardtanh"]


@pytest.mark.parametrize("name", BUILT)
def test_a_name_changes_nothing(name):
    net = built(name)
    found = proved(net, erased(net.network, claims=False))
    assert (found.status, found.bound) == (net.certificate.status, net.certificate.bound)


@pytest.mark.parametrize("name", BUILT)
def test_claims_change_nothing(name):
    """Of one layer of attention, and of ReLU networks; deeper graphs may be refused, never bounded wrongly."""
    net = built(name)
    found = proved(net, erased(net.network, claims=True))
    if is_deep(net.network) and not isinstance(net.target, ReluNetwork):
        assert found.status in ("refused", net.certificate.status)
        return
    assert (found.status, found.bound) == (net.certificate.status, net.certificate.bound)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", BOUNDED)
def test_moved_values_are_proved_anew(name, size):
    """By no more than ten times what they moved by; twenty where they are scores of a later layer."""
    net = built(name)
    found = proved(net, perturbed(net.network, size, 0, everything=False))
    assert found.status == net.certificate.status
    assert found.error <= found.bound
    if not name.startswith("head in"):  # whose outputs are divided by a small sharpness
        factor = 20 if is_deep(net.network) and not isinstance(net.target, ReluNetwork) else 10
        assert found.bound <= net.certificate.bound + factor * size * written_size(net)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", ONE_INPUT + NETWORKS)
def test_moved_weights_get_a_bound_near_the_error(name, size):
    net = built(name)
    for seed in range(3):
        found = proved(net, perturbed(net.network, size, seed, everything=True))
        assert found.error <= found.bound <= 10 * found.error
