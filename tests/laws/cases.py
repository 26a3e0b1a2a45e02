"""What the laws quantify over: constructions, problems for them, and an error measured without the library's search."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from hypothesis import strategies as st

import attnforge as af
from attnforge.compiler import Compiled
from attnforge.effort import NORMAL
from attnforge.network import Head, Network, editing

DTYPES = ("float64", "float32", "bfloat16", "float16")
ANCHORS = {"float64": 300, "float32": 100, "bfloat16": 8, "float16": 24}  # what a dtype may be asked for
SCALE = {"float64": 6.0, "float32": 6.0, "bfloat16": 6.0, "float16": 1.0}  # powers of ten of the interval's length
OFFSET = {"float64": 1000.0, "float32": 30.0, "bfloat16": 0.5, "float16": 2.0}  # |a + b| in interval lengths

PROVED = replace(NORMAL, points=1, climbers=1, rounds=1, tries=1)  # laws look for the worst point themselves

number = st.floats(-1.0, 1.0).map(lambda value: round(value, 6))


@dataclass(frozen=True)
class Problem:
    """A truncated linear target on a box, and the dtype it runs in."""

    w: Any
    t: Any
    a: float
    b: float
    domain: af.Box
    dtype: str

    @property
    def options(self) -> dict[str, Any]:
        return {"domain": self.domain, "dtype": self.dtype, "effort": PROVED}

    @property
    def tokens(self) -> int:
        return max(len(np.atleast_2d(self.w)), np.size(self.t))


@st.composite
def problems(draw: st.DrawFn, dtype: str, tokens: int | None = None) -> Problem:
    """Intervals from 1e-6 to 1e6, far from zero too, forms that reach beyond them or stay inside, boxes off centre."""
    d = draw(st.integers(1, 4))
    n = draw(st.sampled_from([1, 1, 3])) if tokens is None else tokens
    length = 10.0 ** draw(st.floats(-SCALE[dtype], SCALE[dtype]))
    a = length * OFFSET[dtype] * draw(st.sampled_from([0.0, 1.0])) * draw(number) - length * draw(st.floats(0.0, 1.0))
    a = float(a)
    reach = 10.0 ** draw(st.floats(-1.0, 1.0))
    middle = reach * draw(st.sampled_from([0.0, 0.0, 2.0])) * draw(number)
    domain = af.Box(middle - reach * draw(st.floats(0.0, 1.0)), middle + reach)
    own = n > 1 and draw(st.booleans())
    entries = draw(st.lists(number, min_size=d * (n if own else 1), max_size=d * (n if own else 1)))
    steep = draw(st.sampled_from([0.3, 1.0, 4.0]))
    w = steep * length / reach * np.array(entries).reshape((n, d) if own else (d,))
    w[..., 0] += (np.abs(w).sum(axis=-1) == 0) * length / reach  # zero forms have a test of their own
    centre = a + length * draw(st.floats(0.0, 1.0))
    shifts = [centre - float(np.sum(row) * middle) for row in np.atleast_2d(w)]
    t = np.array(shifts) if own else shifts[0]
    return Problem(w, t, a, a + length, domain, dtype)


@st.composite
def truncated_linear(draw: st.DrawFn, dtype: str) -> Callable[[], Compiled]:
    """One head, p anchors, open or closed, hard, tuned, soft or sharp, either layout."""
    problem = draw(problems(dtype))
    layout = draw(st.sampled_from(["memory", "literal"]))
    most = ANCHORS[dtype] if layout == "memory" else 24  # a literal sequence pays for p^2 pairs a point
    p = draw(st.integers(max(2, problem.tokens), most))
    h = (problem.b - problem.a) / p
    beta = draw(st.sampled_from(["hard", "tuned", "tuned", 0.05, 1.0, 5.0]))
    if not isinstance(beta, str):
        beta = beta / h**2
    grid = draw(st.sampled_from(["closed", "open"]))
    return lambda: af.constructions.truncated_linear(
        problem.w, problem.t, problem.a, problem.b,
        anchors=p, sharpness=beta, grid=grid, layout=layout, **problem.options,
    )  # fmt: skip


@st.composite
def multihead_truncated_linear(draw: st.DrawFn, dtype: str) -> Callable[[], Compiled]:
    """H heads with r sentinels a side, at least as many own anchors as sentinels."""
    sentinels = draw(st.integers(1, 3))
    own = draw(st.integers(max(2, sentinels), max(3, min(ANCHORS[dtype] // 8, 20))))
    heads = draw(st.integers(1, 6 if dtype in ("float64", "float32") else 2))
    layout = draw(st.sampled_from(["memory", "literal"] if dtype == "float64" else ["memory"]))
    own = min(own, 6) if layout == "literal" else own
    tokens = own + 2 * sentinels
    problem = draw(problems(dtype, tokens if layout == "literal" and draw(st.booleans()) else 1))
    h = (problem.b - problem.a) / (heads * own - 1)
    beta = draw(st.sampled_from(["hard", "tuned", "tuned", 0.5, 2.0, 6.0]))
    if not isinstance(beta, str):
        beta = beta / h**2
    return lambda: af.constructions.multihead_truncated_linear(
        problem.w, problem.t, problem.a, problem.b,
        tokens=tokens, heads=heads, sentinels=sentinels, sharpness=beta, layout=layout, **problem.options,
    )  # fmt: skip


@st.composite
def gate(draw: st.DrawFn, dtype: str) -> Callable[[], Compiled]:
    """Three keys, at the dtype's own sharpness or a softer one."""
    problem = draw(problems(dtype))
    layout = draw(st.sampled_from(["memory", "literal"]))
    beta = draw(st.sampled_from([None, None, 0.1, 10.0, 300.0]))
    sharpness = None if beta is None else beta / (problem.b - problem.a)
    return lambda: af.constructions.gate(
        problem.w, problem.t, problem.a, problem.b, sharpness=sharpness, layout=layout, **problem.options
    )


CONSTRUCTIONS = {
    "truncated_linear": truncated_linear,
    "multihead_truncated_linear": multihead_truncated_linear,
    "gate": gate,
}

SMALL = {  # one plain instance of each, for laws that need no search
    "truncated_linear": lambda **k: af.constructions.truncated_linear([1.0, -0.5], 0.25, -1, 2, anchors=12, **k),
    "multihead_truncated_linear": lambda **k: af.constructions.multihead_truncated_linear(
        [1.0, -0.5], 0.25, -1, 2, tokens=10, heads=3, **k
    ),
    "gate": lambda **k: af.constructions.gate([1.0, -0.5], 0.25, -1, 2, **k),
}


def truth(net: Compiled, x: np.ndarray) -> np.ndarray:
    """The target in extended precision, written out once more: clamp(w . x + t, a, b)."""
    target = net.target
    y = (x.astype(np.longdouble) * target.w).sum(axis=-1) + target.t
    return np.minimum(np.maximum(y, target.lower), target.upper)


def crossing(net: Compiled, count: int = 400) -> np.ndarray:
    """Points (N, n, d) from the lowest to the highest value of every token's form, then random and corner points."""
    rows = net.network.tokens or 1
    box = net.target.domain.fixed((rows, net.network.features))
    w = np.broadcast_to(net.target.w, (rows, net.network.features))
    low = np.where(w >= 0, box.lower, box.upper)
    high = np.where(w >= 0, box.upper, box.lower)
    s = np.linspace(0.0, 1.0, count)[:, None, None]
    rng = np.random.default_rng(5)
    corners = np.where(rng.random((64, *box.shape)) < 0.5, box.lower, box.upper)
    points = np.concatenate([low + s * (high - low), rng.uniform(box.lower, box.upper, (count, *box.shape)), corners])
    return np.clip(points, box.lower, box.upper)


def worst(net: Compiled, x: np.ndarray | None = None) -> float:
    """The largest error at the points (those of :func:`crossing` by default). NaN counts as infinite."""
    x = crossing(net) if x is None else x
    error = float(np.abs(net(x) - truth(net, x)).max())
    return np.inf if np.isnan(error) else error


def with_head(network: Network, index: int = 0, **changes: Any) -> Network:
    """The network with some fields of one head replaced."""
    return editing.with_head(network, *editing.head_places(network)[index], **changes)


def with_claims(network: Network, index: int = 0, **changes: Any) -> Network:
    """The network with some of one head's claims replaced: the weights stay."""
    return with_head(network, index, claims=replace(network.heads[index].claims, **changes))


def changed(array: np.ndarray, index: Any, value: float) -> np.ndarray:
    """A copy with one entry changed."""
    copy = array.copy()
    copy[index] = value
    return copy


def running(net: Compiled, network: Network) -> Compiled:
    """Another network behind the same target and certificate."""
    return Compiled(network, net.target, net.certificate, net.construction, net.dtype)


def keys_of(head: Head) -> np.ndarray:
    """Roles of a head's keys, as an array."""
    return np.array(head.claims.roles)
