r"""Theorem bound re-evaluated for a head over the cells of a product grid.

For every query token the head's scores against its block of keys are compared with $-c|\kappa - \upsilon|^2$, place by
place, as in :mod:`.row_of_anchors` but along D axes: each key feature is split into a linear part in the places, a
multiple of $|\kappa|^2$ and a remainder. What the linear part sees instead of x is a backward error, worth L times it;
remainders and arithmetic disturb all scores by at most d, so that every weight changes by a factor in
$[e^{-2d}, e^{2d}]$ and the expected distance of :mod:`attnforge.lemmas.cells` by at most $e^{2d}$. Values are compared
with the target's own at the claimed centres, a formula's enclosed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import numpy.typing as npt

from attnforge.balls import Balls, Machine, add_up, gamma, product_up
from attnforge.certification.product_grid import ProductGrid, recognised, stray
from attnforge.certification.row_of_anchors import Keys, merge_constants, softmax_roundings
from attnforge.certification.target_range import values_at
from attnforge.certification.tokens import Tokens, inner, mixed_linear, project, whole_input
from attnforge.errors import CertificateError, RefusalError
from attnforge.lemmas.cells import expected_distance
from attnforge.lemmas.softmax import ratio_excess
from attnforge.network import Attention, Head, Linear, Network
from attnforge.targets import Box, Target

Array = npt.NDArray[np.float64]


def bound_cells(network: Network, target: Target, domain: Box, machine: Machine) -> dict[str, float]:
    """Named parts: ``spacing`` (half a cell), ``leakage`` (further cells, other tokens), ``rounding``."""
    encode, head = one_head(without_read_out(network), padded=True)
    n, inputs = network.tokens or 1, int(np.prod(target.domain.shape))
    if not np.array_equal(domain.lower, target.domain.lower) or not np.array_equal(domain.upper, target.domain.upper):
        raise CertificateError("Cells are certified on the domain they divide", "another domain", "Build a new network")
    lower, upper = domain.lower.ravel(), domain.upper.ravel()
    grid = _grid(head, lower, upper, n)
    tokens = whole_input(domain.lower.reshape(n, -1), domain.upper.reshape(n, -1), machine)
    for layer in encode:
        tokens = mixed_linear(layer, tokens, machine)
    head = _remembered(head, tokens, machine)
    if head.memory_size != len(grid.places) * n:
        got = f"{head.memory_size} keys for {len(grid.places) * n} centres"
        raise CertificateError("The head has one key a claimed centre", got, "Rebuild the network")
    reads = [_read_token(i, n, head, grid, tokens, machine) for i in range(n)]
    known = target.lipschitz()
    if known is None:
        raise CertificateError("This bound rests on a Lipschitz constant", "none", "Pass lipschitz=")
    constant = known.in_sup_norm(inputs)
    steps = [float(step) for step in grid.steps]
    near, far = max(expected_distance(c, steps, grid.ghosts > 0) for c in {read.c for read in reads})
    values, largest = _values(head, grid, target, n)
    others = product_up(max(read.others for read in reads), 2 * largest)
    excess = ratio_excess(max(read.scores for read in reads))
    moved = max(float((read.position * grid.steps + grid.slip).max()) for read in reads)
    count, half = len(grid.places) * n, machine.roundoff > machine.accumulation
    relative = add_up(gamma(count + 4, machine.accumulation), gamma(3 if half else 2, machine.roundoff))
    rounding = add_up(
        product_up(excess, constant, add_up(near, far)),
        product_up(constant, 1.0 + (3.0**inputs if grid.ghosts else 1.0), moved),
        values,
        product_up(relative, largest),
        product_up(count, machine.underflow, largest + 1.0),
    )
    leakage = add_up(product_up(constant, far), others)
    return {"spacing": product_up(constant, near), "leakage": leakage, "rounding": rounding}


@dataclass(frozen=True, eq=False)
class _Read:
    """One query token: sharpness, disturbance of its block's scores, backward error (D,) in steps, mass elsewhere."""

    c: float
    scores: float
    position: Array
    others: float


def without_read_out(network: Network) -> Network:
    """The network up to its attention, where all that follows is reading the first tokens of a padded sequence."""
    last = network.layers[-1]
    mix = last.terms[0].mix if isinstance(last, Linear) and len(last.terms) == 1 else None
    if mix is None or not isinstance(last, Linear) or last.constant is not None or last.terms[0].map is not None:
        return network
    if not np.array_equal(mix, np.eye(network.tokens or 1, mix.shape[1])):
        raise CertificateError("After attention, only the first tokens are read", "another mixing")
    return replace(network, layers=network.layers[:-1])


def _remembered(head: Head, tokens: Tokens, machine: Machine) -> Head:
    """The head with the keys and values its tokens carry as its memory, where they are exact constants."""
    if head.key_rows is None or head.key is None or head.value is None:
        return head
    keys, values = project(tokens, head.key, machine), project(tokens, head.value, machine)
    for rows in (keys, values):
        if np.any(rows.slope.magnitude()) or np.any(rows.error) or np.any(rows.constant.rad):
            raise CertificateError("The tokens of a padded sequence carry constant keys and values", "rows that vary")
    memory = replace(head, memory_keys=keys.constant.mid, memory_values=values.constant.mid)
    return replace(memory, key=None, value=None, key_rows=None)


def one_head(network: Network, padded: bool = False) -> tuple[tuple[Linear, ...], Head]:
    """The linear maps and the head of a network that is linear maps and one head over its memory; others refused.

    With ``padded`` the head may also read all tokens of a sequence that carries its keys.
    """
    encode = tuple(layer for layer in network.layers[:-1] if isinstance(layer, Linear))
    last = network.layers[-1]
    plain = isinstance(last, Attention) and len(last.heads) == 1 and not last.residual
    if not plain or len(encode) != len(network.layers) - 1 or not isinstance(last, Attention):
        raise CertificateError("This proof covers linear maps and one layer of one head", "other layers")
    head = last.heads[0]
    own = head.key_rows is None and head.memory_keys is not None and head.memory_values is not None
    rows = head.key_rows
    carried = padded and rows is not None and rows.kind == "all" and rows.source == "state" and not head.memory_size
    if not (own or carried) or head.claims is None:
        raise CertificateError("The head's keys are its memory, with claims", "other keys", "Rebuild the network")
    if not np.array_equal(head.output, np.eye(len(head.output))):
        raise CertificateError("The head writes its values as they are", "another output map")
    if head.query_rows.kind != "all" or head.query_rows.source != "state":
        raise CertificateError("Every token asks the head", "some rows only", "Rebuild the network")
    return encode, head


def _grid(head: Head, lower: Array, upper: Array, n: int) -> ProductGrid:
    """The product grid behind the claimed positions; refused unless every block of keys is that grid."""
    positions = head.claims.positions if head.claims is not None else np.empty((0, 0))
    axes = len(lower)
    if positions.ndim != 2 or positions.shape[1] != axes or len(positions) % n or len(positions) == 0:
        raise CertificateError(f"Every key claims a centre with {axes} coordinates", f"shape {positions.shape}")
    return recognised(positions, n, lower, upper)


def _read_token(i: int, n: int, head: Head, grid: ProductGrid, tokens: Tokens, machine: Machine) -> _Read:
    memory = head.memory_keys if head.memory_keys is not None else np.empty((0, 0))
    cells = len(grid.places)
    block = memory[i * cells : (i + 1) * cells]
    row = tokens.rows(slice(i, i + 1))
    full = project(row, head.query, machine)
    keys = Keys(Balls.exact(block), np.zeros(block.shape), Balls.exact(np.zeros(cells)), 0.0)
    query, merged, _, _ = merge_constants(full, keys, head.query)
    middle = int(np.abs(grid.places).sum(axis=1).argmin())
    shift = grid.places - grid.places[middle]
    square = (grid.places**2).sum(axis=1) - (grid.places[middle] ** 2).sum()
    design = np.column_stack([shift, square])
    differences = merged - merged[middle : middle + 1]
    fit = _fit(shift, square, differences.mid, 0.0 if head.claims is None else head.claims.sharpness)
    rest = (differences - Balls.exact(design) @ Balls.exact(fit)).magnitude()
    linear, bend = fit[:-1].T, fit[-1]  # (r, D), (r,)
    flat = int(query.slope.shape[1])
    curve = inner(query.slope @ Balls.exact(bend[None, :, None]), query.box, _rows(query.constant, bend[:, None]))
    c = -float(curve.mid[0, 0])
    if not c > 0:
        raise CertificateError("Scores fall with the square of the distance to a centre", f"c = {c}")
    scale = Balls.between((1 - 2.0**-51) / (2 * c), (1 + 2.0**-51) / (2 * c))
    per_step = Balls.between(1 / grid.steps * (1 - 2.0**-51), 1 / grid.steps * (1 + 2.0**-51))
    wanted = Balls.exact(np.eye(flat)[None]) * Balls(per_step.mid[None, None], per_step.rad[None, None])
    slope = query.slope @ Balls.exact(linear[None]) * scale - wanted
    offset = Balls.exact(-grid.origin[None]) * per_step
    constant = _rows(query.constant, linear) * scale - offset
    position = inner(slope, query.box, constant).magnitude() + query.error @ np.abs(linear) * scale.magnitude()
    position = position * np.any(shift != 0, axis=0)  # along an axis with one place there is nothing to choose
    magnitude = full.magnitude()[0]
    arithmetic = gamma(memory.shape[1] + 4, machine.accumulation) * (np.abs(block) @ magnitude)
    wobble = (curve + Balls.exact([[c]])).magnitude()[0, 0] + float(query.error[0] @ np.abs(bend))
    scores = rest @ query.magnitude()[0] + arithmetic + wobble * np.abs(square)
    disturbance = float(scores.max()) * (1 + 2.0**-30) + softmax_roundings(cells * n, machine)
    if not disturbance < 20:
        got = f"scores off by up to {disturbance:.3g}"
        raise RefusalError(f"{machine.name} must tell the scores of cells apart", got, "Use fewer cells, or float64")
    return _Read(c, disturbance, position[0] * (1 + 2.0**-40), _elsewhere(i, n, cells, memory, full, disturbance))


def _fit(shift: Array, square: Array, differences: Array, sharpness: float) -> Array:
    """Key features as a linear part in the places and a multiple of the square: (D + 1, r), by least squares.

    With at most two places along every axis the square is linear itself; then the claimed sharpness fixes its part, in
    the last feature, whose query is 1. Any choice is sound: what it does not explain is charged to the remainder.
    """
    design = np.column_stack([shift, square])
    if not np.isfinite(differences).all():
        raise CertificateError("Keys of cells differ by float64 numbers", "infinity", "Scale the target or its domain")
    if max(len(np.unique(column)) for column in shift.T) > 2:
        fit = np.linalg.lstsq(design, differences, rcond=None)[0]
    else:
        bend = np.zeros(differences.shape[1])
        bend[-1] = -sharpness
        fit = np.vstack([np.linalg.lstsq(shift, differences - np.outer(square, bend), rcond=None)[0], bend])
    return np.asarray(np.where(np.abs(fit - np.round(fit)) < 1e-9, np.round(fit), fit))


def _rows(constant: Balls, matrix: Array) -> Balls:
    """Rows (R, r) times a matrix (r, m)."""
    return constant @ Balls.exact(matrix)


def _elsewhere(i: int, n: int, cells: int, memory: Array, query: Tokens, disturbance: float) -> float:
    """Mass on the blocks of other tokens: each of their keys scores at least M below its twin in the own block."""
    total = 0.0
    for j in range(n):
        if j == i:
            continue
        change = Balls.exact(memory[j * cells : (j + 1) * cells]) - Balls.exact(memory[i * cells : (i + 1) * cells])
        falls = (Balls(query.constant.mid, query.constant.rad) @ Balls(change.mid.T, change.rad.T))[0]
        fall = falls.mid + falls.rad
        moving = (query.magnitude()[0] * np.any(query.slope.magnitude() > 0, axis=(0, 1))) @ change.magnitude().T
        total = add_up(total, float(np.exp(np.max(fall + moving) + 2 * disturbance)) * (1 + 2.0**-30))
    return total


def _values(head: Head, grid: ProductGrid, target: Target, n: int) -> tuple[float, float]:
    """How far stored values are from the target's at the centres (reflected at ghosts), and the largest of them."""
    stored = head.memory_values if head.memory_values is not None else np.empty((0, 0))
    off = stray(stored, grid, partial(values_at, target), n)[0]
    return float(off.max()), float(np.abs(stored).max())
