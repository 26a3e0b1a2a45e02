"""Labels: what heads, keys and columns are, by the weights; claims that these do not bear out are contradicted."""

import json
from collections import Counter
from dataclasses import FrozenInstanceError, replace

import numpy as np
import pytest

import attnforge as af
from attnforge import programs
from attnforge.labels import labels_of, target_labels
from attnforge.network import Attention, Claims, Head, Linear, Network, Rows, Term, head_places, with_head
from tests.readers.built import BUILT, built
from tests.readers.networks import random_case

MAKE = af.constructions


def changed(net: af.Compiled, **parts) -> Network:
    """The network with other parts of its first head."""
    return with_head(net.network, *head_places(net.network)[0], **parts)


def relabelled(net: af.Compiled, **parts) -> Network:
    return changed(net, claims=replace(net.network.heads[0].claims, **parts))


def evidence(network: Network, net: af.Compiled) -> Counter:
    return Counter(target_labels(network, net.target).heads[0].evidence)


@pytest.mark.parametrize("name", BUILT)
def test_no_honest_network_is_contradicted(name):
    net = built(name)
    labels = net.labels()
    assert labels.contradicted == ()
    assert len(labels.heads) == net.heads
    assert sum(head.count for head in labels.attention[0].heads) >= 1
    json.loads(labels.to_json())
    assert str(labels).startswith("inputs: ")


CONFIRMED = [  # all keys of the first head stand where they are claimed to
    "truncated, two inputs",
    "truncated, tokens",
    "truncated, literal",
    "truncated, two inputs [float32]",
    "multihead",
    "multihead, literal",
    "gate",
    "gate, tokens",
    "relu",
    "hardtanh",
    "two layers",
    "partition",
    "partition, sequence",
    "sine",
    "grid",
    "ridge",
    "additive",
    "polynomial",
    "table",
]


@pytest.mark.parametrize("name", CONFIRMED)
def test_places_are_confirmed_by_the_scores(name):
    assert set(built(name).labels().heads[0].evidence) == {"confirmed"}


def test_a_row_by_hand():
    """Clamp of 2 x - y + 1 to [0, 3] by 4 anchors 1 apart."""
    net = MAKE.truncated_linear([2.0, -1.0], 1.0, 0, 3, anchors=4)
    (head,) = net.labels().heads
    assert head.along == ("2 x0 − x1 + 1",)
    assert [key.place for key in head.keys] == [(0.0,), (1.0,), (2.0,), (3.0,)]
    assert [key.value for key in head.keys] == [(0.0,), (1.0,), (2.0,), (3.0,)]
    assert [str(key) for key in head.keys] == ["anchor 0", "anchor 1", "anchor 2", "anchor 3"]
    assert head.writes == ("h0[0]",)
    with pytest.raises(FrozenInstanceError):
        head.layer = 3


def test_roles_of_several_heads():
    net = built("multihead")
    first, second = net.labels().heads
    assert first.roles == ("ghost", "ghost", "anchor", "anchor", "sentinel", "sentinel")
    assert second.roles == ("sentinel", "sentinel", "anchor", "anchor", "ghost", "ghost")
    assert all(key.value == (0.0,) for key in first.keys if key.role == "sentinel")


def test_a_gate_by_hand():
    (head,) = MAKE.gate([1.0, 2.0], 0.5, -1, 2).labels().heads
    assert head.along == ("x0 + 2 x1 + 0.5",)
    assert [(key.kind, key.role, key.place) for key in head.keys] == [
        ("constant", "low", (-1.0,)),
        ("constant", "high", (2.0,)),
        ("own token", "self", None),
    ]


def test_registers_and_formulas():
    net = MAKE.graph("x*y*exp(-z^2)", dict.fromkeys("xyz", (-1, 1)), 1e-2)
    labels = net.labels()
    assert [column.name for column in labels.layers[0].columns] == ["1", "x", "y", "z", "0", "0", "0"]
    assert [column.role for column in labels.layers[0].columns] == ["constant", *["input"] * 3, *["empty"] * 3]
    row, product, power = labels.heads
    assert (row.formula, product.formula, power.formula) == ("-z^2", "(3 + x)*y", "(r[5] + -3*y)*exp(r[4])")
    assert row.along == ("z",)
    assert row.queries == ("1", "z")
    last = labels.layers[-2].columns
    assert [(c.name, c.formula, c.writers) for c in last[4:6]] == [
        ("r[4]", row.formula, ((0, 0),)),
        ("r[5]", product.formula, ((0, 1),)),
    ]
    seen = {traced.name: np.abs(traced.computed - traced.exact).max() for traced in net.trace(_points(3))}
    assert row.formula_error == pytest.approx(seen["r[4]"], rel=0.5)
    assert power.formula_error < 1e-14


def _points(d):
    return np.random.default_rng(1).uniform(-1, 1, size=(500, d))


def test_a_false_formula_is_off():
    net = MAKE.graph("x*y*exp(-z^2)", dict.fromkeys("xyz", (-1, 1)), 1e-2)
    false = net.network.heads[0].claims
    for formula in ("r[3]^3", "r[17]", "no formula at all ("):
        network = changed(net, claims=replace(false, formula=formula))
        error = target_labels(network, net.target, tried=True).heads[0].formula_error
        assert error is None if formula != "r[3]^3" else error > 0.1


@pytest.mark.parametrize("name", ["truncated, two inputs", "partition", "callable on cells", "polynomial"])
def test_a_key_moved_by_a_third_of_a_gap_is_contradicted_and_seen_where_it_is(name):
    """Its claim stays: the label has the place from the scores, and the others are where they were."""
    net = built(name)
    claims = net.network.heads[0].claims
    positions = claims.positions.copy()
    flat = positions.reshape(len(positions), -1)
    gaps = np.diff(np.unique(flat[:, 0]))
    key = len(flat) // 2
    flat[key, 0] += gaps.min() / 3
    found = target_labels(relabelled(net, positions=positions), net.target).heads[0]
    assert [i for i, each in enumerate(found.evidence) if each == "contradicted"] == [key]
    true = claims.positions.reshape(len(positions), -1)
    np.testing.assert_allclose(found.places, true, atol=1e-6 * np.ptp(true))
    assert "contradicted" in str(found.keys[key])


def test_of_few_keys_none_that_may_be_elsewhere_is_confirmed():
    """Four keys, the third moved by a third of a gap: it still wins there, but no tie is half-way any more."""
    net = af.compile("sin(3*x)", {"x": (-1, 1)}, 1e-2, construction="tensor_grid")
    positions = net.network.heads[0].claims.positions.copy()
    positions[2, 0] += (positions[2, 0] - positions[1, 0]) / 3
    found = target_labels(relabelled(net, positions=positions), net.target).heads[0]
    assert found.evidence == ("confirmed", "confirmed", "claim", "claim")
    positions[2, 0] += positions[2, 0] - positions[1, 0]
    far = target_labels(relabelled(net, positions=positions), net.target).heads[0]
    assert far.evidence[2] == "contradicted"


def test_other_lies():
    row, gate, heads = built("truncated, two inputs"), built("gate"), built("multihead")
    claims = row.network.heads[0].claims
    assert evidence(relabelled(row, positions=claims.positions**3), row)["contradicted"] >= 2
    ends = gate.network.heads[0].claims
    assert evidence(relabelled(gate, positions=ends.positions + 1e-6), gate)["contradicted"] == 2
    assert evidence(relabelled(gate, roles=("high", "low", "self")), gate)["contradicted"] == 2
    values = heads.network.heads[0].memory_values.copy()
    values[-1] = 0.5  # of a sentinel
    assert evidence(changed(heads, memory_values=values), heads)["contradicted"] == 1


def test_ghosts_stand_outside_the_domain():
    net = built("partition")
    roles = list(net.network.heads[0].claims.roles)
    inside = roles.index("cell")
    roles[inside], roles[0] = "ghost", "cell"
    found = target_labels(relabelled(net, roles=tuple(roles)), net.target).heads[0]
    assert [i for i, each in enumerate(found.evidence) if each == "contradicted"] == [0, inside]


def test_keys_along_another_form_than_claimed():
    net = built("ridge")
    forms = net.network.heads[0].claims.forms.copy()
    forms[0, 0] += 1e-3
    assert set(evidence(relabelled(net, forms=forms), net)) == {"contradicted"}


def test_moved_weights_are_noticed():
    """The network changes under its claims."""
    net = built("sine")
    keys = net.network.heads[0].memory_keys.copy()
    keys[1, 0] += 0.2
    assert evidence(changed(net, memory_keys=keys), net)["confirmed"] < len(keys)


def test_nothing_claimed():
    one, keys = np.eye(1), np.array([[1.0], [2.0]])
    alone = Head(one, one, key=one, value=one, key_rows=Rows("own"))
    sink = Head(one, one, key=one, value=one, key_rows=Rows(), memory_keys=keys, memory_values=np.array([[0.0], [3.0]]))
    labels = labels_of(Network((Attention((alone, sink), residual=True),), 1), ["a"])
    copy, other = labels.heads
    assert (copy.name, copy.kinds) == ("copy", ("own token",))
    assert (other.name, other.roles, other.count) == ("head", ("sink", "constant", "tokens"), 2)
    assert set(other.evidence) == {"weights"}
    fixed = labels_of(Network((Attention((sink,)),), 1, tokens=3))
    assert fixed.heads[0].kinds == ("constant", "constant", "token", "token", "token")


def test_columns_through_maps():
    layers = (
        Linear((Term(np.array([[1.0, 0.0, 2.0], [0.0, 0.0, -1.0]])),), np.array([[0.0, 3.0, 0.5]])),
        Linear((Term(None, np.array([[0.0, 1.0], [1.0, 0.0]])),)),
    )
    first, second = labels_of(Network(layers, 2, tokens=2), ["a", "b"]).layers
    assert [(c.name, c.role) for c in first.columns] == [("a", "input"), ("3", "constant"), ("2 a − b + 0.5", "form")]
    assert [c.name for c in second.columns] == ["a of token 1", "3", "2 a of token 1 − b of token 1 + 0.5"]


def test_programs_by_their_registers():
    net = programs.compile(programs.library["histogram"], max_length=6)
    labels = net.labels()
    assert [head.formula for head in labels.heads] == ["1/(1 + count)", "count"]
    assert labels.inputs[:2] == ("tokens = a", "tokens = b")
    assert [column.name for column in labels.layers[-1].columns] == ["count"]
    assert labels.heads[0].roles == ("constant", "tokens")
    json.loads(labels.to_json())


def test_algorithms_by_the_features_of_their_tokens():
    labels = af.in_context.Logistic(steps=2, learning_rate=0.5).build(features=2, examples=3).labels()
    link, gradient = labels.attention[0].heads[0], labels.attention[1].heads[0]
    assert set(link.queries) == {"x[0]", "x[1]"}
    assert link.keys_read == ("w[0]", "w[1]")
    assert link.writes == ("residual",)
    assert gradient.writes == ("w[0]", "w[1]")
    system = af.in_context.KernelRidge(steps=2).build(1, examples=3).labels()
    assert system.heads[0].roles == ("sink", "token", "token", "token")
    assert system.heads[0].writes == ("product",)


def test_random_networks_have_labels():
    for seed in range(60):
        case = random_case(seed)
        labels = labels_of(case.network)
        assert labels.contradicted == ()
        assert len(labels.heads) == len(case.network.heads)
        json.loads(labels.to_json())


def test_hostile_claims_are_text():
    net = built("truncated, two inputs")
    text = "$\\frac{ \x1b[31m <b>"
    claims = replace(net.network.heads[0].claims, construction=text, roles=(text,) * 5)
    labels = labels_of(changed(net, claims=claims))
    assert labels.heads[0].name == text
    assert json.loads(labels.to_json())["layers"][1]["heads"][0]["keys"][0]["role"] == text


def test_claims_of_another_number_of_keys_are_not_taken():
    net = built("truncated, two inputs")
    claims = Claims("truncated_linear", 1.0, np.zeros(3), ("anchor",) * 3)
    (head,) = labels_of(changed(net, claims=claims)).heads
    assert head.roles == ("constant",) * 5
    assert set(head.evidence) == {"weights"}
