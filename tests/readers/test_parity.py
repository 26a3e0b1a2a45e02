"""Everything that runs a network agrees with its definition, over the catalogue; and that each comparison can fail.

``./test laws --examples N`` compares all readers in both dtypes, and writes ``benchmarks/results/parity.md``.
"""

from functools import cache

import numpy as np
import pytest

from tests.export import running
from tests.readers.parity import CASES, READERS, SAME, compare, compared

SLICE = (
    "graph", "cross-attention", "free cells", "zoo: least_squares", "mean of a prompt", "zoo: reverse", "relu",
    "truncated, tokens", "two layers", "table",
)  # fmt: skip
FEW = ("numpy", "auto", "onnx", "torch")

case_of = cache(compared)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("name", SLICE)
def test_readers_agree(name, dtype, tmp_path):
    case = case_of(name, dtype)
    for reader in FEW:
        outcome = compare(case, reader, tmp_path)
        assert outcome.holds, (reader, outcome)
        told = reader == "numpy" and dtype == "float32" and case.network.context is not None
        assert bool(outcome.refusal) == told, outcome.refusal


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_every_reader_agrees_on_every_network(name, tmp_path):
    case = case_of(name, "float64")
    outcomes = {reader: compare(case, reader, tmp_path) for reader in READERS}
    assert {reader: each for reader, each in outcomes.items() if not each.holds} == {}
    assert not any(outcomes[reader].refusal for reader in ("numpy", "auto", "dense"))


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("name", ["graph", "free cells"])
def test_a_reader_that_is_off_is_seen(name, dtype, tmp_path, monkeypatch):
    """By little more than it may be: the certificate's charge, and where the checker is asked, its bound."""
    case, run = case_of(name, dtype), running.RUN["onnx"]
    assert compare(case, "onnx", tmp_path).holds
    more = max(2 * SAME, 2 * case.charged(None))
    monkeypatch.setitem(running.RUN, "onnx", lambda path, given: run(path, given) + np.asarray(more, dtype))
    assert not compare(case, "onnx", tmp_path).holds
    monkeypatch.setitem(running.RUN, "onnx", lambda path, given: run(path, given) * np.nan)
    assert not compare(case, "onnx", tmp_path).holds


def test_refusals_are_said_in_words(tmp_path):
    assert "The window kernel needs" in compare(case_of("graph", "float64"), "window", tmp_path).refusal
