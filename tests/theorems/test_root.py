"""Roots by one head: the sum of exponentials, and how far it is from a root, down to 0."""

import numpy as np
import pytest

import attnforge as af
from attnforge.theorems.root import COUNTS, LARGEST, root_head, root_rule


@pytest.mark.parametrize("keys", [COUNTS[0], 16, 32, 64])
def test_the_error_of_a_rule_is_that_of_its_sum_of_exponentials(keys):
    rule = root_rule(keys)
    z = np.concatenate([[0.0], np.geomspace(1e-26, LARGEST, 5000)])
    out = rule.value / np.exp(rule.logarithms - z[:, None] * rule.rates).sum(axis=1) - rule.shift
    assert np.abs(out - np.sqrt(z)).max() <= 1.05 * rule.error * np.sqrt(LARGEST)


def test_errors_fall_like_the_exponential_of_a_root():
    errors = [root_rule(keys).error for keys in (16, 36, 64)]
    assert errors[1] < 1e-2 * errors[0]
    assert errors[2] < 1e-2 * errors[1]


@pytest.mark.parametrize("size", [1e-6, 1.0, 3e8])
def test_a_head_writes_the_root(size):
    head = root_head(np.array([0.0, 1.0, 0.0]), size, 1e-5 * np.sqrt(size), column=2)
    x = size * np.linspace(0, 1, 1001) ** 4
    scores = np.stack([x, np.ones_like(x)], axis=1) @ head.memory_keys.T
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    out = (weights @ head.memory_values)[:, 0] / weights.sum(axis=1)
    assert np.abs(out - np.sqrt(x)).max() <= 1.1e-5 * np.sqrt(size)


def test_more_than_all_keys_can_do_is_refused():
    with pytest.raises(af.RefusalError, match="at most 96 keys"):
        root_head(np.array([0.0, 1.0, 0.0]), 1.0, 1e-14, column=2)
