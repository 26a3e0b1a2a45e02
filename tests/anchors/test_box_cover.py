"""Covers hold every block and never cost more than one box for each maximal block."""

from __future__ import annotations

from itertools import product

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from attnforge.anchors.box_cover import anchors, cover, maximal

BLOCKS = st.lists(st.tuples(*[st.integers(0, 3)] * 4), min_size=1, max_size=30).map(np.array)


@given(BLOCKS)
def test_every_block_is_below_a_box(blocks):
    boxes = cover(blocks)
    assert all((block <= boxes).all(axis=1).any() for block in blocks)


@given(BLOCKS)
def test_a_cover_costs_no_more_than_its_maximal_blocks(blocks):
    assert anchors(cover(blocks)).sum() <= anchors(maximal(blocks)).sum()


@given(BLOCKS)
def test_maximal_blocks_are_not_below_each_other(blocks):
    found = maximal(blocks)
    below = (found[:, None] <= found[None]).all(axis=2)
    assert below.sum() == len(found)
    assert all((block <= found).all(axis=1).any() for block in blocks)


def test_one_box_takes_the_place_of_many():
    six_ones = np.array([block for block in product((0, 1), repeat=8) if sum(block) == 6])
    assert anchors(six_ones).sum() == 28 * 729
    assert cover(six_ones).tolist() == [[1] * 8]


def test_nothing_is_merged_that_costs_more():
    assert sorted(cover(np.array([[4, 0], [0, 4]])).tolist()) == [[0, 4], [4, 0]]
