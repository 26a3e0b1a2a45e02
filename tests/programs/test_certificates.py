"""How far programs are proved, in which dtype; and that runs in that dtype keep to it."""

import random

import pytest

import attnforge as af
from attnforge import programs as p
from tests.clock import at_most
from tests.refusals import refused

ASKED = [
    (key, dtype, n) for key in ("histogram", "majority", "reverse") for dtype, n in (("float64", 1000), ("float32", 64))
]


@pytest.mark.parametrize(("key", "dtype", "length"), ASKED)
def test_counts_means_and_positions_are_proved_far(key, dtype, length) -> None:
    entry = p.library[key]
    net = p.compile(entry, max_length=length, dtype=dtype)
    assert net.max_length == length
    assert net.certificate.dtype == dtype
    sequence = random.Random(1).choices(entry.vocabulary, k=length)
    assert net(sequence) == entry.reference(sequence, entry.vocabulary)
    for register in net.trace(sequence).registers:
        assert register.error <= register.bound + 2.0**-52 * length**2


@pytest.mark.parametrize("key", ["histogram", "reverse", "parity"])
def test_one_beyond_the_limit_is_refused(key) -> None:
    most = p.proved_lengths(p.library[key], dtypes=["bfloat16"], limit=64)["bfloat16"]
    assert 1 <= most < 64
    assert p.compile(p.library[key], max_length=most, dtype="bfloat16").max_length == most
    with refused(af.RefusalError):
        p.compile(p.library[key], max_length=most + 1, dtype="bfloat16")


@pytest.mark.parametrize("key", list(p.library))
def test_bfloat16_runs_keep_to_what_is_proved(key) -> None:
    entry = p.library[key]
    most = p.proved_lengths(entry, dtypes=["bfloat16"], limit=8)["bfloat16"]
    if not most:
        return
    net = p.compile(entry, max_length=most, dtype="bfloat16")
    source = random.Random(2)
    for sequence in [source.choices(entry.vocabulary, k=source.randint(1, most)) for _ in range(20)]:
        assert net(sequence) == entry.reference(sequence, entry.vocabulary)
        assert all(each.error <= each.bound + 2.0**-40 for each in net.trace(sequence).registers)


def test_a_fraction_is_right_up_to_the_bound() -> None:
    net = p.compile(p.mean(p.numbers({"a": 1, "b": 0}, p.tokens)), ["a", "b"], 30)
    assert not net.certificate.is_exact
    assert net(["a", "b", "b"]) == pytest.approx([1 / 3] * 3, abs=net.certificate.bound)


def test_the_certificate_is_about_these_weights() -> None:
    net = p.compile(p.library["reverse"], max_length=9)
    assert net.certify() == net.certificate
    parts = net.certificate.parts
    assert parts["leakage"] + parts["rounding"] <= net.certificate.bound < 0.5
    assert "float64" in net.certificate.assumptions[0]


def test_lookups_too_long_to_prove_are_refused_before_memory_is_spent() -> None:
    with refused(af.RefusalError), at_most(10**6):
        p.compile(p.library["histogram"], max_length=10**9)
