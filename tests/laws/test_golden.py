"""No certificate of the catalogue is worse than the golden one: status, bound, keys, heads, layers."""

import pytest

from tests.accounts import RISE, UNSETTLED, account, read, title, worse
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
