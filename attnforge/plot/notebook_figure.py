"""A figure that shows itself: as the last value of a cell a notebook draws it, once, and pyplot never hears of it."""

from __future__ import annotations

from io import BytesIO

from matplotlib.figure import Figure

SCREEN, PRINT = 100, 120  # pixels an inch that a notebook gives a figure, and that are drawn: sharp on finer screens


class NotebookFigure(Figure):
    """A matplotlib figure, like any other, that notebooks display.

    pyplot displays the figures that it has made at the end of a cell, and notebooks learn to display others only once
    it is imported. This one belongs to no pyplot, so that it is shown where it is a cell's value and nowhere else.
    """

    def _repr_png_(self) -> tuple[bytes, dict[str, int]]:
        """The image, and how large a notebook draws it."""
        buffer = BytesIO()
        self.savefig(buffer, format="png", dpi=PRINT)
        width, height = (round(SCREEN * inches) for inches in self.get_size_inches())
        return buffer.getvalue(), {"width": width, "height": height}
