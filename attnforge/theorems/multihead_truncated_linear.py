r"""H softmax heads that share one row of anchors (after Hu et al. 2025).

The n tokens of a sequence carry one-hot positions, which serve as places for $n$ keys in each head: $m = n - 2r$ own
anchors and r sentinels a side. Head q owns the anchors $g = qm..qm+m-1$ of the row $L_g = a + gh$,
$h = (b-a)/(Hm - 1)$, with values $L_g$; its sentinels sit **exactly on its neighbours' anchors** and are worth nothing,
so that where two heads meet their weights are complementary. Sentinels beyond the ends of the row are ghosts, worth a
and b. For every real y, with $c = \beta h^2$,
$$ |\textstyle\sum_q \mathrm{head}_q(y) - \mathrm{clamp}(y, a, b)| \le h\,E(c) + \max(|a|, |b|)\,X(c, r, m) , $$
the single head's error (:mod:`attnforge.lemmas.leakage`) with H times as many anchors, plus what is counted twice at
the borders (:mod:`attnforge.lemmas.border`): about $e^{-2c}$ for r = 1, $e^{-4c}/4$ for r = 2. Rate O(1/(nH)).

Without sentinels, r = 0, nothing silences a head away from its own anchors: there it returns about the nearest of them,
whatever y is. The head whose block is nearest errs by at most $h E(c) + h/2$, the others add up to
$(H - 1)\max(|a|, |b|)$, and no number of anchors helps.

Layouts. **memory**: each head owns its m + 2r keys $(\kappa, \kappa^2)$, counted from its own middle, so that scores
stay small whatever H is. **literal**: the sequence $[X, I_n]$; keys read only the $I_n$ block,
$(2\beta L_g w\,;\, 2\beta L_g\,;\, -\beta L_g^2)$ against queries $(x_i\,;\, t_i\,;\, 1)$. Where w differs from token
to token, $w_i * x_i$ is fed in and w becomes a row of ones.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from attnforge.anchors import Sharpness, sharpness, tuned
from attnforge.anchors.temperature import per_step
from attnforge.errors import RefusalError
from attnforge.lemmas.border import border
from attnforge.lemmas.leakage import interpolation, row_error
from attnforge.network import Attention, Claims, Head, Linear, Network, Rows, Term
from attnforge.outward import add_up, product_up
from attnforge.targets import Box, Formula, Target, TruncatedLinear
from attnforge.theorems.construction import Construction, Cost, Documentation, Law
from attnforge.theorems.linear_form import form_and_one, form_of, products_per_token, tokens_of
from attnforge.theorems.truncated_linear import (
    Layout,
    index_keys,
    index_query,
    output_map,
    reason_not_truncated,
)

Array = npt.NDArray[np.float64]
MAX_SENTINELS = 64  # the borders' leakage falls like exp(-c r^2 / 2): at 64 nothing is left of it in any dtype
HEADS = 8  # heads a sized network uses: the papers' middle setting; anchors a head follow from the tolerance


@dataclass(frozen=True)
class HeadsPlan:
    """H heads of n keys each, r sentinels a side."""

    tokens: int
    heads: int
    sharpness: float
    sentinels: int = 2
    layout: Layout = "memory"
    dtype: str = "float64"

    @property
    def own(self) -> int:
        """Anchors a head: n - 2r."""
        return self.tokens - 2 * self.sentinels

    def spacing(self, a: float, b: float) -> float:
        """The step of the row of H m anchors."""
        return (b - a) / (self.heads * self.own - 1)


class MultiheadTruncatedLinear(Construction[HeadsPlan]):
    """H heads, n - 2r anchors each."""

    name = "multihead_truncated_linear"
    function_class = "truncated linear, clamp(w.x + t, a, b)"
    rate = "O(1/(nH))"
    conditions = "with H(n - 2r) anchors in all, r sentinels a side exactly on the neighbours' anchors"
    reference = "Hu et al. 2025, H heads"
    documentation = Documentation(
        theorem="paper A, Theorem 3.2",
        hypotheses="a < b, n > 2r, H(n-2r) >= 2, beta > 0; literal: one w for all tokens, or w * x fed in",
        bound="sup over all real y: h E(c) + max(|a|, |b|) B(c, r, m), h = (b-a)/(Hm-1), m = n-2r",
        heads="H",
        keys="nH",
        width="2; literal d + n",
        example="af.constructions.multihead_truncated_linear([1.0], 0.1, -1, 1, tokens=10, heads=3)",
    )
    law = Law(
        target=lambda: TruncatedLinear([1.0, -0.5], 0.25, -1, 2, Box(-3, 3)),
        refused=lambda: Formula("sin(x)", Box([-1], [1])),
        tols=(2e-3, 2e-4),
        order=1.0,
    )

    def accepts(self, target: Target) -> str | None:
        """Truncated linear targets."""
        return reason_not_truncated(target)

    def size(self, target: Target, tol: float, dtype: str) -> HeadsPlan:
        """HEADS heads, with as many anchors each as keep the tuned bound at most tol (borders at their worst)."""
        _, _, a, b = form_of(target)
        largest, sentinels, c = max(abs(a), abs(b)), 2, tuned()
        leak = product_up(largest, border(c, sentinels, 1))
        while leak > tol / 4:  # each further sentinel multiplies the exponent of the borders' leakage
            sentinels += 1
            leak = product_up(largest, border(c, sentinels, 1))
        row = interpolation(c)
        needed = (b - a) * row / (tol - leak) + 1
        if not needed < 2**52:
            got = f"tol={tol:g}, which needs about {needed:.2g} anchors"
            raise RefusalError("Anchors must be countable in float64", got, "Ask for a larger tol, or the gate")
        own = max(1, math.ceil(math.ceil(needed) / HEADS))
        plan = HeadsPlan(own + 2 * sentinels, HEADS, 1.0, sentinels, dtype=dtype)
        return replace(plan, sharpness=per_step(c, plan.spacing(a, b)))

    def cost(self, target: Target, plan: HeadsPlan) -> Cost:
        """Three or four numbers a key (memory), two maps from d + n to d + 2 features a head (literal)."""
        w, _, _, _ = form_of(target)
        n, heads, (rows, d), k = plan.tokens, plan.heads, w.shape, target.outputs or 1
        if plan.layout == "memory":
            return Cost.of(n * heads, 4 * n * heads + heads * (6 + k) + 2 * rows * (d + 1))
        per_head = (d + n) * (2 * (d + 2) + 1) + k
        encode = (d + n) * (n + d * (1 if _shared(w) else n))
        return Cost.of(n * heads, heads * per_head + encode, heads * n * n * (d + 3))

    def build(self, target: Target, plan: HeadsPlan) -> Network:
        """The weights, in either layout."""
        w, t, a, b = form_of(target)
        check_plan(plan)
        blocks = [_block(q, plan, a, b) for q in range(plan.heads)]
        if plan.layout == "memory":
            return _memory(w, t, a, b, plan, blocks, output_map(target), tokens_of(target))
        tokens = tokens_of(target)
        if tokens not in (None, plan.tokens):
            got = f"tokens={plan.tokens} and {tokens} rows of w, t or domain"
            raise RefusalError("The sequence has as many tokens as keys", got, "Let them agree, or use layout='memory'")
        return _literal(w, t, plan, blocks, output_map(target))

    def bound(self, target: Target, plan: HeadsPlan) -> dict[str, float]:
        """``spacing``: the bracketing pair; ``leakage``: the other anchors, and the borders."""
        _, _, a, b = form_of(target)
        h = plan.spacing(a, b)
        c = plan.sharpness * h * h
        parts = row_error(c, h, plan.heads * plan.own)
        if plan.heads > 1:
            parts["leakage"] = add_up(parts["leakage"], _at_borders(c, h, max(abs(a), abs(b)), plan))
        return parts


def _at_borders(c: float, h: float, largest: float, plan: HeadsPlan) -> float:
    """What heads count twice where they meet; without sentinels, all that the others return."""
    if plan.sentinels:
        return product_up(largest, border(c, plan.sentinels, plan.own))
    return add_up(product_up(plan.heads - 1.0, largest), product_up(0.5, h))


def plan_sharpness(asked: Sharpness, plan: HeadsPlan, a: float, b: float) -> float:
    """The beta asked for, where tuned weighs the row's error against the borders' leakage."""
    h = plan.spacing(a, b)
    if asked == "tuned":
        return per_step(tuned(sentinels=plan.sentinels, border=max(abs(a), abs(b)) / h), h)
    return sharpness(asked, h, plan.dtype)


@dataclass(frozen=True, eq=False)
class _Block:
    """One head's keys: index counted from the head's middle, position, value, role."""

    middle: int
    kappa: Array
    positions: Array
    values: Array
    roles: tuple[str, ...]


def _block(q: int, plan: HeadsPlan, a: float, b: float) -> _Block:
    m, r, h = plan.own, plan.sentinels, plan.spacing(a, b)
    numbers = np.arange(q * m - r, q * m + m + r)
    positions, last = np.asarray(a + h * numbers, dtype=np.float64), plan.heads * m - 1
    own = (numbers >= q * m) & (numbers < q * m + m)
    ghost = ((numbers < 0) & (q == 0)) | ((numbers > last) & (q == plan.heads - 1))
    values = np.where(own | ghost, np.clip(positions, a, b), 0.0)
    roles = tuple("anchor" if o else "ghost" if g else "sentinel" for o, g in zip(own, ghost, strict=True))
    middle = q * m + m // 2
    return _Block(middle, (numbers - middle).astype(np.float64), positions, values, roles)


def check_plan(plan: HeadsPlan) -> None:
    """Raise unless every head has room for its sentinels, of which there may be none, and an anchor."""
    if plan.sentinels > MAX_SENTINELS:
        got = f"sentinels={plan.sentinels}"
        raise RefusalError(f"More than {MAX_SENTINELS} sentinels a side change nothing", got, "Use 2 or 3")
    if plan.heads < 1 or plan.sentinels < 0:
        got = f"heads={plan.heads}, sentinels={plan.sentinels}"
        raise RefusalError("`heads` must be at least 1, and `sentinels` 0", got, "Ask for more")
    if plan.own < 1 or plan.heads * plan.own < 2:
        raise RefusalError(
            f"`tokens` must hold {plan.sentinels} sentinels a side and an anchor, and two anchors in all",
            f"tokens={plan.tokens}, heads={plan.heads}, sentinels={plan.sentinels}",
            f"Use at least {2 * plan.sentinels + 2} tokens, or fewer sentinels",
        )


def _shared(w: Array) -> bool:
    """Whether all tokens have the same weights."""
    return bool(np.all(w == w[0]))


def _claims(name: str, plan: HeadsPlan, block: _Block) -> Claims:
    return Claims(name, plan.sharpness, block.positions, block.roles)


def _memory(
    w: Array, t: Array, a: float, b: float, plan: HeadsPlan, blocks: list[_Block], output: Array, tokens: int | None
) -> Network:
    h = plan.spacing(a, b)
    c, centre = plan.sharpness * h * h, plan.heads * plan.own // 2
    heads = []
    for block in blocks:
        keys = index_keys(block.kappa, plan.dtype)
        heads.append(
            Head(
                query=index_query(c, keys, float(block.middle - centre)),
                output=output,
                memory_keys=keys,
                memory_values=block.values[:, None],
                claims=_claims(MultiheadTruncatedLinear.name, plan, block),
            )
        )
    encode = form_and_one(w, t, 1 / h, -a / h - centre)
    return Network((encode, Attention(tuple(heads))), w.shape[1], tokens, construction=MultiheadTruncatedLinear.name)


def _literal(w: Array, t: Array, plan: HeadsPlan, blocks: list[_Block], output: Array) -> Network:
    n, d = plan.tokens, w.shape[1]
    shared = _shared(w)
    weights = w[0] if shared else np.ones(d)
    maps = products_per_token(np.ones((1, d)) if shared else w, n, d + n)
    positions = np.hstack([np.zeros((n, d)), np.eye(n)])
    encode = Linear((Term(maps[0] if shared else maps),), positions)
    query = np.zeros((d + n, d + 2))
    query[:d, :d] = np.eye(d)
    query[d:, d], query[d:, d + 1] = t, 1.0
    heads = []
    for block in blocks:
        key, value = np.zeros((d + n, d + 2)), np.zeros((d + n, 1))
        key[d:, :d] = 2 * plan.sharpness * block.positions[:, None] * weights
        key[d:, d] = 2 * plan.sharpness * block.positions
        key[d:, d + 1] = -plan.sharpness * block.positions**2
        value[d:, 0] = block.values
        claims = _claims(MultiheadTruncatedLinear.name, plan, block)
        heads.append(Head(query, output, key=key, value=value, key_rows=Rows(), claims=claims))
    return Network((encode, Attention(tuple(heads))), d, n, construction=MultiheadTruncatedLinear.name)
