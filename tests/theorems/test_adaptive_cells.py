"""Heads over user-given and adaptive cells: power diagrams, errors, fewer cells than a grid."""

from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import attnforge as af
from attnforge.anchors import Adaptive
from attnforge.compiler.partition import partition
from attnforge.targets import Function
from attnforge.theorems.free_cells import FreeCells, FreeCellsPlan

max_affine = partial(af.constructions.max_affine, effort="low")  # tests look for the worst point themselves
LINE, SQUARE = af.Box(0, 1, shape=(1,)), af.Box(0, 1, shape=(2,))


def wave(x):
    return np.sin(20 * x[..., 0]) * np.exp(-40 * (x[..., 0] - 0.3) ** 2)


def peak(x):
    return np.exp(-60 * ((x[..., 0] - 0.3) ** 2 + (x[..., 1] - 0.6) ** 2))


def dense(box, count=40_000):
    """A grid on a line, random points and points around the peak on a square."""
    if box.shape == (1,):
        return np.linspace(0, 1, count)[:, None]
    rng = np.random.default_rng(1)
    near = np.array([0.3, 0.6]) + 0.2 * rng.normal(size=(count // 2, 2))
    return np.clip(np.concatenate([rng.random((count // 2, 2)), near]), 0, 1)


def sup(net, f, box):
    x = dense(box)
    return float(np.abs(net.network(x[:, None])[:, 0, 0] - f(x)).max())


@pytest.mark.parametrize("uniform", [32, 100, 400])
def test_a_quarter_of_the_cells_suffices_on_a_line(uniform):
    grid = max_affine(wave, LINE, cells=uniform, sharpness="hard")
    free = max_affine(wave, LINE, cells=Adaptive(uniform // 4))
    assert free.anchors * 4 <= grid.anchors
    assert sup(free, wave, LINE) <= sup(grid, wave, LINE)


@pytest.mark.parametrize("uniform", [16, 24, 32])
def test_a_quarter_of_the_cells_suffices_on_a_square(uniform):
    grid = max_affine(peak, SQUARE, cells=uniform, sharpness="hard")
    free = max_affine(peak, SQUARE, cells=Adaptive(uniform**2 // 4))
    assert free.anchors * 4 <= grid.anchors
    assert sup(free, peak, SQUARE) <= sup(grid, peak, SQUARE)


def test_neighbours_on_a_line_cross_at_the_breakpoints():
    net = max_affine(wave, LINE, cells=Adaptive(20))
    x = np.linspace(0, 1, 200_001)
    cell = partition(net, x)
    assert set(np.diff(cell)) <= {0, 1}  # in order, none left out
    assert (cell[0], cell[-1]) == (0, 19)
    edges = np.concatenate([[0.0], x[1:][np.diff(cell) > 0], [1.0]])
    positions = net.network.heads[0].claims.positions[:, 0]
    np.testing.assert_allclose((edges[1:] + edges[:-1]) / 2, positions, atol=1e-5)


def test_the_middle_of_every_cell_is_hard_on_a_line():
    net = max_affine(wave, LINE, cells=Adaptive(20))
    ((weights,),) = net.attention(net.network.heads[0].claims.positions)
    assert weights[:, 0].max(axis=-1).min() > 1 - 1e-14


@given(seed=st.integers(0, 10**6), count=st.integers(1, 40), axes=st.integers(1, 3))
def test_given_centres_make_voronoi_cells(seed, count, axes):
    rng = np.random.default_rng(seed)
    lower, upper = np.full(axes, 5.0), 5.0 + 10.0 ** rng.uniform(-2, 2, axes)
    centres = rng.uniform(lower, upper, (count, axes))
    net = max_affine(lambda x: x.sum(axis=-1), af.Box(lower, upper), cells=centres)
    x = rng.uniform(lower, upper, (200, axes))
    distance = np.linalg.norm(x[:, None] - centres, axis=-1)
    two = np.sort(distance, axis=1)[:, :2]
    clear = np.ones(200, dtype=bool) if count == 1 else two[:, 1] - two[:, 0] > 1e-9 * two[:, 1]
    assert np.array_equal(partition(net, x)[clear], distance.argmin(axis=1)[clear])
    np.testing.assert_allclose(net(centres), centres.sum(axis=1), rtol=1e-12)


def test_adaptive_cells_are_voronoi_in_sides_of_the_box():
    box = af.Box([0.0, 0.0], [1.0, 100.0])
    net = max_affine(lambda x: np.sin(6 * x[..., 0]) + x[..., 1] / 40, box, cells=Adaptive(30))
    centres = net.network.heads[0].claims.positions
    x = np.random.default_rng(0).uniform([0, 0], [1, 100], (500, 2))
    scaled = np.linalg.norm((x[:, None] - centres) / [1, 100], axis=-1)
    assert np.array_equal(partition(net, x), scaled.argmin(axis=1))


def test_sequence_maps_have_their_own_value_a_token():
    box = af.Box(0, 1, shape=(2, 1))
    net = max_affine(lambda x: np.sort(x, axis=-2), box, cells=Adaptive(200), lipschitz=1)
    assert net.certificate.bound < 0.08
    assert net([[0.9], [0.1]])[0, 0] < 0.2 < 0.8 < net([[0.9], [0.1]])[1, 0]


def test_given_centres_of_sequence_maps_may_keep_their_shape():
    centres = np.random.default_rng(0).random((9, 2, 1))
    net = max_affine(lambda x: np.sort(x, axis=-2), af.Box(0, 1, shape=(2, 1)), cells=centres)
    np.testing.assert_allclose(net(centres), np.sort(centres, axis=-2))


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_lower_precision_keeps_the_bound(dtype):
    net = max_affine(wave, LINE, cells=Adaptive(30), lipschitz=20, dtype=dtype)
    assert sup(net, wave, LINE) <= net.certificate.bound < 0.1


def test_formulas_are_proved():
    net = max_affine("sin(20*x)*exp(-40*(x-0.3)^2)", {"x": (0, 1)}, cells=Adaptive(45))
    assert net.certificate.status == "proved"
    assert sup(net, wave, LINE) <= net.certificate.bound <= 1.04 * sup(net, wave, LINE)


def test_one_cell_a_degenerate_box_and_determinism():
    assert max_affine(wave, LINE, cells=Adaptive(1)).anchors == 1
    point = max_affine(lambda x: x[..., 0], af.Box([2.0], [2.0]), cells=Adaptive(3))
    assert point([2.0]) == 2.0
    first, second = (max_affine(peak, SQUARE, cells=Adaptive(25)) for _ in range(2))
    assert first.certificate.digest == second.certificate.digest


CENTRES = [[0.1, 0.2], [0.8, 0.4]]
REFUSED = {
    "outside": ({"cells": [*CENTRES, [0.5, 1.5]]}, r"Centres lie in the domain.*Got \[0\.5, 1\.5\] as centre 2\. Move"),
    "NaN": ({"cells": [*CENTRES, [0.5, np.nan]]}, r"Centres lie in the domain.*as centre 2"),
    "twice": ({"cells": [*CENTRES, CENTRES[0]]}, r"Centres differ from one another\. Got 1 of 3 twice\. Drop"),
    "other width": ({"cells": [[0.1, 0.2, 0.3]]}, r"shape \(N, 2\)\. Got shape \(1, 3\)\. One row a centre"),
    "none": ({"cells": np.empty((0, 2))}, r"shape \(N, 2\)\. Got shape \(0, 2\)"),
    "ragged": ({"cells": [[0.1, 0.2], [0.3]]}, r"shape \(N, D\)\. Got .*Give every centre as many"),
    "text": ({"cells": [["a", "b"]]}, r"`cells` must be numbers"),
    "tuned": ({"cells": CENTRES, "sharpness": "tuned"}, r"of free cells must be 'hard'\. Got 'tuned'\. Leave it out"),
    "too many": ({"cells": Adaptive(10**9)}, r"`max_affine` may use at most .* bytes.*fewer anchors"),
    "many": ({"cells": Adaptive(10**6)}, r"At most 32,768 centres"),
}


@pytest.mark.parametrize(("options", "message"), REFUSED.values(), ids=REFUSED)
def test_what_makes_no_cells_is_refused(options, message):
    with pytest.raises(af.RefusalError, match=message):
        max_affine(peak, SQUARE, **options)


def test_the_theorem_alone_promises_little_and_costs_are_known():
    target, plan = Function(peak, SQUARE, lipschitz=af.Lipschitz(9.4)), FreeCellsPlan(Adaptive(50))
    assert FreeCells().bound(target, plan)["spacing"] == pytest.approx(9.4)
    network = FreeCells().build(target, plan)
    assert FreeCells().cost(target, plan).anchors == 50 == network.heads[0].memory_size
