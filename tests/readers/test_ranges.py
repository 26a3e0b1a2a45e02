"""Ranges hold what networks output: random ones in every dtype, built ones, and built ones that were changed."""

from __future__ import annotations

import pkgutil
from dataclasses import replace

import numpy as np
import pytest

import attnforge as af
from tests.laws.forms import form, of_one_length
from tests.laws.forms import spread as points_of
from tests.readers import comparison
from tests.readers.built import BUILT, QUICK, built
from tests.readers.mutations import mutations
from tests.readers.networks import random_case

SEEDS = range(40)
FEW = replace(QUICK, boxes=64, intervals=256, pairs=2e5)  # few cells: ranges are wide, and must hold all the same
POINTS = 400
CHANGES = 4  # of every network


def boxes_of(net: af.Compiled, rng: np.random.Generator) -> af.Box:
    """A random box of the domain, of tokens as many as the network takes."""
    box = net.domain if form(net) == "two inputs" else of_one_length(net)
    ends = np.sort(rng.uniform(size=(2, *box.shape)), axis=0)
    lower, upper = box.lower + ends * (box.upper - box.lower)
    return af.Box(lower, np.minimum(upper, box.upper))


def points_in(box: af.Box, rng: np.random.Generator) -> np.ndarray:
    """Corners, points of edges, random ones."""
    return points_of(box, rng, POINTS)


def violation(net: af.Compiled, box: af.Box, rng: np.random.Generator) -> float | None:
    """How far outputs are outside of the range; None where there is no range."""
    try:
        low, high = net.range(box, effort=FEW)
    except af.AttnforgeError:
        return None
    with np.errstate(all="ignore"):
        found = net.at_points(points_in(box, rng))
    return float(np.nan_to_num(np.maximum(low - found, found - high), nan=np.inf).max())


def test_random_networks_in_every_dtype():
    ranges = 0
    for seed in SEEDS:
        case = random_case(seed)
        points = case.points(np.random.default_rng([seed, 3]), 40)
        for dtype in comparison.DTYPES:
            try:
                low, high = comparison.range_of(case, dtype, FEW)
            except af.AttnforgeError:
                continue
            found = comparison._torch(case, dtype, points)
            known = np.isfinite(low) & np.isfinite(high)
            ranges += int(known.all())
            inside = (found >= low) & (found <= high)
            assert (inside | ~known).all(), f"seed {seed}, {dtype}"
    assert ranges > 2 * len(SEEDS), "most ranges are finite"


@pytest.mark.parametrize("name", BUILT)
def test_a_changed_network_lies_in_its_own_range(name):
    """With the certificate of the network it was: nobody believes it."""
    net, rng = built(name), np.random.default_rng([1, *name.encode()])
    assert violation(net, boxes_of(net, rng), rng) <= 0.0
    for mutation in rng.permutation(list(mutations(net.network, rng, 1)))[:CHANGES]:
        try:
            changed = replace(net, network=mutation.make())
            changed.at_points(points_in(boxes_of(net, rng), rng)[:1])
        except af.AttnforgeError:
            continue  # no such network, or not one of the target's inputs
        apart = violation(changed, boxes_of(net, rng), rng)
        assert apart is None or apart <= 0.0, mutation.what


@pytest.mark.parametrize(("name", "part"), [("relu", "certify"), ("partition", "run_network")])
def test_proofs_that_err_are_seen(name, part, monkeypatch):
    """A bound that is none, and models without their rest, which hold no rounding and no curvature."""
    place = f"attnforge.certification.output_range.{part}"
    original = pkgutil.resolve_name(place)

    def broken(*given, **options):
        found = original(*given, **options)
        return replace(found, bound=-1e-3) if part == "certify" else replace(found, c=0.99 * found.c)

    monkeypatch.setattr(place, broken)
    net, rng = built(name), np.random.default_rng(0)
    assert any(violation(net, boxes_of(net, rng), rng) > 0 for _ in range(10))
