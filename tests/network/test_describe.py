"""A printed network names its layers, counts its keys and parameters."""

from __future__ import annotations

import numpy as np
import pytest

from attnforge.network import Attention, Network, Rows, count_keys, count_parameters, describe
from tests.network.examples import NETWORKS, alone, head


def test_a_deep_network_has_a_line_for_each_layer():
    text = describe(NETWORKS["deep"])
    lines = text.splitlines()
    total, nonzero = count_parameters(NETWORKS["deep"])
    assert lines[0] == f"Network on (4, 3) tokens: {total:,} parameters, {nonzero:,} non-zero"
    kinds = ["linear", "attention", "softmax", "attention", "linear"]
    assert [line.split()[1] for line in lines[1:]] == kinds
    assert [line.split()[0] for line in lines[1:]] == [f"{i}." for i in range(1, 6)]
    assert "constant" in lines[1]
    assert "P[4, 3, 3]" in lines[1]
    assert "4 memory keys" in lines[2]
    assert "own token" in lines[2]
    assert "residual" in lines[2]
    assert "(example, sharpness 2.5)" in lines[2]
    assert "all tokens" in lines[4]
    assert "Q[2, 4]" in lines[5]


def test_like_heads_share_a_line():
    text = describe(NETWORKS["unequal heads"])
    assert "2 heads: 3 memory keys" in text
    assert "3 heads: 5 memory keys" in text
    assert "1 head: 2 memory keys and own token" in text


def test_the_second_input_is_named():
    assert "all tokens of the second input" in describe(NETWORKS["context"])


def test_any_number_of_tokens_is_n():
    assert describe(NETWORKS["softmax"]).startswith("Network on (n, 3) tokens: 0 parameters")


def test_a_large_network_stays_a_few_lines():
    heads = tuple(head(seed=i, memory=50) for i in range(100))
    text = describe(alone(Attention(heads)))
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


def test_repeated_blocks_are_listed_once():
    layer = Attention((head(memory=3),), residual=True)
    text = describe(Network((layer,) * 20, layer.heads[0].query.shape[0]))
    assert "20 times the same 1 layer:" in text
    assert len(text.splitlines()) == 3


def test_keys_are_counted_from_the_numbers():
    deep = NETWORKS["deep"]
    rows = deep.tokens
    wanted = 0
    for layer in deep.layers:
        for each in layer.heads if isinstance(layer, Attention) else ():
            kind = None if each.key_rows is None else each.key_rows.kind
            listed = 0 if kind != "some" else len(each.key_rows.indices)
            wanted += each.memory_size + {None: 0, "own": 1, "all": rows, "some": listed}[kind]
    assert count_keys(deep) == wanted > 0
