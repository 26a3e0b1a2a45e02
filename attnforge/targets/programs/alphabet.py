"""What labels are: told apart by type and parts, not by ``==``, by which 1 is True and 0.0 is -0.0."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Any, Self

from attnforge.errors import TargetError


class Alphabet(tuple[Any, ...]):
    """Labels, each once. Tables, weights, proofs and the decoder all ask it for the place of a label.

    So ``==`` of labels means what it does in Python where a program asks for it, and nothing anywhere else.

    >>> Alphabet([1, True, 1]).place(True)
    1
    """

    _places: dict[Hashable, int]

    def __new__(cls, labels: Iterable[Any]) -> Self:
        """Of labels in any order, repeated or not; what cannot be told apart is refused."""
        try:
            found = {_checked(label): label for label in labels}
        except TargetError:
            raise
        except Exception as error:
            got = f"{type(error).__name__}: {error}"
            raise TargetError("Labels are hashable, as strings and integers are", got, "Use strings") from error
        made = super().__new__(cls, found.values())
        made._places = {key: i for i, key in enumerate(found)}
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        return Alphabet, (tuple(self),)  # identities may hold addresses

    def place(self, label: Any) -> int:
        """Where a label stands. That there is such a place is known of labels that functions gave once already."""
        try:
            return self._places[identity(label)]
        except KeyError:
            requirement = "Functions of a program give the same labels each time they are called"
            raise TargetError(requirement, f"{label!r:.40}, a new one", "Use functions without state") from None


def identity(label: Any) -> Hashable:
    """Type and parts, in order: labels that share them are told apart by nothing that a function computes from them."""
    kind = type(label)
    if kind in (bool, int, str, bytes, type(None)):
        return kind, label
    if kind in (float, complex):
        return kind, label, repr(label)  # zeros by their sign, each NaN by its address, as tuples compare it
    if kind in (tuple, list, set, frozenset):
        return kind, tuple(map(identity, label))
    if kind is dict:
        return kind, tuple(map(identity, label.items()))
    return kind, label, _parts(label)


def _parts(label: Any) -> Hashable:
    """What an object would be copied from; its address where it cannot be."""
    try:
        made, given, state, *items = (*label.__reduce_ex__(2), None, None, None)[:5]
        return identity([made, given, state, *(list(each or ()) for each in items)])
    except Exception:
        return id(label)


def _checked(label: Any) -> Hashable:
    hash(label)
    found = identity(label)
    if found != identity(label):
        raise TargetError("A label is the same each time it is looked at", f"{label!r:.40}", "Use strings")
    return found
