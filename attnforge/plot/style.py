"""What figures share: colours that colour-blind readers can tell apart, titles with the user's text, error panels."""

from __future__ import annotations

import textwrap
from bisect import bisect_right
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from attnforge.certification import Certificate
from attnforge.display.markup import printable

Array = npt.NDArray[np.float64]

BLUE, SKY, ORANGE, GREEN, GREY = "#0072B2", "#56B4E9", "#D55E00", "#009E73", "#777777"  # Okabe and Ito
PURPLE = "#CC79A7"  # of the same palette
WIDTH, COLUMN = 7.2, 3.4  # inches: two columns of a paper, and one
LINE, LINES = 84, 2  # characters of a line in a title of a page's width, and lines of the construction and the target
NARROW = 46  # characters of a line above a figure as wide as a column, which are smaller
HANDLE, BETWEEN = 1.6, 1.4  # letters' sizes: of a line in a legend, and between its columns
SMALL = 7  # points: the smallest letters
DEPTH = 1e-4  # of the largest error: how far down the logarithmic axis of errors reaches


def fitted(text: str, width: float, size: float) -> str:
    """The text, on one line, cut so that it is at most ``width`` inches wide in letters of ``size`` points.

    >>> fitted("sum of many words", 0.6, 8), fitted("sum", 0.6, 8)
    ('sum of…', 'sum')
    """
    words = " ".join(printable(text).split())[: int(72 * width)]
    if _inches(words, size) <= width:
        return words
    kept = bisect_right(range(len(words) + 1), width, key=lambda count: _inches(words[:count] + "…", size)) - 1
    return words[: max(kept, 0)].rstrip() + "…"


def _inches(text: str, size: float) -> float:
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import TextToPath

    font = FontProperties(size=size)
    return float(TextToPath().get_text_width_height_descent(text, font, ismath=False)[0]) / 72 if text else 0.0


def heading(construction: str, text: str, note: str = "", line: int = LINE) -> str:
    """Construction, target and a note on a line of its own; long texts are wrapped, then cut.

    >>> heading("gate", "clamp(x, 0, 1)")
    'gate:  clamp(x, 0, 1)'
    """
    words = " ".join(printable(text).split())
    name = printable(construction)
    lines = textwrap.wrap(f"{name}:  {words}", line, max_lines=LINES, placeholder=" ...") or [name]
    return "\n".join([*lines, *(part for each in note.splitlines() for part in textwrap.wrap(each, line))])


def figure_title(figure: Any, construction: str, text: str, note: str = "") -> None:
    """The heading above a figure, or part of one; the text is shown as it is, never as mathematics."""
    size, line = title_letters(inches(figure)[0])
    figure.suptitle(heading(construction, text, note, line), fontsize=size, parse_math=False)


def title_letters(width: float) -> tuple[float, int]:
    """Points of the letters of a title so many inches wide, smaller above a column, and how many fit on a line.

    >>> title_letters(WIDTH), title_letters(COLUMN)
    ((10, 84), (8, 46))
    """
    if width < (WIDTH + COLUMN) / 2:
        return 8, max(1, round(NARROW * width / COLUMN))
    return 10, round(LINE * width / WIDTH)


def inches(part: Any) -> tuple[float, float]:
    """Width and height of a figure, a part of one or a panel."""
    figure = part if hasattr(part, "suptitle") else part.figure
    return part.bbox.width / figure.dpi, part.bbox.height / figure.dpi


def label_size(axes: Any, size: float) -> None:
    """Numbers, names and title of a panel in letters of this size."""
    axes.tick_params(which="both", labelsize=size)
    for text in (axes.xaxis.label, axes.yaxis.label, axes.title):
        text.set_fontsize(size)


def fit_y_label(axes: Any) -> None:
    """A name of the y-axis that is longer than the axis in smaller letters, so that it does not run into the next."""
    label = axes.yaxis.label
    long, room = _inches(printable(label.get_text()), label.get_fontsize()), inches(axes)[1]
    if long > room:
        label.set_fontsize(max(SMALL, label.get_fontsize() * room / long))


def legend_above(axes: Any, *, user_text: bool = False, size: float = 9) -> None:
    """The legend above the panel, where it hides nothing, in as few lines as fit on it.

    With ``user_text`` its words may be a user's and are drawn as they are.
    """
    legend = axes.legend(
        loc="lower center",
        bbox_to_anchor=(0.5, 0.99),
        frameon=False,
        borderaxespad=0.1,
        **_legend_look(axes, size),
    )
    if user_text:
        as_written(legend)


def legend_inside(axes: Any, *, user_text: bool = False, size: float = 9) -> None:
    """The legend where it hides least, over what it hides."""
    legend = axes.legend(loc="best", fontsize=size, framealpha=0.8, borderaxespad=0.3, handlelength=HANDLE)
    if user_text:
        as_written(legend)


def _legend_look(axes: Any, size: float = 9) -> dict[str, Any]:
    """Letters and columns of a legend, smaller letters on a panel that is narrower than a column of a paper."""
    width = inches(axes)[0]
    size = size if width >= COLUMN else min(size, SMALL)
    labels = axes.get_legend_handles_labels()[1]
    look = {"fontsize": size, "handlelength": HANDLE, "columnspacing": BETWEEN}
    return {"ncols": _columns(labels, width, size), **look}


def _columns(labels: Sequence[str], width: float, size: float) -> int:
    """How many columns fit, each as wide as its widest entry: handle, pad of 0.8 letters, text, space between."""
    wide = [_inches(printable(label).strip(), size) + (HANDLE + 0.8 + BETWEEN) * size / 72 for label in labels]
    for columns in range(len(wide), 1, -1):
        rows = -(-len(wide) // columns)  # entries run downwards
        if sum(max(wide[i : i + rows]) for i in range(0, len(wide), rows)) <= width:
            return columns
    return 1


def as_written(legend: Any, width: float = 2.0) -> None:
    """Words of a legend that may be a user's: cut at so many inches, escaped, never taken for mathematics."""
    for text in legend.get_texts():
        text.set_parse_math(False)
        text.set_text(fitted(text.get_text(), width, text.get_fontsize()))


def legend_name(name: str) -> str:
    """The name as matplotlib lists it: words that begin with "_" are hidden by it, unless a blank comes first.

    The blank is gone again in :func:`as_written`. A mere "_" stays hidden.
    """
    return f" {name}" if name.startswith("_") and name != "_" else name


def draw_error(
    axes: Any, along: Array, error: npt.NDArray[Any], certificate: Certificate, *, points: bool = False
) -> None:
    """The error with its bound, from zero on; without a bound, on a logarithmic axis with the largest error seen.

    With ``points`` the errors are those of single points and are not joined.
    """
    look = {"ls": "", "marker": "o", "ms": 3} if points else {"lw": 1}
    bound, seen = certificate.bound, largest_seen(error, certificate)
    shown = error if bound is not None else np.maximum(error, log_floor(seen))
    axes.plot(along, shown, color=BLUE, label="|output − target|", **look)
    if bound is None:
        _draw_seen(axes, seen, certificate)
    else:
        kind = "bound" if certificate.norm == "sup" else f"{certificate.norm} bound"
        axes.axhline(bound, color=ORANGE, lw=1.3, ls="--", label=f"{certificate.status} {kind} {bound:.3g}")
        room = 1.45 if _legend_look(axes)["ncols"] > 1 else 2.1
        axes.set_ylim(0, room * (bound if certificate.norm == "sup" else max(bound, seen)))
        axes.ticklabel_format(axis="y", style="sci", scilimits=(-2, 3))
    axes.set_ylabel("error")
    axes.legend(loc="upper right", frameon=False, **_legend_look(axes))


def largest_seen(error: npt.NDArray[Any], certificate: Certificate) -> float:
    """The largest error of the figure and of the certificate's search, where that looked at single points."""
    estimate = certificate.estimate
    known = estimate.error if estimate is not None and certificate.norm == "sup" else 0.0
    return max(known, float(np.max(error, initial=0.0, where=np.isfinite(error))))


def log_floor(seen: float, depth: float = DEPTH) -> float:
    """The least error a logarithmic scale shows: what is smaller is drawn there."""
    return depth * seen if seen > 0 else np.finfo(np.float64).eps * depth


def _draw_seen(axes: Any, seen: float, certificate: Certificate) -> None:
    """Turn the axis logarithmic and say what is known without a bound."""
    floor = log_floor(seen)
    axes.set_yscale("log")
    axes.set_ylim(floor, (seen or 1e4 * floor) * 30)
    if certificate.norm == "sup":
        text = f"largest error seen {seen:.2g} (not a bound)"
        axes.axhline(max(seen, floor), color=ORANGE, lw=1.3, ls="--", label=text)
