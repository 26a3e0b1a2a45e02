"""Trained weights are certified as what they are: by their own numbers, under a name that says so."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest
import torch
from matplotlib.image import imread

import attnforge as af
from attnforge.network import digest
from tests.catalogue import network
from tests.laws.forms import given
from tests.refusals import refused

EXAMPLE = Path(__file__).parents[2] / "examples" / "fine_tune.py"
OPTIMISERS = {
    "Adam": lambda weights: torch.optim.Adam(weights, lr=1e-3),
    "SGD": lambda weights: torch.optim.SGD(weights, lr=1e-3, momentum=0.9),
    "LBFGS": lambda weights: torch.optim.LBFGS(weights, max_iter=5, line_search_fn="strong_wolfe"),
}
TRAINED = (
    "gate", "sine", "truncated, window", "graph", "deep relu", "two layers, tokens", "cross-attention",
    "least squares, float32", "kernel ridge", "mean of a prompt",
)  # fmt: skip


@pytest.fixture(scope="module")
def cells():
    return af.constructions.max_affine("sin(3*x)", {"x": (-1.5, 1.5)}, cells=6)


def trained(net, optimiser, steps=20):
    """A module after some steps towards its target, at points of the domain."""
    module = net.module(trainable=True)
    x = torch.linspace(-1.5, 1.5, 101, dtype=torch.float64)
    wanted, chosen = torch.sin(3 * x), OPTIMISERS[optimiser](module.parameters())

    def loss():
        chosen.zero_grad()
        found = (module(x) - wanted).pow(8).mean().pow(1 / 8)
        found.backward()
        return found

    first = loss().item()
    for _ in range(steps):
        chosen.step(loss)
    assert loss().item() < first
    return module


@pytest.mark.parametrize("optimiser", OPTIMISERS)
def test_any_optimiser_and_the_new_bound_is_of_the_new_weights(cells, optimiser):
    before, module = cells.certificate, trained(cells, optimiser)
    tuned = cells.with_network(module.network())
    assert tuned.certificate.status == "proved"
    assert tuned.certificate.digest == digest(module.network()) != before.digest
    assert af.measure(tuned, points=2000).sup <= tuned.certificate.bound < before.bound
    assert af.certify(module.network(), "sin(3*x)", {"x": (-1.5, 1.5)}).bound == tuned.certificate.bound
    assert cells.certificate is before


def test_the_old_bound_does_not_hold_for_weights_that_were_trained_away(cells):
    """A certificate that went on to speak of the old weights would be seen here."""
    module = cells.module(trainable=True)
    x = torch.linspace(-1.5, 1.5, 101, dtype=torch.float64)
    chosen = torch.optim.Adam(module.parameters(), lr=1e-2)
    for _ in range(60):
        chosen.zero_grad()
        (module(x) - 2.0).pow(2).mean().backward()
        chosen.step()
    tuned = cells.with_network(module.network())
    assert cells.certificate.bound < af.measure(tuned, points=2000).sup <= tuned.certificate.bound


def test_nothing_trained_is_called_constructed(cells, tmp_path):
    tuned = cells.with_network(trained(cells, "Adam", 2).network())
    assert tuned.construction == "max_affine, other weights"
    assert tuned.construction in str(tuned)
    assert tuned.reason == "other weights, certified anew"
    tuned.save(tmp_path / "tuned.safetensors")
    assert af.load(tmp_path / "tuned.safetensors").construction == tuned.construction
    assert tuned.with_network(tuned.network).construction == tuned.construction  # said once


def test_towards_another_target(cells):
    shifted = cells.with_network(cells.network, "sin(3*x) + 1/2")
    assert shifted.certificate.bound > 0.5 - cells.certificate.bound
    assert cells.with_network(cells.network).certificate.bound == cells.certificate.bound
    prompted = network("least squares, float32")
    assert prompted.with_network(prompted.network).construction.endswith("other weights")
    with refused(af.RefusalError):  # it keeps its target
        prompted.with_network(prompted.network, "x^2")


@pytest.mark.parametrize("name", TRAINED)
def test_modules_of_every_kind_train_and_are_read_back(name):
    """One step of gradient descent moves the weights that the loss sees, and ``network()`` has the moved ones."""
    net = network(name)
    module = net.module(trainable=True)
    before = digest(module.network())
    x = (torch.as_tensor(part, dtype=getattr(torch, net.dtype)) for part in given(net, 3))
    optimiser = torch.optim.SGD(module.parameters(), lr=1e-4)
    (module(*x) - 1.0).pow(2).sum().backward()
    optimiser.step()
    assert digest(module.network()) != before


def test_the_example_draws_its_figure(tmp_path, capsys):
    runpy.run_path(str(EXAMPLE))["main"](["--quick", "--out", str(tmp_path / "figure.png")])
    assert imread(tmp_path / "figure.png")[..., :3].std() > 0.05
    rows = [line.split("|")[2:5] for line in capsys.readouterr().out.splitlines()[2:]]
    for before, after, measured in rows:
        assert float(measured) <= float(after) * (1 + 0.05) < float(before)  # printed with two digits
