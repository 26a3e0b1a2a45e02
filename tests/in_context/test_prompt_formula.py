"""Functions of a whole prompt: one network for every length, proved for all prompts of a box, refused elsewhere."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import attnforge as af
from attnforge.network import Rows, flatten, head_places, moved, with_head
from tests.refusals import refused

SLOPE = "tokens.mean(x*y)/tokens.mean(x^2)*q"
SQUARE = {"x": (-1, 1), "y": (-1, 1), "q": (-1, 1)}
ENOUGH = {"tokens.mean(x^2)": (0.2, None)}
VARIANCE = "tokens.mean(x^2) - tokens.mean(x)^2"
COVARIANCE = "(tokens.mean(x*y) - tokens.mean(x)*tokens.mean(y))"
SPREAD = {VARIANCE: (0.3, None), VARIANCE.replace("x", "y"): (0.3, None)}


@pytest.fixture(scope="module")
def slope():
    return af.compile(SLOPE, SQUARE, 1e-8, given=ENOUGH)


@pytest.fixture(scope="module")
def small():
    return af.compile("tokens.mean(x)*q + tokens.mean(x^2)", {"x": (-1, 1), "q": (0, 1)}, 1e-6, tokens=100)


def drawn(target, n):
    """Assembled prompts of the box that meet the conditions."""
    tokens = np.random.default_rng(0).uniform(target.box.lower, target.box.upper, (100, n, len(target.names)))
    tokens[..., len(target.features) :] = tokens[:, :1, len(target.features) :]
    return tokens[target.meets(tokens)]


def largest_error(network, target, n):
    tokens = drawn(target, n)
    with np.errstate(all="ignore"):
        found = np.abs(network(tokens)[:, 0, 0] - target.values(tokens.astype(np.longdouble))).max(initial=0.0)
    return np.inf if np.isnan(found) else float(found)


@pytest.mark.parametrize("n", [3, 30, 1000, 100_000])
def test_least_squares_prediction_for_every_length(slope, n):
    rng = np.random.default_rng(n)
    x, y, q = rng.uniform(0.5, 1, n), rng.uniform(-1, 1, n), 0.7
    exact = q * (x.astype(np.longdouble) * y).mean() / (x.astype(np.longdouble) ** 2).mean()
    assert abs(slope(np.stack([x, y], axis=1), q) - exact) <= 1e-11


CASES = {
    "variance": (VARIANCE, {"x": (-1, 1)}, None, None),
    "correlation": (
        f"{COVARIANCE}/sqrt(({VARIANCE})*({VARIANCE.replace('x', 'y')}))", {"x": (-1, 1), "y": (-1, 1)}, SPREAD, None,
    ),
    "least squares": (
        f"tokens.mean(y) + {COVARIANCE}/({VARIANCE})*(q - tokens.mean(x))", SQUARE, {VARIANCE: (0.5, None)}, None,
    ),
    "kernel average": (
        "tokens.mean(y*exp(-2*(x - q)^2))/tokens.mean(exp(-2*(x - q)^2))",
        SQUARE, {"tokens.mean(exp(-2*(x - q)^2))": (0.2, None)}, "q",
    ),
    "linear attention": ("q*tokens.mean(k*v)", {"k": (-1, 1), "v": (-1, 1), "q": (-1, 1)}, None, None),
    "a mean alone": ("tokens.mean(x)", {"x": (0, 3)}, None, None),
    "a multiple of what a condition is about": (f"1/(2*({VARIANCE}))", {"x": (-1, 1)}, {VARIANCE: (0.3, None)}, None),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_proved_for_all_prompts_of_up_to_a_million_tokens(name):
    text, domain, given, query = CASES[name]
    net = af.compile(text, domain, 1e-8, given=given, query=query)
    assert net.certificate.status == "proved"
    assert net.certificate.bound <= 1e-8
    assert "at most 1,000,000 tokens" in " ".join(net.certificate.assumptions)
    assert net.network.tokens is None
    for n in (1, 2, 7, 200):
        assert largest_error(net.network, net.target, n) <= net.certificate.bound


def test_the_bound_as_a_function_of_n(slope):
    """What the certificate says of n tokens is above what is proved of so many, and rounding is less for fewer."""
    text = next(each for each in slope.certificate.assumptions if each.startswith("of n tokens"))
    base, _, rate, _ = text.removeprefix("of n tokens the bound is at most ").split()
    bounds = [slope.certify(n).bound for n in (10, 1000, 10**6)]
    assert bounds == sorted(bounds)
    for n, bound in zip((10, 1000, 10**6), bounds, strict=True):
        assert bound <= (float(base) + float(rate) * n) * 1.01
    assert bounds[0] < bounds[2] / 5


def test_shapes_and_kinds(slope):
    prompt = np.random.default_rng(0).uniform(0.5, 1, (4, 6, 2))
    assert slope(prompt, 0.3).shape == (4,)
    assert slope(prompt, np.full(4, 0.3)).shape == slope(prompt, np.full((4, 1), 0.3)).shape == (4,)
    assert slope(prompt[0], 0.3).shape == ()
    assert slope(prompt.astype(np.float32), 0.3).dtype == np.float32
    tensor = slope(torch.from_numpy(prompt), torch.tensor(0.3, dtype=torch.float64))
    np.testing.assert_allclose(tensor.numpy(), slope(prompt, 0.3), rtol=1e-15)
    query = torch.full((4, 1), 0.3, dtype=torch.float64)
    found = slope.module()(torch.from_numpy(prompt), query)
    np.testing.assert_allclose(found.numpy(), slope(prompt, 0.3), rtol=1e-14)
    one = af.compile("tokens.mean(x^2)", {"x": (0, 1)}, 1e-6)
    np.testing.assert_allclose(one([0.0, 0.5, 1.0]), 1.25 / 3, atol=1e-6)


MEAN, UNIT = "tokens.mean(x)", {"x": (0, 1)}
REFUSED = {
    "a quotient without a condition": (af.RefusalError, SLOPE, SQUARE, {}),
    "a root without a condition": (af.RefusalError, f"sqrt({VARIANCE})", {"x": (-1, 1)}, {}),
    "a condition about something else": (
        af.RefusalError, "1/(tokens.mean(x^2) - tokens.mean(x))", {"x": (-1, 1)}, {"given": {MEAN: (0.1, None)}},
    ),
    "beyond rounding": (af.ToleranceError, SLOPE, SQUARE, {"given": ENOUGH, "tol": 1e-11}),
    "a mean of a mean": (af.TargetError, "tokens.mean(x - tokens.mean(x))", UNIT, {}),
    "a token outside a mean": (af.TargetError, "x*tokens.mean(x)", UNIT, {}),
    "an idle name": (af.TargetError, MEAN, {"x": (0, 1), "z": (0, 1)}, {}),
    "a strange query": (af.TargetError, MEAN, UNIT, {"query": "z"}),
    "a strange mean": (af.TargetError, MEAN, UNIT, {"given": {"tokens.mean(x^3)": (0, 1)}}),
    "ends the wrong way": (af.TargetError, MEAN, UNIT, {"given": {MEAN: (1, 0)}}),
    "no prompt": (af.TargetError, MEAN, UNIT, {"given": {MEAN: (3, None)}}),
    "no prompt of that variance": (af.TargetError, VARIANCE, {"x": (-1, 1)}, {"given": {VARIANCE: (2, None)}}),
    "no tokens at all": (af.TargetError, MEAN, UNIT, {"tokens": 0}),
    "not of a prompt": (af.TargetError, "x^2", UNIT, {"given": {"x": (0, 1)}}),
    "by name": (af.TargetError, MEAN, UNIT, {"construction": "graph"}),
    "polished": (af.TargetError, MEAN, UNIT, {"polish": True}),
    "no domain": (af.DomainError, MEAN, None, {}),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name):
    kind, text, domain, options = REFUSED[name]
    with refused(kind):
        af.compile(text, domain, **{"tol": 1e-6} | options)


PROMPT = np.full((4, 2), 0.5)
WRONG = {
    "no query": lambda net: net(PROMPT),
    "outside": lambda net: net(2.5 * PROMPT, 0.1),
    "against the condition": lambda net: net(0 * PROMPT, 0.1),
    "a column": lambda net: net(PROMPT[:, :1], 0.1),
    "no rows": lambda net: net(PROMPT[:0], 0.1),
    "several queries": lambda net: net(PROMPT, [0.1, 0.2, 0.3]),
    "more than a million": lambda net: net.certify(10**7),
    "more than were asked for": lambda _: af.compile(MEAN, UNIT, tokens=3)([0.1] * 4),
}


@pytest.mark.parametrize("what", WRONG)
def test_wrong_prompts(slope, what):
    with refused():
        WRONG[what](slope)


def bound_of(net, network):
    """What is proved of another network, or None."""
    try:
        return af.certify(net.with_network(network)).bound
    except af.AttnforgeError:
        return None


def test_no_change_of_a_weight_is_overlooked(small):
    """Every array of every layer, one entry: refused, or the bound is still above the error."""
    rng, proved = np.random.default_rng(0), 0
    for name, array in flatten(small.network)[1].items():
        for size in (1e-3, 0.7) if "claims" not in name else ():
            at, whole = rng.integers(array.size), array.dtype.kind == "i"

            def change(each, at=at, size=size, whole=whole):
                each.flat[at] += 1 if whole else size * max(1.0, abs(each.flat[at]))
                return each

            try:
                other = moved(small.network, name, change)
            except af.TargetError:  # rows that are not there
                continue
            bound = bound_of(small, other)
            proved += bound is not None
            for n in (1, 3, 20) if bound is not None else ():
                assert largest_error(other, small.target, n) <= bound, name
    assert proved > 5


ROWS = (("key_rows", Rows.some([0])), ("query_rows", Rows()), ("query_rows", Rows.some([1])))


def test_no_change_of_rows_is_overlooked(small):
    bounds = []
    for i, j in head_places(small.network):
        for field, rows in ROWS:
            if getattr(small.network.layers[i].heads[j], field) is not None:
                other = with_head(small.network, i, j, **{field: rows})
                bounds.append(bound_of(small, other))
                assert bounds[-1] is None or largest_error(other, small.target, 3) <= bounds[-1]
    assert bounds.count(None) > 5


def test_claims_are_not_believed(small):
    """Another formula for any head is refused; with none, what is still proved holds."""
    claimed = 0
    for i, j in head_places(small.network):
        claims = small.network.layers[i].heads[j].claims
        for formula in ("r[1]", "r[1]^3", "0") if claims is not None else ():
            other = with_head(small.network, i, j, claims=replace(claims, formula=formula))
            assert bound_of(small, other) is None
            claimed += 1
        bound = bound_of(small, with_head(small.network, i, j, claims=None))
        assert bound is None or bound >= small.certificate.estimate.error
    assert claimed
