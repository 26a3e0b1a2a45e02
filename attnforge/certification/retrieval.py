r"""Theorem bound re-evaluated for a softmax over a product grid of bumps: two layers, or attention and a softmax.

From the numbers of the network (:mod:`.bumps`) follow the scale $s_r$ of each input, the places of its bumps and how
far each runs from $\psi$. The scores must be $\beta$ times a sum of one bump an input, every combination once
(:mod:`.scores`); the centre v of a key is where its bumps stand, $s_r v_r + t_r = $ place. Departures of the keys, the
bumps' errors and all rounding of scores add up to the disturbance d of :mod:`attnforge.lemmas.softmax`. With steps
$h_r = 1/|s_r|$, L the target's constant in the sup norm and :mod:`attnforge.lemmas.bumps`
$$ |\mathrm{net}(x) - F(x)| \le L\Big(\max_r \frac{h_r}{2} + e^{2d}\sum_r h_r A(\beta, G_r) + \max_r h_r \eta_r\Big)
   + \max_v |V_v - F(v)| + \gamma\max|V| , $$
where $\eta_r$ is how far u may be from $s_r x_r + t_r$, outside the cells, or a centre from its place, in steps.
Values are compared with the target's own at the centres; the read-out must hand every token exactly its slice.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from attnforge.certification.affine_scores import Scores, dot
from attnforge.certification.bumps import Bumps, Coordinates, read_bumps, read_coordinates
from attnforge.certification.scores import read_head, read_softmax
from attnforge.certification.target_range import values_at
from attnforge.errors import CertificateError, RefusalError
from attnforge.lemmas.bumps import furthest, product_grid
from attnforge.lemmas.softmax import ratio_excess
from attnforge.network import Layer, Network, Softmax
from attnforge.outward import Balls, Machine, Up, add_up, product_up
from attnforge.targets import Box, Formula, Target

Array = npt.NDArray[np.float64]
Indices = npt.NDArray[np.int64]


def bound_retrieval(network: Network, target: Target, domain: Box, machine: Machine) -> dict[str, float]:
    """Named parts for bumps and a head that retrieves, or a softmax: ``spacing``, ``leakage``, ``rounding``."""
    layers, seen, bumps = _first(network, domain, machine)
    read = read_softmax if Softmax in map(type, layers) else read_head
    head = read(layers, network.tokens or 1, seen.rows, bumps, machine)
    return _bound(head, seen, bumps, target, domain, machine, network.tokens or 1)


def _first(network: Network, domain: Box, machine: Machine) -> tuple[list[Layer], Coordinates, Bumps]:
    """Coordinates and bumps, and the layers after them."""
    layers = list(network.layers)
    seen = read_coordinates(layers, domain, network.tokens or 1, machine)
    if len(layers) < 2:
        raise CertificateError("After the ramps the centres are weighed", "no further layer", "Rebuild the network")
    return layers[1:], seen, read_bumps(layers[0], seen, machine)


@dataclass(frozen=True, eq=False)
class Lattice:
    """The centres: beta, steps h_r, points an input, positions (N, D), how far off a position may be, in steps (D,)."""

    sharpness: float
    steps: Array
    counts: tuple[int, ...]
    centres: Array
    slip: Array


def _bound(
    head: Scores, seen: Coordinates, bumps: Bumps, target: Target, domain: Box, machine: Machine, n: int
) -> dict[str, float]:
    largest = float((dot(Up.of(head.slope), Up.of(head.box)) + Up.of(head.constant)).most())
    if not 2 * largest < machine.largest:
        raise RefusalError(f"Scores must fit {machine.name}", f"up to {largest:.3g}", "Lower the sharpness")
    lattice, departure = _lattice(head, seen, bumps, domain, machine)
    target = _around(target, domain, lattice)
    known = target.lipschitz()
    if known is None:
        raise CertificateError("This bound rests on a Lipschitz constant", "none", "Pass lipschitz=")
    constant = known.in_sup_norm(len(seen.scale))
    beyond, worst = _beyond(seen, bumps), _worst(bumps, len(seen.scale))
    scores = add_up(product_up(lattice.sharpness, add_up(*beyond, *worst)), departure)
    half, rest = product_grid(lattice.sharpness, lattice.steps, lattice.counts)
    moved = float((lattice.steps * (seen.shift + beyond + lattice.slip)).max()) * (1 + 2.0**-40)
    heavier = min(
        product_up(ratio_excess(scores), rest), max(0.0, add_up(furthest(lattice.steps, lattice.counts), -rest))
    )
    if not np.isfinite(head.sums):
        got = f"{len(head.values):,} centres"
        raise RefusalError(f"{machine.name} can add up so many terms", got, "Use a smaller grid or a higher precision")
    rounding = add_up(
        product_up(constant, add_up(heavier, moved)), _values(head.values, target, lattice.centres, n), head.written
    )
    return {"spacing": product_up(constant, half), "leakage": product_up(constant, rest), "rounding": rounding}


def _lattice(head: Scores, seen: Coordinates, bumps: Bumps, domain: Box, machine: Machine) -> tuple[Lattice, float]:
    """Which bumps each key sums, as a product grid, and the largest departure of the run from beta times that sum."""
    inputs, scores = len(seen.scale), head.slope.mid
    used = scores[scores != 0]
    sharpness = float(np.median(used)) if len(used) else 0.0
    if not sharpness > 0:
        raise CertificateError("Scores rise with the bumps", f"beta = {sharpness}", "Rebuild the network")
    chosen = np.empty((len(scores), inputs), dtype=np.int64)
    for r in range(inputs):
        own = np.flatnonzero(bumps.owner == r)
        if len(own) == 0 or not np.all(np.diff(np.sort(bumps.place[own])) == 1.0):
            raise CertificateError("The bumps of an input stand one step apart", f"{len(own)} bumps of input {r}")
        chosen[:, r] = own[scores[:, own].argmax(axis=1)]
    counts = tuple(int(np.sum(bumps.owner == r)) for r in range(inputs))
    _all_once(chosen, bumps, counts)
    ideal = np.zeros_like(scores)
    np.put_along_axis(ideal, chosen, sharpness, axis=1)
    off = dot(Up.of(head.slope - Balls.exact(ideal)), Up.of(head.box)) + Up.of(head.constant)
    off = off + dot(Up.of(head.lever), head.error) + head.noise
    return _positions(chosen, sharpness, seen, bumps, counts, domain, machine), float(off.most())


def _all_once(chosen: Indices, bumps: Bumps, counts: tuple[int, ...]) -> None:
    """Raise unless the keys are all combinations of one bump an input."""
    rank = np.empty(len(bumps.place), dtype=np.int64)
    for r in range(len(counts)):
        own = np.flatnonzero(bumps.owner == r)
        rank[own[np.argsort(bumps.place[own])]] = np.arange(len(own))
    numbers = np.sort(np.ravel_multi_index(tuple(rank[chosen].T), counts)) if len(chosen) else np.empty(0)
    if not np.array_equal(numbers, np.arange(int(np.prod(counts)))):
        got = f"{len(np.unique(numbers))} of {int(np.prod(counts))} combinations among {len(chosen)} keys"
        raise CertificateError("Every combination of one bump an input has one key", got, "Rebuild the network")


def _positions(
    chosen: Indices,
    sharpness: float,
    seen: Coordinates,
    bumps: Bumps,
    counts: tuple[int, ...],
    domain: Box,
    machine: Machine,
) -> Lattice:
    """Centres (N, D) in the inputs' own units: where s v + t is the place of their bumps.

    Rounding of s and t may push a centre on the edge of the box out of it; it is moved back, and stands off its place.
    """
    owner, lower, higher = bumps.owner, domain.lower.ravel(), domain.upper.ravel()
    flat = seen.scale == 0
    if np.any(flat & (lower != higher)):
        raise CertificateError("Every input that varies is read", f"input {int((flat & (lower != higher)).argmax())}")
    scale = np.where(flat, 1.0, seen.scale)
    steps = np.where(flat, 0.0, np.nextafter(np.abs(1.0 / scale), np.inf))
    exact = (bumps.place - seen.start[owner]) / scale[owner]
    reach = 8 * machine.roundoff * (np.abs(bumps.place) + np.abs(seen.start[owner])) * steps[owner]
    back = np.clip(exact, lower[owner], higher[owner])
    centres = np.where(flat[owner] | (np.abs(exact - back) <= reach), back, exact)
    stands = Balls.exact(scale[owner]) * Balls.exact(centres) + Balls.exact(seen.start[owner])
    off = (stands - Balls.exact(bumps.place)).magnitude()
    slip = np.array([off[owner == r].max() for r in range(len(scale))]) * ~flat
    return Lattice(sharpness, steps, counts, centres[chosen], slip)


def _around(target: Target, domain: Box, lattice: Lattice) -> Target:
    """The target on a box that holds the domain and all centres: only a formula may be asked beyond its domain."""
    low = np.minimum(domain.lower, lattice.centres.min(axis=0).reshape(domain.shape))
    high = np.maximum(domain.upper, lattice.centres.max(axis=0).reshape(domain.shape))
    within = np.array_equal(low, domain.lower) and np.array_equal(high, domain.upper)
    if not within and not isinstance(target, Formula):
        remedy = "Certify on a domain that holds the centres"
        raise CertificateError("A callable is known on its domain only", "centres outside it", remedy)
    same = np.array_equal(low, target.domain.lower) and np.array_equal(high, target.domain.upper)
    return target if same else target.on(Box(low, high))


def _beyond(seen: Coordinates, bumps: Bumps) -> Array:
    """How far u may run beyond the outermost cells, an input."""
    beyond = []
    for r, (low, high) in enumerate(zip(seen.low, seen.high, strict=True)):
        places = bumps.place[bumps.owner == r]
        beyond.append(max(0.0, places.min() - 0.5 - low, high - places.max() - 0.5))
    return np.asarray(np.nextafter(np.array(beyond), np.inf))


def _worst(bumps: Bumps, inputs: int) -> Array:
    """The largest error of a bump, an input: a score sums one of each."""
    return np.array([bumps.error[bumps.owner == r].max() for r in range(inputs)])


def _values(values: Array, target: Target, centres: Array, n: int) -> float:
    """How far the values (N, n k) may be from the target's own at the centres."""
    wanted = values_at(target, centres)
    if wanted.shape != values.shape:
        got = f"{values.shape[1] // n} outputs a token"
        raise CertificateError("Network and target must have the same shape", got, "Certify it against its own target")
    return float((Balls.exact(values) - wanted).magnitude().max())
