"""The frozen head of cross-attention, the tokens read from a head, and the network that holds them as constants."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attnforge.compiler.targets import as_target
from attnforge.errors import RefusalError, TargetError
from attnforge.network import Attention, Head, Linear, Network, Rows, Term, check_architecture, digest, flatten
from attnforge.theorems.in_context.function_prompt import (
    AsPrompt,
    PromptShape,
    frozen_network,
    memory_network,
    prompt_tokens,
)
from attnforge.theorems.registry import construction

ONE, TWO = PromptShape(1, 1), PromptShape(2, 1)


def built(name: str, text: str, domain: dict, tol: float = 1e-3) -> Network:
    target = as_target(text, domain)
    return construction(name).build(target, construction(name).size(target, tol, "float64"))


def test_two_anchors_make_a_logistic_function():
    tokens = np.array([[0.0, 0.0, 0.0], [2.0, -1.0, 1.0]])  # scores 0 and 2 x - 1, values 0 and 1
    x = np.array([[[-3.0]], [[0.5]], [[4.0]]])
    wanted = 1 / (1 + np.exp(1 - 2 * x))
    np.testing.assert_allclose(frozen_network(ONE)(x, tokens), wanted, rtol=1e-15)


def test_weights_are_zeros_and_ones():
    for shape in (ONE, TWO, PromptShape(3, 2)):
        network = frozen_network(shape)
        assert check_architecture(network) == shape.outputs
        weights = np.concatenate([array.ravel() for array in flatten(network)[1].values()])
        assert set(weights.tolist()) <= {0.0, 1.0}


def test_two_builds_give_identical_bytes():
    assert digest(frozen_network(TWO)) == digest(frozen_network(TWO))
    assert len({digest(frozen_network(shape)) for shape in (ONE, TWO, PromptShape(1, 2))}) == 3


@given(st.integers(1, 3), st.integers(1, 2), st.integers(1, 6), st.integers(0, 10**6))
def test_frozen_with_a_prompt_is_the_network_with_constant_keys(d, k, p, seed):
    rng, shape = np.random.default_rng(seed), PromptShape(d, k)
    tokens, x = rng.normal(size=(p, shape.width)), rng.normal(size=(5, 1, d))
    constant = memory_network(shape, tokens, "tensor_grid")
    np.testing.assert_allclose(frozen_network(shape)(x, tokens), constant(x), rtol=1e-12, atol=1e-12)


@given(st.permutations(range(6)))
def test_the_order_of_tokens_does_not_matter(order):
    rng = np.random.default_rng(1)
    tokens, x = rng.normal(size=(6, 3)), rng.normal(size=(4, 1, 1))
    network = frozen_network(ONE)
    np.testing.assert_allclose(network(x, tokens[list(order)]), network(x, tokens), rtol=1e-13)


CASES = [
    ("tensor_grid", "sin(8*x)", {"x": (-1, 1)}),
    ("tensor_grid", "abs(x - 0.25)", {"x": (-1, 1)}),
    ("tensor_grid", "sin(x*y)", {"x": (-1, 1), "y": (0, 2)}),
    ("polynomial", "x^3 - x", {"x": (0, 2)}),
    ("ridge", "sin(x + 2*y)", {"x": (-1, 1), "y": (0, 1)}),
    ("max_affine", "sin(3*x)*y", {"x": (-1, 1), "y": (0, 1)}),
]


@pytest.mark.parametrize(("name", "text", "domain"), CASES)
def test_tokens_compute_what_the_head_did(name, text, domain):
    network = built(name, text, domain, 0.1 if name == "max_affine" else 1e-3)
    low, high = np.array(list(domain.values()), dtype=float).T
    x = np.random.default_rng(0).uniform(low, high, size=(500, 1, len(low)))
    found = frozen_network(PromptShape(len(low), 1))(x, prompt_tokens(network))
    np.testing.assert_allclose(found, network(x), atol=1e-10)


def test_tokens_of_a_uniform_row_are_twice_beta_c_and_minus_beta_c_squared():
    network = built("tensor_grid", "sin(2*x)", {"x": (-1, 1)})
    claims, tokens = network.heads[0].claims, prompt_tokens(network)
    c = claims.positions.ravel()
    beta = claims.sharpness / np.diff(c)[0] ** 2
    centred = tokens[:, :2] - tokens[0, :2]  # the softmax sees differences of keys only
    np.testing.assert_allclose(centred[:, 0], 2 * beta * (c - c[0]), rtol=1e-12)
    np.testing.assert_allclose(centred[:, 1], -beta * (c**2 - c[0] ** 2), rtol=1e-10, atol=1e-12)


def test_offsets_of_a_grid_stay_with_their_axis():
    tokens = prompt_tokens(built("tensor_grid", "sin(x*y)", {"x": (-1, 1), "y": (0, 2)}))
    rows, columns = (len(np.unique(tokens[:, axis])) for axis in (0, 1))
    assert rows * columns == len(tokens)
    assert [len(np.unique(tokens[:, [axis, 2 + axis]], axis=0)) for axis in (0, 1)] == [rows, columns]


def test_what_has_no_constant_keys_is_refused():
    gate = built("gate", "clamp(x, -1, 1)", {"x": (-2, 2)})
    with pytest.raises(RefusalError, match=r"constant keys|linear maps"):
        prompt_tokens(gate)
    with pytest.raises(RefusalError, match="2 heads"):
        prompt_tokens(built("additive", "sin(x) + cos(y)", {"x": (-1, 1), "y": (0, 1)}))


def test_other_layers_are_refused():
    network = memory_network(ONE, np.zeros((2, 3)), "tensor_grid")
    encode, attention = network.layers
    both = replace(attention.heads[0], output=np.ones((1, 2)))
    residual = Network((encode, replace(attention, heads=(both,), residual=True)), 1, 1)
    with pytest.raises(RefusalError, match="other layers"):
        prompt_tokens(residual)
    doubled = Network((Linear((Term(np.eye(1, 2)), Term(np.eye(1, 2)))), attention), 1, 1)
    with pytest.raises(RefusalError, match="one map at a time"):
        prompt_tokens(doubled)
    told = Head(np.eye(2), np.eye(1), key=np.eye(2), value=np.ones((2, 1)), key_rows=Rows())
    with pytest.raises(RefusalError, match="constant keys"):
        prompt_tokens(Network((encode, Attention((told,))), 1, 1))


def test_shapes_are_checked():
    with pytest.raises(TargetError, match="at least one input"):
        PromptShape(0, 1)
    for shape in [(3,), (0, 3), (4, 5)]:
        with pytest.raises(TargetError, match=r"\(\.\.\., n, 3\)"):
            ONE.check(shape)
    with pytest.raises(TargetError, match="inputs"):
        memory_network(TWO, np.zeros((2, 3)), "tensor_grid")


def test_a_construction_as_a_prompt_counts_tokens():
    target = as_target("sin(8*x)", {"x": (-1, 1)})
    inner = construction("tensor_grid")
    prompted = AsPrompt(inner)
    plan = prompted.size(target, 1e-3, "float64")
    network = prompted.build(target, plan)
    assert prompted.cost(target, plan).anchors == inner.cost(target, plan).anchors == network.heads[0].memory_size
    assert prompted.accepts(target) is None
    assert prompted.bound(target, plan) == inner.bound(target, plan)
    assert AsPrompt(construction("ridge")).accepts(target) == construction("ridge").accepts(target) is not None
