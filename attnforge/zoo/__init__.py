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
from typing import TYPE_CHECKING

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


def get(name: str) -> Built:
    """Build a network of the zoo, with its certificate; the same bytes every time.

    What it is called with, and what its heads do, ``entries[name]`` says. ``net.causal_graph()`` says who reads whom,
    ``net.labels()`` what every head, key and column is.

    >>> net = get("lorenz")
    >>> net([1.0, 2.0, 3.0]).round(6).tolist()
    [10.0, 23.0, -6.0]
    >>> print(net.causal_graph())
    L0H0 multiplier: (100 - z)*x <- x, z
    L0H1 multiplier: (60 + x)*y <- x, y
    output 0 <- x, y
    output 1 <- x, y, L0H0
    output 2 <- y, z, L0H1
    """
    return entries.find(name).build()
