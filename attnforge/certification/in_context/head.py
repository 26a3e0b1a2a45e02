r"""How far a network is from the attention head that its constant keys spell out, from the network's numbers.

A linear map turns a token x into $xE + c$; barely sharp heads over 2 d constant keys write beside it; one head attends.

**First layer.** Head h gives key k the score $x \cdot a_k + \dots$, $a = E W_Q K^\top$, and writes $u_k = V_k W_O$. Let
$\beta_h$ be the median of $a_{jj}$ and $-a_{j,j+d}$. Scores are within $\delta_h$ of $\pm\beta_h x_j$, which moves what
is written by at most $(e^{2\delta_h} - 1)\sum_k p_k|u_k|$ (:mod:`attnforge.lemmas.softmax`), $p_k \le e^t/2d$ with
$t = \beta_h\max|x|$. With $v_j = (u_j - u_{j+d})/2$, $e_j = (u_j + u_{j+d})/2$ a head of scores $\pm\beta_h x_j$ writes
$$ \frac{\sum_j \sinh(\beta_h x_j)\,v_j}{\sum_j\cosh(\beta_h x_j)} + \text{a mean of } e_j, \qquad
   \text{of slope } \frac{\beta_h}{d}\sum_j x_j v_j \text{ at } 0 . $$
What bends is bounded for the heads together: they are multiples $\gamma_h$ of the first one's values, up to a rest that
is bounded head by head (:mod:`attnforge.lemmas.small_sharpness`, with $B R$ as the mean of $|x_j v_j|$).

**Second layer.** So queries are $x L W_Q$ with L the sum of all slopes, up to an error; likewise keys and values. What
$L W_Q$ lacks of the target's matrix is added to that error. Errors $\delta_q, \delta_k$ of queries and keys move a
score by at most $\delta_s = \sum (Q\delta_k + K\delta_q + \delta_q\delta_k)$, Q and K bounds of the exact ones, and the
output by at most $\delta_v + (e^{2\delta_s} - 1) V$.

No number is taken for granted: whatever it is, it enters one of these terms.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from attnforge.balls import Balls, Machine, add_up, gamma, machine
from attnforge.errors import CertificateError, RefusalError
from attnforge.lemmas.small_sharpness import aggregation_error, combined_error
from attnforge.network import Attention, Head, Linear, Network, rounded
from attnforge.targets import AttentionHead, Box, Target

Array = npt.NDArray[np.float64]

EXPONENTIAL = {"float64": 8, "float32": 40}  # roundings charged to one: 4 units in the last place, 20 in float32
KEYS = 64  # keys a flash kernel takes at a time, at least; each further block rescales what is summed so far
LARGEST = 700.0  # exponents above are not told apart
SLACK = 1 + 2.0**-30  # of sums of non-negative terms, evaluated in float64


def bound_head(network: Network, target: Target, box: Box, model: Machine) -> dict[str, float]:
    """Named parts of a bound of every output's error, for sequences of up to the target's number of tokens in the box.

    ``projection``: what the numbers lack in exact arithmetic; ``rounding``: what the dtype adds.
    """
    if not isinstance(target, AttentionHead):
        raise CertificateError("An emulated head is certified against a head", target.describe(), "Give its matrices")
    reach = np.maximum(np.abs(box.lower), np.abs(box.upper))[None]
    sizes = [reach @ np.abs(matrix) * SLACK for matrix in (target.query, target.key, target.value)]
    return _parts(network, target, reach[0], reach, sizes, model, target.tokens)


def bound_head_on(network: Network, target: AttentionHead, dtype: str, x: Array) -> float:
    """A bound of the error on tokens x (..., n, d) of the target's domain: smaller, because the scores are known."""
    reach, doubt = np.maximum(np.abs(target.domain.lower), np.abs(target.domain.upper)), gamma(x.shape[-1] + 2)
    sizes = [
        (np.abs(x @ matrix) + doubt * (np.abs(x) @ np.abs(matrix))) * SLACK
        for matrix in (target.query, target.key, target.value)
    ]
    parts = _parts(rounded(network, dtype), target, reach, np.abs(x), sizes, machine(dtype), x.shape[-2])
    found = add_up(*parts.values())
    if not np.isfinite(found):
        raise RefusalError("The bound of this network must be finite", "infinity", "Use a wider dtype")
    return found


def _parts(
    network: Network, target: AttentionHead, reach: Array, size: Array, sizes: list[Array], model: Machine, tokens: int
) -> dict[str, float]:
    """The parts for tokens of absolute values ``size`` (..., n, d), whose exact projections are at most ``sizes``."""
    if model.name not in EXPONENTIAL:
        remedy = "Use float64 or float32"
        raise RefusalError("Small sharpness needs a dtype that keeps small differences", model.name, remedy)
    encode, constant, project, attend = _layers(network, target)
    with np.errstate(over="ignore", invalid="ignore"):  # infinite bounds, which are refused
        written = _written(encode, constant, project, reach, model)
        matrices = (target.query, target.key, target.value)
        told = [_Projection(written, *pair, model) for pair in zip(_read_by(attend), matrices, strict=True)]
        exact = _through([(each, made.exact(size)) for each, made in zip(sizes, told, strict=True)])
        full = [(each, made.run(size)) for each, made in zip(sizes, told, strict=True)]
        _check_range(full, written.held(size), model, tokens)
        values = written.held(size) @ told[2].size
        whole = _through(full, _Sums(model, tokens, values, attend.output))
    return {"projection": exact, "rounding": max(whole - exact, 0.0) * SLACK}


def _layers(network: Network, target: AttentionHead) -> tuple[Array, Array, Attention, Head]:
    """The linear map and its constant, the layer that projects and the head that attends; any others are refused."""
    kinds, d = [type(layer).__name__ for layer in network.layers], target.shape.features
    match network.layers:
        case (Linear(terms=(term,), constant=constant), Attention() as project, Attention(heads=(attend,)) as last):
            encode = np.eye(d) if term.map is None else term.map
        case _:
            raise _other(f"layers {', '.join(kinds)}", "a linear map, heads over constant keys, and one head")
    alike = term.mix is None and encode.ndim == 2 and (constant is None or len(constant) == 1)
    if network.tokens is not None or network.context is not None or not alike:
        raise _other(f"{network.tokens} tokens, second input {network.context}", "any number of tokens, each alike")
    if last.residual or attend.memory_size or attend.query_rows.kind != "all" or not _reads_all(attend):
        raise _other("another last head", "a last head in which all tokens ask all tokens, and nothing else")
    if attend.query.shape[1] != target.shape.width_of_scores:
        raise _other(f"{attend.query.shape[1]}", f"scores of width {target.shape.width_of_scores}")
    for head in project.heads:
        if head.key_rows is not None or head.memory_size != 2 * d or head.query_rows.kind != "all":
            raise _other(f"{head.memory_size} of them", f"{2 * d} constant keys, which all tokens ask")
    level = np.zeros(encode.shape[1]) if constant is None else constant[0]
    return encode, level, project, attend


def _reads_all(head: Head) -> bool:
    return head.key_rows is not None and head.key_rows.kind == "all" and head.key_rows.source == "state"


def _other(got: str, wanted: str) -> CertificateError:
    return CertificateError(f"The emulation of a head is proved of {wanted}", got, "Build it anew")


class _Barely:
    """One head of the first layer, next to one of scores +-beta x_j over d keys and their mirror images."""

    def __init__(self, head: Head, encode: Array, constant: Array, reach: Array, model: Machine) -> None:
        self._read_keys(head, encode, constant, reach, model)
        self._read_values(head, len(reach), model)

    def _read_keys(self, head: Head, encode: Array, constant: Array, reach: Array, model: Machine) -> None:
        """Beta, t and delta, and by how much the run disturbs scores."""
        d, keys, query = len(reach), np.asarray(head.memory_keys), Balls.exact(head.query)
        tilts = Balls.exact(encode) @ query @ Balls.exact(keys.T)
        shift = Balls.exact(constant[None]) @ query @ Balls.exact(keys.T)
        self.beta = float(np.median(np.diagonal(tilts.mid[:, :d]) - np.diagonal(tilts.mid[:, d:]))) / 2
        mirrored = Balls.exact(self.beta * np.hstack([np.eye(d), -np.eye(d)]))
        away = reach @ (tilts - mirrored).magnitude() + shift.magnitude()[0]
        self.bend, self.moved = abs(self.beta) * float(reach.max()) * SLACK, float(away.max()) * SLACK
        asked = (reach @ np.abs(encode) + np.abs(constant)) @ np.abs(head.query) @ np.abs(keys).T
        features, width = head.query.shape
        count = _count(encode) + _count(head.query) + width + 12
        lost = model.underflow * (d + features + width) * (1 + np.abs(head.query).sum()) * (1 + np.abs(keys).sum())
        self.disturbed = (gamma(count, model.roundoff) * float(asked.max()) + float(lost)) * SLACK

    def _read_values(self, head: Head, d: int, model: Machine) -> None:
        """Odd values, what a mean of even ones may be, sizes, and by how much the run's sums are off."""
        values, output, half = np.asarray(head.memory_values), Balls.exact(head.output), Balls.exact(0.5)
        first, second = Balls.exact(values[:d]), Balls.exact(values[d:])
        self.odd, even = ((half * each) @ output for each in (first - second, first + second))
        share, sizes = math.exp(min(self.bend, LARGEST)) / d, even.magnitude()
        self.even = np.minimum(share * sizes.sum(axis=0), sizes.max(axis=0))
        self.size = np.abs(values) @ np.abs(head.output) * SLACK  # (2 d, m)
        blocks = math.ceil(2 * d / KEYS)
        self.summed = gamma(4 * d + 2 * (EXPONENTIAL[model.name] + 2) * blocks + 4, model.accumulation)
        self.lost = model.underflow * (2 * d + len(head.output)) * (1 + np.abs(head.output).sum(axis=0))

    def mass(self, moved: float = 0.0) -> Array:
        """The sum of p_k |u_k| (m,), where scores may move by so much."""
        weight = math.exp(min(self.bend + 2 * moved, LARGEST)) / len(self.size)
        return np.asarray(np.minimum(weight * self.size.sum(axis=0), self.size.max(axis=0)) * SLACK)

    def apart(self) -> Array:
        """How far its output (m,) is from that of the head of odd values and scores +-beta x_j."""
        off = math.expm1(min(2 * self.moved, LARGEST)) * self.mass()
        return np.asarray(np.minimum(off, 2 * self.size.max(axis=0)) * SLACK + self.even)

    def rounding(self) -> Array:
        """What its run adds to its output (m,); no mean is larger than what it averages."""
        off = math.expm1(min(2 * self.disturbed, LARGEST))
        found = (off + self.summed * (1 + off)) * self.mass(self.moved)
        return np.asarray(np.minimum(found, (2 + 2 * self.summed) * self.size.max(axis=0)) * SLACK + self.lost)


@dataclass(frozen=True, eq=False)
class _Written:
    """What the first layer makes of x: x @ linear, up to |x| @ slope + level in exact arithmetic, and as run."""

    linear: Balls
    slope: Array
    level: Array
    run: Array

    def held(self, size: Array) -> Array:
        """Bounds of the run's features (..., n, m)."""
        return np.asarray(size @ (self.linear.magnitude() + self.slope) * SLACK + self.level + self.run)


def _written(encode: Array, constant: Array, layer: Attention, reach: Array, model: Machine) -> _Written:
    heads = [_Barely(head, encode, constant, reach, model) for head in layer.heads]
    d, most, first = len(reach), float(reach.max()), heads[0]
    share = Balls.between(np.nextafter(1 / d, 0.0), np.nextafter(1 / d, 1.0))
    linear, slope = Balls.exact(np.zeros_like(encode)), np.zeros_like(encode)
    level, kept = np.sum([head.apart() for head in heads], axis=0), np.zeros_like(constant)
    if layer.residual:
        linear, kept = Balls.exact(encode), reach @ np.abs(encode) * SLACK + np.abs(constant)
        level = level + np.abs(constant)
    together = []
    for head in heads:
        ratio = _ratio(head.odd.mid, first.odd.mid)
        rest = (head.odd - Balls.exact(ratio) * first.odd).magnitude()
        together.append((head.beta, ratio * head.beta))
        slope += abs(head.beta) * aggregation_error(head.bend) / d * rest
        linear = linear + Balls.exact(head.beta) * head.odd * share
    slope += combined_error(together, most) / most / d * first.odd.magnitude() if most else 0.0
    mass = np.sum([head.mass(head.moved) for head in heads], axis=0)
    run = np.sum([head.rounding() for head in heads], axis=0)
    added = gamma(sum(_count(head.output) for head in layer.heads) + 3, model.roundoff) * (mass + run + kept)
    run = run + added + gamma(_count(encode) + 3, model.roundoff) * kept + d * model.underflow
    return _Written(linear, slope * SLACK, level * SLACK, run * SLACK)


def _ratio(values: Array, first: Array) -> float:
    """The multiple of the first values that is nearest to these: any number would do."""
    largest = np.abs(first).max()
    if not largest > 0:
        return 0.0
    unit = first / largest
    return float((values * unit).sum() / (unit * unit).sum() / largest)


class _Projection:
    """Queries, keys or values of the last head, next to x @ wanted: errors (..., n, c), exact and as run."""

    def __init__(self, written: _Written, read: tuple[Balls, Array, int], wanted: Array, model: Machine) -> None:
        self.written, self.model, (matrix, self.size, self.count) = written, model, read
        lacking = (written.linear @ matrix - Balls.exact(wanted)).magnitude()
        self.slope, self.level = (lacking + written.slope @ self.size) * SLACK, written.level @ self.size * SLACK

    def exact(self, size: Array) -> Array:
        return np.asarray((size @ self.slope + self.level) * SLACK)

    def run(self, size: Array) -> Array:
        model, held = self.model, self.written.held(size)
        rounded = self.written.run @ self.size + gamma(self.count + 2, model.roundoff) * (held @ self.size)
        return np.asarray((self.exact(size) + rounded + held.shape[-1] * model.underflow) * SLACK)


def _read_by(head: Head) -> list[tuple[Balls, Array, int]]:
    """What makes queries, keys and written values of features: matrices, their sizes, and roundings of a product."""
    assert head.key is not None
    assert head.value is not None
    found = [(Balls.exact(each), np.abs(each), _count(each)) for each in (head.query, head.key)]
    written = Balls.exact(head.value) @ Balls.exact(head.output)
    sizes = np.abs(head.value) @ np.abs(head.output) * SLACK
    return [*found, (written, sizes, _count(head.value) + _count(head.output))]


@dataclass(frozen=True, eq=False)
class _Sums:
    """How the last head runs: sums over so many tokens, of values of these sizes (..., n, v), then its output."""

    model: Machine
    tokens: int
    values: Array
    output: Array

    @property
    def blocks(self) -> int:
        return math.ceil(self.tokens / KEYS)

    def of_scores(self, sizes: Array, width: int) -> Array:
        """By how much scores of these sizes are off, exponentials included."""
        model, each = self.model, EXPONENTIAL[self.model.name] + 1
        exponentials = gamma(each * self.blocks, model.accumulation) + width * model.underflow
        return np.asarray(gamma(width + 12, model.accumulation) * sizes + exponentials)

    def of_values(self) -> Array:
        """By how much weighted sums of the values are off, and what small weights and products lose."""
        lost = self.tokens * (1 + self.values.max()) + len(self.output)
        rounded = gamma(2 * self.tokens + 2 * self.blocks + 8, self.model.accumulation) * self.values
        return np.asarray(rounded + self.model.underflow * lost * (1 + np.abs(self.output).sum()))


def _through(given: list[tuple[Array, Array]], run: _Sums | None = None) -> float:
    """The output's error from sizes and errors (..., n, c) of queries, keys and values; in exact arithmetic, or run."""
    (q, dq), (k, dk), (v, dv) = given
    k, dk = np.swapaxes(k, -1, -2), np.swapaxes(dk, -1, -2)
    moved = q @ dk + dq @ k + dq @ dk
    if run is not None:
        moved, dv = moved + run.of_scores((q + dq) @ (k + dk), q.shape[-1]), dv + run.of_values()
    share = np.expm1(np.minimum(2 * SLACK * moved.max(axis=-1, keepdims=True), 1.2))
    share = np.where(share > 2.0, 2.0, share)  # two distributions are never further apart
    off = dv.max(axis=-2, keepdims=True) + share * (v + dv).max(axis=-2, keepdims=True)
    return float(off.max()) * SLACK


def _check_range(given: list[tuple[Array, Array]], held: Array, model: Machine, tokens: int) -> None:
    """Raise where a feature, a score or a sum of values may overflow."""
    queries, keys, values = (float((size + error).max()) for size, error in given)
    largest = max(float(held.max()), given[0][0].shape[-1] * queries * keys, tokens * values, queries, keys)
    if not largest < model.largest / 2:
        got = f"one of about {largest:.3g}"
        raise RefusalError(f"All numbers of a run must fit {model.name}", got, "Scale the matrices down")


def _count(matrix: Array) -> int:
    """Terms of the longest sum of a product with the matrix: adding zero is exact."""
    return int(np.count_nonzero(matrix, axis=0).max())
