r"""All tokens at once, where each reaches the same head over constant keys through a few features of its own.

Token i has features $z_i(x) = x M_i + c_i$, the head writes $N(z)$, and $\mathrm{clamp}(y_i)$ is wanted, where
$y_i = w_i \cdot x + t_i$. For any numbers g, the clamp being 1-Lipschitz,
$$ |N(z_i) - \mathrm{clamp}(y_i)| \le \sup_{z \in Z} |N(z) - \mathrm{clamp}(g \cdot z + g_0)|
   + |g \cdot z_i + g_0 - y_i| , $$
Z a box around the features of every token. The first is one proof in as many inputs as there are features, whatever the
number of tokens; the second, an affine function of x, is known on the whole domain. Both hold of the features of the
run, which differ from these by its roundings. g is found by least squares: weights that were trained, so that no token
follows its form exactly, have a g that is nearly right for all.

On a cell of Z the supremum is bounded by expansion (:mod:`.several_inputs`), or by the values in play: of weights that
are at most $p_k$ each, the mean is largest where the largest values have all they may.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from attnforge.certification.enclosure.factors import factor_head
from attnforge.certification.enclosure.fitted import FEWEST, MOST_INPUTS, NEGLIGIBLE, boxes_allowed
from attnforge.certification.enclosure.run import SLACK, MemoryRun, Weights, rounding
from attnforge.certification.enclosure.several_inputs import BATCH, ENCLOSED, FLOORS, ErrorOnBoxes
from attnforge.certification.statement import Proof, Statement
from attnforge.certification.tokens import Tokens, inner, input_tokens, linear
from attnforge.errors import CertificateError
from attnforge.expression.simplify import of, plus, times
from attnforge.expression.tree import Constant, Variable
from attnforge.network import Attention, Head, Linear, Network
from attnforge.outward import Balls, gamma
from attnforge.outward.arrays import TINY
from attnforge.outward.branch_and_bound import Found, Rules, Supremum, branch_and_bound
from attnforge.targets import TruncatedLinear

Array = npt.NDArray[np.float64]

CLOSE = 1.05  # the bound may exceed the largest error found by this factor


def prove_shared_head(statement: Statement, tokens: int) -> Proof:
    """``fit``: of the head against a clamped form of the features; ``form``: what that is off; ``rounding``."""
    target, machine = statement.target, statement.machine
    if not isinstance(target, TruncatedLinear) or target.outputs is not None:
        raise CertificateError("This proof covers one truncated linear function a token", target.describe())
    features = _features(statement, tokens)
    network = Network((_layer(statement.run),), features.error.shape[1], 1)
    cells = boxes_allowed(network, statement.effort)
    if network.features > MOST_INPUTS or cells < FEWEST * statement.effort.boxes:
        got = f"{network.features} features, {network.heads[0].memory_size:,} keys"
        raise CertificateError(f"A shared head reads up to {MOST_INPUTS} features and has few keys", got)
    form = _form(features, target)
    error = _HeadError(network.heads[0], *form, (target.lower, target.upper))
    found = branch_and_bound(error.look, *_ends(features), Rules(CLOSE, cells, BATCH), statement.progress)
    added = rounding(MemoryRun((), network.heads, machine), *_halves(found), NEGLIGIBLE * found.bound)
    parts = {"fit": found.bound, "form": _off(features, target, *form), "rounding": added}
    return Proof(parts, assumptions=(ENCLOSED,), limit=found.limit)


def _layer(run: Network) -> Attention:
    """The last layer: one head over constant keys, which all tokens ask."""
    match run.layers[-1]:
        case Attention(heads=(Head(key_rows=None, query_rows=rows),), residual=False) as layer if rows.indices is None:
            return layer
    raise CertificateError("Tokens share one head over constant keys", "another last layer")


def _features(statement: Statement, tokens: int) -> Tokens:
    """What the layer of attention sees of every token."""
    box = statement.domain.fixed((tokens, statement.run.features))
    found = input_tokens(box.lower, box.upper, statement.machine)
    for layer in statement.run.layers[:-1]:
        if not isinstance(layer, Linear):
            raise CertificateError("Before attention stand linear maps", type(layer).__name__)
        found = linear(layer, found, statement.machine)
    if found.source.tolist() != list(range(tokens)):
        raise CertificateError("Every token is mapped by itself", "rows that read others")
    return found


def _form(features: Tokens, target: TruncatedLinear) -> tuple[Array, float]:
    """The numbers g and g_0; any would do."""
    w, slopes = np.broadcast_to(target.w, features.slope.shape[:2]), features.slope.mid
    try:
        weights: Array = np.linalg.lstsq(slopes.reshape(-1, slopes.shape[-1]), w.ravel())[0].astype(np.float64)
    except np.linalg.LinAlgError:
        weights = np.full(slopes.shape[-1], np.nan)
    left = target.t - features.constant.mid @ weights
    level = float(left.min() / 2 + left.max() / 2)
    if not np.all(np.isfinite([*weights, level])):
        raise CertificateError("Features follow a linear form that float64 can hold", "numbers too large or too small")
    return weights, level


def _off(features: Tokens, target: TruncatedLinear, weights: Array, level: float) -> float:
    """The largest |g . z + g_0 - y| of any token of the run."""
    form, w = Balls.exact(weights[:, None]), np.broadcast_to(target.w, features.slope.shape[:2])
    slope = features.slope @ form - Balls.exact(w[:, :, None])
    constant = features.constant @ form + Balls.exact(level) - Balls.exact(target.t[:, None])
    exact = inner(slope, features.box, constant).magnitude()[:, 0]
    return float((exact + features.error @ np.abs(weights)).max() * SLACK)


def _ends(features: Tokens) -> tuple[Array, Array]:
    """The ends (1, m) of a box around the features of every token of the run."""
    exact = inner(features.slope, features.box, features.constant)
    radius = (exact.rad + features.error) * SLACK
    low, high = (exact.mid - radius).min(axis=0), (exact.mid + radius).max(axis=0)
    return np.nextafter(low, -np.inf)[None], np.nextafter(high, np.inf)[None]


def _halves(found: Supremum) -> tuple[Array, Array]:
    """The cells at the end, cut once more: what they leave out of expansions is far less than what weights move by."""
    cut = np.eye(found.lower.shape[1])[(found.upper - found.lower).argmax(axis=1)] == 1
    middle = found.lower / 2 + found.upper / 2
    lower, upper = np.where(cut, middle, found.lower), np.where(cut, middle, found.upper)
    return np.concatenate([found.lower, lower]), np.concatenate([upper, found.upper])


class _HeadError:
    """One head over constant keys minus clamp(g . z + g_0), on cells of z."""

    def __init__(self, head: Head, weights: Array, level: float, interval: tuple[float, float]) -> None:
        names = tuple(f"z[{j}]" for j in range(len(weights)))
        terms = (times(Constant(weight), Variable(name)) for weight, name in zip(weights.tolist(), names, strict=True))
        tree = of("clamp", plus(*terms, Constant(level)), *map(Constant, interval))
        self.slopes = Balls.exact(head.query) @ Balls.exact(np.asarray(head.memory_keys).T)  # (m, p)
        written = (Balls.exact(np.asarray(head.memory_values)) @ Balls.exact(head.output))[:, 0]
        self.values, self.unsure = written.mid, written.rad.max()
        self.form, self.level, self.interval = Balls.exact(weights[:, None]), Balls.exact(level), interval
        units = 1 / np.maximum(np.ptp(self.slopes.mid, axis=1), TINY)  # sides count by how much they move scores apart
        self.expanded = ErrorOnBoxes((factor_head((), head, len(names)),), tree, names, units)

    def look(self, lower: Array, upper: Array, _: Any) -> Found:
        """Bounds on cells (C, m)."""
        cells = self.expanded.on(lower, upper)
        bound = np.fmin(cells.bound, self._by_values(lower, upper))
        return Found.of(bound, cells.seen, cells.cut, bound <= FLOORS * cells.floor)

    def _by_values(self, lower: Array, upper: Array) -> Array:
        """The largest distance (C,) between a mean of the values in play and a value of the clamped form."""
        box = Balls.between(lower, upper)
        form, shares = (box @ self.form + self.level)[:, 0], self._shares(box)
        high, low = _largest_mean(shares, self.values), -_largest_mean(shares, -self.values)
        below, above = (np.clip(form.mid + sign * form.rad * SLACK, *self.interval) for sign in (-1, 1))
        room = gamma(8 * len(self.values)) * (np.abs(form.mid) + np.abs(self.values).max())
        return np.asarray(np.maximum(high - below, above - low) + room + self.unsure)

    def _shares(self, box: Balls) -> Array:
        """Upper bounds (C, p) of the weights of keys."""
        scores = Balls.exact(box.mid) @ self.slopes
        winner = scores.mid.argmax(axis=1)
        best = scores.mid.max(axis=1, keepdims=True)
        unsure = scores.rad + box.rad @ self.slopes.rad + 2.0**-50 * np.abs(scores.mid)
        moved = unsure + np.take_along_axis(unsure, winner[:, None], axis=1)
        for slope, radius in zip(self.slopes.mid, box.rad.T, strict=True):
            moved += np.abs(slope - slope[winner][:, None]) * radius[:, None]
        return Weights(scores.mid - best, moved * SLACK, np.zeros_like(moved)).share()


def _largest_mean(shares: Array, values: Array) -> Array:
    """Of weights that add up to 1 and are at most the shares (C, p), the largest mean (C,) of the values (p,).

    >>> _largest_mean(np.array([[0.75, 0.5, 0.5]]), np.array([1.0, 4.0, 0.0])).tolist()
    [2.5]
    """
    order = np.argsort(-values)
    filled = np.minimum(np.cumsum(shares[:, order], axis=1), 1.0)
    return np.asarray(np.diff(filled, axis=1, prepend=0.0) @ values[order])
