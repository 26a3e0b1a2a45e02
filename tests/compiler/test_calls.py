"""Calling what was compiled: shapes, kinds, dtypes, frames, points at the border, attention, modules, cells, report."""

from __future__ import annotations

import subprocess
import sys
import warnings

import numpy as np
import pandas as pd
import pytest
import torch

import attnforge as af
from tests.refusals import refused

DTYPES = (torch.float64, torch.float32, torch.float16, torch.bfloat16)
DATA = pd.DataFrame({"y": [0.1, 0.2], "kind": ["a", "b"], "x": [0.5, 0.6]}, index=["p", "q"])


@pytest.fixture(scope="module")
def one():
    return af.compile("clamp(2*x, -1, 1)", {"x": (-1, 1)}, 1e-6)


@pytest.fixture(scope="module")
def two():
    return af.compile("clamp(2*x + 0.5*y, -1, 1)", {"x": (-1, 1), "y": (-2, 2)}, 0.05, construction="truncated_linear")


@pytest.fixture(scope="module")
def several():
    return af.compile(["x + y", "x*y"], {"x": (-1, 1), "y": (-1, 1)}, 1e-3)


@pytest.fixture(scope="module")
def single():
    return af.compile("sin(3*x) + y", {"x": (0.1, 0.7), "y": (-1, 0)}, 1e-4, dtype="float32")


def test_shapes_of_one_input(one):
    assert isinstance(one(0.25), np.float64)
    assert one(np.array(0.25)) == pytest.approx(0.5, abs=1e-6)
    assert one([0.0, 0.25]).tolist() == pytest.approx([0.0, 0.5], abs=1e-6)
    assert one(x=0.25) == one(0.25)
    for shape in [(5,), (0,), (2, 5)]:
        assert one(np.zeros((*shape, 1))).shape == shape
    assert one(np.zeros(5)).shape == one(x=np.zeros(5)).shape == (5,)


def test_shapes_of_two_inputs(two):
    assert np.ndim(two(np.array([0.1, 0.2]))) == 0
    for shape in [(), (5,), (2, 5)]:
        assert np.shape(two(np.zeros((*shape, 2)))) == shape
    x, y = np.meshgrid(np.linspace(-1, 1, 4), np.linspace(-2, 2, 3))
    assert np.array_equal(two(x=x, y=y), two(np.stack([x, y], axis=-1)))
    assert two(x=0.5, y=np.zeros(3)).shape == (3,)


def test_kinds_and_dtypes_come_back(one, two):
    assert one(np.array([0.25, 0.5], dtype=np.float32)).dtype == np.float32
    assert isinstance(one(np.float32(0.25)), np.float32)
    assert one(np.array([0, 1])).dtype == np.float64
    assert float(one(torch.tensor([1]))[0]) == pytest.approx(1, abs=1e-6)  # whole numbers are not rounded
    for dtype in DTYPES:
        out = two(torch.zeros((3, 2), dtype=dtype))
        assert (out.dtype, tuple(out.shape)) == (dtype, (3,))
        assert two.module(dtype)(torch.zeros((3, 2), dtype=dtype)).dtype == dtype
    mixed = two(x=torch.tensor([0.5], dtype=torch.float64), y=torch.zeros(3, dtype=torch.float64))
    assert tuple(mixed.shape) == (3,)


def test_few_points_are_run_without_torch_and_within_rounding_of_the_module(two, tmp_path):
    x = np.random.default_rng(0).uniform(-1, 1, size=(50, 2))
    gap = np.abs(two.module()(torch.from_numpy(x)).numpy() - two(x)).max()
    assert gap <= 2 * two.certificate.parts["rounding"] < 1e-13
    two.save(tmp_path / "net")
    code = (
        f"import sys, attnforge as af\nnet = af.load({str(tmp_path / 'net')!r})\n"
        "print(float(net([0.3, 0.1])), 'torch' in sys.modules)"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert out == [str(float(two([0.3, 0.1]))), "False"]


def test_gradients_flow_also_past_the_end(one, two):
    x = torch.tensor([0.1, 0.9], dtype=torch.float64, requires_grad=True)
    one(x).sum().backward()
    assert x.grad.tolist() == pytest.approx([2.0, 0.0], abs=1e-6)
    z = torch.zeros((4, 2), dtype=torch.float64, requires_grad=True)
    two(z).sum().backward()
    assert torch.isfinite(z.grad).all()
    assert z.grad.abs().sum() > 0
    end = torch.tensor([0.1], dtype=torch.float32, requires_grad=True)  # above 0.1
    (slope,) = torch.autograd.grad(af.compile("x^2", {"x": (0, 0.1)}, 1e-4)(end).sum(), end)
    assert slope.item() == pytest.approx(0.2, abs=0.05)


# Points at the border


def test_one_unit_outside_is_the_end_and_two_are_outside(single):
    above = np.nextafter(0.7, 1)
    assert single(np.array([above, 5e-324])) == single(np.array([0.7, 0.0]))
    assert single(np.array([np.nextafter(0.1, 0), -1.0])) == single(np.array([0.1, -1.0]))
    for point in ([np.nextafter(above, 1), 0.0], [np.nan, 0.0]):
        with refused(af.DomainError):
            single(np.array(point))


@pytest.mark.parametrize(("dtype", "end"), [(torch.float32, 0.1), (torch.bfloat16, 0.1), (torch.float16, 0.3)])
def test_ends_that_a_dtype_cannot_hold(dtype, end):
    line = af.compile("2*x", {"x": (-end, end)}, 1e-6)
    ends = torch.tensor([-end, end]).to(dtype)
    assert ends[1].double() > end
    assert torch.equal(line(ends), line(torch.tensor([-end, end], dtype=torch.float64)).to(dtype))


def test_points_that_bfloat16_cannot_hold_are_rounded_within_the_bound():
    net, x = af.compile("exp(x)", {"x": (-1, 1)}, 1e-1, dtype="bfloat16"), np.array([1 / 3, -0.7071])
    assert np.abs(net(x) - np.exp(x)).max() <= net.certificate.bound


def test_messages_name_the_place(two):
    with pytest.raises(af.DomainError, match=r"\[-2\.0, 2\.0\] at entry \(1,\).*3\.5 at index \(2, 1\)"):
        two(np.array([[0.0, 0.0], [0.5, 0.5], [0.5, 3.5]]))


# Arithmetic that runs


def test_autocast_changes_nothing(single):
    module, points = single.module(), torch.rand(64, 2) * torch.tensor([0.5, -0.5]) + torch.tensor([0.15, -0.2])
    plain, weights = module(points), module.attention(points)[0][0]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.matmul(torch.ones(2, 2), torch.ones(2, 2)).dtype == torch.bfloat16  # it is on
        assert torch.equal(module(points), plain)
        assert torch.equal(module.attention(points)[0][0], weights)
        assert torch.equal(single(points), plain)


def test_products_in_fewer_bits_are_noticed_where_they_would_be_used(single, one, monkeypatch):
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("medium")
    try:
        with refused(af.CertificateError):
            single(torch.tensor([0.2, -0.5]))
        assert single(np.array([0.2, -0.5])) == pytest.approx(np.sin(0.6) - 0.5, abs=1e-3)  # by NumPy
        monkeypatch.setattr("attnforge.runtime.module.AttentionLayer.forward", lambda self, state, context=None: state)
        with pytest.warns(UserWarning, match="no certificate covers float32 products in fewer bits"):
            single.module()(torch.zeros(1, 2))
        monkeypatch.undo()
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert one(torch.tensor([0.25])).item() == pytest.approx(0.5, abs=1e-6)  # float64 is not concerned
    finally:
        torch.set_float32_matmul_precision(before)


# Frames


def test_columns_are_taken_by_name_and_the_index_comes_back(two, several):
    found = two(DATA)
    assert isinstance(found, pd.Series)
    assert found.index.tolist() == ["p", "q"]
    np.testing.assert_array_equal(found, two(np.array([[0.5, 0.1], [0.6, 0.2]])))
    assert two(DATA.iloc[:0]).empty
    assert two(DATA[["x", "y"]].astype("float32")).dtype == np.float32
    frame = several(DATA)
    assert isinstance(frame, pd.DataFrame)
    assert (frame.shape, frame.index.tolist()) == ((2, 2), ["p", "q"])
    np.testing.assert_array_equal(frame, several(x=np.array([0.5, 0.6]), y=np.array([0.1, 0.2])))


def test_tables_take_the_names_of_columns():
    frame = pd.DataFrame({"a": np.linspace(0, 1, 12), "b": np.linspace(1, 0, 12) ** 2})
    net = af.compile((frame[["a", "b"]], frame["a"] * frame["b"]), tol=1e-2)
    assert net.target.names == ("a", "b")
    assert np.abs(net(frame[["b", "a"]]) - frame["a"] * frame["b"]).max() <= 1e-2
    assert af.compile((frame["a"], frame["b"]), tol=1e-2).target.names == ("a",)
    assert af.constructions.table(frame[["a"]], frame["b"], anchors=6).target.names == ("a",)
    assert af.compile((frame[["a"]].set_axis(["a column"], axis=1), frame["b"]), tol=1e-2).target.names is None


# Wrong calls


WRONG = {
    **{f"{x!r:.30}": lambda one, _, x=x: one(x) for x in ("abc", np.array([0.5 + 1j]), [[0.1], [0.2, 0.3]], object())},
    **{f"{bad}": lambda one, _, bad=bad: one(np.array([0.0, bad])) for bad in (np.nan, np.inf, 1.0001, -5.0)},
    **{f"{bad}, torch": lambda one, _, bad=bad: one(torch.tensor([0.0, bad])) for bad in (np.nan, -np.inf, 5.0)},
    **{f"shape {shape}": lambda _, two, shape=shape: two(np.zeros(shape)) for shape in ((), (3,), (3, 3), (2, 1))},
    "one name of two": lambda _, two: two(x=0.5),
    "another name": lambda one, _: one(y=0.5),
    "another second name": lambda _, two: two(x=0.5, z=0.1),
    "points and a name": lambda _, two: two(np.zeros(2), y=0.5),
    "points twice": lambda _, two: two(np.zeros(2), np.zeros(2)),
    "nothing": lambda _, two: two(),
    "names where there are none": lambda *_: af.constructions.gate([1.0], 0.0, -1, 1)(x=0.5),
    "attention of another name": lambda _, two: two.attention(x=0.5, z=0.1),
    "attention outside": lambda one, _: one.attention(100.0),
    "another kernel": lambda one, _: one.module(kernel="sparse"),
    "a column missing": lambda _, two: two(DATA[["x"]]),
    "a column twice": lambda _, two: two(pd.concat([DATA, DATA[["x"]]], axis=1)),
    "a column of text": lambda _, two: two(DATA.assign(x=["a", "b"])),
    "a gap in a column": lambda _, two: two(DATA.assign(x=[0.5, np.nan])),
    "a column beyond": lambda _, two: two(DATA.assign(x=[0.5, 3.0])),
}


@pytest.mark.parametrize("what", WRONG)
@pytest.mark.filterwarnings("ignore::numpy.exceptions.ComplexWarning")
def test_wrong_calls_are_refused(one, two, what):
    with refused(af.DomainError):
        WRONG[what](one, two)


# Cells


def total(x):
    return x.sum(axis=-1)


@pytest.mark.parametrize("shape", [(), (5,), (3, 4)])
def test_the_cell_of_a_point_is_the_key_that_attends_most(shape):
    hard = {"sharpness": "hard", "effort": "low"}
    net = af.constructions.max_affine(total, af.Box(0, 1, shape=(2,)), cells=(3, 5), **hard)
    x = np.random.default_rng(0).random((*shape, 2))
    found = net.partition(x)
    assert (np.shape(found), found.dtype) == (shape, np.int64)
    assert np.array_equal(found, np.floor(x[..., 0] * 3) * 5 + np.floor(x[..., 1] * 5))
    line = af.constructions.max_affine(total, af.Box(0, 1, shape=(1,)), cells=10, **hard)
    assert (line.partition(0.55), line.partition([]).shape) == (5, (0,))
    assert line.partition([0.05, 0.95]).tolist() == line.partition([[0.05], [0.95]]).tolist() == [0, 9]
    with refused(af.DomainError):
        net.partition([0.5, 2.0])
    with refused(af.RefusalError):
        af.constructions.gate([1.0], 0.0, -1, 1).partition([[0.0]])


def test_the_report_says_it_all(two):
    proof = two.certificate
    for word in (
        "clamp(2*x + 0.5*y, -1, 1)", "x in [-1, 1], y in [-2, 2]", "truncated_linear", f"{two.anchors:,} keys",
        "c = beta h^2 = 2.7", f"{two.parameters:,} (", "proved: |net(x)", f"{proof.bound:.4g}", proof.digest[:16],
        f"{proof.estimate.error:.4g}", "IEEE rounding in float64", "spacing",
    ):  # fmt: skip
        assert word in two.report()
