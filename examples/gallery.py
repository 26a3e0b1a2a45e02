"""Every figure of ``attnforge.plot``, drawn by the code that ``docs/plots.md`` shows.

Run ``OMP_NUM_THREADS=1 .venv/bin/python examples/gallery.py``: figures go to ``docs/images/plot_*.png``. ``--out DIR``
writes them into another folder; names of figures draw these only.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from matplotlib.figure import Figure
from torch import nn

import attnforge as af
from attnforge.plot.attention import draw_attention

Array = npt.NDArray[np.float64]

IMAGES = Path(__file__).parent.parent / "docs" / "images"
DPI = 150


def overview() -> Any:
    """A truncated linear function."""
    return af.plot.overview(af.constructions.truncated_linear([1.0, -0.5], 0.1, -1, 1, anchors=9))


def section() -> Any:
    """Target, output, gaps and error on a line."""
    return af.plot.section(af.compile("sin(8*x) + abs(x)", {"x": (-1, 1)}, tol=1e-4))


def section_plane() -> Any:
    """Target, output and error in the plane."""
    return af.plot.section(af.compile("exp(-x^2)*cos(3*y)", {"x": (-1, 1), "y": (0, 2)}, tol=1e-3))


def attention_map() -> Any:
    """All heads of a layer."""
    net = af.constructions.multihead_truncated_linear([1.0], 0.1, -1, 1, tokens=10, heads=3)
    return af.plot.attention_map(net)


def attention_panels() -> Any:
    """Small multiples: from uniform attention to a single key."""
    figure = Figure(figsize=(7.2, 2.4), layout="constrained")
    for axes, beta in zip(figure.subplots(1, 3, sharey=True), (1.0, 30.0, 1000.0), strict=True):
        net = af.constructions.truncated_linear([1.0], 0.0, -1, 1, anchors=8, sharpness=beta)
        x = np.linspace(-1, 1, 201).reshape(-1, 1, 1)
        image = draw_attention(axes, net.attention(x)[0][0][:, 0], ends=(-1, 1), marks=False)
        axes.set_title(f"sharpness {beta:g}", fontsize=9)
        axes.set_xlabel("x")
    figure.axes[0].set_ylabel("key")
    figure.colorbar(image, ax=figure.axes, label="attention weight", pad=0.01)
    return figure


def weighted_sum() -> Any:
    """Softmax weights times values, added up: few cells."""
    domain: Any = {"x": (-1, 1)}
    return af.plot.weighted_sum(af.constructions.max_affine("sin(3*x)", domain, cells=6), at=0.3)


def weighted_sum_fitted() -> Any:
    """The same of a fitted head with graded anchors."""
    return af.plot.weighted_sum(af.compile("sin(8*x) + abs(x)", {"x": (-1, 1)}, tol=1e-6))


def anchors() -> Any:
    """Graded anchors, ghosts and gaps."""
    return af.plot.anchors(af.compile("sin(8*x) + abs(x)", {"x": (-1, 1)}, tol=1e-4))


def anchors_plane() -> Any:
    """A grid and its ghosts."""
    domain = {"x": (-1, 1), "y": (0, 2)}
    net = af.compile("exp(-x^2)*cos(3*y)", domain, tol=1e-3, construction="tensor_grid")
    return af.plot.anchors(net)


def anchors_heads() -> Any:
    """Heads along one form, with sentinels on their neighbours' anchors."""
    return af.plot.anchors(af.constructions.multihead_truncated_linear([1.0], 0.1, -1, 1, tokens=10, heads=3))


def partition() -> Any:
    """Adaptive cells on a line."""
    domain: Any = {"x": (0, 1)}
    return af.plot.partition(af.constructions.max_affine("sqrt(x)", domain, cells=af.anchors.Adaptive(8)))


def partition_plane() -> Any:
    """Voronoi cells in the plane."""
    domain: Any = {"x": (0, 1), "y": (0, 1)}
    return af.plot.partition(af.constructions.max_affine("sqrt(x + y)", domain, cells=af.anchors.Adaptive(60)))


def error_map() -> Any:
    """The error on a line, below its bound."""
    return af.plot.error_map(af.compile("sin(8*x) + abs(x)", {"x": (-1, 1)}, tol=1e-4))


def error_map_plane() -> Any:
    """The error in the plane."""
    return af.plot.error_map(af.compile("exp(-x^2)*cos(3*y)", {"x": (-1, 1), "y": (0, 2)}, tol=1e-3))


def graph() -> Any:
    """One head a term of a sum."""
    domain = {"x": (-1, 1), "y": (0, 2), "z": (0, 1)}
    return af.plot.graph(af.compile("sin(5*x) + abs(y - 1) + x*z", domain, tol=1e-2))


def graph_relu() -> Any:
    """One head a unit of a ReLU network; the wide layer is folded."""
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(2, 4), nn.ReLU(), nn.Linear(4, 64), nn.LeakyReLU(), nn.Linear(64, 1))
    return af.plot.graph(af.constructions.relu_network(module, af.Box(-1, 1)))


def rate_curves() -> Any:
    """Errors against sizes, with a slope to compare."""
    counts, curves = [8, 16, 32, 64, 128], []
    for kind in ("hard", "tuned"):
        nets = [af.constructions.truncated_linear([1.0], 0.0, -1, 1, anchors=p, sharpness=kind) for p in counts]
        curves.append(af.plot.Curve(kind, counts, [af.measure(net, points=20_000).sup for net in nets]))
    return af.plot.rate_curves(curves, x_label="anchors p", y_label="largest error", slopes=[-1])


def trajectory() -> Any:
    """Ridge regression by gradient descent, run by frozen attention."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 2)) * [1.0, 0.4]
    y = x @ [0.7, -0.4] + 0.05 * rng.normal(size=60)
    net = af.in_context.Ridge(alpha=0.1, steps=20, learning_rate=0.5).build(features=2, examples=60)
    best = np.linalg.solve(x.T @ x / 60 + 0.1 * np.eye(2), x.T @ y / 60)

    def loss(w: Array) -> Array:
        return np.asarray(((w @ x.T - y) ** 2).mean(axis=1) / 2 + 0.05 * (w**2).sum(axis=1))

    return af.plot.trajectory(net.trajectory(x, y), best, ["w1", "w2"], loss=loss)


FIGURES: tuple[Callable[[], Any], ...] = (
    overview,
    section,
    section_plane,
    attention_map,
    attention_panels,
    weighted_sum,
    weighted_sum_fitted,
    anchors,
    anchors_plane,
    anchors_heads,
    partition,
    partition_plane,
    error_map,
    error_map_plane,
    graph,
    graph_relu,
    rate_curves,
    trajectory,
)


def main() -> None:
    """Draw and save."""
    parser = argparse.ArgumentParser(description="Draw the figures of docs/plots.md.")
    names = [draw.__name__ for draw in FIGURES]
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"all of {', '.join(names)}, or some of them")
    parser.add_argument("--out", type=Path, default=IMAGES, help="folder of the figures")
    given = parser.parse_args()
    unknown = set(given.names) - set(names)
    if unknown:
        parser.error(f"no figure is called {', '.join(sorted(unknown))}")
    given.out.mkdir(parents=True, exist_ok=True)
    for draw in FIGURES:
        if not given.names or draw.__name__ in given.names:
            place = given.out / f"plot_{draw.__name__}.png"
            draw().savefig(place, dpi=DPI)
            print(f"wrote {place}")


if __name__ == "__main__":
    main()
