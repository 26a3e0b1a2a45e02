"""Attention that divides a box: max-affine cells, bumps around grid points, and cells of two inputs at once."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

import attnforge as af
from attnforge.zoo.citations import HU, LIU
from attnforge.zoo.entry import UNHURRIED, Entry

Array = npt.NDArray[np.float64]

CELLS, BUMPS, PAIRS = "partition", "bumps", "cross-attention"

# Places of 48 cells: multiples of the powers of 1 / 1.3487..., the plastic number, cover the square evenly.
CENTRES = np.stack([(0.5 + np.arange(1, 49) * share) % 1.0 for share in (0.7548776664866927, 0.5698402909980532)], 1)


def ordered(x: Array) -> Array:
    """Tokens in increasing order; in the sup norm sorting moves nothing by more than its inputs move."""
    return np.sort(x, axis=-2)


def product(x: Array, y: Array) -> Array:
    """The product of two numbers; on [0, 1] its slopes by both add up to at most 2."""
    return np.asarray(x[..., 0] * y[..., 0])


ENTRIES = (
    Entry(
        "cells_on_a_grid",
        CELLS,
        "sin(3 x) cos(2 y)",
        "x, y in [-1, 1]",
        "one head; a key a cell of a 12 x 12 grid, with scores beta (2 v . x - |v|^2) that are largest for the "
        "nearest centre v, and the function at v for its value; ghosts beyond the border",
        LIU,
        lambda: af.constructions.max_affine(
            "sin(3*x)*cos(2*y)", {"x": (-1, 1), "y": (-1, 1)}, cells=12, effort=UNHURRIED
        ),
    ),
    Entry(
        "voronoi_cells",
        CELLS,
        "x y, constant on 48 Voronoi cells",
        "x, y in [0, 1]",
        "one head; keys are 48 given points, the softmax so sharp that it selects the nearest: weights tell the cell "
        "of a point",
        LIU,
        lambda: af.constructions.max_affine("x*y", {"x": (0, 1), "y": (0, 1)}, cells=CENTRES, effort=UNHURRIED),
    ),
    Entry(
        "cells_where_it_is_steep",
        CELLS,
        "x^8 by 16 cells, small where it is steep",
        "x in [0, 1]",
        "one head; cells are halved where the function varies most, their keys score as a power diagram",
        LIU,
        lambda: af.constructions.max_affine("x^8", {"x": (0, 1)}, cells=af.anchors.Adaptive(16), effort=UNHURRIED),
    ),
    Entry(
        "cells_as_tokens",
        CELLS,
        "|x| by 8 cells, in the paper's own layout",
        "x in [-1, 1]",
        "self-attention over a sequence padded by a token a cell; the hard limit: each token reads its cell's value",
        LIU,
        lambda: af.constructions.max_affine(
            "abs(x)", {"x": (-1, 1)}, cells=8, layout="literal", sharpness="hard", effort=UNHURRIED
        ),
    ),
    Entry(
        "two_layers",
        BUMPS,
        "x^3 - x",
        "x in [-1, 1]",
        "the first layer writes a bump around each of 12 grid points, by two gates each; a head of the second takes "
        "the bumps for scores and retrieves the function at the centre whose bump is largest",
        HU,
        lambda: af.constructions.two_layer("x^3 - x", {"x": (-1, 1)}, grid=12, effort=UNHURRIED),
    ),
    Entry(
        "sort_three",
        BUMPS,
        "three tokens in increasing order",
        "3 tokens (3, 1) in [0, 1]",
        "as `two_layers`, for a map of sequences: bumps of three inputs add up to the scores of 64 centres, each "
        "of which holds a sorted sequence",
        HU,
        lambda: af.constructions.two_layer(ordered, af.Box(0, 1, shape=(3, 1)), grid=4, lipschitz=1, effort=UNHURRIED),
    ),
    Entry(
        "softmax_tail",
        BUMPS,
        "cos(3 x)",
        "x in [-1, 1]",
        "one layer of attention writes the bumps around 12 grid points; a softmax over features, between linear maps, "
        "takes the place of the second",
        HU,
        lambda: af.constructions.softmax_tail("cos(3*x)", {"x": (-1, 1)}, grid=12, effort=UNHURRIED),
    ),
    Entry(
        "product_of_two_inputs",
        PAIRS,
        "x y, keys and values from X, queries from Y",
        "X and Y (1,) in [0, 1], called as net(X, Y)",
        "one head of cross-attention; a key a cell of the 16 x 16 grid of both inputs, made from X by a linear map and "
        "asked by Y: the hard limit",
        LIU,
        lambda: af.constructions.cross_attention(
            product,
            af.Box(0, 1, shape=(1,)),
            af.Box(0, 1, shape=(1,)),
            grid=16,
            sharpness="hard",
            lipschitz=2,
            effort=UNHURRIED,
        ),
    ),
)
