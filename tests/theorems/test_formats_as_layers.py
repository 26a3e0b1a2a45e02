"""Linear layers that turn concatenated or interleaved tokens into the prompt: copies, exact in every entry."""

from __future__ import annotations

import numpy as np
import pytest

import attnforge as af
from attnforge.in_context import concatenated, interleaved
from attnforge.network import Network
from attnforge.theorems.in_context.formats import from_concatenated, from_interleaved
from tests.refusals import refused

FORMATS = {"concatenated": (concatenated, from_concatenated, 4), "interleaved": (interleaved, from_interleaved, 3)}


@pytest.mark.parametrize("route", ["small_sharpness", "interpolation"])
@pytest.mark.parametrize("name", FORMATS)
def test_the_layers_give_exactly_the_prompt(name, route):
    tokens_of, layers_of, width = FORMATS[name]
    net = af.in_context.LeastSquares(steps=1, learning_rate=0.1, route=route).build(features=3, certify=False)
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(2, 5, 3)), rng.normal(size=(2, 5))
    layers = layers_of(net.features, 5)
    reading = Network(layers, width, 5 if name == "concatenated" else 10)
    assert np.array_equal(reading(tokens_of(x, y)), net.prompt(x, y))
    entries = [array for layer in layers for term in layer.terms for array in (term.map, term.mix)]
    assert {*np.concatenate([array.ravel() for array in entries]).tolist()} <= {-1.0, 0.0, 1.0}
    for examples in (0, 10_000):
        with refused(af.AttnforgeError):
            layers_of(net.features, examples)
