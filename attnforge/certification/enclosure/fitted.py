"""The proof for heads with fitted values: the error in exact arithmetic by enclosure, and what rounding adds."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from attnforge.certification.enclosure.affine_heads import affine_head, read_heads
from attnforge.certification.enclosure.line import PARALLEL, Line, line_of
from attnforge.certification.enclosure.one_input import READ, supremum
from attnforge.certification.enclosure.run import SLACK, LinearInput, MemoryRun, evenly, rounding
from attnforge.certification.enclosure.several_inputs import supremum_box
from attnforge.certification.enclosure.terms import Term, terms_of
from attnforge.certification.statement import Proof, Statement
from attnforge.effort import NORMAL, Effort
from attnforge.errors import CertificateError
from attnforge.expression.tree import variables
from attnforge.network import Head, Network, check_architecture
from attnforge.outward import Machine, add_up, gamma, precision, product_up, up
from attnforge.parallel import Processes
from attnforge.targets import Box, Formula, Target
from attnforge.targets.structure.ridge import direction_of
from attnforge.targets.structure.summands import summands

Array = npt.NDArray[np.float64]

MOST_INPUTS = 4
LOOSE = 10.0  # a bound so many times the error attained is not worth stating: the enclosure came to no end
FEWEST = 0.05  # of the boxes of a proof: with fewer it would come to no end
NEGLIGIBLE = 0.01  # of the error in exact arithmetic: rounding below it is not told more closely
ENCLOSING = 0.95  # of the way, to one who waits: the rest is rounding
MANY = 4096  # keys of which not all are read where some show that there is no line


@dataclass(frozen=True, eq=False)
class _Enclosed:
    """The supremum, and the cells (C, D), or along a linear form (C, 1), on which to look at rounding."""

    bound: float
    limit: str | None
    lower: Array
    upper: Array
    form: LinearInput | None = None


def is_enclosed(target: Target) -> bool:
    """Whether there is an enclosure on boxes for this kind of target: formulas of up to four inputs."""
    return isinstance(target, Formula) and target.domain.shape[0] <= MOST_INPUTS


def may_be_enclosed(target: Target) -> bool:
    """Whether there may be a proof: also of sums of terms of few inputs, and of functions of one linear form."""
    if is_enclosed(target) or not isinstance(target, Formula):
        return is_enclosed(target)
    small = all(len(variables(part)) <= MOST_INPUTS for part in summands(target.tree))
    return small or direction_of(target.tree, target.names, target.domain) is not None


def prove_fitted(statement: Statement) -> Proof:
    """``fit``: the supremum of |heads - formula| in exact arithmetic; ``rounding``: what the run adds.

    The bound is infinite if the enclosure came to no end. The fraction of the work done that is told never falls.
    """
    run, target, inputs = statement.run, statement.target, statement.domain.lower.size
    if not isinstance(target, Formula):
        raise CertificateError("This proof covers formulas of few inputs", target.describe(), "Measure it instead")
    if run.features != inputs or check_architecture(run) != 1:
        got = f"{run.features} inputs and {check_architecture(run)} outputs"
        raise CertificateError(f"The network must take {inputs} inputs and return one value", got)
    found = _proved(statement, target)
    if statement.progress is not None:
        statement.progress(1.0)
    return found


def _proved(statement: Statement, target: Formula) -> Proof:
    """Along a line where there is one, term by term where the network is a sum, else on boxes."""
    run, domain, told = statement.run, statement.domain, _part(statement, 0.0, ENCLOSING)
    line = as_line(run, target, domain, statement.machine)
    if line is not None:
        return _with_rounding(statement, _on_a_line(line, told))
    terms = terms_of(run, target, domain)
    if terms is None:
        return _with_rounding(statement, _on_a_box(told, target))
    found = _by_terms(terms, statement)
    apart = sum(len(term.inputs) for term in terms) == domain.lower.size
    if apart or domain.lower.size > MOST_INPUTS:
        return found
    other = _with_rounding(statement, _on_a_box(replace(statement, progress=None), target))
    return min(found, other, key=lambda each: each.bound)


def _by_terms(terms: list[Term], statement: Statement) -> Proof:
    """The terms' bounds added up, and the sum of the constants taken from them."""
    found = []
    for i, term in enumerate(terms):
        part = _part(statement, i / len(terms), (i + 1) / len(terms))
        found.append(prove_fitted(replace(part, run=term.network, target=term.target, domain=term.domain)))
    left = abs(math.fsum(term.constant for term in terms))
    fit = add_up(*(each.parts["fit"] for each in found), up(left) if left else 0.0)
    heads = [head for term in terms for head in term.network.heads]
    sizes = [float(np.max(np.abs(np.asarray(head.memory_values)) @ np.abs(head.output))) * SLACK for head in heads]
    adding = product_up(gamma(sum(len(head.output) for head in heads), statement.machine.roundoff), add_up(*sizes))
    limits = [each.limit for each in found if each.limit is not None]
    parts = {"fit": fit, "rounding": add_up(*(each.parts["rounding"] for each in found), adding)}
    return Proof(parts, limit=limits[0] if limits else None)


def _part(statement: Statement, start: float, end: float) -> Statement:
    """The same for a step that tells its own part of the way."""
    progress = statement.progress
    return (
        statement
        if progress is None
        else replace(statement, progress=lambda done: progress(start + (end - start) * done))
    )


def _with_rounding(statement: Statement, found: _Enclosed) -> Proof:
    beside = statement.kernel == "window"  # added where all is known of the network
    if beside or not math.isfinite(found.bound):
        return Proof({"fit": found.bound, "rounding": 0.0}, limit=found.limit)
    run = MemoryRun(*read_heads(statement.run), statement.machine, found.form)
    added = rounding(run, found.lower, found.upper, NEGLIGIBLE * found.bound)
    return Proof({"fit": found.bound, "rounding": added}, limit=found.limit)


def as_line(network: Network, target: Formula, domain: Box, machine: Machine) -> Line | None:
    """Heads and formula along a line: those of one input, or of one linear form as the dtype holds it."""
    encode, heads = read_heads(network)

    def line(heads: tuple[Head, ...]) -> Line | None:
        exact = tuple(affine_head(encode, head, domain.lower.size) for head in heads)
        return line_of(exact, target.tree, target.names, domain, max(PARALLEL, 8 * machine.roundoff))

    with precision(READ):
        some = tuple(_thinned(head) for head in heads)
        return None if some != heads and line(some) is None else line(heads)


def _thinned(head: Head) -> Head:
    """The head with some of its keys where it has many: what is no line along some of them is none."""
    if head.memory_size <= MANY:
        return head
    at = np.linspace(0, head.memory_size - 1, MANY).astype(np.int64)
    keys, values = np.asarray(head.memory_keys)[at], np.asarray(head.memory_values)[at]
    return replace(head, memory_keys=keys, memory_values=values, claims=None)


def _on_a_line(line: Line, statement: Statement) -> _Enclosed:
    """Cells of the linear form; rounding looks at the form with weights rounded to float64, whose ends differ a bit."""
    ends, domain = (line.lower, line.upper), statement.domain
    found = supremum(
        line.heads, line.tree, line.forms, *ends, cells=statement.effort.intervals, progress=statement.progress
    )
    low = np.where(found.lower == line.lower, min(line.lower, line.ends[0]), found.lower)
    high = np.where(found.upper == line.upper, max(line.upper, line.ends[1]), found.upper)
    form = LinearInput(line.weights, domain.lower.ravel(), domain.upper.ravel()) if domain.lower.size > 1 else None
    return _Enclosed(found.bound, found.limit, low, high, form)


def _on_a_box(statement: Statement, target: Formula) -> _Enclosed:
    """Boxes; infinity where there are too many inputs, or the heads too large for enough boxes to be looked at."""
    run, effort = statement.run, statement.effort
    lower, upper = statement.domain.lower.ravel(), statement.domain.upper.ravel()
    cells = boxes_allowed(run, effort)
    if lower.size > MOST_INPUTS or cells < FEWEST * effort.boxes:
        return _Enclosed(math.inf, "heads too large to be looked at on enough boxes", lower[None], upper[None])
    found = supremum_box(
        run,
        target.tree,
        target.names,
        lower,
        upper,
        cells=cells,
        progress=statement.progress,
        processes=Processes(effort.workers, effort.cluster),
    )
    size = sum(float(np.abs(np.asarray(head.memory_values) @ head.output).max()) for head in run.heads)
    bound = math.inf if found.bound > max(LOOSE * found.seen, 1e-9 * size) else found.bound
    return _Enclosed(bound, found.limit, *evenly(lower, upper))


def boxes_allowed(network: Network, effort: Effort = NORMAL) -> int:
    """How many boxes a proof of seconds may look at."""
    keys = sum(head.memory_size for head in network.heads)
    return min(effort.boxes, int(effort.pairs / (keys * 4.0 ** (network.features - 2))))
