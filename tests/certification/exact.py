"""Formulas at one point by balls, runs in long doubles, and small networks of every kind to compare them on."""

from __future__ import annotations

import numpy as np
from flint import arb

import attnforge as af
from attnforge.expression import enclose, parse
from attnforge.expression.tree import Node
from attnforge.network import Attention, Head, Linear, Network, Rows, Softmax, Term, apply_layer, layers_in
from benchmarks.formulas import error_at


def in_long_doubles(network: Network, x: np.ndarray) -> np.ndarray:
    """The network in extended precision."""
    state = x.astype(np.longdouble)
    for layer in layers_in(network, np.longdouble):
        state = apply_layer(layer, state)
    return state


def true_error(net: af.Compiled, text: str, box: dict[str, tuple[float, float]]) -> float:
    """The largest error at some points of the box, against 400 digits."""
    low, high = (np.array(ends) for ends in zip(*box.values(), strict=True))
    points = low + (high - low) * np.random.default_rng(5).random((50, len(box)))
    outputs, tree = np.asarray(net(points)).reshape(-1).tolist(), parse(text)
    places = (dict(zip(box, point, strict=True)) for point in points.tolist())
    found = [error_at(tree, place, output) for place, output in zip(places, outputs, strict=True)]
    return max(error for error in found if error is not None)


def formula_at(tree: Node, point: dict[str, float]) -> arb:
    """The exact value at a point, by interval arithmetic on the tree."""
    return enclose(tree, {name: arb(x) for name, x in point.items()})


def networks(rng: np.random.Generator, sharpness: float = 3.0) -> dict[str, Network]:
    """Random small networks, one for every kind of layer and of head, on two inputs."""

    def some(*shape: int) -> np.ndarray:
        return rng.uniform(-1, 1, size=shape)

    def memory(keys: int = 5, width: int = 2, values: int = 2, out: int = 1, **rest) -> Head:
        return Head(
            sharpness * some(2, width), some(values, out), memory_keys=some(keys, width),
            memory_values=some(keys, values), **rest,
        )  # fmt: skip

    def reading(features: int, rows: Rows, out: int, keys: int = 0, **rest) -> Head:
        held = {"memory_keys": some(keys, 2), "memory_values": some(keys, 2)} if keys else {}
        return Head(
            sharpness * some(features, 2), some(2, out), key=some(features, 2), value=some(features, 2),
            key_rows=rows, **held, **rest,
        )  # fmt: skip

    one = Linear((Term(some(2, 2)),), some(1, 2))
    wide = Linear((Term(sharpness * some(2, 6)),), some(1, 6))
    mixed = Linear((Term(some(2, 2, 2), some(2, 2)), Term(some(2, 2))), some(2, 2))
    tokens = Linear((Term(some(1, 2)),), some(1, 2))
    read = Linear((Term(some(2, 1)),))
    return {
        "memory": Network((one, Attention((memory(),))), 2, 1),
        "two heads": Network((Attention((memory(), memory(values=3))),), 2, 1),
        "residual": Network((Attention((memory(out=2), memory(out=2)), residual=True), read), 2, 1),
        "own": Network((one, Attention((reading(2, Rows("own"), 1, keys=2),))), 2, 1),
        "two layers": Network((Attention((memory(out=2),)), one, Attention((memory(),))), 2, 1),
        "softmax": Network((wide, Softmax(), Linear((Term(some(6, 2)),), some(1, 2)), read), 2, 1),
        "rows": Network((tokens, Attention((reading(2, Rows(), 1),))), 1, 2),
        "rows and memory": Network((tokens, Attention((reading(2, Rows(), 2, keys=3),), residual=True), read), 1, 2),
        "some rows": Network(
            (
                tokens,
                Attention((reading(2, Rows.some([1]), 2, query_rows=Rows.some([0])), memory(out=2)), residual=False),
                read,
            ),
            1,
            2,
        ),
        "mixes": Network((tokens, mixed, Attention((memory(out=2),)), read), 1, 2),
    }  # fmt: skip
