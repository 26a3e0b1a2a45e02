"""The network as an object: call, print, heads, rebuild, round."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from attnforge.errors import FileFormatError
from attnforge.network import describe, digest, flatten, rounded, unflatten
from attnforge.network.flatten import is_weight
from tests.network.examples import NETWORKS, inputs, reference


@pytest.mark.parametrize("name", NETWORKS)
def test_flatten_and_unflatten_are_inverse(name):
    network = NETWORKS[name]
    again = unflatten(*flatten(network))
    assert digest(again) == digest(network)
    given = inputs(network, 2)
    np.testing.assert_array_equal(again(*given), network(*given))
    assert (again.tokens, again.features, again.context) == (network.tokens, network.features, network.context)


def test_calling_and_printing():
    network = NETWORKS["deep"]
    (tokens,) = inputs(network)
    np.testing.assert_allclose(network(tokens), reference(network, tokens), rtol=1e-13)
    assert str(network) == describe(network)
    assert len(network.heads) == 3


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_rounding_rounds_every_weight_and_nothing_else(dtype):
    network = NETWORKS["deep"]
    before, after = flatten(network)[1], flatten(rounded(network, dtype))[1]
    assert before.keys() == after.keys()
    for name, array in before.items():
        wanted = torch.tensor(array).to(getattr(torch, dtype)).double().numpy() if is_weight(name) else array
        np.testing.assert_array_equal(after[name], wanted)
    assert any(not np.array_equal(before[name], after[name]) for name in before)


def _without(key):
    return lambda skeleton, arrays: skeleton.pop(key)


BROKEN = {
    "no layers": _without("layers"),
    "no context": _without("context"),
    "no tokens": _without("tokens"),
    "a foreign layer": lambda skeleton, arrays: skeleton["layers"][0].update(kind="relu"),
    "layers that are none": lambda skeleton, arrays: skeleton.update(layers=[None]),
    "features that are no number": lambda skeleton, arrays: skeleton.update(features="many"),
    "a head without query": lambda skeleton, arrays: arrays.pop("layer1.head0.query"),
    "claims without positions": lambda skeleton, arrays: arrays.pop("layer1.head0.claims.positions"),
    "a sharpness that is no number": lambda skeleton, arrays: skeleton["layers"][1]["heads"][0]["claims"].update(
        sharpness="sharp"
    ),
    "rows without indices": lambda skeleton, arrays: skeleton["layers"][1]["heads"][0]["query_rows"].update(
        kind="some"
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_skeleton_that_does_not_fit_is_refused(name):
    skeleton, arrays = flatten(NETWORKS["deep"])
    BROKEN[name](skeleton, arrays)
    with pytest.raises(FileFormatError, match=r"^[A-Z].*Got "):
        unflatten(skeleton, arrays)
