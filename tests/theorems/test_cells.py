"""Heads over cells: grids, free and adaptive cells, averages of what is only integrable, the papers' padded layout."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import attnforge as af
from attnforge.anchors import Adaptive
from attnforge.network import Linear, Term, moved
from tests.refusals import refused

max_affine = partial(af.constructions.max_affine, effort="low")  # tests look for the worst point themselves
LINE, SQUARE = af.Box(0, 1, shape=(1,)), af.Box(0, 1, shape=(2,))
SLOPE = 3 + 1 + 2  # sum of the bounds of the partial derivatives of wave


def wave(x):
    return np.sin(3 * x[..., 0]) * x[..., 1] + np.cos(2 * x[..., 1])


def ripple(x):
    return np.sin(20 * x[..., 0]) * np.exp(-40 * (x[..., 0] - 0.3) ** 2)


def peak(x):
    return np.exp(-60 * ((x[..., 0] - 0.3) ** 2 + (x[..., 1] - 0.6) ** 2))


def sort_tokens(x):
    return np.sort(x, axis=-2)


def dense(box):
    """A grid on a line, random points and points around the peak on a square."""
    if box.shape == (1,):
        return np.linspace(0, 1, 40_000)[:, None]
    rng = np.random.default_rng(1)
    near = np.array([0.3, 0.6]) + 0.2 * rng.normal(size=(20_000, 2))
    return np.clip(np.concatenate([rng.random((20_000, 2)), near]), 0, 1)


def sup(net, f, box):
    x = dense(box)
    return float(np.abs(net.network(x[:, None])[:, 0, 0] - f(x)).max())


def wave_errors(sharpness, grids):
    found = []
    for cells in grids:
        net = max_affine(wave, SQUARE, cells=cells, sharpness=sharpness, lipschitz=SLOPE)
        found.append(af.measure(net, points=20_000).sup)
        rho, c = np.sqrt(2) / (2 * cells), net.network.heads[0].claims.sharpness
        assert found[-1] <= SLOPE * 2 * rho + 2 * 2 * net.anchors * np.exp(-3 * c / 2)  # the paper's bound
        assert found[-1] <= net.certificate.bound
    return found


@pytest.mark.parametrize(("sharpness", "least", "most"), [("hard", 0.95, 1.05), ("tuned", 1.9, 2.5)])
def test_hard_cells_are_of_order_one_and_tuned_ones_of_order_two(sharpness, least, most):
    order = -np.polyfit(np.log([8, 16, 32]), np.log(wave_errors(sharpness, (8, 16, 32))), 1)[0]
    assert least <= order <= most


# Free cells


@pytest.mark.parametrize(("f", "box", "uniform"), [(ripple, LINE, 32), (ripple, LINE, 100), (peak, SQUARE, 16)])
def test_a_quarter_of_the_cells_suffices_where_they_adapt(f, box, uniform):
    grid = max_affine(f, box, cells=uniform, sharpness="hard")
    free = max_affine(f, box, cells=Adaptive(grid.anchors // 4))
    assert free.anchors * 4 <= grid.anchors
    assert sup(free, f, box) <= sup(grid, f, box)


def test_neighbours_on_a_line_cross_at_the_breakpoints():
    net, x = max_affine(ripple, LINE, cells=Adaptive(20)), np.linspace(0, 1, 200_001)
    cell = net.partition(x)
    assert set(np.diff(cell)) <= {0, 1}  # in order, none left out
    assert (cell[0], cell[-1]) == (0, 19)
    edges = np.concatenate([[0.0], x[1:][np.diff(cell) > 0], [1.0]])
    positions = net.network.heads[0].claims.positions
    np.testing.assert_allclose((edges[1:] + edges[:-1]) / 2, positions[:, 0], atol=1e-5)
    ((weights,),) = net.attention(positions)
    assert weights[:, 0].max(axis=-1).min() > 1 - 1e-14  # the middle of every cell is hard


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
    assert np.array_equal(net.partition(x)[clear], distance.argmin(axis=1)[clear])
    np.testing.assert_allclose(net(centres), centres.sum(axis=1), rtol=1e-12)


# Averages over cells


JUMP, POLE = 0.3, 0.5


def rough(x):
    with np.errstate(divide="ignore"):
        return (x[..., 0] > JUMP) * 1.0 + np.abs(x[..., 0] - POLE) ** -0.5


def averages(cells):
    """Averages of rough over equal cells, by its antiderivative."""
    edges = np.arange(cells + 1) / cells
    whole = np.maximum(edges - JUMP, 0) + 2 * np.sign(edges - POLE) * np.sqrt(np.abs(edges - POLE))
    return np.diff(whole) * cells


def test_values_are_averages_and_an_unbounded_function_is_truncated_by_its_tail():
    """For x^(-1/2) the tail above T has L1 norm 1/T, and the averages on one cell err by 1: T is a thousand."""
    values = max_affine(rough, LINE, cells=32, norm=1).network.heads[0].memory_values[:, 0]
    np.testing.assert_allclose(values, averages(32), rtol=2e-3)
    net = max_affine(lambda x: x[..., 0] ** -0.5, LINE, cells=1, norm=1)
    assert net.network.heads[0].memory_values[0, 0] == pytest.approx(2 - 1e-3, rel=1e-5)


def test_the_mean_error_falls_as_the_square_root_at_a_pole_and_in_order_one_at_a_jump():
    """The pole's two cells err by sqrt(h) each in L1; a jump at t errs by 2 t (1 - t) h."""

    def errors(f):
        nets = (max_affine(f, LINE, cells=cells, norm=1) for cells in (8, 32, 128))
        return np.array([net.certificate.estimate.error for net in nets])

    pole, jump = errors(rough), errors(lambda x: (x[..., 0] > 1 / 3) * 1.0)
    np.testing.assert_allclose(pole[1:] / pole[:-1], 0.5, atol=0.03)
    assert (jump[1:] / jump[:-1] < 0.3).all()
    assert jump[0] == pytest.approx(2 * (1 / 3) * (2 / 3) / 8, rel=0.1)


# The papers' layout: self-attention over a padded sequence


@pytest.mark.parametrize("sharpness", ["hard", "tuned"])
@pytest.mark.parametrize(("f", "box"), [(wave, SQUARE), (sort_tokens, af.Box(0, 1, shape=(2, 1)))])
def test_layouts_agree(f, box, sharpness):
    how = {"cells": 5, "lipschitz": SLOPE, "sharpness": sharpness}
    memory, literal = (max_affine(f, box, layout=layout, **how) for layout in ("memory", "literal"))
    x = np.random.default_rng(0).uniform(0, 1, (50, *box.shape))
    assert np.abs(memory(x) - literal(x)).max() <= 1e-12
    assert literal.certificate.bound == pytest.approx(memory.certificate.bound, rel=1e-6)
    assert literal.network.heads[0].memory_size == 0
    assert literal.parameters > 2 * memory.parameters


def test_a_changed_token_of_a_padded_sequence_is_charged_and_another_order_of_tokens_refused():
    net = max_affine(wave, SQUARE, cells=5, lipschitz=SLOPE, sharpness="hard", layout="literal")

    def carried(constant):
        constant[7, -1] += 0.5  # the value that token 7 carries
        return constant

    changed = moved(net.network, "layer0.constant", carried)
    assert af.certify(changed, net.target).bound > net.certificate.bound + 0.4
    other = Linear((Term(None, np.roll(np.eye(1, 25), 1, axis=1)),))
    with refused(af.CertificateError):
        af.certify(type(changed)((*changed.layers[:2], other), changed.features, changed.tokens), net.target)


CENTRES = [[0.1, 0.2], [0.8, 0.4]]
REFUSED = (
    {"cells": [*CENTRES, [0.5, 1.5]]}, {"cells": [*CENTRES, [0.5, np.nan]]}, {"cells": [*CENTRES, CENTRES[0]]},
    {"cells": [[0.1, 0.2, 0.3]]}, {"cells": np.empty((0, 2))}, {"cells": [["a", "b"]]}, {"cells": Adaptive(10**9)},
    {"cells": CENTRES, "sharpness": "tuned"}, {"cells": 0}, {"cells": (3,)}, {"cells": (3, -1)}, {"cells": 2.5},
    {"cells": 10**6}, *({"cells": 4, "norm": norm} for norm in (0.5, 0, np.inf, np.nan, "L1", None)),
    {"cells": Adaptive(4), "norm": 1}, {"cells": 4, "norm": 1, "sharpness": "tuned"}, {"cells": 10**9, "norm": 1},
    {"cells": 10**3, "norm": 1},
)  # fmt: skip


@pytest.mark.parametrize("options", REFUSED, ids=lambda options: ", ".join(options))
def test_what_makes_no_cells_is_refused(options):
    with refused(af.RefusalError):
        max_affine(peak, SQUARE, **options)


def test_what_is_not_integrable_is_refused():
    with refused(af.TargetError):
        max_affine(rough, LINE, cells=8, norm=2)
