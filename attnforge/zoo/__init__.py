"""The zoo: named networks of many kinds whose function, mechanism and error are known, built on demand.

>>> from attnforge import zoo
>>> len(zoo.list()) >= 40, zoo.list("kernel")
(True, ['nadaraya_watson', 'softmax_kernel'])
>>> print(zoo.entries["gate"].computes)
clamp(x0 + 2 x1 + 1/2, -1, 1) of every token, to rounding
>>> zoo.get("gate").certificate.status
'proved'
"""

from __future__ import annotations

import builtins
from typing import TYPE_CHECKING, Literal

from attnforge.zoo import knobs
from attnforge.zoo.entry import Catalogue, Entry, Size
from attnforge.zoo.registry import entries

if TYPE_CHECKING:
    from attnforge.zoo.entry import Built

__all__ = ["Catalogue", "Entry", "Size", "entries", "get", "list"]


def list(kind: str | None = None) -> builtins.list[str]:
    """The names of all networks, or of those of a kind; ``entries.kinds`` are the kinds.

    ``print(entries)`` is a table of what each computes, ``entries[name]`` all that is known of one before it is built.
    """
    return builtins.list(entries.of_kind(kind))


def get(
    name: str,
    *,
    basis: int | Literal["random"] | None = None,
    distractors: int = 0,
    superposed: int | float | None = None,
    noise: float = 0.0,
    seed: int = 0,
) -> Built:
    """Build a network of the zoo, with its certificate; the same bytes every time.

    What it is called with, and what its heads do, ``entries[name]`` says. ``net.causal_graph()`` says who reads whom,
    ``net.labels()`` what every head, key and column is. The other arguments turn :mod:`attnforge.zoo.knobs`, which hide
    the mechanism and keep the function; what they make is certified anew.

    >>> net = get("lorenz")
    >>> net([1.0, 2.0, 3.0]).round(6).tolist()
    [10.0, 23.0, -6.0]
    >>> print(net.causal_graph())
    L0H0 multiplier: (100 - z)*x <- x, z
    L0H1 multiplier: (60 + x)*y <- x, y
    output 0 <- x, y
    output 1 <- x, y, L0H0
    output 2 <- y, z, L0H1
    >>> hidden = get("lorenz", basis="random", distractors=1)
    >>> hidden.heads, hidden.certificate.status
    (3, 'proved')
    """
    built = entries.find(name).build()
    return knobs.apply(built, basis=basis, distractors=distractors, superposed=superposed, noise=noise, seed=seed)
