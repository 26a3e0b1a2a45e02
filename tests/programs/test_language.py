"""What programs mean, which types they have, and how wrong ones are refused."""

from fractions import Fraction

import numpy as np
import pandas
import pytest
import torch

import attnforge as af
from attnforge import programs as p
from attnforge.targets.programs.language import LabelAggregate, Positions
from attnforge.targets.programs.registers import Layout
from attnforge.targets.programs.typing import Typed

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


def test_labels_that_are_read_off_take_no_register() -> None:
    program = p.labels(lambda a, b: a + b, p.tokens, p.labels(str.upper, p.tokens))
    typed = Typed(program, AB, 4)
    assert typed.root(program) == (typed.token, ("aA", "bB"))
    assert Layout(typed).depth == 0


def test_a_position_that_exists_needs_no_default() -> None:
    found = Typed(p.aggregate(p.select(p.indices, p.length - 1 - p.indices), p.tokens), AB, 9)
    assert found.labels(found.program) == ("a", "b")
    shifted = Typed(p.aggregate(p.select(p.indices, p.length - p.indices), p.tokens), AB, 9)
    assert shifted.labels(shifted.program) == ("a", "b", None)


@pytest.mark.parametrize("query", [p.indices + 1, p.indices - 1, 2 * p.indices, p.constant(1), p.length])
def test_positions_that_may_not_exist_are_known(query) -> None:
    selector = p.select(p.indices, query)
    assert Typed(p.tokens, AB, 9).may_be_empty(selector)


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


WRONG = {
    "cycle through labels 'snake'": cyclic,
    "a relation is True or False": lambda: p.aggregate(p.select(p.tokens, p.tokens, lambda k, q: 1).last(), p.tokens),
    "labels with labels": lambda: p.aggregate(p.select(p.tokens, p.indices), p.tokens),
    "share their label": lambda: p.aggregate(p.upto, p.tokens),
    "takes all labels of its arguments": lambda: p.labels({"a": 1}, p.tokens),
    "results are integers or fractions": lambda: p.numbers(lambda token: 0.5, p.tokens),
    "tables of a number need integers": lambda: p.labels(lambda x: x, p.mean(p.indices)),
    "a relation is one of": lambda: p.aggregate(p.select(p.tokens, p.tokens, "=~"), p.tokens),
    "ranked by integers": lambda: p.aggregate(p.everything.largest(p.mean(p.indices)), p.tokens),
    "numbers are compared where their grid is known": lambda: p.mean(p.mean(p.indices)) > 0,
    "a width counts all": lambda: p.selector_width(p.everything.last()),
    "takes a selection first": lambda: p.aggregate(p.tokens, p.tokens),
    "is the value over the sequence": lambda: 3,
    "scaled by integers and fractions": lambda: p.indices * 0.5,
    "`mean` takes a selection first": lambda: p.mean(p.indices, 3),
    "`mean` takes numbers over the sequence": lambda: p.mean(None),
    "`compare` takes numbers over the sequence": lambda: p.compare(p.tokens, "<", 1),
    "A comparison is one of": lambda: p.compare(p.indices, [], 1),
    "`as_labels` takes values over the sequence": lambda: p.selector_width(p.where(3, bool)),
}


@pytest.mark.parametrize("words", WRONG)
def test_wrong_programs_are_refused_naming_the_operation(words) -> None:
    with pytest.raises(af.TargetError, match=words):
        p.compile(WRONG[words](), AB, 6)


def test_vocabularies_and_lengths_are_checked() -> None:
    for vocabulary in ("ab", [], ["a", "a"], [["a"]]):
        with pytest.raises(af.TargetError):
            p.compile(p.tokens, vocabulary, 3)
    with pytest.raises(af.TargetError, match="max_length"):
        p.compile(p.tokens, AB, 0)
    with pytest.raises(af.TargetError, match="no vocabulary"):
        p.compile(p.tokens)


@pytest.mark.parametrize("vocabulary", [[], ["a"], [["a"]], 3, "abcd"])
@pytest.mark.parametrize("key", ["count_compare", "dyck1", "dyck2", "balanced"])
def test_vocabularies_that_an_entry_is_not_made_for_are_refused(key, vocabulary) -> None:
    with pytest.raises(af.TargetError):
        p.compile(p.library[key], vocabulary, 3)


def test_labels_that_are_fractions_stay_fractions() -> None:
    program = p.labels(lambda value: type(value).__name__, p.labels(lambda _: Fraction(2), p.tokens))
    assert values(program, "a") == p.compile(program, AB, 3)(["a"]) == ["Fraction"]


def test_unknown_tokens_and_long_sequences_are_refused_before_work() -> None:
    net = p.compile(p.selector_width(p.select(p.tokens, p.tokens)), AB, 3)
    with pytest.raises(af.DomainError, match="'c' at 1"):
        net(["a", "c"])
    with pytest.raises(af.DomainError, match="1 to 3 tokens"):
        net(["a"] * 4)
    with pytest.raises(af.DomainError, match="1 to 3 tokens"):
        net([])
    with pytest.raises(af.DomainError, match="a list of tokens"):
        net(3)
    with pytest.raises(af.DomainError):
        net([["a"]])


@pytest.mark.parametrize(
    "wrong", [3, None, 1.5, "ab", b"ab", [3], [[]], [["c"]], torch.eye(2), torch.eye(2).to_sparse()]
)
def test_many_takes_sequences(wrong) -> None:
    with pytest.raises(af.DomainError) as refused:
        p.compile(p.tokens, AB, 3).many(wrong)
    assert refused.value.got
    assert refused.value.remedy


@pytest.mark.parametrize("kind", [list, tuple, np.array, torch.tensor, pandas.Series], ids=lambda kind: kind.__name__)
def test_tokens_come_in_arrays(kind) -> None:
    net = p.compile(p.aggregate(p.select(p.indices, p.length - 1 - p.indices), p.tokens), [1, 2], 3)
    assert net(kind([1, 2, 2])) == [2, 2, 1]
    assert net.many([kind([1, 2]), kind([2])]) == [[2, 1], [2]]


def test_masked_tokens_are_refused() -> None:
    with pytest.raises(af.DomainError, match="masked"):
        p.compile(p.tokens, [1, None], 3)(np.ma.masked_array([1, 1], [False, True]))


def test_shared_labels_follow_from_a_condition() -> None:
    same = LabelAggregate(p.select(p.tokens, p.tokens), p.tokens)
    assert p.compile(same, AB, 3)(["a", "b"]) == ["a", "b"]


def test_positions_are_labels() -> None:
    program = p.labels(lambda i: i % 2, p.as_labels(p.indices))
    assert isinstance(p.as_labels(p.indices), Positions)
    assert p.compile(program, AB, 5)(["a"] * 4) == [0, 1, 0, 1]
