r"""Which inputs of a black box act together.

The mixed difference of f over a set S of inputs, between points $x$ and $x'$,
$$ \Delta_S f = \sum_{T \subseteq S} (-1)^{|S| - |T|} f(x \text{ with } x_i \text{ replaced by } x'_i, i \in T), $$
vanishes everywhere exactly if f is a sum of functions that each miss an input of S. Differences compose,
$\Delta_{S \cup T} = \Delta_S \Delta_T$, so no set that contains a harmless one needs a look: sets grow level by level.
Replacements are as large as the box, so that nothing is divided by a small step. The values are shared by all sets:
one costs as many evaluations as there are trials.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import combinations

import numpy as np
import numpy.typing as npt

from attnforge.targets.domain import Box
from attnforge.targets.structure.black_box import BlackBox, scattered
from attnforge.targets.structure.found import MOST_FORMS, Refusal

Array = npt.NDArray[np.float64]
Inputs = tuple[int, ...]

TRIALS, CORNERS = 12, 4  # pairs of random points, and of opposite corners
MOST_EVALUATIONS = 100_000


def interacting_sets(f: BlackBox, box: Box, tol: float, seed: int) -> list[Inputs] | Refusal:
    """All sets of inputs with a mixed difference above tol/100 (and above rounding), small ones first.

    Refused if more than four inputs act together, or if finding out takes too many evaluations.

    >>> from attnforge.targets import Function
    >>> box = Box(-1, 1, shape=(3,))
    >>> interacting_sets(BlackBox(Function(lambda x: x[..., 0] * x[..., 2], box)), box, 1e-6, seed=0)
    [(0,), (2,), (0, 2)]
    """
    trials = _Trials(f, box, np.random.default_rng(seed))
    level = trials.interacting([(i,) for i in range(len(box.lower))], tol)
    found = list(level)
    while level:
        candidates = _next(level)
        if f.evaluations + len(candidates) * (TRIALS + CORNERS) > MOST_EVALUATIONS:
            got = f"{len(candidates):,} sets of {len(level[0]) + 1} inputs"
            return Refusal(f"{got} may act together: too many to look at")
        level = trials.interacting(candidates, tol)
        found.extend(level)
        if level and len(level[0]) == 2 and (crowd := _crowd(level)) and trials.interacting([crowd], tol):
            level = [crowd]  # spares the sets of three and four of a function in which everything acts together
        if level and len(level[0]) > MOST_FORMS:
            return Refusal(f"inputs {', '.join(map(str, level[0]))} act together: more than {MOST_FORMS}")
    return found


class _Trials:
    """Pairs of points (trials, D), and the values of f with any set of inputs replaced, computed when asked for."""

    def __init__(self, f: BlackBox, box: Box, generator: np.random.Generator) -> None:
        self._f = f
        self._from = scattered(generator, box.lower, box.upper, TRIALS, CORNERS)
        self._to = scattered(generator, box.lower, box.upper, TRIALS + CORNERS)
        ends = self._from[TRIALS:]
        self._to[TRIALS:] = np.where(ends == box.lower, box.upper, box.lower)
        self._values: dict[Inputs, Array] = {}

    def interacting(self, sets: list[Inputs], tol: float) -> list[Inputs]:
        """Those of the sets whose mixed difference does not vanish."""
        self._evaluate(subset for each in sets for subset in _subsets(each))
        limit = max(tol / 100, self._f.rounding)
        return [each for each in sets if np.abs(self._difference(each)).max() > limit]

    def _difference(self, inputs: Inputs) -> Array:
        parts = [(-1) ** (len(inputs) - len(each)) * self._values[each] for each in _subsets(inputs)]
        return np.asarray(sum(parts))

    def _evaluate(self, sets: Iterable[Inputs]) -> None:
        new = [each for each in dict.fromkeys(sets) if each not in self._values]
        if not new:
            return
        points = np.repeat(self._from[None], len(new), axis=0)
        for each, inputs in zip(points, new, strict=True):
            each[:, list(inputs)] = self._to[:, list(inputs)]
        found = self._f(points.reshape(-1, points.shape[-1])).reshape(len(new), len(self._from), -1)
        self._values.update(zip(new, found, strict=True))


def _subsets(inputs: Inputs) -> list[Inputs]:
    return [each for size in range(len(inputs) + 1) for each in combinations(inputs, size)]


def _next(level: list[Inputs]) -> list[Inputs]:
    """Sets with one more input, all of whose subsets of the present size are in the level.

    >>> _next([(0, 1), (0, 2), (1, 2), (2, 3)])
    [(0, 1, 2)]
    """
    present = set(level)
    inputs = sorted({i for each in level for i in each})
    larger = [(*each, i) for each in level for i in inputs if i > each[-1]]
    return [each for each in larger if all(part in present for part in combinations(each, len(each) - 1))]


def _crowd(pairs: list[Inputs]) -> Inputs:
    """Five inputs that act together in pairs, sought greedily from the busiest; empty if none are met."""
    present = set(pairs)
    inputs = sorted({i for each in pairs for i in each}, key=lambda i: -sum(i in each for each in pairs))
    crowd: Inputs = ()
    for i in inputs:
        larger = tuple(sorted((*crowd, i)))
        if all(pair in present for pair in combinations(larger, 2)):
            crowd = larger
        if len(crowd) > MOST_FORMS:
            return crowd
    return ()
