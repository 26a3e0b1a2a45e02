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

from dataclasses import dataclass
from functools import reduce
from operator import add

import numpy as np
import numpy.typing as npt

from attnforge.certification.in_context.certify import ROOM
from attnforge.errors import CertificateError, RefusalError
from attnforge.kernel.softmax import SoftmaxArithmetic
from attnforge.lemmas.small_sharpness import aggregation_error, combined_error
from attnforge.network import Attention, Head, Linear, Network, rounded
from attnforge.outward import Balls, Machine, Up, add_up, gamma, machine, up
from attnforge.targets import AttentionHead, Box, Target

Array = npt.NDArray[np.float64]


def bound_head(network: Network, target: Target, box: Box, model: Machine) -> dict[str, float]:
    """Named parts of a bound of every output's error, for sequences of up to the target's number of tokens in the box.

    ``projection``: what the numbers lack in exact arithmetic; ``rounding``: what the dtype adds.
    """
    if not isinstance(target, AttentionHead):
        raise CertificateError("An emulated head is certified against a head", target.describe(), "Give its matrices")
    reach = Up.between(box.lower, box.upper)[None]
    return _parts(network, target, reach, [reach @ Up.of(matrix) for matrix in _matrices(target)], model, target.tokens)


def bound_head_on(network: Network, target: AttentionHead, dtype: str, x: Array) -> float:
    """A bound of the error on tokens x (..., n, d) of the target's domain: smaller, because the scores are known."""
    sizes = [Up.of(Balls.exact(x) @ Balls.exact(matrix)) for matrix in _matrices(target)]
    parts = _parts(rounded(network, dtype), target, Up.of(x), sizes, machine(dtype), x.shape[-2])
    found = add_up(*parts.values())
    if not np.isfinite(found):
        raise RefusalError("The bound of this network must be finite", "infinity", "Use a wider dtype")
    return found


def _matrices(target: AttentionHead) -> tuple[Array, Array, Array]:
    return target.query, target.key, target.value


def _parts(
    network: Network, target: AttentionHead, size: Up, sizes: list[Up], model: Machine, tokens: int
) -> dict[str, float]:
    """The parts for tokens of absolute values ``size`` (..., n, d), whose exact projections are at most ``sizes``."""
    if SoftmaxArithmetic(model, tokens).is_half:
        remedy = "Use float64 or float32"
        raise RefusalError("Small sharpness needs a dtype that keeps small differences", model.name, remedy)
    encode, constant, project, attend = _layers(network, target)
    reach = Up.between(target.domain.lower, target.domain.upper)
    with np.errstate(over="ignore", invalid="ignore"):  # infinite bounds, which are refused
        written = _written(encode, constant, project, reach, model)
        pairs = zip(_read_by(attend), _matrices(target), strict=True)
        made = [_Projection(written, *pair, model) for pair in pairs]
        exact = _through([(each, one.exact(size)) for each, one in zip(sizes, made, strict=True)])
        full = [(each, one.run(size)) for each, one in zip(sizes, made, strict=True)]
        _check_range(full, written.held(size), model, tokens)
        values = written.held(size) @ made[2].size
        whole = _through(full, _Sums(SoftmaxArithmetic(model, tokens), values, attend.output))
    rounding = max(up(float(whole) - float(exact)), 0.0)
    return {name: part * ROOM for name, part in (("projection", float(exact)), ("rounding", rounding))}


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

    def __init__(self, head: Head, encode: Array, constant: Array, reach: Up, model: Machine) -> None:
        self._read_keys(head, encode, constant, reach, model)
        self._read_values(head, len(encode), model)

    def _read_keys(self, head: Head, encode: Array, constant: Array, reach: Up, model: Machine) -> None:
        """Beta, t and delta, and by how much the run disturbs scores: products are summed up three times."""
        d, keys, query = len(encode), np.asarray(head.memory_keys), Balls.exact(head.query)
        tilts = Balls.exact(encode) @ query @ Balls.exact(keys.T)
        shift = Balls.exact(constant[None]) @ query @ Balls.exact(keys.T)
        self.beta = float(np.median(np.diagonal(tilts.mid[:, :d]) - np.diagonal(tilts.mid[:, d:]))) / 2
        mirrored = Balls.exact(self.beta * np.hstack([np.eye(d), -np.eye(d)]))
        self.moved = (reach[None] @ Up.of(tilts - mirrored) + Up.of(shift)).most()
        self.bend = reach.most() * self.beta
        asked = (reach[None] @ Up.of(encode) + constant) @ Up.of(head.query) @ Up.of(keys).T
        features, width = head.query.shape
        count = _count(encode) + _count(head.query) + width + 12
        passes = (1.0 + Up.of(head.query).sum().sum()) * (1.0 + Up.of(keys).sum().sum())
        lost = passes * (model.underflow * (d + features + width))
        self.disturbed = asked.most() * gamma(count, model.roundoff) + lost

    def _read_values(self, head: Head, d: int, model: Machine) -> None:
        """Odd values, what a mean of even ones may be, sizes, and by how much the run's sums are off."""
        values, output, half = np.asarray(head.memory_values), Balls.exact(head.output), Balls.exact(0.5)
        first, second = Balls.exact(values[:d]), Balls.exact(values[d:])
        self.odd, even = ((half * each) @ output for each in (first - second, first + second))
        self.even = _averaged(self.bend, Up.of(even))
        self.size = Up.of(values) @ Up.of(head.output)  # (2 d, m)
        run = SoftmaxArithmetic(model, 2 * d)
        self.summed = run.mean(after=6) + 2 * _log_weights(run)
        self.lost = (1.0 + Up.of(head.output).sum(0)) * (model.underflow * (2 * d + len(head.output)))

    def mass(self, moved: Up | None = None) -> Up:
        """The sum of p_k |u_k| (m,), where scores may move by so much."""
        return _averaged(self.bend if moved is None else self.bend + 2 * moved, self.size)

    def apart(self) -> Up:
        """How far its output (m,) is from that of the head of odd values and scores +-beta x_j."""
        return ((2 * self.moved).expm1() * self.mass()).least(2 * self.size.most(0)) + self.even

    def rounding(self) -> Up:
        """What its run adds to its output (m,); no mean is larger than what it averages."""
        off = (2 * self.disturbed).expm1()
        found: Up = (off + self.summed * (1.0 + off)) * self.mass(self.moved)
        return found.least((2.0 + 2 * self.summed) * self.size.most(0)) + self.lost


def _averaged(bend: Up, sizes: Up) -> Up:
    """The mean (m,) of sizes (keys, m) whose log-weights are at most ``bend`` from zero: never above the largest."""
    return (bend.exp() * sizes.mean(0)).least(sizes.most(0))


@dataclass(frozen=True, eq=False)
class _Written:
    """What the first layer makes of x: x @ linear, up to |x| @ slope + level in exact arithmetic, and as run."""

    linear: Balls
    slope: Up
    level: Up
    run: Up

    def held(self, size: Up) -> Up:
        """Bounds of the run's features (..., n, m)."""
        return size @ (Up.of(self.linear) + self.slope) + self.level + self.run


def _written(encode: Array, constant: Array, layer: Attention, reach: Up, model: Machine) -> _Written:
    heads = [_Barely(head, encode, constant, reach, model) for head in layer.heads]
    d, most, first, share = len(encode), float(reach.most()), heads[0], Balls.exact(len(encode)).inverse()
    linear, slope = Balls.exact(np.zeros_like(encode)), Up.zeros(*encode.shape)
    level, kept = reduce(add, [head.apart() for head in heads]), Up.zeros(len(constant))
    if layer.residual:
        linear, kept = Balls.exact(encode), (reach[None] @ Up.of(encode))[0] + constant
        level = level + constant
    together = []
    for head in heads:
        ratio = _ratio(head.odd.mid, first.odd.mid)
        rest = Up.of(head.odd - Balls.exact(ratio) * first.odd)
        together.append((head.beta, ratio * head.beta))
        slope = slope + rest * head.beta * aggregation_error(float(head.bend)) / d
        linear = linear + Balls.exact(head.beta) * head.odd * share
    if most:
        slope = slope + Up.of(first.odd) * combined_error(together, most) / most / d
    mass, run = (reduce(add, each) for each in ([h.mass(h.moved) for h in heads], [h.rounding() for h in heads]))
    added = (mass + run + kept) * gamma(sum(_count(head.output) for head in layer.heads) + 3, model.roundoff)
    run = run + added + kept * gamma(_count(encode) + 3, model.roundoff) + d * model.underflow
    return _Written(linear, slope, level, run)


def _ratio(values: Array, first: Array) -> float:
    """The multiple of the first values that is nearest to these: any number would do."""
    largest = np.abs(first).max()
    if not largest > 0:
        return 0.0
    unit = first / largest
    return float((values * unit).sum() / (unit * unit).sum() / largest)


class _Projection:
    """Queries, keys or values of the last head, next to x @ wanted: errors (..., n, c), exact and as run."""

    def __init__(self, written: _Written, read: tuple[Balls, Up, int], wanted: Array, model: Machine) -> None:
        self.written, self.model, (matrix, self.size, self.count) = written, model, read
        self.slope = Up.of(written.linear @ matrix - Balls.exact(wanted)) + written.slope @ self.size
        self.level = (written.level[None] @ self.size)[0]

    def exact(self, size: Up) -> Up:
        return size @ self.slope + self.level

    def run(self, size: Up) -> Up:
        model, held = self.model, self.written.held(size)
        made = (self.written.run[None] @ self.size)[0] + held @ self.size * gamma(self.count + 2, model.roundoff)
        return self.exact(size) + made + held.shape[-1] * model.underflow


def _read_by(head: Head) -> list[tuple[Balls, Up, int]]:
    """What makes queries, keys and written values of features: matrices, their sizes, and roundings of a product."""
    assert head.key is not None
    assert head.value is not None
    found = [(Balls.exact(each), Up.of(each), _count(each)) for each in (head.query, head.key)]
    written, sizes = Balls.exact(head.value) @ Balls.exact(head.output), Up.of(head.value) @ Up.of(head.output)
    return [*found, (written, sizes, _count(head.value) + _count(head.output))]


@dataclass(frozen=True, eq=False)
class _Sums:
    """How the last head runs: its softmax, sums of values of these sizes (..., n, v), then its output."""

    softmax: SoftmaxArithmetic
    values: Up
    output: Array

    def of_scores(self, sizes: Up, width: int) -> Up:
        """By how much scores of these sizes (..., n, n) are off, exponentials included."""
        model = self.softmax
        made = sizes * gamma(width + 12, model.unit)  # nine for the subtraction of the largest, with powers of two
        return made + _log_weights(model) + width * model.machine.underflow

    def of_values(self) -> Up:
        """By how much weighted sums of the values are off, and what small weights and products lose."""
        lost = self.softmax.lost(self.values.most()) + len(self.output) * self.softmax.machine.underflow
        return self.values * self.softmax.mean(_count(self.output) + 6) + lost * (1.0 + Up.of(self.output).sum().sum())


def _log_weights(model: SoftmaxArithmetic) -> Up:
    """What exponentials do to log-weights; the products of rescaling are charged to them, too, as checkers do."""
    return model.exponentials() + gamma(model.blocks, model.unit)


def _through(given: list[tuple[Up, Up]], run: _Sums | None = None) -> Up:
    """The output's error from sizes and errors (..., n, c) of queries, keys and values; in exact arithmetic, or run."""
    (q, dq), (k, dk), (v, dv) = given
    moved = q @ dk.T + dq @ k.T + dq @ dk.T
    if run is not None:
        moved, dv = moved + run.of_scores((q + dq) @ (k + dk).T, q.shape[-1]), dv + run.of_values()
    share = (2 * moved.most(-1)[..., None]).expm1().least(2.0)  # two distributions are never further apart
    off = dv.most(-2)[..., None, :] + share * (v + dv).most(-2)[..., None, :]
    return off.most()


def _check_range(given: list[tuple[Up, Up]], held: Up, model: Machine, tokens: int) -> None:
    """Raise where a feature, a score or a sum of values may overflow."""
    queries, keys, values = (float((size + error).most()) for size, error in given)
    largest = max(float(held.most()), given[0][0].shape[-1] * queries * keys, tokens * values, queries, keys)
    if not largest < model.largest / 2:
        got = f"one of about {largest:.3g}"
        raise RefusalError(f"All numbers of a run must fit {model.name}", got, "Scale the matrices down")


def _count(matrix: Array) -> int:
    """Terms of the longest sum of a product with the matrix: adding zero is exact."""
    return int(np.count_nonzero(matrix, axis=0).max())
