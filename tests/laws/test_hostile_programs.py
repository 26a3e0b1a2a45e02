"""No false proof of a program, whatever its labels are; and what cannot be proved is refused with a sentence."""

import itertools
import os
from collections import Counter
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

import attnforge as af
from attnforge import programs as p
from tests.laws import hostile_programs as hostile
from tests.refusals import refused

EXAMPLES = int(os.environ.get("ATTNFORGE_EXAMPLES", "60"))


def kind_of(value):
    return type(value).__name__


def is_right(found, wanted, certificate):
    """Whether a number is the one wanted: an integer exactly, a fraction within the bound."""
    if certificate.is_exact:
        return found == wanted
    return abs(Fraction(found) - wanted) <= Fraction(certificate.bound)


def is_wrong(net, case):
    """Whether the network differs from plain Python on any of all short sequences."""
    number = hostile.is_number(case.tree)
    same = is_right if number else (lambda a, b, _: hostile.told(a) == hostile.told(b))
    for n in range(1, case.length + 1):
        for sequence in map(list, itertools.product(case.vocabulary, repeat=n)):
            given = net(sequence)
            try:
                wanted = hostile.plain(case.tree, sequence, case.causal)
            except Exception:
                return True
            if not all(same(a, b, net.certificate) for a, b in zip(given, wanted, strict=True)):
                return True
    return False


def judged(seed):
    """Refused, proved, or false: proved and wrong. Any error that is not the package's own is raised."""
    case = hostile.drawn(seed)
    try:
        net = p.compile(hostile.forged(case.tree), case.vocabulary, case.length, causal=case.causal)
    except af.AttnforgeError as error:
        return "refused" if error.got else "a refusal that does not say what it got"
    return "false" if is_wrong(net, case) else "proved"


def test_what_is_proved_is_right_in_plain_python():
    seen = Counter(judged(seed) for seed in range(EXAMPLES))
    assert set(seen) <= {"proved", "refused"}, seen
    assert seen["proved"] >= EXAMPLES / 4, f"the law is nearly empty: {seen}"


def test_labels_told_apart_by_equality_break_the_law(monkeypatch):
    """The mutation: as dictionaries do."""
    for module in ("targets.programs.alphabet", "targets.programs.typing", "programs.running"):
        monkeypatch.setattr(f"attnforge.{module}.identity", lambda label: label)
    assert "false" in {judged(seed) for seed in range(30)}
    program, reference = SAME_BUT_FOR_TYPE["a last one"]
    net = p.compile(program, ["a", "b"], 3)
    assert any(net([token]) != reference([token]) for token in "ab")
    assert p.compile(p.tokens, [1, 0], 2)([True]) == [1]


TRUE_OR_ONE = p.labels(lambda token: 1 if token == "a" else True, p.tokens)
ZEROS = p.labels({"a": 0.0, "b": -0.0}, p.tokens)
SORTED = p.aggregate(p.select(p.rank(p.tokens), p.indices), p.tokens)


def is_true(value):
    return 3 if value is True else 8


def sign(value):
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
        p.labels(kind_of, p.aggregate(p.before.last(), p.labels({"a": 0, "b": 1}, p.tokens), False)),
        lambda given: ["bool", *["int"] * (len(given) - 1)],
    ),
    "a pair": (
        p.labels(lambda one, two: (kind_of(one), two), p.aggregate(p.everything.last(), TRUE_OR_ONE), p.tokens),
        lambda given: [("int" if given[-1] == "a" else "bool", token) for token in given],
    ),
    "a count": (
        p.labels(lambda n: 1 if n == 1 else True, p.selector_width(p.select(p.tokens, p.tokens))),
        lambda given: [1 if given.count(token) == 1 else True for token in given],
    ),
}


@pytest.mark.parametrize("name", SAME_BUT_FOR_TYPE)
def test_labels_that_are_equal_but_not_the_same_are_kept_apart(name):
    program, reference = SAME_BUT_FOR_TYPE[name]
    net = p.compile(program, ["a", "b"], 3)
    for sequence in (list(each) for n in (1, 2, 3) for each in itertools.product("ab", repeat=n)):
        assert repr(net(sequence)) == repr(reference(sequence)), sequence
        assert [each.values for each in net.trace(sequence).registers]


@pytest.mark.parametrize(
    "order", [[True, 2, 3.5, Fraction(1, 3), Decimal(7)], [(), (1,), (1, "a")], [-np.inf, 0.0, np.inf]]
)
def test_labels_of_several_types_with_one_order_are_ranked(order):
    net = p.compile(SORTED, order, 3)
    for sequence in map(list, itertools.product(order, repeat=3)):
        assert net(sequence) == sorted(sequence)


class Restless:
    """A label that holds another address each time it is copied."""

    def __reduce__(self):
        return object, (object(),)


RESTLESS = Restless()
ORDERS = {
    "frozensets": [frozenset(), frozenset({1}), frozenset({2})],
    "a circle": [hostile.Circle(0), hostile.Circle(1), hostile.Circle(2)],
    "no order": [hostile.Colour.RED, hostile.Colour.BLUE], "mixed types": [1, "a"], "complex": [1j, 2j],
    "NaN": [float("nan"), 1.0], "NaN inside": [(float("nan"),), (1.0,)],
}  # fmt: skip


def stateful(results):
    turns = itertools.cycle(results)
    return lambda *_: next(turns)


def picked_by_anything():
    """The token at the position that is equal to a label: to this label, all are."""
    return p.aggregate(p.select(p.as_labels(p.indices), p.labels(lambda _: hostile.ANYTHING, p.tokens)), p.tokens)


NO_NUMBERS = (1e400, float("nan"), None, True, "1", 0.5, Decimal(1))
NO_LABELS = ([1], {}, ([],), Decimal("sNaN"), RESTLESS)
WRONG = {
    "labels that change": lambda: p.labels(stateful(["x", "y"]), p.tokens),
    "numbers that change": lambda: p.numbers(stateful([1, 2]), p.tokens),
    "a relation that changes": lambda: p.selector_width(p.select(p.tokens, p.tokens, stateful([True, False]))),
    "new objects": lambda: p.labels(lambda _: object(), p.tokens),
    "types that change": lambda: p.labels(stateful([1, True]), p.selector_width(p.before)),
    "parts that change": lambda: p.labels(lambda _: RESTLESS, p.tokens),
    "a NaN that is new each time": lambda: p.labels(lambda _: (float("nan"),), p.tokens),
    "huge": lambda: p.numbers({"a": 10**400, "b": 0}, p.tokens),
    "no digits": lambda: p.mean(p.numbers({"a": -(10**5000), "b": 0}, p.tokens)),
    "tiny": lambda: p.mean(p.numbers({"a": Fraction(1, 10**400), "b": 0}, p.tokens)),
    "a huge factor": lambda: p.indices * 10**400,
    "a huge constant": lambda: p.constant(10**400),
    "a tiny default": lambda: p.aggregate(p.before, p.indices, default=Fraction(1, 10**400)),
    "a huge square": lambda: p.selector_width(p.select(p.numbers({"a": 10**200, "b": 0}, p.tokens), p.indices)),
    "a huge count": lambda: p.numbers(lambda n: 10 ** (400 * n), p.selector_width(p.before)),
    "a label that is equal to several": picked_by_anything,
    **{f"keys {i}": (lambda keys=keys: p.selector_width(p.select(keys, p.indices)))
       for i, keys in enumerate((p.constant(1), p.indices - p.indices, 0 * p.indices))},
    **{f"no number {v!r}": (lambda v=v: p.numbers(lambda _: v, p.tokens)) for v in NO_NUMBERS},
    **{f"no constant {v!r}": (lambda v=v: p.constant(v)) for v in NO_NUMBERS},
    **{f"no factor {v!r}": (lambda v=v: p.indices * v) for v in NO_NUMBERS},
    **{f"no label {kind_of(v)}": (lambda v=v: p.labels(lambda _: v, p.tokens)) for v in NO_LABELS},
    **{f"no default {kind_of(v)}": (lambda v=v: p.aggregate(p.before.last(), p.tokens, v)) for v in NO_LABELS},
    **{f"no label of a count {kind_of(v)}": (lambda v=v: p.labels(lambda _: v, p.selector_width(p.before)))
       for v in NO_LABELS},
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_what_is_no_program_is_refused(name):
    with refused(af.TargetError):
        p.compile(WRONG[name](), ["a", "b"], 3)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("name", ORDERS)
def test_ranks_of_labels_without_one_order_are_refused(name, causal):
    with refused(af.TargetError):
        p.compile(SORTED, ORDERS[name], 3, causal=causal)


@pytest.mark.parametrize("label", NO_LABELS, ids=kind_of)
def test_what_cannot_be_a_label_is_no_token(label):
    with refused(af.TargetError):
        p.compile(p.tokens, ["a", label], 3)


@pytest.mark.parametrize("size", [10**9, 10**5000], ids=["long", "no digits"])
def test_lengths_beyond_any_proof_are_refused_before_work(size, monkeypatch):
    def begun(*_):
        raise AssertionError("work has begun")

    monkeypatch.setattr("attnforge.programs.compiling._attempt", begun)
    with refused(af.RefusalError):
        p.compile(p.library["histogram"], max_length=size)
    with refused(af.RefusalError):
        p.proved_lengths(p.library["sort"], limit=size)
    monkeypatch.setattr("attnforge.programs.compiling.LONGEST", 10**12)
    with pytest.raises(AssertionError):  # the law can fail
        p.compile(p.library["histogram"], max_length=10**9)


def test_a_label_that_is_equal_to_several_selects_them_all():
    positions = p.as_labels(p.indices)
    all_equal = p.aggregate(p.select(positions, p.labels(lambda _: hostile.ANYTHING, p.tokens)), p.indices)
    assert p.compile(all_equal, ["a"], 3)(["a"] * 3) == pytest.approx([1.0] * 3)


def test_conditions_on_numbers_are_conditions():
    even = p.selector_width(p.where(p.indices, lambda i: i % 2 == 0))
    assert p.compile(even, ["a"], 5)(["a"] * 5) == [3] * 5


OTHERS = [True, 1.0, Fraction(1), Decimal(1), -0.0, (True,), [1], float("nan"), None, "1", hostile.ANYTHING]


@pytest.mark.parametrize("token", OTHERS, ids=kind_of)
def test_tokens_that_are_equal_to_one_of_the_vocabulary_but_not_it_are_refused(token):
    net = p.compile(p.numbers(lambda value: 3 if type(value) is int else 8, p.tokens), [1, 0, (1,)], 2)
    for call in (net, net.encode, net.trace, net.attention):
        with refused(af.DomainError):
            call([1, token])


def test_scalars_of_numpy_are_what_they_hold():
    assert p.compile(p.tokens, [1, 2], 3)(list(np.array([2, 1]))) == [2, 1]
    assert p.compile(p.tokens, ["a", "b"], 3)(list(np.array(["b"]))) == ["b"]
    assert p.compile(p.tokens, list(np.arange(3)), 3)([2, 0]) == [2, 0]


def test_a_nan_is_itself_and_equal_to_none():
    kept, same = hostile.NAN, p.selector_width(p.select(p.tokens, p.tokens))
    net = p.compile(same, [kept, 1.0], 3)
    assert net([kept, 1.0, kept]) == [0, 1, 0]
    with refused(af.DomainError):
        net([float("nan")])


@pytest.mark.parametrize("queries", [p.indices, p.length - 1 - p.indices, p.constant(0)])
@pytest.mark.parametrize("keys", [p.indices, p.rank(p.tokens)])
def test_selections_of_one_token_are_counted(keys, queries):
    assert p.compile(p.selector_width(p.select(keys, queries)), ["a", "b"], 4)(["b", "a", "b"]) == [1, 1, 1]
