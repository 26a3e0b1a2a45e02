"""What figures share: colours that colour-blind readers can tell apart, titles with the user's text, error panels."""

from __future__ import annotations

import textwrap
from bisect import bisect_right
from typing import Any

import numpy as np
import numpy.typing as npt

from attnforge.certification import Certificate

Array = npt.NDArray[np.float64]

BLUE, SKY, ORANGE, GREEN, GREY = "#0072B2", "#56B4E9", "#D55E00", "#009E73", "#777777"  # Okabe and Ito
PURPLE = "#CC79A7"  # of the same palette
WIDTH, COLUMN = 7.2, 3.4  # inches: two columns of a paper, and one
LINE, LINES = 84, 2  # characters of a line in a title, and lines of the construction and the target
NARROW = 46  # characters of a line above a figure as wide as a column
DEPTH = 1e-4  # of the largest error: how far down the logarithmic axis of errors reaches


def printable(text: str) -> str:
    r"""The text with every character that does not print shown escaped; blanks and line ends stay.

    Fonts have no picture of control characters, and files cannot hold half a surrogate pair.

    >>> printable("a\x1b[31mb")
    'a\\x1b[31mb'
    """
    kept = (c if c in "\n\t" or c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)
    return "".join(kept)


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
    return "\n".join([*lines, *([note] if note else [])])


def title(axes: Any, construction: str, text: str, note: str = "") -> None:
    """The heading above a panel; the text is shown as it is, never as mathematics."""
    axes.set_title(heading(construction, text, note), fontsize=10, parse_math=False)


def figure_title(figure: Any, construction: str, text: str, note: str = "") -> None:
    """The heading above a figure, as it is; in smaller letters above one that is as wide as a column."""
    narrow = figure.get_figwidth() < (WIDTH + COLUMN) / 2
    text = heading(construction, text, note, NARROW if narrow else LINE)
    figure.suptitle(text, fontsize=8 if narrow else 10, parse_math=False)


def label_size(axes: Any, size: float) -> None:
    """Numbers, names and title of a panel in letters of this size."""
    axes.tick_params(which="both", labelsize=size)
    for text in (axes.xaxis.label, axes.yaxis.label, axes.title):
        text.set_fontsize(size)


def legend_above(axes: Any, *, user_text: bool = False, size: float = 9, columns: int | None = None) -> None:
    """The legend above the panel, where it hides nothing, in one row or in so many columns.

    With ``user_text`` its words may be a user's and are drawn as they are.
    """
    labels = axes.get_legend_handles_labels()[1]
    legend = axes.legend(
        loc="lower center",
        bbox_to_anchor=(0.5, 0.99),
        ncols=columns or len(labels),
        frameon=False,
        fontsize=size,
        borderaxespad=0.1,
        handlelength=1.6,
        columnspacing=1.4,
    )
    if user_text:
        as_written(legend)


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
        axes.set_ylim(0, 1.45 * (bound if certificate.norm == "sup" else max(bound, seen)))
        axes.ticklabel_format(axis="y", style="sci", scilimits=(-2, 3))
    axes.set_ylabel("error")
    axes.legend(loc="upper right", frameon=False, fontsize=9, ncols=2)


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
