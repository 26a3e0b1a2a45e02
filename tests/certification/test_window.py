"""What a run by windows adds: bounds that hold, of networks in the file, and say little more than is seen."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import attnforge as af
from attnforge.balls import machine
from attnforge.certification.window import window_rounding
from attnforge.network import Attention, apply_layer, layers_in, rounded
from attnforge.runtime import AttentionNetwork
from tests.readers.mutations import mutations
from tests.runtime.test_window import SIZES, row_network


def exactly(network, x):
    """The network in extended precision."""
    state = x.astype(np.longdouble)
    for layer in layers_in(network, np.longdouble):
        state = apply_layer(layer, state)
    return state


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("noise", [0.0, 1e-9])
@pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES)
def test_no_run_differs_by_more(sizes, noise, dtype, window_version):
    """Of even rows, and of rows whose keys and offsets are moved a little."""
    network = row_network(sizes)
    head, rng = network.heads[0], np.random.default_rng(3)
    rows = {value: value + noise * rng.normal() for value in np.unique(head.memory_keys)}
    keys = np.vectorize(rows.get)(head.memory_keys)
    network = replace(network, layers=(network.layers[0], Attention((replace(head, memory_keys=keys),))))
    run, box = rounded(network, dtype), af.Box(-0.5, 0.5, shape=(len(sizes),))
    bound = window_rounding(run, box, machine(dtype), forced=True)
    x = rng.uniform(-0.5, 0.5, size=(300, 1, len(sizes))).astype(dtype)
    module = AttentionNetwork(network, getattr(torch, dtype), kernel="window")
    error = np.abs(module(torch.from_numpy(x)).double().numpy() - exactly(run, x)).max()
    assert error <= bound <= (1e-2 if dtype == "float32" else 1e-9 if noise == 0 else 3000 * error)


@pytest.mark.parametrize("sizes", [(200,), (30, 41)])
def test_mutations_are_charged_or_refused(sizes):
    """Every array of the network, entry by entry and whole, small and large: no run by windows is further off."""
    rng, charged = np.random.default_rng(7), 0
    box, x = af.Box(-0.5, 0.5, shape=(len(sizes),)), rng.uniform(-0.5, 0.5, size=(100, 1, len(sizes)))
    for mutation in mutations(row_network(sizes), rng, 6):
        try:
            network = mutation.make()
            bound = window_rounding(network, box, machine("float64"), forced=True)
            out = AttentionNetwork(network, torch.float64, kernel="window")(torch.from_numpy(x)).numpy()
        except af.AttnforgeError:
            continue
        error = np.abs(out - exactly(network, x)).max()
        assert error <= bound, mutation.what
        charged += 1
    assert charged > 20


def test_a_fitted_network_is_certified_for_windows():
    net = af.compile("sin(200*x)", {"x": (-1, 1)}, 1e-4)
    found = af.certify(net, kernel="window")
    assert found.kernels == ("window",)
    assert found.parts["fit"] == net.certificate.parts["fit"]
    x = np.random.default_rng(0).uniform(-1, 1, 5000)
    with pytest.warns(UserWarning, match="not window"):
        module = net.module(kernel="window")
    error = np.abs(module(torch.from_numpy(x)).numpy() - np.sin(200 * x)).max()
    assert error <= found.bound <= 1.1 * net.certificate.bound


def test_heads_that_are_no_rows_are_refused():
    net = af.compile("abs(x)", {"x": (-1, 1)}, 1e-2, construction="tensor_grid")
    with pytest.raises(af.RefusalError, match="products of even rows"):
        af.certify(net, kernel="window")
    with pytest.raises(af.CertificateError, match="dense, batched, factorised, window"):
        af.certify(net, kernel="fast")
