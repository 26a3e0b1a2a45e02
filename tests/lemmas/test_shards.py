"""What merging shards rounds: counted on trees of merges, against what is charged a softmax over all keys."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attnforge.balls import machine
from attnforge.balls.softmax import SoftmaxArithmetic
from attnforge.errors import RefusalError
from attnforge.lemmas.shards import check_shards, part_count, shards_covered


def roundings(parts, rng):
    """Exponentials and, in sums, additions and rescalings that the worst key passes, merged in a random order."""
    known = [(1, size - 1, 0) for size in parts]
    while len(known) > 1:
        i, j = sorted(rng.choice(len(known), 2, replace=False) if rng.random() < 0.5 else (0, 1))
        two, one = known.pop(j), known.pop(i)
        known.insert(0, tuple(max(a, b) + 1 for a, b in zip(one, two, strict=True)))
    return known[0]


@given(st.lists(st.integers(64, 400), min_size=1, max_size=30), st.integers(0, 2**32))
def test_no_tree_of_merges_has_more_than_is_charged(parts, seed):
    keys = sum(parts)
    exponentials, additions, rescalings = roundings(parts, np.random.default_rng(seed))
    charged = SoftmaxArithmetic(machine("float64"), keys)
    assert len(parts) <= shards_covered(keys) <= charged.blocks
    assert exponentials <= charged.blocks
    assert 1 + additions + rescalings <= keys + charged.blocks - 1  # a product, additions, rescalings: ``sum``


def test_parts_of_fewer_keys_would_have_more():
    exponentials, _, _ = roundings([16] * 8, np.random.default_rng(0))
    assert exponentials > SoftmaxArithmetic(machine("float64"), 128).blocks
    assert shards_covered(128) == 2


@given(st.integers(64, 10**6), st.integers(1, 10**5))
def test_parts_hold_64_keys_at_least(keys, at_once):
    parts = part_count(keys, at_once)
    assert keys // parts >= 64
    assert parts == 1 or keys / parts <= max(2 * at_once, 128)


def test_what_cannot_be_cut_is_refused():
    values = np.ones((130, 1))
    check_shards([values, values], 2)
    with pytest.raises(RefusalError, match=r"at least 64 a shard.*3 shards of a head of 130 keys.*up to 2"):
        check_shards([values], 3)
    with pytest.raises(RefusalError, match="0 shards"):
        check_shards([values], 0)
    with pytest.raises(RefusalError, match="few keys"):
        check_shards([])
    with pytest.raises(RefusalError, match="other tokens"):
        check_shards([None])
    values[3] = 1e-310
    check_shards([values])
    with pytest.raises(RefusalError, match=r"zero or at least 2.2e-308.*1e-310"):
        check_shards([values], smallest=float(np.finfo(np.float64).tiny))
