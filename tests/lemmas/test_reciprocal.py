"""The Gauss-Radau rule for 1/y: exact where it must be, positive, as good as stated and no better."""

from __future__ import annotations

from itertools import pairwise

import mpmath
import pytest
from flint import arb

from attnforge.balls import precision
from attnforge.errors import RefusalError
from attnforge.lemmas.reciprocal import BITS, FEWEST, MOST, radau, reciprocal_error, reciprocal_rule

NODES = range(FEWEST, MOST + 1)


def relative_errors(rule, count: int = 800) -> list[float]:
    """Of the rule against 1/y, by mpmath, at points of [2, 4]."""
    with mpmath.workdps(60):
        pairs = [(_number(x), _number(g)) for x, g in zip(rule.nodes, rule.weights, strict=True)]
        steps = [mpmath.mpf(rule.alpha) * i / count for i in range(count + 1)]
        return [float((t + rule.alpha) * mpmath.fsum(g * x**t for x, g in pairs) - 1) for t in steps]


def _number(value: arb) -> mpmath.mpf:
    return mpmath.mpf(value.mid().str(60, radius=False))


@pytest.mark.parametrize("nodes", NODES)
def test_nodes_and_weights_are_those_of_a_radau_rule(nodes):
    rule = reciprocal_rule(nodes)
    assert rule.nodes[0] == 1
    assert all(0 < x < 1 for x in rule.nodes[1:])
    assert all(g > 0 for g in rule.weights)
    with precision(BITS):
        moments = [
            sum((g * x**j for x, g in zip(rule.nodes, rule.weights, strict=True)), arb(0)) for j in range(2 * nodes + 2)
        ]
        exact = [moment.overlaps(1 / (j + arb(rule.alpha))) for j, moment in enumerate(moments)]
    assert all(exact[: 2 * nodes - 1])
    assert not any(exact[2 * nodes - 1 :])


@pytest.mark.parametrize("nodes", NODES)
def test_the_bound_is_above_the_error_and_close(nodes):
    seen = max(map(abs, relative_errors(reciprocal_rule(nodes))))
    assert seen <= reciprocal_error(nodes) <= 1.1 * seen


@pytest.mark.parametrize("nodes", [2, 5, 9])
@pytest.mark.parametrize("shift", [-0.25, -0.05, 0.05, 0.25])
def test_another_alpha_is_worse(nodes, shift):
    with precision(BITS):
        other = radau(nodes, reciprocal_rule(nodes).alpha + shift)
    assert max(map(abs, relative_errors(other))) > max(map(abs, relative_errors(reciprocal_rule(nodes))))


def test_a_node_is_worth_a_factor_of_fifty():
    errors = [reciprocal_error(nodes) for nodes in NODES]
    assert all(50 < before / after < 80 for before, after in pairwise(errors))


@pytest.mark.parametrize("nodes", [0, 1, 11])
def test_other_numbers_of_nodes_are_refused(nodes):
    with pytest.raises(RefusalError, match=r"2 to 10 nodes"):
        reciprocal_rule(nodes)
