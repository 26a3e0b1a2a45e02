"""Training that starts from the construction: where it goes, and what bound holds where it is."""

from __future__ import annotations

import torch

from attnforge.certification.certify import certify
from attnforge.effort import Effort, until
from attnforge.errors import CertificateError, RefusalError
from attnforge.experiments.constructed_vs_trained.networks import as_module, build
from attnforge.experiments.constructed_vs_trained.task import BATCH, ENCLOSURE, THEOREM, Task, errors
from attnforge.experiments.experiment import Row
from attnforge.experiments.training import train
from attnforge.network import Network
from attnforge.targets import TruncatedLinear

SHOWN = (0, 1, 2, 3, 5, 7, 10, 15, 20, 30, 40, 50)  # epochs in the table, where they exist
BOUNDED = (0, 1, 5, 20, 50)  # of these, the ones whose bound is looked for
LONGEST = 120  # seconds that a proof may take


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
                **(proved(module.network(), target, cells) if bounded else {}),
            }
        )

    look(0)
    inputs, targets = task.training()
    seen = torch.tensor(inputs), torch.tensor(targets)
    train(module, *seen, epochs=epochs, batch=BATCH, rate=rate, seed=task.seed, constant=True, after=look)
    return rows


def proved(network: Network, target: TruncatedLinear, cells: int) -> Row:
    """The bound that is proved of a trained head, and how; or why there is none."""
    try:
        with until(LONGEST):
            found = certify(network, target, effort=Effort(boxes=cells))
    except (CertificateError, RefusalError) as reason:
        return {"bound": None, "proof": reason.requirement}
    if found.bound is None:
        return {"bound": None, "proof": found.assumptions[0]}
    return {"bound": found.bound, "proof": THEOREM if "spacing" in found.parts else ENCLOSURE}
