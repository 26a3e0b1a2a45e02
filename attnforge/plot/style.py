"""What figures share: colours that colour-blind readers can tell apart, titles with the user's text, error panels."""

from __future__ import annotations

import textwrap
from typing import Any

import numpy as np
import numpy.typing as npt

from attnforge.certification import Certificate

Array = npt.NDArray[np.float64]

BLUE, SKY, ORANGE, GREEN, GREY = "#0072B2", "#56B4E9", "#D55E00", "#009E73", "#777777"  # Okabe and Ito
WIDTH = 7.2  # inches
LINE, LINES = 84, 2  # characters of a line in a title, and lines of the construction and the target
DEPTH = 1e-4  # of the largest error: how far down the logarithmic axis of errors reaches


def heading(construction: str, text: str, note: str = "") -> str:
    """Construction, target and a note on a line of its own; long texts are wrapped, then cut.

    >>> heading("gate", "clamp(x, 0, 1)")
    'gate:  clamp(x, 0, 1)'
    """
    words = " ".join(text.split())
    lines = textwrap.wrap(f"{construction}:  {words}", LINE, max_lines=LINES, placeholder=" ...") or [construction]
    return "\n".join([*lines, *([note] if note else [])])


def title(axes: Any, construction: str, text: str, note: str = "") -> None:
    """The heading above a panel; the text is shown as it is, never as mathematics."""
    axes.set_title(heading(construction, text, note), fontsize=10, parse_math=False)


def figure_title(figure: Any, construction: str, text: str, note: str = "") -> None:
    """The heading above a figure, as it is."""
    figure.suptitle(heading(construction, text, note), fontsize=10, parse_math=False)


def legend_above(axes: Any) -> None:
    """The legend in one row above the panel, where it hides nothing."""
    labels = axes.get_legend_handles_labels()[1]
    axes.legend(
        loc="lower center",
        bbox_to_anchor=(0.5, 0.99),
        ncols=len(labels),
        frameon=False,
        fontsize=9,
        borderaxespad=0.1,
        handlelength=1.6,
        columnspacing=1.4,
    )


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


def log_floor(seen: float) -> float:
    """The least error a logarithmic scale shows: what is smaller is drawn there."""
    return DEPTH * seen if seen > 0 else np.finfo(np.float64).eps * DEPTH


def _draw_seen(axes: Any, seen: float, certificate: Certificate) -> None:
    """Turn the axis logarithmic and say what is known without a bound."""
    floor = log_floor(seen)
    axes.set_yscale("log")
    axes.set_ylim(floor, (seen or 1e4 * floor) * 30)
    if certificate.norm == "sup":
        text = f"largest error seen {seen:.2g} (not a bound)"
        axes.axhline(max(seen, floor), color=ORANGE, lw=1.3, ls="--", label=text)
