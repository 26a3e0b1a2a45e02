"""Rates: the error falls like 1/p and like 1/H, from below and above, head borders included."""

import numpy as np
import pytest

import attnforge as af
from tests.laws.cases import PROVED, changed, running, with_head, worst

BOX = af.Box(-1.5, 2.5)
A, B = -1.0, 2.0
COUNTS = (16, 32, 64, 128, 256, 512, 1024, 2048, 4096)


def slope(counts, errors):
    return np.polyfit(np.log(counts), np.log(errors), 1)[0]


def form(values):
    """Points of a one-feature network whose form is the value itself."""
    return np.clip(np.asarray(values), -1.5, 2.5)[:, None, None]


def between_anchors(p, seen=12):
    """Points at and beside the midpoints of a few brackets, where a staircase errs most, and beside both ends."""
    h = (B - A) / (p - 1)
    brackets = np.unique(np.linspace(0, p - 2, seen).astype(int))
    fractions = np.concatenate([np.linspace(0, 1, 41), 0.5 + np.array([-1, 1, -30, 30]) * 1e-3])
    inside = A + h * (brackets[:, None] + fractions)
    ends = np.concatenate([A - h * np.linspace(0, 2, 21), B + h * np.linspace(0, 2, 21)])
    return form(np.concatenate([inside.ravel(), ends]))


def one_head(p, sharpness):
    return af.constructions.truncated_linear(
        [1.0], 0.0, A, B, anchors=p, sharpness=sharpness, domain=BOX, effort=PROVED
    )


def test_one_head_has_rate_minus_one_in_anchors():
    nets = [one_head(p, "hard") for p in COUNTS]
    errors = [worst(net, between_anchors(p)) for p, net in zip(COUNTS, nets, strict=True)]
    assert slope(COUNTS, errors) == pytest.approx(-1.0, abs=0.03)
    for net, error in zip(nets, errors, strict=True):
        assert 0.8 * net.certificate.bound <= error <= net.certificate.bound


@pytest.mark.parametrize("p", [16, 128, 1024])
def test_tuned_is_five_times_below_hard(p):
    hard, tuned = one_head(p, "hard"), one_head(p, "tuned")
    assert 5 * worst(tuned, between_anchors(p)) <= worst(hard, between_anchors(p))
    assert 5 * tuned.certificate.bound <= hard.certificate.bound


@pytest.mark.parametrize("grid", ["closed", "open"])
def test_the_open_grid_is_off_by_a_whole_step_at_its_end(grid):
    net = af.constructions.truncated_linear(
        [1.0], 0.0, A, B, anchors=30, sharpness="hard", grid=grid, domain=BOX, effort=PROVED
    )
    h = (B - A) / (29 if grid == "closed" else 30)
    error = worst(net, form([B, B + 0.1]))
    assert error == pytest.approx(h if grid == "open" else 0.0, abs=1e-9 * h)
    assert error <= net.certificate.bound <= 1.01 * h


def borders(heads, own, h, dense=61):
    """Dense points within two steps of every border between heads, and of both ends."""
    places = np.concatenate([[0], own * np.arange(1, heads) - 0.5, [own * heads - 1]])
    return form((A + h * (places[:, None] + np.linspace(-2, 2, dense))).ravel())


@pytest.mark.parametrize(("sharpness", "sentinels"), [("hard", 1), ("tuned", 2)])
def test_heads_have_rate_minus_one_borders_included(sharpness, sentinels):
    counts, own, errors = (1, 2, 4, 8, 16, 32, 64), 16, []
    for heads in counts:
        net = af.constructions.multihead_truncated_linear(
            [1.0], 0.0, A, B,
            tokens=own + 2 * sentinels, heads=heads, sentinels=sentinels, sharpness=sharpness, domain=BOX,
        )  # fmt: skip
        h = (B - A) / (heads * own - 1)
        x = np.concatenate([borders(heads, own, h), between_anchors(heads * own)])
        errors.append(worst(net, x))
        assert errors[-1] <= net.certificate.bound
    assert slope(counts, errors) == pytest.approx(-1.0, abs=0.05)


def test_a_sentinel_half_a_step_off_spoils_the_borders():
    """The mutation of the rate law: the error jumps to the size of the values, and the certificate says so."""
    net = af.constructions.multihead_truncated_linear([1.0], 0.0, A, B, tokens=20, heads=4, domain=BOX, effort=PROVED)
    head = net.network.heads[1]
    at = head.claims.roles.index("sentinel") + 1  # the left sentinel next to the own anchors
    kappa = head.memory_keys[at, 0] + 0.5
    keys = head.memory_keys.copy()
    keys[at, :2] = kappa, kappa**2
    mutant = with_head(net.network, 1, memory_keys=keys)
    x = borders(4, 16, (B - A) / 63)
    assert worst(net, x) <= net.certificate.bound
    assert worst(running(net, mutant), x) > 10 * net.certificate.bound
    assert af.certify(mutant, net.target).bound >= worst(running(net, mutant), x)


@pytest.mark.parametrize("side", [0, -1])
def test_a_ghost_worth_nothing_spoils_an_end(side):
    net = af.constructions.multihead_truncated_linear([1.0], 0.0, A, B, tokens=20, heads=4, domain=BOX, effort=PROVED)
    index = 0 if side == 0 else 3
    values = net.network.heads[index].memory_values
    mutant = with_head(net.network, index, memory_values=changed(values, (side, 0), 0.0))
    x = form([A - 0.4, B + 0.4])
    assert worst(running(net, mutant), x) > 10 * net.certificate.bound
    assert af.certify(mutant, net.target).bound >= worst(running(net, mutant), x)


def test_a_dropped_ghost_is_refused_or_charged():
    net = af.constructions.multihead_truncated_linear([1.0], 0.0, A, B, tokens=20, heads=4, domain=BOX, effort=PROVED)
    head = net.network.heads[0]
    claims = head.claims
    short = with_head(
        net.network,
        memory_keys=head.memory_keys[2:],
        memory_values=head.memory_values[2:],
        claims=type(claims)(claims.construction, claims.sharpness, claims.positions[2:], claims.roles[2:]),
    )
    x = form(np.linspace(A - 0.4, B + 0.4, 2001))
    assert af.certify(short, net.target).bound >= worst(running(net, short), x)
