"""In every dtype the bound, rounding included, is at most tol; else the refusal names a tol that can be had."""

from __future__ import annotations

import warnings
from functools import cache

import numpy as np
import pytest

import attnforge as af
from tests.refusals import refused

LINE = {"x": (-1, 1)}
NARROW = ("float32", "bfloat16", "float16")
ROUNDOFF = {"float32": 2.0**-24, "bfloat16": 2.0**-8, "float16": 2.0**-11}


def steep(x):
    return np.sin(4 * x)


CASES = {
    "exp": ("exp(x)", LINE),
    "clamp": ("clamp(2*x - 0.5, -1, 1)", LINE),
    "callable": (steep, LINE),
    "kinks": ("max(x, abs(y - x)/2)", {"x": (-1, 1), "y": (-1, 1)}),
}


@cache
def refusal(name, dtype, tol=1e-11, **limits):
    with refused(af.RefusalError) as caught:
        af.compile(*CASES[name], tol=tol, dtype=dtype, **limits)
    return caught.value


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        *(("exp", dtype) for dtype in NARROW),
        *(("kinks", dtype) for dtype in NARROW),
        ("clamp", "bfloat16"),
        ("clamp", "float32"),
        ("callable", "float16"),
    ],
)
def test_what_a_refusal_names_can_be_had(name, dtype):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        smallest = refusal(name, dtype).smallest_tol
        net = af.compile(*CASES[name], tol=smallest, dtype=dtype)
    certificate = net.certificate
    assert (certificate.dtype, net.dtype) == (dtype, dtype)
    stated = certificate.estimate.error if name == "callable" else certificate.bound
    assert ROUNDOFF[dtype] / 8 < stated <= smallest < 1
    if name != "callable":
        assert af.measure(net, points=5_000).sup <= certificate.bound
        assert sum(certificate.parts.values()) == pytest.approx(certificate.bound)


@pytest.mark.parametrize("dtype", NARROW)
@pytest.mark.parametrize("tol", [1e-1, 1e-2, 1e-4])
def test_a_bound_within_tol_or_a_refusal(tol, dtype):
    smallest = refusal("exp", dtype).smallest_tol
    if tol < smallest:
        assert refusal("exp", dtype, tol).smallest_tol == smallest
        return
    net = af.compile("exp(x)", LINE, tol, dtype=dtype)
    assert net.certificate.status == "proved"
    assert net.certificate.estimate.error <= net.certificate.bound <= tol
    assert "as measured" not in net.reason


def test_near_the_roundoff_of_float64_tol_is_met_as_measured_and_the_reason_says_so():
    smallest = refusal("exp", "float64", 1e-17).smallest_tol
    net = af.compile(*CASES["exp"], tol=smallest)
    assert 1e-16 < net.certificate.estimate.error <= smallest < 1e-12
    assert net.certificate.bound <= smallest or "tol is met as measured" in net.reason


def test_by_name_it_is_a_tolerance_error_that_names_what_can_be_had():
    how = {"construction": "gate", "dtype": "float32"}
    with refused(af.ToleranceError) as caught:
        af.compile("clamp(x, -1, 1)", {"x": (-2, 2)}, 1e-12, **how)
    smallest = caught.value.smallest_tol
    assert f"tol >= {smallest:g}" in str(caught.value)
    assert af.compile("clamp(x, -1, 1)", {"x": (-2, 2)}, smallest, **how).certificate.bound <= smallest


def test_float64_is_advised_only_where_it_helps():
    assert 'dtype="float64"' in str(refusal("exp", "float32", 1e-9))
    assert "dtype=" not in str(refusal("exp", "float32", 1e-18)).partition("Reasons")[0]
    assert "dtype=" not in str(refusal("exp", "float64", 1e-17)).partition("Reasons")[0]


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_no_number_of_anchors_does_much_better_than_what_is_named(dtype):
    """Brute force over what a fit may have."""
    nets = [af.constructions.tensor_grid(*CASES["exp"], anchors=n, dtype=dtype, effort="low") for n in range(2, 40, 3)]
    best = min(net.certificate.bound for net in nets if net.certificate.bound is not None)
    assert refusal("exp", dtype).smallest_tol <= 2 * best


@pytest.mark.parametrize(("text", "tol"), [("exp(x)", 1e-3), ("exp(x)", 5e-5), ("1/(1 + 25*x^2)", 1e-3)])
def test_the_bound_holds_for_any_order_of_summation(text, tol):
    """Keys added up one by one in float32, in random orders."""
    net, rng, single = af.compile(text, LINE, tol, dtype="float32"), np.random.default_rng(0), np.float32
    x, errors = np.append(rng.uniform(-1, 1, 20_000), [-1.0, 1.0]).astype(single), set()
    (head,) = net.network.heads
    scores = np.column_stack([x, np.ones_like(x)]) @ head.query.astype(single) @ head.memory_keys.T.astype(single)
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    values = head.memory_values[:, 0].astype(single) * single(head.output[0, 0])
    for _ in range(5):
        order = rng.permutation(len(values))
        mass, total = (np.add.accumulate(part[:, order], axis=1)[:, -1] for part in (weights, weights * values))
        errors.add(np.abs((total / mass).astype(np.float64) - af.formula(text)(x=x.astype(np.float64))).max())
    assert len(errors) > 1
    assert max(errors) <= net.certificate.bound <= tol
