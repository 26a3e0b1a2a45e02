"""Truncated linear targets: values by hand, shapes, errors, storage."""

import numpy as np
import pytest

import attnforge as af
from attnforge.targets import TruncatedLinear, target_from_data

BOX = af.Box(-2, 2)


def test_values_by_hand():
    target = TruncatedLinear([1.0, -2.0], 0.5, -1, 1, BOX)
    points = np.array([[[0.25, 0.0]], [[2.0, 0.0]], [[0.0, 1.0]]])
    assert target.values(points).tolist() == [[0.75], [1.0], [-1.0]]
    assert target.forms(points).tolist() == [[0.75], [2.5], [-1.5]]
    assert target.features == 2
    assert target.domain.shape == (2,)


def test_each_token_has_its_own_form():
    target = TruncatedLinear([[1.0], [2.0], [-1.0]], [0.0, 0.5, 0.0], -1, 1, BOX)
    assert target.values(np.full((1, 3, 1), 0.25)).tolist() == [[0.25, 1.0, -0.25]]
    assert target.domain.shape == (3, 1)
    assert TruncatedLinear([1.0], [0.0, 0.5, 0.25], -1, 1, BOX).domain.shape == (3, 1)


def test_a_chosen_output():
    target = TruncatedLinear([1.0], 0.0, -1, 1, BOX, output=2, outputs=4)
    assert target.values(np.full((1, 1, 1), 0.5)).tolist() == [[[0.0, 0.0, 0.5, 0.0]]]


def test_the_form_is_exact():
    form = TruncatedLinear([0.1, 0.2], 0.3, -0.7, 0.9, BOX).truncated_form()
    assert form.weights.mid.tolist() == [[0.1, 0.2]]
    assert not form.weights.rad.any()
    assert (float(form.lower.mid), float(form.upper.mid), float(form.lower.rad)) == (-0.7, 0.9, 0.0)


@pytest.mark.parametrize(
    ("arguments", "options", "match"),
    [
        (([1.0], 0.0, 1, 1), {}, r"`upper` must exceed `lower`.*lower=1\.0, upper=1\.0.*Swap"),
        (([1.0], 0.0, 2, 1), {}, "empty"),
        (([np.nan], 0.0, -1, 1), {}, "`w` must be finite"),
        (([1.0], np.inf, -1, 1), {}, "`t` must be finite"),
        (([1.0], 0.0, -np.inf, 1), {}, "`lower` must be finite"),
        (([1.0], 0.0, [-1], 1), {}, "must be numbers"),
        (("w", 0.0, -1, 1), {}, "`w` must be numbers"),
        (([], 0.0, -1, 1), {}, r"`w` must have shape \(d,\) or \(n, d\)"),
        ((1.0, 0.0, -1, 1), {}, r"`w` must have shape"),
        (([1.0], [[0.0]], -1, 1), {}, r"`t` must be a number or have shape \(n,\)"),
        ((np.ones((2, 1)), np.ones(3), -1, 1), {}, "2 rows of w and 3 offsets"),
        (([1.0], 0.0, -1, 1), {"output": 2, "outputs": 2}, "`output` must name one"),
        (([1.0], 0.0, -1, 1), {"output": -1, "outputs": 2}, "`output` must name one"),
    ],
)
def test_bad_targets(arguments, options, match):
    with pytest.raises(af.TargetError, match=match):
        TruncatedLinear(*arguments, BOX, **options)


def test_domains_must_fit():
    with pytest.raises(af.AttnforgeError, match=r"3 tokens|shape"):
        TruncatedLinear(np.ones((3, 2)), 0.0, -1, 1, af.Box(-1, 1, shape=(4, 2)))
    with pytest.raises(af.DomainError, match="shape"):
        TruncatedLinear([1.0, 2.0], 0.0, -1, 1, af.Box(-1, 1, shape=(3,)))


def test_descriptions():
    assert (
        TruncatedLinear([1.0, -2.0], 0.5, -1, 1, BOX).describe() == "clamp(+1*x[0] -2*x[1] +0.5, -1, 1) at every token"
    )
    assert "each with its own" in TruncatedLinear(np.ones((3, 2)), 0.5, -1, 1, BOX).describe()
    assert "10 features" in TruncatedLinear(np.ones(10), 0.5, -1, 1, BOX).describe()


@pytest.mark.parametrize("options", [{}, {"output": 1, "outputs": 3}])
def test_storage_is_exact(options):
    target = TruncatedLinear([[0.1, 0.2], [1 / 3, 1e-300]], [0.1, 0.7], -0.1, 1 / 7, BOX, **options)
    again = target_from_data(*target.to_data())
    assert np.array_equal(again.w, target.w)
    assert np.array_equal(again.t, target.t)
    assert (again.lower, again.upper, again.outputs) == (target.lower, target.upper, target.outputs)
    assert np.array_equal(again.domain.lower, target.domain.lower)


def test_inputs_are_copied():
    w = np.ones(2)
    target = TruncatedLinear(w, 0.0, -1, 1, BOX)
    w[:] = 7
    assert target.w.tolist() == [[1.0, 1.0]]
