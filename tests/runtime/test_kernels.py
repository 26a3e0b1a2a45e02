"""Kernels are readers of one meaning: whichever a certificate names, no run is further off than it says."""

import numpy as np
import pytest
import torch
from torch import nn

import attnforge as af
from attnforge.balls import machine
from attnforge.certification.window import window_rounding
from attnforge.network import Attention, rounded
from attnforge.runtime import AttentionNetwork
from tests.certification.exact import in_long_doubles as exactly
from tests.runtime.test_window import row_network


def rectifier():
    torch.manual_seed(0)
    layers = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 1)).double()
    return af.compile(layers, af.Box(-1, 1, shape=(3,)), 1e-6)


BUILT = {
    "rectifier": (rectifier, {"dense", "batched"}),
    "grid": (
        lambda: af.compile("sin(3*x)*cos(2*y)", {"x": (-2, 2), "y": (-2, 2)}, 1e-9, construction="tensor_grid"),
        {"dense", "factorised"},
    ),
    "row": (
        lambda: af.constructions.truncated_linear([1.0], 0.25, -1, 2, anchors=3000, domain=af.Box(-2, 3, shape=(1,))),
        {"dense", "window"},
    ),
    "graph": (
        lambda: af.compile("x*y/sqrt(1 + z^2)", {"x": (-1, 1), "y": (-1, 1), "z": (0, 2)}, 1e-6, construction="graph"),
        {"dense", "batched"},
    ),
}


@pytest.mark.parametrize("name", BUILT)
def test_no_kernel_that_is_covered_exceeds_the_bound(name):
    make, kernels = BUILT[name]
    net = make()
    assert net.certificate.bound is not None
    assert set(net.certificate.kernels) == kernels
    box = net.domain
    x = np.random.default_rng(0).uniform(box.lower, box.upper, size=(2000, *box.shape))
    x = x[:, None] if net.target.layout == "tokens" else x
    given = torch.from_numpy(x)
    for kernel in ("auto", *net.certificate.kernels):
        error = np.abs(net.module(kernel=kernel)(given).numpy() - net.target.values(x)).max()
        assert error <= net.certificate.bound, kernel


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_windows_of_random_rows_are_within_their_bound(seed, dtype):
    """Rows of any length, sharpness and scale, in and beyond which it is asked."""
    rng = np.random.default_rng(seed)
    sizes = tuple(rng.integers(3, (400, 40, 14)[d := int(rng.integers(0, 3))], size=d + 1).tolist())
    network = row_network(sizes, c=float(rng.uniform(0.2, 8.0)), seed=seed, scale=float(2.0 ** rng.integers(-3, 4)))
    reach = float(rng.choice([0.4, 2.0]))
    run, box = rounded(network, dtype), af.Box(-reach, reach, shape=(len(sizes),))
    bound = window_rounding(run, box, machine(dtype), forced=True)
    x = rng.uniform(-reach, reach, size=(200, 1, len(sizes))).astype(dtype)
    module = AttentionNetwork(network, getattr(torch, dtype), kernel="window")
    apart = np.abs(module(torch.from_numpy(x)).double().numpy() - exactly(run, x)).max()
    assert apart <= bound


def test_batched_is_the_kernel_of_few_keys_and_no_other():
    net = rectifier()
    x = torch.rand(50, 3, dtype=torch.float64)
    torch.testing.assert_close(net.module(kernel="batched")(x), net.module()(x), rtol=0, atol=0)
    assert af.certify(net, kernel="batched").kernels == ("batched",)
    row = BUILT["row"][0]()
    with pytest.raises(af.RefusalError, match="at most 64 keys"):
        row.module(kernel="batched")
    with pytest.raises(af.RefusalError, match="few keys"):
        af.certify(row, kernel="batched")
    with pytest.raises(af.RefusalError, match="products of constant keys"):
        af.certify(row, kernel="factorised")


def test_a_row_that_is_run_otherwise_than_it_says_is_seen():
    """The comparison can fail: other values are further off than windows may be."""
    network = row_network((300,))
    bound = window_rounding(network, af.Box(-0.4, 0.4, shape=(1,)), machine("float64"), forced=True)
    encode, layer = network.layers
    head = layer.heads[0]
    moved = np.roll(head.memory_values, 1, axis=0)
    other = type(head)(head.query, head.output, memory_keys=head.memory_keys, memory_values=moved)
    x = np.random.default_rng(0).uniform(-0.4, 0.4, size=(50, 1, 1))
    changed = type(network)((encode, Attention((other,))), 1, None)
    out = AttentionNetwork(changed, torch.float64, kernel="window")(torch.from_numpy(x)).numpy()
    assert np.abs(out - exactly(network, x)).max() > bound
