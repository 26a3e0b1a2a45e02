"""A program at work on one sequence: attention maps of the heads that select tokens, and the trace of all registers."""

from __future__ import annotations

from typing import Any

import numpy as np

from attnforge.display.markup import printable
from attnforge.errors import TargetError
from attnforge.plot.panels import Size, on_grid, panels
from attnforge.plot.style import GREY, WIDTH, fitted

ACROSS = 4  # maps side by side
MOST = 24  # tokens that are drawn


def program(net: Any, sequence: Any, *, ax: Any = None, figsize: Size | None = None) -> Any:
    """Attention maps (queries down, keys across, a constant key first), above what every register holds.

    Args:
        net: a compiled program.
        sequence: tokens, at most 24 of them.
        ax: where to draw, as :mod:`attnforge.plot.panels` says; None makes a new figure.
        figsize: width and height of a new figure, in inches.

    >>> from attnforge import programs
    >>> net = programs.compile(programs.library["reverse"], max_length=8)
    >>> figure = program(net, list("abcd"))
    >>> [text.get_text() for text in figure.axes[0].get_yticklabels()]
    ['a', 'b', 'c', 'd']
    """
    if not hasattr(net, "trace"):
        raise TargetError("`plot.program` draws a compiled program", type(net).__name__, "Use programs.compile")
    if not 1 <= len(sequence) <= MOST:
        raise TargetError(f"A picture of a program has 1 to {MOST} tokens", f"{len(sequence)}", "Pass fewer")
    maps, trace = _maps(net, sequence), net.trace(sequence)
    rows = -(-len(maps) // ACROSS)
    heights = [1.9] * rows + [0.24 * (len(trace.registers) + 1)]
    places: list[tuple[Any, Any]] = [*(divmod(i, ACROSS) for i in range(len(maps))), (rows, slice(None))]
    make = on_grid(rows + 1, ACROSS, places, heights)
    drawn = panels(ax, figsize, (WIDTH, sum(heights) + 0.5), make, count=len(places))
    for axes, (name, weights) in zip(drawn.axes, maps, strict=False):
        _draw_map(axes, name, weights, trace.tokens)
    _draw_trace(drawn.axes[-1], trace)
    return drawn.finished()


def _maps(net: Any, sequence: Any) -> list[tuple[str, Any]]:
    """Name and weights (query, key) of every head over tokens."""
    layers = zip(net.attention(sequence), net.labels().attention, strict=True)
    return [
        (f"{depth}: {head.formula}", weights)
        for depth, (layer, label) in enumerate(layers, start=1)
        for head, weights in zip(label.heads, layer, strict=True)
        if head.kinds[-1] == "tokens"
    ]


def _draw_map(axes: Any, name: str, weights: Any, tokens: list[Any]) -> None:
    axes.imshow(weights, cmap="Blues", vmin=0.0, vmax=1.0, aspect="auto")
    names = [_text(token) for token in tokens]
    keys = ["·"] * (weights.shape[1] - len(names)) + names
    axes.set_xticks(range(len(keys)), keys, fontsize=7, parse_math=False)
    axes.set_yticks(range(len(names)), names, fontsize=7, parse_math=False)
    axes.tick_params(length=0)
    axes.set_title(fitted(name, 1.6, 7), fontsize=7, parse_math=False)


def _draw_trace(axes: Any, trace: Any) -> None:
    """A line a register: layer and name, exact values under the tokens, measured and proved error."""
    count = len(trace.tokens)
    axes.set_xlim(-0.5, count + 0.9)
    axes.set_ylim(len(trace.registers) - 0.5, -1.0)
    shades = np.array([[_shade(register, i) for i in range(count)] for register in trace.registers])
    axes.imshow(
        shades, cmap="Blues", vmin=0.0, vmax=2.0, aspect="auto", extent=(-0.5, count - 0.5, len(shades) - 0.5, -0.5)
    )
    for row, register in enumerate(trace.registers):
        for i, value in enumerate(register.exact):
            axes.text(i, row, _text(value), ha="center", va="center", fontsize=7, parse_math=False)
        note = f"{register.error:.0e} ≤ {register.bound:.0e}"
        axes.text(count - 0.4, row, note, ha="left", va="center", fontsize=7, color=GREY)
    names = [fitted(f"{register.layer}: {register.name}", 1.7, 7) for register in trace.registers]
    axes.set_yticks(range(len(names)), names, fontsize=7, parse_math=False)
    axes.set_xticks([])
    axes.tick_params(length=0)
    axes.text(count - 0.4, -0.75, "error ≤ proved", ha="left", va="center", fontsize=7, color=GREY)
    axes.set_title("what every register holds, token by token", fontsize=8)
    for side in axes.spines.values():
        side.set_visible(False)


def _shade(register: Any, i: int) -> float:
    """How dark a cell is: numbers by their share of the largest, labels by which they are."""
    sizes = sorted({str(value) for value in register.exact})
    if register.run.shape[1] == 1:
        largest = max((abs(float(value)) for value in register.exact), default=0.0)
        return abs(float(register.exact[i])) / largest if largest else 0.0
    return sizes.index(str(register.exact[i])) / max(1, len(sizes) - 1)


def _text(value: Any) -> str:
    if value is None:
        return "∅"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return fitted(printable(str(value)), 0.5, 7)
