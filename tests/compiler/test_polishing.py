"""Polished networks: never worse at fresh points, honest about it, certified anew, and refused where they must be."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import attnforge as af
from attnforge.network import Attention, digest
from tests.refusals import refused

X = {"x": (-1, 1)}


def fresh_error(net):
    return af.measure(net, points=5000, seed=99).sup


def largest(net):
    return max(float(np.abs(head.memory_values).max()) for head in net.network.heads)


@pytest.fixture(scope="module")
def wave():
    return af.compile("sin(8*x)", X, 1e-4, construction="tensor_grid")


CASES = {
    "a sine": ("sin(8*x)", X, 1e-6, "tensor_grid", 0.97),
    "a hyperbola": ("1/(1 + 25*x^2)", X, 1e-4, "tensor_grid", 0.9),
    "a kink": ("sin(8*x) + abs(x)", X, 1e-4, "tensor_grid", 0.9),
    "a ridge": ("1/(1 + (x + 2*y - z)^2)", {"x": (-1, 1), "y": (-1, 1), "z": (0, 1)}, 1e-5, "ridge", 0.999),
    "heads": ("sin(3*x) + exp(y)/(1 + x^2)", {"x": (-1, 1), "y": (-1, 1)}, 1e-3, "additive", 1.0),
}


@pytest.mark.parametrize("name", CASES)
def test_polished_values_err_less_at_fresh_points(name):
    text, domain, tol, construction, gain = CASES[name]
    net = af.compile(text, domain, tol, construction=construction)
    better = af.polish(net)
    assert fresh_error(better) <= gain * fresh_error(net)
    assert largest(better) <= 10 * largest(net)
    assert (better.anchors, better.heads) == (net.anchors, net.heads)
    for new, old in zip(better.network.heads, net.network.heads, strict=True):
        assert np.array_equal(new.memory_keys, old.memory_keys)


@pytest.mark.parametrize(("text", "tol", "gain"), [("sin(8*x)", 1e-4, 0.9), ("1/(1 + 25*x^2)", 1e-7, 1e-2)])
def test_moved_anchors_err_less(text, tol, gain):
    """Far less where the poles of the head can be brought to those of f, as for the second."""
    net = af.compile(text, X, tol, construction="tensor_grid")
    better = af.polish(net, positions=True)
    assert "; positions and values polished (sup error " in better.reason
    assert fresh_error(better) < gain * fresh_error(net)
    assert better.anchors == net.anchors
    assert not np.array_equal(better.network.heads[0].claims.positions, net.network.heads[0].claims.positions)


def test_the_report_says_so_and_the_certificate_is_the_new_networks(wave):
    told = []
    better = af.polish(wave, progress=lambda _, text: told.append(text))
    assert better.reason.startswith(wave.reason + "; values polished (sup error ")
    assert better.reason in str(better)
    assert "polished" not in wave.reason
    assert better.certificate.digest == digest(better.network) != wave.certificate.digest
    assert better.certificate.status == wave.certificate.status
    assert better.certificate.estimate.error < wave.certificate.estimate.error
    assert (told[0], told[-1]) == (f"polishing {wave.anchors} values", "measuring at fresh points")
    twice = af.polish(better)
    assert twice.network is better.network
    assert twice.certificate is better.certificate
    assert "; polish did not help (sup error " in twice.reason
    assert better.reason.count("polish") == 1  # what was handed in is left as it was


@pytest.mark.parametrize("bound", [None, 1.0])
def test_no_proof_is_given_up(wave, bound):
    """A network that errs less is not taken if less is proved of it."""
    strict = dataclasses.replace(wave.certificate, status="proved", bound=1e-9)
    kept = af.polish(dataclasses.replace(wave, certificate=strict, reason="so"))
    assert kept.network is wave.network
    assert kept.reason.startswith("so; polish did not help (sup error ")
    assert kept.reason.endswith("but a larger bound)")
    loose = dataclasses.replace(strict, status="sampled" if bound is None else "proved", bound=bound)
    assert af.polish(dataclasses.replace(wave, certificate=loose, reason="so")).reason.startswith("so; values polished")


def test_several_outputs_of_a_black_box_that_is_asked_in_batches():
    sizes = []

    def f(x):
        sizes.append(len(x))
        return np.stack([np.sin(8 * x), 0.1 * np.exp(x)], axis=-1)

    net, x = af.compile(f, X, 1e-4), np.linspace(-1, 1, 1001)
    sizes.clear()
    better = af.polish(net)
    assert len(sizes) < sum(sizes) / 100
    assert np.abs(better(x) - f(x)).max() < np.abs(net(x) - f(x)).max()


def test_what_is_no_layer_of_few_fitted_heads_is_refused(wave, monkeypatch):
    *before, last = wave.network.layers
    heads = tuple(dataclasses.replace(head, output=np.eye(1, len(head.query))) for head in last.heads)
    residual = dataclasses.replace(wave.network, layers=(*before, Attention(heads, residual=True)))
    for net in (dataclasses.replace(wave, network=residual), af.compile("clamp(2*x, -1, 1)", X, 1e-6)):
        with refused(af.RefusalError):
            af.polish(net)
    monkeypatch.setattr("attnforge.compiler.polishing.MOST_ANCHORS", wave.anchors)
    af.polish(wave)
    monkeypatch.setattr("attnforge.compiler.polishing.MOST_ANCHORS", wave.anchors - 1)
    with refused(af.RefusalError):
        af.polish(wave)
