"""No false proof of a program, whatever its labels are; and what cannot be proved is refused with a sentence."""

import contextlib
import itertools
import os
from collections import Counter
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

import attnforge as af
from attnforge import programs as p
from attnforge.programs import compiling, running
from attnforge.targets.programs import alphabet, forms, language, registers, typing
from tests.laws import hostile_programs as hostile

EXAMPLES = int(os.environ.get("ATTNFORGE_EXAMPLES", "60"))


def kind_of(value) -> str:
    return type(value).__name__


def is_right(found, wanted, certificate) -> bool:
    """Whether a number is the one wanted: an integer exactly, a fraction within the bound."""
    if certificate.is_exact:
        return found == wanted
    return abs(Fraction(found) - wanted) <= Fraction(certificate.bound)


def wrong(net, case) -> list:
    """The sequences, of all short ones, on which the network differs from plain Python."""
    number = hostile.is_number(case.tree)
    found = []
    for n in range(1, case.length + 1):
        for sequence in map(list, itertools.product(case.vocabulary, repeat=n)):
            given = net(sequence)
            try:
                wanted = hostile.plain(case.tree, sequence, case.causal)
            except Exception as error:
                found.append((sequence, given, error))
                continue
            same = is_right if number else (lambda a, b, _: hostile.told(a) == hostile.told(b))
            if not all(same(a, b, net.certificate) for a, b in zip(given, wanted, strict=True)):
                found.append((sequence, given, wanted))
    return found


def judged(seed):
    """Refused, proved, or false: proved and wrong. Any error that is not the package's own is raised."""
    case = hostile.drawn(seed)
    try:
        net = p.compile(hostile.forged(case.tree), case.vocabulary, case.length, causal=case.causal)
    except af.AttnforgeError as error:
        return "refused" if error.got else "a refusal that does not say what it got"
    return "false" if wrong(net, case) else "proved"


def test_what_is_proved_is_right_in_plain_python() -> None:
    seen = Counter(judged(seed) for seed in range(EXAMPLES))
    assert set(seen) <= {"proved", "refused"}, seen
    assert seen["proved"] >= EXAMPLES / 4, f"the law is nearly empty: {seen}"


def by_equality(monkeypatch) -> None:
    """Labels told apart by ==, as dictionaries do."""
    for module in (alphabet, typing, running):
        monkeypatch.setattr(module, "identity", lambda label: label)


def test_the_law_of_proofs_can_fail(monkeypatch) -> None:
    by_equality(monkeypatch)
    assert "false" in {judged(seed) for seed in range(30)}


TRUE_OR_ONE = p.labels(lambda token: 1 if token == "a" else True, p.tokens)
ZEROS = p.labels({"a": 0.0, "b": -0.0}, p.tokens)
SORTED = p.aggregate(p.select(p.rank(p.tokens), p.indices), p.tokens)


def is_true(value) -> int:
    return 3 if value is True else 8


def sign(value) -> int:
    return 1 if str(value) == "0.0" else -1


SAME_BUT_FOR_TYPE = {
    "a last one": (
        p.numbers(is_true, p.aggregate(p.everything.last(), TRUE_OR_ONE)),
        lambda given: [is_true(given[-1] != "a" or 1)] * len(given),
    ),
    "a table": (p.numbers(is_true, TRUE_OR_ONE), lambda given: [8 if token == "a" else 3 for token in given]),
    "zeros": (
        p.numbers(sign, p.aggregate(p.everything.first(), ZEROS)),
        lambda given: [{"a": 1, "b": -1}[given[0]]] * len(given),
    ),
    "a default": (
        p.labels(
            lambda value: type(value).__name__,
            p.aggregate(p.before.last(), p.labels({"a": 0, "b": 1}, p.tokens), False),
        ),
        lambda given: ["bool", *["int"] * (len(given) - 1)],
    ),
    "a pair": (
        p.labels(lambda one, two: (type(one).__name__, two), p.aggregate(p.everything.last(), TRUE_OR_ONE), p.tokens),
        lambda given: [("int" if given[-1] == "a" else "bool", token) for token in given],
    ),
    "a count": (
        p.labels(lambda n: 1 if n == 1 else True, p.selector_width(p.select(p.tokens, p.tokens))),
        lambda given: [1 if given.count(token) == 1 else True for token in given],
    ),
}


@pytest.mark.parametrize("name", SAME_BUT_FOR_TYPE)
def test_labels_that_are_equal_but_not_the_same_are_kept_apart(name) -> None:
    program, reference = SAME_BUT_FOR_TYPE[name]
    net = p.compile(program, ["a", "b"], 3)
    for sequence in (list(each) for n in (1, 2, 3) for each in itertools.product("ab", repeat=n)):
        assert repr(net(sequence)) == repr(reference(sequence)), sequence
        assert [each.values for each in net.trace(sequence).registers]


def test_the_law_of_kept_labels_can_fail(monkeypatch) -> None:
    by_equality(monkeypatch)
    program, reference = SAME_BUT_FOR_TYPE["a last one"]
    net = p.compile(program, ["a", "b"], 3)
    assert any(net([token]) != reference([token]) for token in "ab")


ORDERS = {
    "frozensets": [frozenset(), frozenset({1}), frozenset({2})],
    "a circle": [hostile.Circle(0), hostile.Circle(1), hostile.Circle(2)],
    "no order": [hostile.Colour.RED, hostile.Colour.BLUE],
    "mixed types": [1, "a"],
    "complex": [1j, 2j],
    "NaN": [float("nan"), 1.0],
    "NaN inside": [(float("nan"),), (1.0,)],
}


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("name", ORDERS)
def test_ranks_of_labels_without_one_order_are_refused(name, causal) -> None:
    with pytest.raises(af.TargetError, match=r"one order|takes all labels"):
        p.compile(SORTED, ORDERS[name], 3, causal=causal)


def test_the_law_of_orders_can_fail(monkeypatch) -> None:
    monkeypatch.setattr(typing, "_check_order", lambda *_: None)
    net = p.compile(SORTED, ORDERS["a circle"], 3)
    sequences = [list(each) for each in itertools.product(ORDERS["a circle"], repeat=3)]
    assert any(Counter(net(sequence)) != Counter(sequence) for sequence in sequences)


@pytest.mark.parametrize(
    "order", [[True, 2, 3.5, Fraction(1, 3), Decimal(7)], [(), (1,), (1, "a")], [-np.inf, 0.0, np.inf]]
)
def test_labels_of_several_types_with_one_order_are_ranked(order) -> None:
    net = p.compile(SORTED, order, 3)
    for sequence in map(list, itertools.product(order, repeat=3)):
        assert net(sequence) == sorted(sequence)


class Restless:
    """A label that holds another address each time it is copied."""

    def __reduce__(self):
        return object, (object(),)


RESTLESS = Restless()


def stateful(results):
    turns = itertools.cycle(results)
    return lambda *_: next(turns)


UNSTEADY = {
    "labels": lambda: p.labels(stateful(["x", "y"]), p.tokens),
    "numbers": lambda: p.numbers(stateful([1, 2]), p.tokens),
    "a relation": lambda: p.selector_width(p.select(p.tokens, p.tokens, stateful([True, False]))),
    "new objects": lambda: p.labels(lambda _: object(), p.tokens),
    "types": lambda: p.labels(stateful([1, True]), p.selector_width(p.before)),
    "parts": lambda: p.labels(lambda _: RESTLESS, p.tokens),
}


@pytest.mark.parametrize("name", UNSTEADY)
def test_functions_that_change_their_minds_are_refused(name) -> None:
    with pytest.raises(af.TargetError, match="each time"):
        p.compile(UNSTEADY[name](), ["a", "b"], 3)


@pytest.mark.parametrize("turns", range(1, 14))
def test_functions_that_change_their_minds_late_are_refused_or_taken_at_their_word(turns) -> None:
    last = p.aggregate(p.everything.last(), p.tokens)
    for arguments in ([p.tokens], [last, p.tokens], [p.selector_width(p.before)]):
        function = stateful(["x"] * turns + [f"y{i}" for i in range(turns)])
        with contextlib.suppress(af.AttnforgeError):
            p.compile(p.labels(function, *arguments), ["a", "b"], 3)


def test_the_law_of_steadiness_can_fail(monkeypatch) -> None:
    monkeypatch.setattr(typing, "_asked", lambda _, function, arguments: function(*arguments))
    assert p.compile(UNSTEADY["numbers"](), ["a", "b"], 3)


def equal_to_all():
    """The position that is equal to a label: to this label, all are."""
    return p.aggregate(p.select(p.as_labels(p.indices), p.labels(lambda _: hostile.ANYTHING, p.tokens)), p.indices)


def test_a_label_that_is_equal_to_several_selects_them_all(monkeypatch) -> None:
    assert p.compile(equal_to_all(), ["a"], 3)(["a"] * 3) == pytest.approx([1.0] * 3)
    picked = p.aggregate(p.select(p.as_labels(p.indices), p.labels(lambda _: hostile.ANYTHING, p.tokens)), p.tokens)
    with pytest.raises(af.TargetError, match="share their label"):
        p.compile(picked, ["a", "b"], 3)
    monkeypatch.setattr(typing.Typed, "_equals_one", lambda *_: True)
    assert p.compile(picked, ["a", "b"], 3)  # the law can fail


def test_conditions_on_numbers_are_conditions(monkeypatch) -> None:
    even = p.selector_width(p.where(p.indices, lambda i: i % 2 == 0))
    assert p.compile(even, ["a"], 5)(["a"] * 5) == [3] * 5
    monkeypatch.setattr(language, "as_labels", lambda values: values)
    even = p.selector_width(p.where(p.indices, lambda i: i % 2 == 0))
    assert p.compile(even, ["a"], 5)(["a"] * 5) != [3] * 5  # the law can fail


OTHERS = [True, 1.0, Fraction(1), Decimal(1), -0.0, (True,), [1], float("nan"), None, "1", hostile.ANYTHING]


@pytest.mark.parametrize("token", OTHERS, ids=kind_of)
def test_tokens_that_are_equal_to_one_of_the_vocabulary_but_not_it_are_refused(token) -> None:
    program = p.numbers(lambda value: 3 if type(value) is int else 8, p.tokens)
    net = p.compile(program, [1, 0, (1,)], 2)
    for call in (net, net.encode, net.trace, net.attention):
        with pytest.raises(af.DomainError, match="of the vocabulary"):
            call([1, token])


def test_the_law_of_tokens_can_fail(monkeypatch) -> None:
    by_equality(monkeypatch)
    assert p.compile(p.tokens, [1, 0], 2)([True]) == [1]


def test_scalars_of_numpy_are_what_they_hold() -> None:
    assert p.compile(p.tokens, [1, 2], 3)(list(np.array([2, 1]))) == [2, 1]
    assert p.compile(p.tokens, ["a", "b"], 3)(list(np.array(["b"]))) == ["b"]
    assert p.compile(p.tokens, list(np.arange(3)), 3)([2, 0]) == [2, 0]


def test_a_nan_is_itself_and_equal_to_none() -> None:
    kept, same = hostile.NAN, p.selector_width(p.select(p.tokens, p.tokens))
    net = p.compile(same, [kept, 1.0], 3)
    assert net([kept, 1.0, kept]) == [0, 1, 0]
    with pytest.raises(af.DomainError):
        net([float("nan")])
    with pytest.raises(af.TargetError, match="each time"):
        p.compile(p.labels(lambda _: (float("nan"),), p.tokens), ["a"], 3)


def test_the_law_of_nans_can_fail(monkeypatch) -> None:
    for module in (alphabet, typing, running):
        monkeypatch.setattr(module, "identity", repr)
    assert p.compile(p.tokens, [hostile.NAN, 1.0], 3)([float("nan")])
    assert p.compile(p.labels(lambda _: (float("nan"),), p.tokens), ["a"], 3)


BEYOND = {
    "huge": lambda: p.numbers({"a": 10**400, "b": 0}, p.tokens),
    "no digits": lambda: p.mean(p.numbers({"a": -(10**5000), "b": 0}, p.tokens)),
    "tiny": lambda: p.mean(p.numbers({"a": Fraction(1, 10**400), "b": 0}, p.tokens)),
    "factor": lambda: p.indices * 10**400,
    "constant": lambda: p.constant(10**400),
    "default": lambda: p.aggregate(p.before, p.indices, default=Fraction(1, 10**400)),
    "square": lambda: p.selector_width(p.select(p.numbers({"a": 10**200, "b": 0}, p.tokens), p.indices)),
    "count": lambda: p.numbers(lambda n: 10 ** (400 * n), p.selector_width(p.before)),
}


@pytest.mark.parametrize("name", BEYOND)
def test_numbers_beyond_float64_are_refused(name) -> None:
    with pytest.raises(af.TargetError, match=r"from 2.3e-308 to 1.7e308"):
        p.compile(BEYOND[name](), ["a", "b"], 3)


def test_the_law_of_sizes_can_fail(monkeypatch) -> None:
    monkeypatch.setattr(forms, "check_range", lambda *_: None)
    monkeypatch.setattr(typing, "check_range", lambda *_: None)
    assert p.compile(BEYOND["tiny"](), ["a", "b"], 3)


@pytest.mark.parametrize("value", [1e400, float("nan"), None, True, "1", 0.5, Decimal(1)])
def test_what_is_no_rational_number_is_refused(value) -> None:
    for make in (lambda: p.numbers(lambda _: value, p.tokens), lambda: p.constant(value), lambda: p.indices * value):
        with pytest.raises(af.TargetError):
            p.compile(make(), ["a"], 3)


def begun(*_):
    raise AssertionError("work has begun")


@pytest.mark.parametrize("size", [10**9, 10**5000], ids=["long", "no digits"])
def test_lengths_beyond_any_proof_are_refused_before_work(size, monkeypatch) -> None:
    monkeypatch.setattr(compiling, "_attempt", begun)
    for call in (
        lambda: p.compile(p.library["histogram"], max_length=size),
        lambda: p.proved_lengths(p.library["sort"], limit=size),
    ):
        with pytest.raises(af.RefusalError, match="Ask for fewer"):
            call()


def test_the_law_of_lengths_can_fail(monkeypatch) -> None:
    monkeypatch.setattr(compiling, "_attempt", begun)
    monkeypatch.setattr(compiling, "LONGEST", 10**12)
    with pytest.raises(AssertionError, match="work has begun"):
        p.compile(p.library["histogram"], max_length=10**9)


@pytest.mark.parametrize("queries", [p.indices, p.length - 1 - p.indices, p.constant(0)])
@pytest.mark.parametrize("keys", [p.indices, p.rank(p.tokens)])
def test_selections_of_one_token_are_counted(keys, queries) -> None:
    assert p.compile(p.selector_width(p.select(keys, queries)), ["a", "b"], 4)(["b", "a", "b"]) == [1, 1, 1]


def test_the_law_of_counts_can_fail(monkeypatch) -> None:
    reads = registers.selector_reads
    monkeypatch.setattr(registers, "selector_reads", lambda typed, selector, _: reads(typed, selector, False))
    with pytest.raises(KeyError):
        p.compile(p.selector_width(p.select(p.rank(p.tokens), p.indices)), ["a", "b"], 4)


@pytest.mark.parametrize("keys", [p.constant(1), p.indices - p.indices, 0 * p.indices])
def test_keys_that_are_all_alike_are_refused(keys) -> None:
    with pytest.raises(af.TargetError, match="keys depend on the token"):
        p.compile(p.selector_width(p.select(keys, p.indices)), ["a", "b"], 3)


def test_the_law_of_keys_can_fail(monkeypatch) -> None:
    monkeypatch.setattr(typing, "_check_keys", lambda *_: None)
    with pytest.raises(StopIteration):
        p.compile(p.selector_width(p.select(p.constant(1), p.indices)), ["a", "b"], 3)


@pytest.mark.parametrize("label", [[1], {}, ([],), Decimal("sNaN"), RESTLESS], ids=kind_of)
def test_what_cannot_be_a_label_is_refused(label) -> None:
    makes = [
        lambda: (p.tokens, ["a", label]),
        lambda: (p.labels(lambda token: label, p.tokens), ["a"]),
        lambda: (p.aggregate(p.before.last(), p.tokens, label), ["a"]),
        lambda: (p.labels(lambda count: label, p.selector_width(p.before)), ["a"]),
    ]
    for make in makes:
        program, vocabulary = make()
        with pytest.raises(af.TargetError):
            p.compile(program, vocabulary, 3)


def test_the_law_of_what_can_be_a_label_can_fail(monkeypatch) -> None:
    monkeypatch.setattr(alphabet, "_checked", alphabet.identity)
    assert p.compile(p.aggregate(p.before.last(), p.tokens, [1]), ["a"], 3)(["a"] * 2) == [[1], "a"]
