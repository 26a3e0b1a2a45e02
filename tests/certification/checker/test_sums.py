"""Sums of more inputs than cells are cut in: confirmed group by group, never where a head or a summand is another."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

import attnforge as af
from attnforge.certification.checker.check import check
from attnforge.certification.checker.questions import BeyondReachError
from attnforge.certification.checker.sums import compare_sums
from attnforge.network import Attention, Head, Linear, Network, Term, rounded
from attnforge.targets import Box, Formula

NAMES = ("a", "b", "c", "d", "f", "g")
TEXT = "sin(a) + exp(b)*c + cos(2*d) + g^2 + sin(f)*f"


@cache
def compiled():
    return af.compile(TEXT, dict.fromkeys(NAMES, (-1, 1)), tol=1e-3)


def verdict(network, bound, text=TEXT, dtype="float64", cells=4000):
    target = Formula(text, Box(-np.ones(6), np.ones(6)), NAMES)
    return compare_sums(rounded(network, dtype), target, bound, dtype, cells, lambda _: None)


def with_heads(network, change):
    *before, last = network.layers
    return replace(network, layers=(*before, replace(last, heads=tuple(map(change, last.heads)))))


def measured(network, points=20000):
    x = np.random.default_rng(1).uniform(-1, 1, (points, 6))
    return float(
        np.abs(network(x[:, None])[:, 0, 0] - Formula(TEXT, Box(-np.ones(6), np.ones(6)), NAMES).values(x)).max()
    )


def test_stored_bounds_are_confirmed():
    net = compiled()
    found = check(net.network, net.target, net.certificate, net.dtype)
    assert found.verdict == "confirmed", found.reason
    assert measured(net.network) <= found.outcome.reached <= net.certificate.bound


@pytest.mark.parametrize(("part", "verdicts"), [(0.01, ["rejected"]), (0.999, ["rejected", "undecided"])])
def test_false_bounds_are_refuted_at_a_point_or_left_open(part, verdicts):
    net = compiled()
    false = replace(net.certificate, bound=part * measured(net.network))
    assert check(net.network, net.target, false, net.dtype).verdict in verdicts


@pytest.mark.parametrize("which", range(5))
def test_another_head_or_summand_is_not_confirmed(which):
    net, place = compiled(), iter(range(9))
    bound = net.certificate.bound
    moved = with_heads(
        net.network, lambda h: replace(h, memory_values=h.memory_values + bound * (next(place) == which))
    )
    assert verdict(moved, bound).verdict != "confirmed"
    parts = TEXT.split(" + ")
    parts[which] = f"{1 + 3 * bound}*({parts[which]})"
    assert verdict(net.network, bound, " + ".join(parts)).verdict != "confirmed"


def test_offsets_that_cancel_between_heads_do_no_harm():
    net, place = compiled(), iter((1.0, -1.0, 0.0, 0.0, 0.0))
    moved = with_heads(net.network, lambda head: replace(head, memory_values=head.memory_values + next(place)))
    assert verdict(moved, 1.01 * net.certificate.bound).verdict == "confirmed"


def test_a_few_cells_decide_nothing():
    net = compiled()
    assert verdict(net.network, net.certificate.bound, cells=10).verdict == "undecided"


def constant(value, weight=0.0):
    """A head that reads nothing; a feature that nobody reads has the given weight."""
    head = Head(np.zeros((2, 1)), np.eye(1), memory_keys=np.zeros((1, 1)), memory_values=np.array([[value]]))
    lift = np.zeros((6, 2))
    lift[0, 1] = weight
    return Network((Linear((Term(lift),)), Attention((head,))), 6, 1)


def test_heads_that_read_nothing_are_not_passed_over():
    with pytest.raises(BeyondReachError, match="Heads read inputs"):
        verdict(constant(5.0), 1.0, "0")


def test_features_that_overflow_are_noticed_though_nobody_reads_them():
    """Infinity times zero is not a number, in the queries of every head."""
    net = compiled()
    lift, heads = net.network.layers
    wide = np.c_[lift.terms[0].map, np.full((6, 1), 60000.0)]
    more = replace(lift, terms=(Term(wide),), constant=np.c_[lift.constant, [[0.0]]])
    blind = tuple(replace(head, query=np.r_[head.query, np.zeros((1, head.query.shape[1]))]) for head in heads.heads)
    network = replace(net.network, layers=(more, replace(heads, heads=blind)))
    assert verdict(network, 1.01 * net.certificate.bound).verdict == "confirmed"
    with pytest.raises(BeyondReachError, match="fit float16"):
        verdict(network, 10.0, dtype="float16")


def test_other_layers_are_out_of_reach():
    net = compiled()
    lift, heads = net.network.layers
    twice = replace(net.network, layers=(lift, heads, Linear((Term(np.eye(1)),))))
    with pytest.raises(BeyondReachError, match="heads follow linear maps"):
        verdict(twice, 1.0)
