"""What programs mean, which types they have, and how wrong ones are refused."""

from fractions import Fraction

import numpy as np
import pandas
import pytest
import torch

import attnforge as af
from attnforge import programs as p
from tests.refusals import refused

AB = ["a", "b"]


def values(program, sequence):
    return p.evaluate(program, sequence)[program]


def test_selected_tokens_are_averaged() -> None:
    ones = p.numbers({"a": 1, "b": 0}, p.tokens)
    assert values(p.mean(ones), "abb") == [Fraction(1, 3)] * 3
    assert values(p.mean(ones, p.upto), "abb") == [1, Fraction(1, 2), Fraction(1, 3)]


def test_an_empty_selection_gives_the_default() -> None:
    assert values(p.aggregate(p.select(p.indices, p.indices - 1), p.tokens), "ab") == [None, "a"]
    assert values(p.aggregate(p.before, p.indices), "abb") == [0, 0, Fraction(1, 2)]
    assert values(p.aggregate(p.before, p.indices, default=-1), "ab") == [-1, 0]


def test_rankings_keep_the_largest() -> None:
    same = p.select(p.tokens, p.tokens)
    assert values(p.aggregate(same.last(), p.indices), "abab") == [2, 3, 2, 3]
    assert values(p.aggregate(same.first(), p.indices), "abab") == [0, 1, 0, 1]


def test_ranks_are_a_permutation() -> None:
    assert values(p.rank(p.tokens), "baab") == [2, 0, 1, 3]


def test_numbers_are_added_scaled_and_compared() -> None:
    assert values(3 - 2 * p.indices + p.length, "ab") == [5, 3]
    assert values(p.indices >= 1, "ab") == [False, True]
    assert values(p.compare(p.indices, "==", p.length - 1), "ab") == [False, True]


def results(program):
    """The labels that a network of it may write."""
    return p.compile(program, AB, 9).layout.result.labels


def test_labels_that_are_read_off_take_no_layer() -> None:
    net = p.compile(p.labels(lambda a, b: a + b, p.tokens, p.labels(str.upper, p.tokens)), AB, 4)
    assert net(["a", "b"]) == ["aA", "bB"]
    assert net.heads == 0


def test_a_position_that_exists_needs_no_default() -> None:
    assert results(p.aggregate(p.select(p.indices, p.length - 1 - p.indices), p.tokens)) == ("a", "b")
    assert results(p.aggregate(p.select(p.indices, p.length - p.indices), p.tokens)) == ("a", "b", None)


@pytest.mark.parametrize("query", [p.indices + 1, p.indices - 1, 2 * p.indices, p.constant(1), p.length])
def test_positions_that_may_not_exist_are_known(query) -> None:
    assert None in results(p.aggregate(p.select(p.indices, query), p.tokens))


def test_causal_programs_see_what_came_before() -> None:
    count = p.selector_width(p.select(p.tokens, p.tokens))
    assert p.compile(count, AB, 5, causal=True)(["a", "a", "b", "a"]) == [1, 2, 1, 3]
    ordered = p.rank(p.tokens)
    assert p.compile(ordered, AB, 4, causal=True)(["b", "a", "a"]) == [0, 0, 1]


def test_computed_numbers_are_compared_by_order_as_labels() -> None:
    count = p.selector_width(p.select(p.tokens, p.tokens))
    rarer = p.selector_width(p.select(count, count, "<"))
    assert p.compile(rarer, AB, 5)(["a", "b", "a"]) == [1, 0, 1]


def cyclic():
    node = p.labels(lambda a, b: a, p.tokens, p.tokens).named("snake")
    object.__setattr__(node, "arguments", (p.tokens, node))
    return node


SAME = p.select(p.tokens, p.tokens)
MEAN = p.mean(p.indices)
WRONG = {
    "a cycle": cyclic,
    "a relation that is a number": lambda: p.aggregate(p.select(p.tokens, p.tokens, lambda k, q: 1).last(), p.tokens),
    "labels compared with numbers": lambda: p.aggregate(p.select(p.tokens, p.indices), p.tokens),
    "tokens of several labels": lambda: p.aggregate(p.upto, p.tokens),
    "a table with a gap": lambda: p.labels({"a": 1}, p.tokens),
    "a number that is a float": lambda: p.numbers(lambda token: 0.5, p.tokens),
    "a table of fractions": lambda: p.labels(lambda x: x, MEAN),
    "a strange relation": lambda: p.aggregate(p.select(p.tokens, p.tokens, "=~"), p.tokens),
    "a rank of fractions": lambda: p.aggregate(p.everything.largest(MEAN), p.tokens),
    "a comparison of fractions of fractions": lambda: p.mean(MEAN) > 0,
    "a width of the last": lambda: p.selector_width(p.everything.last()),
    "no selection": lambda: p.aggregate(p.tokens, p.tokens),
    "a number": lambda: 3,
    "a factor that is a float": lambda: p.indices * 0.5,
    "a mean of a number": lambda: p.mean(p.indices, 3),
    "a mean of nothing": lambda: p.mean(None),
    "a comparison of labels": lambda: p.compare(p.tokens, "<", 1),
    "a comparison by a list": lambda: p.compare(p.indices, [], 1),
    "labels of a number": lambda: p.selector_width(p.where(3, bool)),
}


@pytest.mark.parametrize("what", WRONG)
def test_wrong_programs_are_refused(what) -> None:
    with refused(af.TargetError):
        p.compile(WRONG[what](), AB, 6)


def test_a_refusal_names_the_operation() -> None:
    with pytest.raises(af.TargetError, match="cycle through labels 'snake'"):
        p.compile(cyclic(), AB, 6)


LIBRARY = [(p.library[key], words, 3) for key in ("count_compare", "dyck1", "dyck2", "balanced")
           for words in ([], ["a"], [["a"]], 3, "abcd")]  # fmt: skip


@pytest.mark.parametrize("given", [
    *((p.tokens, vocabulary, 3) for vocabulary in ("ab", [], ["a", "a"], [["a"]])), (p.tokens, AB, 0), (p.tokens,),
    *LIBRARY,
], ids=lambda given: str(given[1:]))  # fmt: skip
def test_vocabularies_and_lengths_are_checked(given) -> None:
    with refused(af.TargetError):
        p.compile(*given)


def test_labels_that_are_fractions_stay_fractions() -> None:
    program = p.labels(lambda value: type(value).__name__, p.labels(lambda _: Fraction(2), p.tokens))
    assert values(program, "a") == p.compile(program, AB, 3)(["a"]) == ["Fraction"]


@pytest.mark.parametrize("sequence", [["a", "c"], ["a"] * 4, [], 3, [["a"]], np.ma.masked_array([1], [True])], ids=str)
def test_unknown_tokens_and_long_sequences_are_refused(sequence) -> None:
    with refused(af.DomainError):
        p.compile(p.selector_width(SAME), [*AB, 1], 3)(sequence)


@pytest.mark.parametrize(
    "wrong", [3, None, 1.5, "ab", b"ab", [3], [[]], [["c"]], torch.eye(2), torch.eye(2).to_sparse()]
)
def test_many_takes_sequences(wrong) -> None:
    with refused(af.DomainError) as caught:
        p.compile(p.tokens, AB, 3).many(wrong)
    assert caught.value.remedy


@pytest.mark.parametrize("kind", [list, tuple, np.array, torch.tensor, pandas.Series], ids=lambda kind: kind.__name__)
def test_tokens_come_in_arrays(kind) -> None:
    net = p.compile(p.aggregate(p.select(p.indices, p.length - 1 - p.indices), p.tokens), [1, 2], 3)
    assert net(kind([1, 2, 2])) == [2, 2, 1]
    assert net.many([kind([1, 2]), kind([2])]) == [[2, 1], [2]]


def test_positions_are_labels() -> None:
    program = p.labels(lambda i: i % 2, p.as_labels(p.indices))
    assert p.compile(program, AB, 5)(["a"] * 4) == [0, 1, 0, 1]
