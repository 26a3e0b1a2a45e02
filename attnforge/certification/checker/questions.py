"""What must be true of a network for a bound to hold: one question an output entry, in as few variables as possible."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from attnforge.certification.checker.layers import is_alone
from attnforge.certification.checker.search import Question
from attnforge.errors import CertificateError
from attnforge.expression.simplify import of, plus, times
from attnforge.expression.tree import Constant, Node, Variable
from attnforge.network import Attention, Network
from attnforge.network.apply import apply_layer
from attnforge.targets import Formula, Formulas, TruncatedLinear
from attnforge.targets.structure.ridge import direction_of

Array = npt.NDArray[np.float64]
Entry = tuple[tuple[int, int], Node, tuple[tuple[str, int], ...], tuple[float, ...] | None]

ORDERS = {1: 12, 2: 13, 3: 5, 4: 4}  # of Taylor expansions, by the number of variables


class BeyondReachError(CertificateError):
    """The checker has no way to look at this network; nothing is said against it."""


def trees_of(target: Formula | Formulas) -> tuple[Node, ...]:
    """A formula an output."""
    return (target.tree,) if isinstance(target, Formula) else target.trees


def questions(
    network: Network, target: Formula | Formulas | TruncatedLinear, bound: float, dtype: str
) -> Iterator[Question]:
    """What must be true for the bound to be: one question an output entry."""
    shape = (target.rows, target.features) if isinstance(target, TruncatedLinear) else (1, target.domain.lower.size)
    if network.features != shape[1] or network.tokens not in (None, shape[0]) or network.context is not None:
        got = f"{network.tokens} tokens of {network.features} features"
        raise CertificateError(f"The network must read {shape[0]} tokens of {shape[1]} features, as its target", got)
    if network.tokens is None and isinstance(target, TruncatedLinear) and not all(map(is_alone, network.heads)):
        raise CertificateError("Heads of a network on any number of tokens read every token by itself", "other heads")
    box = tuple(
        tuple(np.broadcast_to(end, shape).ravel().tolist()) for end in (target.domain.lower, target.domain.upper)
    )
    entries = _truncated(target) if isinstance(target, TruncatedLinear) else _formulas(network, target)
    for entry, tree, names, direction in entries:
        variables = len(box[0]) if direction is None else 1
        if variables not in ORDERS:
            most = f"The checker cuts cells in up to {max(ORDERS)} inputs, or along one linear form"
            raise BeyondReachError(most, f"{variables} inputs")
        low, high = box
        order = ORDERS[variables]
        yield Question(network, dtype, shape[0], entry, tree, names, low, high, direction, order, bound)


def _formulas(network: Network, target: Formula | Formulas) -> Iterator[Entry]:
    """Every output. Along a line, if neither formula nor network sees anything else."""
    names = tuple((name, i) for i, name in enumerate(target.names))
    for j, tree in enumerate(trees_of(target)):
        direction = direction_of(tree, target.names, target.domain) if len(names) > 1 else None
        weights = None if direction is None else direction.weights(target.domain)
        along = weights is not None and _reads_only(network, weights)
        yield (0, j), tree, names, tuple(weights.tolist()) if along and weights is not None else None


def _reads_only(network: Network, weights: Array) -> bool:
    """Whether the queries of the first heads vary along the weights alone, to rounding: where to look, not a proof."""
    state = np.concatenate([np.zeros((1, len(weights))), np.eye(len(weights))])[:, None]
    for layer in network.layers:
        if isinstance(layer, Attention):
            slopes = [((state[1:] - state[:1]) @ head.query).reshape(len(weights), -1) for head in layer.heads]
            return all(_parallel(each, weights) for each in slopes)
        state = apply_layer(layer, state)
    return False


def _parallel(slopes: Array, weights: Array) -> bool:
    along = np.outer(weights, weights @ slopes / (weights @ weights))
    return bool(np.abs(slopes - along).max() <= 1e-9 * np.abs(slopes).max())


def _truncated(target: TruncatedLinear) -> Iterator[Entry]:
    """Every token's output features: the clamped form in one of them, zero in the others."""
    for i in range(target.rows):
        w, t = target.w[min(i, len(target.w) - 1)], float(target.t[min(i, len(target.t) - 1)])
        first = i * target.features
        named = tuple((f"x[{j}]", first + j) for j in range(target.features))
        form = plus(*(times(Constant(float(v)), Variable(f"x[{j}]")) for j, v in enumerate(w)), Constant(t))
        tree = of("clamp", form, Constant(target.lower), Constant(target.upper))
        direction = np.zeros(target.rows * target.features)
        direction[first : first + target.features] = w
        for j in range(target.outputs or 1):
            wanted = tree if j == target.output or target.outputs is None else Constant(0.0)
            yield (i, j), wanted, named, tuple(direction.tolist())
