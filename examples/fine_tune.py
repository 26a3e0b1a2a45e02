"""Compile, fine-tune, prove again: weights are trained, and what is proved of them before and after.

Run ``OMP_NUM_THREADS=1 .venv/bin/python examples/fine_tune.py``: the figure goes to ``docs/images/fine_tune.png``, the
bounds to the screen. ``--out FILE`` draws it elsewhere, ``--quick`` takes few steps.

A construction of twelve cells for sin(3x), one head whose keys hold values of f, is trained in two ways: to a smaller
largest error of the same function, and towards another one, shifted and with a kink. What comes out is no construction
any more, and says so; its weights are as good as any for a proof, and the bounds are of these weights.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import attnforge as af
from attnforge.plot.style import BLUE, ORANGE

IMAGE = Path(__file__).parent.parent / "docs" / "images" / "fine_tune.png"
DOMAIN = {"x": (-1.5, 1.5)}
FUNCTION, SHIFTED = "sin(3*x)", "sin(3*x + 0.4) + abs(x)/4"
CELLS, POINTS, STEPS, QUICK, POWER = 12, 601, 12, 2, 8
DRAWN = np.linspace(*DOMAIN["x"], 3001)


@dataclass(frozen=True, eq=False)
class Tuned:
    """A network before and after training, both against the function that it was trained towards."""

    title: str
    before: af.Compiled
    after: af.Compiled


def fine_tune(net: af.Compiled, towards: af.Compiled, steps: int) -> af.Compiled:
    """The network with trained weights, certified anew against the target of ``towards``.

    The loss is the mean of the 8th powers of the errors, to the power of 1/8: nearly the largest of them.
    """
    module = net.module(trainable=True)
    x = torch.linspace(*DOMAIN["x"], POINTS, dtype=torch.float64)
    wanted = torch.from_numpy(towards.target.values(x.numpy()[:, None]))
    optimiser = torch.optim.LBFGS(module.parameters(), max_iter=20, history_size=20, line_search_fn="strong_wolfe")

    def closure() -> torch.Tensor:
        optimiser.zero_grad()
        error = (module(x) - wanted).abs()
        largest = error.max().detach()
        loss: torch.Tensor = largest * ((error / largest) ** POWER).mean() ** (1 / POWER)
        loss.backward()
        return loss

    for _ in range(steps):
        optimiser.step(closure)  # type: ignore[arg-type]
    return net.with_network(module.network(), towards.target)


def both(steps: int) -> list[Tuned]:
    """Trained to the same function, and to another."""
    net = af.constructions.max_affine(FUNCTION, DOMAIN, cells=CELLS)
    moved = net.with_network(net.network, SHIFTED)  # the same weights, judged by the other function
    return [
        Tuned(f"towards its own target, {FUNCTION}", net, fine_tune(net, net, steps)),
        Tuned(f"towards another, {SHIFTED}", moved, fine_tune(net, moved, steps)),
    ]


def draw(axes: Sequence[Axes], cases: Sequence[Tuned]) -> None:
    """Errors over the domain on a logarithmic scale, and the proved bounds as lines above them."""
    for ax, case in zip(axes, cases, strict=True):
        for net, colour, name in ((case.before, ORANGE, "constructed"), (case.after, BLUE, "fine-tuned")):
            error = np.abs(net(DRAWN) - net.target.values(DRAWN[:, None]))
            ax.semilogy(DRAWN, np.maximum(error, 1e-7), color=colour, lw=1, label=name)
            bound = net.certificate.bound
            if bound is not None:
                ax.axhline(bound, color=colour, ls="--", lw=1)
                ax.annotate(f"proved: {bound:.2g}", (1.5, bound), (0, 2), textcoords="offset points", ha="right",
                            va="bottom", fontsize=8, color=colour)  # fmt: skip
        ax.set(title=case.title, xlabel="x", ylim=(1e-6, 60), xlim=DOMAIN["x"])
        ax.title.set_fontsize(9)
        ax.legend(fontsize=8, loc="upper left")
    axes[0].set_ylabel("|net(x) - f(x)|")


def main(words: Sequence[str] | None = None) -> None:
    """Train, prove, print and draw."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=IMAGE)
    parser.add_argument("--quick", action="store_true")
    asked = parser.parse_args(words)
    cases = both(QUICK if asked.quick else STEPS)
    print("| trained | proved before | after | measured after |\n|---|---|---|---|")
    for case in cases:
        numbers = [case.before.certificate.bound, case.after.certificate.bound, af.measure(case.after).sup]
        print(f"| {case.title} | " + " | ".join(f"{number:.2g}" for number in numbers) + " |")
    figure = Figure(figsize=(7.2, 3.0), layout="constrained")
    draw(figure.subplots(1, 2, sharey=True), cases)
    figure.savefig(asked.out, dpi=150)


if __name__ == "__main__":
    main()
