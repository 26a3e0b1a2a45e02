"""Grouping of heads, and the kernel they run on."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

import attnforge as af
from attnforge.network import FEW, Attention, Rows
from attnforge.runtime import AttentionNetwork, dense, operations
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


@pytest.fixture
def calls(monkeypatch):
    """The scales of all calls of the fused kernel."""
    found = []
    attend = torch.nn.functional.scaled_dot_product_attention

    def counted(*args, **kwargs):
        found.append(kwargs["scale"])
        return attend(*args, **kwargs)

    monkeypatch.setattr(torch.nn.functional, "scaled_dot_product_attention", counted)
    return found


def follows(*heads):
    network = alone(Attention(heads))
    (tokens,) = inputs(network, 2)
    found = AttentionNetwork(network, torch.float64)(torch.tensor(tokens))
    np.testing.assert_allclose(found.numpy(), network(tokens), rtol=1e-12, atol=1e-13)
    return found


def test_equal_heads_are_one_call_of_attention(calls):
    follows(*(head(seed=i, memory=FEW + 1) for i in range(9)))
    assert calls == [1.0]


@pytest.mark.parametrize("rows", [None, Rows("own")])
def test_heads_of_few_keys_are_written_out(calls, rows):
    """What certificates assume of them in float32 holds for no fused kernel."""
    own = int(rows is not None)
    for keys in (1, 2, 9, FEW):
        one = head(memory=keys - own, rows=rows) if keys > own else head(rows=rows)
        assert one.is_small
        follows(one)
        assert not calls
    assert not head(memory=FEW + 1 - own, rows=rows).is_small
    assert not head(memory=1, rows=Rows()).is_small
    follows(head(memory=1, rows=Rows()))
    assert calls == [1.0]


def test_many_queries_are_taken_in_parts(monkeypatch):
    """However many there are, no more scores are held at once than stated."""
    monkeypatch.setattr(dense, "HELD", 7)
    whole = follows(head(seed=1, memory=3), head(seed=2, memory=3, rows=Rows("own")))
    monkeypatch.undo()
    torch.testing.assert_close(whole, follows(head(seed=1, memory=3), head(seed=2, memory=3, rows=Rows("own"))))


@pytest.mark.parametrize("shape", [(1, 2, 4096), (8, 2, 3), (512, 2, 1)])
def test_exponentials_of_a_softmax_that_is_written_out_are_as_assumed(shape):
    """Of exp(x) beside exp(0), x so small that their sum is 1: what is left is the exponential itself."""
    scores = torch.zeros(shape)
    scores[:, 1] = -17.5 - 69 * torch.rand(shape[0], shape[2], generator=torch.Generator().manual_seed(0))
    found, exact = torch.softmax(scores, dim=1)[:, 1].double(), scores[:, 1].double().exp()
    units = 2.0 ** (exact.log2().floor() - 23)
    assert ((found - exact).abs() <= 2 * units).all()  # ULPS are 4; the kernel promises one


def test_the_fused_kernel_is_used_where_values_are_narrower_or_wider():
    for one in (head(memory=FEW + 1), head(memory=FEW + 1, r=1, v=5)):
        network = alone(Attention((one,)))
        given = [torch.tensor(x, dtype=torch.float32) for x in inputs(network, 2)]
        seen = operations(AttentionNetwork(network, torch.float32), *given)
        assert any("scaled_dot_product" in operation and "math" not in operation for operation in seen)


def test_a_group_adds_to_what_is_there():
    one = head(memory=3, query_rows=Rows.some([2, 0]))
    group = HeadGroup([one], torch.float64, trainable=False)
    state = torch.tensor(inputs(NETWORKS["memory"], 2)[0])
    base = torch.full((2, 4, 3), 7.0, dtype=torch.float64)
    alone_ = write([group], group(state, None), state, None)
    torch.testing.assert_close(write([group], group(state, None), state, base), base + alone_)
    assert (base == 7.0).all()
    assert not alone_[:, [1, 3]].any()
    assert alone_[:, [0, 2]].any()


def test_groups_that_write_alike_write_together():
    groups = [HeadGroup([head(memory=size)], torch.float64, trainable=False) for size in (2, 3, 5)]
    state = torch.tensor(inputs(NETWORKS["memory"], 2)[0])
    alone_ = [write([group], group(state, None), state, None) for group in groups]
    means = torch.cat([group(state, None) for group in groups])
    torch.testing.assert_close(write(groups, means, state, None), sum(alone_))


def test_features_that_are_picked_follow_the_weights():
    """Maps with one entry a column are run by picking: what changes them in place, or loads others, is noticed."""
    net = af.constructions.gate([1.0, -0.5], 0.1, -1, 2)
    module, x = net.module(), torch.tensor([[[0.7, 0.2]]], dtype=torch.float64)
    before = module(x)
    (group,) = (part for part in module.modules() if isinstance(part, HeadGroup))
    assert group._picked(group.value, "value") is not None
    group.value.mul_(2)
    group.memory_values.mul_(2)
    assert module(x) == 2 * before
    group.value[:, -1] += 1.0  # the constant, too: two entries
    assert group._picked(group.value, "value") is None
    assert module(x) == pytest.approx(2 * before + 1, abs=1e-9)
    module.load_state_dict(net.module().state_dict())
    assert module(x) == before
