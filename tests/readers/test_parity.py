"""Everything that runs a network agrees with its definition: a slice of ``benchmarks/parity.py``, and its attacks."""

import numpy as np
import pytest

from attnforge.runtime.module import KERNELS
from attnforge.theorems.registry import CONSTRUCTIONS
from tests.export import running
from tests.readers.built import BUILT, built
from tests.readers.parity import CASES, READERS, SAME, compare

SLICE = ("graph", "cross-attention", "max_affine, free cells", "in context: least squares", "prompt: mean",
         "program: reverse")  # fmt: skip


def test_every_construction_and_every_reader_is_compared():
    assert {each.name for each in CONSTRUCTIONS} <= {built(name).construction for name in BUILT if name in CASES}
    assert {"numpy", *KERNELS, *running.RUN} == set(READERS)  # tests/export holds RUN to the registry


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("name", SLICE)
def test_readers_agree(name, dtype, tmp_path):
    case = CASES[name](dtype)
    for reader in ("numpy", "auto", "onnx", "torch"):
        outcome = compare(case, reader, tmp_path)
        assert outcome.holds, (reader, outcome)
        told = reader == "numpy" and dtype == "float32" and case.interface.context is not None
        assert bool(outcome.refusal) == told


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("name", ["graph", "max_affine, free cells"])
def test_a_reader_that_is_off_is_seen(name, dtype, tmp_path, monkeypatch):
    """By little more than it may be: the certificate's charge, and where the checker is asked, its bound."""
    case, run = CASES[name](dtype), running.RUN["onnx"]
    more = 2 * SAME if dtype == "float64" else 2 * case.charged(None)
    monkeypatch.setitem(running.RUN, "onnx", lambda path, given: run(path, given) + np.asarray(more, dtype))
    outcome = compare(case, "onnx", tmp_path)
    assert not outcome.holds
    monkeypatch.setitem(running.RUN, "onnx", lambda path, given: run(path, given) * np.nan)
    assert not compare(case, "onnx", tmp_path).holds


def test_refusals_are_said_in_words(tmp_path):
    refused = compare(CASES["graph"]("float64"), "window", tmp_path)
    assert "The window kernel needs" in refused.refusal
