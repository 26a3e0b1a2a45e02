"""No certificate of the catalogue is worse than the golden one: status, bound, keys, heads, layers."""

import pytest

from tests.accounts import EXCEPTIONS, RISE, SHARE, START, UNSETTLED, account, departed, read, title, worse
from tests.catalogue import ENTRIES

GOLDEN = read()
ALL = {title(name, dtype): (name, dtype) for name, entry in ENTRIES.items() for dtype in entry.dtypes}


def test_every_network_has_a_golden_certificate():
    assert list(GOLDEN) == list(ALL), "./test --golden writes the file anew"


@pytest.mark.parametrize("name", ALL)
def test_nothing_is_worse_than_it_was(name):
    if name in UNSETTLED:
        pytest.skip(UNSETTLED[name])
    assert worse(name, GOLDEN[name], account(*ALL[name])) == []


@pytest.mark.parametrize(
    "change",
    [
        lambda row: {**row, "bound": row["bound"] * RISE * 1.001},
        lambda row: {**row, "status": "conditional"},
        lambda row: {"status": "refused"},
        lambda row: {**row, "keys": row["keys"] + 1},
        lambda row: {**row, "heads": row["heads"] + 1},
        lambda row: {**row, "layers": row["layers"] + 1},
    ],
)
def test_what_is_worse_is_seen(change):
    row = GOLDEN["readme"]
    assert worse("readme", row, row) == []
    assert len(worse("readme", row, change(row))) == 1


def test_the_redesign_has_cost_no_more_than_it_may():
    start = read(START)
    assert departed(start, GOLDEN, EXCEPTIONS) == []
    assert len(EXCEPTIONS) <= SHARE * len(start)
    assert EXCEPTIONS.keys() <= start.keys()


@pytest.mark.parametrize(
    "change",
    [
        lambda row: {**row, "bound": row["bound"] * 1.11},
        lambda row: {**row, "status": "conditional"},
        lambda row: {"status": "refused"},
        lambda row: {**row, "keys": row["keys"] * 1.06},
    ],
)
def test_what_it_has_cost_is_counted(change):
    row = GOLDEN["readme"]
    assert departed({"readme": row}, {"readme": row}, {}) == []
    assert departed({"readme": row}, {"readme": change(row)}, {}) != []
    assert departed({"readme": row}, {"readme": {**row, "bound": row["bound"] * 2.9}}, {"readme": "a reason"}) == []
    assert departed({"readme": row}, {"readme": {**row, "bound": row["bound"] * 3.1}}, {"readme": "a reason"}) != []
    assert departed({"readme": row}, {}, {}) == ["readme: gone"]
