"""Tables handed to compile, measured, certified, saved, loaded and drawn."""

from pathlib import Path

import numpy as np
import pytest

import attnforge as af
from attnforge.compiler.targets import compared_with
from attnforge.errors import DomainError, TargetError
from attnforge.targets.table import Table

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
    assert line.construction == "table"
    assert line.target.names == ("t",)
    assert np.abs(line(X) - np.sin(4 * X)).max() <= 1e-6
    assert abs(float(line(t=0.123)) - np.sin(4 * 0.123)) < 1e-5
    with pytest.raises(DomainError):
        line(1.1)


def test_axes_and_values() -> None:
    x, y = np.linspace(0, 1, 9), np.linspace(2, 4, 11)
    net = af.compile(((x, y), np.multiply.outer(x, y)), tol=1e-5)
    assert net.domain.upper.tolist() == [1, 4]
    assert float(net([[0.5, 3.0]])[0]) == pytest.approx(1.5, abs=1e-3)


def test_two_outputs() -> None:
    net = af.compile((X, np.stack([X, X**2], axis=1)), tol=1e-6)
    assert net(X).shape == (40, 2)


def test_measure_looks_at_the_listed_points_only(line: af.Compiled) -> None:
    found = af.measure(line, points=7, seed=3)
    errors = np.abs(line(X) - np.sin(4 * X))
    assert found.points == 40
    assert found.sup == errors.max() == line.certificate.estimate.error
    assert found.at.tolist() == [X[errors.argmax()]]
    assert found.rms == pytest.approx(np.sqrt((errors**2).mean()))


def test_progress_is_told(line: af.Compiled) -> None:
    told: list[float] = []
    af.measure(line, progress=lambda fraction, _: told.append(fraction))
    assert told == [1.0]


def test_measure_against_other_targets(line: af.Compiled) -> None:
    assert af.measure(line, "sin(4*t)", points=500).sup < 1e-4
    few = (X[5:9], np.sin(4 * X[5:9]) + 1)
    assert af.measure(line, few).sup == pytest.approx(1, abs=1e-5)
    assert af.measure(line, Table(*few)).points == 4
    with pytest.raises(DomainError, match="points of shape"):
        af.measure(line, (POINTS, VALUES))
    with pytest.raises(DomainError):
        af.measure(line, ([0.0, 5.0], [0.0, 1.0]))


def test_a_formula_network_against_a_table() -> None:
    net = af.compile("clamp(x, -1, 1)", {"x": (-2, 2)}, tol=1e-6)
    assert af.measure(net, ([-1.5, 0.25], [-1.0, 0.75])).sup == pytest.approx(0.5, abs=1e-5)


def test_certificates_reach_the_listed_points_only(line: af.Compiled, cloud: af.Compiled) -> None:
    for net, count in ((line, 40), (cloud, 120)):
        assert net.certificate.status == "sampled"
        assert net.certificate.bound is None
        assert net.certificate.assumptions[0].startswith(f"a statement about the {count} listed points only")
    assert len(line.certificate.assumptions) == 1
    assert "miss the others by up to" in cloud.certificate.assumptions[1]


def test_the_error_held_out_shows_noise() -> None:
    noise = RNG.normal(size=120)
    net = af.compile((POINTS, noise), tol=1e-2)
    assert net.certificate.estimate.error <= 1e-2
    assert float(net.certificate.assumptions[1].rsplit(" ", 1)[1]) > 0.5


def test_scattered_points_of_one_input_are_judged_too() -> None:
    x = RNG.uniform(size=100)
    net = af.compile((x, np.sin(6 * x)), tol=1e-4)
    assert float(net.certificate.assumptions[1].rsplit(" ", 1)[1]) < 1e-3


@pytest.mark.parametrize("which", ["line", "cloud"])
def test_saved_loaded_certified_drawn(which: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    net = request.getfixturevalue(which)
    net.save(tmp_path / "f.safetensors")
    again = af.load(tmp_path / "f.safetensors")
    assert np.array_equal(again(again.target.points), net(net.target.points))
    assert af.certify(again).assumptions == net.certificate.assumptions
    assert af.measure(again).sup == af.measure(net).sup
    assert net.target.describe() in again.report()
    assert again.plot().axes


def test_lower_precision_reaches_what_it_can() -> None:
    net = af.compile((POINTS, VALUES), tol=1e-3, dtype="float32")
    assert net.certificate.estimate.error <= 1e-3


def test_refusals_name_what_can_be_had() -> None:
    with pytest.raises(af.RefusalError, match=r"Ask for tol >= \d"):
        af.compile((X, np.sin(4 * X)), tol=1e-18)
    with pytest.raises(TargetError, match="nothing beyond its points"):
        af.compile((X, X), {"t": (-2, 2)})
    with pytest.raises(TargetError, match="pair"):
        af.compile((X,))
    with pytest.raises(TargetError, match=r"or a pair \(points, values\)"):
        af.compile(3.0, {"x": (0, 1)})


def test_compared_with_its_own(line: af.Compiled) -> None:
    assert compared_with(line.target) is line.target
    half = compared_with(line.target, None, {"t": (-1, 0)})
    assert half.domain.upper.tolist() == [X[X <= 0].max()]
