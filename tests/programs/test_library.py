"""Every program of the library: what it means, what it computes, what is proved of it; and a toy one that is added."""

import itertools
import random

import pytest

import attnforge as af
from attnforge import programs as p

ENTRIES = list(p.library.values())
KEYS = (
    "reverse sort histogram most_frequent majority count_compare dyck1 dyck2 parity induction kth_largest addition "
    "balanced"
)

TOY = p.Entry(
    "echo",
    "the token before, or itself at the start",
    lambda vocabulary: p.labels(
        lambda token, previous: token if previous is None else previous,
        p.tokens,
        p.aggregate(p.select(p.indices, p.indices - 1), p.tokens),
    ),
    lambda sequence, _: [sequence[0], *sequence[:-1]],
    tuple("abc"),
    tuple("ab"),
    30,
)


def short(tokens, most):
    return [list(each) for n in range(1, most + 1) for each in itertools.product(tokens, repeat=n)]


def drawn(tokens, length, count, seed=0):
    source = random.Random(seed)
    return [source.choices(tokens, k=length) for _ in range(count)]


def name(entry):
    return entry.name


def test_the_keys_are_these() -> None:
    assert list(p.library) == sorted(KEYS.split(), key=list(p.library).index)
    assert set(p.library) == set(KEYS.split())


@pytest.mark.parametrize("entry", [*ENTRIES, TOY], ids=name)
def test_the_program_means_what_its_reference_says(entry) -> None:
    program = entry.make(entry.small)
    for sequence in short(entry.small, 4):
        assert p.evaluate(program, sequence)[program] == entry.reference(sequence, entry.small), sequence


@pytest.mark.parametrize("entry", [*ENTRIES, TOY], ids=name)
def test_the_network_is_right_on_all_short_sequences(entry) -> None:
    net = p.compile(entry, entry.small, max_length=5)
    sequences = short(entry.small, 4 if len(entry.small) > 3 else 5)
    for sequence, found in zip(sequences, net.many(sequences), strict=True):
        assert found == entry.reference(sequence, entry.small), sequence


@pytest.mark.parametrize("entry", [*ENTRIES, TOY], ids=name)
def test_the_network_is_proved_and_right_at_its_length(entry) -> None:
    net = p.compile(entry)
    assert net.certificate.status == "proved"
    assert net.max_length == entry.max_length
    assert net.certificate.margin > 0.49
    for sequence in drawn(entry.vocabulary, entry.max_length, 2) + drawn(entry.vocabulary, 17, 3):
        assert net(sequence) == entry.reference(sequence, entry.vocabulary)


@pytest.mark.parametrize("entry", [*ENTRIES, TOY], ids=name)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_registers_are_as_close_as_proved(entry, dtype) -> None:
    net = p.compile(entry, max_length=12, dtype=dtype)
    for sequence in drawn(entry.vocabulary, 12, 3) + drawn(entry.vocabulary, 5, 2) + [[entry.vocabulary[0]] * 12]:
        for register in net.trace(sequence).registers:
            assert register.error <= register.bound + 2.0**-52 * 12**2, register.name  # the exact value, as a float


def test_attention_only() -> None:
    net = p.compile(p.library["dyck1"], max_length=6)
    kinds = {type(layer).__name__ for layer in net.network.layers}
    assert kinds == {"Linear", "Attention"}
    maps = net.attention(list("(())"))
    assert [len(layer) for layer in maps] == [len(net.layout.written(d)) for d in range(1, net.layers + 1)]
    assert all(abs(weights.sum(axis=1) - 1).max() < 1e-12 for layer in maps for weights in layer)


def test_the_report_says_what_is_proved() -> None:
    text = p.compile(p.library["sort"], max_length=8).report()
    assert "0 MLPs" in text
    assert "every sequence of 1 to 8 tokens over 8" in text


def test_a_trace_lists_every_register() -> None:
    trace = p.compile(p.library["histogram"], max_length=8).trace(list("abca"))
    assert [each.name for each in trace.registers] == ["tokens", "1/(1 + count)", "count", "result"]
    assert trace.registers[2].exact == [2, 1, 1, 2]
    assert "count" in str(trace)


def test_programs_are_reached_from_the_root() -> None:
    assert af.programs is p
