"""Trained attention: shapes, known outputs, reproducible starts, and a loss that falls."""

from __future__ import annotations

import pytest
import torch

from attnforge.experiments.training import MemoryHeads, PaddedSelfAttention, train
from tests.clock import Clock


def test_memory_heads_are_a_softmax_mean_of_their_values() -> None:
    module = MemoryHeads(1, 2, width=1)
    with torch.no_grad():
        module.query.fill_(1.0)
        module.offset.zero_()
        module.keys.copy_(torch.tensor([[[0.0], [1.0]]]))
        module.values.copy_(torch.tensor([[0.0, 10.0]]))
    found = module(torch.tensor([[2.0]]))
    assert found.item() == pytest.approx(10 * torch.sigmoid(torch.tensor(2.0)).item())


def test_memory_heads_add_up() -> None:
    module = MemoryHeads(2, 3, heads=2)
    with torch.no_grad():
        module.values.copy_(torch.tensor([[1.0, 1.0, 1.0], [0.5, 0.5, 0.5]]))
    assert torch.allclose(module(torch.randn(4, 5, 2)), torch.full((4, 5), 1.5))


def test_padded_self_attention_against_attention_written_out() -> None:
    module = PaddedSelfAttention(3, 4, 6, heads=2, width=8, seed=5)
    x = torch.randn(2, 4, 3, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        module.factors.copy_(torch.arange(32.0).reshape(4, 8) / 32)
        rows = torch.cat([module.embed(x) * module.factors, module.extra.expand(2, -1, -1)], dim=1)
        query, key, value = module.project(rows).split(8, dim=-1)
        heads = []
        for head in (slice(0, 4), slice(4, 8)):
            weights = torch.softmax(query[..., head] @ key[..., head].mT / 2, dim=-1)  # the root of 4 features
            heads.append(weights @ value[..., head])
        wanted = module.mix(torch.cat(heads, dim=-1))[:, :4]
        assert torch.allclose(module(x), wanted, atol=1e-6)


def test_padded_tokens_start_on_a_line() -> None:
    module = PaddedSelfAttention(3, 4, 7, width=2)
    assert module.extra.tolist() == [[-1.0, -1.0], [0.0, 0.0], [1.0, 1.0]]
    assert module.factors.tolist() == [[1.0, 1.0]] * 4


def test_starts_follow_from_the_seed_and_leave_the_global_generator_alone() -> None:
    torch.manual_seed(1)
    state = torch.random.get_rng_state()
    first, second, other = (PaddedSelfAttention(3, 4, 6, seed=seed) for seed in (0, 0, 1))
    assert torch.equal(torch.random.get_rng_state(), state)
    assert torch.equal(first.embed.weight, second.embed.weight)
    assert not torch.equal(first.embed.weight, other.embed.weight)


def _line() -> tuple[torch.Tensor, torch.Tensor]:
    x = torch.linspace(-1, 1, 64)[:, None]
    return x, x[:, 0]


def test_training_lowers_the_loss_and_is_reproducible(monkeypatch: pytest.MonkeyPatch) -> None:
    Clock(tick=1.0).install(monkeypatch, "experiments.training")
    fits = [train(MemoryHeads(1, 8), *_line(), epochs=10, batch=16, seed=3) for _ in range(2)]
    assert fits[0].losses == fits[1].losses
    assert len(fits[0].losses) == 10
    assert fits[0].losses[-1] < fits[0].losses[0] / 2
    assert fits[0].seconds == 1.0  # a look before, and one after


def test_a_constant_step_size_differs_from_a_falling_one_after_the_first_epoch() -> None:
    falling = train(MemoryHeads(1, 8), *_line(), epochs=4, batch=16)
    constant = train(MemoryHeads(1, 8), *_line(), epochs=4, batch=16, constant=True)
    assert falling.losses[0] == constant.losses[0]
    assert falling.losses[-1] != constant.losses[-1]


def test_after_is_told_every_epoch_and_frozen_weights_stay() -> None:
    module, told = MemoryHeads(1, 8), list[int]()
    module.keys.requires_grad_(False)
    before = module.keys.clone(), module.values.detach().clone()
    train(module, *_line(), epochs=3, batch=32, after=told.append)
    assert told == [1, 2, 3]
    assert torch.equal(module.keys, before[0])
    assert not torch.equal(module.values.detach(), before[1])
