"""Grouping of heads, and the kernel they run on."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch

from attnforge.network import Rows
from attnforge.runtime import AttentionNetwork, operations
from attnforge.runtime.dense import HeadGroup, group_heads, write
from tests.network.examples import NETWORKS, UNEQUAL, alone, head, inputs


def test_like_heads_are_grouped_and_their_order_is_kept():
    order, groups = group_heads(UNEQUAL)
    assert [len(group) for group in groups] == [2, 2, 1, 1, 1]
    flat = [one for group in groups for one in group]
    assert len(flat) == len(UNEQUAL)
    assert all(flat[place] is one for place, one in zip(order, UNEQUAL, strict=True))


def test_heads_with_other_rows_or_other_sources_are_kept_apart():
    one = head(rows=Rows())
    others = [
        replace(one, query_rows=Rows.some([0])),
        replace(one, query_rows=Rows.some([1])),
        replace(one, key_rows=Rows.some([0])),
        replace(one, key_rows=Rows("own")),
        replace(one, key_rows=Rows(source="context")),
        head(memory=2),
        head(memory=3),
    ]
    assert len(group_heads((one, *others))[1]) == 1 + len(others)
    assert len(group_heads((one, one, one))[1]) == 1


def test_equal_heads_are_one_call_of_attention(monkeypatch):
    calls = []
    attend = torch.nn.functional.scaled_dot_product_attention

    def counted(*args, **kwargs):
        calls.append(kwargs["scale"])
        return attend(*args, **kwargs)

    monkeypatch.setattr(torch.nn.functional, "scaled_dot_product_attention", counted)
    from attnforge.network import Attention

    network = alone(Attention(tuple(head(seed=i, memory=6) for i in range(9))))
    (tokens,) = inputs(network, 2)
    found = AttentionNetwork(network, torch.float64)(torch.tensor(tokens))
    np.testing.assert_allclose(found.numpy(), network(tokens), rtol=1e-12, atol=1e-13)
    assert calls == [1.0]


def test_the_fused_kernel_is_used_where_values_are_narrower_or_wider():
    for name in ("memory", "wide values"):
        given = [torch.tensor(x, dtype=torch.float32) for x in inputs(NETWORKS[name], 2)]
        seen = operations(AttentionNetwork(NETWORKS[name], torch.float32), *given)
        assert any("scaled_dot_product" in operation for operation in seen)


def test_a_group_adds_to_what_is_there():
    one = head(memory=3, query_rows=Rows.some([2, 0]))
    group = HeadGroup([one], torch.float64, trainable=False)
    state = torch.tensor(inputs(NETWORKS["memory"], 2)[0])
    base = torch.full((2, 4, 3), 7.0, dtype=torch.float64)
    alone_ = write([group], state, None, None)
    torch.testing.assert_close(write([group], state, None, base), base + alone_)
    assert (base == 7.0).all()
    assert not alone_[:, [1, 3]].any()
    assert alone_[:, [0, 2]].any()


def test_groups_that_write_alike_write_together():
    groups = [HeadGroup([head(memory=size)], torch.float64, trainable=False) for size in (2, 3, 5)]
    state = torch.tensor(inputs(NETWORKS["memory"], 2)[0])
    alone_ = [write([group], state, None, None) for group in groups]
    torch.testing.assert_close(write(groups, state, None, None), sum(alone_))
