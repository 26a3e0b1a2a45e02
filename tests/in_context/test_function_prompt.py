"""One frozen network, many prompts: each makes it another function, with a certificate of its own."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
import sympy
import torch

import attnforge as af
from attnforge.in_context import FunctionNetwork, function_prompt, load_prompt
from attnforge.network import flatten
from tests.refusals import refused

LINE, SQUARE = {"x": (-1, 1)}, {"x": (-1, 1), "y": (0, 2)}
FUNCTIONS = {
    "sine": ("sin(8*x)", LINE, 1e-6),
    "kink": ("abs(x)", LINE, 1e-4),
    "cube": ("x^3 - 2*x", {"x": (0, 3)}, 1e-5),
    "plane": ("sin(x*y) + y", SQUARE, 1e-4),
    "wave": ("sin(3*x + y)", SQUARE, 1e-5),
}


@cache
def made(which):
    return function_prompt(*FUNCTIONS[which])


def fresh(prompt, count=100_000):
    box = prompt.domain
    return np.random.default_rng(7).uniform(box.lower, box.upper, size=(count, *box.shape))


def error(net, prompt):
    points = fresh(prompt)
    given = points[:, 0] if net.inputs == 1 else points
    return float(np.abs(net(given, prompt) - prompt.target.values(points)).max())


def all_bytes(net):
    skeleton, arrays = flatten(net.network)
    return repr(skeleton).encode() + b"".join(arrays[name].tobytes() for name in sorted(arrays))


@pytest.mark.parametrize("which", FUNCTIONS)
def test_errors_are_as_certified(which):
    net, prompt = made(which)
    assert prompt.certificate.status == "proved"
    assert error(net, prompt) <= prompt.certificate.bound <= FUNCTIONS[which][2]


def test_one_frozen_network_for_every_function_domain_and_tol():
    nets = [made(which)[0] for which in ("sine", "kink", "cube")]
    assert len({net.digest for net in nets}) == len({all_bytes(net) for net in nets}) == 1
    assert nets[0] == nets[1] == FunctionNetwork(1)
    assert function_prompt("sin(8*x)", {"x": (-0.5, 0.5)}, 1e-1, dtype="float32")[0].digest == nets[0].digest
    assert made("plane")[0].digest == made("wave")[0].digest != nets[0].digest


def test_changed_tokens_are_caught():
    _, prompt = made("sine")
    assert prompt.certify().bound == prompt.certificate.bound
    for column, change in ((2, 0.01), (0, 1.0), (1, -0.5)):
        tokens = prompt.tokens.copy()
        tokens[len(tokens) // 2, column] += change
        found = prompt.with_tokens(tokens).certificate
        assert found.bound > 100 * prompt.certificate.bound
        assert found.digest != prompt.certificate.digest
    assert prompt.with_tokens(np.delete(prompt.tokens, 9, axis=0)).certificate.bound > 0.1


@pytest.mark.parametrize("which", ["sine", "plane"])
def test_torch_equals_numpy(which):
    net, prompt = made(which)
    x = fresh(prompt, 200)
    values, found = net(x, prompt), net(torch.from_numpy(x), prompt)
    assert found.dtype == torch.float64
    np.testing.assert_array_equal(found.numpy(), values)
    np.testing.assert_allclose(net.network(x[:, None], prompt.tokens)[:, 0, 0], values, atol=1e-12)
    module = net.module()(torch.from_numpy(x), torch.from_numpy(prompt.tokens.copy()))
    np.testing.assert_array_equal(module.numpy(), values)
    assert net(torch.from_numpy(x).float(), prompt).dtype == torch.float32


def test_callables_are_sampled():
    net, prompt = function_prompt(lambda x: np.tanh(3 * x), [(-1, 1)], 1e-4)  # receives (N,) arrays
    assert prompt.certificate.status == "sampled"
    assert prompt.certificate.bound is None
    assert prompt.certificate.estimate.error <= 1e-4
    assert net.digest == made("sine")[0].digest
    assert error(net, prompt) <= 2e-4


def both(x):
    return np.stack([np.sin(x[..., 0]), x[..., 1] ** 2], axis=-1)


def test_vectors_and_expressions_of_sympy():
    net, prompt = function_prompt(both, [(-1, 1), (0, 1)], 1e-3)
    points = fresh(prompt, 1000)
    assert net.outputs == 2
    assert prompt.tokens.shape[1] == 6
    np.testing.assert_allclose(net(points, prompt), both(points), atol=2e-3)
    with refused(af.DomainError):
        FunctionNetwork(2)(points, prompt)
    x = sympy.Symbol("x")
    net, prompt = function_prompt(sympy.exp(-(x**2)), {"x": (-2, 2)}, 1e-4)
    assert net(1.0, prompt) == pytest.approx(np.exp(-1), abs=prompt.certificate.bound)


def test_float32():
    net, prompt = function_prompt("sin(8*x)", LINE, 1e-4, dtype="float32")
    assert prompt.certificate.dtype == "float32"
    np.testing.assert_array_equal(prompt.tokens, prompt.tokens.astype(np.float32))
    assert error(net, prompt) <= prompt.certificate.bound <= 1e-4


def test_a_domain_far_from_zero_costs_digits_and_is_told_so():
    net, prompt = function_prompt("sin(8*x)", {"x": (1000, 1001)}, 1e-8)
    assert error(net, prompt) <= prompt.certificate.bound <= 1e-8
    with pytest.raises(af.RefusalError) as found:
        function_prompt("sin(8*x)", {"x": (1000, 1001)}, 1e-13)
    assert 1e-12 < found.value.smallest_tol < 1e-9


REFUSED = {
    "a prompt of two inputs": (af.DomainError, lambda net, sine: net(0.5, made("plane")[1])),
    "three inputs": (af.DomainError, lambda net, sine: made("plane")[0](np.zeros(3), made("plane")[1])),
    "two inputs": (af.DomainError, lambda net, sine: net(np.zeros((4, 2)), sine)),
    "text": (af.DomainError, lambda net, sine: net("0.5", sine)),
    "complex numbers": (af.DomainError, lambda net, sine: net(torch.zeros(2, dtype=torch.complex64), sine)),
    "outside": (af.DomainError, lambda net, sine: net(1.5, sine)),
    "no number": (af.DomainError, lambda net, sine: net(np.nan, sine)),
    "no numbers in the prompt": (af.DomainError, lambda net, sine: net(0.5, np.full((2, 3), np.inf))),
    "wide tokens": (af.TargetError, lambda net, sine: net(0.5, np.zeros((4, 5)))),
    "no tokens": (af.TargetError, lambda net, sine: net(0.5, np.zeros((0, 3)))),
    "tokens that are no numbers": (af.TargetError, lambda net, sine: sine.with_tokens(np.full((2, 3), np.nan))),
    "a map of sequences": (af.TargetError, lambda *_: function_prompt(lambda x: x, af.Box(0, 1, shape=(3, 1)))),
    "no domain": (af.DomainError, lambda *_: function_prompt("sin(x)", None)),
    **{
        f"a tolerance {tol}": (af.ToleranceError, lambda *_, tol=tol: function_prompt("sin(x)", {"x": (0, 1)}, tol))
        for tol in (0.0, -1.0, np.nan, "small")
    },
    "a strange dtype": (af.AttnforgeError, lambda *_: function_prompt("sin(x)", {"x": (0, 1)}, dtype="float8")),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_does_not_fit_is_refused(what):
    kind, call = REFUSED[what]
    with refused(kind):
        call(*made("sine"))


def test_it_is_described_saved_and_loaded(tmp_path):
    net, prompt = made("plane")
    assert "sin(x*y) + y" in prompt.describe()
    assert "proved" in repr(prompt)
    prompt.save(tmp_path / "plane.safetensors")
    again = load_prompt(tmp_path / "plane.safetensors")
    np.testing.assert_array_equal(again.tokens, prompt.tokens)
    assert again.certificate == prompt.certificate
    np.testing.assert_array_equal(net(fresh(prompt, 10), again), net(fresh(prompt, 10), prompt))
    with pytest.raises(ValueError, match="read-only"):
        prompt.tokens[0, 0] = 1.0


def test_another_model_is_no_prompt(tmp_path):
    af.compile("sin(8*x)", LINE, 1e-3).save(tmp_path / "model.safetensors")
    with refused(af.FileFormatError):
        load_prompt(tmp_path / "model.safetensors")
