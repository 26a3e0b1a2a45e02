"""A head over the cells of a grid: rates, bounds, token maps, and what happens when weights are changed."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import attnforge as af
from attnforge.network import Attention
from attnforge.runtime import audit

BUILD = partial(af.constructions.max_affine, effort="low")  # tests look for the worst point themselves
SQUARE = af.Box(0, 1, shape=(2,))


def wave(x: np.ndarray) -> np.ndarray:
    return np.sin(3 * x[..., 0]) * x[..., 1] + np.cos(2 * x[..., 1])


SLOPE = 3 + 1 + 2  # sum of the partial derivatives' bounds


def errors(sharpness: str | float, grids: tuple[int, ...] = (8, 16, 32)) -> list[float]:
    found = []
    for cells in grids:
        net = BUILD(wave, SQUARE, cells=cells, sharpness=sharpness, lipschitz=SLOPE)
        assert net.certificate.status == "conditional"
        found.append(af.measure(net, points=20_000).sup)
        assert found[-1] <= net.certificate.bound
        rho, c = np.sqrt(2) / (2 * cells), net.network.heads[0].claims.sharpness
        paper = SLOPE * 2 * rho + 2 * 2 * net.anchors * np.exp(-3 * c / 2)
        assert found[-1] <= paper
    return found


def rate(found: list[float]) -> float:
    return float(np.polyfit(np.log([8, 16, 32][: len(found)]), np.log(found), 1)[0])


def test_hard_cells_are_of_order_one():
    assert rate(errors("hard")) == pytest.approx(-1.0, abs=0.05)


def test_tuned_cells_are_of_order_two():
    assert rate(errors("tuned")) <= -1.9


def test_a_number_is_the_sharpness_of_the_scores():
    """With c = beta h^2 = 1 the errors are those of theory's c = 1: of order 2, about 3.5e-2 at 8 cells."""
    found = errors(1.0 * 8**2, (8,)) + errors(1.0 * 16**2, (16,))
    assert found[0] == pytest.approx(0.035, rel=0.1)
    assert found[1] == pytest.approx(found[0] / 4, rel=0.1)


def test_clipped_ghosts_would_lose_the_order():
    """Without reflection the tuned head is of order one at the edges: the ghosts matter."""
    net = BUILD(wave, SQUARE, cells=16, lipschitz=SLOPE)
    head = net.network.heads[0]
    ghosts = np.array(head.claims.roles) == "ghost"
    inside = np.clip(head.claims.positions, 0.0, 1.0)
    clipped = np.where(ghosts[:, None], wave(inside)[:, None], head.memory_values)
    network = replace(net.network, layers=(net.network.layers[0], Attention((replace(head, memory_values=clipped),))))
    x = np.random.default_rng(0).uniform(0, 1, (5000, 1, 2))
    worse = np.abs(network(x)[:, 0, 0] - wave(x[:, 0])).max()
    assert worse > 3 * af.measure(net, points=5000).sup


def sort_tokens(x: np.ndarray) -> np.ndarray:
    return np.sort(x, axis=-2)


def mix_tokens(x: np.ndarray) -> np.ndarray:
    weights = np.exp(x) / np.exp(x).sum(axis=-2, keepdims=True)
    return weights * x[..., :1]


@pytest.mark.parametrize(("f", "slope", "d"), [(sort_tokens, 1.0, 1), (sort_tokens, 1.0, 2), (mix_tokens, 2.0, 2)])
def test_token_maps_differ_from_token_to_token(f, slope, d):
    box = af.Box(0, 1, shape=(2, d))
    coarse, fine = (BUILD(f, box, cells=n, sharpness="hard", lipschitz=slope) for n in (3, 6))
    seen = [af.measure(net, points=8000).sup for net in (coarse, fine)]
    assert seen[0] <= coarse.certificate.bound
    assert seen[1] <= fine.certificate.bound
    assert seen[1] == pytest.approx(seen[0] / 2, rel=0.15)
    out = fine(np.array([[0.9] * d, [0.1] * d]))
    assert out.shape == (2, d)
    assert np.abs(out[0] - out[1]).min() > 0.1
    assert fine.heads == fine.layers == 1
    audit(fine.module(), torch.zeros(1, 2, d))


@given(st.data())
def test_measured_stays_below_certified(data):
    d = data.draw(st.integers(1, 2))
    w = np.array(data.draw(st.lists(st.floats(-5, 5), min_size=d, max_size=d)))
    lower = np.array(data.draw(st.lists(st.floats(-10, 10), min_size=d, max_size=d)))
    upper = lower + np.array(data.draw(st.lists(st.floats(0.1, 10), min_size=d, max_size=d)))
    cells = data.draw(st.lists(st.integers(1, 9), min_size=d, max_size=d))
    sharpness = data.draw(st.sampled_from(["hard", "tuned", 0.5, 2.0, 10.0]))
    if not isinstance(sharpness, str):
        sharpness = sharpness / float(((upper - lower) / np.array(cells)).min()) ** 2  # beta, from c = beta h^2
    dtype = data.draw(st.sampled_from(["float64", "float32"]))

    def ridge(x: np.ndarray) -> np.ndarray:
        return np.abs(np.sin(x @ w))

    box = af.Box(lower, upper)
    net = BUILD(ridge, box, cells=cells, sharpness=sharpness, lipschitz=float(np.abs(w).sum()), dtype=dtype)
    assert af.measure(net, points=500).sup <= net.certificate.bound


def test_several_outputs_and_unknown_smoothness():
    net = BUILD(
        lambda x: np.stack([x[..., 0], x[..., 0] ** 2, np.ones_like(x[..., 0])], axis=-1),
        af.Box(0, 1, shape=(1,)),
        cells=20,
    )
    assert net(np.zeros((4, 1))).shape == (4, 3)
    assert net.certificate.status == "sampled"
    assert net.certificate.bound is None
    assert 0 < net.certificate.estimate.error < 0.05
    assert np.allclose(net(np.array([[0.3]]))[0], [0.3, 0.09, 1.0], atol=0.01)


@pytest.mark.parametrize("field", ["memory_keys", "memory_values"])
@pytest.mark.parametrize("row", [0, 17, 40])
def test_a_changed_cell_is_seen(field, row):
    net = BUILD(wave, SQUARE, cells=8, sharpness="hard", lipschitz=SLOPE)
    head = net.network.heads[0]
    changed = getattr(head, field).copy()
    changed[row] += 0.5
    layers = (net.network.layers[0], Attention((replace(head, **{field: changed}),)))
    moved = replace(net.network, layers=layers)
    try:
        found = af.certify(moved, net.target).bound
    except af.AttnforgeError:
        return
    x = np.random.default_rng(0).uniform(0, 1, (20_000, 2))
    error = np.abs(moved(x[:, None])[:, 0, 0] - wave(x)).max()
    assert found >= error
    assert field == "memory_keys" or error > net.certificate.bound  # a lost cell is made up for by its neighbours


def test_formulas_are_proved():
    net = af.compile("sin(3*x)*y", {"x": (0, 1), "y": (0, 1)}, tol=0.05, construction="max_affine")
    assert net.certificate.status == "proved"
    assert af.measure(net, points=5000).sup <= net.certificate.bound <= 0.05


def test_absurd_grids_are_refused_at_once():
    with pytest.raises(af.RefusalError, match="bytes and"):
        BUILD(wave, SQUARE, cells=10**6, lipschitz=SLOPE)
    with pytest.raises(af.RefusalError, match=r"at most 10,000,000 cells.*tol=.* would fit"):
        af.compile(
            lambda x: x.sum(axis=-1), af.Box(0, 1, shape=(6,)), tol=1e-2, lipschitz=6.0, construction="max_affine"
        )


@pytest.mark.parametrize("cells", [0, (3,), (3, -1), 2.5])
def test_senseless_cells_are_refused(cells):
    with pytest.raises(af.RefusalError, match="`cells` must be"):
        BUILD(wave, SQUARE, cells=cells)
