"""Functions of whole arrays that NumPy and torch have: sums, products of matrices, choices, layers of networks."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from attnforge.expression.functions import is_total
from attnforge.expression.reductions import REDUCTIONS
from attnforge.expression.simplify import ONE, ZERO, of, over
from attnforge.expression.tree import Constant, Node
from attnforge.targets.tracing import elementwise
from attnforge.targets.tracing.arrays import (
    NodeArray,
    Nodes,
    check_count,
    joined_arrays,
    nodes_of,
    on_entries,
    rearranged,
    refuse,
)
from attnforge.targets.tracing.elementwise import product, subtract, total


def along(function: Callable[..., Node], x: Any, axis: Any = None, keepdims: bool = False) -> Nodes:
    """A function of all entries along an axis, or of all of them."""
    nodes = nodes_of(x)
    axes = tuple(range(nodes.ndim)) if axis is None else np.atleast_1d(axis).tolist()
    axes = tuple(int(a) % max(nodes.ndim, 1) for a in axes) if nodes.ndim else ()
    kept = [a for a in range(nodes.ndim) if a not in axes]
    rows = nodes.transpose([*kept, *axes]).reshape([nodes.shape[a] for a in kept] + [-1])
    found = np.empty(rows.shape[:-1], dtype=object)
    for place in np.ndindex(found.shape):
        found[place] = function(*rows[place])
    return np.asarray(np.expand_dims(found, axes) if keepdims else found, dtype=object)


def mean(x: Any, axis: Any = None, keepdims: bool = False) -> Nodes:
    """The mean along an axis."""
    return along(lambda *nodes: over(total(*nodes), Constant(len(nodes))), x, axis, keepdims)


def largest(x: Any, axis: Any = None, keepdims: bool = False) -> Nodes:
    """The largest entry; of torch's two arguments, the larger."""
    if isinstance(axis, NodeArray) or hasattr(axis, "detach"):
        return on_entries(lambda a, b: of("max", a, b), x, axis)
    return along(lambda *nodes: of("max", *nodes) if len(nodes) > 1 else nodes[0], x, axis, keepdims)


def smallest(x: Any, axis: Any = None, keepdims: bool = False) -> Nodes:
    """The smallest entry; of torch's two arguments, the smaller."""
    if isinstance(axis, NodeArray) or hasattr(axis, "detach"):
        return on_entries(lambda a, b: of("min", a, b), x, axis)
    return along(lambda *nodes: of("min", *nodes) if len(nodes) > 1 else nodes[0], x, axis, keepdims)


def norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Nodes:
    """The norm of a vector: Euclidean, of 1, or the largest entry."""
    if nodes_of(x).ndim > 1 and axis is None:
        refuse("the norm of a matrix", "Give an axis")
    absolute = on_entries(lambda u: of("abs", u), x)
    if ord in (1, np.inf):
        return along(total, absolute, axis, keepdims) if ord == 1 else largest(absolute, axis, keepdims)
    if ord not in (None, 2, "fro"):
        refuse(f"the norm of order {ord}", "Use 1, 2 or infinity")
    return along(lambda *entries: REDUCTIONS["norm"](entries), x, axis, keepdims)


def matmul(a: Any, b: Any) -> Nodes:
    """The product of matrices and vectors: every entry is one sum, without what a weight of zero takes.

    This is left out where it has a value: zero times 1/x is not zero at zero.
    """
    left, right = nodes_of(a), nodes_of(b)
    if not left.ndim or not right.ndim or left.shape[-1] != right.shape[max(right.ndim - 2, 0)]:
        refuse(f"a matrix product of shapes {left.shape} and {right.shape}", "Make them fit")
    rows, columns = np.atleast_2d(left), right if right.ndim > 1 else right[:, None]
    batch = np.broadcast_shapes(rows.shape[:-2], columns.shape[:-2])
    check_count(math.prod(batch) * rows.shape[-2] * columns.shape[-1] * columns.shape[-2])
    rows = np.broadcast_to(rows, (*batch, *rows.shape[-2:]))
    columns = np.broadcast_to(columns, (*batch, *columns.shape[-2:]))
    found = np.empty((*batch, rows.shape[-2], columns.shape[-1]), dtype=object)
    for place in np.ndindex(found.shape):
        found[place] = _inner(rows[place[:-1]], columns[(*place[:-2], slice(None), place[-1])])
    found = found[..., 0] if right.ndim == 1 else found
    if left.ndim == 1:
        found = found[..., 0] if right.ndim == 1 else found[..., 0, :]
    return np.asarray(found, dtype=object)


def dot(a: Any, b: Any) -> Nodes:
    """NumPy's product: of numbers, vectors and matrices."""
    left, right = nodes_of(a), nodes_of(b)
    if right.ndim > 2:
        refuse("np.dot of more than two axes", "Use @")
    return matmul(left, right) if left.ndim and right.ndim else on_entries(product, left, right)


def linear(x: Any, weight: Any, bias: Any = None) -> Nodes:
    """Torch's affine layer: one sum a unit."""
    forms = matmul(x, nodes_of(weight).T)
    return forms if bias is None else on_entries(total, forms, bias)


def softmax(x: Any, axis: Any = None) -> Nodes:
    """exp(u - max) / sum of these, which no size of u makes overflow; of two entries, the logistic function."""
    nodes = nodes_of(x)
    if axis is None and nodes.ndim > 1:
        refuse("a softmax without an axis", "Give dim=-1")
    rows = np.moveaxis(nodes, -1 if axis is None else axis, -1)
    found = np.empty(rows.shape, dtype=object)
    for place in np.ndindex(rows.shape[:-1]):
        found[place] = _weights(list(rows[place]))
    return np.moveaxis(found, -1, -1 if axis is None else axis)


def clip(x: Any, a_min: Any = None, a_max: Any = None) -> Nodes:
    """Between bounds, of which one may be missing."""
    if a_min is not None and a_max is not None:
        return on_entries(lambda u, a, b: of("clamp", u, a, b), x, a_min, a_max)
    if a_min is not None:
        return on_entries(lambda u, a: of("max", u, a), x, a_min)
    return nodes_of(x) if a_max is None else on_entries(lambda u, b: of("min", u, b), x, a_max)


def gelu(x: Any, approximate: str = "none") -> Nodes:
    """Both of torch's."""
    if approximate == "tanh":
        return on_entries(lambda u: elementwise.apply("gelu_tanh", u), x)
    return on_entries(lambda u: elementwise.apply("gelu", u), x)


def softplus(x: Any, beta: float = 1.0, threshold: float = 20.0) -> Nodes:
    """log(1 + exp(beta u)) / beta itself: torch gives u where beta u exceeds the threshold, which is off by e^-20."""
    del threshold
    scale = Constant(float(beta))
    return on_entries(lambda u: over(of("softplus", product(scale, u)), scale), x)


def elu(x: Any, alpha: float = 1.0) -> Nodes:
    """Torch's ELU."""
    return on_entries(lambda u: elementwise.elu(u, Constant(float(alpha))), x)


def celu(x: Any, alpha: float = 1.0) -> Nodes:
    """Torch's CELU: alpha elu(u / alpha)."""
    scale = Constant(float(alpha))
    return on_entries(lambda u: product(scale, elementwise.elu(over(u, scale))), x)


def leaky_relu(x: Any, negative_slope: float = 0.01) -> Nodes:
    """Torch's leaky ReLU."""
    return on_entries(lambda u: elementwise.leaky_relu(u, Constant(float(negative_slope))), x)


def hardtanh(x: Any, min_val: float = -1.0, max_val: float = 1.0) -> Nodes:
    """Torch's Hardtanh."""
    return clip(x, min_val, max_val)


def dropout(x: Any, p: float = 0.5, training: bool = True) -> Nodes:
    """Nothing, when it is evaluated."""
    if training and p:
        refuse("a network in training, whose dropout is random", "Call module.eval() first")
    return nodes_of(x)


def batch_norm(
    x: Any,
    running_mean: Any,
    running_var: Any,
    weight: Any = None,
    bias: Any = None,
    training: bool = False,
    momentum: Any = None,
    eps: float = 1e-5,
) -> Nodes:
    """Shifted and scaled by what was learnt, feature by feature."""
    if training or running_mean is None or running_var is None:
        refuse("a normalisation by the batch itself", "Call module.eval() first")
    root = on_entries(lambda u: of("sqrt", total(u, Constant(eps))), running_var)
    found = on_entries(lambda u, m, s: over(subtract(u, m), s), x, running_mean, root)
    found = found if weight is None else on_entries(product, weight, found)
    return found if bias is None else on_entries(total, found, bias)


def stack(parts: Sequence[Any], axis: int = 0) -> Nodes:
    """Arrays along a new axis."""
    return joined_arrays(np.stack, parts, axis)


def concatenate(parts: Sequence[Any], axis: int = 0) -> Nodes:
    """Arrays along an axis that they have."""
    return joined_arrays(np.concatenate, parts, axis)


def reshape(x: Any, *shape: Any) -> Nodes:
    """Another shape."""
    given = shape[0] if len(shape) == 1 else shape
    return rearranged(lambda nodes: nodes.reshape(given), x)


def flatten(x: Any, start_dim: int = 0, end_dim: int = -1) -> Nodes:
    """Axes from the first to the last one joined."""
    nodes = nodes_of(x)
    last = end_dim % max(nodes.ndim, 1)
    return nodes.reshape((*nodes.shape[:start_dim], -1, *nodes.shape[last + 1 :]))


def same(x: Any, *kinds: Any, **options: Any) -> Nodes:
    """What changes no value: a copy, another place, or another dtype of floating point."""
    for kind in (*kinds, *options.values()):
        if _is_whole(kind):
            refuse(f"a conversion to {kind}", "Leave it out")
    return nodes_of(x)


def inner(a: Any, b: Any) -> Nodes:
    """The inner product of vectors."""
    if nodes_of(a).ndim != 1 or nodes_of(b).ndim != 1:
        refuse("an inner product of other arrays than vectors", "Use @")
    return matmul(a, b)


def _is_whole(kind: Any) -> bool:
    """Whether this is a dtype, of NumPy or torch, other than of floating point."""
    try:
        return bool(np.dtype(kind).kind != "f")
    except TypeError:
        return getattr(kind, "is_floating_point", True) is False


def _inner(row: Nodes, column: Nodes) -> Node:
    pairs = ((b, a) if isinstance(b, Constant) else (a, b) for a, b in zip(row, column, strict=True))
    return total(*(_no_part(b) if a == ZERO else product(a, b) for a, b in pairs))


def _no_part(node: Node) -> Node:
    """Zero, where a node has a value."""
    return ZERO if is_total(node) else product(ZERO, node)


def _weights(nodes: list[Node]) -> list[Node]:
    if len(nodes) == 1:
        return [total(ONE, _no_part(nodes[0]))]
    if len(nodes) == 2:
        return [of("sigmoid", subtract(*pair)) for pair in (nodes, nodes[::-1])]
    top = of("max", *nodes)
    powers = [of("exp", subtract(node, top)) for node in nodes]
    whole = total(*powers)
    return [over(each, whole) for each in powers]


OPERATIONS: dict[str, Callable[..., Nodes]] = {
    "sum": lambda x, axis=None, keepdims=False: along(total, x, axis, keepdims),
    "prod": lambda x, axis=None, keepdims=False: along(product, x, axis, keepdims),
    "mean": mean,
    "average": mean,
    "max": largest,
    "amax": largest,
    "min": smallest,
    "amin": smallest,
    "norm": norm,
    "vector_norm": norm,
    "linalg_norm": norm,
    "linalg_vector_norm": norm,
    "matmul": matmul,
    "mm": matmul,
    "mv": matmul,
    "rmatmul": lambda a, b: matmul(b, a),
    "rdiv": lambda a, b: on_entries(over, b, a),
    "rpow": lambda a, b: on_entries(elementwise.power, b, a),
    "dot": dot,
    "inner": inner,
    "vdot": inner,
    "linear": linear,
    "addmm": lambda bias, x, weight: on_entries(total, matmul(x, weight), bias),
    "softmax": softmax,
    "clip": clip,
    "clamp": clip,
    "where": lambda condition, a, b: on_entries(elementwise.where, condition, a, b),
    "gelu": gelu,
    "softplus": softplus,
    "elu": elu,
    "celu": celu,
    "leaky_relu": leaky_relu,
    "prelu": lambda x, weight: on_entries(elementwise.leaky_relu, x, weight),
    "hardtanh": hardtanh,
    "dropout": dropout,
    "batch_norm": batch_norm,
    "stack": stack,
    "column_stack": lambda parts: stack(parts, -1),
    "concatenate": concatenate,
    "concat": concatenate,
    "cat": concatenate,
    "hstack": lambda parts: concatenate([np.atleast_1d(nodes_of(part)) for part in parts], -1),
    "reshape": reshape,
    "view": reshape,
    "flatten": flatten,
    "ravel": flatten,
    "squeeze": lambda x, axis=None: rearranged(lambda nodes: np.squeeze(nodes, axis), x),
    "unsqueeze": lambda x, axis: rearranged(lambda nodes: np.expand_dims(nodes, axis), x),
    "expand_dims": lambda x, axis: rearranged(lambda nodes: np.expand_dims(nodes, axis), x),
    "transpose": lambda x, *axes: rearranged(lambda nodes: np.swapaxes(nodes, *axes) if axes else nodes.T, x),
    "t": lambda x: nodes_of(x).T,
    "copy": same,
    "clone": same,
    "detach": same,
    "contiguous": same,
    "to": same,
    "type": same,
    "astype": same,
    "float": same,
    "double": same,
}
