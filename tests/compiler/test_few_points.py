"""Few points are run by NumPy: the same values and shapes as torch's, within rounding, and no torch."""

import subprocess
import sys

import numpy as np
import pytest
import torch

import attnforge as af

LINE, SQUARE = {"x": (-1, 1)}, {"x": (-1, 1), "y": (0, 2)}
NETS = {
    "one input": lambda: af.compile("sin(8*x) + abs(x)", LINE, 1e-4),
    "float32": lambda: af.compile("sin(8*x)", LINE, 1e-4, dtype="float32"),
    "two inputs": lambda: af.compile("exp(x*y)", SQUARE, 1e-4, construction="tensor_grid"),
    "graph": lambda: af.compile("x*y/sqrt(1 + z^2)", dict.fromkeys("xyz", (-1, 1)), 1e-4),
    "two outputs": lambda: af.compile(["x*y", "x + y"], SQUARE, 1e-4),
    "tokens": lambda: af.constructions.multihead_truncated_linear([1.0, 2.0], 0.0, -1, 1, tokens=8, heads=2),
    "literal": lambda: af.constructions.gate([[1.0, 0.5]] * 2, 0.1, -1, 2, layout="literal"),
    "a sequence": lambda: af.constructions.two_layer(np.sin, af.Box(-1, 1, shape=(2, 1)), grid=2, lipschitz=1.0),
}


@pytest.mark.parametrize("name", NETS)
def test_they_are_what_the_module_computes(name):
    net = NETS[name]()
    assert net._few > 0
    box, rng = net.domain, np.random.default_rng(0)
    shape = (
        box.shape if net.target.layout == "function" or len(box.shape) == 2 else (net.network.tokens or 3, *box.shape)
    )
    unit = max(1e-12, 2 * net.certificate.parts["rounding"])
    for batch in [(), (3,), (2, 0), (2, 2)]:
        x = rng.uniform(np.broadcast_to(box.lower, shape), np.broadcast_to(box.upper, shape), size=(*batch, *shape))
        given = x[..., 0] if shape == (1,) and len(batch) == 1 else x
        wanted = net.module()(torch.from_numpy(given)).double().numpy()
        found = net(given)
        assert found.shape == wanted.shape
        np.testing.assert_allclose(found, wanted, rtol=unit, atol=unit)


def test_many_points_are_run_by_torch(monkeypatch):
    net = NETS["one input"]()
    x = np.linspace(-1, 1, net._few + 1)
    few = net(x[:-1])
    monkeypatch.setattr(type(net), "_in_numpy", None)
    assert 0 < np.abs(net(x)[:-1] - few).max() <= 2 * net.certificate.parts["rounding"]


def test_half_types_and_many_heads_are_run_by_torch():
    assert af.compile("sin(x)", LINE, 0.1, dtype="bfloat16")._few == 0
    units = torch.nn.Sequential(torch.nn.Linear(1, 32), torch.nn.ReLU(), torch.nn.Linear(32, 1)).double()
    assert af.compile(units, LINE, 1e-3)._few == 0


def test_points_outside_are_refused_and_those_one_rounding_outside_are_taken_as_ends():
    net = NETS["one input"]()
    with pytest.raises(af.DomainError, match=r"1\.5"):
        net(1.5)
    with pytest.raises(af.DomainError):
        net(np.nan)
    assert net(np.nextafter(1.0, 2.0)) == net(1.0)


def test_a_loaded_network_is_called_without_torch(tmp_path):
    NETS["one input"]().save(tmp_path / "net.safetensors")
    code = (
        "import sys, attnforge as af\n"
        f"net = af.load({str(tmp_path / 'net.safetensors')!r})\n"
        "print(float(net(0.3)), float(net(x=0.3)), 'torch' in sys.modules)"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert out[0] == out[1]
    assert out[2] == "False"
    assert float(out[0]) == pytest.approx(np.sin(2.4) + 0.3, abs=1e-4)
