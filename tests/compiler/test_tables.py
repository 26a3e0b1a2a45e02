"""Tables handed to compile: met at their points, measured and certified there only, judged by points held out."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import attnforge as af
from tests.refusals import refused

X = np.linspace(-1, 1, 40)
RNG = np.random.default_rng(0)
POINTS = RNG.uniform(0, 1, size=(120, 2))
VALUES = np.sin(3 * POINTS[:, 0]) + POINTS[:, 1] ** 2


@pytest.fixture(scope="module")
def line() -> af.Compiled:
    return af.compile((X, np.sin(4 * X)), {"t": (-1, 1)}, tol=1e-6)


@pytest.fixture(scope="module")
def cloud() -> af.Compiled:
    return af.compile((POINTS, VALUES), tol=1e-3)


def test_a_pair_needs_no_domain(line: af.Compiled) -> None:
    assert (line.construction, line.target.names) == ("table", ("t",))
    assert np.abs(line(X) - np.sin(4 * X)).max() <= 1e-6
    assert abs(float(line(t=0.123)) - np.sin(4 * 0.123)) < 1e-5
    with refused(af.DomainError):
        line(1.1)


def test_axes_and_values_and_two_outputs() -> None:
    x, y = np.linspace(0, 1, 9), np.linspace(2, 4, 11)
    net = af.compile(((x, y), np.multiply.outer(x, y)), tol=1e-5)
    assert net.domain.upper.tolist() == [1, 4]
    assert float(net([[0.5, 3.0]])[0]) == pytest.approx(1.5, abs=1e-3)
    assert af.compile((X, np.stack([X, X**2], axis=1)), tol=1e-6)(X).shape == (40, 2)


def test_measure_looks_at_the_listed_points_only(line: af.Compiled) -> None:
    told: list[float] = []
    found = af.measure(line, points=7, seed=3, progress=lambda fraction, _: told.append(fraction))
    errors = np.abs(line(X) - np.sin(4 * X))
    assert (found.points, told) == (40, [1.0])
    assert found.sup == errors.max() == line.certificate.estimate.error
    assert found.at.tolist() == [X[errors.argmax()]]
    assert found.rms == pytest.approx(np.sqrt((errors**2).mean()))


def test_measure_against_other_targets(line: af.Compiled) -> None:
    assert af.measure(line, "sin(4*t)", points=500).sup < 1e-4
    few = af.measure(line, (X[5:9], np.sin(4 * X[5:9]) + 1))
    assert (few.sup, few.points) == (pytest.approx(1, abs=1e-5), 4)
    net = af.compile("clamp(x, -1, 1)", {"x": (-2, 2)}, tol=1e-6)
    assert af.measure(net, ([-1.5, 0.25], [-1.0, 0.75])).sup == pytest.approx(0.5, abs=1e-5)
    for other in ((POINTS, VALUES), ([0.0, 5.0], [0.0, 1.0])):
        with refused(af.DomainError):
            af.measure(line, other)


def test_certificates_reach_the_listed_points_only_also_from_a_file(
    line: af.Compiled, cloud: af.Compiled, tmp_path: Path
) -> None:
    for net, count in ((line, 40), (cloud, 120)):
        assert (net.certificate.status, net.certificate.bound) == ("sampled", None)
        assert net.certificate.assumptions[0].startswith(f"a statement about the {count} listed points only")
        net.save(tmp_path / "net")
        again = af.load(tmp_path / "net")
        assert af.certify(again).assumptions == net.certificate.assumptions
        assert af.measure(again).sup == af.measure(net).sup
    assert len(line.certificate.assumptions) == 1
    assert "miss the others by up to" in cloud.certificate.assumptions[1]


def test_the_error_held_out_shows_noise() -> None:
    def held_out(points: np.ndarray, values: np.ndarray, tol: float) -> float:
        net = af.compile((points, values), tol=tol)
        assert net.certificate.estimate.error <= tol
        return float(net.certificate.assumptions[1].rsplit(" ", 1)[1])

    x = RNG.uniform(size=100)
    assert held_out(POINTS, RNG.normal(size=120), 1e-2) > 0.5
    assert held_out(x, np.sin(6 * x), 1e-4) < 1e-3  # of one input, too
