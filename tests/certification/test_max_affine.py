"""Heads over cells against formulas: proved without a Lipschitz constant, close to the error, and able to fail."""

from dataclasses import replace

import numpy as np
import pytest

import attnforge as af
from attnforge.anchors import Adaptive
from attnforge.certification.cells import bound_cells
from attnforge.certification.certify import certify
from attnforge.certification.max_affine import is_looked_at, smaller
from attnforge.certification.target_range import range_of
from attnforge.network import Attention, Network
from attnforge.targets import Box, Formula
from attnforge.theorems.free_cells import FreeCells, FreeCellsPlan
from attnforge.theorems.max_affine import CellsPlan, MaxAffine, cells_sharpness

SQUARE = Box([0.0, 0.0], [1.0, 1.0])
FRANKE = (
    "0.75*exp(-((9*x-2)^2+(9*y-2)^2)/4)+0.75*exp(-((9*x+1)^2)/49-(9*y+1)/10)"
    "+0.5*exp(-((9*x-7)^2+(9*y-3)^2)/4)-0.2*exp(-(9*x-4)^2-(9*y-7)^2)"
)
TEXTS = {"waves": "sin(3*x)*cos(2*y)", "franke": FRANKE, "kink": "abs(x-y)+x"}


def grid(text: str, cells=(32, 32), dtype="float64", sharpness="hard", layout="memory", box=SQUARE):
    target = Formula(text, box, ("x", "y", "z")[: len(cells)])
    c, ghosts = cells_sharpness(sharpness, cells, box, dtype)
    return MaxAffine().build(target, CellsPlan(cells, c, ghosts, dtype, layout)), target


def adaptive(text: str, count: int):
    target = Formula(text, SQUARE, ("x", "y"))
    return FreeCells().build(target, FreeCellsPlan(Adaptive(count))), target


def edited(network: Network, **changes) -> Network:
    return replace(network, layers=(network.layers[0], Attention((replace(network.heads[0], **changes),))))


def dense(network: Network, target: Formula, count: int = 97) -> float:
    """The error on a grid of points, the edges of 4, 6 and 8 cells among them, and beside these."""
    axes = []
    for a, b in zip(target.domain.lower, target.domain.upper, strict=True):
        points = np.linspace(a, b, count)
        axes.append(np.concatenate([points, np.minimum(points + 1e-9, b), np.maximum(points - 1e-9, a)]))
    points = np.stack([axis.ravel() for axis in np.meshgrid(*axes)], axis=1)
    blocks = np.array_split(points, 1 + len(points) // 20_000)
    return max(float(np.abs(network(x[:, None])[:, 0, 0] - target.values(x)).max()) for x in blocks)


@pytest.mark.parametrize(
    ("name", "kind"),
    [("waves", "hard"), ("franke", "hard"), ("kink", "hard"), ("franke", "float32"), ("waves", "adaptive"),
     ("kink", "adaptive")],
)  # fmt: skip
def test_bounds_are_within_a_tenth_of_the_error(name, kind):
    """A thousand cells on grids; fewer adaptive ones, because placing them takes long."""
    dtype = "float32" if kind == "float32" else "float64"
    network, target = adaptive(TEXTS[name], 120) if kind == "adaptive" else grid(TEXTS[name], dtype=dtype)
    found = certify(network, target, dtype=dtype)
    error = af.measure(af.Compiled(network, target, found, network.construction, dtype), points=4000).sup
    assert error <= found.bound <= 1.1 * error
    assert found.status == "proved"
    assert set(found.parts) == {"spacing", "leakage", "rounding"}
    assert any("exp, sinh and cosh" in said for said in found.assumptions)


@pytest.mark.parametrize("name", TEXTS)
def test_bounds_are_never_below_a_dense_grid(name):
    for network, target in (grid(TEXTS[name], (4, 6)), adaptive(TEXTS[name], 40)):
        error = dense(network, target)
        assert error <= certify(network, target).bound <= 1.2 * error  # corners of free cells are between the points


@pytest.mark.parametrize("sharpness", [2.0 * 36, 5.0 * 36, 12.0 * 36])
def test_sharpness_between_soft_and_hard(sharpness):
    network, target = grid(TEXTS["waves"], (6, 6), sharpness=sharpness)
    error = dense(network, target)
    assert error <= certify(network, target).bound <= 1.5 * error


def test_a_formula_without_a_lipschitz_constant_is_proved():
    network, target = grid("sqrt(x)*y", (8, 8))
    assert target.lipschitz() is None
    found = certify(network, target)
    assert found.status == "proved"
    assert dense(network, target) <= found.bound <= 1.1 * dense(network, target)
    free, target = adaptive("sqrt(x)*y", 60)
    assert certify(free, target).status == "proved"


def test_a_formula_that_is_not_enclosed_stays_sampled():
    network, target = grid("1/x", (8,), box=Box([0.0], [1.0]))
    found = certify(network, target)
    assert (found.status, found.bound) == ("sampled", None)
    assert "is not bounded" in found.assumptions[0]


def test_the_theorem_remains_where_the_formula_is_not_looked_at():
    network, target = grid(TEXTS["waves"], (8, 8), layout="literal")
    assert not is_looked_at(network, target)
    known = bound_cells(network, target, SQUARE, af.balls.machine("float64"))
    found = certify(network, target)
    assert dict(found.parts) == known
    assert not any("sinh" in said for said in found.assumptions)


def test_callables_keep_the_theorem():
    net = af.constructions.max_affine(lambda x: x[..., 0] * x[..., 1], SQUARE, cells=8, sharpness="hard", lipschitz=2)
    known = bound_cells(net.network, net.target, SQUARE, af.balls.machine("float64"))
    assert dict(net.certificate.parts) == known
    assert net.certificate.status == "conditional"
    assert af.constructions.max_affine(lambda x: x[..., 0], SQUARE, cells=8).certificate.status == "sampled"


def test_the_smaller_bound_is_stated():
    low, high = {"fit": 1.0, "rounding": 0.5}, {"spacing": 1.0, "leakage": 1.0}
    assert smaller(low, high) is low
    assert smaller(high, low) is low
    assert smaller(high, None) is high
    assert smaller({"spacing": np.inf}, high) is high
    assert smaller({"spacing": np.nan}, high) is high


def mutants(network: Network) -> dict[str, Network]:
    head = network.heads[0]
    middle, values, keys, swapped = (
        len(head.memory_keys) // 2,
        *(array.copy() for array in (head.memory_values, head.memory_keys, head.memory_keys)),
    )
    values[middle] += 0.5
    swapped[[0, -1]] = swapped[[-1, 0]]
    keys[middle, 0] += 0.75
    changes = {"value": {"memory_values": values}, "swapped": {"memory_keys": swapped}, "moved": {"memory_keys": keys}}
    return {name: edited(network, **change) for name, change in changes.items()}


@pytest.mark.parametrize("text", ["sin(3*x)*cos(2*y)", "sqrt(x)*y"])
@pytest.mark.parametrize("free", [False, True])
def test_a_changed_network_has_a_larger_bound_or_none(text, free):
    network, target = adaptive(text, 36) if free else grid(text, (6, 6))
    before, refused = certify(network, target).bound, 0
    for name, mutant in mutants(network).items():
        try:
            bound = certify(mutant, target).bound
        except (af.CertificateError, af.RefusalError):
            refused += 1
            continue
        assert bound >= dense(mutant, target), name
        assert bound > before or free, name
    assert refused < 3
    assert certify(mutants(network)["value"], target).bound > before + 0.2


@pytest.mark.parametrize("text", ["exp(-x*y)/(1+x^2)", "sin(4*x*y)+log(1+x)", "max(x*y, 0.3)-tanh(x-y)", "sqrt(x+y)"])
def test_ranges_of_formulas_hold_every_value_and_are_tight_on_small_boxes(text):
    rng = np.random.default_rng(0)
    target = Formula(text, SQUARE, ("x", "y"))
    for width in (0.5, 0.01, 0.0):
        lower = rng.random((20, 2)) * (1 - width)
        upper = lower + width
        low, high = range_of(target)(lower, upper)
        inside = np.concatenate([lower + rng.random((60, 1, 2)) * width, [lower], [upper]])
        found = target.values(inside)
        assert np.all((found >= low[:, 0] - 1e-15) & (found <= high[:, 0] + 1e-15))
        assert np.all(high - low <= 8 * width + 1e-12)


def test_on_small_boxes_ranges_are_off_by_the_square_of_the_width():
    target = Formula("x - x*y + y^2", SQUARE, ("x", "y"))  # its slopes at (1/2, 1/4) are 3/4 and 0
    lower, upper = np.array([[0.5, 0.25]]) - 1e-4, np.array([[0.5, 0.25]]) + 1e-4
    low, high = range_of(target)(lower, upper)
    assert float(high[0, 0] - low[0, 0]) == pytest.approx(2 * 0.75e-4, abs=1e-7)
