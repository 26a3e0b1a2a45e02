from typing import Any

import numpy as np
import pytest

from attnforge.experiments.dimension import Dimension, DimensionSettings
from attnforge.experiments.dimension.findings import misfits
from attnforge.experiments.table import Table
from tests.experiments.dimension.made_up import GROWTH, rows


def verdicts(table: Table) -> dict[str, str]:
    return {each.claim: each.verdict for each in Dimension().findings(table, DimensionSettings())}


def test_few_numbers_of_inputs_are_not_judged() -> None:
    table = rows(GROWTH | {"sparse grid": lambda d: 3**d})
    few = Table.of(row for row in table.rows if row["construction"] != "sparse grid" or int(row["d"]) < 8)
    for each in Dimension().findings(few, DimensionSettings()):
        assert (each.verdict == "measured") == each.claim.startswith("sparse grid")
    none = Table.of(row for row in table.rows if row["construction"] != "sparse grid")
    assert [each.verdict for each in Dimension().findings(none, DimensionSettings())].count("measured") == 4


def test_claims_that_hold_are_confirmed() -> None:
    found = verdicts(rows(GROWTH))
    assert len(found) == 11
    assert set(found.values()) == {"confirmed"}


@pytest.mark.parametrize(
    ("claim", "construction", "keys"),
    [
        ("hard cells and two layers", "hard cells", lambda d: d**2),
        ("product grid, fitted, gaussian", "tensor grid", lambda d: d**2),
        ("sums of terms of one input", "additive", lambda d: d**2),
        ("functions of one linear form", "ridge", lambda d: d),
        ("sparse grid, gaussian", "sparse grid", lambda d: 3**d),
    ],
)
def test_claims_that_fail_are_refuted(claim: str, construction: str, keys: Any) -> None:
    (found,) = [each for name, each in verdicts(rows(GROWTH | {construction: keys})).items() if name.startswith(claim)]
    assert found == "refuted"


def test_errors_above_the_tolerance_are_seen() -> None:
    found = verdicts(Table.of(row | {"error": 0.02} for row in rows(GROWTH).rows))
    assert found["every network built keeps its tolerance at fresh points"] == "refuted"
    assert found["no error above its certified bound"] == "refuted"


def test_growth() -> None:
    d = np.arange(1, 9)
    power, exponential = misfits((d, 4 * d**3), (d, 7 * d))
    assert power < 1e-20 < exponential
    assert misfits((d, 7.0**d)) == pytest.approx(misfits((d, 2 * 7.0**d)), abs=1e-12)
    assert misfits((d, 7.0**d))[1] < 1e-20 < misfits((d, 7.0**d))[0]
