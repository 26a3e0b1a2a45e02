r"""Theorem bound re-evaluated for cross-attention over the cells of a product grid of the joint box.

Keys are affine in X, queries in Y. A feature whose key moves with X must meet a query that is constant; then the scores
are affine in the joint point z = (X, Y), and they are those of a head that asks with (X ; Q) and whose keys are
constants: the slopes in X, weighted by those constant queries, and the keys' constant parts. Against the places
$\kappa_j$ of the claimed centres these keys are split as
$$ K_j - K_0 = \Lambda\kappa_j - c\,|\kappa_j|^2 e_1 + \rho_j , $$
$e_1$ the feature whose query is the constant 1 and c the claimed sharpness. The linear part sees z at
$\upsilon = \Lambda^T q/(2c)$: its difference to the true place is a *backward* error. The remainder, what the linear
maps of X round, and the head's arithmetic disturb scores by at most d, so that every weight changes by a factor in
$[e^{-2d}, e^{2d}]$. Any claim is sound: what it does not explain is charged to the remainder.

Values are compared with the target's own at the claimed centres, reflected at ghosts. Rows of other tokens are compared
with their twins in the query's own block. A backward error of $\eta$ moves f by at most $L\eta$, and the expectation of
:mod:`attnforge.lemmas.cells` by as much, $3^D$ times as much where ghosts carry reflections.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt

from attnforge.balls import Balls, Machine, add_up, gamma, product_up, round_to
from attnforge.balls import machine as machine_of
from attnforge.certification.folded_cross import folded
from attnforge.certification.max_affine import is_looked_at as cells_are_looked_at
from attnforge.certification.max_affine import look_at_cells, smaller
from attnforge.certification.product_grid import ProductGrid, recognised, stray
from attnforge.certification.row_of_anchors import Keys, merge_constants, softmax_roundings
from attnforge.certification.target_range import values_at
from attnforge.certification.tokens import Tokens, inner, mixed_linear, project, whole_input
from attnforge.effort import NORMAL, Effort
from attnforge.errors import CertificateError, RefusalError
from attnforge.lemmas.cells import expected_distance
from attnforge.lemmas.softmax import ratio_excess
from attnforge.network import Attention, Head, Linear, Network
from attnforge.targets import Box, Formula, JointFunction, Target

Array = npt.NDArray[np.float64]

CLEAR = 20.0  # scores off by more than this tell no cells apart


@dataclass(frozen=True, eq=False)
class Joint:
    """One query token's scores: queries (1, D, F) affine in the joint point, keys (R, F), what the run adds (R,)."""

    query: Tokens
    keys: Balls
    noise: Array


@dataclass(frozen=True, eq=False)
class Read:
    """Disturbance of the own block's scores, backward error (D,) in steps, mass on the blocks of other tokens."""

    scores: float
    position: Array
    others: float


@dataclass(frozen=True, eq=False)
class Rows:
    """What the two inputs become: queries (n, r), keys and values of the lengthened second input."""

    asking: Tokens
    keys: Tokens
    values: Tokens


def bound_cross(
    network: Network, target: Target, domain: Box, machine: Machine, effort: Effort = NORMAL
) -> dict[str, float]:
    """Named parts: ``spacing`` (half a cell), ``leakage`` (further cells, other tokens), ``rounding``.

    A formula of the joint point (X ; Y) is looked at itself where the head folds (:mod:`.folded_cross`); then the
    smaller bound is stated, ``fit`` and ``rounding`` where it comes from an enclosure.
    """
    joint = joint_target(network, target)
    if not np.array_equal(domain.lower, joint.domain.lower) or not np.array_equal(domain.upper, joint.domain.upper):
        raise CertificateError("Cells are certified on the domain they divide", "another domain", "Build a new network")
    head = _head(network, joint)
    rows = _rows(network, head, joint, machine)
    known = None if joint.lipschitz() is None else _by_theorem(head, rows, joint, partial(values_at, target), machine)
    if isinstance(target, Formula) and is_looked_at(network, target):
        known = smaller(_looked_at(network, target, domain, rows, known, machine, effort), known)
    if known is None:
        raise CertificateError("This bound rests on a Lipschitz constant", "none", "Pass lipschitz=")
    return known


def is_looked_at(network: Network, target: Target) -> bool:
    """Whether the target is a formula of the joint point, and the head one over constant keys that asks with it."""
    memory = folded(network) if isinstance(target, Formula) else None
    return memory is not None and memory.features == len(target.names or ()) and cells_are_looked_at(memory, target)


def joint_target(network: Network, target: Target) -> JointFunction:
    """The target as f(X, Y): itself, or a formula whose inputs are those of X, then those of Y, one row each."""
    if isinstance(target, JointFunction):
        return target
    context = network.context or (0, 0)
    if not isinstance(target, Formula) or (network.tokens, context[0]) != (1, 1):
        raise CertificateError("Cross-attention is certified against f(X, Y)", target.describe(), "Give its own target")
    first = context[1]
    if len(target.names) != first + network.features:
        got = f"{len(target.names)} inputs for {first} and {network.features}"
        raise CertificateError("Network and target must have the same shape", got, "Certify it against its own target")
    keys, query = (
        Box(target.domain.lower[part], target.domain.upper[part]) for part in (slice(first), slice(first, None))
    )

    def values(x: Array, y: Array) -> Array:
        return np.asarray(target.values(np.concatenate([x, y], axis=-1)))

    return JointFunction(values, keys, query, lipschitz=target.lipschitz())


def _rows(network: Network, head: Head, joint: JointFunction, machine: Machine) -> Rows:
    asking = project(_encoded(network.layers[:-1], joint.query, machine), _given(head.query), machine)
    told = _encoded(network.context_layers, joint.keys, machine)
    keys, values = (project(told, _given(weights), machine) for weights in (head.key, head.value))
    return Rows(asking, keys, values)


def _by_theorem(
    head: Head, rows: Rows, target: JointFunction, at: Callable[[Array], Balls], machine: Machine
) -> dict[str, float]:
    n, known = (target.tokens_shape or (1,))[0], target.lipschitz()
    claimed = head.claims.positions if head.claims is not None else np.empty((0, 0))
    grid = recognised(claimed, n, target.domain.lower, target.domain.upper)
    if len(rows.keys.source) != n * len(grid.places):
        got = f"{len(rows.keys.source)} rows for {n * len(grid.places)} centres"
        raise CertificateError("X becomes one row a claimed centre", got, "Rebuild the network")
    c = _sharpness(head, machine)
    joined = [_joined(rows.asking.rows(slice(i, i + 1)), rows.keys, machine) for i in range(n)]
    reads = [_read(i, grid, c, joint, machine) for i, joint in enumerate(joined)]
    off, largest = _values(rows.values, grid, at, n)
    constant = math.inf if known is None else known.in_sup_norm(len(grid.steps))
    return _parts(reads, c, grid, constant, off, largest, machine)


def _looked_at(
    network: Network,
    formula: Formula,
    domain: Box,
    rows: Rows,
    known: dict[str, float] | None,
    machine: Machine,
    effort: Effort,
) -> dict[str, float]:
    """The bound of the folded head as it would run in float64, and what this network's own run may add to it."""
    memory, joint = folded(network), _joined(rows.asking, rows.keys, machine)
    if memory is None:
        raise CertificateError("The head asks constant keys with the joint point", "another head", "Rebuild it")
    ceiling = math.inf if known is None else add_up(*known.values())
    parts = look_at_cells(memory, formula, domain, machine_of("float64"), ceiling, effort)
    return {**parts, "rounding": add_up(parts["rounding"], _run(joint, rows.values, machine))}


def _run(joint: Joint, values: Tokens, machine: Machine) -> float:
    r"""How far the run may be from exact arithmetic.

    Scores off by d, up to a common term, move every weight by a factor in $[e^{-2d}, e^{2d}]$ and the output by at most
    $e^{2d} - 1$ times the spread of the values.
    """
    keys, stored = joint.keys, values.constant
    reach = (keys.mid.max(axis=0) - keys.mid.min(axis=0)) / 2 + keys.rad.max(axis=0)
    scores = float(joint.query.error[0] @ reach + joint.noise.max()) * (1 + 2.0**-30)
    disturbance = add_up(scores, softmax_roundings(len(joint.noise), machine))
    spread = float((stored.mid.max(axis=0) - stored.mid.min(axis=0)).max()) * (1 + 2.0**-40)
    count, largest = len(joint.noise), float(values.magnitude().max())
    half = machine.roundoff > machine.accumulation
    relative = add_up(gamma(count + 4, machine.accumulation), gamma(3 if half else 2, machine.roundoff))
    return add_up(
        product_up(ratio_excess(disturbance), spread),
        float((stored.rad + values.error).max()),
        product_up(relative, largest),
        product_up(count, machine.underflow, largest + 1.0),
    )


def _parts(
    reads: list[Read], c: float, grid: ProductGrid, constant: float, off: float, largest: float, machine: Machine
) -> dict[str, float]:
    """The bound from what was read: the lemma, the disturbed weights, backward errors, values and sums."""
    near, far = expected_distance(c, [float(step) for step in grid.steps], grid.ghosts > 0)
    excess = ratio_excess(max(read.scores for read in reads))
    moved = max(float((read.position * grid.steps + grid.slip).max()) for read in reads)
    moved = product_up(moved, 1 + (3.0 ** len(grid.steps) if grid.ghosts else 1.0))
    count, half = len(grid.places) * len(reads), machine.roundoff > machine.accumulation
    relative = add_up(gamma(count + 4, machine.accumulation), gamma(3 if half else 2, machine.roundoff))
    rounding = add_up(
        product_up(excess, constant, add_up(near, far)),
        product_up(1 + excess, constant, moved),
        off,
        product_up(relative, largest),
        product_up(count, machine.underflow, largest + 1.0),
    )
    others = product_up(max(read.others for read in reads), 2 * largest)
    return {
        "spacing": product_up(constant, near),
        "leakage": add_up(product_up(constant, far), others),
        "rounding": rounding,
    }


def _head(network: Network, target: JointFunction) -> Head:
    """The only head, after a look at what surrounds it."""
    last = network.layers[-1] if network.layers else None
    linear = (*network.layers[:-1], *network.context_layers)
    plain = isinstance(last, Attention) and len(last.heads) == 1 and not last.residual
    if not plain or not isinstance(last, Attention) or not all(isinstance(z, Linear) and z.terms for z in linear):
        raise CertificateError("This proof covers linear maps and one layer of one head", "other layers", "Rebuild it")
    head, shapes = last.heads[0], (_two(target.query.shape), _two(target.keys.shape))
    rows = head.key_rows
    if rows is None or rows.kind != "all" or rows.source != "context" or head.memory_size or head.claims is None:
        raise CertificateError("The head attends to the second input, with claims", "other keys", "Rebuild the network")
    if head.query_rows.kind != "all" or not np.array_equal(head.output, np.eye(target.outputs or 1)):
        raise CertificateError("The head writes its values as they are, for every token", "another output map")
    if ((network.tokens, network.features), network.context) != shapes:
        got = f"{(network.tokens, network.features)} and {network.context} for {shapes[0]} and {shapes[1]}"
        raise CertificateError("Network and target must have the same shape", got, "Certify it against its own target")
    return head


def _two(shape: tuple[int, ...]) -> tuple[int, int]:
    return (shape[0], shape[1]) if len(shape) == 2 else (1, shape[0])


def _given(weights: Array | None) -> Array:
    if weights is None:
        raise CertificateError("Keys and values are maps of the second input", "none", "Rebuild the network")
    return weights


def _sharpness(head: Head, machine: Machine) -> float:
    claimed = math.nan if head.claims is None else head.claims.sharpness
    if not (math.isfinite(claimed) and claimed > 0):
        raise CertificateError("A head over cells claims a positive sharpness", str(claimed), "Rebuild the network")
    return float(round_to(np.array(claimed), machine.name))


def _encoded(layers: tuple[object, ...], box: Box, machine: Machine) -> Tokens:
    """The rows that an input becomes."""
    shape = _two(box.shape)
    tokens = whole_input(box.lower.reshape(shape), box.upper.reshape(shape), machine)
    for layer in layers:
        tokens = mixed_linear(layer, tokens, machine) if isinstance(layer, Linear) else tokens
    return tokens


def _joined(query: Tokens, keys: Tokens, machine: Machine) -> Joint:
    """Scores as one affine function of the joint point; refused where a product of X and Y enters."""
    moving = np.any(keys.slope.magnitude() > 0, axis=(0, 1))
    turning = np.any(query.slope.magnitude() > 0, axis=(0, 1)) | (query.error[0] > 0) | (query.constant.rad[0] > 0)
    if np.any(moving & turning):
        got = "a feature in which both keys and queries move"
        raise CertificateError("Keys that depend on X meet constant queries", got, "Rebuild the network")
    _, d_x, r = keys.slope.shape
    d = d_x + query.slope.shape[1]
    along = (keys.slope @ Balls.exact((query.constant.mid[0] * moving)[:, None]))[:, :, 0]
    columns = Balls(*(np.hstack(parts) for parts in ((along.mid, keys.constant.mid), (along.rad, keys.constant.rad))))
    slope = Balls(np.zeros((1, d, d_x + r)), np.zeros((1, d, d_x + r)))
    slope.mid[0, :d_x, :d_x] = np.eye(d_x)
    slope.mid[0, d_x:, d_x:], slope.rad[0, d_x:, d_x:] = query.slope.mid[0], query.slope.rad[0]
    box, constant, error = (
        Balls(*(np.hstack(parts) for parts in ((keys.box.mid[:1], query.box.mid), (keys.box.rad[:1], query.box.rad)))),
        Balls(*(np.hstack([np.zeros((1, d_x)), part]) for part in (query.constant.mid, query.constant.rad))),
        np.hstack([np.zeros((1, d_x)), query.error]),
    )
    magnitude = query.magnitude()[0]
    noise = keys.error @ magnitude + gamma(r + 4, machine.accumulation) * (keys.magnitude() @ magnitude)
    return Joint(Tokens(np.zeros(1, dtype=np.int64), box, slope, constant, error), columns, noise)


def _read(i: int, grid: ProductGrid, c: float, joint: Joint, machine: Machine) -> Read:
    """Measure the scores of query token i against -c |kappa - upsilon|^2 over its block of keys."""
    places, cells = grid.places, len(grid.places)
    own = slice(i * cells, (i + 1) * cells)
    block = joint.keys[own]
    plain = Keys(block, np.zeros(block.shape), Balls.exact(np.zeros(cells)), 0.0)
    query, keys, _, _ = merge_constants(joint.query, plain, np.zeros((1, block.shape[1])))
    middle = int(np.abs(places).sum(axis=1).argmin())  # place 0
    bend = np.zeros(keys.shape[1])
    bend[-1] = -c
    square = np.outer((places**2).sum(axis=1), bend)
    differences = keys - keys[middle : middle + 1] - Balls(square, 2.0**-52 * np.abs(square))
    if not np.isfinite(differences.mid).all():
        raise CertificateError("Keys of cells differ by float64 numbers", "infinity", "Scale the target or its domain")
    linear = np.asarray(np.linalg.lstsq(places, differences.mid, rcond=None)[0], dtype=np.float64)  # (D, F)
    rest = (differences - Balls.exact(places) @ Balls.exact(linear)).magnitude()
    scores = float((rest @ query.magnitude()[0]).max() + joint.noise.max()) * (1 + 2.0**-30)
    disturbance = scores + softmax_roundings(len(joint.noise), machine)
    if not disturbance < CLEAR:
        got = f"scores off by up to {disturbance:.3g}"
        raise RefusalError(f"{machine.name} must tell the scores of cells apart", got, "Use fewer cells, or float64")
    position = _position(query, linear, c, grid) * np.any(places != 0, axis=0)  # one place: nothing to choose
    return Read(disturbance, position, _elsewhere(own, joint, disturbance))


def _position(query: Tokens, linear: Array, c: float, grid: ProductGrid) -> Array:
    """How far, in steps along each axis (D,), the head's idea of the joint point is from the point."""
    scale = Balls.between((1 - 2.0**-51) / (2 * c), (1 + 2.0**-51) / (2 * c))
    per_step = Balls.between((1 - 2.0**-51) / grid.steps, (1 + 2.0**-51) / grid.steps)
    wanted = Balls.exact(np.eye(len(linear))[None]) * Balls(per_step.mid[None, None], per_step.rad[None, None])
    slope = query.slope @ Balls.exact(linear.T[None]) * scale - wanted
    origin = Balls(grid.origin[None], 2.0**-50 * (np.abs(grid.origin) + np.abs(grid.lower) + grid.steps)[None])
    constant = query.constant @ Balls.exact(linear.T) * scale + origin * per_step
    seen = inner(slope, query.box, constant).magnitude() + query.error @ np.abs(linear.T) * scale.magnitude()
    return np.asarray(seen[0] * (1 + 2.0**-40))


def _elsewhere(own: slice, joint: Joint, disturbance: float) -> float:
    """Mass on the blocks of other tokens: how far each of their keys scores below its twin in the own block."""
    query, cells, total = joint.query, own.stop - own.start, 0.0
    for first in range(0, len(joint.noise), cells):
        if first == own.start:
            continue
        change = joint.keys[first : first + cells] - joint.keys[own]
        turned = Balls(change.mid.T, change.rad.T)
        rise = inner(query.slope @ Balls(turned.mid[None], turned.rad[None]), query.box, query.constant @ turned)
        highest = rise.mid[0] + rise.rad[0] + change.magnitude() @ query.error[0]
        with np.errstate(over="ignore"):
            total = add_up(total, float(np.exp(highest.max() + 2 * disturbance)) * (1 + 2.0**-30))
    return total


def _values(values: Tokens, grid: ProductGrid, at: Callable[[Array], Balls], n: int) -> tuple[float, float]:
    """How far the values are from the target's at the centres (reflected at ghosts), and the largest of them."""
    if np.any(values.slope.magnitude()):
        raise CertificateError("The values are constants", "values that depend on X", "Rebuild the network")
    off, sizes = stray(values.constant.mid, grid, at, n)
    largest = float(np.maximum(values.magnitude(), sizes).max())
    return float(((off + values.constant.rad + values.error) * (1 + 2.0**-50)).max()), largest
