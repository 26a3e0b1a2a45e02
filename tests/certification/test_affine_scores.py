"""Scores of a network read as affine functions of its inputs: the same function, and proved against formulas."""

from dataclasses import replace

import numpy as np
import pytest

import attnforge as af
from attnforge.balls import machine
from attnforge.certification.affine_scores import Scores, read_scores
from attnforge.certification.cells import looks_at
from attnforge.certification.certify import certify
from attnforge.network import Attention, Linear, Network, Term, flatten, rounded, unflatten
from attnforge.targets import Box, Formula, JointFunction
from attnforge.theorems.cross_attention import CrossAttention
from attnforge.theorems.max_affine import CellsPlan, cells_sharpness

WAVES, ONE = "sin(3*x)*cos(2*y)", Box([0.0], [1.0])


def built(text: str, cells=(6, 6), sharpness="tuned", dtype="float64", of_x: int = 1) -> tuple[Network, Formula]:
    """A network for f(X, Y), the first ``of_x`` inputs of the formula being X."""
    d = len(cells)
    formula = Formula(text, Box([0.0] * d, [1.0] * d), ("x", "y", "z")[:d])
    boxes = [Box([0.0] * size, [1.0] * size) for size in (of_x, d - of_x)]
    joint = JointFunction(lambda x, y: formula.values(np.concatenate([x, y], axis=-1)), *boxes)
    c, ghosts = cells_sharpness(sharpness, cells, joint.domain, dtype)
    return CrossAttention().build(joint, CellsPlan(cells, c, ghosts, dtype)), formula


def run(network: Network, points: np.ndarray) -> np.ndarray:
    first = network.context[1]
    return network(points[:, None, first:], points[:, None, :first])[:, 0, 0]


def dense(network: Network, formula: Formula, count: int = 97) -> float:
    axis = np.linspace(0.0, 1.0, count)
    near = np.concatenate([axis, np.minimum(axis + 1e-9, 1.0)])
    points = np.stack([each.ravel() for each in np.meshgrid(near, near)], axis=1)
    return float(np.abs(run(network, points) - formula.values(points)).max())


def edited(network: Network, name: str, index, value) -> Network:
    skeleton, arrays = flatten(network)
    array = arrays[name].copy()
    array[index] = value(array[index]) if callable(value) else value
    return unflatten(skeleton, {**arrays, name: array})


@pytest.mark.parametrize(("cells", "of_x"), [((4, 5), 1), ((3, 2, 4), 1), ((3, 2, 4), 2)])
@pytest.mark.parametrize("sharpness", ["hard", "tuned"])
def test_scores_and_values_are_the_same_function(cells, of_x, sharpness):
    network, _ = built("x + y" if len(cells) == 2 else "x*y + z", cells, sharpness, of_x=of_x)
    points = np.random.default_rng(0).random((200, len(cells)))
    assert np.abs(mean(scores_of(network), points) - run(network, points)).max() < 1e-10


def scores_of(network: Network) -> Scores:
    axes = network.context[1] + network.features
    return read_scores(network, Box([0.0] * axes, [1.0] * axes), machine("float64"))[0]


def mean(scores: Scores, points: np.ndarray) -> np.ndarray:
    logits = points @ scores.slope.mid.T + scores.constant.mid
    weights = np.exp(logits - logits.max(axis=1, keepdims=True))
    return (weights @ scores.values / weights.sum(axis=1, keepdims=True))[:, 0]


@pytest.mark.parametrize("sharpness", ["hard", "tuned"])
@pytest.mark.parametrize(("text", "dtype"), [(WAVES, "float64"), (WAVES, "float32"), ("abs(x-y)+x", "float64")])
def test_bounds_hold_on_a_dense_grid_and_are_close(text, dtype, sharpness):
    network, formula = built(text, sharpness=sharpness, dtype=dtype)
    found = certify(network, formula, dtype=dtype)
    error = dense(rounded(network, dtype), formula)
    assert error <= found.bound <= (1.25 if dtype == "float64" else 1.4) * error
    assert found.status == "proved"
    assert any("sinh" in said for said in found.assumptions)
    joint = JointFunction(
        lambda x, y: formula.values(np.concatenate([x, y], axis=-1)), ONE, ONE, lipschitz=formula.lipschitz()
    )
    assert found.bound <= certify(network, joint, dtype=dtype).bound
    if sharpness == "tuned":
        assert set(found.parts) == {"fit", "rounding"}
        assert certify(network, joint, dtype=dtype).bound > 20 * found.bound


def test_a_formula_without_a_lipschitz_constant_is_proved():
    network, formula = built("sqrt(x)*y", (4, 4), "hard")
    found = certify(network, formula)
    assert found.status == "proved"
    assert dense(network, formula) <= found.bound <= 1.1 * dense(network, formula)


def test_what_the_runs_rounding_adds_is_charged():
    network, formula = built(WAVES, sharpness="hard")
    parts = {dtype: certify(network, formula, dtype=dtype).parts["rounding"] for dtype in ("float64", "float32")}
    assert parts["float64"] < 1e-9 < 1e-6 < parts["float32"]


CHANGES = {
    "value": ("context1.constant", (20, -1), lambda old: old + 1.0),
    "constant": ("context1.constant", (20, 0), lambda old: old + 0.25),
    "place of x": ("context1.term0.mix", (20, 0), lambda old: old + 0.5),
    "place of y": ("context1.constant", (20, 1), lambda old: old + 0.5),
    "scale of x": ("context0.term0.map", (0, 0), lambda old: old * 1.01),
    "scale of y": ("layer0.term0.map", (0, 0), lambda old: old * 1.01),
    "query": ("layer1.head0.query", (1, 0), lambda old: old * 1.01),
    "key map": ("layer1.head0.key", (0, 0), lambda old: old * 1.01),
    "value map": ("layer1.head0.value", (2, 0), lambda old: old * 1.5),
}


@pytest.mark.parametrize("name", CHANGES)
@pytest.mark.parametrize(("text", "sharpness"), [(WAVES, "hard"), ("sqrt(x)*y", "hard"), ("sqrt(x)*y", "tuned")])
def test_changed_weights_are_charged_or_refused(name, text, sharpness):
    network, formula = built(text, (3, 3) if sharpness == "tuned" else (6, 6), sharpness)
    mutant = edited(network, *CHANGES[name])
    try:
        bound = certify(mutant, formula).bound
    except (af.CertificateError, af.RefusalError):
        return
    assert bound is None or bound >= dense(mutant, formula)


def test_a_changed_value_is_seen():
    network, formula = built(WAVES, (6, 6), "hard")
    mutant = edited(network, *CHANGES["value"])
    assert certify(mutant, formula).bound > certify(network, formula).bound + 0.9
    swapped = edited(network, "context1.constant", ([3, 30], slice(None)), lambda rows: rows[::-1])
    try:
        assert certify(swapped, formula).bound > certify(network, formula).bound + 0.1
    except (af.CertificateError, af.RefusalError) as refusal:
        assert "scores" in str(refusal)  # noqa: PT017


NET = built(WAVES, (3, 3))[0]
TOLD, LONG = NET.context_layers
WIDE = replace(NET.heads[0], output=np.ones((1, len(NET.heads[0].query))))
READ = {
    "a query of another constant": edited(NET, "layer0.constant", (0, 1), 2.0),
    "a query of two parts": edited(NET, "layer0.constant", (0, 0), 0.5),
    "a key of another size": edited(NET, "layer1.head0.key", (0, 0), 0.5),
    "keys scaled": edited(NET, "context1.term0.map", (0, 0), 3.0),
    "another layer": replace(NET, layers=(Linear((Term(),)), *NET.layers)),
    "another layer of X": replace(NET, context_layers=(Linear((Term(),)), *NET.context_layers)),
    "two terms": replace(NET, context_layers=(TOLD, Linear(LONG.terms * 2, LONG.constant))),
}  # fmt: skip
REFUSED = {
    "products of X and Y": (edited(NET, "layer1.head0.query", (0, 0), 1.0), "meet constant queries"),
    "products in a query of two parts": (edited(NET, "layer0.term0.map", (0, 1), 0.5), "meet constant queries"),
    "values of two": (edited(NET, "layer1.head0.value", (0, 0), 1.0), "values are constants"),
    "values from X": (edited(NET, "context1.term0.map", (0, 2), 1.0), "values are constants"),
    "sequences": (replace(NET, tokens=2), "must have the same shape"),
    "two heads": (replace(NET, layers=(NET.layers[0], Attention(NET.heads * 2))), "covers one head"),
    "a residual": (replace(NET, layers=(NET.layers[0], Attention((WIDE,), residual=True))), "one layer of attention"),
    "two layers": (replace(NET, layers=(NET.layers[0], Attention((WIDE,)), NET.layers[1])), "first tokens are read"),
    "a map after": (replace(NET, layers=(*NET.layers, Linear((Term(np.eye(1)),)))), "only the first tokens are read"),
}  # fmt: skip


@pytest.mark.parametrize("name", READ)
def test_other_weights_are_read_as_they_are(name):
    points = np.random.default_rng(0).random((200, 2))
    assert np.abs(mean(scores_of(READ[name]), points) - run(READ[name], points)).max() < 1e-10


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_affine_is_refused(name):
    network, message = REFUSED[name]
    with pytest.raises(af.CertificateError, match=message):
        scores_of(network)
    assert not looks_at(network, Formula(WAVES, Box([0.0, 0.0], [1.0, 1.0]), ("x", "y")))


def test_formulas_of_another_shape_are_refused():
    three = Formula("x+y+z", Box([0.0] * 3, [1.0] * 3), ("x", "y", "z"))
    with pytest.raises(af.CertificateError, match="3 inputs for 1 and 1"):
        certify(NET, three)


def test_a_part_of_the_domain_has_a_smaller_bound_a_larger_one_none():
    waves = Formula(WAVES, Box([0.0, 0.0], [1.0, 1.0]), ("x", "y"))
    part = Box([0.0, 0.0], [0.3, 0.5])
    assert certify(NET, waves, part).bound < 0.9 * certify(NET, waves).bound
    with pytest.raises(af.CertificateError, match="on the domain they divide"):
        certify(NET, waves, Box([0.0, 0.0], [1.0, 1.5]))
