r"""Is the bound of a network that emulates an attention head true, for every sequence of its box?

Of a network $x \mapsto xE + c$, then heads over d constant keys and d mirror images beside it, then one head, the
matrices P that make queries, keys and values are folded into what the first heads write: key k of head h adds
$p_k u_k$, $u = V W_O P$. With $a = E W_Q K^\top$ and $\beta$ a middle one of its $a_{jj}$, scores are within $\delta$
of $\pm\beta x_j$, and $p_k \le e^{t + 2\delta}/2d$, $t = |\beta| R$. So each column of queries, keys and values is
$x \cdot \ell$ with $\ell = EP + \sum_h \frac{\beta_h}{2d}(u_j - u_{j+d})$ up to

- $(e^{2\delta} - 1)\sum_k p_k|u_k|$, and the mean of $|u_j + u_{j+d}|/2$;
- what bends (:mod:`.mirrored`, with the mean of $|x_j w_j|$ in place of R times the largest of them); heads of the
  same w are added before absolute values are taken;
- the run's roundings.

What $\ell$ lacks of the target's column is an error too. Errors of queries and keys move scores, and a softmax whose
scores are off by s moves a mean of values up to V by at most $\min(e^{2s} - 1, 2) V$.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from flint import arb

from attnforge.certification.checker.layers import one_map
from attnforge.certification.checker.mirrored import Mirrored, bend
from attnforge.certification.checker.questions import BeyondReachError
from attnforge.certification.checker.rounding import SLACK, blocks, exponentials, fits
from attnforge.network import Attention, Head, Linear, Network
from attnforge.outward import Machine, gamma, machine, precision, round_to, upper
from attnforge.targets import AttentionHead

Array = npt.NDArray[np.float64]

MOST = 600.0  # exponents above are not told apart
SEQUENCES = 8  # tried, to refute


def largest_gap(network: Network, target: AttentionHead, dtype: str) -> float:
    """A bound of |network - head|, entry by entry, in the box; BeyondReachError where there is none."""
    model, box = machine(dtype), target.domain
    if dtype not in ("float64", "float32"):
        raise BeyondReachError("Emulated heads run in float64 or float32", dtype)
    reach = np.maximum(np.abs(box.lower), np.abs(box.upper))
    linear, first, last = _layers(network, target)
    with precision(), np.errstate(all="ignore"):  # what overflows is no bound
        columns = _Columns(linear, first, last, target, reach, model)
        found = columns.attend(target.tokens)
    if not np.isfinite(found):
        raise BeyondReachError("A bound is finite", "infinity")
    return found


def _layers(network: Network, target: AttentionHead) -> tuple[tuple[Array, Array], Attention, Head]:
    """The map and its constant, the heads that project, the head that attends."""
    kinds, keys = tuple(map(type, network.layers)), 2 * len(target.query)
    if kinds != (Linear, Attention, Attention) or network.tokens is not None or network.context is not None:
        raise BeyondReachError("An emulated head is a map and two layers of attention", "another network")
    linear, first, last = network.layers
    assert isinstance(linear, Linear)
    assert isinstance(first, Attention)
    assert isinstance(last, Attention)
    affine, head = one_map(linear), last.heads[0]
    if affine is None:
        raise BeyondReachError("All tokens pass one map", "others")
    told = head.key_rows
    plain = told is not None and told.kind == "all" and told.source == "state" and head.memory_keys is None
    if not plain or len(last.heads) > 1 or last.residual or head.query.shape[1] != target.query.shape[1]:
        raise BeyondReachError("One head attends to all tokens", "another layer")
    if any(each.key_rows is not None or each.memory_size != keys for each in first.heads):
        raise BeyondReachError(f"Heads that project have {keys} constant keys", "others")
    if any(each.query_rows.kind != "all" for each in (*first.heads, head)):
        raise BeyondReachError("All tokens ask", "some")
    return affine, first, head


@dataclass(frozen=True, eq=False)
class _Folded:
    """A head's numbers: its sharpness, half the differences u_j - u_j+d (d, C), and bounds for every column (C,)."""

    beta: float
    odd: Array
    wide: Array  # bounds by how much x moves what it writes, from absolute values
    doubt: Array  # of the odd values, as float64 computes them
    exact: Array  # what it adds beside odd values at scores of +-beta x_j
    mass: Array
    run: Array


class _Columns:
    """Queries, keys, written and bare values of the last head, side by side: sizes, and what each is off by as run."""

    def __init__(
        self,
        linear: tuple[Array, Array],
        layer: Attention,
        last: Head,
        target: AttentionHead,
        reach: Array,
        model: Machine,
    ) -> None:
        assert last.key is not None
        assert last.value is not None
        self.width, self.reach, self.model, self.output = target.query.shape[1], reach, model, np.abs(last.output)
        read = np.hstack([last.query, last.key, last.value @ last.output, last.value])
        self.fold = np.hstack([np.abs(last.query), np.abs(last.key), np.abs(last.value) @ self.output, abs(last.value)])
        self.made = _terms(last.value) + _terms(last.output)  # roundings of a folded product, as float64 computes it
        heads, d = [self._folded(head, *linear, read) for head in layer.heads], len(reach)
        encode, constant = (layer.residual * part for part in linear)
        slope = np.sum([head.beta / d * head.odd for head in heads], axis=0) + encode @ read
        doubt = np.sum([abs(head.beta) / d * (head.doubt + 2.0**-50 * np.abs(head.odd)) for head in heads], axis=0)
        doubt = doubt + gamma(_terms(read) + self.made + len(heads) + 8) * (np.abs(encode) @ self.fold + np.abs(slope))
        wanted = np.hstack([target.query, target.key, target.value, slope[:, -len(last.output) :]])
        off = reach @ (np.abs(slope - wanted) + doubt) + self._bend(heads) + np.abs(constant) @ self.fold
        off = off + np.sum([head.exact for head in heads], axis=0)
        kept = (reach @ np.abs(encode) + np.abs(constant)) @ self.fold
        mass = np.sum([head.mass for head in heads], axis=0)
        added = gamma(1 + sum(_terms(head.output) for head in layer.heads), model.roundoff)
        run = np.sum([head.run for head in heads], axis=0) * (1 + added) + added * (mass + kept)
        run = run + gamma(_terms(encode) + 3, model.roundoff) * kept
        run = run + 4 * (d + len(read)) * model.underflow * (1 + self.fold.sum())
        self.size = reach @ np.abs(wanted) * SLACK
        before = kept + reach @ np.sum([head.wide for head in heads], axis=0) + off + run
        self.off = (off + run + gamma(_terms(read) + self.made + 2, model.roundoff) * before) * SLACK
        self.held, self.passing = (self.size + self.off) * SLACK, float((mass + before).max()) * SLACK

    def _folded(self, head: Head, encode: Array, constant: Array, read: Array) -> _Folded:
        keys, values, reach = np.asarray(head.memory_keys), np.asarray(head.memory_values), self.reach
        d, model = len(reach), self.model
        tilt, lean = (encode @ head.query) @ keys.T, (np.abs(encode) @ np.abs(head.query)) @ np.abs(keys).T
        beta = float(np.median(np.concatenate([np.diagonal(tilt[:, :d]), -np.diagonal(tilt[:, d:])])))
        mirrored = np.hstack([np.eye(d), -np.eye(d)]) * beta
        shift = (np.abs(constant) @ np.abs(head.query)) @ np.abs(keys).T
        known = gamma(_terms(head.query) + _terms(keys.T) + 8) * lean
        delta = float((reach @ (np.abs(tilt - mirrored) + known) + shift).max()) * SLACK
        sizes = np.abs(values) @ np.abs(head.output) @ self.fold * SLACK
        out, most = np.abs(head.output) @ self.fold, sizes.max(axis=0)
        t = abs(beta) * float(reach.max())
        even = np.abs(values[:d] + values[d:]) / 2 @ out
        alone = np.minimum(even.sum(axis=0) * math.exp(min(t, MOST)) / d, even.max(axis=0))
        mass = [np.minimum(math.exp(min(t + m, MOST)) / (2 * d) * sizes.sum(axis=0), most) for m in (0.0, 2 * delta)]
        exact = np.minimum(math.expm1(min(2 * delta, MOST)) * mass[0], 2 * most) + alone
        # The run: every score, exponentials, sums of weights and of weighted values, products, the division.
        roundings = gamma(_terms(encode) + _terms(head.query) + keys.shape[1] + 10, model.roundoff)
        lost = 4 * (len(read) + keys.shape[1]) * model.underflow * (1 + np.abs(head.query).sum())
        score = roundings * float((reach @ lean + shift).max()) + lost * (1 + np.abs(keys).sum())
        weight = math.expm1(min(2 * (score + exponentials(2 * d, model)), MOST))
        sums = gamma(4 * d + 2 * blocks(2 * d) + 2, model.accumulation)
        run = (weight + sums * (1 + weight)) * mass[1] + (4 * d + len(out)) * model.underflow * (1 + out.sum(axis=0))
        odd = (values[:d] - values[d:]) / 2
        wide = np.abs(odd) @ out * SLACK
        doubt = gamma(_terms(head.output) + _terms(read) + self.made + 8) * wide
        moves = abs(beta) / d * math.exp(min(t, MOST)) * wide  # sinh t <= t exp t
        return _Folded(beta, odd @ head.output @ read, moves, doubt, exact * SLACK, mass[1] * SLACK, run * SLACK)

    def _bend(self, heads: list[_Folded]) -> Array:
        """What bends (C,): of the heads as multiples of the first one's values, and of what is no multiple."""
        one, d, reach = heads[0], len(self.reach), arb(float(self.reach.max()))
        among, rest = [], np.zeros_like(one.odd)
        for head in heads:
            place = np.unravel_index(int(np.abs(one.odd).argmax()), one.odd.shape)
            ratio = float(head.odd[place] / one.odd[place]) if one.odd[place] else 0.0
            apart = np.abs(head.odd - ratio * one.odd) + head.doubt
            apart += abs(ratio) * (one.doubt + 2.0**-51 * np.abs(one.odd))
            beta = arb(head.beta)
            among.append((beta, arb(ratio) * beta))
            rest += abs(head.beta) * upper(bend(abs(beta) * reach)) * apart
        bent = upper(Mirrored(among).departure(reach, arb(1))) * (np.abs(one.odd) + one.doubt)
        return np.asarray(self.reach @ (bent + rest) / d * SLACK)

    def attend(self, tokens: int) -> float:
        """The error of the last head's output, for so many tokens."""
        r, outputs, model = self.width, self.output.shape[1], self.model
        q, k, v, bare = (slice(0, r), slice(r, 2 * r), slice(2 * r, 2 * r + outputs), slice(2 * r + outputs, None))
        size, off = self.size, self.off
        score = size[q] @ off[k] + off[q] @ size[k] + off[q] @ off[k]
        products = float((size + off)[q] @ (size + off)[k])
        largest = max(products, tokens * float(self.held.max()), self.passing)
        if not fits(np.array([largest]), model).all():
            raise BeyondReachError("Numbers of a run stay in range", f"about {largest:.3g}")
        score += gamma(r + 12, model.accumulation) * products + exponentials(tokens, model) + 2 * r * model.underflow
        summed = gamma(2 * tokens + 2 * blocks(tokens) + 4 + _terms(self.output), model.accumulation)
        lost = (2 * tokens * (1 + self.held.max()) + len(self.output)) * model.underflow * (1 + self.output.sum())
        share = min(math.expm1(min(2 * SLACK * float(score), MOST)), 2.0)
        found = off[v] + summed * (self.held[bare] @ self.output) + lost + share * (size + off)[v]
        return float(found.max() * SLACK)


def _terms(matrix: Array) -> int:
    """Of the longest sum of a product with the matrix: zeros add nothing."""
    return int((matrix != 0).sum(axis=0).max())


def error_on_sequences(network: Network, target: AttentionHead, dtype: str) -> tuple[float, int]:
    """The largest error seen on a few sequences of the box, from below, and which of them it was."""
    source, box, found = np.random.default_rng(0), target.domain, []
    for i in range(SEQUENCES):
        share = source.uniform(size=(min(target.tokens, 1 + i), len(box.lower)))
        x = box.lower + (np.round(share) if i % 2 else share) * (box.upper - box.lower)
        with np.errstate(all="ignore"):
            found.append(np.abs(network(round_to(x, dtype)) - target.values(x.astype(np.longdouble))).max())
    which = int(np.argmax(found))  # what is not a number counts as the largest
    return float(found[which]), which
