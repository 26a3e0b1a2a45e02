"""Polished networks: never worse at fresh points, honest about it, certified anew, and refused where they must be."""

import dataclasses

import numpy as np
import pytest

import attnforge as af
from attnforge.compiler import polishing
from attnforge.compiler.polishing import Row, Sampling, polish
from attnforge.network import Attention, digest

X = {"x": (-1, 1)}


def fresh_error(net, seed=99):
    return af.measure(net, points=5000, seed=seed).sup


def largest(net):
    return max(float(np.abs(head.memory_values).max()) for head in net.network.heads)


@pytest.fixture(scope="module")
def wave():
    return af.compile("sin(8*x)", X, 1e-4, construction="tensor_grid")


@pytest.mark.parametrize(
    ("text", "tol", "gain"),
    [("sin(8*x)", 1e-6, 0.97), ("1/(1 + 25*x^2)", 1e-4, 0.9), ("sin(8*x) + abs(x)", 1e-4, 0.9), ("exp(x)", 1e-6, 0.9)],
)
def test_polished_values_err_less_at_fresh_points(text, tol, gain):
    net = af.compile(text, X, tol, construction="tensor_grid")
    better = polish(net)
    assert fresh_error(better) <= gain * fresh_error(net)
    assert largest(better) <= polishing.WILDEST * largest(net)
    assert better.anchors == net.anchors
    assert np.array_equal(better.network.heads[0].memory_keys, net.network.heads[0].memory_keys)


def test_the_report_says_so_and_the_certificate_is_the_new_networks(wave):
    better = polish(wave)
    assert better.reason.startswith(wave.reason + "; values polished (sup error ")
    assert better.reason in str(better)
    assert "polished" not in wave.reason
    assert better.certificate.digest == digest(better.network) != wave.certificate.digest
    assert better.certificate.status == wave.certificate.status
    assert better.certificate.estimate.error < wave.certificate.estimate.error
    assert "train" not in str(better)


@pytest.mark.parametrize(("text", "tol", "gain"), [("sin(8*x)", 1e-4, 0.9), ("1/(1 + 25*x^2)", 1e-7, 1e-2)])
def test_moved_anchors_err_less(text, tol, gain):
    """Far less where the poles of the head can be brought to those of f, as for the second."""
    net = af.compile(text, X, tol, construction="tensor_grid")
    better = polish(net, positions=True)
    assert "; positions and values polished (sup error " in better.reason
    assert fresh_error(better) < gain * fresh_error(net)
    assert better.anchors == net.anchors
    assert not np.array_equal(better.network.heads[0].claims.positions, net.network.heads[0].claims.positions)
    assert better.certificate.digest == digest(better.network)


def test_polishing_twice_gains_nothing_and_says_so(wave):
    once = polish(wave)
    twice = polish(once)
    assert twice.network is once.network
    assert twice.certificate is once.certificate
    assert "; polish did not help (sup error " in twice.reason
    assert once.reason.count("polish") == 1  # what was handed in is left as it was


def test_a_worse_network_is_not_taken(wave, monkeypatch):
    worse = polishing._with_values(wave.network, wave.network.heads[0].memory_values + 1.0)
    monkeypatch.setattr(polishing, "_polished", lambda compiled, network: worse)
    kept = polish(wave)
    assert kept.network is wave.network
    assert "polish did not help" in kept.reason


def test_several_outputs():
    net = af.compile(lambda x: np.stack([np.sin(8 * x), 0.1 * np.exp(x)], axis=-1), X, 1e-4)
    better = polish(net)
    x = np.linspace(-1, 1, 1001)
    wanted = np.stack([np.sin(8 * x), 0.1 * np.exp(x)], axis=-1)
    assert better(x).shape == (1001, 2)
    assert np.abs(better(x) - wanted).max() < np.abs(net(x) - wanted).max()


def test_ridge_functions_of_several_inputs():
    net = af.compile("1/(1 + (x + 2*y - z)^2)", {"x": (-1, 1), "y": (-1, 1), "z": (0, 1)}, 1e-5)
    assert net.construction == "ridge"
    assert fresh_error(polish(net)) < fresh_error(net)
    assert fresh_error(polish(net, positions=True)) < fresh_error(net)


def test_sums_of_heads():
    net = af.compile("sin(3*x) + exp(y)/(1 + x^2)", {"x": (-1, 1), "y": (-1, 1)}, 1e-3, construction="additive")
    better = polish(net)
    assert better.heads == net.heads
    assert fresh_error(better) <= fresh_error(net)


def test_float32_runs_in_float32():
    net = af.compile("sin(8*x)", X, 1e-3, dtype="float32")
    better = polish(net)
    assert better.dtype == "float32"
    assert fresh_error(better) < fresh_error(net)


@pytest.mark.parametrize("bound", [None, 1.0])
def test_no_proof_is_given_up(wave, bound):
    """A network that errs less is not taken if less is proved of it."""
    strict = dataclasses.replace(wave.certificate, status="proved", bound=1e-9)
    kept = polish(af.Compiled(wave.network, wave.target, strict, "tensor_grid", "float64", "so"))
    assert kept.network is wave.network
    assert kept.reason.startswith("so; polish did not help (sup error ")
    assert kept.reason.endswith("but a larger bound)")
    loose = dataclasses.replace(strict, status="sampled" if bound is None else "proved", bound=bound)
    taken = polish(af.Compiled(wave.network, wave.target, loose, "tensor_grid", "float64", "so"))
    assert taken.reason.startswith("so; values polished")


def test_a_black_box_is_asked_in_batches():
    sizes = []

    def f(x):
        sizes.append(len(x))
        return np.sin(5 * x)

    net = af.compile(f, X, 1e-4)
    sizes.clear()
    polishing._polished(net, net.network)
    assert len(sizes) <= 1 + 3 * 8
    assert sizes[0] > 16 * net.anchors


def test_progress_is_told(wave):
    told = []
    polish(wave, progress=lambda _, text: told.append(text))
    assert (told[0], told[-1]) == (f"polishing {wave.anchors} values", "measuring at fresh points")
    assert "proving tensor_grid" in told


def test_other_constructions_are_refused():
    net = af.compile("clamp(2*x, -1, 1)", X, 1e-6)
    with pytest.raises(af.RefusalError, match=r"Only fitted heads are polished: tensor_grid.*Got gate"):
        polish(net)


def test_too_many_anchors_are_refused(wave, monkeypatch):
    monkeypatch.setattr(polishing, "MOST_ANCHORS", wave.anchors - 1)
    with pytest.raises(af.RefusalError, match=f"at most {wave.anchors - 1} anchors in all.*Got {wave.anchors}"):
        polish(wave)
    monkeypatch.setattr(polishing, "MOST_ANCHORS", wave.anchors)
    polish(wave)


def test_other_networks_are_refused(wave):
    *before, last = wave.network.layers
    heads = tuple(dataclasses.replace(head, output=np.eye(1, len(head.query))) for head in last.heads)
    residual = dataclasses.replace(wave.network, layers=(*before, Attention(heads, residual=True)))
    forged = af.Compiled(residual, wave.target, wave.certificate, "tensor_grid", "float64")
    with pytest.raises(af.RefusalError, match="one layer of heads that hold all their values"):
        polish(forged)


def test_points_are_moved_along_a_form_within_the_box():
    box = af.Box([-1.0, 0.0, 5.0], [1.0, 2.0, 6.0])
    row = Row.of(np.array([1.0, -2.0, 0.0, 0.5]), np.array([-9.0, -2.0, 0.0, 1.0, 9.0]), box)
    assert row.ends.tolist() == [-4.5, -2.0, 0.0, 1.0, 1.5]
    points = np.random.default_rng(0).uniform(box.lower, box.upper, size=(50, 3))
    places = np.linspace(-4.5, 1.5, 50)
    moved = row.moved(points, places, box)
    assert moved @ row.weights + row.offset == pytest.approx(places)
    assert (moved[:, 2] == points[:, 2]).all()
    assert ((moved >= box.lower) & (moved <= box.upper)).all()
    assert row.gaps_at(np.array([-3.0, -1.0, 0.5, 1.2, 99.0])).tolist() == [2.5, 2.0, 1.0, 0.5, 0.5]


def test_points_are_dense_where_anchors_are():
    net = af.compile("sin(8*x) + abs(x)", X, 1e-4, construction="tensor_grid")
    where = Sampling.of(net.network, net.domain)
    ends = where.rows[0][0].ends
    for points in (where.first(), where.random(20_000, 1)):
        counts = np.histogram(points[:, 0], ends)[0]
        assert counts.min() >= 16
    close = where.proposed(np.zeros((1, 1)), 0)[-48:, 0]
    assert np.abs(close).max() < 20 * np.diff(ends).min()
