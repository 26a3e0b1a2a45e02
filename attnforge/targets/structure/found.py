"""What a search for structure ends in: terms whose sum is the target, or the reason why there are none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from attnforge.targets.structure.term import Term
from attnforge.targets.target import AnyArray

MOST_FORMS = 4  # of a term: a grid over more is no smaller than what structure is to avoid


@dataclass(frozen=True, eq=False)
class Structure:
    """A target as a sum of terms.

    Args:
        kind: ``ridge`` (one term of one form that mixes inputs), ``additive`` (terms of fewer forms than inputs, or
            several terms), ``none`` (no terms).
        terms: the summands.
        reason: in a sentence, what was found and how, or why nothing was.
        evaluations: of the target, that the search took, the check included.
    """

    kind: Literal["none", "ridge", "additive"]
    terms: tuple[Term, ...]
    reason: str
    evaluations: int = 0

    def at(self, points: AnyArray) -> AnyArray:
        """The sum of the terms, (N, k), at points (N, D) of the box."""
        first, *others = (term.at(points) for term in self.terms)
        return sum(others, start=first)


@dataclass(frozen=True)
class Refusal:
    """Why one way of looking found nothing."""

    reason: str


def kind_of(terms: Sequence[Term]) -> Literal["ridge", "additive"]:
    """A single term that mixes inputs in one form is a ridge."""
    return "ridge" if len(terms) == 1 and terms[0].is_ridge else "additive"


def helps(terms: Sequence[Term], inputs: int) -> bool:
    """Whether the terms are easier than the target: several, or one of fewer forms, none of too many."""
    sizes = [len(term.forms) for term in terms]
    return max(sizes) <= MOST_FORMS and (len(sizes) > 1 or sizes[0] < inputs)


def difficulty(terms: Sequence[Term]) -> tuple[int, int, int]:
    """To compare two decompositions: the most forms of a term, how many terms have that many, and all terms."""
    sizes = [len(term.forms) for term in terms]
    return max(sizes), sizes.count(max(sizes)), len(sizes)
