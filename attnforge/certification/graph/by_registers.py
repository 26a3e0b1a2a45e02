r"""The search for a proof by registers: what heads read, cells of heads, cells of the domain. Nothing here is trusted.

What a head reads: the numbers $\hat y = zU$ that come nearest to the forms of its register, U from the features that it
reads itself if these suffice, so that one feature is read exactly; and C such that $M \approx U C$ beside the constant.
Cells are cut where bounds are largest, until they are close to what the same models say at points.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from flint import arb

from attnforge.certification.graph.layout import formulas_of
from attnforge.certification.graph.prove import _apart, _check_defined
from attnforge.certification.graph.recognition import Claim, of_graph, of_relu_network
from attnforge.certification.statement import Proof, Statement
from attnforge.errors import CertificateError
from attnforge.expression.intervals import Interval
from attnforge.expression.tree import Apply, Node, bottom_up
from attnforge.kernel.cover import Cover, Cut
from attnforge.kernel.local import Reading
from attnforge.kernel.registers import Group, OnCells, Registers
from attnforge.kernel.steps import Steps
from attnforge.kernel.stream import Stream
from attnforge.network import Head, Network
from attnforge.outward import Machine, Up
from attnforge.proving.kinks import kink_cuts
from attnforge.targets import Formula, ReluNetwork
from attnforge.targets.graph import Graph

Array = npt.NDArray[np.float64]
Numbers = npt.NDArray[np.int64]

KINKED = {"relu", "clamp", "max", "min", "abs", "sign", "step"}
CLOSE = 1.1  # the bound of a head may exceed what models say at points by this factor; that of outputs by the next
CLOSE_OUTPUTS = 1.3
DEGREES = {1: 8, 2: 5}  # of models of heads, by how many numbers they read
FINEST, NEARLY = 512, 1.5  # cells of an axis at first, at most, and what they need to be
GRADED, FACTOR = 20, 8.0  # cells on either side of a kink, and how much smaller each is than the one before
CELLS, TOP = 100_000, 8  # cells of a cover of heads, at most; those of each head whose middles are points
FIRST_RANGES, RANGES, OUTPUTS = 32, 1000, 600  # cells of the domain for ranges, first and at most; for outputs
LOOSE = 2.0**-8  # of the width of a range: so much it may be too wide
MOST = 16  # inputs of a domain that is cut
NARROW = 16  # parts of a cell's width
BATCH = 8  # cells of the domain cut at once: of more, some are cut in vain
ROUNDS, HELPS, IDLE = 80, 0.97, 6  # of cutting, at most; less is no help, and after so many times it is left
SAME = 2.0**-40  # numbers so near are one


@dataclass(frozen=True, eq=False)
class Proved:
    """A bound of |run - program| for all outputs; local errors of blocks, and how many cells it took."""

    bound: float
    local: tuple[Array, ...]
    cells: int


def prove_registers(statement: Statement) -> Proof:
    """The statement, by registers; ``difference``: what the program and the target differ by, coefficients rounded.

    Whether formulas put into each other are the target is asked of :mod:`attnforge.certification.graph`, until the
    kernel has a rule for it.
    """
    run, machine, box = statement.run, statement.machine, statement.domain
    low, high = (end.reshape(-1, run.features) for end in (box.lower, box.upper))
    ends = low.min(axis=0), high.max(axis=0)
    target = rectified(statement)
    if target is not None:
        return Proof({"registers": prove(run, machine, of_relu_network(run, target), *ends).bound})
    claim = of_graph(run, machine)
    found = formulas_of(statement.target)
    if np.any(found.off) or found.conditions_on_registers:
        raise CertificateError("Inputs of a program are those of its formulas", "others", "Prove the graph")
    sides = [Interval(arb(a), arb(b)) for a, b in zip(*(end.tolist() for end in ends), strict=True)]
    graph = Graph(sides, claim.trees, claim.outputs)
    assumed = _check_defined(graph, statement.target)
    difference = _apart(graph, statement.target, claim.outputs)
    parts = {"registers": prove(run, machine, claim, *ends).bound, "difference": difference}
    return Proof(parts, "conditional" if assumed else "proved", assumed)


def rectified(statement: Statement) -> ReluNetwork | None:
    """The target as a network of affine maps and clamps, if it is one and heads claim no formulas."""
    if isinstance(statement.target, ReluNetwork):
        return statement.target
    claiming = any(head.claims is not None and head.claims.formula for head in statement.run.heads)
    if claiming or not isinstance(statement.target, Formula):
        return None
    return statement.target.rectified()


def prove(network: Network, machine: Machine, claim: Claim, low: Array, high: Array) -> Proved:
    """That runs of the network, with weights as the machine holds them, are near the program that it claims to be."""
    cover = Cover(low[None], high[None], lambda which, *_: np.zeros(len(which)))
    if len(low) <= MOST and any(not _is_kinked(block.function) for block in claim.steps.blocks):
        _cut_for_ranges(cover, claim.steps)
    registers = Registers(network, machine, claim.steps, (low, high), claim.places, cover)
    local, cells = [], 0
    for block in claim.steps.blocks:
        number = registers.proceed()
        forms, groups = _read(registers, number)
        for group, each in zip(groups, registers.open(groups, forms), strict=True):
            del group
            _cut_first(each, block.function)
            _refine(each, CLOSE, CELLS, CELLS)
            cells += len(each.cells[0])
        local.append(registers.close().values)
    outputs = registers.outputs()
    if cover.cells[1].shape[0] > 1:
        _refine(outputs, CLOSE_OUTPUTS, OUTPUTS, BATCH)
    return Proved(float(outputs.largest().values[0]), tuple(local), cells)


def _is_kinked(function: Node) -> bool:
    return all(not isinstance(node, Apply) or node.function in KINKED for node in bottom_up(function))


def _read(registers: Registers, number: int) -> tuple[Array, list[Group]]:
    """What the heads of a block read (registers, features, k), and those of one shape together."""
    stream, heads, steps = registers.stream, registers.heads(number), registers.steps
    size = np.where(np.isfinite(registers.sources.high), registers.sources.size.values, 0.0)[stream.rows]
    wanted = [forms.dense(steps.widths).mid for forms in steps.blocks[number - 1].forms]
    padded = [np.vstack([each, np.zeros((len(registers.sources.low) - len(each), each.shape[1]))]) for each in wanted]
    here = np.stack([each[stream.rows] for each in padded], axis=-1)  # (sources, registers, k)
    forms = np.stack([_forms(stream, size, head, here[:, j]) for j, (head, _) in enumerate(heads)])
    alike: dict[object, list[int]] = defaultdict(list)
    for j, (head, _) in enumerate(heads):
        alike[head.query.shape, head.memory_size, head.key is None].append(j)
    degree = 3 if _is_kinked(steps.blocks[number - 1].function) else DEGREES.get(forms.shape[-1], 4)
    groups = [Group(np.array(each), _reading(stream, size, heads, forms, each), degree) for each in alike.values()]
    return forms, groups


def _forms(stream: Stream, size: Array, head: Head, wanted: Array) -> Array:
    """U (m, k) with D U near the forms (sources, k): from one feature, from those the head reads, or from all."""
    directions = stream.directions.mid
    found = np.zeros((directions.shape[1], wanted.shape[1]))
    read = np.flatnonzero(head.reads)
    matrices = [each for each in (head.query, head.key, head.value) if each is not None]
    for i, column in enumerate(wanted.T):
        same = [f for f in read if np.array_equal(directions[:, f], column)]
        if same:
            found[same[0], i] = 1.0
            continue
        tried = [_units(directions, column), _least(directions, column, size, read)]
        if len(read) > len(matrices) * matrices[0].shape[1]:
            own = np.hstack(matrices)
            tried.append(own @ _least(directions @ own, column, size, np.arange(own.shape[1])))
        rests = [np.abs(directions @ each - column) @ size for each in tried]
        found[:, i] = tried[int(np.argmin(rests))]
    return found


def _units(directions: Array, column: Array) -> Array:
    """Reading features that are sources themselves, each for its source."""
    alone = (np.count_nonzero(directions, axis=0) == 1) & (directions.sum(axis=0) == 1.0)
    found = np.zeros(directions.shape[1])
    found[alone] = column[directions[:, alone].argmax(axis=0)]
    return found


def _least(directions: Array, column: Array, size: Array, some: npt.NDArray[np.signedinteger]) -> Array:
    """By least squares, from some features."""
    found = np.zeros(directions.shape[1])
    scale = np.where(size > 0, size, 1.0)
    found[some] = np.linalg.lstsq(directions[:, some] * scale[:, None], column * scale, rcond=SAME)[0]
    return found


def _reading(
    stream: Stream, size: Array, heads: Sequence[tuple[Head, int]], forms: Array, some: Sequence[int]
) -> Reading:
    """What each matrix makes of the numbers that are read."""
    found: dict[str, list[Array]] = {"query": [], "key": [], "value": []}
    for j in some:
        head, at = heads[j]
        for name, matrices in found.items():
            matrix = getattr(head, name)
            if matrix is not None:
                matrix = matrix[:, [at]] if name == "value" else matrix
                matrices.append(_made_of(stream, size, matrix, forms[j]))
    return Reading(**{name: np.stack(each) for name, each in found.items() if each})


def _made_of(stream: Stream, size: Array, matrix: Array, forms: Array) -> Array:
    """C (k, r) with M near U C beside the constant: by one feature of each form, or by least squares."""
    if not matrix.any():
        return np.zeros((forms.shape[1], matrix.shape[1]))
    directions, scale = stream.directions.mid[1:], np.where(size[1:] > 0, size[1:], 1.0)[:, None]
    tried = [np.linalg.lstsq(directions @ forms * scale, directions @ matrix * scale, rcond=SAME)[0]]
    lead = np.abs(forms).argmax(axis=0)
    if forms[lead, np.arange(len(lead))].all():
        tried.append(matrix[lead] / forms[lead, np.arange(len(lead))][:, None])
    rests = [(np.abs(directions @ (matrix - forms @ each)).T @ size[1:]).sum() for each in tried]
    return np.asarray(tried[int(np.argmin(rests))], dtype=np.float64)


def _cut_evenly(cover: Cover, parts: int) -> None:
    """All cells, across every axis."""
    for axis in range(cover.cells[1].shape[1]):
        _cut_across(cover, axis, parts)


def _cut_across(cover: Cover, axis: int, parts: int) -> None:
    """All cells, across one."""
    _, low, high = cover.cells
    shares = np.arange(1, parts) / parts
    places = low[:, axis, None] + (high - low)[:, axis, None] * shares
    if parts > 1:
        cover.cut(Cut(np.arange(len(low)), np.full(len(low), axis), places))


def _cut_first(cover: Cover, function: Node) -> None:
    """Around kinks, ever finer towards them; evenly where there are none."""
    _, low, high = cover.cells
    k = low.shape[1]
    if _is_kinked(function) and k == 1:
        kinks = sorted({float(at) for at in kink_cuts(function, ["y[0]"], low.min(axis=0), high.max(axis=0))[0]})
        steps = FACTOR ** -np.arange(GRADED)
        steps = np.concatenate([-steps, [0.0], steps[::-1]])
        width = np.abs(high - low)
        places = [np.hstack([at + width * steps for at in kinks])] if kinks else []
        if places:
            cover.cut(Cut(np.arange(len(low)), np.zeros(len(low), dtype=np.int64), places[0]))
        return
    for axis, parts in enumerate([_parts(cover, axis) for axis in range(k)]):
        _cut_across(cover, axis, parts)


def _parts(cover: Cover, axis: int) -> int:
    """So many along an axis that bounds are near those at points, the other numbers being at the ends or the middle."""
    which, low, high = cover.cells
    for parts in 2 ** np.arange(int(np.log2(FINEST))):
        edges = low[:, axis, None] + (high - low)[:, axis, None] * np.linspace(0.0, 1.0, parts + 1)
        worst, best = np.zeros(len(low)), np.zeros(len(low))
        for share in (0.0, 0.5, 1.0):
            at = low + (high - low) * share
            lower, upper = (np.repeat(at[:, None], parts, axis=1) for _ in range(2))
            lower[..., axis], upper[..., axis] = edges[:, :-1], edges[:, 1:]
            middle = lower / 2 + upper / 2
            owner = np.repeat(which, parts)
            for into, ends in ((worst, (lower, upper)), (best, (middle, middle))):
                found = cover.evaluate(owner, *(end.reshape(-1, low.shape[1]) for end in ends))
                np.maximum.at(into, owner, np.nan_to_num(found, nan=np.inf))
        if (worst <= NEARLY * best).all():
            break
    return int(parts)


def _cut_for_ranges(cover: Cover, steps: Steps) -> None:
    """Where a form of the exact program is largest or smallest, until that is close to what it is in the middle."""
    _cut_evenly(cover, max(1, int(FIRST_RANGES ** (1 / steps.inputs))))
    known: tuple[Array, ...] = ()
    for _ in range(ROUNDS):
        _, low, high = cover.cells
        done = 0 if not known else known[0].shape[0]
        more = _forms_on(steps, low[done:], high[done:])
        known = more if not known else tuple(np.concatenate(each) for each in zip(known, more, strict=True))
        below, above, middle = (np.nan_to_num(each, nan=0.0, posinf=0.0, neginf=0.0) for each in known)
        width = middle.max(axis=0) - middle.min(axis=0)
        room = LOOSE * width + np.finfo(np.float64).tiny
        beyond = (above > middle.max(axis=0) + room) | (below < middle.min(axis=0) - room)
        cells = np.flatnonzero(beyond.any(axis=1))
        unknown = ~np.isfinite(known[0]).all(axis=1) | ~np.isfinite(known[1]).all(axis=1)
        cells = np.union1d(cells, np.flatnonzero(unknown))
        cells = cells[(high > low)[cells].any(axis=1)]
        if not len(cells) or len(low) + 2 * len(cells) > RANGES:
            return
        axis = ((high - low) / (high - low).max(axis=0, initial=np.finfo(np.float64).tiny))[cells].argmax(axis=1)
        cover.cut(Cut(cells, axis, (low[cells, axis] / 2 + high[cells, axis] / 2)[:, None]))
        kept = np.ones(len(low), dtype=bool)
        kept[cells] = False
        known = tuple(each[kept] for each in known)


def _forms_on(steps: Steps, low: Array, high: Array) -> tuple[Array, ...]:
    """Ends and middles (C, all forms) of the forms of the exact program on cells."""
    on, found = OnCells(steps, low, high, Up.zeros(steps.inputs)), list[tuple[Array, Array, Array]]()
    with np.errstate(all="ignore"):
        for block in steps.blocks:
            read, inside = on.forms(block, Up.zeros(len(block.forms), block.count))
            on.write(block, read, inside, Up.zeros(block.count))
            parts = inside.low, inside.high, inside.middle.mid
            found.append(tuple(each.reshape(len(low), -1) for each in parts))  # type: ignore[arg-type]
    return tuple(np.concatenate(each, axis=1) for each in zip(*found, strict=True))


def _refine(cover: Cover, close: float, most: int, batch: int) -> None:
    """Cut where bounds are largest, until they are close to bounds at points, cuts help little, or cells are many.

    In each round up to ``batch`` cells of a box are cut, the worst.
    """
    evaluate, boxes = cover.evaluate, len(cover.largest().values)
    before, idle = np.full(boxes, np.inf), np.zeros(boxes, dtype=np.int64)
    for _ in range(ROUNDS):
        which, low, high = cover.cells
        bounds, largest = cover.bounds(), cover.largest().values
        idle = np.where(largest > HELPS * before, idle + 1, 0)
        before, rank = largest, _ranks(which, bounds)
        top = np.flatnonzero(rank < TOP)
        middle = low[top] / 2 + high[top] / 2
        at = evaluate(which[top], middle, middle)
        best = np.zeros(boxes)
        np.maximum.at(best, which[top], np.where(np.isfinite(at), at, 0.0))
        wide = (high > low).any(axis=1) & (idle[which] < IDLE) & (rank < batch)
        cells = np.flatnonzero((bounds > close * best[which]) & wide)
        if not len(cells) or len(which) + len(cells) > most:
            return
        _halve(cover, cells)


def _halve(cover: Cover, cells: Numbers) -> None:
    """Cut cells in halves, across the axis that helps."""
    which, low, high = cover.cells
    which, low, high = which[cells], low[cells], high[cells]
    axis = np.zeros(len(cells), dtype=np.int64) if low.shape[1] == 1 else _axis(cover, which, low, high)
    places = np.take_along_axis(low / 2 + high / 2, axis[:, None], axis=1)
    cover.cut(Cut(cells, axis, places))


def _ranks(which: Numbers, bounds: Array) -> Numbers:
    """How many cells of the same box have larger bounds, cell by cell."""
    order = np.lexsort((-bounds, which))
    ordered, ranks = which[order], np.empty(len(order), dtype=np.int64)
    ranks[order] = np.arange(len(order)) - np.searchsorted(ordered, ordered)
    return ranks


def _axis(cover: Cover, which: Numbers, low: Array, high: Array) -> Numbers:
    """The axis along which a part of a cell is best, so narrow that models begin to hold."""
    found = []
    for axis in range(low.shape[1]):
        lower, upper = low.copy(), high.copy()
        middle, width = low[:, axis] / 2 + high[:, axis] / 2, high[:, axis] - low[:, axis]
        lower[:, axis], upper[:, axis] = middle - width / NARROW, middle + width / NARROW
        found.append(np.where(width > 0, cover.evaluate(which, lower, upper), np.inf))
    return np.asarray(np.argmin(found, axis=0))
