"""A figure of any compiled target: chosen by its inputs, and by whether it is known everywhere or listed."""

from __future__ import annotations

from typing import Any

from attnforge.plot.given import check_compiled
from attnforge.plot.line import line
from attnforge.plot.listing import listing
from attnforge.plot.panels import Size
from attnforge.plot.plane import is_plane, plane
from attnforge.plot.sampling import Sectionable
from attnforge.targets import Table


def section(compiled: Sectionable, *, ax: Any = None, figsize: Size | None = None) -> Any:
    """Target, output, anchors and error.

    One input: all of the domain. Two: maps of target, output and error. More: a line through the domain, which is the
    one along the form of a network that reads a single one, else the diagonal. Tables: their listed points.

    Args:
        compiled: a compiled target.
        ax: where to draw, as :mod:`attnforge.plot.panels` says; None makes a new figure.
        figsize: width and height of a new figure, in inches.
    """
    check_compiled(compiled, "section")
    if isinstance(compiled.target, Table):
        return listing(compiled, compiled.target, ax, figsize)
    draw = plane if is_plane(compiled.target) else line
    return draw(compiled, ax, figsize)
