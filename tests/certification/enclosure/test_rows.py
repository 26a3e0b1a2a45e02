"""Rows expanded along a form: what would take longer than the effort allows is refused before it starts."""

import numpy as np
import pytest

import attnforge as af
from attnforge.balls import machine
from attnforge.certification.enclosure.rows import BALLS, CELLS_A_KEY, prove_rows
from attnforge.certification.statement import Statement
from attnforge.effort import Effort

BOX = af.Box(-1.5, 1.5)
NET = af.constructions.multihead_truncated_linear(
    [1.0], 0.0, -1, 1, tokens=4, heads=2, sentinels=1, domain=BOX, effort="low"
)
KEYS = 8  # of both heads together
ENOUGH = {"intervals": CELLS_A_KEY * KEYS, "pairs": BALLS * CELLS_A_KEY * KEYS**2}


def proof(**limits):
    return prove_rows(Statement(NET.network, NET.target, NET.domain, machine("float64"), Effort(**limits)))


def test_enough_effort_ends_in_a_bound():
    assert sum(head.memory_size for head in NET.network.heads) == KEYS
    x = np.linspace(-1.5, 1.5, 4001)[:, None, None]
    error = np.abs(NET.network(x)[:, 0, 0] - np.clip(x[:, 0, 0], -1, 1)).max()
    assert error <= proof(**ENOUGH).bound <= 1.2 * error


@pytest.mark.parametrize("limit", ENOUGH)
def test_less_is_refused_with_the_number_of_keys(limit):
    with pytest.raises(af.RefusalError, match=r"few keys.*Got 8.*Raise the effort"):
        proof(**{**ENOUGH, limit: ENOUGH[limit] - 1})
