"""What is measured, attacked and enclosed of every network of the catalogue agrees with what is proved of it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import attnforge as af
from attnforge.network import Attention, Network
from tests.accounts import read, title
from tests.catalogue import ENTRIES, FORMULAS, network
from tests.laws.forms import GAPS, form, given, of_one_length, spread

FEW = af.Effort(points=200, climbers=4, rounds=4, tries=4, boxes=64, intervals=256, pairs=2e5)  # wide, and true
EVALUATIONS = 400  # of an attack
GOLDEN = read()
EVERY = [(name, dtype) for name, entry in ENTRIES.items() for dtype in entry.dtypes]
BOUNDED = [each for each in EVERY if GOLDEN[title(*each)].get("bound") is not None]
OWN = [name for name, dtype in BOUNDED if dtype == ENTRIES[name].dtypes[0]]


def can(law: str, name: str, dtype: str | None = None) -> af.Compiled:
    """The network, where its form keeps the law; the table of gaps says where not."""
    net = network(name, dtype)
    if (form(net), law) in GAPS:
        pytest.skip(GAPS[form(net), law])
    return net


def doubled(net: af.Compiled) -> af.Compiled:
    """With outputs twice as large: the old certificate is not about it."""
    *layers, last = net.network.layers
    if isinstance(last, Attention):
        last = replace(last, heads=tuple(replace(head, output=2 * head.output) for head in last.heads))
    else:
        constant = None if last.constant is None else 2 * last.constant
        last = replace(last, terms=tuple(replace(term, map=2 * term.map) for term in last.terms), constant=constant)
    return replace(net, network=replace(net.network, layers=(*layers, last)))


@pytest.mark.parametrize(("name", "dtype"), BOUNDED)
def test_the_measured_error_is_within_the_bound(name, dtype):
    net = can("measure", name, dtype)
    assert af.measure(net, points=400, seed=7, effort=FEW).sup <= net.certificate.bound


@pytest.mark.parametrize("name", OWN)
def test_an_attack_does_not_exceed_the_bound(name):
    net = can("attack", name)
    if form(net) == "listed":
        pytest.skip("listed points are all measured")
    attack = af.attack(net, seconds=None, evaluations=EVALUATIONS, seed=3, effort=FEW)
    assert attack.error <= net.certificate.bound


@pytest.mark.parametrize("name", ["readme", "grid", "graph", "deep relu", "truncated", "multiplier", "partition"])
def test_outputs_twice_as_large_are_measured_and_attacked(name):
    """The mutation that breaks both laws."""
    net = doubled(network(name))
    assert af.measure(net, points=400, seed=7, effort=FEW).sup > net.certificate.bound
    assert af.attack(net, seconds=None, evaluations=EVALUATIONS, effort=FEW).error > net.certificate.bound


def outside(net: af.Compiled, seed: int) -> float:
    """By how much outputs on a random box of the domain leave the range that is proved there."""
    rng, box = np.random.default_rng(seed), of_one_length(net)
    ends = np.sort(rng.uniform(size=(2, *box.shape)), axis=0)
    lower, upper = box.lower + ends * (box.upper - box.lower)
    part = af.Box(lower, np.minimum(upper, box.upper))
    low, high = net.range(part, effort=FEW)
    values = np.asarray(net(spread(part, rng, 200)))
    return float(np.nan_to_num(np.maximum(low - values, values - high), nan=np.inf).max())


@pytest.mark.parametrize("name", OWN)
def test_ranges_hold_the_outputs(name):
    net = can("range", name)
    if form(net) not in ("point", "tokens"):
        pytest.skip("a range is that of one input on a box")
    assert outside(net, seed=1) <= 0.0
    assert outside(net, seed=2) <= 0.0


@pytest.mark.parametrize("name", ["readme", "graph", "deep relu"])
def test_the_range_of_another_network_is_left(name, monkeypatch):
    """The mutation: the range of the network before its outputs were doubled and moved."""
    net = network(name)
    low, high = net.range(effort=FEW)
    values = np.asarray(doubled(net)(*given(net, 400)))
    assert ((values < low) | (values > high)).any()


@pytest.mark.parametrize("name", ["sine", "polynomial", "bell", "zoo: sine"])
def test_no_values_on_the_same_keys_are_better_than_the_optimum(name):
    net = network(name)
    optimum = af.optimality(net)
    assert 0 < optimum.lower <= net.certificate.bound
    worse = af.optimality(doubled(net))  # of other values on the same keys: the optimum is that of the keys
    assert worse.lower == pytest.approx(optimum.lower, rel=0.05)


BEYOND = {
    "fine wave": "graphs first: what rounding puts above the tolerance is handed over with its bound, not refused"
}


@pytest.mark.parametrize("name", FORMULAS)
def test_the_tolerance_is_kept(name):
    kept = network(name).certificate.bound <= FORMULAS[name][2]
    assert kept != (name in BEYOND)


def test_networks_of_any_layers_are_there():
    kinds = {type(layer).__name__ for name in ENTRIES for layer in _layers(name)}
    assert kinds == {"Attention", "Linear", "Softmax"}


def _layers(name: str) -> tuple[object, ...]:
    net = network(name)
    return () if net is None or not isinstance(net.network, Network) else net.network.layers
