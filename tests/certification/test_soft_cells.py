"""Soft heads against formulas, by enclosure: never below the error of a dense grid, close to it, and able to fail."""

from dataclasses import replace

import numpy as np
import pytest

import attnforge as af
from attnforge.balls import machine
from attnforge.certification.certify import certify
from attnforge.certification.max_affine import bound_cells
from attnforge.certification.soft_cells import bound_soft_cells, is_soft_provable, separated
from attnforge.network import Attention, Head, Network, rounded
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
    theorem = bound_cells(rounded(network, dtype), target, target.domain, machine(dtype))
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
def test_swapped_keys_and_moved_centres_raise_the_bound_or_are_refused(text):
    network, target = built(text)
    before = certify(network, target).bound
    keys = network.heads[0].memory_keys
    middle = len(keys) // 2
    swapped, moved = keys.copy(), keys.copy()
    swapped[[middle, middle + 3]] = swapped[[middle + 3, middle]]
    moved[middle, 0] += 0.5
    for array in (swapped, moved):
        mutant = edited(network, memory_keys=array)
        try:
            bound = certify(mutant, target).bound
        except (af.CertificateError, af.RefusalError):
            continue
        assert bound > before
        assert bound >= dense(mutant, target)


def test_a_smaller_sharpness_is_read_from_the_numbers():
    network, target = built(TEXTS[0])
    soft = edited(network, query=network.heads[0].query / 2)
    error = dense(soft, target)
    assert error > 1.5 * dense(network, target)
    assert error <= certify(soft, target).bound <= 1.25 * error


def test_separated_heads_score_the_same():
    network, _ = built(TEXTS[0])
    head, apart = network.heads[0], separated(network.heads[0], 2)
    tokens = np.random.default_rng(0).normal(size=(50, 3))
    ours, theirs = tokens @ head.query @ head.memory_keys.T, tokens @ apart.query @ apart.memory_keys.T
    assert np.abs(ours - theirs).max() < 1e-11
    assert apart.memory_keys.shape == (len(head.memory_keys), 4)


def test_squares_in_two_columns_are_added_up_first():
    """In bfloat16 257 is 256 + 1: two columns that meet the same query."""
    keys = np.array([[16.0, 1.0, 256.0, 1.0], [16.0, 0.0, 256.0, 0.0], [0.0, 1.0, 1.0, 0.0], [0.0, 0.0, 0.0, 0.0]])
    query = np.array([[1.0, 0.0, -1.0, -1.0], [0.0, 1.0, -1.0, -1.0]])
    head = Head(query, np.eye(1), memory_keys=keys, memory_values=np.ones((4, 1)))
    assert separated(head, 2).memory_keys[:, 2:].tolist() == [[256.0, 1.0], [256.0, 0.0], [0.0, 1.0], [0.0, 0.0]]


@pytest.mark.parametrize("change", [(0, 0, 0.5), (3, 2, 1.0), (3, 2, 2.0**-60)])
def test_keys_that_are_no_product_or_no_exact_sum_are_not_separated(change):
    keys = np.array([[0.0, 0.0, 0.0], [0.0, 1.0, 1.0], [1.0, 0.0, 1.0], [1.0, 1.0, 2.0**-60]])
    keys[3, 2] = 2.0
    row, column, by = change
    keys[row, column] = by if by < 1e-9 else keys[row, column] + by
    head = Head(np.eye(3), np.eye(1), memory_keys=keys, memory_values=np.ones((4, 1)))
    assert separated(head, 2) is None
    rounds = keys.copy()
    rounds[:, 2] = [1.0, 2.0, 1.0 + 2.0**-52, 2.0]  # 1 + 2^-52 + 1 is not 2, and not a float64
    assert separated(replace(head, memory_keys=rounds), 2) is None


def test_what_is_too_large_or_no_grid_is_left_to_the_theorem():
    large, _ = built(TEXTS[0], cells=(60, 60))
    assert not is_soft_provable(large, 2)
    network, target = built(TEXTS[0])
    keys = network.heads[0].memory_keys.copy()
    keys[5, 2] += 1e-9
    bent = edited(network, memory_keys=keys)
    assert not is_soft_provable(bent, 2)
    with pytest.raises(af.CertificateError, match="product grid, each with one value"):
        bound_soft_cells(bent, target, target.domain, machine("float64"))
    assert set(certify(bent, target).parts) == {"spacing", "leakage", "rounding"}
