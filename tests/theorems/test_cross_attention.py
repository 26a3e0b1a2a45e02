"""Cross-attention: keys and values from X, queries from Y; the paper's scores, orders, shapes and doors."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import attnforge as af
from attnforge.constructions import cross_attention, max_affine
from tests.refusals import refused

ONE = af.Box(0, 1, shape=(1,))
TWO = af.Box(0, 1, shape=(2, 1))


def wave(x, y):
    """|df/dx| + |df/dy| <= 9."""
    return np.sin(4 * x[..., 0]) * np.cos(3 * y[..., 0]) + x[..., 0] * y[..., 0]


def mixing(x, y):
    """Tokens of Y, each seen through X in its own way: (N, 2, 1)."""
    first = np.sin(2 * x[..., 0, :]) * y[..., 0, :]
    return np.stack([first, y[..., 1, :] - 0.5 * x[..., 1, :] * y[..., 0, :]], axis=-2)


def step_and_line(x, y):
    return (x[..., 0] > 0.3) + y[..., 0]


def net(f=wave, keys=ONE, query=ONE, *, grid=8, lipschitz=9, effort="low", **options):
    return cross_attention(f, keys, query, grid=grid, lipschitz=lipschitz, effort=effort, **options)


@pytest.mark.parametrize(("sharpness", "least", "most"), [("hard", 0.9, 1.15), ("tuned", 1.85, 2.5)])
def test_hard_is_of_order_one_and_tuned_of_order_two(sharpness, least, most):
    errors = [af.measure(net(grid=grid, sharpness=sharpness), points=4000).sup for grid in (8, 16, 32)]
    assert least < -np.polyfit(np.log([8, 16, 32]), np.log(errors), 1)[0] < most


def test_the_network_is_the_papers():
    """K_j = (2<v^X, X> - |v|^2 ; 2 v^Y), Q = c (1 ; Y) in places: scores fall with the squared distance to a centre."""
    found = net(grid=5, sharpness="hard")
    assert (found.layers, found.heads, found.anchors) == (1, 1, 25)
    assert found.network.heads[0].memory_size == 0
    ((weights,),) = found.attention(np.array([0.33]), np.array([0.71]))
    claims = found.network.heads[0].claims
    scores = -claims.sharpness * ((claims.positions - [0.33, 0.71]) ** 2).sum(axis=1) * 25
    wanted = np.exp(scores - scores.max())
    np.testing.assert_allclose(weights.ravel(), wanted / wanted.sum(), rtol=1e-9, atol=1e-300)


def test_it_equals_max_affine_on_the_joint_point():
    """The scores are max_affine's, split between keys and queries."""
    joint = max_affine(lambda z: wave(z[..., :1], z[..., 1:]), af.Box(0, 1, shape=(2,)), cells=(7, 5), lipschitz=9)
    points = np.random.default_rng(1).random((200, 2))
    np.testing.assert_allclose(net(grid=(7, 5))(points[:, :1], points[:, 1:]), joint(points), rtol=1e-11, atol=1e-13)


def test_leading_axes_broadcast_and_numbers_are_taken():
    found = net()
    assert found(np.linspace(0, 1, 4)[:, None], np.linspace(0, 1, 3)[:, None, None]).shape == (3, 4)
    assert float(found(0.5, 0.25)) == pytest.approx(float(found(np.array([[0.5]]), np.array([[0.25]]))[0]), rel=1e-12)
    assert found(0.5, np.linspace(0, 1, 6)).shape == (6,)
    assert np.isscalar(found(0.5, 0.25))
    assert found(X=0.5, Y=0.25) == found(0.5, 0.25)
    assert found(np.zeros((0, 1)), np.zeros((0, 1))).shape == (0,)
    tensor = found(torch.rand(5, 1), torch.rand(5, 1))
    assert (tensor.dtype, tensor.shape) == (torch.float32, (5,))


def test_sequences_of_both_kinds():
    found, rng = net(mixing, TWO, TWO, grid=3, lipschitz=3, sharpness="hard"), np.random.default_rng(3)
    x, y = rng.random((40, 2, 1)), rng.random((40, 2, 1))
    out = found(x, y)
    assert out.shape == found(x[0], y).shape == found.module()(torch.tensor(x), torch.tensor(y)).shape == (40, 2, 1)
    assert np.abs(out[:, 0] - out[:, 1]).max() > 0.3
    assert np.abs(out - mixing(x, y)).max() <= found.certificate.estimate.error <= found.certificate.bound


@pytest.mark.parametrize("keys", [None, ONE])
def test_a_target_of_the_query_alone_has_constant_keys(keys):
    found = net(lambda y: np.sin(3 * y[..., 0]), keys, ONE, grid=32, lipschitz=3)
    assert (found.network.context, found.construction) == (None, "max_affine")
    assert found.network.heads[0].memory_size == found.anchors > 0
    assert float(found(0.5)) == pytest.approx(np.sin(1.5), abs=0.003)


@pytest.mark.parametrize("exponent", [1, 2])
def test_averages_over_cells_report_their_mean_error(exponent):
    """A target with a jump: the reported L_p norm agrees with a sum over a fine grid, and falls with the cells."""
    s, errors = (np.arange(200) + 0.5) / 200, []
    for grid in (4, 8):
        found = net(step_and_line, grid=grid, norm=exponent, lipschitz=None)
        assert (found.certificate.status, found.certificate.norm) == ("sampled", f"L{exponent}")
        gap = np.abs(found(s[:, None, None], s[None, :, None]) - step_and_line(s[:, None, None], s[None, :, None]))
        errors.append(found.certificate.estimate.error)
        assert errors[-1] == pytest.approx(np.mean(gap**exponent) ** (1 / exponent), rel=0.02)
    assert errors[1] < 0.9 * errors[0]


WRONG_CALLS = {
    "one input": lambda f: f(0.5),
    "three inputs": lambda f: f(0.5, 0.5, 0.5),
    "a wrong name": lambda f: f(X=0.5, Z=0.5),
    "X of a wrong shape": lambda f: f(np.zeros((5, 2)), 0.5),
    "Y of a wrong shape": lambda f: f(0.5, np.zeros((5, 2))),
    "NaN in X": lambda f: f(np.nan, 0.5),
    "infinity in Y": lambda f: f(0.5, torch.tensor(torch.inf)),
    "X outside": lambda f: f(1.5, 0.5),
    "Y outside": lambda f: f(0.5, [0.1, -0.1]),
    "unequal batches": lambda f: f(np.zeros((3, 1)), np.zeros((4, 1))),
    "attention of one input": lambda f: f.attention(0.5),
    "attention outside": lambda f: f.attention(0.5, 2.0),
}


def test_wrong_calls_are_refused():
    found = net(grid=3)
    for call in WRONG_CALLS.values():
        with refused(af.DomainError):
            call(found)
