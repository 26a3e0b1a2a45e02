"""One head on registers: products, exponentials, logistic functions."""

from __future__ import annotations

from typing import Any, Unpack

import numpy as np
import numpy.typing as npt

from attnforge.arrays import float64
from attnforge.compiler.budget import Asked
from attnforge.compiler.compiled import Compiled
from attnforge.constructions.finishing import count_of, finish
from attnforge.errors import DomainError, TargetError
from attnforge.expression.simplify import of, plus, times
from attnforge.expression.tree import Constant, Variable
from attnforge.outward import DType, dtype_name
from attnforge.targets import Box, Formula, as_box
from attnforge.theorems.exponential import Exponential, ExponentialPlan
from attnforge.theorems.logistic import Logistic, LogisticPlan
from attnforge.theorems.multiplier import Multiplier, MultiplierPlan

SQUARE, DOMAIN = Box(-1, 1, shape=(2,)), Box(-10, 10)


def multiplier(keys: int = 9, domain: Any = SQUARE, *, dtype: DType = "float64", **asked: Unpack[Asked]) -> Compiled:
    r"""One softmax head that multiplies two inputs (ours).

    Own key and k - 1 sinks, from a Gauss-Radau rule of $1/y = \int_0^1 x^{y-1} dx$. With 3, 5, 7 and 9 keys the error
    is at most 6.9e-5, 2.1e-8, 6.9e-12 and 2.5e-15 of $4 r \max|y|$, where x lies in [c - r, c + r] and r >= |c|/3.
    Proof: :mod:`attnforge.theorems.multiplier`.

    Args:
        keys: k, from 2 to 10.
        domain: a box of two inputs, intervals, or named intervals.
        dtype: what it runs in: a name, or a torch dtype.
        asked: effort, timeout, workers, cluster, require, max_bytes and progress, as ``af.compile`` takes them.

    >>> net = multiplier(keys=5)
    >>> net.anchors, net.certificate.status, net.certificate.bound < 9e-8
    (5, 'proved', True)
    """
    runs_in, box, (first, second) = dtype_name(dtype), *_two_inputs(domain, ("x", "y"))
    target = Formula(times(Variable(first), Variable(second)), box, (first, second))
    return finish(Multiplier(), target, MultiplierPlan(count_of("keys", keys)), runs_in, asked)


def exponential(domain: Any = SQUARE, *, dtype: DType = "float64", **asked: Unpack[Asked]) -> Compiled:
    r"""One softmax head of two keys that multiplies one input by the exponential of another, $v e^l$ (ours).

    Its relative error is at most a roundoff u of the dtype, in exact arithmetic, and a run adds about u (M + |l|), M
    the largest l plus ln(1/u). Proof: :mod:`attnforge.theorems.exponential`.

    Args:
        domain: a box of v and l, intervals, or named intervals, in this order.
        dtype: what it runs in: a name, or a torch dtype.
        asked: effort, timeout, workers, cluster, require, max_bytes and progress, as ``af.compile`` takes them.

    >>> net = exponential([(0, 1), (-1, 0)], timeout=1.0)
    >>> net.anchors, round(float(net(v=1.0, l=-0.5)), 14)
    (2, 0.60653065971263)
    """
    runs_in, box, (first, second) = dtype_name(dtype), *_two_inputs(domain, ("v", "l"))
    target = Formula(times(Variable(first), of("exp", Variable(second))), box, (first, second))
    return finish(Exponential(), target, ExponentialPlan(runs_in), runs_in, asked)


def logistic(
    w: npt.ArrayLike, t: float = 0.0, *, domain: Any = DOMAIN, dtype: DType = "float64", **asked: Unpack[Asked]
) -> Compiled:
    r"""One softmax head of two keys that computes $\sigma(w \cdot x + t)$, exactly.

    Two constant keys with scores w . x + t and 0 and values 1 and 0: :mod:`attnforge.theorems.logistic`.

    Args:
        w: (d,).
        t: a number.
        domain: where it is certified and may be called: an ``af.Box``, or intervals, one an input.
        dtype: what it runs in: a name, or a torch dtype.
        asked: effort, timeout, workers, cluster, require, max_bytes and progress, as ``af.compile`` takes them.

    >>> net = logistic([1.0, -2.0], 0.5, domain=Box(-1, 1))
    >>> net.anchors, net.certificate.bound < 3e-15
    (2, True)
    """
    weights = _weights(w)
    names = tuple(f"x[{i}]" for i in range(len(weights)))
    terms = [times(Constant(weight), Variable(name)) for weight, name in zip(weights, names, strict=True)]
    target = Formula(of("sigmoid", plus(*terms, Constant(t))), as_box(domain)[0].fixed((len(names),)), names)
    return finish(Logistic(), target, LogisticPlan(), dtype_name(dtype), asked)


def _two_inputs(domain: Any, names: tuple[str, str]) -> tuple[Box, tuple[str, str]]:
    """The box, and the names that the domain gives its two axes, or else these."""
    box, given = as_box(domain)
    box = box.fixed((2,))
    return box, names if given is None else (given[0], given[1])


def _weights(w: npt.ArrayLike) -> list[float]:
    try:
        weights = float64(w)
    except DomainError:
        weights = np.empty(0)
    if weights.ndim != 1 or not weights.size:
        raise TargetError("`w` must be d numbers, one an input", repr(w)[:80], "Give a list of numbers")
    return [float(weight) for weight in weights]
