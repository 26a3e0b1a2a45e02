"""certify, measure and attack: networks alone, other targets, other dtypes, wrong arguments."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import attnforge as af
from tests.refusals import refused

TEXT, BOX = "clamp(2*x + 0.5*y, -1, 1)", {"x": (-1, 1), "y": (-2, 2)}


@pytest.fixture(scope="module")
def net():
    return af.compile(TEXT, BOX, 0.05, construction="truncated_linear")


@pytest.fixture(scope="module")
def wave():
    return af.compile("sin(5*x)", {"x": (-1, 1)}, 1e-5)


def test_a_bare_network_against_text_is_certified_as_it_was(net):
    assert af.certify(net) == net.certificate
    found = af.certify(net.network, TEXT, BOX)
    assert (found.bound, found.digest) == (net.certificate.bound, net.certificate.digest)
    small = af.certify(net.network, TEXT, {"x": (-0.1, 0.1), "y": (-0.1, 0.1)})
    assert small.bound <= net.certificate.bound


def test_measurements_repeat_and_tell_how_far_they_are(net):
    seen = []
    first, second = (
        af.measure(net, points=3000, seed=5, progress=lambda fraction, _: seen.append(fraction)) for _ in range(2)
    )
    assert (first.sup, first.rms) == (second.sup, second.rms)
    assert np.array_equal(first.at, second.at)
    assert af.measure(net, points=3000, seed=6).rms != first.rms
    assert first.rms < first.sup <= net.certificate.bound
    assert 0 <= seen[0] < seen[-1] <= 1


def test_measuring_and_attacking_against_another_target(net, wave):
    assert 0.2 < af.measure(net, f"{TEXT} + 0.25", points=1000).sup < 0.32
    found = af.attack(wave, "sin(5*x) + 0.01*exp(-1000*(x - 0.123)^2)", seconds=None, evaluations=4000)
    assert found.error == pytest.approx(0.01, rel=1e-3)
    assert found.at[0] == pytest.approx(0.123, abs=1e-3)
    callable_ = af.attack(wave, lambda x: np.sin(5 * x), seconds=None, evaluations=4000)
    assert callable_.pruned is None  # it has no bounds on boxes
    assert callable_.error <= wave.certificate.bound * 1.001


def test_the_rounding_of_the_dtype_counts_in_an_attack():
    single = af.compile("sin(5*x)", {"x": (-1, 1)}, 1e-4, dtype="float32")
    found, rounding = af.attack(single, seconds=None, evaluations=4000), single.certificate.parts["rounding"]
    alone = float(np.abs(single(found.at) - single.target.values(found.at.astype(np.longdouble))).item())
    assert found.error == pytest.approx(alone, abs=2 * rounding)
    assert af.measure(replace(single, dtype="float64"), points=2000).sup < found.error <= single.certificate.bound


POINTS = np.linspace(-1, 1, 20)
WRONG = {
    "a network alone": (af.CertificateError, lambda net: af.certify(net.network)),
    "a network and text without a domain": (af.DomainError, lambda net: af.certify(net.network, TEXT)),
    "an attack on listed points": (af.TargetError, lambda net: af.attack(net, (POINTS[:, None] * [1, 1], POINTS))),
    **{
        f"points={points}": (af.TargetError, lambda net, points=points: af.measure(net, points=points))
        for points in (0, -3, 1.5)
    },
    **{
        f"a number to {verb.__name__}": (af.AttnforgeError, lambda _, verb=verb: verb(3))
        for verb in (af.measure, af.attack, af.polish, af.optimality, af.certify, af.load, af.check)
    },
    "a place that is a number": (af.FileFormatError, lambda net: net.save(3)),
    "a network to check": (af.FileFormatError, lambda net: af.check(net)),
    "a number as weights": (af.CertificateError, lambda net: net.with_network(3)),
    "a Lipschitz constant as text": (af.TargetError, lambda _: af.Lipschitz("a")),
    "a sweep of a number": (af.RefusalError, lambda _: af.sweep("sin(x)", {"x": (-1, 1)}, anchors=4, construction=3)),
    **{
        f"a box of shape {shape!r}": (af.DomainError, lambda _, shape=shape: af.Box(0, 1, shape=shape))
        for shape in (3, "ab", (-1,), (1.5,), (0,))
    },
}


@pytest.mark.parametrize("what", WRONG)
def test_wrong_arguments_are_refused(net, what):
    kind, call = WRONG[what]
    with refused(kind):
        call(net)
