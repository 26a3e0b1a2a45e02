"""What is built is the same whichever kernels BLAS has, and the comparison sees what is not."""

import pytest

from scripts.processors import DEFAULT, differences, under

SLICE = (
    r"^rounding: |^(row|sine|bell|ridge|additive|polynomial)\b|^fine wave$|^table$|^zoo: (distance|softmax_of_three)$"
)


@pytest.fixture(scope="module")
def usual():
    return under(DEFAULT, SLICE)


@pytest.mark.slow
@pytest.mark.parametrize("setting", ["Sandybridge", "Nehalem"])
def test_what_is_decided_does_not_hang_on_the_kernels_of_blas(usual, setting):
    other = under(setting, SLICE)
    if other["machine"]["bits"] == usual["machine"]["bits"]:
        pytest.skip(f"{setting} changes no bit here: {other['machine']['says']}")
    assert len(usual["networks"]) > 12
    assert [row for row in differences(usual["networks"], other["networks"]) if row[-1]] == []


FACTS = {"keys": 12, "roles": {"ghost": 2}, "sharpness": [0.5], "status": "proved", "bound": 1e-6}


@pytest.mark.parametrize(
    ("what", "value"),
    [("keys", 13), ("roles", {"ghost": 3}), ("sharpness", [0.501]), ("status", "sampled"), ("bound", 1.02e-6)],
)
def test_a_difference_is_seen(what, value):
    assert [row[1] for row in differences({"a": FACTS}, {"a": {**FACTS, what: value}}) if row[-1]] == [what]


def test_last_bits_and_bounds_within_a_percent_are_none():
    near = {**FACTS, "sharpness": [0.5 * (1 + 2**-40)], "bound": 1.009e-6}
    assert not any(row[-1] for row in differences({"a": FACTS}, {"a": near}))
