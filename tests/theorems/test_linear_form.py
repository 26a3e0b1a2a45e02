"""The linear maps in front of the heads."""

from __future__ import annotations

import numpy as np
import pytest

from attnforge.network.apply import apply_layer
from attnforge.targets import Box, Formula
from attnforge.theorems.linear_form import form_and_one, form_of, products_per_token, tokens_of
from tests.theorems.measuring import clamp, per_token


def test_form_of_gives_the_numbers_of_the_target():
    target = per_token(4, 3, -0.5, 0.75)
    w, t, a, b = form_of(target)
    np.testing.assert_array_equal(w, target.w)
    np.testing.assert_array_equal(t, target.t)
    assert (a, b) == (-0.5, 0.75)


def test_one_w_for_many_offsets_becomes_one_each():
    w, t, _, _ = form_of(clamp([2.0, 3.0], [0.0, 1.0, 2.0]))
    np.testing.assert_array_equal(w, [[2.0, 3.0]] * 3)
    np.testing.assert_array_equal(t, [0.0, 1.0, 2.0])


@pytest.mark.parametrize(
    ("target", "tokens"),
    [
        (clamp(), None),
        (per_token(4, 2), 4),
        (clamp(domain=Box(-1, 1, shape=(6, 1))), 6),
        (Formula("clamp(x, -1, 1)", Box([-2], [2])), 1),
    ],
)
def test_tokens_of_a_target(target, tokens):
    assert tokens_of(target) == tokens


@pytest.mark.parametrize("rows", [1, 4])
def test_form_and_one_writes_the_affine_image(rows):
    rng = np.random.default_rng(rows)
    w, t, x = rng.normal(size=(rows, 3)), rng.normal(size=rows), rng.normal(size=(2, 4, 3))
    layer = form_and_one(w, t, 2.5, -0.75)
    found = apply_layer(layer, x)
    np.testing.assert_allclose(found[..., 0], 2.5 * ((w * x).sum(axis=-1) + t) - 0.75, rtol=1e-13)
    assert (found[..., 1] == 1).all()
    assert layer.terms[0].map.ndim == (2 if rows == 1 else 3)


def test_products_per_token_multiply_entry_by_entry():
    rng = np.random.default_rng(0)
    w, x = rng.normal(size=(4, 3)), rng.normal(size=(4, 3))
    maps = products_per_token(w, 4, 7)
    found = np.stack([x[i] @ maps[i] for i in range(4)])
    np.testing.assert_allclose(found[:, :3], w * x)
    assert not found[:, 3:].any()
