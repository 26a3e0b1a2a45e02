r"""Sums in black boxes: the decomposition of f anchored at the middle m of its box.

$$ f = \sum_S f_S, \qquad f_S(x_S) = \sum_{T \subseteq S} (-1)^{|S| - |T|} f(x_T;\, m \text{ elsewhere}), $$
and $f_S$ vanishes, being a mixed difference, unless the inputs in S act together (`interaction`). A term costs
$2^{|S|}$ evaluations of f.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np

from attnforge.targets.domain import Box
from attnforge.targets.structure.black_box import BlackBox, scattered
from attnforge.targets.structure.found import Refusal
from attnforge.targets.structure.interaction import Inputs, interacting_sets
from attnforge.targets.structure.term import Term, constant_term, cut_term, input_term

SIZED, CORNERS = 24, 8  # points at which a term is looked at before it is called negligible


def probed_sum(f: BlackBox, box: Box, names: tuple[str, ...], tol: float, seed: int) -> tuple[Term, ...] | Refusal:
    """The target as a sum of terms of few inputs, or why it is not one.

    >>> from attnforge.targets import Function
    >>> box = Box(-1, 1, shape=(3,))
    >>> f = BlackBox(Function(lambda x: x[..., 0] * x[..., 1] + np.exp(x[..., 2]), box))
    >>> [term.describe() for term in probed_sum(f, box, ("x", "y", "z"), 1e-6, seed=0)]
    ['z', 'x, y']
    """
    sets = interacting_sets(f, box, tol, seed)
    if isinstance(sets, Refusal):
        return sets
    active = tuple(each[0] for each in sets if len(each) == 1)
    if any(len(each) == len(names) for each in sets):
        return Refusal(f"all {len(names)} inputs act together")
    if active in sets:
        return (input_term(f, box, names, active),)  # nothing to take apart: the other inputs are not used
    limit = max(tol / 100, f.rounding)
    generator = np.random.default_rng(seed)
    pure = [_pure(f, box, names, each) for each in sets]
    kept = [term for term in pure if _size(term, generator) > limit]
    return _with_constant(f, box, names, kept, limit)


def _pure(f: BlackBox, box: Box, names: tuple[str, ...], inputs: Inputs) -> Term:
    size = len(inputs)
    cuts = [
        (places, (-1) ** (size - count)) for count in range(size + 1) for places in combinations(range(size), count)
    ]
    return cut_term(f, box, names, inputs, cuts)


def _size(term: Term, generator: np.random.Generator) -> float:
    """The largest absolute value of a term at a few points, corners among them."""
    return float(np.abs(term.values(scattered(generator, term.lower, term.upper, SIZED, CORNERS))).max())


def _with_constant(f: BlackBox, box: Box, names: tuple[str, ...], terms: list[Term], limit: float) -> tuple[Term, ...]:
    """The terms with f(m) added: inside the first term of one input, where it is the cut itself, or beside them."""
    if terms and len(terms[0].forms) == 1:
        return input_term(f, box, names, [int(np.argmax(terms[0].forms[0]))]), *terms[1:]
    constant = f(box.middle[None])[0]
    if terms and np.abs(constant).max() <= limit:
        return tuple(terms)
    return constant_term(constant, names), *terms
