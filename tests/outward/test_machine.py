"""The dtype model and ``round_to``, compared with PyTorch's casts bit by bit."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from attnforge.errors import RefusalError
from attnforge.outward import MACHINES, machine, round_to

HALF = ("bfloat16", "float16")


def cast(values: np.ndarray, dtype: str) -> np.ndarray:
    return torch.tensor(values, dtype=torch.float64).to(getattr(torch, dtype)).to(torch.float64).numpy()


def same(values: np.ndarray, dtype: str) -> None:
    found, wanted = round_to(values, dtype), cast(values, dtype)
    assert found.dtype == np.float64
    np.testing.assert_array_equal(found, wanted)
    finite = np.isfinite(wanted)
    np.testing.assert_array_equal(np.signbit(found[finite]), np.signbit(wanted[finite]))


def every_number(dtype: str) -> np.ndarray:
    """All 65536 numbers of a half type, sorted, finite."""
    bits = torch.arange(-(2**15), 2**15, dtype=torch.int32).to(torch.int16)
    numbers = bits.view(getattr(torch, dtype)).to(torch.float64).numpy()
    return np.unique(numbers[np.isfinite(numbers)])


@pytest.mark.parametrize("dtype", HALF)
def test_ties_and_their_neighbours_round_as_torch_does(dtype):
    numbers = every_number(dtype)
    middles = numbers[:-1] / 2 + numbers[1:] / 2
    same(numbers, dtype)
    np.testing.assert_array_equal(round_to(numbers, dtype), numbers)
    for values in (middles, np.nextafter(middles, np.inf), np.nextafter(middles, -np.inf), middles * (1 + 2.0**-22)):
        same(values, dtype)


@pytest.mark.parametrize("dtype", MACHINES)
def test_overflow_underflow_and_specials_round_as_torch_does(dtype):
    info = torch.finfo(getattr(torch, dtype))
    largest, smallest = info.max, info.tiny * info.eps
    values = [largest, largest * (1 - 2.0**-52), largest * (1 + machine(dtype).roundoff / 2), 1e300, 3e38, 65520.0]
    values += [smallest, smallest / 2, smallest / 2 * (1 + 2.0**-40), 3 * smallest / 2, 5e-324, 1e-45, 0.0, -0.0]
    values += [np.inf, -np.inf, np.nan]
    with np.errstate(over="ignore", invalid="ignore"):
        same(np.array(values), dtype)
        same(-np.array(values), dtype)


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=20))
@settings(max_examples=100)
def test_any_float64_rounds_as_torch_does(values):
    for dtype in MACHINES:
        same(np.array(values), dtype)


@given(st.floats(-60000, 60000))
@settings(max_examples=100)
def test_roundoff_and_underflow_bound_every_rounding(value):
    for dtype, model in MACHINES.items():
        error = abs(float(round_to(np.array(value), dtype)) - value)
        assert error <= max(model.roundoff * (1 + 2.0**-20) * abs(value), model.underflow)


@pytest.mark.parametrize("dtype", MACHINES)
def test_the_model_agrees_with_torch(dtype):
    info, model = torch.finfo(getattr(torch, dtype)), machine(dtype)
    assert model.name == dtype
    assert model.roundoff == info.eps / 2
    assert model.largest == info.max
    assert model.bytes * 8 == info.bits
    assert model.underflow == (info.tiny * info.eps if dtype == "float16" else info.tiny)  # others may be flushed
    assert model.accumulation == (model.roundoff if dtype.endswith(("32", "64")) else 2.0**-24)


@pytest.mark.parametrize("call", [machine, lambda dtype: round_to(np.zeros(1), dtype)])
def test_an_unknown_dtype_is_refused_by_name(call):
    with pytest.raises(RefusalError, match=r"float64, float32, bfloat16, float16\. Got 'float8'\. Choose"):
        call("float8")
