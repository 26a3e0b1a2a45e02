"""The list of constructions answers one questionnaire."""

from __future__ import annotations

import pytest

from attnforge.errors import RefusalError
from attnforge.network import Network, check_architecture
from attnforge.targets import Box, Formula
from attnforge.theorems.construction import Construction, Cost
from attnforge.theorems.registry import CONSTRUCTIONS, construction
from tests.theorems.measuring import clamp, sup_error

ROW_OF_NAMES = {"gate", "truncated_linear", "multihead_truncated_linear"}


def test_names_are_distinct_and_found():
    names = [entry.name for entry in CONSTRUCTIONS]
    assert len(set(names)) == len(names)
    assert set(names) >= ROW_OF_NAMES
    assert all(construction(entry.name) is entry for entry in CONSTRUCTIONS)


def test_an_unknown_name_is_refused_with_the_list():
    with pytest.raises(RefusalError, match=r"must be 'auto' or one of .*gate.*Got 'relu'\. Choose one of these"):
        construction("relu")


@pytest.mark.parametrize("name", sorted(ROW_OF_NAMES))
def test_every_construction_answers_the_questionnaire(name):
    entry = construction(name)
    assert isinstance(entry, Construction)
    assert all(text for text in (entry.function_class, entry.rate, entry.reference))
    target, tol = clamp(lower=1.0, upper=4.0), 0.01
    assert entry.accepts(target) is None
    assert isinstance(entry.accepts(Formula("sin(x)", Box([-1], [1]))), str)
    plan = entry.size(target, tol, "float64")
    parts = entry.bound(target, plan)
    assert {"spacing", "leakage"} <= set(parts)
    assert min(parts.values()) >= 0
    assert sum(parts.values()) <= tol
    cost = entry.cost(target, plan)
    assert cost.parameters > 0
    network = entry.build(target, plan)
    assert isinstance(network, Network)
    check_architecture(network)
    assert sup_error(network, target, 200) <= tol
    assert cost.anchors == sum(len(one.claims.positions) for one in network.heads)


def test_cost_counts_each_weight_twice_in_bytes():
    assert Cost.of(3, 100) == Cost(3, 100, 1600)
