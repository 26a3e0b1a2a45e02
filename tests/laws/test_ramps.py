"""What the papers say of their constructions: rates, layouts, borders, dtypes, and what another interval is charged."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch

import attnforge as af
from tests.laws.cases import DTYPES, PROVED, SMALL, changed, crossing, running, truth, with_head, worst
from tests.refusals import refused

MAKE = af.constructions
BOX = af.Box(-1.5, 2.5)
A, B = -1.0, 2.0


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


def one_head(p, sharpness, **more):
    options = {"anchors": p, "sharpness": sharpness, "domain": BOX, "effort": PROVED}
    return MAKE.truncated_linear([1.0], 0.0, A, B, **options, **more)


def many_heads(heads, own=16, sentinels=2, sharpness="tuned"):
    tokens = own + 2 * sentinels
    options = {"tokens": tokens, "heads": heads, "sentinels": sentinels, "sharpness": sharpness, "domain": BOX}
    return MAKE.multihead_truncated_linear([1.0], 0.0, A, B, **options, effort=PROVED)


def borders(heads, own=16, dense=61):
    """Dense points within two steps of every border between heads, and of both ends."""
    places = np.concatenate([[0], own * np.arange(1, heads) - 0.5, [own * heads - 1]])
    return form((A + (B - A) / (heads * own - 1) * (places[:, None] + np.linspace(-2, 2, dense))).ravel())


def test_one_head_has_rate_minus_one_in_anchors():
    counts = (16, 64, 256, 1024, 4096)
    nets = [one_head(p, "hard") for p in counts]
    errors = [worst(net, between_anchors(p)) for p, net in zip(counts, nets, strict=True)]
    assert slope(counts, errors) == pytest.approx(-1.0, abs=0.03)
    for net, error in zip(nets, errors, strict=True):
        assert 0.8 * net.certificate.bound <= error <= net.certificate.bound


@pytest.mark.parametrize("sharpness", ["hard", "tuned"])
def test_doubling_anchors_halves_the_bound(sharpness):
    bounds = [one_head(p, sharpness).certificate.bound for p in (5, 9, 17, 33, 65)]
    assert np.allclose(np.array(bounds[:-1]) / bounds[1:], 2.0, rtol=1e-6)


@pytest.mark.parametrize("p", [16, 128, 1024])
def test_tuned_is_five_times_below_hard(p):
    hard, tuned = one_head(p, "hard"), one_head(p, "tuned")
    assert 5 * worst(tuned, between_anchors(p)) <= worst(hard, between_anchors(p))
    assert 5 * tuned.certificate.bound <= hard.certificate.bound


@pytest.mark.parametrize("grid", ["closed", "open"])
def test_the_open_grid_is_off_by_a_whole_step_at_its_end(grid):
    net, h = one_head(30, "hard", grid=grid), (B - A) / (29 if grid == "closed" else 30)
    error = worst(net, form([B, B + 0.1]))
    assert error == pytest.approx(h if grid == "open" else 0.0, abs=1e-9 * h)
    assert error <= net.certificate.bound <= 1.01 * h


@pytest.mark.parametrize(("sharpness", "sentinels"), [("hard", 1), ("tuned", 2)])
def test_heads_have_rate_minus_one_borders_included(sharpness, sentinels):
    counts, errors = (1, 4, 16, 64), []
    for heads in counts:
        net = many_heads(heads, sentinels=sentinels, sharpness=sharpness)
        errors.append(worst(net, np.concatenate([borders(heads), between_anchors(heads * 16)])))
        assert errors[-1] <= net.certificate.bound
    assert slope(counts, errors) == pytest.approx(-1.0, abs=0.05)


def test_a_sharper_gate_has_a_smaller_bound():
    bounds = [MAKE.gate([1.0], 0.0, -1, 1, sharpness=b).certificate.bound for b in (1e2, 1e4, 1e6)]
    assert bounds[0] > 50 * bounds[1] > 2500 * bounds[2]


def _sentinel_off(head):
    at = head.claims.roles.index("sentinel") + 1  # the left sentinel next to the own anchors
    kappa = head.memory_keys[at, 0] + 0.5
    keys = head.memory_keys.copy()
    keys[at, :2] = kappa, kappa**2
    return {"memory_keys": keys}


FAULTS = {
    "a sentinel half a step off": (1, _sentinel_off),
    "a first ghost worth nothing": (0, lambda head: {"memory_values": changed(head.memory_values, (0, 0), 0.0)}),
    "a last ghost worth nothing": (3, lambda head: {"memory_values": changed(head.memory_values, (-1, 0), 0.0)}),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_at_a_border_is_charged(fault):
    """The mutation of the rate law: the error jumps to the size of the values, and the certificate says so."""
    index, change = FAULTS[fault]
    net = many_heads(4)
    mutant = with_head(net.network, index, **change(net.network.heads[index]))
    x = np.concatenate([borders(4), form([A - 0.4, B + 0.4])])
    assert worst(net, x) <= net.certificate.bound
    assert worst(running(net, mutant), x) > 10 * net.certificate.bound
    assert af.certify(mutant, net.target).bound >= worst(running(net, mutant), x)


@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize("interval", [(-1.0, 1.7), (-0.8, 2.0), (-1.3, 2.3)])
def test_another_interval_is_refused_or_charged(name, interval):
    """The mutation "certificate computed for another interval": no bound below the true error."""
    net, target = SMALL[name](), type(SMALL[name]().target)
    other = target(net.target.w, net.target.t, *interval, net.domain)
    error = worst(af.Compiled(net.network, other, net.certificate, net.construction, net.dtype))
    assert error > net.certificate.bound
    try:
        bound = af.certify(net.network, other).bound
    except (af.RefusalError, af.CertificateError) as refusal:
        assert "defect" not in str(refusal)  # noqa: PT017
        return
    assert bound >= error


@pytest.mark.parametrize("w", [0.0, 5e-324, 1e-300, 1e-12])
@pytest.mark.parametrize("name", SMALL)
def test_a_form_that_hardly_varies_is_certified_without_warnings(name, w):
    more = {"truncated_linear": {"anchors": 8}, "multihead_truncated_linear": {"tokens": 10, "heads": 2}}.get(name, {})
    net = getattr(MAKE, name)([w], 0.3, -10, 20, **more)
    assert worst(net) <= net.certificate.bound


@pytest.mark.parametrize("name", SMALL)
def test_one_bit_of_a_weight_changes_the_digest(name):
    net = SMALL[name]()
    query = net.network.heads[0].query
    other = with_head(net.network, query=changed(query, (0, 0), np.nextafter(query[0, 0], np.inf)))
    assert af.certify(other, net.target).digest != net.certificate.digest


# Dtypes

WIDE = np.random.default_rng(8).normal(size=10)
SETTINGS = {
    "unit": (([1.0], 0.0, -1, 1), {"domain": af.Box(-2, 2)}),
    "default domain": (([1.0], 0.0, -1, 1), {}),
    "ten features": ((WIDE, 0.3, -25, 25), {"domain": af.Box(-5, 5)}),
}


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize(("dtype", "anchors"), [("bfloat16", 8), ("float16", 32), ("float32", 256)])
def test_promised_sizes_are_certified_tightly(setting, dtype, anchors):
    given, options = SETTINGS[setting]
    net = MAKE.truncated_linear(*given, anchors=anchors, dtype=dtype, **options)
    measured = af.measure(net, points=4000).sup
    assert measured <= net.certificate.bound <= 10 * measured
    exact = net.network(crossing(net, 300))[..., 0]
    run = net.module()(torch.from_numpy(crossing(net, 300))).to(torch.float64).numpy()
    assert 0 < np.abs(run - exact).max() <= 2 * net.certificate.parts["rounding"]


BEYOND = {
    **{f"too many anchors in {t}": (lambda t=t: one_head(20_000, "tuned", dtype=t)) for t in DTYPES[1:]},
    **{f"weights beyond {t}": (lambda t=t: MAKE.gate([1.0], 0.0, -1, 1, sharpness=1e39, dtype=t)) for t in DTYPES[1:]},
    "two heads in bfloat16": lambda: MAKE.multihead_truncated_linear(
        [1.0], 0.0, -1, 1, tokens=5, heads=2, sentinels=1, dtype="bfloat16", domain=af.Box(-2, 2)
    ),
    "queries": lambda: MAKE.truncated_linear([1.0], 0.0, -0.01, 0.01, anchors=32, dtype="float16"),
    "a gate's scores": lambda: MAKE.gate([1.0], 0.0, -1, 1, sharpness=6e4, dtype="float16"),
    "inputs": lambda: MAKE.gate([1.0], 0.0, -1, 1, dtype="float16", domain=af.Box(-1e5, 1e5)),
    "inputs of few anchors": lambda: MAKE.truncated_linear(
        [1e-3], 0.0, -1, 1, anchors=8, dtype="float16", domain=af.Box(-1e5, 1e5)
    ),
}


@pytest.mark.parametrize("what", BEYOND)
def test_what_a_dtype_cannot_hold_is_refused(what):
    """Anchors that it does not separate, and finite weights whose products leave its range."""
    with refused(af.RefusalError):
        BEYOND[what]()


def test_float64_does_not_refuse_them():
    assert one_head(20_000, "tuned").certificate.bound < 1e-4


def test_a_certificate_for_float64_does_not_cover_bfloat16():
    """The mutation: the same weights run in a coarser dtype exceed the finer one's bound."""
    fine = MAKE.truncated_linear([1.0], 0.3, -1, 1, anchors=100, domain=af.Box(-2, 2))
    coarse = af.Compiled(fine.network, fine.target, fine.certificate, fine.construction, "bfloat16")
    assert af.measure(coarse, points=2000).sup > fine.certificate.bound
    with refused(af.RefusalError):
        af.certify(coarse)


# The papers' own setting: d = 10, n = 50, x ~ U[-5, 5], w, t ~ N(0, 1) per token, [a, b] = [-25, 25]

TOKENS, FEATURES = 50, 10


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(2504)
    w, t = rng.normal(size=(TOKENS, FEATURES)), rng.normal(size=TOKENS)
    return w, t, rng.uniform(-5, 5, size=(400, TOKENS, FEATURES))


@pytest.mark.parametrize(
    ("c", "least", "most"), [(None, 0.05, 0.062), (1.4, 0, 3.5e-5), (3.0, 1e-3, 1), (36.0, 1e-3, 1)]
)
def test_mean_square_errors_of_one_head(data, c, least, most):
    """Hard as in the papers; a thousand times better at c = 1.4; another sharpness misses that."""
    w, t, x = data
    sharpness = "hard" if c is None else c / (50 / 59) ** 2
    net = MAKE.truncated_linear(w, t, -25, 25, anchors=60, sharpness=sharpness, domain=af.Box(-5, 5))
    error = np.abs(net(x) - truth(net, x))
    assert error.max() <= net.certificate.bound
    assert least <= float((error**2).mean()) <= most


def test_sixteen_heads_and_the_gate(data):
    w, t, x = data
    options = {"tokens": 50, "heads": 16, "sentinels": 2, "sharpness": 2 / (50 / (16 * 46 - 1)) ** 2}
    net = MAKE.multihead_truncated_linear(w[0], t[0], -25, 25, **options, domain=af.Box(-5, 5))
    assert net.anchors == 800
    assert float(((net(x) - truth(net, x)) ** 2).mean()) <= 2e-6
    gate = MAKE.gate(w, t, -25, 25, domain=af.Box(-5, 5))
    assert np.abs(gate(x) - truth(gate, x)).max() <= 1e-12
    assert gate.certificate.bound <= 1e-11


# Maps of known modulus


def ridges(x):
    """|sin| of two forms, of Lipschitz constant 8.5 in the sup norm."""
    flat = x.reshape(*x.shape[:-2], -1)
    inner = np.abs(np.sin(flat @ np.array([[3.0, -1.0], [1.0, 2.0]]) + np.array([0.1, 0.7])))
    return (inner @ np.array([[1.0, 0.3], [0.5, -0.7]])).reshape(*x.shape[:-2], 2, 1)


CELLS = {"max_affine": "cells", "two_layer": "grid", "softmax_tail": "grid"}


@pytest.mark.parametrize("name", CELLS)
def test_cells_of_a_map(name):
    """Errors halve when the grid doubles; no constant, no bound; a false one is refuted; absurd sizes are refused."""

    def make(count, **more):
        return getattr(MAKE, name)(ridges, af.Box(0, 1, shape=(2, 1)), **{CELLS[name]: count}, **more)

    counts = (6, 12, 24)
    errors = [af.measure(make(n, sharpness="hard", lipschitz=8.5, effort=PROVED), points=3000).sup for n in counts]
    assert slope(counts, errors) == pytest.approx(-1.0, abs=0.12)
    assert all(after < before for before, after in itertools.pairwise(errors))
    certificate = make(8, effort="low").certificate
    assert (certificate.status, certificate.bound) == ("sampled", None)
    with refused(af.TargetError):
        make(8, sharpness="hard", lipschitz=0.5)
    for absurd in (0, 10**5, 10**9):
        with refused(af.RefusalError):
            make(absurd, lipschitz=8.5)
