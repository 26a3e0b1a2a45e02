"""Labels: what heads, keys and columns are, by the weights; claims that these do not bear out are contradicted."""

import json
from collections import Counter
from dataclasses import FrozenInstanceError, replace

import numpy as np
import pytest

import attnforge as af
from attnforge import programs
from attnforge.network import Attention, Claims, Head, Linear, Network, Rows, Term, head_places, with_head
from tests.catalogue import ENTRIES, network

MAKE = af.constructions


def changed(net, **parts):
    """The network with other parts of its first head."""
    return replace(net, network=with_head(net.network, *head_places(net.network)[0], **parts))


def relabelled(net, **parts):
    return changed(net, claims=replace(net.network.heads[0].claims, **parts))


def evidence(net):
    return Counter(net.labels().heads[0].evidence)


def labels_of(other, *names):
    """Of a network that nothing built, whose inputs have these names."""
    ends = dict.fromkeys(names, (-1, 1))
    return replace(af.compile(" + ".join(names), ends, 1e-2), network=other).labels()


@pytest.mark.parametrize("name", ENTRIES)
def test_no_honest_network_is_contradicted(name):
    labels = network(name).labels()
    assert labels.contradicted == ()
    json.loads(labels.to_json())
    assert str(labels).startswith("inputs: ")


CONFIRMED = (  # all keys of the first head stand where they are claimed to
    "truncated, two inputs", "truncated, tokens", "truncated, literal", "multihead", "multihead, literal", "gate",
    "gate, tokens", "relu", "hardtanh", "two layers", "partition", "partition, sequence", "sine", "grid", "ridge",
    "additive", "polynomial", "table",
)  # fmt: skip


@pytest.mark.parametrize("name", CONFIRMED)
def test_places_are_confirmed_by_the_scores(name):
    assert set(evidence(network(name))) == {"confirmed"}


def test_rows_gates_and_several_heads_by_hand():
    """Clamp of 2 x - y + 1 to [0, 3] by 4 anchors 1 apart; a gate of two places and its own token."""
    (head,) = MAKE.truncated_linear([2.0, -1.0], 1.0, 0, 3, anchors=4).labels().heads
    assert (head.along, head.writes) == (("2 x0 − x1 + 1",), ("h0[0]",))
    assert [key.place for key in head.keys] == [key.value for key in head.keys] == [(0.0,), (1.0,), (2.0,), (3.0,)]
    assert [str(key) for key in head.keys] == ["anchor 0", "anchor 1", "anchor 2", "anchor 3"]
    with pytest.raises(FrozenInstanceError):
        head.layer = 3
    (gate,) = MAKE.gate([1.0, 2.0], 0.5, -1, 2).labels().heads
    assert [(key.kind, key.role, key.place) for key in gate.keys] == [
        ("constant", "low", (-1.0,)),
        ("constant", "high", (2.0,)),
        ("own token", "self", None),
    ]
    first, second = network("multihead").labels().heads
    assert first.roles == ("ghost", "ghost", "anchor", "anchor", "sentinel", "sentinel")
    assert second.roles == ("sentinel", "sentinel", "anchor", "anchor", "ghost", "ghost")
    assert all(key.value == (0.0,) for key in first.keys if key.role == "sentinel")


def test_registers_and_formulas():
    net = MAKE.graph("x*y*exp(-z^2)", dict.fromkeys("xyz", (-1, 1)), 1e-2)
    labels = net.labels()
    assert [column.role for column in labels.layers[0].columns] == ["constant", *["input"] * 3, *["empty"] * 3]
    row, product, power = labels.heads
    assert (row.formula, product.formula, power.formula) == ("-z^2", "(3 + x)*y", "(r[5] + -3*y)*exp(r[4])")
    assert (row.along, row.queries) == (("z",), ("1", "z"))
    last = labels.layers[-2].columns
    assert [(c.name, c.formula, c.writers) for c in last[4:6]] == [
        ("r[4]", row.formula, ((0, 0),)),
        ("r[5]", product.formula, ((0, 1),)),
    ]
    points = np.random.default_rng(1).uniform(-1, 1, size=(500, 3))
    seen = {traced.name: np.abs(traced.computed - traced.exact).max() for traced in net.trace(points)}
    assert row.formula_error == pytest.approx(seen["r[4]"], rel=0.5)
    assert power.formula_error < 1e-14
    for formula in ("r[3]^3", "r[17]", "no formula at all ("):  # which are false
        error = relabelled(net, formula=formula).labels().heads[0].formula_error
        assert error is None if formula != "r[3]^3" else error > 0.1


@pytest.mark.parametrize("name", ["truncated, two inputs", "partition", "callable on cells", "polynomial"])
def test_a_key_moved_by_a_third_of_a_gap_is_contradicted_and_seen_where_it_is(name):
    """Its claim stays: the label has the place from the scores, and the others are where they were."""
    net = network(name)
    true = net.network.heads[0].claims.positions
    positions = true.copy()
    flat = positions.reshape(len(positions), -1)
    key = len(flat) // 2
    flat[key, 0] += np.diff(np.unique(flat[:, 0])).min() / 3
    found = relabelled(net, positions=positions).labels().heads[0]
    assert [i for i, each in enumerate(found.evidence) if each == "contradicted"] == [key]
    np.testing.assert_allclose(found.places, true.reshape(len(true), -1), atol=1e-6 * np.ptp(true))
    assert "contradicted" in str(found.keys[key])


def test_of_few_keys_none_that_may_be_elsewhere_is_confirmed():
    """Four keys, the third moved by a third of a gap: it still wins there, but no tie is half-way any more."""
    net = af.compile("sin(3*x)", {"x": (-1, 1)}, 1e-2, construction="tensor_grid")
    positions = net.network.heads[0].claims.positions.copy()
    positions[2, 0] += (positions[2, 0] - positions[1, 0]) / 3
    assert relabelled(net, positions=positions).labels().heads[0].evidence == (
        "confirmed",
        "confirmed",
        "claim",
        "claim",
    )
    positions[2, 0] += positions[2, 0] - positions[1, 0]
    assert relabelled(net, positions=positions).labels().heads[0].evidence[2] == "contradicted"


def test_other_lies():
    row, gate, heads, ridge = (network(name) for name in ("truncated, two inputs", "gate", "multihead", "ridge"))
    assert evidence(relabelled(row, positions=row.network.heads[0].claims.positions ** 3))["contradicted"] >= 2
    assert evidence(relabelled(gate, positions=gate.network.heads[0].claims.positions + 1e-6))["contradicted"] == 2
    assert evidence(relabelled(gate, roles=("high", "low", "self")))["contradicted"] == 2
    values, forms = heads.network.heads[0].memory_values.copy(), ridge.network.heads[0].claims.forms.copy()
    values[-1] = 0.5  # of a sentinel
    assert evidence(changed(heads, memory_values=values))["contradicted"] == 1
    forms[0, 0] += 1e-3
    assert set(evidence(relabelled(ridge, forms=forms))) == {"contradicted"}
    keys = network("sine").network.heads[0].memory_keys.copy()
    keys[1, 0] += 0.2  # the network changes under its claims
    assert evidence(changed(network("sine"), memory_keys=keys))["confirmed"] < len(keys)


def test_ghosts_stand_outside_the_domain():
    net = network("partition")
    roles = list(net.network.heads[0].claims.roles)
    inside = roles.index("cell")
    roles[inside], roles[0] = "ghost", "cell"
    found = relabelled(net, roles=tuple(roles)).labels().heads[0]
    assert [i for i, each in enumerate(found.evidence) if each == "contradicted"] == [0, inside]


def test_nothing_claimed():
    one, keys = np.eye(1), np.array([[1.0], [2.0]])
    alone = Head(one, one, key=one, value=one, key_rows=Rows("own"))
    sink = Head(one, one, key=one, value=one, key_rows=Rows(), memory_keys=keys, memory_values=np.array([[0.0], [3.0]]))
    copy, other = labels_of(Network((Attention((alone, sink), residual=True),), 1), "a").heads
    assert (copy.name, copy.kinds) == ("copy", ("own token",))
    assert (other.name, other.roles, other.count) == ("head", ("sink", "constant", "tokens"), 2)
    assert set(other.evidence) == {"weights"}
    short = Claims("truncated_linear", 1.0, np.zeros(3), ("anchor",) * 3)  # of another number of keys: not taken
    (head,) = changed(network("truncated, two inputs"), claims=short).labels().heads
    assert (head.roles, set(head.evidence)) == (("constant",) * 5, {"weights"})


def test_columns_through_maps():
    mixed = Linear((Term(np.array([[1.0, 0.0, 2.0], [0.0, 0.0, -1.0]])),), np.array([[0.0, 3.0, 0.5]]))
    (layer,) = labels_of(Network((mixed,), 2, tokens=1), "a", "b").layers
    assert [(c.name, c.role) for c in layer.columns] == [("a", "input"), ("3", "constant"), ("2 a − b + 0.5", "form")]


def test_programs_by_their_registers_and_algorithms_by_the_features_of_their_tokens():
    labels = programs.compile(programs.library["histogram"], max_length=6).labels()
    assert [head.formula for head in labels.heads] == ["1/(1 + count)", "count"]
    assert labels.inputs[:2] == ("tokens = a", "tokens = b")
    assert labels.heads[0].roles == ("constant", "tokens")
    labels = af.in_context.Logistic(steps=2, learning_rate=0.5).build(features=2, examples=3).labels()
    link, gradient = labels.attention[0].heads[0], labels.attention[1].heads[0]
    assert (set(link.queries), link.keys_read, link.writes) == ({"x[0]", "x[1]"}, ("w[0]", "w[1]"), ("residual",))
    assert gradient.writes == ("w[0]", "w[1]")


def test_hostile_claims_are_text():
    text = "$\\frac{ \x1b[31m <b>"
    labels = relabelled(network("truncated, two inputs"), construction=text, roles=(text,) * 5).labels()
    assert labels.heads[0].name == text
    assert json.loads(labels.to_json())["layers"][1]["heads"][0]["keys"][0]["role"] == text
