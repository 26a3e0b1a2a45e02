"""The network as an object: it is called, printed, counted and rounded; rows take what they name."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from attnforge.network import Attention, Network, Rows, count_keys, count_parameters, describe, flatten, rounded
from tests.network.examples import NETWORKS, alone, head, inputs, reference


def test_calling_and_printing():
    network = NETWORKS["deep"]
    np.testing.assert_allclose(network(*inputs(network)), reference(network, *inputs(network)), rtol=1e-13)
    assert str(network) == describe(network)
    assert len(network.heads) == 3


def test_rows_take_what_they_name():
    tokens = np.arange(24.0).reshape(2, 4, 3)
    assert Rows().take(tokens) is tokens
    np.testing.assert_array_equal(Rows.some([3, 0]).take(tokens), tokens[:, [3, 0]])
    assert Rows.some([1], "context").source == "context"
    assert [head(memory=7).memory_size, head(rows=Rows()).memory_size] == [7, 0]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_rounding_rounds_every_weight_and_nothing_else(dtype):
    before, after = (flatten(each)[1] for each in (NETWORKS["deep"], rounded(NETWORKS["deep"], dtype)))
    assert before.keys() == after.keys()
    for name, array in before.items():
        is_weight = array.dtype == np.float64 and "claims" not in name
        wanted = torch.tensor(array).to(getattr(torch, dtype)).double().numpy() if is_weight else array
        np.testing.assert_array_equal(after[name], wanted)
    assert any(not np.array_equal(before[name], after[name]) for name in before)


def test_a_deep_network_has_a_line_for_each_layer():
    lines = describe(NETWORKS["deep"]).splitlines()
    total, nonzero = count_parameters(NETWORKS["deep"])
    assert lines[0] == f"Network on (4, 3) tokens: {total:,} parameters, {nonzero:,} non-zero"
    kinds = ["linear", "attention", "softmax", "attention", "linear"]
    assert [line.split()[:2] for line in lines[1:]] == [[f"{i}.", kind] for i, kind in enumerate(kinds, 1)]
    said = [("constant", "P[4, 3, 3]"), ("4 memory keys", "own token", "residual", "(example, sharpness 2.5)"), (),
            ("all tokens",), ("Q[2, 4]",)]  # fmt: skip
    assert all(word in line for line, words in zip(lines[1:], said, strict=True) for word in words)


def test_like_heads_and_repeated_blocks_are_listed_once():
    text = describe(NETWORKS["unequal heads"])
    assert "2 heads: 3 memory keys" in text
    assert "3 heads: 5 memory keys" in text
    assert "1 head: 2 memory keys and own token" in text
    layer = Attention((head(memory=3),), residual=True)
    text = describe(Network((layer,) * 20, layer.heads[0].query.shape[0]))
    assert "20 times the same 1 layer:" in text
    assert len(text.splitlines()) == 3


def test_a_large_network_stays_a_few_lines():
    text = describe(alone(Attention(tuple(head(seed=i, memory=50) for i in range(100)))))
    assert len(text) < 200
    assert "100 heads: 50 memory keys" in text
    wide = Network((Attention((head(rows=Rows.some(np.arange(5000))),)),), 3, 5000)
    assert len(describe(wide)) < 300


@pytest.mark.parametrize("name", NETWORKS)
def test_every_example_prints_without_nan_or_none(name):
    text = describe(NETWORKS[name])
    assert "None" not in text
    assert "nan" not in text
    assert len(text.splitlines()) == 1 + len(NETWORKS[name].layers)


def test_keys_are_counted_from_the_numbers():
    deep, wanted = NETWORKS["deep"], 0
    for each in deep.heads:
        kind = None if each.key_rows is None else each.key_rows.kind
        wanted += each.memory_size + {None: 0, "own": 1, "all": deep.tokens}[kind]
    assert count_keys(deep) == wanted > 0


def test_parameters_counted_by_hand():
    counted = {
        "a map per token": 4 * 3 * 2 + 4 * 2,  # maps and constants
        "memory": 3 * 2 + 2 * 3 + 5 * (2 + 2),  # query, output, keys and values
        "some of the context and memory": 3 * 2 + 2 * 3 + 2 * 2 + 2 * 2 + 2 * (2 + 2),  # row indices are none
        "softmax": 0,
        "identity": 0,
    }
    assert {name: count_parameters(NETWORKS[name])[0] for name in counted} == counted
    total, nonzero = count_parameters(NETWORKS["deep"])
    assert total - nonzero == 6  # np.eye(2, 4) has two ones; claims are no weights
