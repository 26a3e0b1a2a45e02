"""Points that rounding took out of the domain; and the arithmetic that runs."""

import math
import warnings

import numpy as np
import pytest
import torch

import attnforge as af
from attnforge.compiler.inside import inside
from attnforge.runtime.arithmetic import reduced_precision


@pytest.fixture(scope="module")
def net():
    return af.compile("sin(3*x) + y", {"x": (0.1, 0.7), "y": (-1, 0)}, 1e-4, dtype="float32")


def test_one_unit_outside_is_the_end(net):
    ends = np.array([0.7, 0.0])
    out = np.array([np.nextafter(0.7, 1), 5e-324])
    assert net(out) == net(ends)
    assert net(np.array([np.nextafter(0.1, 0), -1.0])) == net(np.array([0.1, -1.0]))


def test_two_units_outside_are_outside(net):
    beyond = np.nextafter(np.nextafter(0.7, 1), 1)
    with pytest.raises(af.DomainError, match="must lie in the certified domain"):
        net(np.array([beyond, 0.0]))
    with pytest.raises(af.DomainError):
        net(np.array([np.nan, 0.0]))


@pytest.mark.parametrize(("dtype", "end"), [(torch.float32, 0.1), (torch.bfloat16, 0.1), (torch.float16, 0.3)])
def test_ends_that_a_dtype_cannot_hold(dtype, end):
    line = af.compile("2*x", {"x": (-end, end)}, 1e-6)
    ends = torch.tensor([-end, end]).to(dtype)
    assert ends[1].double() > end
    assert line(ends).dtype == dtype
    exact = line(torch.tensor([-end, end], dtype=torch.float64))
    assert torch.equal(line(ends), exact.to(dtype))


def test_gradients_pass_the_end():
    line = af.compile("x^2", {"x": (0, 0.1)}, 1e-4)
    x = torch.tensor([0.1], dtype=torch.float32, requires_grad=True)
    (slope,) = torch.autograd.grad(line(x).sum(), x)
    assert slope.item() == pytest.approx(0.2, abs=0.05)


def test_the_unit_at_zero_is_what_may_be_flushed():
    box = af.Box(0, 1)
    assert inside(-1e-310, box) == 0.0
    assert inside(-1e-300, box) == -1e-300
    assert inside(-1e-40, box, "float32") == 0.0
    assert math.isnan(inside(math.nan, box))


def test_pairs_and_shapes():
    box = af.Box(0, 0.1, shape=(1,))
    pair = af.constructions.cross_attention(lambda x, y: x[..., 0] + y[..., 0], box, box, grid=4, lipschitz=2)
    assert pair(np.nextafter(0.1, 1), 0.05) == pair(0.1, 0.05)
    with pytest.raises(af.DomainError, match="Y: "):
        pair(0.1, 0.2)
    line = af.compile("x", {"x": (0, 0.1)}, 1e-3)
    assert line(np.nextafter(0.1, 1)).shape == ()
    assert line(np.full(3, np.nextafter(0.1, 1))).shape == (3,)
    with pytest.raises(af.DomainError, match="Inputs must have shape"):
        line(np.zeros((2, 3)))


def test_autocast_changes_nothing(net):
    module, points = net.module(), torch.rand(64, 2) * torch.tensor([0.5, -0.5]) + torch.tensor([0.15, -0.2])
    plain, weights = module(points), module.attention(points)[0][0]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.matmul(torch.ones(2, 2), torch.ones(2, 2)).dtype == torch.bfloat16  # it is on
        assert torch.equal(module(points), plain)
        assert torch.equal(module.attention(points)[0][0], weights)
        assert torch.equal(net(points), plain)


@pytest.fixture
def fewer_bits():
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("medium")
    yield
    torch.set_float32_matmul_precision(before)


def test_products_in_fewer_bits_are_noticed(net, fewer_bits, monkeypatch):
    assert "mkldnn" in reduced_precision(torch.device("cpu"))
    assert "cuda" in reduced_precision(torch.device("cuda"))
    with pytest.raises(af.CertificateError, match=r"must run in float32.*set_float32_matmul_precision\(\"highest\"\)"):
        net(torch.tensor([0.2, -0.5]))
    assert net(np.array([0.2, -0.5])) == pytest.approx(np.sin(0.6) - 0.5, abs=1e-3)  # by NumPy, which has no such bits
    from attnforge.runtime import module as running

    monkeypatch.setattr(running.AttentionLayer, "forward", lambda self, state, context=None: state)  # not run: it may
    with pytest.warns(UserWarning, match="no certificate covers float32 products in fewer bits"):  # be unsupported
        net.module()(torch.zeros(1, 2))


def test_float64_is_not_concerned(fewer_bits):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert af.compile("2*x", {"x": (0, 1)}, 1e-3)(0.5) == pytest.approx(1.0, abs=1e-3)


def test_without_such_settings_nothing_is_said(net):
    assert reduced_precision(torch.device("cpu")) is None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        net.module()(torch.tensor([[0.2, -0.5]]))
