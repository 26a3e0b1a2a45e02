"""One frozen network, many heads: the matrices are in the prompt."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

import attnforge as af
from attnforge.errors import CertificateError, DomainError, FileFormatError, RefusalError, TargetError
from attnforge.in_context import load_prompt
from attnforge.in_context.head_emulation import HeadNetwork, attention_prompt
from attnforge.runtime import audit

RNG = np.random.default_rng(3)
ONE, OTHER = (tuple(RNG.normal(size=(6, width)) / 2 for width in (4, 4, 3)) for _ in range(2))
X = RNG.uniform(-2, 2, size=(25, 6))


def softmax_attention(x: np.ndarray, w_q: np.ndarray, w_k: np.ndarray, w_v: np.ndarray) -> np.ndarray:
    """PyTorch's own head, as the judge."""
    q, k, v = (torch.from_numpy(x @ w) for w in (w_q, w_k, w_v))
    return torch.nn.functional.scaled_dot_product_attention(q, k, v, scale=1.0).numpy()


@pytest.mark.parametrize("matrices", [ONE, OTHER])
def test_it_runs_the_head_in_its_prompt(matrices):
    net, prompt = attention_prompt(*matrices, data_bound=2.0)
    off = np.abs(net(X, prompt) - softmax_attention(X, *matrices)).max()
    assert off <= 1e-10
    assert off <= prompt.bound_on(X) <= prompt.bound(tokens=25) <= 1e-5
    np.testing.assert_allclose(prompt.exact(X), softmax_attention(X, *matrices), atol=1e-12)


def test_swapping_prompts_swaps_heads():
    (net, one), (same, other) = (attention_prompt(*matrices, data_bound=2.0) for matrices in (ONE, OTHER))
    assert net == same == HeadNetwork(6, 4, 3)
    assert net.digest == same.digest
    assert np.abs(net(X, one) - net(X, other)).max() > 0.1
    with pytest.raises(AssertionError):
        np.testing.assert_allclose(net(X, one), softmax_attention(X, *OTHER), atol=0.1)


def test_any_number_of_tokens_and_batches():
    net, prompt = attention_prompt(*ONE, data_bound=2.0)
    for n in (1, 2, 40):
        x = RNG.uniform(-2, 2, size=(3, 2, n, 6))
        found = net(x, prompt)
        assert found.shape == (3, 2, n, 3)
        np.testing.assert_allclose(found, prompt.exact(x), atol=1e-10)
    assert prompt.bound(10) < prompt.bound(10_000)


def test_torch_equals_numpy():
    net, prompt = attention_prompt(*(torch.from_numpy(matrix) for matrix in ONE), data_bound=2.0)
    found = net(torch.from_numpy(X), prompt)
    np.testing.assert_array_equal(found.numpy(), net(X, prompt))
    np.testing.assert_allclose(net.network(X, prompt.tokens), found.numpy(), atol=1e-11)
    audit(net.module(), torch.from_numpy(X), torch.from_numpy(prompt.tokens.copy()))


def test_float32_runs_at_its_own_sharpness():
    net, prompt = attention_prompt(*ONE, data_bound=2.0, dtype="float32")
    off = np.abs(net(X.astype(np.float32), prompt) - softmax_attention(X, *ONE)).max()
    assert net(X.astype(np.float32), prompt).dtype == np.float32
    assert off <= 1e-3
    assert off <= prompt.bound_on(X) <= prompt.bound(25)
    assert net.digest == attention_prompt(*ONE)[0].digest


def test_sharp_heads_are_emulated_too():
    """Scores of hundreds: the head picks one token, and so does its emulation."""
    sharp = (20 * ONE[0], 2 * ONE[1], ONE[2])
    net, prompt = attention_prompt(*sharp, data_bound=2.0)
    off = np.abs(net(X, prompt) - softmax_attention(X, *sharp)).max()
    assert off <= 1e-8
    assert off <= prompt.bound_on(X)


def test_the_bound_on_a_batch_is_that_of_its_worst_entry():
    _, prompt = attention_prompt(*ONE, data_bound=2.0)
    batch = np.stack([0.1 * X, X])
    assert prompt.bound_on(batch) == pytest.approx(prompt.bound_on(X))
    assert prompt.bound_on(0.1 * X) < prompt.bound_on(X)


def test_refusals():
    net, prompt = attention_prompt(*ONE, data_bound=2.0)
    with pytest.raises(DomainError, match="at most 2"):
        net(X * 3, prompt)
    with pytest.raises(DomainError, match="finite"):
        net(np.where(X > 0, np.nan, X), prompt)
    with pytest.raises(DomainError, match=r"\(\.\.\., n, 6\)"):
        net(X[:, :5], prompt)
    with pytest.raises(DomainError, match=r"\(\.\.\., n, 6\)"):
        net(X[:0], prompt)
    with pytest.raises(DomainError, match="real numbers"):
        net("X", prompt)
    with pytest.raises(DomainError, match="heads of"):
        HeadNetwork(6, 3, 3)(X, prompt)
    with pytest.raises(DomainError, match="at most 2"):
        prompt.bound_on(X * 3)
    with pytest.raises(TargetError, match="tokens"):
        prompt.bound(0)
    with pytest.raises(TargetError, match="w_v"):
        attention_prompt(ONE[0], ONE[1], "matrix")
    with pytest.raises(TargetError, match="data_bound"):
        attention_prompt(*ONE, data_bound=0.0)
    with pytest.raises(RefusalError, match="float64 or float32"):
        attention_prompt(*ONE, dtype="float16")
    with pytest.raises(ValueError, match="read-only"):
        prompt.tokens[0, 0] = 1.0


def test_the_certificate_is_that_of_the_longest_sequence():
    net, prompt = attention_prompt(*ONE, data_bound=2.0, tokens=25)
    certificate = prompt.certificate
    assert certificate.status == "proved"
    assert set(certificate.parts) == {"projection", "rounding"}
    assert certificate.bound == prompt.bound(25)
    assert np.abs(net(X, prompt) - prompt.exact(X)).max() <= certificate.bound
    assert 0 < certificate.estimate.error <= certificate.bound
    assert attention_prompt(*ONE, data_bound=2.0)[1].certificate.bound == prompt.bound(1024)


def test_the_prompt_is_compiled():
    """The network that has the tokens as constant keys runs the same numbers as the frozen one given the prompt."""
    net, prompt = attention_prompt(*ONE, data_bound=2.0, tokens=25)
    compiled = prompt.compiled
    np.testing.assert_allclose(compiled(X), net(X, prompt), atol=1e-12)
    assert prompt.describe() == str(compiled)
    assert "attention head on up to 25 tokens: 6 features" in str(compiled)
    assert [len(layer) for layer in compiled.attention(X)] == [2, 1]
    assert af.measure(compiled, points=200).sup <= prompt.certificate.bound
    with pytest.raises(DomainError, match="at most 25 tokens"):
        compiled(np.zeros((26, 6)))
    with pytest.raises(DomainError, match="certified domain"):
        compiled(X * 3)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_saved_loaded_and_checked(tmp_path, dtype):
    _, prompt = attention_prompt(*ONE, data_bound=2.0, tokens=25, dtype=dtype)
    prompt.save(tmp_path / "head.safetensors")
    again = load_prompt(tmp_path / "head.safetensors")
    np.testing.assert_array_equal(again.tokens, prompt.tokens)
    assert again.certificate == prompt.certificate
    assert again.bound_on(X) == prompt.bound_on(X)
    assert af.check(tmp_path / "head.safetensors").verdict == "confirmed"
    other = prompt.compiled.with_network(prompt.with_tokens(1.5 * prompt.tokens).network)
    other.save(tmp_path / "other.safetensors")
    assert load_prompt(tmp_path / "other.safetensors").certificate.bound > 0.01
    doubled = prompt.compiled.with_network(_doubled(prompt.network))
    doubled.save(tmp_path / "doubled.safetensors")
    with pytest.raises(FileFormatError, match="hold a prompt"):
        load_prompt(tmp_path / "doubled.safetensors")


def _doubled(network: af.Network) -> af.Network:
    """Another network than the frozen one."""
    *before, last = network.layers
    head = last.heads[0]
    return replace(network, layers=(*before, replace(last, heads=(replace(head, output=2 * head.output),))))


CHANGES = (1.5, 100.0, -1.0, "ulp", "more")


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_every_entry_of_every_token_enters_the_bound(dtype):
    """A bound that never reads the tokens is beaten by each of these."""
    net, prompt = attention_prompt(*(w[:3, :2] for w in ONE), data_bound=2.0, tokens=9, dtype=dtype)
    x = np.concatenate([RNG.uniform(-2, 2, size=(6, 9, 3)), RNG.choice([-2.0, 0.0, 2.0], size=(6, 9, 3))])
    wanted, before, beaten = prompt.exact(x), prompt.bound(9), 0
    for entry in np.ndindex(prompt.tokens.shape):
        for changed in (CHANGES[sum(entry) % 5], CHANGES[(sum(entry) + 2) % 5]):  # two an entry, all in every column
            tokens = prompt.tokens.copy()
            if isinstance(changed, float):
                tokens[entry] *= changed
            else:
                tokens[entry] += np.spacing(np.asarray(tokens[entry], dtype=dtype)) if changed == "ulp" else 10.0
            other = prompt.with_tokens(tokens)
            off = np.abs(net(x, other) - wanted).max()
            assert off <= other.bound_on(x) <= other.bound(9) * (1 + 1e-9)
            beaten += off > before
    assert beaten > 50


def test_tokens_that_are_no_prompt_are_refused():
    _, prompt = attention_prompt(*ONE, data_bound=2.0)
    with pytest.raises(TargetError, match="width 17"):
        prompt.with_tokens(prompt.tokens[:, 1:])
    with pytest.raises(TargetError, match="finite"):
        prompt.with_tokens(np.full_like(prompt.tokens, np.nan))
    with pytest.raises(CertificateError, match="12 constant keys"):
        prompt.with_tokens(prompt.tokens[1:])
    with pytest.raises(TargetError, match="tokens"):
        attention_prompt(*ONE, tokens=0)
    with pytest.raises(RefusalError, match=r"All numbers of a run|must be finite"):
        prompt.with_tokens(1e200 * prompt.tokens)
