"""``af.diagnose`` on weights and on torch modules: numbers are torch's, and modules are left as they were."""

import tracemalloc

import numpy as np
import pytest
import torch
from torch import nn

import attnforge as af
from tests.refusals import refused

RNG = np.random.default_rng(0)
Q, K, V = RNG.normal(size=(3, 6, 4))
MEMORY = RNG.normal(size=(5, 4))
X = RNG.normal(size=(3, 7, 6))
LINE = np.column_stack([np.linspace(0, 9, 50), np.ones(50)])[:, None]  # queries (y, 1) of fifty sequences


def named(diagnosis, *, notes=True):
    return [(f.signature, f.severity) for f in diagnosis.findings if notes or f.severity != "note"]


def row(c, at=None):
    """Keys of a row of anchors one apart, for queries (y, 1)."""
    at = np.arange(10.0) if at is None else at
    return c * np.column_stack([2 * at, -at * at])


def heads(keys, **options):
    return af.AttentionWeights(np.eye(2), memory_keys=keys, scale=1.0, **options)


def spread(weights):
    """What is reported of weights (queries, keys): medians of the entropy, the largest and the two largest together."""
    raised = np.sort(weights, axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        entropy = -np.nansum(np.where(weights > 0, weights * np.log(weights), 0.0), axis=1)
    return np.median(entropy), np.median(raised[:, -1]), np.median(raised[:, -2:].sum(axis=1))


def reported(head):
    return head.entropy, head.largest_weight, head.two_nearest


# Weights as matrices


def test_numbers_of_a_head_by_hand():
    weights = np.array([0.5, 0.25, 0.25])
    keys = np.column_stack([np.zeros(3), np.log(weights)])
    (found,) = af.diagnose(heads(keys, dtype="float64"), LINE).heads
    assert found.entropy == pytest.approx(1.5 * np.log(2))
    assert reported(found)[1:] == pytest.approx((0.5, 0.75))
    assert (found.gap, found.entropy_if_uniform) == pytest.approx((np.log(2), np.log(3)))
    assert (found.keys, found.queries, found.finite, found.to_dict()["lost"]) == (3, 50, True, 0.0)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("memory", [None, MEMORY])
def test_weights_are_those_of_a_softmax_written_out(causal, memory):
    bias = RNG.normal(size=(2, 4))
    given = {"heads": 2, "causal": causal, "dtype": "float64"}
    found = af.diagnose(af.AttentionWeights(Q, torch.from_numpy(K), V, bias[0], bias[1:], memory, **given), X)
    for head in found.heads:
        cut = slice(2 * head.head, 2 * head.head + 2)
        queries, keys = X @ Q[:, cut] + bias[0, cut], X @ K[:, cut] + bias[1, cut]
        scores = queries @ keys.transpose(0, 2, 1) / np.sqrt(2)
        if causal:
            scores[:, np.triu(np.ones((7, 7), dtype=bool), 1)] = -np.inf
        if memory is not None:
            scores = np.concatenate([queries @ memory[:, cut].T / np.sqrt(2), scores], axis=2)
        weights = np.exp(scores) / np.exp(scores).sum(axis=2, keepdims=True)
        assert reported(head) == pytest.approx(spread(weights.reshape(21, -1)), abs=1e-12)


WRONG = {
    "no heads": {"heads": 0},
    "negative heads": {"heads": -2},
    "real heads": {"heads": 2.0},
    "too many heads": {"heads": 3},
    "key of other rows": {"key": K[:5]},
    "key of another width": {"key": K[:, :2]},
    "short query bias": {"query_bias": np.zeros(3)},
    "upright bias": {"key_bias": np.zeros((4, 1))},
    "bias of no key": {"key": None, "memory_keys": MEMORY, "key_bias": np.zeros(4)},
    "few values": {"memory_keys": MEMORY, "memory_values": np.zeros((2, 1))},
    "values of no keys": {"memory_values": np.zeros((2, 1))},
    "uneven values": {"value": V[:, :3], "heads": 2},
    "scale": {"scale": np.nan},
    "scale in words": {"scale": "big"},
    "value": {"value": "junk"},
    "infinite query": {"query": np.full((6, 4), np.inf)},
    "empty query": {"query": Q[:, :0]},
    "nothing to attend to": {"key": None},
}


@pytest.mark.parametrize("name", WRONG)
def test_weights_that_do_not_fit_are_refused(name):
    with refused(af.TargetError):
        af.diagnose(af.AttentionWeights(**{"query": Q, "key": K, **WRONG[name]}), X)


@pytest.mark.parametrize("x", [X[..., :5], X[0, 0], X[:0], X[:, :0]])
def test_tokens_that_do_not_fit_are_refused(x):
    with refused():
        af.diagnose(af.AttentionWeights(Q, K), x)


def test_uniform_attention_and_attention_that_is_only_soft():
    assert named(af.diagnose(heads(row(1e-5)), LINE)) == [("uniform attention", "warning")]
    assert named(af.diagnose(heads(0 * row(1.0)), LINE), notes=False) == [("uniform attention", "warning")]
    assert named(af.diagnose(heads(row(0.3)), LINE)) == []


def test_equal_keys_with_equal_and_with_different_values():
    keys = np.repeat(MEMORY[:1], 2, axis=0)
    given = af.AttentionWeights(Q, memory_keys=keys, memory_values=[[1.0, 2.0], [1.0, 3.0]], heads=2)
    found = [(f.where.head, f.severity) for f in af.diagnose(given, X).findings if f.signature == "duplicate keys"]
    assert found == [(1, "warning"), (0, "note")]


def test_numbers_that_a_dtype_cannot_hold():
    tiny, large = np.array([[1e-9, 0], [0, 1]]), LINE * [1.0, 0.0]
    for keys, signature in ((9e8, "score overflow"), (6e4, "underflow")):
        given = af.AttentionWeights(
            tiny, memory_keys=np.outer(np.linspace(0, keys, 5), [1, 0]), scale=1.0, dtype="float16"
        )
        assert (signature, "fault") in named(af.diagnose(given, large))


def test_too_many_keys_are_told_with_how_many_would_do():
    at, c = np.arange(16384.0), 17.0
    x = np.column_stack([np.random.default_rng(0).uniform(0, 16383, 100), np.ones(100)])[:, None]
    assert [f.signature for f in af.diagnose(heads(row(c, at)), x).faults] == ["lost argmax"]
    assert af.diagnose(heads(row(c, at[:64])), x * [63 / 16383, 1]).healthy
    centred = np.arange(-1000.0, 1000.0)
    queries = np.column_stack([np.linspace(-999, 999, 50), np.ones(50)])[:, None]
    (fault,) = af.diagnose(heads(row(1.0, centred), dtype="float16"), queries).faults
    assert fault.signature == "score overflow"
    assert "511" in fault.remedy  # 2000 sqrt(65504 / 1e6)


def test_memory_does_not_grow_with_the_batch():
    rng = np.random.default_rng(0)
    query, key = rng.normal(size=(2, 32, 64)) / 8
    tracemalloc.start()
    try:
        found = af.diagnose(af.AttentionWeights(query, key, heads=2), rng.normal(size=(4, 1024, 32)))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert [head.queries for head in found.heads] == [128, 128]
    assert peak < 300e6  # a copy of the keys for each of the 4096 queries would take 1.1 GB


# Modules of torch


class Masked(nn.Module):
    """An attention of tokens on themselves, with masks, so many times."""

    def __init__(self, attention, calls=1, **masks):
        super().__init__()
        self.attention, self.calls, self.masks = attention, calls, masks

    def forward(self, x):
        for _ in range(self.calls):
            x = 10 * self.attention(query=x, key=x, value=x[..., : self.attention.vdim], **self.masks)[0]
        return x


def attention(size=8, heads=2, **options):
    torch.manual_seed(0)
    return nn.MultiheadAttention(size, heads, batch_first=True, **options)


def later(tokens):
    return torch.triu(torch.ones(tokens, tokens, dtype=torch.bool), 1)


@pytest.mark.parametrize("batch", [8, 512])
def test_the_size_of_a_batch_does_not_hide_what_is_wrong(batch):
    sick = attention(64, 1)
    with torch.no_grad():
        sick.in_proj_weight[:128] *= 0.05
        sick.in_proj_bias[:] = 0
    found = af.diagnose(Masked(sick, attn_mask=later(128)), torch.randn(batch, 128, 64))
    assert named(found) == [("uniform attention", "warning")]


def test_tokens_are_those_of_the_call_whatever_happens_to_them_later():
    class Overwriting(Masked):
        def forward(self, x, mask):
            out = self.attention(x, x, x, attn_mask=mask)[0]
            x.mul_(0)
            mask.zero_()
            return out

    module, x, mask = Overwriting(attention()), torch.randn(2, 5, 8), torch.randn(5, 5)
    weights = module.attention(x, x, x, attn_mask=mask, average_attn_weights=False)[1].detach().double().numpy()
    kept = x.clone()
    for head in af.diagnose(module, (x, mask)).heads:
        assert reported(head) == pytest.approx(spread(weights[:, head.head].reshape(10, 5)), abs=1e-5)
    assert torch.equal(x, kept)


PADDING = torch.tensor([[False] * 4 + [True]] * 3)
MASKS = {
    "none": {},
    "causal": {"attn_mask": later(5)},
    "numbers": {"attn_mask": torch.linspace(-2, 2, 25).reshape(5, 5)},
    "by head": {"attn_mask": torch.linspace(-2, 2, 150).reshape(6, 5, 5)},
    "padding": {"key_padding_mask": torch.tensor([[False] * 5, [True] + 4 * [False], 3 * [False] + 2 * [True]])},
    "both": {"attn_mask": later(5), "key_padding_mask": PADDING},
    "by head and padding": {"attn_mask": later(5).expand(6, 5, 5), "key_padding_mask": PADDING},
}


@pytest.mark.parametrize("name", MASKS)
@pytest.mark.parametrize("options", [{}, {"add_bias_kv": True, "add_zero_attn": True}, {"kdim": 8, "vdim": 3}])
def test_weights_with_masks_are_those_of_torch(name, options):
    part, x = attention(**options), torch.randn(3, 5, 8)
    masked = {"average_attn_weights": False, **MASKS[name]}
    weights = part(x, x, x[..., : part.vdim], **masked)[1].detach().double().numpy()
    found = af.diagnose(Masked(part, **MASKS[name]), x)
    assert [head.head for head in found.heads] == [0, 1]
    for head in found.heads:
        assert head.queries == 15
        assert reported(head) == pytest.approx(spread(weights[:, head.head].reshape(15, -1)), abs=1e-5)


BLIND = {
    "an entry": ({"key_padding_mask": torch.tensor([[True] * 5, [False] * 5])}, 5),
    "a query": ({"attn_mask": torch.arange(5)[:, None].expand(5, 5) == 2}, 2),
    "together": (
        {"attn_mask": later(5), "key_padding_mask": torch.tensor([[True, True, False, False, False], [False] * 5])},
        2,
    ),
    "in one head": ({"attn_mask": (torch.arange(4) == 3)[:, None, None].expand(4, 5, 5)}, 5),
    "everywhere": ({"key_padding_mask": torch.ones(2, 5, dtype=torch.bool)}, 10),
}


@pytest.mark.parametrize("name", BLIND)
def test_queries_that_see_no_key_are_left_out_and_counted(name):
    masks, blind = BLIND[name]
    found = af.diagnose(Masked(attention(), **masks), torch.randn(2, 5, 8))
    assert {head.queries for head in found.heads} == {10 - blind}
    assert not found.faults
    assert any(f"{blind} queries" in text for text in found.unknown)
    kept = af.diagnose(Masked(attention(add_zero_attn=True), **masks), torch.randn(2, 5, 8))
    assert {head.queries for head in kept.heads} == {10}


def test_an_encoder_with_padding_in_evaluation_mode():
    encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 4, batch_first=True), 2).eval()
    padding = torch.zeros(3, 6, dtype=torch.bool)
    padding[0, 4:] = True
    found = af.diagnose(encoder, (torch.randn(3, 6, 16), None, padding))
    assert [(head.layer, head.head) for head in found.heads] == [(i, j) for i in range(2) for j in range(4)]
    assert torch.backends.mha.get_fastpath_enabled()


def test_the_module_is_left_as_it_was():
    norm, drop = nn.BatchNorm1d(5), nn.Dropout(0.5)
    module = nn.Sequential(norm, drop, Masked(attention())).train()
    drop.eval()
    x = torch.randn(4, 5, 8) + 3
    first, second = (af.diagnose(module, x) for _ in range(2))
    assert torch.equal(norm.running_mean, torch.zeros(5))
    assert (module.training, norm.training, drop.training) == (True, True, False)
    assert [head.to_dict() for head in first.heads] == [head.to_dict() for head in second.heads]
    with refused(af.DomainError):
        af.diagnose(module, torch.randn(2, 5, 7))
    assert (module.training, drop.training) == (True, False)
    assert torch.backends.mha.get_fastpath_enabled()
    assert not any(part._forward_pre_hooks for part in module.modules())


def test_the_first_and_the_last_call_of_an_attention_are_looked_at():
    once, often = (af.diagnose(Masked(attention(), calls), torch.randn(2, 5, 8)) for calls in (1, 7))
    assert (len(once.heads), len(often.heads)) == (2, 4)
    assert often.heads[0].entropy != often.heads[2].entropy
