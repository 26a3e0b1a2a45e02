"""Ranges hold what networks output: random ones in every dtype, built ones, and built ones that were changed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import attnforge as af
from attnforge.balls import machine
from attnforge.certification import output_range
from attnforge.certification.output_range import InputRows, run_outputs
from attnforge.effort import EFFORTS, Effort
from tests.readers import comparison
from tests.readers.built import BUILT, built
from tests.readers.mutations import mutations
from tests.readers.networks import random_case

SEEDS = range(40)
FEW = replace(
    EFFORTS["low"], boxes=64, intervals=256, pairs=2e5
)  # few cells: ranges are wide, and must hold all the same
POINTS = 400
CHANGES = 4  # of every network


def boxes_of(net: af.Compiled, rng: np.random.Generator, tokens: int = 2) -> af.Box:
    """A random box of the domain, of tokens as many as the network takes."""
    box = net.domain
    if net.target.layout == "tokens" and not net.network.context:
        box = box.fixed((net.network.tokens or (box.shape[0] if len(box.shape) == 2 else tokens), net.network.features))
    ends = np.sort(rng.uniform(size=(2, *box.shape)), axis=0)
    lower, upper = box.lower + ends * (box.upper - box.lower)
    return af.Box(lower, np.minimum(upper, box.upper))


def points_in(box: af.Box, rng: np.random.Generator) -> np.ndarray:
    """Corners, points of edges, random ones."""
    share = rng.uniform(size=(POINTS, *box.shape))
    share[: POINTS // 4] = share[: POINTS // 4].round()
    some = share[POINTS // 4 : POINTS // 2]
    some[rng.uniform(size=some.shape) < 0.5] = rng.integers(0, 2)
    return np.clip(box.lower + share * (box.upper - box.lower), box.lower, box.upper)


def violation(net: af.Compiled, box: af.Box, rng: np.random.Generator, effort: Effort = FEW) -> float | None:
    """How far outputs are outside of the range; None where there is no range."""
    try:
        low, high = net.range(box, effort=effort)
    except af.AttnforgeError:
        return None
    with np.errstate(all="ignore"):
        found = net.at_points(points_in(box, rng))
    return float(np.nan_to_num(np.maximum(low - found, found - high), nan=np.inf).max())


def test_random_networks_in_every_dtype():
    ranges = 0
    for seed in SEEDS:
        case, rng = random_case(seed), np.random.default_rng([seed, 3])
        state = InputRows.of(0, (case.tokens, case.network.features))
        told = None if not case.told else InputRows.of(case.inputs, (case.told, case.network.context[1]))
        points, box = case.points(rng, 40), af.Box(case.lower, case.upper)
        for dtype in comparison.DTYPES:
            try:
                outputs = run_outputs(case.network, (state, told), box, machine(dtype), FEW)
                (low,), (high,) = outputs.range(box.lower[None], box.upper[None])
            except af.AttnforgeError:
                continue
            found = comparison._torch(case, dtype, points)
            known = np.isfinite(low) & np.isfinite(high)
            ranges += int(known.all())
            inside = (found >= low) & (found <= high)
            assert (inside | ~known).all(), f"seed {seed}, {dtype}"
    assert ranges > 2 * len(SEEDS), "most ranges are finite"


@pytest.mark.parametrize("name", BUILT)
def test_outputs_of_every_construction_lie_in_their_range(name):
    net, rng = built(name), np.random.default_rng([*name.encode()])
    for _ in range(2):
        apart = violation(net, boxes_of(net, rng), rng)
        assert apart is not None
        assert apart <= 0.0


@pytest.mark.parametrize("name", BUILT)
def test_a_changed_network_lies_in_its_own_range(name):
    """With the certificate of the network it was: nobody believes it."""
    net, rng = built(name), np.random.default_rng([1, *name.encode()])
    for mutation in rng.permutation(list(mutations(net.network, rng, 1)))[:CHANGES]:
        try:
            changed = replace(net, network=mutation.make())
            changed.at_points(points_in(boxes_of(net, rng), rng)[:1])
        except af.AttnforgeError:
            continue  # no such network, or not one of the target's inputs
        apart = violation(changed, boxes_of(net, rng), rng)
        assert apart is None or apart <= 0.0, mutation.what


def test_a_range_of_the_network_before_is_seen_to_be_wrong():
    net, rng = built("sine"), np.random.default_rng(0)
    low, high = net.range(effort=FEW)
    for mutation in mutations(net.network, rng, 8):
        try:
            found = replace(net, network=mutation.make()).at_points(points_in(net.domain, rng))
        except af.AttnforgeError:
            continue
        if not ((found >= low) & (found <= high)).all():
            return
    pytest.fail("no change of the network leaves its range")


def test_a_forged_certificate_changes_nothing():
    net = built("gate")
    forged = replace(net.certificate, bound=0.0, parts=dict.fromkeys(net.certificate.parts, 0.0))
    assert replace(net, certificate=forged).range(effort=FEW) == net.range(effort=FEW)


@pytest.mark.parametrize(("name", "part"), [("relu", "certify"), ("partition", "run_network")])
def test_proofs_that_err_are_seen(name, part, monkeypatch):
    """A bound that is none, and models without their rest, which hold no rounding and no curvature."""
    original = getattr(output_range, part)

    def broken(*given, **options):
        found = original(*given, **options)
        if part == "certify":
            return replace(found, bound=-1e-3)
        return replace(found, c=0.99 * found.c)

    monkeypatch.setattr(output_range, part, broken)
    net, rng = built(name), np.random.default_rng(0)
    assert any(violation(net, boxes_of(net, rng), rng) > 0 for _ in range(10))
