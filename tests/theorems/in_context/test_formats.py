"""Token formats by hand, there and back, and the layers that turn them into the prompt, exactly."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from attnforge.errors import RefusalError, TargetError
from attnforge.in_context import LeastSquares
from attnforge.network import Linear, Network, Term, check_architecture, digest
from attnforge.network.apply import apply_layer
from attnforge.runtime import AttentionNetwork, audit
from attnforge.targets.in_context.features import Features, prompt, weights_of
from attnforge.theorems.in_context.formats import (
    MOST_BYTES,
    concatenated,
    from_concatenated,
    from_interleaved,
    interleaved,
    split_concatenated,
    split_interleaved,
)

FORMATS = {"concatenated": (concatenated, from_concatenated), "interleaved": (interleaved, from_interleaved)}
SIZES = [(1, 1, 1), (3, 1, 5), (2, 4, 3), (3, 3, 2), (1, 2, 1)]


def examples(d: int, k: int, n: int, batch: tuple[int, ...] = (), seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.normal(size=(*batch, n, d)), rng.normal(size=(*batch, n, k))


def raw_network(name: str, features: Features, n: int) -> Network:
    layers = FORMATS[name][1](features, n)
    d, k = features.inputs, features.outputs
    width, rows = (d + k, n) if name == "concatenated" else (max(d, k), 2 * n)
    return Network(layers, width, rows)


def garg(xs: torch.Tensor, ys: torch.Tensor) -> torch.Tensor:
    """The interleaving of Garg et al. 2022 as they describe it: y is the first of d entries, the others are 0."""
    wide = torch.cat([ys[:, :, None], torch.zeros(*ys.shape, xs.shape[2] - 1)], dim=2)
    return torch.stack([xs, wide], dim=2).reshape(xs.shape[0], 2 * xs.shape[1], xs.shape[2])


def test_concatenated_by_hand():
    assert concatenated([[1, 2], [3, 4]], [5, 6]).tolist() == [[1, 2, 5], [3, 4, 6]]
    assert concatenated([[1], [3]], [[5, 7], [6, 8]]).tolist() == [[1, 5, 7], [3, 6, 8]]


def test_interleaved_by_hand():
    assert interleaved([[1, 2], [3, 4]], [5, 6]).tolist() == [[1, 2], [5, 0], [3, 4], [6, 0]]
    assert interleaved([[1], [3]], [[5, 7], [6, 8]]).tolist() == [[1, 0], [5, 7], [3, 0], [6, 8]]


def test_one_label_is_the_format_of_garg_et_al():
    xs, ys = torch.randn(4, 6, 5), torch.randn(4, 6)
    assert torch.equal(interleaved(xs, ys), garg(xs, ys))


@given(st.integers(1, 4), st.integers(1, 4), st.integers(1, 5), npst.array_shapes(min_dims=0, max_dims=2, max_side=3))
@settings(max_examples=40)
def test_both_formats_are_split_again(d, k, n, batch):
    xs, ys = examples(d, k, n, batch)
    ys = ys[..., 0] if k == 1 else ys
    for there, back in (
        (concatenated, lambda z: split_concatenated(z, d)),
        (interleaved, lambda z: split_interleaved(z, d, k)),
    ):
        for kind in (np.asarray, torch.from_numpy):
            found_x, found_y = back(there(kind(xs), kind(ys)))
            assert type(found_x) is type(kind(xs))
            assert np.array_equal(found_x, xs)
            assert np.array_equal(found_y, ys)


@pytest.mark.parametrize("name", FORMATS)
def test_the_wider_dtype_holds_both(name):
    whole, real = np.array([[1, 2]]), np.array([0.5])
    assert 0.5 in FORMATS[name][0](whole, real)
    assert FORMATS[name][0](torch.tensor(whole), torch.tensor(real)).dtype == torch.float64


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize(("d", "k", "n"), SIZES)
def test_the_layers_give_exactly_the_prompt(name, d, k, n):
    features = Features(d, k)
    xs, ys = examples(d, k, n, batch=(2, 3))
    net = raw_network(name, features, n)
    tokens, wanted = FORMATS[name][0](xs, ys), prompt(features, xs, ys)
    assert check_architecture(net) == features.width
    assert np.array_equal(net(tokens), wanted)
    for dtype in (torch.float64, torch.float32):
        given_tokens = torch.from_numpy(tokens).to(dtype)
        found = AttentionNetwork(net, dtype)(given_tokens)
        assert torch.equal(found, torch.from_numpy(wanted).to(dtype))


@pytest.mark.parametrize("name", FORMATS)
def test_a_whole_algorithm_on_raw_tokens(name):
    fitted = LeastSquares(steps=5, learning_rate=0.1).build(features=3)
    xs, ys = examples(3, 1, 20, batch=(2,))
    reading = raw_network(name, fitted.features, 20)
    net = replace(reading, layers=reading.layers + fitted.block * fitted.steps)
    found = weights_of(fitted.features, net(FORMATS[name][0](xs, ys)))[..., 0]
    assert check_architecture(net) == fitted.features.width
    assert found == pytest.approx(fitted(xs, ys[..., 0]), rel=1e-9)


@pytest.mark.parametrize("name", FORMATS)
def test_one_wrong_entry_is_seen(name):
    features, n = Features(2, 1), 3
    xs, ys = examples(2, 1, n)
    net = raw_network(name, features, n)
    *before, last = net.layers
    assert isinstance(last, Linear)
    mix = np.roll(last.terms[0].mix, 1, axis=0)
    broken = replace(last, terms=(Term(last.terms[0].map, mix), last.terms[1]))
    tokens = FORMATS[name][0](xs, ys)
    assert not np.array_equal(replace(net, layers=(*before, broken))(tokens), prompt(features, xs, ys))


@pytest.mark.parametrize("name", FORMATS)
def test_only_copies(name):
    net = raw_network(name, Features(3, 2), 4)
    entries = [array for layer in net.layers for term in layer.terms for array in (term.map, term.mix)]
    assert all(set(np.unique(array)) <= {-1.0, 0.0, 1.0} for array in entries)
    audit(AttentionNetwork(net, torch.float64), torch.zeros(net.tokens, net.features, dtype=torch.float64))


@pytest.mark.parametrize("name", FORMATS)
def test_two_builds_are_identical(name):
    assert digest(raw_network(name, Features(2, 1), 4)) == digest(raw_network(name, Features(2, 1), 4))


@pytest.mark.parametrize(("name", "most"), [("concatenated", 5792), ("interleaved", 4095)])
def test_too_many_examples_are_refused_before_memory_is_spent(name, most):
    with pytest.raises(RefusalError, match=rf"Got {most + 1:,} examples, 1,07\d,\d{{3}},\d{{3}} bytes.*linear in"):
        FORMATS[name][1](Features(2, 1), most + 1)


@pytest.mark.parametrize("name", FORMATS)
def test_the_weights_are_as_large_as_stated(name):
    n = 200
    net = raw_network(name, Features(2, 1), n)
    mixes = sum(term.mix.nbytes for layer in net.layers for term in layer.terms)
    assert mixes == pytest.approx((32 if name == "concatenated" else 64) * n**2, rel=0.02)
    assert mixes < MOST_BYTES


def test_what_does_not_fit_is_refused():
    with pytest.raises(TargetError, match=r"\(..., n, d\) and \(..., n\).*Got shapes \(3, 2\) and \(4,\)"):
        concatenated(np.zeros((3, 2)), np.zeros(4))
    with pytest.raises(TargetError, match=r"Got shapes \(3,\) and \(3,\)"):
        interleaved(np.zeros(3), np.zeros(3))
    with pytest.raises(TargetError, match=r"both be tensors. Got ndarray and Tensor"):
        concatenated(np.zeros((3, 2)), torch.zeros(3))
    with pytest.raises(TargetError, match=r"at least one label. Got 3 inputs in tokens of 3 features"):
        split_concatenated(np.zeros((2, 3)), 3)
    with pytest.raises(TargetError, match=r"shape \(..., 2n, 3\). Got shape \(5, 3\)"):
        split_interleaved(np.zeros((5, 3)), 3)
    with pytest.raises(TargetError, match=r"shape \(..., 2n, 2\). Got shape \(4, 3\)"):
        split_interleaved(np.zeros((4, 3)), 2)
    with pytest.raises(TargetError, match=r"`examples` must be at least 1. Got 0"):
        from_interleaved(Features(2, 1), 0)


def test_anchor_tokens_of_the_interpolation_route_are_kept():
    features = Features(2, 1, levels=(-1.0, 0.0, 1.0), answers=(-1.0, 0.0, 1.0))
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(4, 2)), rng.normal(size=4)
    (layer,) = from_concatenated(features, examples=4)
    tokens = apply_layer(layer, concatenated(x[None], y[None])[0])
    assert np.array_equal(tokens, prompt(features, x, y[:, None]))
