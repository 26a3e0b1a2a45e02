r"""A head over the cells of a product grid against a target of which a Lipschitz constant is known.

The scores of a query token against the keys of a recognised grid are compared with $-c|\kappa - \upsilon|^2$,
$\kappa_j$ the places of the keys. With a linear part fitted to slopes, offsets and levers,
$$ a_j - a_0 = M\kappa_j + \rho_j, \quad b_j - b_0 = m \cdot \kappa_j - c|\kappa_j|^2 + \sigma_j, \quad
   k_j - k_0 = N\kappa_j + \tau_j , $$
the head sees z at $\upsilon = (M^T z + m + N^T e)/(2c)$: its difference to the true place is a *backward* error, worth
L times it. The remainders $\rho \cdot z + \sigma + \tau \cdot e$ and the run's noise disturb scores by at most d, so
that every weight changes by a factor in $[e^{-2d}, e^{2d}]$, and the expected distance of
:mod:`attnforge.lemmas.cells` by at most $e^{2d}$. Any fit is sound: what it does not explain is charged to the
remainder.

Values are compared with the target's own at the centres, reflected at ghosts. A backward error of $\eta$ moves f by at
most $L\eta$, and the expectation by as much, $3^D$ times as much where ghosts carry reflections. Copies of a key, for
other query tokens, are compared with the highest of their place.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from attnforge.certification.affine_scores import Scores, check_clear, dot
from attnforge.certification.product_grid import Cells, ProductGrid
from attnforge.certification.target_range import values_at
from attnforge.errors import CertificateError
from attnforge.lemmas.cells import expected_distance
from attnforge.lemmas.softmax import ratio_excess
from attnforge.outward import Balls, Machine, Up, add_up, product_up
from attnforge.targets import Target

Array = npt.NDArray[np.float64]


def bound_lipschitz_cells(
    scores: list[Scores], cells: list[Cells], target: Target, machine: Machine
) -> dict[str, float]:
    """Named parts: ``spacing`` (half a cell), ``leakage`` (further cells, other tokens), ``rounding``."""
    known, grids = target.lipschitz(), {(each.grid.counts, each.grid.ghosts) for each in cells}
    if known is None:
        raise CertificateError("This bound rests on a Lipschitz constant", "none", "Pass lipschitz=")
    if len(grids) > 1:
        raise CertificateError("All tokens see the same cells", f"{len(grids)} grids", "Rebuild the network")
    constant = known.in_sup_norm(len(cells[0].grid.steps))
    wanted = cells[0].grid.values(lambda points: values_at(target, points))
    k = scores[0].values.shape[1]
    tokens = [
        _bound(each, found, wanted[:, i * k : (i + 1) * k], constant, machine)
        for i, (each, found) in enumerate(zip(scores, cells, strict=True))
    ]
    return {name: max(parts[name] for parts in tokens) for name in tokens[0]}


def _bound(scores: Scores, cells: Cells, wanted: Balls, constant: float, machine: Machine) -> dict[str, float]:
    """The bound for one query token: the lemma, disturbed weights, backward errors, values and sums."""
    grid, (disturbance, position) = cells.grid, _measured(scores, cells, machine)
    near, far = expected_distance(cells.sharpness, [float(step) for step in grid.steps], grid.ghosts > 0)
    excess = ratio_excess(disturbance)
    moved = float((position * Up.of(grid.steps) + Up.of(grid.slip)).most().values)
    folds = 1 + (3.0 ** len(grid.steps) if grid.ghosts else 1.0)
    off = float(Up.of(Balls.exact(scores.values[cells.own]) - wanted).most().values)
    largest = max(float(np.abs(scores.values).max()), float(wanted.magnitude().max()))
    rounding = add_up(
        product_up(excess, constant, add_up(near, far)),
        product_up(add_up(1.0, excess), constant, folds, moved),
        off,
        scores.written,
    )
    others = product_up(_mass_of_copies(scores, cells, disturbance), 2 * largest)
    return {
        "spacing": product_up(constant, near),
        "leakage": add_up(product_up(constant, far), others),
        "rounding": rounding,
    }


def _measured(scores: Scores, cells: Cells, machine: Machine) -> tuple[float, Up]:
    """The disturbance of the scores, and the backward error (D,) in steps."""
    places, c, inputs = cells.grid.places, cells.sharpness, len(cells.grid.steps)
    square = c * np.square(places).sum(axis=1)
    bent = scores.constant[cells.own] + Balls(square, 2.0**-52 * square)
    columns = _columns(scores.slope[cells.own], Balls(bent.mid[:, None], bent.rad[:, None]), scores.lever[cells.own])
    middle = int(np.abs(places).sum(axis=1).argmin())  # place 0
    differences = columns - columns[middle : middle + 1]
    fit = np.linalg.lstsq(places, differences.mid, rcond=None)[0]
    rest = differences - Balls.exact(places) @ Balls.exact(fit)
    size = Up(np.concatenate([scores.box.magnitude(), [1.0], scores.error.values]))
    disturbance = dot(Up.of(rest), size).most() + scores.noise.most()
    check_clear(disturbance, machine)
    linear, constant, lever = fit[:, :inputs], fit[:, inputs], fit[:, inputs + 1 :]
    scale, per_step = Balls.exact(2 * c).inverse(), Balls.exact(cells.grid.steps).inverse()
    tilt = Balls.exact(linear) * scale - Balls.exact(np.eye(inputs)) * per_step
    seen = tilt @ scores.box + Balls.exact(constant) * scale + _origin(cells.grid) * per_step
    position = Up.of(seen) + dot(Up.of(lever), scores.error) * Up.of(scale)
    chosen = np.any(places != 0, axis=0)  # along an axis with one place there is nothing to choose
    return float(disturbance.values), Up(np.where(chosen, position.values, 0.0))


def _columns(*parts: Balls) -> Balls:
    return Balls(np.hstack([part.mid for part in parts]), np.hstack([part.rad for part in parts]))


def _origin(grid: ProductGrid) -> Balls:
    """The centre of place 0, with the roundings of its own computation."""
    return Balls(grid.origin, 2.0**-50 * (np.abs(grid.origin) + np.abs(grid.lower) + grid.steps))


def _mass_of_copies(scores: Scores, cells: Cells, disturbance: float) -> float:
    """Mass on keys that are not the highest of their place, from how far they score below it at least."""
    copies = cells.copies
    if not len(copies):
        return 0.0
    own = cells.own[cells.place[copies]]
    tilt, lever = scores.slope[copies] - scores.slope[own], scores.lever[copies] - scores.lever[own]
    rise = tilt @ scores.box + (scores.constant[copies] - scores.constant[own])
    highest = add_up(
        float(np.nextafter(rise.mid + rise.rad, np.inf).max()),
        float(dot(Up.of(lever), scores.error).most().values),
        2 * disturbance,
    )
    most = int(np.bincount(cells.place).max()) - 1
    with np.errstate(over="ignore"):
        return product_up(float(np.exp(highest)), 1 + 2.0**-50, most)
