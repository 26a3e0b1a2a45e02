"""One frozen network, many heads: the matrices are in the prompt."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

import attnforge as af
from attnforge.in_context import HeadNetwork, attention_prompt, load_prompt
from attnforge.network import moved
from tests.refusals import refused

RNG = np.random.default_rng(3)
ONE, OTHER = (tuple(RNG.normal(size=(6, width)) / 2 for width in (4, 4, 3)) for _ in range(2))
X = RNG.uniform(-2, 2, size=(25, 6))


def softmax_attention(x, w_q, w_k, w_v):
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


def test_any_number_of_tokens_and_batches():
    net, prompt = attention_prompt(*ONE, data_bound=2.0)
    for n in (1, 2, 40):
        x = RNG.uniform(-2, 2, size=(3, 2, n, 6))
        assert net(x, prompt).shape == (3, 2, n, 3)
        np.testing.assert_allclose(net(x, prompt), prompt.exact(x), atol=1e-10)
    assert prompt.bound(10) < prompt.bound(10_000)


def test_torch_equals_numpy():
    net, prompt = attention_prompt(*(torch.from_numpy(matrix) for matrix in ONE), data_bound=2.0)
    found = net(torch.from_numpy(X), prompt)
    np.testing.assert_array_equal(found.numpy(), net(X, prompt))
    np.testing.assert_allclose(net.network(X, prompt.tokens), found.numpy(), atol=1e-11)


def test_float32_runs_at_its_own_sharpness():
    net, prompt = attention_prompt(*ONE, data_bound=2.0, dtype="float32")
    found = net(X.astype(np.float32), prompt)
    off = np.abs(found - softmax_attention(X, *ONE)).max()
    assert found.dtype == np.float32
    assert off <= 1e-3
    assert off <= prompt.bound_on(X) <= prompt.bound(25)
    assert net.digest == attention_prompt(*ONE)[0].digest


def test_sharp_heads_are_emulated_too():
    """Scores of hundreds: the head picks one token, and so does its emulation."""
    sharp = (20 * ONE[0], 2 * ONE[1], ONE[2])
    net, prompt = attention_prompt(*sharp, data_bound=2.0)
    off = np.abs(net(X, prompt) - softmax_attention(X, *sharp)).max()
    assert off <= min(1e-8, prompt.bound_on(X))


def test_the_certificate_is_that_of_the_longest_sequence():
    net, prompt = attention_prompt(*ONE, data_bound=2.0, tokens=25)
    certificate = prompt.certificate
    assert certificate.status == "proved"
    assert set(certificate.parts) == {"projection", "rounding"}
    assert np.abs(net(X, prompt) - prompt.exact(X)).max() <= certificate.bound == prompt.bound(25)
    assert 0 < certificate.estimate.error <= certificate.bound
    assert attention_prompt(*ONE, data_bound=2.0)[1].certificate.bound == prompt.bound(1024)


def test_the_prompt_is_compiled():
    """The network that has the tokens as constant keys runs the same numbers as the frozen one given the prompt."""
    net, prompt = attention_prompt(*ONE, data_bound=2.0, tokens=25)
    compiled = prompt.compiled
    np.testing.assert_allclose(compiled(X), net(X, prompt), atol=1e-12)
    assert "attention head on up to 25 tokens: 6 features" in str(compiled) == prompt.describe()
    assert af.measure(compiled, points=200).sup <= prompt.certificate.bound
    for wrong in (np.zeros((26, 6)), X * 3):
        with refused(af.DomainError):
            compiled(wrong)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_saved_loaded_and_checked(tmp_path, dtype):
    _, prompt = attention_prompt(*ONE, data_bound=2.0, tokens=25, dtype=dtype)
    path = tmp_path / "head.safetensors"
    prompt.save(path)
    again = load_prompt(path)
    np.testing.assert_array_equal(again.tokens, prompt.tokens)
    assert again.certificate == prompt.certificate
    assert again.bound_on(X) == prompt.bound_on(X)
    assert af.check(path).verdict == "confirmed"
    prompt.compiled.with_network(prompt.with_tokens(1.5 * prompt.tokens).network).save(path)
    assert load_prompt(path).certificate.bound > 0.01
    another = moved(prompt.network, ("layers", -1, "heads", 0, "output"), lambda output: 2 * output)
    replace(prompt.compiled, network=another).save(path)
    with refused(af.FileFormatError):
        load_prompt(path)


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


REFUSED = {
    "data beyond the bound": (af.DomainError, lambda net, prompt: net(X * 3, prompt)),
    "data that are no numbers": (af.DomainError, lambda net, prompt: net(np.where(X > 0, np.nan, X), prompt)),
    "other features": (af.DomainError, lambda net, prompt: net(X[:, :5], prompt)),
    "no tokens": (af.DomainError, lambda net, prompt: net(X[:0], prompt)),
    "text": (af.DomainError, lambda net, prompt: net("X", prompt)),
    "the network of other heads": (af.DomainError, lambda net, prompt: HeadNetwork(6, 3, 3)(X, prompt)),
    "a bound beyond the bound": (af.DomainError, lambda net, prompt: prompt.bound_on(X * 3)),
    "a bound of no tokens": (af.TargetError, lambda net, prompt: prompt.bound(0)),
    "no matrix": (af.TargetError, lambda *_: attention_prompt(ONE[0], ONE[1], "matrix")),
    "no data": (af.TargetError, lambda *_: attention_prompt(*ONE, data_bound=0.0)),
    "no length": (af.TargetError, lambda *_: attention_prompt(*ONE, tokens=0)),
    "a half type": (af.RefusalError, lambda *_: attention_prompt(*ONE, dtype="float16")),
    "narrow tokens": (af.TargetError, lambda net, prompt: prompt.with_tokens(prompt.tokens[:, 1:])),
    "tokens without numbers": (af.TargetError, lambda net, prompt: prompt.with_tokens(np.nan * prompt.tokens)),
    "too few tokens": (af.CertificateError, lambda net, prompt: prompt.with_tokens(prompt.tokens[1:])),
    "tokens that overflow": (af.RefusalError, lambda net, prompt: prompt.with_tokens(1e200 * prompt.tokens)),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_does_not_fit_is_refused(what):
    kind, call = REFUSED[what]
    with refused(kind):
        call(*attention_prompt(*ONE, data_bound=2.0))
