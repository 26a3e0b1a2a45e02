"""Training that starts from the construction: where it goes, and what bound holds where it is."""

from __future__ import annotations

from collections.abc import Callable

import torch

from attnforge.certification.certify import certify
from attnforge.errors import CertificateError, RefusalError
from attnforge.experiments.constructed_vs_trained.form_bound import bound_along_form
from attnforge.experiments.constructed_vs_trained.networks import as_module, build, trained_network
from attnforge.experiments.constructed_vs_trained.task import BATCH, Task, errors
from attnforge.experiments.experiment import Row
from attnforge.experiments.training import train
from attnforge.network import Network
from attnforge.targets import TruncatedLinear

SHOWN = (0, 1, 2, 3, 5, 7, 10, 15, 20, 30, 40, 50)  # epochs in the table, where they exist
BOUNDED = (0, 1, 5, 20, 50)  # of these, the ones whose bound is looked for


def continued(task: Task, start: str, part: str, rate: float, epochs: int, cells: int) -> list[Row]:
    """Train the constructed head on the authors' data, and look at it after some of the epochs."""
    network, target = build(start, 1, task.w, task.t)
    module = as_module(network, target, trainable=True)
    for name, weight in module.named_parameters():
        weight.requires_grad_(part == "all" or name.endswith("memory_values"))
    first = torch.nn.utils.parameters_to_vector(module.parameters()).detach().clone()
    x, y = task.fresh()
    given = torch.tensor(x)
    rows: list[Row] = []

    def look(epoch: int) -> None:
        if epoch not in SHOWN and epoch != epochs:
            return
        with torch.no_grad():
            out = module(given).numpy()
            weights = module.attention(given[:100])[0][0]
        now = torch.nn.utils.parameters_to_vector(module.parameters()).detach()
        bounded = epoch in BOUNDED or epoch == epochs
        rows.append(
            {
                **errors(out, y),
                "epoch": epoch,
                "moved": float((now - first).abs().max()),
                "distance": float((now - first).norm() / first.norm()),
                "undecided": float(1 - weights.square().sum(dim=-1).mean()),
                **(bounds_again(trained_network(module, network), target, cells) if bounded else {}),
            }
        )

    look(0)
    inputs, targets = task.training()
    seen = torch.tensor(inputs), torch.tensor(targets)
    train(module, *seen, epochs=epochs, batch=BATCH, rate=rate, seed=task.seed, constant=True, after=look)
    return rows


def bounds_again(network: Network, target: TruncatedLinear, cells: int) -> dict[str, float | None]:
    """A bound of a trained head: the theorem's proof where it still applies, along the form where that is smaller.

    ``theorem`` is the first alone; either is missing where its proof refuses.
    """
    theorem = _unless_refused(lambda: certify(network, target).bound)
    along = _unless_refused(lambda: bound_along_form(network, target, cells=cells))
    return {"theorem": theorem, "bound": min((each for each in (theorem, along) if each is not None), default=None)}


def _unless_refused(prove: Callable[[], float | None]) -> float | None:
    """The bound, or None where the proof does not cover the network."""
    try:
        return prove()
    except (CertificateError, RefusalError):
        return None
