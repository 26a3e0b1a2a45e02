"""Every construction on continuous functions: measured error against its certified bound, as a table and a figure.

Run ``.venv/bin/python benchmarks/universality.py``; the table goes to ``benchmarks/results/universality.md``, the
figure to ``docs/images/universality.png``.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FormatStrFormatter, LogLocator, NullFormatter

import attnforge as af

ROOT = Path(__file__).parent
RESULTS, FIGURE = ROOT / "results" / "universality.md", ROOT.parent / "docs" / "images" / "universality.png"
SQUARE, TOKENS = af.Box(0, 1, shape=(2,)), af.Box(0, 1, shape=(2, 1))
COLOURS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000"]


def wave(x: np.ndarray) -> np.ndarray:
    """sin(3a) b + cos(2b), Lipschitz with constant 6 in the sup norm."""
    return np.sin(3 * x[..., 0]) * x[..., 1] + np.cos(2 * x[..., 1])


def sort_tokens(x: np.ndarray) -> np.ndarray:
    """The tokens in increasing order, 1-Lipschitz in the sup norm."""
    return np.sort(x, axis=-2)


def joint(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """sin(4x) cos(3y) + x y, Lipschitz with constant 9."""
    return np.sin(4 * x[..., 0]) * np.cos(3 * y[..., 0]) + x[..., 0] * y[..., 0]


Build = Callable[[int], af.Compiled]
LINE = af.Box(0, 1, shape=(1,))
CASES: dict[str, tuple[Build, tuple[int, ...]]] = {
    "max_affine, hard: wave on [0,1]^2": (
        lambda g: af.constructions.max_affine(wave, SQUARE, cells=g, sharpness="hard", lipschitz=6.0),
        (8, 16, 32),
    ),
    "max_affine, tuned: wave on [0,1]^2": (
        lambda g: af.constructions.max_affine(wave, SQUARE, cells=g, lipschitz=6.0),
        (8, 16, 32),
    ),
    "max_affine, hard: sorting 2 tokens": (
        lambda g: af.constructions.max_affine(sort_tokens, TOKENS, cells=g, sharpness="hard", lipschitz=1.0),
        (8, 16, 32),
    ),
    "two_layer: wave on [0,1]^2": (
        lambda g: af.constructions.two_layer(wave, SQUARE, grid=g, lipschitz=6.0),
        (8, 16, 32),
    ),
    "two_layer: sorting 2 tokens": (
        lambda g: af.constructions.two_layer(sort_tokens, TOKENS, grid=g, lipschitz=1.0),
        (8, 16, 32),
    ),
    "softmax_tail: wave on [0,1]^2": (
        lambda g: af.constructions.softmax_tail(wave, SQUARE, grid=g, lipschitz=6.0),
        (8, 16, 32),
    ),
    "cross_attention, hard: sin(4x) cos(3y) + x y": (
        lambda g: af.constructions.cross_attention(joint, LINE, LINE, grid=g, sharpness="hard", lipschitz=9.0),
        (8, 16, 32),
    ),
    "cross_attention, tuned: sin(4x) cos(3y) + x y": (
        lambda g: af.constructions.cross_attention(joint, LINE, LINE, grid=g, lipschitz=9.0),
        (8, 16, 32),
    ),
}


def measure(build: Build, grids: tuple[int, ...]) -> list[tuple[int, int, float, float]]:
    """Grid, keys, measured error and bound."""
    found = []
    for grid in grids:
        net = build(grid)
        found.append((grid, net.anchors, af.measure(net, points=30_000).sup, float(net.certificate.bound or np.nan)))
    return found


def slope(rows: list[tuple[int, int, float, float]]) -> float:
    """Least-squares slope of log error against log grid."""
    return float(np.polyfit(np.log([r[0] for r in rows]), np.log([r[2] for r in rows]), 1)[0])


def draw(table: dict[str, list[tuple[int, int, float, float]]]) -> None:
    """Measured (full lines) and bound (dashed) against the grid, a panel a construction."""
    figure = Figure(figsize=(10, 5.2), layout="constrained")
    panels = figure.subplots(2, 4, sharex=True)
    for axes, (name, rows) in zip(panels.ravel(), table.items(), strict=False):
        grids = [r[0] for r in rows]
        axes.loglog(grids, [r[2] for r in rows], "o-", color=COLOURS[0], label=f"measured, slope {slope(rows):.2f}")
        axes.loglog(grids, [r[3] for r in rows], "s--", color=COLOURS[1], label="certified bound")
        axes.set_title(name.replace(": ", "\n"), fontsize=8)
        axes.set_xticks(grids, [str(g) for g in grids])
        axes.tick_params(which="minor", bottom=False)
        axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axes.yaxis.set_major_formatter(FormatStrFormatter("%g"))
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_minor_formatter(NullFormatter())
        apart = rows[-1][3] > 20 * rows[-1][2]  # then there is room between the lines
        axes.legend(fontsize=7, frameon=False, loc="center left" if apart else "lower left")
    for axes in panels[-1]:
        axes.set_xlabel("cells or grid points an axis")
    FIGURE.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(FIGURE, dpi=130)


def main() -> None:
    """Write table and figure."""
    table = {name: measure(*case) for name, case in CASES.items()}
    lines = [
        "# Constructions on continuous functions",
        "",
        "Made by `.venv/bin/python benchmarks/universality.py`.",
        "",
    ]
    lines += [
        "| construction: target | grid | keys | measured | bound | bound / measured |",
        "|---|---|---|---|---|---|",
    ]
    for name, rows in table.items():
        for grid, keys, error, bound in rows:
            lines.append(f"| {name} | {grid} | {keys:,} | {error:.4g} | {bound:.4g} | {bound / error:.2f} |")
    lines += ["", *(f"- {name}: slope {slope(rows):.2f}" for name, rows in table.items())]
    RESULTS.write_text("\n".join(lines) + "\n")
    print("\n".join(lines))
    draw(table)


if __name__ == "__main__":
    main()
