"""The search for structure: what an expression shows, then what probing shows, and a check before it is believed."""

from __future__ import annotations

import math

import numpy as np

from attnforge.errors import TargetError, ToleranceError
from attnforge.targets.domain import Box
from attnforge.targets.formula import Formula
from attnforge.targets.structure.additive import expression_terms
from attnforge.targets.structure.anova import probed_sum
from attnforge.targets.structure.black_box import BlackBox, scattered
from attnforge.targets.structure.direction import probed_ridge
from attnforge.targets.structure.found import Refusal, Structure, difficulty, helps, kind_of
from attnforge.targets.structure.ridge import direction_of
from attnforge.targets.structure.term import Term, ridge_term
from attnforge.targets.target import Target

SEED, FRESH = 20250, 20251  # of the probes, and of the points on which they are checked
CHECKED, CORNERS = 200, 40  # points of the check: random ones, and corners
MOST_INPUTS = 512  # fifteen gradients at once are then a hundred megabytes of points
SHOWN = 6  # terms named in a reason

Terms = tuple[Term, ...]


def find_structure(target: Target, tol: float) -> Structure:
    """The target as a function of one form, or as a sum of terms of few inputs, if it is one to within tol/10.

    An expression is read first, and probed like any other function where its text shows nothing or where probing
    shows something simpler. A claim is believed only if the sum of the terms meets the target to tol/10 (or to
    rounding, if that is larger) at fresh random points and corners of the box. A check, not a proof.

    >>> from attnforge.targets import Box
    >>> find_structure(Formula("exp(-(x + 2*y)^2)", Box([0, 0], [1, 1]), ("x", "y")), 1e-6).reason
    'A function of 0.5*x + y, read from the expression and checked with 480 evaluations.'
    """
    _check(tol)
    if target.layout != "function" or len(target.domain.shape) != 1:
        return Structure("none", (), "A sequence map: structure is sought in functions of a vector.")
    if len(target.domain.lower) == 1:
        return Structure("none", (), "The target has one input.")
    if len(target.domain.lower) > MOST_INPUTS:
        return Structure("none", (), f"Structure is sought in up to {MOST_INPUTS} inputs.")
    read = _read(target, tol) if isinstance(target, Formula) else Refusal("")
    if isinstance(read, Structure) and difficulty(read.terms)[0] < 2:
        return read
    probed = _probed(target, tol)
    if isinstance(read, Refusal):
        return probed
    simpler = probed.kind != "none" and difficulty(probed.terms) < difficulty(read.terms)
    return probed if simpler else read


def _read(target: Formula, tol: float) -> Structure | Refusal:
    """What the text of a formula shows."""
    names, box, f = target.names, target.domain, BlackBox(target)
    direction = direction_of(target.tree, names, box)
    if direction is None:
        terms = expression_terms(target.tree, names, box)
    else:
        terms = (ridge_term(f, box, names, direction.weights(box)),)
    if not helps(terms, len(names)):
        return Refusal("the expression shows no sum of simpler terms")
    try:
        problem = _disagreement(f, target.domain, terms, tol)
    except TargetError as error:
        return Refusal(str(error))
    return Refusal(problem) if problem else _structure(terms, "read from the expression and checked with", f)


def _probed(target: Target, tol: float) -> Structure:
    """What the values of a target show."""
    f, box, names = BlackBox(target), target.domain, _names(target)
    problems: list[str] = []
    try:
        for search in (probed_ridge, probed_sum):
            found = search(f, box, names, tol, SEED)
            problem = found.reason if isinstance(found, Refusal) else _disagreement(f, box, found, tol)
            if not isinstance(found, Refusal) and not problem:
                return _structure(found, "found by probing with", f)
            problems.append(problem)
    except TargetError as error:
        problems.append(str(error).removesuffix("."))
    return Structure("none", (), f"None found with {f.evaluations} evaluations: {'; '.join(problems)}.", f.evaluations)


def _disagreement(f: BlackBox, box: Box, terms: Terms, tol: float) -> str:
    """How the sum of the terms misses the target at fresh points of the box; empty if it does not."""
    points = scattered(np.random.default_rng(FRESH), box.lower, box.upper, CHECKED, CORNERS)
    gaps = np.abs(f(points) - sum(term.at(points) for term in terms))
    limit = max(tol / 10, f.rounding)
    if np.all(gaps <= limit):
        return ""
    shown = ", ".join(term.describe() for term in terms[:SHOWN])
    return f"a sum of functions of {shown} misses it by {np.max(gaps):.1e}, where {limit:.1e} is allowed"


def _structure(terms: Terms, how: str, f: BlackBox) -> Structure:
    """Terms that were believed, in a sentence."""
    kind = kind_of(terms)
    if len(terms) == 1:
        what = f"A function of {terms[0].describe()}" if len(terms[0].forms) else "A constant"
    else:
        shown = [f"({term.describe()})" for term in terms[:SHOWN]]
        what = f"A sum of {len(terms)} terms, of {', '.join(shown)}{', ...' * (len(terms) > SHOWN)}"
    return Structure(kind, terms, f"{what}, {how} {f.evaluations} evaluations.", f.evaluations)


def _names(target: Target) -> tuple[str, ...]:
    """The names of the inputs, or x[0], x[1], ..."""
    return target.names or tuple(f"x[{i}]" for i in range(len(target.domain.lower)))


def _check(tol: float) -> None:
    if not (math.isfinite(tol) and tol > 0):
        raise ToleranceError("`tol` must be a positive number", repr(tol), "Ask for 1e-3, say")
