r"""One step of an algorithm as a block of layers: clear the workspace, residuals, gradient, proximal map.

Every block is linear maps, softmax heads and residual connections; T steps are T times the same block.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np
import numpy.typing as npt

from attnforge.lemmas.link_row import Row
from attnforge.network import Attention, Head, Layer, Linear, Rows, Term
from attnforge.targets.in_context.algorithm import Algorithm
from attnforge.targets.in_context.features import Features
from attnforge.theorems.in_context.interpolation import interpolated_links, scaled_states
from attnforge.theorems.in_context.sharpness import Sharpness
from attnforge.theorems.in_context.small_sharpness import (
    aggregation,
    direct_gradient,
    exponential_link,
    identity_link,
    logistic_link,
    richardson,
    softmax_link,
    state_rows,
)

Array = npt.NDArray[np.float64]


def block(algorithm: Algorithm, features: Features, sharpness: Sharpness) -> tuple[Layer, ...]:
    """The layers of one step."""
    layers = [*_residual_layers(algorithm, features, sharpness), _update(algorithm, features, sharpness)]
    if algorithm.l1:
        layers.append(_proximal(algorithm, features, sharpness.gate))
    return tuple(layers)


def _residual_layers(algorithm: Algorithm, features: Features, sharpness: Sharpness) -> list[Layer]:
    """What writes residual + y into the workspace; least squares needs none, unless it is interpolated."""
    if sharpness.row:
        return _interpolated(features, sharpness.row)
    if algorithm.link == "identity":
        return []
    heads: dict[str, Callable[[], tuple[Head, ...]]] = {
        "clamp": lambda: (identity_link(features, sharpness.residual),),
        "logistic": lambda: (logistic_link(features),),
        "softmax": lambda: (softmax_link(features, 1.0), softmax_link(features, -1.0)),
        "exponential": lambda: (exponential_link(features, 1.0), exponential_link(features, -1.0)),
    }
    layers: list[Layer] = [_cleared(features, "residual"), Attention(heads[algorithm.link](), residual=True)]
    if algorithm.link == "clamp":
        layers.append(_clamped(algorithm.delta, features, sharpness.gate))
    return layers


def _interpolated(features: Features, row: Row) -> list[Layer]:
    """Anchors take up the state, examples read them; y is added where it was inside the link."""
    links = interpolated_links(features, row)
    if row.link in ("identity", "clamp"):
        add = _own(features, features.matrix(("y", 1.0)), features.writing("residual", 1.0))
        links = (*links, replace(add, query_rows=Rows()))
    copies = Attention((scaled_states(features),), residual=True)
    return [_cleared(features, "residual", "scaled"), copies, Attention(links, residual=True)]


def _update(algorithm: Algorithm, features: Features, sharpness: Sharpness) -> Layer:
    """The gradient step: aggregation, and the quadratic penalty as a head whose only key is its token."""
    direct = algorithm.link == "identity" and not sharpness.row
    make = partial(direct_gradient if direct else aggregation, features)
    beta, factor = sharpness.aggregation, -algorithm.learning_rate
    heads = richardson(make, beta, factor) if sharpness.extrapolated else (make(beta, factor / beta),)
    if algorithm.l2:
        shrink = algorithm.penalised(features.inputs) * (-algorithm.learning_rate * algorithm.l2)
        heads = (*heads, _own(features, features.matrix(("w", 1.0)), shrink[:, None] * features.writing("w", 1.0)))
    return Attention(heads, residual=True)


def _proximal(algorithm: Algorithm, features: Features, beta: float) -> Layer:
    """W - clamp(w, -threshold, threshold): one gate a penalised weight."""
    threshold = algorithm.learning_rate * algorithm.l1
    places = features.w.start + np.flatnonzero(algorithm.penalised(features.inputs))
    return Attention(tuple(_gate(features, int(j), threshold, beta, -1.0) for j in places), residual=True)


def _clamped(delta: float, features: Features, beta: float) -> Layer:
    """The workspace s becomes clamp(s) + y: a gate, and a head that takes s away and adds y."""
    place = features.residual.start
    value = features.matrix(("residual", -1.0), ("y", 1.0), into=1)
    rest = replace(_own(features, value, features.writing("residual", 1.0)), query_rows=Rows())
    gate = replace(_gate(features, place, delta, beta, 1.0), query_rows=Rows())
    return Attention((gate, rest), residual=True)


def _gate(features: Features, place: int, reach: float, beta: float, factor: float) -> Head:
    """Adds factor times clamp(z, -reach, reach) to feature z of the state tokens."""
    query, value, output = np.zeros((features.width, 2)), np.zeros((features.width, 1)), np.zeros((1, features.width))
    query[place, 0], value[place, 0], output[0, place] = beta, 1.0, factor
    for flag in (features.first, features.mirrored, features.state):
        query[flag, 1] = beta
    return Head(
        query,
        output,
        state_rows(features),
        key=np.zeros((features.width, 2)),
        value=value,
        key_rows=Rows("own"),
        memory_keys=np.array([[-1.0, -reach], [1.0, -reach]]),
        memory_values=np.array([[-reach], [reach]]),
    )


def _own(features: Features, value: Array, output: Array) -> Head:
    """A head of the state tokens whose only key is its own token: a linear map, added."""
    nothing = np.zeros((features.width, 1))
    return Head(nothing, output, state_rows(features), nothing, value, Rows("own"))


def _cleared(features: Features, *names: str) -> Layer:
    keep = np.eye(features.width)
    for name in names:
        keep[getattr(features, name), getattr(features, name)] = 0.0
    return Linear((Term(keep),))
