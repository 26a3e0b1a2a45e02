"""Programs that people know, each a record: the program, a vocabulary, a length, and what it should compute.

A new one is one more entry of ``LIBRARY``, here; tests, benchmark and tables take it from there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from attnforge.targets.programs.language import (
    Labels,
    Numbers,
    aggregate,
    before,
    compare,
    constant,
    everything,
    indices,
    labels,
    length,
    mean,
    numbers,
    rank,
    select,
    selector_width,
    tokens,
    upto,
    where,
)

Sequence_ = list[Any]


@dataclass(frozen=True)
class Entry:
    """A program of the library.

    ``make`` gives the program for a vocabulary, ``reference`` says in plain Python what it computes, from a sequence
    and the vocabulary. ``small`` is a vocabulary of which all short sequences can be tried.
    """

    name: str
    description: str
    make: Callable[[Sequence[Any]], Labels | Numbers]
    reference: Callable[[Sequence_, Sequence[Any]], Sequence_]
    vocabulary: tuple[Any, ...]
    small: tuple[Any, ...]
    max_length: int

    @property
    def program(self) -> Labels | Numbers:
        """The program for the default vocabulary."""
        return self.make(self.vocabulary)


def reverse(_vocabulary: Sequence[Any]) -> Labels | Numbers:
    """Attend to the position that is as far from the end as mine is from the start."""
    opposite = (length - 1 - indices).named("opposite")
    return aggregate(select(indices, opposite, "=="), tokens).named("reversed")


def sort(_vocabulary: Sequence[Any]) -> Labels | Numbers:
    """Attend to the token whose rank is my position."""
    return aggregate(select(rank(tokens), indices, "=="), tokens).named("sorted")


def histogram(_vocabulary: Sequence[Any]) -> Labels | Numbers:
    """Count the tokens that are mine."""
    return selector_width(select(tokens, tokens, "==")).named("count")


def most_frequent(vocabulary: Sequence[Any]) -> Labels | Numbers:
    """The largest of size * count - place: of equal counts the token that comes first in the vocabulary is larger."""
    size, place = len(vocabulary), {token: i for i, token in enumerate(vocabulary)}
    count = selector_width(select(tokens, tokens, "==")).named("count")
    standing = size * count - numbers(place, tokens)
    best = aggregate(everything.largest(standing), standing).named("best")
    return labels(lambda value: vocabulary[-value % size], best).named("most frequent")


def majority(vocabulary: Sequence[Any]) -> Labels | Numbers:
    """Whether more than half of all tokens are the last of the vocabulary: the sign of a mean."""
    return mean(numbers(lambda token: 1 if token == vocabulary[-1] else -1, tokens)).named("balance") > 0


def count_compare(vocabulary: Sequence[Any]) -> Labels | Numbers:
    """Whether, up to each token, the first of the vocabulary came more often than the second."""
    sign = {vocabulary[0]: 1, vocabulary[1]: -1}
    return mean(numbers(lambda token: sign.get(token, 0), tokens), upto).named("difference") > 0


def parity(vocabulary: Sequence[Any]) -> Labels | Numbers:
    """Whether the last of the vocabulary comes an odd number of times: counted, then looked up."""
    count = selector_width(where(tokens, lambda token: token == vocabulary[-1])).named("ones")
    return labels(lambda value: value % 2, count).named("parity")


def _any(condition: Labels, over: Any) -> Labels:
    """Whether a condition holds somewhere: its mean is above zero."""
    return mean(numbers(lambda value: int(bool(value)), condition), over).named("share") > 0


def _state(is_broken: bool, depth: Any) -> str:
    """F if no continuation helps, T if balanced, else P: it may still become so."""
    return "F" if is_broken else "T" if depth == 0 else "P"


def dyck1(vocabulary: Sequence[Any]) -> Labels | Numbers:
    """For each prefix: balanced (T), to be continued (P) or broken (F). Depths are read off the sign of a mean."""
    opening, closing = vocabulary[:2]
    step = numbers(lambda token: {opening: 1, closing: -1}.get(token, 0), tokens)
    depth = mean(step, upto).named("depth / length")
    broken = _any(depth < 0, upto).named("broken")
    at_zero = compare(depth, "==", 0).named("depth is 0")
    return labels(lambda bad, zero: _state(bad, 0 if zero else 1), broken, at_zero).named("state")


def balanced(vocabulary: Sequence[Any]) -> Labels | Numbers:
    """Whether the brackets of the whole sequence are balanced, whatever stands between them."""
    opening, closing = vocabulary[:2]
    step = numbers(lambda token: {opening: 1, closing: -1}.get(token, 0), tokens)
    broken = _any(mean(step, upto).named("depth / length") < 0, everything)
    return labels(lambda bad, zero: zero and not bad, broken, compare(mean(step), "==", 0)).named("balanced")


DEEPEST = 4


def dyck2(vocabulary: Sequence[Any]) -> Labels | Numbers:
    """The same of two kinds of brackets nested at most four deep.

    A closing bracket is matched with the last opening one before it whose depth is one more than the depth after it.
    """
    opening, closing = (vocabulary[0], vocabulary[2]), (vocabulary[1], vocabulary[3])
    pairs = dict(zip(closing, opening, strict=True))
    opened = selector_width(where(tokens, lambda token: token in opening) & upto).named("opened")
    closed = selector_width(where(tokens, lambda token: token in closing) & upto).named("closed")
    depth = labels(lambda d: d if 0 <= d <= DEEPEST else "out", opened - closed).named("depth")
    one_less = select(depth, depth, lambda key, query: "out" not in (key, query) and key == query + 1)
    match = aggregate((where(tokens, lambda token: token in opening) & before & one_less).last(), tokens)
    fits = labels(lambda token, other: token in opening or other == pairs[token], tokens, match.named("match"))
    fits = fits.named("fits")
    wrong = labels(lambda fit, d: not fit or d == "out", fits, depth).named("wrong")
    return labels(_state, _any(wrong, upto).named("broken"), depth).named("state")


def induction(_vocabulary: Sequence[Any]) -> Labels | Numbers:
    """What came after the last earlier token that is mine: the last position whose previous token is my token."""
    previous = aggregate(select(indices, indices - 1, "=="), tokens).named("previous")
    assert isinstance(previous, Labels)
    return aggregate((select(previous, tokens, "==") & upto).last(), tokens).named("next")


WHICH = 2


def kth_largest(vocabulary: Sequence[Any]) -> Labels | Numbers:
    """The second largest token, in the order of the vocabulary and with repetitions, at every position."""
    descending = labels({token: -i for i, token in enumerate(vocabulary)}, tokens)
    return aggregate(select(rank(descending), constant(WHICH - 1), "=="), tokens)


def addition(_vocabulary: Sequence[Any]) -> Labels | Numbers:
    """The sum of two numbers, given as columns ``a+b`` of their digits, the highest first; the digits of the sum.

    A carry comes from the nearest lower column that does not add up to 9. The first column keeps its carry.
    """
    total = labels(lambda column: int(column[0]) + int(column[2]), tokens)
    decides = where(total, lambda value: value != 9) & select(indices, indices, ">")
    carry = aggregate(decides.first(), labels(lambda value: value > 9, total), default=False).named("carry")
    whole = labels(lambda value, more: value + more, total, carry).named("with carry")
    return labels(lambda value, first: str(value if first else value % 10), whole, compare(indices, "==", 0))


# what they should compute, in plain Python


def _prefix_states(step: Callable[[list[Any], Any], bool], sequence: Sequence_) -> Sequence_:
    stack: list[Any] = []
    found, broken = [], False
    for token in sequence:
        broken = broken or not step(stack, token)
        found.append("F" if broken else "P" if stack else "T")
    return found


def _one_kind(vocabulary: Sequence[Any]) -> Callable[[list[Any], Any], bool]:
    def step(stack: list[Any], token: Any) -> bool:
        if token == vocabulary[0]:
            stack.append(token)
        elif token == vocabulary[1]:
            if not stack:
                return False
            stack.pop()
        return True

    return step


def _two_kinds(vocabulary: Sequence[Any]) -> Callable[[list[Any], Any], bool]:
    pairs = {vocabulary[1]: vocabulary[0], vocabulary[3]: vocabulary[2]}

    def step(stack: list[Any], token: Any) -> bool:
        if token not in pairs:
            stack.append(token)
            return len(stack) <= DEEPEST
        return bool(stack) and bool(stack.pop() == pairs[token])

    return step


def _everywhere(value: Any, sequence: Sequence_) -> Sequence_:
    return [value] * len(sequence)


def _most_frequent(sequence: Sequence_, vocabulary: Sequence[Any]) -> Sequence_:
    counts = Counter(sequence)
    return _everywhere(max(vocabulary, key=lambda token: counts[token]), sequence)  # the first of the largest


def _count_compare(sequence: Sequence_, vocabulary: Sequence[Any]) -> Sequence_:
    ahead, found = 0, []
    for token in sequence:
        ahead += (token == vocabulary[0]) - (token == vocabulary[1])
        found.append(ahead > 0)
    return found


def _induction(sequence: Sequence_, _vocabulary: Sequence[Any]) -> Sequence_:
    follows: dict[Any, Any] = {}
    found = []
    for i, token in enumerate(sequence):
        if i:
            follows[sequence[i - 1]] = token
        found.append(follows.get(token))
    return found


def _kth_largest(sequence: Sequence_, vocabulary: Sequence[Any]) -> Sequence_:
    ordered = sorted(sequence, key=vocabulary.index, reverse=True)
    return _everywhere(ordered[WHICH - 1] if len(ordered) >= WHICH else None, sequence)


def _addition(sequence: Sequence_, _vocabulary: Sequence[Any]) -> Sequence_:
    one, two = (int("".join(column[at] for column in sequence)) for at in (0, 2))
    digits = str(one + two).rjust(len(sequence), "0")
    extra = len(digits) - len(sequence)
    return [digits[: 1 + extra], *digits[1 + extra :]]


def _is_balanced(sequence: Sequence_, vocabulary: Sequence[Any]) -> bool:
    return bool(_prefix_states(_one_kind(vocabulary), sequence)[-1] == "T")


COLUMNS = tuple(f"{a}+{b}" for a in range(10) for b in range(10))

LIBRARY = (
    Entry(
        "reverse",
        "the sequence backwards",
        reverse,
        lambda sequence, _: sequence[::-1],
        tuple("abcdefgh"),
        tuple("abc"),
        1000,
    ),
    Entry(
        "sort",
        "the tokens in order, equal ones in the order they came",
        sort,
        lambda sequence, _: sorted(sequence),
        tuple("abcdefgh"),
        tuple("abc"),
        128,
    ),
    Entry(
        "histogram",
        "how often each token comes",
        histogram,
        lambda sequence, _: (
            [sequence.count(token) for token in sequence]
            if len(sequence) < 64
            else list(map(Counter(sequence).__getitem__, sequence))
        ),
        tuple("abcdefgh"),
        tuple("abc"),
        1000,
    ),
    Entry(
        "most_frequent",
        "the most frequent token; of equally frequent ones the first of the vocabulary",
        most_frequent,
        _most_frequent,
        tuple("abcd"),
        tuple("abc"),
        256,
    ),
    Entry(
        "majority",
        "whether more than half of the tokens are the last of the vocabulary",
        majority,
        lambda sequence, v: _everywhere(2 * sequence.count(v[-1]) > len(sequence), sequence),
        ("0", "1"),
        ("0", "1"),
        1000,
    ),
    Entry(
        "count_compare",
        "whether, up to each token, the first of the vocabulary came more often than the second",
        count_compare,
        _count_compare,
        tuple("abc"),
        tuple("abc"),
        128,
    ),
    Entry(
        "dyck1",
        "for each prefix of brackets: balanced (T), to be continued (P), broken (F)",
        dyck1,
        lambda sequence, v: _prefix_states(_one_kind(v), sequence),
        ("(", ")"),
        ("(", ")"),
        128,
    ),
    Entry(
        "dyck2",
        "the same for two kinds of brackets nested at most four deep; deeper is broken",
        dyck2,
        lambda sequence, v: _prefix_states(_two_kinds(v), sequence),
        ("(", ")", "[", "]"),
        ("(", ")", "[", "]"),
        128,
    ),
    Entry(
        "parity",
        "whether the last of the vocabulary comes an odd number of times",
        parity,
        lambda sequence, v: _everywhere(sequence.count(v[-1]) % 2, sequence),
        ("0", "1"),
        ("0", "1"),
        1000,
    ),
    Entry(
        "induction",
        "what came after the last earlier token that is the same; None where there is none",
        induction,
        _induction,
        tuple("abcdefgh"),
        tuple("abc"),
        128,
    ),
    Entry(
        "kth_largest",
        "the second largest token, with repetitions; None of a single token",
        kth_largest,
        _kth_largest,
        tuple(range(10)),
        (0, 1, 2),
        128,
    ),
    Entry(
        "addition",
        "the digits of a + b, of columns of two digits, highest first; the first keeps its carry",
        addition,
        _addition,
        COLUMNS,
        ("0+0", "4+5", "9+9"),
        64,
    ),
    Entry(
        "balanced",
        "whether all brackets of the sequence are balanced, whatever stands between them",
        balanced,
        lambda sequence, v: _everywhere(_is_balanced(sequence, v), sequence),
        ("(", ")", "x"),
        ("(", ")", "x"),
        128,
    ),
)

library: dict[str, Entry] = {entry.name: entry for entry in LIBRARY}
