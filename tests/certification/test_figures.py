"""No proof, check or range says less than it did of any network, nor suddenly more, and what is proved is true."""

from __future__ import annotations

import math
from itertools import zip_longest
from typing import Any

import pytest

from tests.certification.figures import MOVES, SUBJECTS, account, golden, said

RISE, FALL = 1.03, 0.9  # times a figure that was: outside of these the file is written anew, and its difference read
NOTHING = 1e-300  # and what is smaller is
SHARE = 2.0**-30  # of a bound: a part that is smaller is the rounding of a fit, whose last bits are the processor's
ROUNDING = 2.0  # times such a part


def differing(before: Any, now: Any, rise: float = RISE, fall: float = FALL) -> bool:
    """Whether a figure is another one: a word, a number or a list of numbers."""
    if isinstance(before, list) and isinstance(now, list):
        return any(differing(*pair) for pair in zip_longest(before, now))
    if not (isinstance(before, float | int) and isinstance(now, float | int)):
        return bool(before != now)
    if not (math.isfinite(before) and math.isfinite(now)):
        return repr(before) != repr(now)
    low, high = sorted((fall * before, rise * before))
    return not low - NOTHING <= now <= high + NOTHING


def limits(row: dict[str, Any], key: str) -> tuple[float, float]:
    """Within which times itself a figure of a row is the same."""
    parts = [value for name, value in row.items() if name.startswith("parts ")]
    is_rounding = key.startswith("parts ") and row.get(key, math.inf) < SHARE * sum(parts)
    return (ROUNDING, 1 / ROUNDING) if is_rounding else (RISE, FALL)


def changed(before: dict[str, dict[str, Any]], now: dict[str, dict[str, Any]]) -> list[str]:
    """The figures that differ, in words."""
    return [
        f"{move}, {key}: {before[move].get(key)} became {now.get(move, {}).get(key)}"
        for move in before
        for key in {**before[move], **now.get(move, {})}
        if differing(before[move].get(key), now.get(move, {}).get(key), *limits(before[move], key))
    ]


def test_every_network_has_its_figures():
    assert list(golden()) == list(SUBJECTS), "./test --golden writes the file anew"


@pytest.mark.parametrize("name", SUBJECTS)
def test_figures_are_true_and_what_they_were(name):
    found = dict(said(name))
    assert [move for move, each in found.items() if not each.error <= each.bound] == []
    assert changed(golden()[name], account(found)) == []


def test_what_differs_is_seen():
    row = golden()["readme"]
    assert changed(row, row) == []
    for move in MOVES:
        for key, value in row[move].items():
            rise, fall = limits(row[move], key)
            for other in ("refused",) if isinstance(value, str) else (value * rise * 1.01, value * fall * 0.99):
                assert len(changed(row, row | {move: row[move] | {key: other}})) == 1
            assert len(changed(row, row | {move: {k: v for k, v in row[move].items() if k != key}})) == 1


def test_every_verdict_and_some_refusal_is_among_them():
    told = [figures for row in golden().values() for figures in row.values()]
    assert {each.get("check") for each in told} >= {"confirmed", "undecided", "unprovable", "rejected"}
    assert {each.get("status") for each in told} >= {"proved", "conditional", "sampled", "CertificateError"}
