"""What is seen of a torch module while it runs, and that it is left as it was."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from attnforge.errors import DomainError
from attnforge.measurement.diagnosis import diagnose_views, module_views
from attnforge.measurement.diagnosis.view import NUMBERS, HeadView, chosen_rows


class Masked(nn.Module):
    """An attention of tokens on themselves, with masks."""

    def __init__(self, attention: nn.MultiheadAttention, **masks: Any) -> None:
        super().__init__()
        self.attention, self.masks = attention, masks

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.attention(x, x, x, **self.masks)[0]


def attention(size: int = 8, heads: int = 2, **options: Any) -> nn.MultiheadAttention:
    torch.manual_seed(0)
    return nn.MultiheadAttention(size, heads, batch_first=True, **options)


def later(tokens: int) -> torch.Tensor:
    return torch.triu(torch.ones(tokens, tokens, dtype=torch.bool), 1)


def test_rows_are_not_the_same_position_of_every_sequence() -> None:
    rows, tokens = chosen_rows(512 * 128, 128 * 64, seed=0), 128
    assert len(rows) == NUMBERS // (128 * 64)
    assert len(np.unique(rows % tokens)) > tokens / 2
    assert np.array_equal(rows, chosen_rows(512 * 128, 128 * 64, seed=0))
    assert not np.array_equal(rows, chosen_rows(512 * 128, 128 * 64, seed=1))


@pytest.mark.parametrize("batch", [8, 512])
def test_the_size_of_a_batch_does_not_hide_what_is_wrong(batch: int) -> None:
    sick = attention(64, 1)
    with torch.no_grad():
        sick.in_proj_weight[:128] *= 0.05
        sick.in_proj_bias[:] = 0
    found = diagnose_views(module_views(Masked(sick, attn_mask=later(128)), (torch.randn(batch, 128, 64),)))
    assert [(f.signature, f.severity) for f in found.findings] == [("uniform attention", "warning")]


def test_tokens_are_those_of_the_call_whatever_happens_to_them_later() -> None:
    class Overwriting(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.attention = attention()

        def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
            out = self.attention(x, x, x, attn_mask=mask)[0]
            x.mul_(0)
            mask.zero_()
            return out

    module, x, mask = Overwriting(), torch.randn(2, 5, 8), torch.randn(5, 5)
    expected = module.attention(x, x, x, attn_mask=mask, average_attn_weights=False)[1].detach().double().numpy()
    kept = x.clone()
    for view in module_views(module, (x, mask)):
        assert np.allclose(view.ran, expected[:, view.head].reshape(10, 5), atol=1e-6)
        assert np.allclose(weights(view), view.ran, atol=1e-5)
    assert torch.equal(x, kept)


def weights(view: HeadView) -> np.ndarray:
    scores = view.scores(slice(None))
    raised = np.exp(scores - scores.max(axis=1, keepdims=True))
    return (raised / raised.sum(axis=1, keepdims=True)).astype(np.float64)


MASKS = {
    "none": {},
    "causal": {"attn_mask": later(5)},
    "numbers": {"attn_mask": torch.linspace(-2, 2, 25).reshape(5, 5)},
    "by head": {"attn_mask": torch.linspace(-2, 2, 150).reshape(6, 5, 5)},
    "padding": {"key_padding_mask": torch.tensor([[False] * 5, [True] + 4 * [False], 3 * [False] + 2 * [True]])},
    "both": {"attn_mask": later(5), "key_padding_mask": torch.tensor([[False] * 4 + [True]] * 3)},
    "by head and padding": {
        "attn_mask": later(5).expand(6, 5, 5),
        "key_padding_mask": torch.tensor([[False] * 4 + [True]] * 3),
    },
}


@pytest.mark.parametrize("name", MASKS)
@pytest.mark.parametrize("options", [{}, {"add_bias_kv": True, "add_zero_attn": True}, {"kdim": 8, "vdim": 3}])
def test_weights_with_masks_are_those_of_torch(name: str, options: dict[str, Any]) -> None:
    part, x = attention(**options), torch.randn(3, 5, 8)
    value = torch.randn(3, 5, 3) if "vdim" in options else x
    expected = part(x, x, value, average_attn_weights=False, **MASKS[name])[1].detach().double().numpy()

    class Named(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.part = part

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.part(query=x, key=x, value=value, **MASKS[name])[0]

    views = list(module_views(Named(), (x,)))
    assert [view.head for view in views] == [0, 1]
    for view in views:
        assert view.blind == 0
        assert np.allclose(view.ran, expected[:, view.head].reshape(15, -1), atol=1e-6)
        assert np.allclose(weights(view), view.ran, atol=1e-5)


BLIND = {
    "an entry": ({"key_padding_mask": torch.tensor([[True] * 5, [False] * 5])}, 5),
    "a query": ({"attn_mask": torch.arange(5)[:, None].expand(5, 5) == 2}, 2),
    "together": (
        {"attn_mask": later(5), "key_padding_mask": torch.tensor([[True, True, False, False, False], [False] * 5])},
        2,
    ),
    "in one head": ({"attn_mask": (torch.arange(4) == 3)[:, None, None].expand(4, 5, 5)}, 5),
}


@pytest.mark.parametrize("name", BLIND)
def test_queries_that_see_no_key_are_left_out_and_counted(name: str) -> None:
    masks, blind = BLIND[name]
    views = list(module_views(Masked(attention(), **masks), (torch.randn(2, 5, 8),)))
    assert {(view.blind, len(view.queries)) for view in views} == {(blind, 10 - blind)}
    found = diagnose_views(views)
    assert not found.faults
    assert any(f"{blind} queries of attention to which a mask forbids every key" in text for text in found.unknown)


def test_an_attention_that_sees_nothing_at_all() -> None:
    masks = {"key_padding_mask": torch.ones(2, 5, dtype=torch.bool)}
    found = diagnose_views(module_views(Masked(attention(), **masks), (torch.randn(2, 5, 8),)))
    assert [head.queries for head in found.heads] == [0, 0]
    assert not found.findings
    assert "10 queries" in str(found)
    kept = list(module_views(Masked(attention(add_zero_attn=True), **masks), (torch.randn(2, 5, 8),)))
    assert [view.blind for view in kept] == [0, 0]


def test_an_encoder_with_padding_in_evaluation_mode() -> None:
    layer = nn.TransformerEncoderLayer(16, 4, batch_first=True)
    encoder = nn.TransformerEncoder(layer, 2).eval()
    padding = torch.zeros(3, 6, dtype=torch.bool)
    padding[0, 4:] = True
    views = list(module_views(encoder, (torch.randn(3, 6, 16), None, padding)))
    assert len(views) == 8
    assert all(view.ran[:4, 4:].max() == 0 for view in views)
    assert torch.backends.mha.get_fastpath_enabled()


def test_the_module_is_left_as_it_was() -> None:
    norm, drop = nn.BatchNorm1d(5), nn.Dropout(0.5)
    module = nn.Sequential(norm, drop, Masked(attention())).train()
    drop.eval()
    x = torch.randn(4, 5, 8) + 3
    first, second = (list(module_views(module, (x,))) for _ in range(2))
    assert torch.equal(norm.running_mean, torch.zeros(5))
    assert (module.training, norm.training, drop.training) == (True, True, False)
    assert np.array_equal(first[0].queries, second[0].queries)
    assert not any(part._forward_pre_hooks for part in module.modules())


def test_a_module_that_fails_is_left_as_it_was_too() -> None:
    module = Masked(attention()).train()
    with pytest.raises(DomainError, match=r"The module must run on x\. Got") as caught:
        module_views(module, (torch.randn(2, 5, 7),))
    assert caught.value.remedy
    assert module.attention.training
    assert torch.backends.mha.get_fastpath_enabled()
    assert not module.attention._forward_pre_hooks


def test_the_first_and_the_last_call() -> None:
    class Twice(nn.Module):
        def __init__(self, calls: int) -> None:
            super().__init__()
            self.attention, self.calls = attention(), calls

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            for _ in range(self.calls):
                x = 10 * self.attention(x, x, x)[0]
            return x

    assert [view.name for view in module_views(Twice(1), (torch.randn(2, 5, 8),))] == ["attention"] * 2
    views = list(module_views(Twice(7), (torch.randn(2, 5, 8),)))
    assert [view.name for view in views] == ["attention"] * 2 + ["attention, call 7 of 7"] * 2
    assert not np.allclose(views[0].queries, views[2].queries)
