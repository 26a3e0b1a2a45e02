"""One frozen network, many prompts: each makes it another function, with a certificate of its own."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
import torch

import attnforge as af
from attnforge.errors import (
    AttnforgeError,
    DomainError,
    FileFormatError,
    RefusalError,
    TargetError,
    ToleranceError,
)
from attnforge.in_context import load_prompt
from attnforge.in_context.function_prompt import FunctionNetwork, FunctionPrompt, function_prompt
from attnforge.network import flatten
from attnforge.runtime import audit

SINE = ("sin(8*x)", {"x": (-1, 1)}, 1e-6)
KINK = ("abs(x)", {"x": (-1, 1)}, 1e-4)
CUBE = ("x^3 - 2*x", {"x": (0, 3)}, 1e-5)
PLANE = ("sin(x*y) + y", {"x": (-1, 1), "y": (0, 2)}, 1e-4)
WAVE = ("sin(3*x + y)", {"x": (-1, 1), "y": (0, 2)}, 1e-5)


@cache
def made(which: str) -> tuple[FunctionNetwork, FunctionPrompt]:
    text, domain, tol = {"sine": SINE, "kink": KINK, "cube": CUBE, "plane": PLANE, "wave": WAVE}[which]
    return function_prompt(text, domain, tol)


def fresh(prompt: FunctionPrompt, count: int = 100_000, seed: int = 7) -> np.ndarray:
    box = prompt.domain
    return np.random.default_rng(seed).uniform(box.lower, box.upper, size=(count, *box.shape))


def error(net: FunctionNetwork, prompt: FunctionPrompt) -> float:
    points = fresh(prompt)
    given = points[:, 0] if net.inputs == 1 else points
    return float(np.abs(net(given, prompt) - prompt.target.values(points)).max())


def all_bytes(net: FunctionNetwork) -> bytes:
    skeleton, arrays = flatten(net.network)
    return repr(skeleton).encode() + b"".join(arrays[name].tobytes() for name in sorted(arrays))


@pytest.mark.parametrize("which", ["sine", "kink", "cube", "plane", "wave"])
def test_errors_are_as_certified(which):
    net, prompt = made(which)
    tol = {"sine": SINE, "kink": KINK, "cube": CUBE, "plane": PLANE, "wave": WAVE}[which][2]
    assert prompt.certificate.status == "proved"
    assert error(net, prompt) <= prompt.certificate.bound <= tol


def test_one_frozen_network_for_every_function_domain_and_tol():
    nets = [made(which)[0] for which in ("sine", "kink", "cube")]
    assert len({net.digest for net in nets}) == len({all_bytes(net) for net in nets}) == 1
    assert nets[0] == nets[1] == FunctionNetwork(1)
    coarse, _ = function_prompt("sin(8*x)", {"x": (-0.5, 0.5)}, 1e-1, dtype="float32")
    assert coarse.digest == nets[0].digest
    assert made("plane")[0].digest == made("wave")[0].digest != nets[0].digest


def test_swapping_prompts_swaps_functions():
    net, sine = made("sine")
    _, kink = made("kink")
    x = np.linspace(-1, 1, 101)
    np.testing.assert_allclose(net(x, sine), np.sin(8 * x), atol=1e-6)
    np.testing.assert_allclose(net(x, kink), np.abs(x), atol=1e-4)
    assert np.abs(net(x, sine) - net(x, kink)).max() > 1


def test_a_changed_value_is_caught():
    _, prompt = made("sine")
    assert prompt.certify().bound == prompt.certificate.bound
    for column, change in ((2, 0.01), (0, 1.0), (1, -0.5)):
        tokens = prompt.tokens.copy()
        tokens[len(tokens) // 2, column] += change
        found = prompt.with_tokens(tokens).certificate
        assert found.bound > 100 * prompt.certificate.bound
        assert found.digest != prompt.certificate.digest


def test_a_dropped_token_is_caught():
    _, prompt = made("sine")
    assert prompt.with_tokens(np.delete(prompt.tokens, 9, axis=0)).certificate.bound > 0.1


def test_tokens_cannot_be_written_to():
    with pytest.raises(ValueError, match="read-only"):
        made("sine")[1].tokens[0, 0] = 1.0


def test_torch_equals_numpy():
    for which in ("sine", "plane"):
        net, prompt = made(which)
        x = fresh(prompt, 200)
        values = net(x, prompt)
        found = net(torch.from_numpy(x), prompt)
        assert found.dtype == torch.float64
        np.testing.assert_array_equal(found.numpy(), values)
        np.testing.assert_allclose(net.network(x[:, None], prompt.tokens)[:, 0, 0], values, atol=1e-12)
        module = net.module()(torch.from_numpy(x), torch.from_numpy(prompt.tokens.copy()))
        np.testing.assert_array_equal(module.numpy(), values)
        single = net(torch.from_numpy(x).float(), prompt)
        assert single.dtype == torch.float32


def test_shapes():
    net, prompt = made("sine")
    assert isinstance(net(0.5, prompt), float)
    assert net(0.5, prompt) == pytest.approx(np.sin(4), abs=1e-6)
    for shape, wanted in (((), ()), ((7,), (7,)), ((7, 1), (7,)), ((2, 3, 1), (2, 3)), ((0,), (0,))):
        assert np.shape(net(np.zeros(shape), prompt)) == wanted
    net, prompt = made("plane")
    for shape in ((2,), (7, 2), (3, 4, 2)):
        assert net(np.zeros(shape), prompt).shape == shape[:-1]


def test_a_batch_of_prompts():
    net, sine = made("sine")
    other = sine.tokens * np.array([1.0, 1.0, 2.0])  # values doubled
    x = np.linspace(-1, 1, 5)
    both = np.stack([sine.tokens, other])[:, None]  # (2, 1, p, 3) against (5,) points
    found = net(x, both)
    assert found.shape == (2, 5)
    np.testing.assert_allclose(found, [net(x, sine), 2 * net(x, sine)], atol=1e-12)


def test_gradients_reach_the_prompt():
    net, prompt = made("sine")
    tokens = torch.from_numpy(prompt.tokens.copy()).requires_grad_()
    net(torch.tensor([0.3], dtype=torch.float64), tokens).sum().backward()
    assert float(tokens.grad[:, 2].sum()) == pytest.approx(1.0)  # weights of the values add up to one


def test_the_module_is_linear_maps_and_softmax_attention():
    net, prompt = made("plane")
    audit(net.module(), torch.zeros(5, 2, dtype=torch.float64), torch.from_numpy(prompt.tokens.copy()))


def test_wrong_shapes_are_refused():
    net, sine = made("sine")
    plane_net, plane = made("plane")
    with pytest.raises(DomainError, match="network that came with the prompt"):
        net(0.5, plane)
    with pytest.raises(DomainError, match=r"\(\.\.\., 2\)"):
        plane_net(np.zeros(3), plane)
    with pytest.raises(DomainError, match="shape"):
        net(np.zeros((4, 2)), sine)
    with pytest.raises(TargetError, match=r"\(\.\.\., n, 3\)"):
        net(0.5, np.zeros((4, 5)))
    with pytest.raises(TargetError, match=r"\(\.\.\., n, 3\)"):
        net(0.5, np.zeros((0, 3)))
    with pytest.raises(DomainError, match="real numbers"):
        net("0.5", sine)
    with pytest.raises(DomainError, match="real numbers"):
        net(torch.zeros(2, dtype=torch.complex64), sine)


def test_points_outside_the_domain_and_numbers_that_are_none_are_refused():
    net, prompt = made("sine")
    with pytest.raises(DomainError, match="domain"):
        net(1.5, prompt)
    with pytest.raises(DomainError, match="finite"):
        net(np.nan, prompt)
    with pytest.raises(DomainError, match="finite"):
        net(0.5, np.full((2, 3), np.inf))
    with pytest.raises(TargetError, match="finite"):
        prompt.with_tokens(np.full((2, 3), np.nan))


def test_callables_are_sampled():
    net, prompt = function_prompt(lambda x: np.tanh(3 * x), [(-1, 1)], 1e-4)  # receives (N,) arrays
    assert prompt.certificate.status == "sampled"
    assert prompt.certificate.bound is None
    assert prompt.certificate.estimate.error <= 1e-4
    assert net.digest == made("sine")[0].digest
    assert error(net, prompt) <= 2e-4


def test_vectors():
    def both(x):
        return np.stack([np.sin(x[..., 0]), x[..., 1] ** 2], axis=-1)

    net, prompt = function_prompt(both, [(-1, 1), (0, 1)], 1e-3)
    points = fresh(prompt, 1000)
    assert net.outputs == 2
    assert prompt.tokens.shape[1] == 6
    np.testing.assert_allclose(net(points, prompt), both(points), atol=2e-3)
    with pytest.raises(DomainError, match="outputs"):
        FunctionNetwork(2)(points, prompt)


def test_sympy():
    import sympy

    x = sympy.Symbol("x")
    net, prompt = function_prompt(sympy.exp(-(x**2)), {"x": (-2, 2)}, 1e-4)
    assert net(1.0, prompt) == pytest.approx(np.exp(-1), abs=prompt.certificate.bound)


def test_float32():
    net, prompt = function_prompt("sin(8*x)", {"x": (-1, 1)}, 1e-4, dtype="float32")
    assert prompt.certificate.dtype == "float32"
    np.testing.assert_array_equal(prompt.tokens, prompt.tokens.astype(np.float32))
    assert error(net, prompt) <= prompt.certificate.bound <= 1e-4


def test_a_domain_far_from_zero_costs_digits_and_is_told_so():
    domain = {"x": (1000, 1001)}
    net, prompt = function_prompt("sin(8*x)", domain, 1e-8)
    assert error(net, prompt) <= prompt.certificate.bound <= 1e-8
    with pytest.raises(RefusalError, match="Ask for tol") as refused:
        function_prompt("sin(8*x)", domain, 1e-13)
    assert 1e-12 < refused.value.smallest_tol < 1e-9


def test_what_is_no_function_is_refused():
    with pytest.raises(TargetError, match="function of d inputs"):
        function_prompt(lambda x: x, af.Box(0, 1, shape=(3, 1)))
    with pytest.raises(DomainError, match="domain"):
        function_prompt("sin(x)", None)
    for tol in (0.0, -1.0, np.nan, "small"):
        with pytest.raises(ToleranceError, match="tol"):
            function_prompt("sin(x)", {"x": (0, 1)}, tol)
    with pytest.raises(AttnforgeError, match="dtype"):
        function_prompt("sin(x)", {"x": (0, 1)}, dtype="float8")


def test_it_is_described_saved_and_loaded(tmp_path):
    net, prompt = made("plane")
    assert "sin(x*y) + y" in prompt.describe()
    assert "proved" in repr(prompt)
    prompt.save(tmp_path / "plane.safetensors")
    again = load_prompt(tmp_path / "plane.safetensors")
    np.testing.assert_array_equal(again.tokens, prompt.tokens)
    assert again.certificate == prompt.certificate
    x = fresh(prompt, 10)
    np.testing.assert_array_equal(net(x, again), net(x, prompt))


def test_another_model_is_no_prompt(tmp_path):
    af.compile("sin(8*x)", {"x": (-1, 1)}, 1e-3).save(tmp_path / "model.safetensors")
    with pytest.raises(FileFormatError, match="hold a prompt"):
        load_prompt(tmp_path / "model.safetensors")
