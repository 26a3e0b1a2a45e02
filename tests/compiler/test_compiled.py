"""Calling, printing, attention and modules of a compiled target."""

import numpy as np
import pytest
import torch

import attnforge as af
from attnforge.runtime.audit import audit


@pytest.fixture(scope="module")
def one():
    return af.compile("clamp(2*x, -1, 1)", {"x": (-1, 1)}, 1e-6)


@pytest.fixture(scope="module")
def two():
    return af.compile("clamp(2*x + 0.5*y, -1, 1)", {"x": (-1, 1), "y": (-2, 2)}, 0.05, construction="truncated_linear")


def test_shapes_of_one_input(one):
    assert np.ndim(one(0.25)) == 0
    assert isinstance(one(0.25), np.float64)
    assert one(np.array(0.25)) == pytest.approx(0.5, abs=1e-6)
    assert one(np.zeros(5)).shape == (5,)
    assert one(np.zeros((5, 1))).shape == (5,)
    assert one(np.zeros((2, 5, 1))).shape == (2, 5)
    assert one([0.0, 0.25]).tolist() == pytest.approx([0.0, 0.5], abs=1e-6)
    assert one(x=0.25) == one(0.25)
    assert one(x=np.zeros(5)).shape == (5,)
    assert one(np.zeros(0)).shape == (0,)


def test_shapes_of_two_inputs(two):
    assert np.ndim(two(np.array([0.1, 0.2]))) == 0
    assert two(np.zeros((5, 2))).shape == (5,)
    assert two(np.zeros((2, 5, 2))).shape == (2, 5)
    assert two([[0.1, 0.2]] * 3).shape == (3,)
    x, y = np.meshgrid(np.linspace(-1, 1, 4), np.linspace(-2, 2, 3))
    assert np.array_equal(two(x=x, y=y), two(np.stack([x, y], axis=-1)))
    assert two(x=0.5, y=np.zeros(3)).shape == (3,)


def test_kinds_and_dtypes_come_back(one, two):
    single = np.array([0.25, 0.5], dtype=np.float32)
    assert one(single).dtype == np.float32
    assert isinstance(one(np.float32(0.25)), np.float32)
    assert one(np.array([0, 1])).dtype == np.float64
    for dtype in (torch.float64, torch.float32, torch.float16, torch.bfloat16):
        out = two(torch.zeros((3, 2), dtype=dtype))
        assert (out.dtype, tuple(out.shape)) == (dtype, (3,))
    mixed = two(x=torch.tensor([0.5], dtype=torch.float64), y=torch.zeros(3, dtype=torch.float64))
    assert tuple(mixed.shape) == (3,)
    assert np.allclose(two(torch.full((1, 2), 0.25, dtype=torch.float64)).numpy(), two(np.full((1, 2), 0.25)))


def test_whole_numbers_in_torch_are_not_rounded():
    net = af.compile("clamp(0.5*x, -1, 1)", {"x": (-2, 2)}, 1e-6)
    assert float(net(torch.tensor([1]))[0]) == pytest.approx(0.5, abs=1e-6)


@pytest.mark.parametrize("x", ["abc", np.array([0.5 + 1j]), [[0.1], [0.2, 0.3]], object()])
@pytest.mark.filterwarnings("ignore::numpy.exceptions.ComplexWarning")
def test_what_is_not_a_number_is_refused(one, x):
    with pytest.raises(af.DomainError):
        one(x)


def test_gradients_flow(one, two):
    x = torch.tensor([0.1, 0.9], dtype=torch.float64, requires_grad=True)
    one(x).sum().backward()
    assert x.grad.tolist() == pytest.approx([2.0, 0.0], abs=1e-6)
    z = torch.zeros((4, 2), dtype=torch.float64, requires_grad=True)
    two(z).sum().backward()
    assert torch.isfinite(z.grad).all()
    assert z.grad.abs().sum() > 0


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1.0001, -5.0])
def test_points_outside_and_nan_are_refused(one, bad):
    for x in (bad, np.array([0.0, bad]), torch.tensor([0.0, bad], dtype=torch.float64)):
        with pytest.raises(af.DomainError):
            one(x)
    assert one.module()(torch.tensor([bad], dtype=torch.float64)).shape == (1,)  # the module does not check


def test_messages_name_the_place(two):
    with pytest.raises(af.DomainError, match=r"\[-2\.0, 2\.0\] at entry \(1,\).*3\.5 at index \(2, 1\)"):
        two(np.array([[0.0, 0.0], [0.5, 0.5], [0.5, 3.5]]))


@pytest.mark.parametrize("shape", [(), (3,), (3, 3), (2, 1)])
def test_wrong_shapes_are_refused(two, shape):
    with pytest.raises(af.DomainError, match=r"\(\.\.\., 2\)"):
        two(np.zeros(shape))


def test_wrong_names_are_refused(one, two):
    for call in (
        lambda: two(x=0.5),
        lambda: two(x=0.5, z=0.1),
        lambda: two(np.zeros(2), y=0.5),
        lambda: two(np.zeros(2), np.zeros(2)),
        lambda: two(),
        lambda: af.constructions.gate([1.0], 0.0, -1, 1)(x=0.5),
    ):
        with pytest.raises(af.DomainError):
            call()
    with pytest.raises(af.DomainError, match="named x"):
        one(y=0.5)


@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16", "float16"])
def test_modules_run_in_any_dtype(two, dtype):
    module = two.module(dtype=dtype)
    x = torch.zeros((3, 2), dtype=getattr(torch, dtype))
    assert module(x).dtype == getattr(torch, dtype)
    assert {b.dtype for b in module.buffers() if b.is_floating_point()} == {getattr(torch, dtype)}
    assert abs(float(module(x)[0])) < 0.5
    audit(module, x)


def test_modules_are_trainable_on_request(one):
    assert not list(one.module().parameters())
    trainable = one.module(trainable=True)
    assert sum(p.numel() for p in trainable.parameters()) == one.parameters
    trainable(torch.tensor([0.1], dtype=torch.float64)).sum().backward()
    assert any(p.grad is not None and p.grad.abs().sum() > 0 for p in trainable.parameters())
    with pytest.raises(af.DomainError, match="kernel"):
        one.module(kernel="sparse")


def test_module_and_call_agree(two):
    x = np.random.default_rng(0).uniform(-1, 1, size=(50, 2))
    # Few points are run by NumPy, the module by torch: each is within the rounding part of exact arithmetic.
    difference = np.abs(two.module()(torch.from_numpy(x)).numpy() - two(x)).max()
    assert difference <= 2 * two.certificate.parts["rounding"] < 1e-13


@pytest.mark.parametrize("layout", ["memory", "literal"])
def test_attention_weights(layout):
    net = af.constructions.multihead_truncated_linear([1.0], 0.0, -1, 1, tokens=10, heads=3, layout=layout)
    x = np.linspace(-1, 1, 40).reshape(4, 10, 1)
    found = net.attention(x)
    assert len(found) == net.layers == 1
    assert len(found[0]) == net.heads == 3
    for weights in found[0]:
        assert weights.shape == (4, 10, 10)
        assert weights.min() >= 0
        assert np.allclose(weights.sum(axis=-1), 1.0, atol=1e-12)
    values = np.stack(
        [
            np.where(np.array(h.claims.roles) == "sentinel", 0.0, np.clip(h.claims.positions, -1, 1))
            for h in net.network.heads
        ]
    )
    out = sum(w @ v for w, v in zip(found[0], values, strict=True))
    assert np.allclose(out, net(x), atol=1e-12)
    assert isinstance(net.attention(torch.from_numpy(x))[0][0], torch.Tensor)
    with pytest.raises(af.DomainError):
        net.attention(x + 100)


def test_the_report_says_it_all(two):
    text = two.report()
    assert text == str(two)
    for word in ("clamp(2*x + 0.5*y, -1, 1)", "x in [-1, 1], y in [-2, 2]", "truncated_linear", "1 layer", "1 head"):
        assert word in text
    for word in (f"{two.anchors:,} keys", "c = beta h^2 = 2.7", f"{two.parameters:,} (", "float64", "proved: |net(x)"):
        assert word in text
    assert f"{two.certificate.bound:.4g}" in text
    assert f"{two.certificate.estimate.error:.4g}" in text
    assert two.certificate.digest[:16] in text
    assert "IEEE rounding" in text
    assert "spacing" in text
    assert "rounding" in text
    assert repr(two).startswith("<Compiled truncated_linear: clamp(2*x + 0.5*y, -1, 1), proved:")


def test_reports_of_the_other_constructions():
    heads = af.constructions.multihead_truncated_linear([1.0] * 6, 0.0, -1, 1, tokens=10, heads=3).report()
    assert "3 heads" in heads
    assert "6 features" in heads
    gate = af.constructions.gate([1.0], 0.0, -1, 1, sharpness=1234.0).report()
    assert "beta = 1234" in gate
    assert "at every token" in gate
