"""The papers' padded self-attention and the lean head: the same numbers, the same certificate."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

import attnforge as af
from attnforge.network import Attention, Linear, Network, Softmax, Term
from attnforge.runtime import audit
from attnforge.theorems.padding import padded

CASES = {
    "a function": (lambda x: np.sin(3 * x[..., 0]) * x[..., 1], af.Box(0, 1, shape=(2,)), 4.0),
    "a token map": (lambda x: np.sort(x, axis=-2), af.Box(0, 1, shape=(2, 1)), 1.0),
}


def both(name: str, **options: object) -> tuple[af.Compiled, af.Compiled]:
    f, box, slope = CASES[name]
    build = af.constructions.max_affine
    return tuple(build(f, box, cells=5, lipschitz=slope, layout=layout, **options) for layout in ("memory", "literal"))


@pytest.mark.parametrize("sharpness", ["hard", "tuned"])
@pytest.mark.parametrize("name", CASES)
def test_layouts_agree(name, sharpness):
    memory, literal = both(name, sharpness=sharpness)
    x = np.random.default_rng(0).uniform(0, 1, (50, *memory.domain.shape))
    assert np.abs(memory(x) - literal(x)).max() <= 1e-12
    assert literal.certificate.bound == pytest.approx(memory.certificate.bound, rel=1e-6)
    assert literal.network.heads[0].memory_size == 0
    audit(literal.module(), torch.tensor(x))


@pytest.mark.parametrize("name", CASES)
def test_the_cost_of_padding_is_known_before(name):
    memory, literal = both(name, sharpness="hard")
    assert literal.parameters > 2 * memory.parameters


def test_a_changed_token_is_seen():
    _, literal = both("a function", sharpness="hard")
    encode = literal.network.layers[0]
    assert isinstance(encode, Linear)
    constant = encode.constant.copy()
    constant[7, -1] += 0.5  # the value that token 7 carries
    mutated = replace(literal.network, layers=(Linear(encode.terms, constant), *literal.network.layers[1:]))
    assert af.certify(mutated, literal.target).bound > literal.certificate.bound + 0.4
    moved = Linear((Term(None, np.roll(np.eye(1, 25), 1, axis=1)),))
    with pytest.raises(af.CertificateError, match="first tokens"):
        af.certify(replace(literal.network, layers=(*literal.network.layers[:2], moved)), literal.target)


def test_other_networks_are_not_padded():
    memory, _ = both("a function")
    head = memory.network.heads[0]
    with pytest.raises(af.RefusalError, match="linear map and one head"):
        padded(Network((Softmax(), Attention((head,))), len(head.query), 1))
