"""Theorem bounds re-evaluated for heads with rows of anchors: one head, or several that share a row with sentinels."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from attnforge.certification.row_of_anchors import Form, Keys, Row, read_keys, read_row
from attnforge.certification.slab import slab
from attnforge.certification.tokens import Tokens, input_tokens, linear, one_layer
from attnforge.errors import CertificateError, RefusalError
from attnforge.kernel.softmax import SoftmaxArithmetic
from attnforge.lemmas.border import border
from attnforge.lemmas.disturbance import Disturbance, heads_disturbance
from attnforge.lemmas.leakage import row_error
from attnforge.network import Head, Linear, Network
from attnforge.outward import Balls, Machine, add_up, product_up
from attnforge.targets import Box, Target, TruncatedForm

Array = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Problem:
    """A single layer of attention on encoded tokens, the target it is compared with, and the dtype's model."""

    encode: tuple[Linear, ...]
    heads: tuple[Head, ...]
    form: TruncatedForm
    lower: Array
    upper: Array
    output: int
    machine: Machine
    exact_inputs: bool = False

    def asking(self, tokens: Tokens) -> Tokens:
        """The rows whose outputs are read: the first ones (padding asks too, but nobody reads it).

        Refused unless row i is made of token i, with which the target is compared there.
        """
        read = np.arange(len(self.lower))
        if not np.array_equal(tokens.source[: len(read)], read):
            got = f"rows of tokens {tokens.source[: len(read)].tolist()}"
            raise CertificateError("The first rows are those of the tokens, in order", got[:80], "Rebuild the network")
        return tokens.rows(slice(len(read)))

    def tokens(self, lower: Array, upper: Array) -> Tokens:
        """The rows the heads see, for inputs in the given boxes."""
        rows = input_tokens(lower, upper, self.machine, self.exact_inputs)
        for layer in self.encode:
            rows = linear(layer, rows, self.machine)
        return rows

    def forms(self, tokens: Tokens) -> tuple[Balls, Balls]:
        """The target's weights (R, d) and offsets (R,) on the rows."""
        count = len(self.form.offsets.mid)
        pick = tokens.source if count > 1 else np.zeros(len(tokens.source), dtype=np.int64)
        return self.form.weights[pick], self.form.offsets[pick]

    def tilt(self, token: Tokens, query: Array) -> Array:
        """How fast (r,) the query of one row changes with the target's y."""
        w = self.forms(token)[0].mid[0]
        return np.asarray(w @ token.slope.mid[0] @ query / max(float(w @ w), np.finfo(np.float64).tiny))

    @property
    def size(self) -> float:
        """The largest number that the form is summed from, or is truncated at: what a rounding is relative to."""
        with np.errstate(over="ignore"):
            reach = np.abs(self.form.weights.mid) @ np.maximum(np.abs(self.lower), np.abs(self.upper)).T
            summed = float((reach.max(axis=1) + np.abs(self.form.offsets.mid)).max())
        return max(summed, *map(abs, self.interval))

    @property
    def interval(self) -> tuple[float, float]:
        """The interval [a, b] of the target."""
        return float(self.form.lower.mid), float(self.form.upper.mid)


def bound_anchored(problem: Problem) -> dict[str, float]:
    """Named parts for the heads of one layer: ``spacing``, ``leakage``, ``rounding``."""
    tokens = problem.tokens(problem.lower, problem.upper)
    keys = [read_keys(head, tokens, problem.machine, problem.output) for head in problem.heads]
    everywhere = problem.asking(tokens)
    grid = read_grid(problem, keys, everywhere)
    whole = _rows(problem, grid, keys, everywhere, *_range(problem, everywhere))
    margin = grid.step * max(row.position(everywhere) for row in whole)
    low, high = problem.interval[0] - margin, problem.interval[1] + margin
    boxes = slab(problem.lower, problem.upper, *problem.forms(everywhere), low, high)
    near = problem.asking(problem.tokens(*boxes))
    rows = _rows(problem, grid, keys, near, low, high)
    _separates(rows, problem.machine, grid)
    if len(rows) == 1:
        return _one_head(problem, grid, keys, rows[0], near)
    return _several(problem, grid, keys, rows, near, max(row.apart(whole[0], everywhere) for row in whole))


@dataclass(frozen=True, eq=False)
class Grid:
    """The row of anchors the heads share: first position, step, places of each head's keys, own keys."""

    first: float
    step: float
    count: int
    places: tuple[npt.NDArray[np.int64], ...]
    own: tuple[npt.NDArray[np.bool_], ...]
    open_grid: bool


def read_grid(problem: Problem, keys: list[Keys], tokens: Tokens) -> Grid:
    """The common row, from the scores, or where these do not tell (in few bits, say) as the heads claim.

    Where it stands is a guess, every departure from which is charged.
    """
    pairs = list(zip(problem.heads, keys, strict=True))
    try:
        return _grid(problem, [_positions(head, found, problem, tokens.rows(slice(1))) for head, found in pairs])
    except CertificateError:
        claimed = [head.claims.positions for head in problem.heads if head.claims is not None]
        if [each.shape for each in claimed] != [found.values.shape for found in keys]:
            raise
        return _grid(problem, claimed)


def _grid(problem: Problem, positions: list[Array]) -> Grid:
    """Anchors divide the target's interval evenly, one on either end, or none on the upper; keys beyond are ghosts."""
    steps = np.concatenate([np.diff(each) for each in positions])
    (a, b), step = problem.interval, float(np.median(steps)) if len(steps) else math.nan
    if not (np.isfinite(steps).all() and step > 0 and (b - a) / step < len(steps) + 1.5):
        raise CertificateError("Keys of a row stand in order over the target's interval", f"a step of {step:.3g}")
    last = max(float(each[-1]) for each in positions)
    open_grid = bool(last < b - step / 2)
    count = round((b - a) / step) + (0 if open_grid else 1)
    if count < 2:
        raise CertificateError("Anchors stand in increasing order, at least two", f"{count} anchors")
    step = (b - a) / (count if open_grid else count - 1)
    places = tuple(np.round((each - a) / step).astype(np.int64) for each in positions)
    if any(np.any(np.diff(place) != 1) for place in places):
        raise CertificateError("The keys of a head stand on consecutive places of the row", "a gap or a repetition")
    return Grid(a, step, count, places, _owned(places, count), open_grid)


def _positions(head: Head, keys: Keys, problem: Problem, token: Tokens) -> Array:
    r"""Where the keys of one head stand on y: scores $\beta(2 y L_k - L_k^2)$, up to what all keys share.

    Of the slopes $\sigma_k$ and the values $s_k$ at y = 0 follow the ties $L_k + L_0 = -2(s_k - s_0)/(\sigma_k -
    \sigma_0)$; of two keys, that are told apart only by their step, what they claim, or the values.
    """
    stored = keys.values.mid
    if len(stored) < 3:
        claimed = head.claims.positions if head.claims is not None else stored
        return np.asarray(claimed if claimed.shape == stored.shape else stored)
    slope = keys.keys.mid @ problem.tilt(token, head.query)
    (weights, offsets), middle = problem.forms(token), token.box.mid[0]
    w = weights.mid[0]
    y = float(w @ middle + offsets.mid[0])
    foot = middle - w * y / max(float(w @ w), np.finfo(np.float64).tiny)  # a point where y = 0
    level = keys.keys.mid @ (head.query.T @ (foot @ token.slope.mid[0] + token.constant.mid[0]))
    with np.errstate(divide="ignore", invalid="ignore"):
        ties = -2 * (level[1:] - level[0]) / (slope[1:] - slope[0])
        step = (ties[-1] - ties[0]) / (len(stored) - 2)
        first = (ties[0] - step) / 2
        return np.asarray(np.concatenate([[first], first + step * (slope[1:] - slope[0]) / (slope[1] - slope[0])]))


def _owned(places: tuple[npt.NDArray[np.int64], ...], count: int) -> tuple[npt.NDArray[np.bool_], ...]:
    """The keys that are a head's own: its share of the anchors, and at either end all beyond; others are sentinels."""
    heads = len(places)
    each = count // heads
    starts = [-np.inf, *(q * each for q in range(1, heads)), np.inf]
    return tuple((place >= low) & (place < high) for place, low, high in zip(places, starts, starts[1:], strict=False))


def _rows(problem: Problem, grid: Grid, keys: list[Keys], tokens: Tokens, low: float, high: float) -> list[Row]:
    """Every head against the row, for y in [low, high] (several heads: y between the head's own keys)."""
    weights, offsets = problem.forms(tokens)
    rows: list[Row] = []
    for head, found, places in zip(problem.heads, keys, grid.places, strict=True):
        if len(found.values.mid) != len(places):
            raise CertificateError("A head has as many keys as it claims", f"{len(found.values.mid)}, {len(places)}")
        start, end = low, high
        if len(problem.heads) > 1:
            start, end = grid.first + grid.step * (places[0] - 1), grid.first + grid.step * (places[-1] + 1)
        middle = int(places[len(places) // 2 if len(places) > 2 else 0])
        reference = Balls.exact(grid.first) + Balls.exact(grid.step) * Balls.exact(float(middle))
        form = Form(weights, offsets, float(start), float(end))
        c = rows[0].c if rows else None
        rows.append(read_row(head, found, places, tokens, form, grid.step, reference, c, problem.machine))
    return rows


def _range(problem: Problem, tokens: Tokens) -> tuple[float, float]:
    """All values of y on the domain."""
    weights, offsets = problem.forms(tokens)
    reach = (weights.magnitude() * tokens.box.magnitude()).sum(axis=1) + offsets.magnitude()
    return -float(reach.max()), float(reach.max())


def _separates(rows: list[Row], machine: Machine, grid: Grid) -> None:
    worst = max(rows, key=lambda row: row.scores)
    growth = max(row.growth for row in rows)
    if 2 * worst.scores >= worst.c or 2 * growth > worst.c:
        raise RefusalError(
            f"{machine.name} must separate neighbouring anchors: their scores differ by {worst.c:.3g} at an anchor",
            f"{grid.count} anchors whose scores may be off by {worst.scores:.3g}",
            "Use fewer anchors, a higher precision, or the gate",
        )


def _one_head(problem: Problem, grid: Grid, keys: list[Keys], row: Row, tokens: Tokens) -> dict[str, float]:
    if not grid.own[0].all():
        raise CertificateError("A head alone has no neighbours, so none of its keys are sentinels", "sentinels")
    exact = row_error(row.c, grid.step, grid.count, open_grid=grid.open_grid)
    run = row_error(row.c, grid.step, grid.count, open_grid=grid.open_grid, disturbance=row.scores)
    disturbed = add_up(*run.values(), -exact["spacing"], -exact["leakage"])
    moved = product_up(grid.step, row.position(tokens))
    return {**exact, "rounding": add_up(disturbed, moved, *_values(problem, grid, keys, 1.0))}


def _several(
    problem: Problem, grid: Grid, keys: list[Keys], rows: list[Row], tokens: Tokens, furthest: float
) -> dict[str, float]:
    """The first head's idea of y moves all heads alike; only how far the others are from it disturbs the borders."""
    own, sentinels = _blocks(grid)
    c, largest = rows[0].c, max(abs(value) for value in problem.interval)
    exact = row_error(c, grid.step, grid.count)
    twice = border(c, sentinels, own)
    exact["leakage"] = add_up(exact["leakage"], product_up(largest, twice))
    apart = max(row.apart(rows[0], tokens) for row in rows)
    if not apart < 0.5:
        got = f"positions up to {apart:.2g} steps apart among {len(rows)} heads"
        raise RefusalError(f"In {problem.machine.name} the heads must agree on y", got, "Use fewer heads or anchors")
    disturbance = Disturbance(max(row.scores for row in rows), max(row.growth for row in rows), apart)
    disturbed = heads_disturbance(c, sentinels, own, disturbance, furthest, largest, grid.step)
    if not disturbed < (len(rows) + 1) * largest:
        got = f"rounding of scores by {disturbance.scores:.2g}, of positions by {apart:.2g} steps"
        remedy = "Use fewer heads or anchors, or a higher precision"
        raise RefusalError(f"{problem.machine.name} must keep the heads' borders together", got, remedy)
    moved = product_up(grid.step, rows[0].position(tokens))
    share = add_up(1.0, twice, disturbed / max(largest, grid.step))
    return {**exact, "rounding": add_up(moved, disturbed, *_values(problem, grid, keys, share))}


def _blocks(grid: Grid) -> tuple[int, int]:
    """Own anchors and sentinels a side, after checking that the blocks tile the row and overlap alike."""
    first = grid.places[0]
    count, heads = grid.count, len(grid.places)
    own, left = count // heads, -int(first[0])
    for q, (places, mine) in enumerate(zip(grid.places, grid.own, strict=True)):
        start = q * own
        expected = np.arange(start - left, start + own + left)
        inside = (places >= start) & (places < start + own)
        beyond = ((places < 0) & (q == 0)) | ((places >= count) & (q == heads - 1))
        if not (np.array_equal(places, expected) and np.array_equal(mine, inside | beyond)):
            raise CertificateError("Heads own consecutive blocks, sentinels on their neighbours' anchors", f"head {q}")
    if left < 1 or own * heads != count:
        raise CertificateError(
            "Every head has the same number of anchors, and sentinels", f"{count} over {heads} heads"
        )
    return own, left


def _values(problem: Problem, grid: Grid, keys: list[Keys], share: float) -> list[float]:
    """Errors of the values: positions written, their rounding, the weighted sum, the sum over heads."""
    machine, (a, b) = problem.machine, problem.interval
    written, largest, count = 0.0, 0.0, 0
    top = grid.count - 1
    for found, places, own in zip(keys, grid.places, grid.own, strict=True):
        ideal = Balls.exact(grid.first) + Balls.exact(grid.step) * Balls.exact(
            np.clip(places, 0, top).astype(np.float64)
        )
        ideal = ideal * Balls.exact(own.astype(np.float64))
        written = max(written, float((found.values - ideal).magnitude().max()) + found.value_error)
        largest = max(largest, float(found.values.magnitude().max()))
        count = max(count, len(places))
    relative = float(SoftmaxArithmetic(machine, count).mean(after=len(keys) + 1))
    lost = product_up(len(keys) * count, machine.underflow, largest + 1.0)
    ends = [abs(grid.first - a), 0.0 if grid.open_grid else abs(grid.first + grid.step * top - b)]
    ends += [float(problem.form.lower.rad), float(problem.form.upper.rad), 4 * 2.0**-53 * max(abs(a), abs(b))]
    if max(ends[:2]) > grid.step / 4 or (grid.open_grid and b - grid.first - grid.step * (top + 1) > grid.step * 1e-9):
        raise CertificateError("The row of anchors spans the target's interval", f"[{a}, {b}]", "Rebuild the network")
    if not math.isfinite(relative):
        raise RefusalError(f"{machine.name} can add up so many terms", f"{count} keys", "Use a higher precision")
    return [product_up(share, add_up(written, product_up(relative, largest))), lost, *ends]


def problem_of(network: Network, target: Target, domain: Box, model: Machine) -> Problem:
    """Split the network into encoding, one layer of attention and a plain read-out of its first tokens."""
    encode, attention = one_layer(network)
    form, tokens = target.truncated_form(), network.tokens or 1
    for head in attention.heads:
        _check_asking(head, network.tokens)
    box = domain.fixed((tokens, network.features))
    outputs = getattr(target, "outputs", None)
    output = getattr(target, "output", 0) if outputs is not None else 0
    width = attention.heads[0].output.shape[1]
    if width != (outputs or 1) or form.weights.shape[1] != network.features or len(form.offsets.mid) not in (1, tokens):
        got = f"{network.features} features, {tokens} tokens, {width} outputs"
        raise CertificateError("Network and target must have the same shape", got, "Certify it against its own target")
    return Problem(encode, attention.heads, form, box.lower, box.upper, output, model)


def _check_asking(head: Head, tokens: int | None) -> None:
    """Raise unless every token that is read asks; one of any number of tokens reads none but itself."""
    asked, keys = head.query_rows.indices, head.key_rows
    if asked is not None and (tokens is None or not np.array_equal(asked, np.arange(tokens))):
        raise CertificateError(
            "Every token asks the head, in order", f"tokens {asked.tolist()}"[:80], "Certify it against its own target"
        )
    if tokens is None and keys is not None and keys.kind != "own":
        raise CertificateError(
            "One of any number of tokens reads none but itself",
            f"{keys.kind} tokens",
            "Certify it against its own target",
        )
