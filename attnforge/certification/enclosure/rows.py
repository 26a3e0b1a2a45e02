"""Any network with one layer of attention, row by row, where it and its target follow one linear form.

Literal layouts, gates, residuals, several heads of one form, weights of any origin: each output is a sum of softmax
heads with affine scores (:mod:`.affine_heads`), expanded along the form (:mod:`.line`, :mod:`.one_input`); what the run
adds is bounded on the same form (:mod:`.row_run`). Scores need not be functions of the form exactly: what they are not
widens them. Tokens that share one head of few features are looked at together (:mod:`.shared_head`).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from flint import arb_mat

from attnforge.certification.enclosure.affine_heads import AffineHead, read_rows
from attnforge.certification.enclosure.line import PARALLEL, Line, line_of
from attnforge.certification.enclosure.one_input import READ, supremum
from attnforge.certification.enclosure.row_run import RowRun
from attnforge.certification.enclosure.run import rounding
from attnforge.certification.enclosure.shared_head import prove_shared_head
from attnforge.certification.statement import Proof, Statement
from attnforge.errors import CertificateError, RefusalError
from attnforge.kernel.theorem import Output
from attnforge.outward import precision
from attnforge.outward.branch_and_bound import Supremum
from attnforge.proving.statements import outputs_of, tokens_of
from attnforge.targets import Box

Array = npt.NDArray[np.float64]

APART = 1.0  # what a score may vary by beside the form: weights are then known up to a factor e
CELLS_A_KEY = 20  # cells that an expansion needs: with fewer it would come to no end
BALLS = 10  # pairs of a box and a key that are enclosed in float64 while one is in balls, to a factor of 2
NEGLIGIBLE = 0.01  # of the error in exact arithmetic: rounding below it is not told more closely


def prove_rows(statement: Statement) -> Proof:
    """The rows of several tokens at once, where they share a head and the proof comes to its end; else one by one."""
    tokens = tokens_of(statement.run, statement.target)
    together = _at_once(statement, tokens)
    if together is not None and together.limit is None:
        return together
    try:
        alone = _one_by_one(statement, tokens)
    except (CertificateError, RefusalError):
        if together is None or not np.isfinite(together.bound):
            raise
        return together
    return alone if together is None else min(together, alone, key=lambda each: each.bound)


def _at_once(statement: Statement, tokens: int) -> Proof | None:
    """The proof of tokens that share one head; none where they do not, or there is one token."""
    try:
        return prove_shared_head(statement, tokens) if tokens > 1 else None
    except CertificateError:
        return None


def _one_by_one(statement: Statement, tokens: int) -> Proof:
    """``fit``: the supremum of |network - target| in exact arithmetic; ``rounding``: what the run adds."""
    run = statement.run
    keys = sum(head.memory_size for head in run.heads)
    needed, effort = CELLS_A_KEY * keys, statement.effort
    if needed > effort.intervals or BALLS * needed * keys > effort.pairs:
        raise RefusalError("Heads expanded along a form have few keys", f"{keys:,}", "Raise the effort")
    box = statement.domain.fixed((tokens, run.features))
    ends = box.lower.ravel(), box.upper.ravel()
    proofs: list[tuple[float, float, str | None]] = []
    known: dict[object, Supremum] = {}
    with precision(READ):
        rows = read_rows(run, tokens)
        for entry in outputs_of(statement.target, tokens):
            heads = rows[entry.row].output(entry.feature)
            line = _line(heads, entry, ends, statement)
            on = RowRun(run, entry.row, entry.feature, ends, line.heads, statement.machine)  # refuses what overflows
            key = _key(line)
            found = known[key] = known.get(key) or _along(line, statement)
            added = rounding(on, found.lower, found.upper, NEGLIGIBLE * found.bound)
            proofs.append((found.bound, added, found.limit))
    limits = [limit for *_, limit in proofs if limit is not None]
    parts = {"fit": max(fit for fit, *_ in proofs), "rounding": max(added for _, added, _ in proofs)}
    return Proof(parts, limit=limits[0] if limits else None)


def _along(line: Line, statement: Statement) -> Supremum:
    return supremum(
        line.heads, line.tree, line.forms, line.lower, line.upper, cells=statement.effort.intervals,
        progress=statement.progress,
    )  # fmt: skip


def _line(heads: tuple[AffineHead, ...], entry: Output, ends: tuple[Array, Array], statement: Statement) -> Line:
    """Heads and formula along the form that both follow, among the inputs that either reads."""
    read = sorted(set(entry.inputs.values()) | {i for head in heads for i in _reads(head)})
    small = tuple(_restricted(head, read) for head in heads)
    named = {number: name for name, number in entry.inputs.items()}
    names = [named.get(i, f"other[{i}]") for i in read]
    low, high = (end[read] for end in ends)
    parallel = max(PARALLEL, 8 * statement.machine.roundoff)
    line = line_of(small, entry.tree, names, Box(low, high), parallel, APART)
    if line is None:
        raise CertificateError("Scores and target follow one linear form", "several")
    return line


def _reads(head: AffineHead) -> list[int]:
    """The inputs that scores or values depend on."""
    parts = [head.slopes, *(tilt for _, tilt in head.tilts)]
    return [
        i
        for i in range(head.slopes.nrows())
        if any(not part[i, k].is_zero() for part in parts for k in range(part.ncols()))
    ]


def _restricted(head: AffineHead, inputs: list[int]) -> AffineHead:
    def rows(matrix: arb_mat) -> arb_mat:
        return arb_mat(len(inputs), matrix.ncols(), [matrix[i, k] for i in inputs for k in range(matrix.ncols())])

    return AffineHead(rows(head.slopes), head.offsets, head.values, tuple((k, rows(tilt)) for k, tilt in head.tilts))


def _key(line: Line) -> object:
    """Two rows whose numbers are the same, balls and all, have the same error."""
    matrices = [m for head in line.heads for m in (head.slopes, head.offsets, head.values, *(t for _, t in head.tilts))]
    numbers = [entry for matrix in matrices for entry in matrix.entries()] + [
        z for form in line.forms.values() for z in form
    ]
    exact = tuple((z.mid().man_exp(), z.rad().man_exp()) for z in numbers)
    places = tuple(tuple(k for k, _ in head.tilts) for head in line.heads)
    return exact, places, line.tree, line.lower, line.upper
