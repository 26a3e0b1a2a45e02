"""Products of keys, recognised from the numbers."""

from __future__ import annotations

import numpy as np
import pytest

from attnforge.certification.enclosure.factors import factor_head
from attnforge.network import Head, Linear, Term

ENCODE = (Linear((Term(np.eye(2, 3)),), np.eye(1, 3, 2)),)


def product_head(rng, order=None):
    """Keys k_a, offsets k_a^2 on 3 x 4 keys, in any order."""
    x, y = (part.ravel() for part in np.meshgrid([-1.0, 0.0, 1.0], [-2.0, -1.0, 1.0, 2.0], indexing="ij"))
    keys, values = np.column_stack([x, x**2, y, y**2]), rng.normal(size=(12, 1))
    order = np.arange(12) if order is None else order
    query = np.array([[2.0, 0, 0, 0], [0, 0, 3.0, 0], [0.5, -1.0, 0, -1.0]])
    return Head(query, np.eye(1), memory_keys=keys[order], memory_values=values[order])


def test_a_grid_splits_into_its_axes():
    found = factor_head(ENCODE, product_head(np.random.default_rng(0)), 2)
    assert found.values.shape == (3, 4)
    assert [factor.reads for factor in found.factors] == [(0,), (1,)]
    assert found.factors[0].slopes.mid[0].tolist() == [-2.0, 0.0, 2.0]
    assert found.factors[0].offsets.mid.tolist() == [-1.5, 0.0, -0.5]
    assert found.factors[1].offsets.mid.tolist() == [-4.0, -1.0, -1.0, -4.0]


def test_the_order_of_keys_does_not_matter():
    rng = np.random.default_rng(1)
    plain = factor_head(ENCODE, product_head(np.random.default_rng(0)), 2)
    mixed = factor_head(ENCODE, product_head(np.random.default_rng(0), rng.permutation(12)), 2)
    assert np.array_equal(plain.values.mid, mixed.values.mid)


@pytest.mark.parametrize("change", ["drop", "move", "repeat"])
def test_what_is_no_product_is_one_factor(change):
    head = product_head(np.random.default_rng(0))
    keys, values = head.memory_keys.copy(), head.memory_values
    if change == "drop":
        keys, values = keys[:-1], values[:-1]
    elif change == "move":
        keys[5, 1] += 0.25
    else:
        keys, values = np.vstack([keys, keys]), np.vstack([values, values])
    found = factor_head(ENCODE, Head(head.query, head.output, memory_keys=keys, memory_values=values), 2)
    assert len(found.factors) == 1
    assert found.factors[0].reads == (0, 1)
    assert found.values.shape == (len(keys),)
    assert np.array_equal(np.sort(found.values.mid), np.sort(values[:, 0]))


def test_the_output_map_is_part_of_the_values():
    head = product_head(np.random.default_rng(0))
    doubled = Head(head.query, 2 * head.output, memory_keys=head.memory_keys, memory_values=head.memory_values)
    assert np.array_equal(factor_head(ENCODE, doubled, 2).values.mid, 2 * factor_head(ENCODE, head, 2).values.mid)
