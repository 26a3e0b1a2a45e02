"""What figures share: colours that colour-blind readers can tell apart, titles with the user's text, error panels."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from attnforge.certification import Certificate

BLUE, ORANGE, GREEN, GREY = "#0072B2", "#D55E00", "#009E73", "#777777"  # Okabe and Ito
LONGEST = 60  # characters of a target in a title


def title(axes: Any, construction: str, text: str) -> None:
    """Construction and target above the panel; the text is shown as it is, never as mathematics."""
    text = text if len(text) <= LONGEST else text[: LONGEST - 3] + "..."
    axes.set_title(f"{construction}:  {text}", fontsize=10, parse_math=False)


def draw_error(axes: Any, along: npt.NDArray[np.float64], error: npt.NDArray[Any], certificate: Certificate) -> None:
    """The error and, where there is one, its bound."""
    axes.plot(along, error, color=BLUE, lw=1, label="|output − target|")
    bound = certificate.bound
    if bound is not None:
        axes.axhline(bound, color=ORANGE, lw=1.3, ls="--", label=f"{certificate.status} bound {bound:.3g}")
        axes.set_ylim(0, 1.45 * bound)
    axes.ticklabel_format(axis="y", style="sci", scilimits=(-2, 3))
    axes.set_ylabel("error")
    axes.legend(loc="upper right", frameon=False, fontsize=9, ncols=2)
