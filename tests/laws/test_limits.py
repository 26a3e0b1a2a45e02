"""The numbers of docs/limits.md: what no head of p keys can do, and what some do."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import linprog
from scipy.special import comb, expit, logit, logsumexp

import attnforge as af
from attnforge.certification.optimality import levelled
from attnforge.compiler.targets import as_target
from attnforge.network import Attention
from attnforge.network.apply import apply_layer


def head_of(keys, values):
    """One head of one input with scores keys @ (x, 1)."""
    net = af.constructions.max_affine("x", af.Box(-1.0, 1.0), cells=len(keys), sharpness="hard", effort="low")
    encode, last = net.network.layers
    head = last.heads[0]
    query = np.linalg.lstsq(*_encoded(net.network), rcond=None)[0]
    output = np.ones((1, head.output.shape[1]))
    memory = {"memory_keys": np.asarray(keys), "memory_values": np.asarray(values)[:, None]}
    made = replace(head, query=query, output=output, claims=None, **memory)
    return replace(net.network, layers=(encode, Attention((made,), False)))


def _encoded(network):
    """Features of two inputs after the first layer, and these inputs with a 1."""
    points = np.array([[0.0], [1.0]])
    return apply_layer(network.layers[0], points[:, None, :], None)[:, 0], np.array([[0.0, 1.0], [1.0, 1.0]])


@pytest.mark.parametrize("keys", [1, 2, 3, 8])
@pytest.mark.parametrize("seed", range(3))
def test_no_head_of_p_keys_comes_close_to_a_chebyshev_polynomial(keys, seed):
    """Whatever its keys: T_p alternates at p + 1 points."""
    rng = np.random.default_rng(seed)
    network = head_of(rng.normal(size=(keys, 2)) * 10.0 ** rng.uniform(-1, 2), rng.normal(size=keys))
    target = as_target(f"cos({keys}*acos(x))", {"x": (-1, 1)})
    assert levelled(network, target).lower == pytest.approx(1.0, abs=0.1)


@pytest.mark.parametrize("text", ["sin(9*x)", "abs(x - 0.3)", "x^2", "clamp(3*x, -1, 1)"])
@pytest.mark.parametrize("seed", range(4))
def test_linear_programming_finds_no_better_values(text, seed):
    """The smallest error of any values on a grid that holds the points; some heads are symmetric."""
    rng = np.random.default_rng(seed)
    slopes, offsets = np.sort(rng.normal(size=6)) * 4, rng.normal(size=6) * (seed % 2)
    slopes = slopes if seed % 2 else (slopes - slopes[::-1]) / 2
    target = as_target(text, {"x": (-1, 1)})
    found = levelled(head_of(np.stack([slopes, offsets], axis=1), np.zeros(6)), target)
    scores = found.grid[:, None] * slopes + offsets
    basis = np.linalg.svd(np.exp(scores - logsumexp(scores, axis=1, keepdims=True)), full_matrices=False)[0]
    basis, level = basis[:, : found.keys], np.ones((len(found.grid), 1))
    wanted = 1e3 * target.values(found.grid[:, None])  # above the tolerance of the solver
    sides = np.block([[basis, -level], [-basis, -level]])
    free = [(None, None)] * found.keys
    best = linprog(np.eye(found.keys + 1)[-1], sides, np.append(wanted, -wanted), bounds=[*free, (0, None)]).fun / 1e3
    assert 0.3 * best <= found.lower <= best * (1 + 1e-6) + 1e-9


@pytest.mark.parametrize("keys", [2, 5, 16])
def test_hard_cells_reach_what_is_best_for_lipschitz_functions(keys):
    """A zigzag of p pieces is no better approximated than by its mean, and cells are as good for all functions."""
    zigzag = as_target(f"2/pi*asin(cos(pi*{keys}*(x + 1)/2))/{keys}", {"x": (-1, 1)})
    network = head_of(np.stack([np.linspace(-1, 1, keys) * 30, np.zeros(keys)], axis=1), np.zeros(keys))
    best = 2.0 / (2 * keys)
    assert 0.9 * best <= levelled(network, zigzag).lower <= best
    cells = af.constructions.max_affine("x", af.Box(-1.0, 1.0), cells=keys, sharpness="hard")
    assert cells.certificate.bound == pytest.approx(best, rel=0.01)


def test_binomial_scores_make_bernstein_polynomials():
    count, tau, x = 7, 2.5, np.linspace(-1, 1, 101)
    k = np.arange(count)
    network = head_of(np.stack([tau * k, np.log(comb(count - 1, k))], axis=1), k**2 / 10.0)
    u = expit(tau * x)[:, None]
    wanted = (comb(count - 1, k) * u**k * (1 - u) ** (count - 1 - k)) @ (k**2 / 10.0)
    assert np.abs(network(x[:, None, None]).ravel() - wanted).max() < 1e-12


def test_polynomials_of_a_sigmoid_beat_polynomials_near_poles():
    """1/(1 + 25 x^2), 60 keys; and as fast as the ellipse through the pole or the logarithm's end says."""

    def f(x):
        return 1 / (1 + 25 * x * x)

    def interpolated(g, count):
        """The error of the interpolant of degree count - 1 at Chebyshev nodes of [-1, 1]."""
        nodes, fine = np.cos(np.pi * (np.arange(count) + 0.5) / count), np.linspace(-1, 1, 20_001)
        fit = np.polynomial.chebyshev.chebfit(nodes, g(nodes), count - 1)
        return np.abs(np.polynomial.chebyshev.chebval(fine, fit) - g(fine)).max()

    tau, half = 3.9, np.tanh(3.9 / 2) / 2
    assert interpolated(f, 60) == pytest.approx(1.3e-5, rel=0.05)
    assert interpolated(lambda t: f(logit(0.5 + half * t) / tau), 60) == pytest.approx(3.0e-11, rel=0.05)
    pole = np.tan(tau / 10) / (2 * half)
    ellipse = min(pole + np.sqrt(1 + pole**2), 1 / np.tanh(tau / 4))
    counts = np.arange(20, 60, 4)
    errors = [interpolated(lambda t: f(logit(0.5 + half * t) / tau), count) for count in counts]
    rate = np.polyfit(counts, np.log(errors), 1)
    assert -rate[0] >= np.log(ellipse)


def test_few_keys_in_layers_make_many_pieces():
    def sawtooth(x):
        for _ in range(8):
            x = 2 * x - 4 * np.clip(x - 0.5, 0, 0.5)
        return x

    net = af.compile(af.formula(sawtooth), {"x": (0, 1)}, tol=1e-9)
    assert (net.layers, net.anchors) == (8, 24)
    assert net.certificate.status == "proved"
    at = np.arange(2**8 + 1) / 2**8
    assert np.abs(net(at) - np.arange(2**8 + 1) % 2).max() <= 1e-9
