"""Sets of multi-indices against their definition, enumerated without regard to speed."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from attnforge.kernel.degrees import Degrees, degrees

SETS = [
    Degrees(1, 0), Degrees(1, 5), Degrees(2, 4), Degrees(3, 3), Degrees(4, 1), Degrees(2, 6, (6, 1)),
    Degrees(2, 17, (16, 1)), Degrees(2, 5, (9, 3)), Degrees(3, 4, (4, 1, 1)), Degrees(3, 4, (4, 1, 1), lone=True),
    Degrees(3, 6, (3, 2, 1), lone=True), Degrees(2, 2, (1, 1), lone=True), Degrees(3, 5, (2, 0, 2)),
    Degrees(2, 4, (0, 4)), Degrees(2, 9, (3, 4)), Degrees(2, 1, lone=True),
]  # fmt: skip


def kept(table, exponent):
    most = [min(limit, table.degree) for limit in table.limits or [table.degree] * table.inputs]
    if sum(exponent) > table.degree or any(e > m for e, m in zip(exponent, most, strict=True)):
        return False
    alone = any(e and m == 1 and table.lone for e, m in zip(exponent, most, strict=True))
    return not alone or sum(exponent) == 1


@pytest.mark.parametrize("table", SETS, ids=str)
def test_the_set_is_what_it_says_and_down_closed(table):
    wanted = {e for e in product(range(table.degree + 1), repeat=table.inputs) if kept(table, e)}
    rows = [tuple(row) for row in table.exponents.tolist()]
    assert set(rows) == wanted
    assert len(rows) == len(wanted) == len(table)
    assert rows == sorted(rows, key=lambda e: (sum(e), e))
    assert all(table.place[row] == i for i, row in enumerate(rows))
    below = {tuple(np.subtract(e, step)) for e in wanted for step in np.eye(table.inputs, dtype=int)}
    assert {e for e in below if min(e) >= 0} <= wanted
    larger = [table.degree + 1] + [0] * (table.inputs - 1)
    assert table.holds(np.array([*rows, larger])).tolist() == [True] * len(rows) + [False]
    assert [table.totals[i] for i in table.starts] == list(range(max(map(sum, rows)) + 1))


@pytest.mark.parametrize("table", SETS, ids=str)
def test_sums_of_two_are_in_the_set_or_beyond_it(table):
    rows = [tuple(row) for row in table.exponents.tolist()]
    members, between = table.classes
    spread = members.T @ between @ members
    for i, first in enumerate(rows):
        found = dict(zip(*(part.tolist() for part in table.pairs[i]), strict=True))
        for j, second in enumerate(rows):
            total = tuple(np.add(first, second).tolist())
            assert found.get(j) == table.place.get(total)
            assert table.beyond[i, j] == spread[i, j] == (total not in table.place)
    for k, row in enumerate(rows):
        ways = {(i, j) for i, a in enumerate(rows) for j, b in enumerate(rows) if i and tuple(np.add(a, b)) == row}
        assert set(table.splits[k]) == ways
        assert len(table.splits[k]) == len(ways)


@pytest.mark.parametrize("table", SETS, ids=str)
def test_what_is_left_out_exceeds_a_grading_or_is_a_product_with_what_enters_alone(table):
    units = [tuple(int(i == k) for k in range(table.inputs)) for i in range(table.inputs)]
    slopes = [(n, np.array([degree[table.place[u]] if u in table.place else 1 for u in units]), degree)
              for n, degree in table.gradings]  # fmt: skip
    assert all((degree == table.exponents @ slope)[~table.alone].all() for _, slope, degree in slopes)
    for exponent in product(range(table.degree + 3), repeat=table.inputs):
        row = np.array(exponent)
        if row[table.single].any():
            assert (exponent in table.place) == (row.sum() == 1)
        elif exponent not in table.place:
            assert any(row @ slope > n for n, slope, _ in slopes)


def test_tables_are_made_once():
    assert degrees(2, 3) is degrees(2, 3)
    assert degrees(2, 3, (3, 1)) == Degrees(2, 3, (3, 1))
    assert len(degrees(300, 1)) == 301
