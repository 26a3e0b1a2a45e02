"""Soft heads against formulas, by enclosure: never below the error of a dense grid, close to it, and able to fail."""

from dataclasses import replace

import numpy as np
import pytest

from attnforge.balls import machine
from attnforge.certification.affine_scores import Scores, read_scores
from attnforge.certification.cells import looks_at
from attnforge.certification.certify import certify
from attnforge.certification.lipschitz_cells import bound_lipschitz_cells
from attnforge.certification.product_grid import Cells, recognised
from attnforge.certification.soft_cells import is_soft, separated
from attnforge.network import Attention, Network, rounded
from attnforge.targets import Box, Formula
from attnforge.theorems.max_affine import CellsPlan, MaxAffine, cells_sharpness

SQUARE = Box([0.0, 0.0], [1.0, 1.0])
TEXTS = ("sin(3*x)*cos(2*y)", "abs(x-y)+x")


def built(text: str, cells=(6, 6), sharpness="tuned", dtype="float64", box=SQUARE) -> tuple[Network, Formula]:
    target = Formula(text, box, ("x", "y", "z", "w")[: len(cells)])
    c, ghosts = cells_sharpness(sharpness, cells, box, dtype)
    return MaxAffine().build(target, CellsPlan(cells, c, ghosts, dtype)), target


def edited(network: Network, **changes) -> Network:
    return replace(network, layers=(network.layers[0], Attention((replace(network.heads[0], **changes),))))


def read(network: Network, target: Formula, dtype: str = "float64") -> tuple[Scores, Cells]:
    scores = read_scores(network, target.domain, machine(dtype))[0]
    return scores, recognised(scores.slope.mid, scores.constant.mid, target.domain.lower, target.domain.upper)


def dense(network: Network, target: Formula, count: int = 121) -> float:
    """The error on a grid of points with the edges of the box."""
    axes = [np.linspace(a, b, count) for a, b in zip(target.domain.lower, target.domain.upper, strict=True)]
    points = np.stack([axis.ravel() for axis in np.meshgrid(*axes)], axis=1)
    return float(np.abs(network(points[:, None])[:, 0, 0] - target.values(points)).max())


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_the_bound_is_above_a_dense_grid_and_close_to_it(text, dtype):
    network, target = built(text, dtype=dtype)
    found = certify(network, target, dtype=dtype)
    error = dense(rounded(network, dtype), target)
    assert error <= found.bound <= 1.25 * error
    assert set(found.parts) == {"fit", "rounding"}
    assert found.status == "proved"
    assert any("exp, sinh and cosh" in said for said in found.assumptions)
    scores, cells = read(rounded(network, dtype), target, dtype)
    assert is_soft(cells)
    theorem = bound_lipschitz_cells([scores], [cells], target, machine(dtype))
    assert sum(theorem.values()) > 10 * found.bound


def test_one_input_and_another_box():
    network, target = built("exp(x)", cells=(12,), box=Box([-3.0], [1.0]))
    found = certify(network, target)
    assert dense(network, target, 4001) <= found.bound <= 1.25 * dense(network, target, 4001)


def test_a_formula_without_a_lipschitz_constant_is_proved():
    network, target = built("sqrt(x)", cells=(8,), box=Box([0.0], [1.0]))
    assert target.lipschitz() is None
    found = certify(network, target)
    assert found.status == "proved"
    assert dense(network, target, 4001) <= found.bound <= 1.25 * dense(network, target, 4001)


def test_a_changed_value_is_charged_for_what_it_does():
    """Without a Lipschitz constant no theorem stands beside: the enclosure alone sees it."""
    network, target = built("sqrt(x)", cells=(8,), box=Box([0.0], [1.0]))
    values = network.heads[0].memory_values.copy()
    values[len(values) // 2] += 1.0
    mutant = edited(network, memory_values=values)
    bound = certify(mutant, target).bound
    assert bound > certify(network, target).bound + 0.2
    assert dense(mutant, target, 4001) <= bound <= 1.25 * dense(mutant, target, 4001)


@pytest.mark.parametrize("text", TEXTS[:1])
def test_swapped_keys_and_moved_centres_have_bounds_of_their_own(text):
    """Swapping a ghost and a cell far from the edge happens to lower the error: the bound follows."""
    network, target = built(text)
    keys = network.heads[0].memory_keys
    middle = len(keys) // 2
    swapped, moved = keys.copy(), keys.copy()
    swapped[[middle, middle + 3]] = swapped[[middle + 3, middle]]
    moved[middle, 0] += 0.5
    for array in (swapped, moved):
        mutant = edited(network, memory_keys=array)
        assert dense(mutant, target) <= certify(mutant, target).bound <= 1.25 * dense(mutant, target)


def test_a_smaller_sharpness_is_read_from_the_numbers():
    network, target = built(TEXTS[0])
    soft = edited(network, query=network.heads[0].query / 2)
    error = dense(soft, target)
    assert error > 1.5 * dense(network, target)
    assert error <= certify(soft, target).bound <= 1.25 * error


def test_separated_heads_score_the_same():
    network, target = built(TEXTS[0])
    scores, cells = read(network, target)
    apart, off = separated(scores, cells)
    points = np.random.default_rng(0).random((50, 2))
    theirs = apart.layers[0].constant + points @ apart.layers[0].terms[0].map
    theirs = theirs @ apart.heads[0].query @ apart.heads[0].memory_keys.T
    assert np.abs(points @ scores.slope.mid.T + scores.constant.mid - theirs).max() <= off < 1e-11
    assert np.abs(apart(points[:, None]) - network(points[:, None])).max() < 1e-11


@pytest.mark.parametrize("by", [1e-9, 1e-6, 1e-3])
def test_keys_a_little_off_a_grid_are_charged_for_it(by):
    network, target = built(TEXTS[0])
    keys = network.heads[0].memory_keys.copy()
    keys[5, 2] += by
    bent = edited(network, memory_keys=keys)
    off = [separated(*read(each, target))[1] for each in (network, bent)]
    assert off[0] + 0.1 * by < off[1] < off[0] + 2 * by
    bound = certify(bent, target).bound
    assert max(dense(bent, target), certify(network, target).bound) < bound


def test_what_is_too_large_is_left_to_the_theorem():
    large, target = built(TEXTS[0], cells=(60, 60))
    assert not looks_at(large, target)
    assert set(certify(large, target).parts) == {"spacing", "leakage", "rounding"}
