"""Heads over cells against formulas: proved without a Lipschitz constant, close to the error, and able to fail."""

from dataclasses import replace

import numpy as np
import pytest

import attnforge as af
from attnforge.anchors import Adaptive
from attnforge.balls import machine
from attnforge.certification.affine_scores import read_scores
from attnforge.certification.cells import bound_cells, looks_at
from attnforge.certification.certify import certify
from attnforge.certification.lipschitz_cells import bound_lipschitz_cells
from attnforge.certification.product_grid import recognised
from attnforge.certification.target_range import range_of
from attnforge.network import Attention, Network, flatten, rounded, unflatten
from attnforge.network.flatten import is_weight
from attnforge.targets import Box, Formula, Function, JointFunction, Target
from attnforge.theorems.cross_attention import CrossAttention
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


def theorem(network: Network, target: Target) -> dict[str, float]:
    """What the Lipschitz constant alone proves, in float64."""
    lower, upper = target.domain.lower.ravel(), target.domain.upper.ravel()
    scores = read_scores(network, target.domain, machine("float64"))
    cells = [recognised(each.slope.mid, each.constant.mid, lower, upper) for each in scores]
    return bound_lipschitz_cells(scores, cells, target, machine("float64"))


def test_the_theorem_remains_where_the_formula_is_not_looked_at():
    box = Box([0.0] * 5, [1.0] * 5)
    target = Formula("x*y + z*w - v", box, tuple("xyzwv"))
    network = MaxAffine().build(target, CellsPlan((2,) * 5, *cells_sharpness("hard", (2,) * 5, box, "float64")))
    assert not looks_at(network, target)
    found = certify(network, target)
    assert dict(found.parts) == theorem(network, target)
    assert not any("sinh" in said for said in found.assumptions)


@pytest.mark.parametrize("sharpness", ["hard", "tuned"])
def test_formulas_are_looked_at_in_both_layouts(sharpness):
    lean, target = grid(TEXTS["waves"], (4, 4), sharpness=sharpness)
    literal, _ = grid(TEXTS["waves"], (4, 4), sharpness=sharpness, layout="literal")
    assert looks_at(literal, target)
    bound = certify(literal, target).bound
    assert bound >= dense(literal, target)
    assert bound == pytest.approx(certify(lean, target).bound, rel=1e-9)


def test_callables_keep_the_theorem():
    net = af.constructions.max_affine(lambda x: x[..., 0] * x[..., 1], SQUARE, cells=8, sharpness="hard", lipschitz=2)
    assert dict(net.certificate.parts) == theorem(net.network, net.target)
    assert net.certificate.status == "conditional"
    assert af.constructions.max_affine(lambda x: x[..., 0], SQUARE, cells=8).certificate.status == "sampled"


@pytest.mark.parametrize(("found", "stated"), [(1.0, 1.0), (np.inf, None), (np.nan, None), (100.0, None)])
def test_the_smaller_bound_is_stated(found, stated, monkeypatch):
    network, target = grid(TEXTS["waves"], (6, 6))
    known = sum(theorem(network, target).values())
    looked = {"spacing": found * known * 0.5, "leakage": 0.0, "rounding": 0.0}
    monkeypatch.setattr("attnforge.certification.cells.bound_selection", lambda *args, **options: (looked, False))
    bound = certify(network, target).bound
    assert bound == pytest.approx(known if stated is None else 0.5 * known)


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


LINE, KNOWN = Box([-1.0], [2.0]), af.Lipschitz(5.0)


def plan(cells: tuple[int, ...], kind: str, box: Box, dtype: str) -> CellsPlan:
    return CellsPlan(cells, *cells_sharpness(kind, cells, box, dtype), dtype)


def free(text: str, box: Box, dtype: str) -> tuple[Network, Target]:
    target = Formula(text, box, ("x", "y")[: box.lower.size])
    return FreeCells().build(target, FreeCellsPlan(Adaptive(30), dtype)), target


def of_callable(inputs: int, kind: str, dtype: str) -> tuple[Network, Target]:
    target = Function(lambda x: np.sin(3 * x).sum(axis=-1), Box([0.0] * inputs, [1.0] * inputs), lipschitz=KNOWN)
    return MaxAffine().build(target, plan((5, 4)[:inputs], kind, target.domain, dtype)), target


def of_tokens(kind: str, dtype: str) -> tuple[Network, Target]:
    target = Function(
        lambda x: np.concatenate([np.sin(x) + x[..., ::-1, :], x], axis=-1), Box(0, 1, shape=(2, 1)), lipschitz=KNOWN
    )
    return MaxAffine().build(target, plan((3, 3), kind, target.domain, dtype)), target


def joint(kind: str, dtype: str, known: bool = False) -> tuple[Network, Target]:
    """Cross-attention, against a formula, or against a callable of which a Lipschitz constant is known."""
    formula, one = Formula(TEXTS["waves"], SQUARE, ("x", "y")), Box([0.0], [1.0])
    target = JointFunction(lambda x, y: formula.values(np.concatenate([x, y], axis=-1)), one, one, lipschitz=KNOWN)
    return CrossAttention().build(target, plan((5, 4), kind, SQUARE, dtype)), target if known else formula


NETS = {
    "one input": lambda kind, dtype: grid("sin(3*x)", (9,), dtype, kind, box=LINE),
    "two inputs": lambda kind, dtype: grid(TEXTS["waves"], (5, 4), dtype, kind),
    "two cells": lambda kind, dtype: grid(TEXTS["waves"], (2, 1), dtype, kind),
    "literal": lambda kind, dtype: grid(TEXTS["waves"], (5, 4), dtype, kind, "literal"),
    "callable of one": lambda kind, dtype: of_callable(1, kind, dtype),
    "callable of two": lambda kind, dtype: of_callable(2, kind, dtype),
    "tokens": of_tokens,
    "cross": joint,
    "cross callable": lambda kind, dtype: joint(kind, dtype, known=True),
    "adaptive, one input": lambda kind, dtype: free("sin(3*x)", LINE, dtype),
    "adaptive, two inputs": lambda kind, dtype: free(TEXTS["waves"], SQUARE, dtype),
}
CASES = [(name, kind) for name in NETS for kind in ("hard", "tuned") if kind == "hard" or "adaptive" not in name]


def with_head(network: Network, **changes) -> Network:
    heads = Attention((replace(network.heads[0], **changes),))
    layers = tuple(heads if isinstance(layer, Attention) else layer for layer in network.layers)
    return replace(network, layers=layers)


def bound_of(network: Network, target: Target, dtype: str) -> float:
    return sum(bound_cells(rounded(network, dtype), target, target.domain, machine(dtype)).values())


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize(("name", "kind"), CASES)
def test_proofs_read_numbers_and_not_names(name, kind, dtype):
    network, target = NETS[name](kind, dtype)
    certificate = certify(network, target, dtype=dtype)
    assert certificate.status == ("conditional" if "callable" in name or name == "tokens" else "proved")
    erased = replace(with_head(network, claims=None), construction="")
    assert looks_at(erased, target) == looks_at(network, target) == isinstance(target, Formula)
    assert certify(erased, target, dtype=dtype).bound == pytest.approx(certificate.bound, rel=1e-12)
    assert bound_of(erased, target, dtype) == pytest.approx(bound_of(network, target, dtype), rel=1e-12)


@pytest.mark.parametrize("eps", [1e-6, 1e-3])
@pytest.mark.parametrize(("name", "kind"), CASES)
def test_output_maps_and_values_that_are_a_little_off_are_proved(name, kind, eps):
    """All entries of the output map, its zeros too, and of the values in memory are moved by a part of eps."""
    network, target = NETS[name](kind, "float64")
    head, rng = network.heads[0], np.random.default_rng(0)
    before = bound_of(network, target, "float64")
    scores = read_scores(network, target.domain, machine("float64"))
    points = rng.uniform(
        scores[0].box.mid - scores[0].box.rad, scores[0].box.mid + scores[0].box.rad, (500, len(scores[0].box.mid))
    )
    most = max(
        float((softmax(points @ each.slope.mid.T + each.constant.mid) @ np.abs(each.values)).max()) for each in scores
    )
    moved = head.output + eps * rng.choice([-1.0, 1.0], head.output.shape) * np.where(
        head.output == 0, 1.0, head.output
    )
    changes = [{"output": moved}]
    if head.memory_values is not None:
        changes.append(
            {"memory_values": head.memory_values * (1 + eps * rng.choice([-1.0, 1.0], head.memory_values.shape))}
        )
    for change in changes:
        after = bound_of(with_head(network, **change), target, "float64")
        assert after <= before + 10 * eps * most
        assert after != before


def softmax(logits: np.ndarray) -> np.ndarray:
    weights = np.exp(logits - logits.max(axis=1, keepdims=True))
    return weights / weights.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("size", [1e-9, 1e-6, 1e-3, 0.3])
@pytest.mark.parametrize(
    ("name", "kind"), [("one input", "hard"), ("one input", "tuned"), ("two inputs", "hard"), ("two inputs", "tuned")]
)
def test_weights_that_are_off_everywhere_are_charged_or_refused(name, kind, size):
    network, target = NETS[name](kind, "float64")
    skeleton, arrays = flatten(network)
    for seed in range(3):
        rng = np.random.default_rng(seed)
        noise = {key: 1 + size * rng.normal(size=array.shape) for key, array in arrays.items() if is_weight(key)}
        mutant = unflatten(skeleton, {key: array * noise.get(key, 1.0) for key, array in arrays.items()})
        try:
            bound = bound_of(mutant, target, "float64")
        except (af.CertificateError, af.RefusalError):
            continue
        assert dense(mutant, target) <= bound
