"""Prompts by hand: formats of tokens, heads and functions as prompts, and the paper's keys of anchors and tokens."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst
from scipy import special

import attnforge as af
from attnforge.in_context import concatenated, interleaved, split_concatenated, split_interleaved
from attnforge.network import Network, apply, check_architecture, flatten
from tests.refusals import refused

ICL = af.in_context
REACH = 4.0


def test_formats_by_hand():
    assert concatenated([[1, 2], [3, 4]], [5, 6]).tolist() == [[1, 2, 5], [3, 4, 6]]
    assert concatenated([[1], [3]], [[5, 7], [6, 8]]).tolist() == [[1, 5, 7], [3, 6, 8]]
    assert interleaved([[1, 2], [3, 4]], [5, 6]).tolist() == [[1, 2], [5, 0], [3, 4], [6, 0]]
    assert interleaved([[1], [3]], [[5, 7], [6, 8]]).tolist() == [[1, 0], [5, 7], [3, 0], [6, 8]]
    for there in (concatenated, interleaved):
        assert 0.5 in there(np.array([[1, 2]]), np.array([0.5]))  # the wider dtype holds both


def test_one_label_is_the_format_of_garg_et_al():
    """As they describe it: y is the first of d entries, the others are 0."""
    xs, ys = torch.randn(4, 6, 5), torch.randn(4, 6)
    wide = torch.cat([ys[:, :, None], torch.zeros(4, 6, 4)], dim=2)
    assert torch.equal(interleaved(xs, ys), torch.stack([xs, wide], dim=2).reshape(4, 12, 5))


@given(st.integers(1, 4), st.integers(1, 4), st.integers(1, 5), npst.array_shapes(min_dims=0, max_dims=2, max_side=3))
@settings(max_examples=40)
def test_both_formats_are_split_again(d, k, n, batch):
    rng = np.random.default_rng(0)
    xs, ys = rng.normal(size=(*batch, n, d)), rng.normal(size=(*batch, n, k))
    ys = ys[..., 0] if k == 1 else ys
    for kind in (np.asarray, torch.from_numpy):
        both = kind(xs), kind(ys)
        for found in (split_concatenated(concatenated(*both), d), split_interleaved(interleaved(*both), d, k)):
            assert all(type(part) is type(both[0]) for part in found)
            assert np.array_equal(found[0], xs)
            assert np.array_equal(found[1], ys)


WRONG_TOKENS = {
    "other numbers of examples": lambda: concatenated(np.zeros((3, 2)), np.zeros(4)),
    "no features": lambda: interleaved(np.zeros(3), np.zeros(3)),
    "an array and a tensor": lambda: concatenated(np.zeros((3, 2)), torch.zeros(3)),
    "no label": lambda: split_concatenated(np.zeros((2, 3)), 3),
    "an odd number of tokens": lambda: split_interleaved(np.zeros((5, 3)), 3),
    "another width": lambda: split_interleaved(np.zeros((4, 3)), 2),
    "matrices that do not fit": lambda: ICL.attention_prompt(np.ones((2, 2)), np.ones((3, 2)), np.ones((2, 2))),
    "a matrix with NaN": lambda: ICL.attention_prompt(np.ones((2, 2)), np.ones((2, 2)), [[np.nan], [1.0]]),
    **{
        f"a bound of {bound}": lambda bound=bound: ICL.attention_prompt(*np.ones((3, 2, 2)), data_bound=bound)
        for bound in (0.0, -1.0, np.inf, np.nan)
    },
}


@pytest.mark.parametrize("what", WRONG_TOKENS)
def test_what_does_not_fit_is_refused(what):
    with refused(af.TargetError):
        WRONG_TOKENS[what]()


def test_tokens_of_kernels_by_hand():
    """A Gaussian's hold the squared norm seen from the first example; a softmax kernel reads concatenated ones."""
    x, y, query = np.array([[1.0, 1.0], [4.0, 5.0]]), np.array([7.0, 8.0]), np.array([[1.0, 3.0]])
    asking, told = ICL.KernelRegression().build(features=2).tokens(x, y, query)
    assert (np.asarray(asking).tolist(), np.asarray(told).tolist()) == ([[0, 2]], [[0, 0, 0, 7], [3, 4, 25, 8]])
    asking, told = ICL.KernelRegression(kernel="softmax").build(features=2).tokens(x, y, query)
    assert np.array_equal(told, concatenated(x, y))
    assert np.array_equal(asking, query)


# A head as a prompt


def projections(net, tokens, x):
    """What the first layer writes beside x."""
    frozen = net.network
    return apply(Network(frozen.layers[:2], frozen.features, None, frozen.context), x, tokens)[:, x.shape[1] :]


def test_a_head_of_one_feature_as_a_prompt_by_hand():
    """Its tokens are beta and the matrices over beta; N(beta) = w tanh(beta x)/beta, extrapolated from two betas."""
    one, x = np.ones((1, 1)), np.array([[0.8]])
    net, prompt = ICL.attention_prompt(2 * one, one, -one)
    beta = prompt.tokens[0, 0]
    np.testing.assert_array_equal(prompt.tokens, [[beta, 2 / beta, 1 / beta, -1 / beta], -prompt.tokens[0]])
    beta, sharp = 0.5, prompt.tokens * [0.5 / beta, *[beta / 0.5] * 3]
    wanted = 4 / 3 * np.tanh(beta * 0.8) / beta - 1 / 3 * np.tanh(2 * beta * 0.8) / (2 * beta)
    np.testing.assert_allclose(projections(net, sharp, x), wanted * np.array([[2.0, 1.0, -1.0]]), rtol=1e-13)


def test_projections_are_of_fourth_order_and_the_sharpness_balances_them_with_rounding():
    rng = np.random.default_rng(0)
    matrices, x = [rng.normal(size=(5, width)) / np.sqrt(5) for width in (3, 3, 2)], rng.uniform(-1, 1, size=(20, 5))
    net, prompt = ICL.attention_prompt(*matrices)

    def off(e):
        """The largest error of the projections at 2^e times the sharpness."""
        tokens = prompt.tokens * 2.0 ** (e * np.r_[np.ones(5), -np.ones(8)])
        return float(np.abs(projections(net, tokens, x) - x @ np.hstack(matrices)).max())

    assert np.log2(off(8) / off(7)) == pytest.approx(4, abs=0.3)
    assert off(0) <= 10 * min(off(e) for e in range(-12, 9))
    assert min(off(-12), off(8)) > 1e2 * off(0)


# A function as a prompt


def test_a_function_as_a_prompt_has_frozen_weights_of_zeros_and_ones():
    net, _ = ICL.function_prompt("sin(x*y)", {"x": (-1, 1), "y": (0, 2)}, 1e-2)
    assert check_architecture(net.network) == 1
    assert {*np.concatenate([array.ravel() for array in flatten(net.network)[1].values()])} <= {0.0, 1.0}


def test_tokens_of_a_row_are_twice_beta_c_and_minus_beta_c_squared():
    net, prompt = ICL.function_prompt("sin(2*x)", {"x": (-1, 1)}, 1e-3)
    slope, offset = (prompt.tokens[:, :2] - prompt.tokens[0, :2]).T  # the softmax sees differences of keys only
    bend = np.diff(offset, 2)
    np.testing.assert_allclose(np.diff(slope), slope[1], rtol=1e-9)
    np.testing.assert_allclose(bend, bend[0], rtol=1e-6)
    step = -bend[0] / slope[1]
    first = -(2 * offset[1] / slope[1] + step) / 2
    assert first <= -1 < 1 <= first + step * (len(slope) - 1)
    two = np.array([[0.0, 0.0, 0.0], [2.0, -1.0, 1.0]])  # scores 0 and 2 x - 1, values 0 and 1
    x = np.array([[[-3.0]], [[0.5]], [[4.0]]])
    np.testing.assert_allclose(apply(net.network, x, two), special.expit(2 * x - 1), rtol=1e-15)


# A step by interpolation


@pytest.mark.parametrize("asked", ["hard", "tuned"])
@pytest.mark.parametrize("name", ["LeastSquares", "Huber", "Logistic"])
def test_the_papers_keys_of_anchors_and_tokens_give_the_same_step(name, asked):
    """Q_i = (x_i, y_i, 1, e_i), keys (2b L_k w, -2b L_k, -b L_k^2, M e_i'), values r(L_k) x_i': p n keys, averaged."""
    rng = np.random.default_rng(1)
    n, d = 6, 3
    how = {"steps": 2, "learning_rate": 0.1, "route": "interpolation", "anchors": 15, "sharpness": asked}
    net = getattr(ICL, name)(**how).build(features=d, data_bound=REACH, certify=False)
    x = rng.normal(size=(n, d))
    y = (x[:, 0] > 0).astype(float) if name == "Logistic" else rng.normal(size=n)
    shift = 0.0 if name == "Logistic" else y[:, None]
    levels, answers = np.array(net.features.levels), np.array(net.features.answers)
    first, second = net.trajectory(x, y)
    beta = -net.network.heads[1].query[:, -1].min()
    unit = np.tile(np.eye(n), (len(levels), 1))
    row = np.repeat(levels, n)[:, None]
    queries = np.concatenate([x, shift + np.zeros((n, 1)), np.ones((n, 1)), np.eye(n)], axis=1)
    columns = (2 * beta * row * first, -2 * beta * row, -beta * row**2, 1e6 * unit)
    values = np.repeat(answers, n)[:, None] * np.tile(x, (len(levels), 1))
    paper = special.softmax(queries @ np.concatenate(columns, axis=1).T, axis=1) @ values
    labels = (y - 0.5) @ x / n if name == "Logistic" else 0.0
    np.testing.assert_allclose(second - first, -0.1 * (paper.mean(axis=0) - labels), atol=1e-9)
