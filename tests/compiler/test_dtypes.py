"""In every dtype the bound, rounding included, is at most tol; else the refusal names a tol that can be had."""

from __future__ import annotations

import re
import warnings
from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import attnforge as af
from attnforge.balls import machine, round_to
from attnforge.certification.certify import certify as prove
from attnforge.compiler.attempt import advice
from attnforge.compiler.finest import finest, rounded_up
from attnforge.compiler.targets import as_target
from attnforge.theorems.gate import Gate
from attnforge.theorems.tensor_grid import TensorGrid

LINE = {"x": (-1, 1)}
NARROW = ("float32", "bfloat16", "float16")


def steep(x):
    return np.sin(4 * x)


def mlp():
    import torch

    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(2, 4), torch.nn.ReLU(), torch.nn.Linear(4, 1)).double()


CASES = {
    "exp": ("exp(x)", LINE),
    "clamp": ("clamp(2*x - 0.5, -1, 1)", LINE),
    "callable": (steep, LINE),
    "mlp": (mlp(), [(-1, 1), (-1, 1)]),
}


@cache
def refusal(name, dtype, tol=1e-11, **limits):
    with pytest.raises(af.RefusalError) as caught:
        af.compile(*CASES[name], tol=tol, dtype=dtype, **limits)
    return caught.value


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        *(("exp", dtype) for dtype in NARROW),
        *(("mlp", dtype) for dtype in NARROW),
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
    assert machine(dtype).roundoff / 8 < stated <= smallest < 1
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


def test_the_number_is_in_the_text_with_what_to_do():
    error = refusal("exp", "float32", 1e-7)
    found = re.search(
        r"smallest tol found is (\S+), by tensor_grid\. Ask for tol >= (\S+), or (.*?)\. Reasons:", str(error)
    )
    assert [float(found.group(1)), float(found.group(2))] == [error.smallest_tol] * 2
    assert found.group(3) == 'compile with dtype="float64"'


def test_float64_is_advised_only_where_it_helps():
    assert "float64" in advice(1e-5, 1e-9, "float32")
    assert "float64" not in advice(1e-5, 1e-16, "float32")
    assert "float64" not in advice(1e-13, 1e-14, "float64")


def test_by_name_it_is_a_tolerance_error_that_names_it():
    with pytest.raises(af.ToleranceError) as caught:
        af.compile("clamp(x, -1, 1)", {"x": (-2, 2)}, 1e-12, construction="gate", dtype="float32")
    smallest = caught.value.smallest_tol
    net = af.compile("clamp(x, -1, 1)", {"x": (-2, 2)}, smallest, construction="gate", dtype="float32")
    assert net.certificate.bound <= smallest


def test_limits_hold_for_what_is_named():
    free, limited = (refusal("exp", "float32", 1e-9, max_anchors=n).smallest_tol for n in (None, 5))
    assert free < limited
    net = af.compile(*CASES["exp"], tol=limited, dtype="float32", max_anchors=5)
    assert net.anchors <= 5
    assert net.certificate.bound <= limited


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_no_size_asked_for_does_much_better(dtype):
    """Brute force over what the fit is asked for, three a decade."""
    target, grid, bounds = as_target("exp(x)", LINE), TensorGrid(), []
    for share in np.geomspace(1e-2, 1e-6, 13).tolist():
        try:
            plan = grid.size(target, share, dtype)
        except (af.RefusalError, af.ToleranceError):
            continue
        bounds.append(prove(grid.build(target, plan), target, dtype=dtype).bound)
    assert finest(grid, target, dtype).tol <= 2 * min(bounds)


def test_near_the_roundoff_of_float64_tol_is_met_as_measured_and_the_reason_says_so():
    smallest = refusal("exp", "float64", 1e-17).smallest_tol
    net = af.compile(*CASES["exp"], tol=smallest)
    assert 1e-16 < net.certificate.estimate.error <= smallest < 1e-12
    assert net.certificate.bound <= smallest or "tol is met as measured" in net.reason


def test_what_cannot_be_fitted_names_nothing():
    noise = np.random.default_rng(0)
    with pytest.raises(af.RefusalError) as caught:
        af.compile(lambda x: noise.normal(size=x.shape), LINE, 1e-6, dtype="float32")
    assert caught.value.smallest_tol is None
    assert "smallest tol" not in str(caught.value)


def test_errors_name_nothing_unless_told():
    assert af.RefusalError("No").smallest_tol is None
    assert af.ToleranceError("No", smallest_tol=0.5).smallest_tol == 0.5


def test_a_plan_that_does_not_depend_on_tol_is_found_at_once():
    class Counted(Gate):
        built = 0

        def build(self, target, plan):
            type(self).built += 1
            return super().build(target, plan)

    assert finest(Counted(), as_target("clamp(x, -1, 1)", {"x": (-2, 2)}), "float32").tol < 1e-4
    assert Counted.built <= 3


def test_cells_that_a_dtype_cannot_tell_apart_are_not_built():
    text = str(refusal("exp", "float16", 1e-3))
    assert re.search(r"max_affine.*: [\d,]+ cells, more than float16 can tell apart", text)


@given(st.floats(1e-300, 1e300))
def test_two_digits_never_below(value):
    up = rounded_up(value)
    assert value <= up <= 1.1001 * value
    assert float(f"{up:.2g}") == up


def reordered(network, x, rng, single=np.float32):
    """One layer of heads over constant keys, in float32, features and keys added up one by one in a random order."""
    total = np.zeros(len(x), single)
    tokens = np.column_stack([x, np.ones_like(x)]).astype(single)
    for head in network.heads:
        query, keys, values = (np.asarray(part, single) for part in (head.query, head.memory_keys, head.memory_values))
        order, features = rng.permutation(len(keys)), rng.permutation(keys.shape[1])
        asked = tokens @ query
        scores = np.zeros((len(x), len(keys)), single)
        for feature in features:
            scores += asked[:, feature, None] * keys[:, feature]
        weights = np.exp(scores - scores.max(axis=1, keepdims=True))[:, order]
        mass = np.add.accumulate(weights, axis=1)[:, -1]
        total += np.add.accumulate(weights * values[order, 0], axis=1)[:, -1] / mass * single(head.output[0, 0])
    return total


@pytest.mark.parametrize(("text", "tol"), [("exp(x)", 1e-3), ("exp(x)", 5e-5), ("1/(1 + 25*x^2)", 1e-3)])
def test_the_bound_holds_for_any_order_of_summation(text, tol):
    net, rng = af.compile(text, LINE, tol, dtype="float32"), np.random.default_rng(0)
    x = np.concatenate([rng.uniform(-1, 1, 20_000), [-1.0, 1.0]]).astype(np.float32).astype(np.float64)
    wanted = as_target(text, LINE).values(x[:, None])
    exact = reordered(net.network, x, rng, np.float64)
    errors = [np.abs(reordered(net.network, x, rng) - wanted).max() for _ in range(5)]
    assert np.abs(exact - wanted).max() > 0
    assert len({float(error) for error in errors}) > 1
    assert max(errors) <= net.certificate.bound <= tol


def test_narrow_inputs_are_taken_as_they_are_held():
    """A point that bfloat16 cannot hold is rounded first; the bound covers that."""
    net, x = af.compile("exp(x)", LINE, 1e-1, dtype="bfloat16"), np.array([1 / 3, -0.7071])
    assert not np.array_equal(round_to(x, "bfloat16"), x)
    assert np.abs(net(x) - np.exp(x)).max() <= net.certificate.bound
