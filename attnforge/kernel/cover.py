r"""Cells that cover boxes, and bounds on each of them, whoever chooses where to cut."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from attnforge.errors import CertificateError
from attnforge.outward import Up

Array = npt.NDArray[np.float64]
Numbers = npt.NDArray[np.int64]
OnCells = Callable[[Numbers, Array, Array], Array]  # from boxes (N,) and cells of them (N, k) to bounds (N,)

REMEDY = "Cut cells that are there"
MOST = 10**6  # cells of one cover


@dataclass(frozen=True, eq=False)
class Cut:
    """Cells, by number, are cut across an axis each, at numbers (n, parts - 1)."""

    cells: Numbers
    axes: Numbers
    places: Array


class Cover:
    """Cells that cover each of some boxes (h, k), and bounds on them.

    It starts with the boxes and replaces cells by their parts. Places outside a cell are taken to its ends, so parts
    join and cover it whatever is asked for.

    >>> cover = Cover(np.zeros((1, 1)), np.ones((1, 1)), lambda which, low, high: high[:, 0] - low[:, 0])
    >>> cover.cut(Cut(np.array([0]), np.array([0]), np.array([[0.25, 7.0]])))
    >>> cover.cells[1].ravel().tolist(), cover.bounds().tolist(), cover.largest().values.tolist()
    ([0.0, 0.25, 1.0], [0.25, 0.75, 0.0], [0.75])
    """

    def __init__(self, low: Array, high: Array, evaluate: OnCells) -> None:
        if not (np.isfinite(low) & np.isfinite(high) & (low <= high)).all():
            raise CertificateError("Boxes lie between finite ends", "others", "Shrink the domain")
        self._evaluate, self._boxes = evaluate, len(low)
        self._which, self._low, self._high = np.arange(len(low)), np.array(low), np.array(high)
        self._bound = np.full(len(low), np.nan)
        self._cuts: list[Cut] = []

    @property
    def cells(self) -> tuple[Numbers, Array, Array]:
        """The box (N,) and the ends (N, k) of every cell."""
        return self._which.copy(), self._low.copy(), self._high.copy()

    @property
    def evaluate(self) -> OnCells:
        """What bounds any cells of the boxes."""
        return self._evaluate

    @property
    def cuts(self) -> tuple[Cut, ...]:
        """All that were made."""
        return tuple(self._cuts)

    def cut(self, cut: Cut) -> None:
        """Replace cells by their parts, which stand behind all others; they are not evaluated yet."""
        self._check(cut)
        low, high, each = self._low[cut.cells], self._high[cut.cells], np.arange(len(cut.cells))
        ends = low[each, cut.axes][:, None], high[each, cut.axes][:, None]
        edges = np.hstack([ends[0], np.sort(np.clip(cut.places, *ends), axis=1), ends[1]])
        parts = edges.shape[1] - 1
        lows, highs = (np.repeat(end[:, None], parts, axis=1) for end in (low, high))
        lows[each, :, cut.axes], highs[each, :, cut.axes] = edges[:, :-1], edges[:, 1:]
        kept = np.ones(len(self._which), dtype=bool)
        kept[cut.cells] = False
        self._which = np.concatenate([self._which[kept], np.repeat(self._which[cut.cells], parts)])
        self._low = np.vstack([self._low[kept], lows.reshape(-1, low.shape[1])])
        self._high = np.vstack([self._high[kept], highs.reshape(-1, low.shape[1])])
        self._bound = np.concatenate([self._bound[kept], np.full(len(each) * parts, np.nan)])
        self._cuts.append(cut)

    def _check(self, cut: Cut) -> None:
        count = len(self._which)
        numbers = all(np.issubdtype(each.dtype, np.integer) and each.ndim == 1 for each in (cut.cells, cut.axes))
        there = (
            numbers and ((cut.cells >= 0) & (cut.cells < count)).all() and len(np.unique(cut.cells)) == len(cut.cells)
        )
        shapes = cut.places.ndim == 2 and len(cut.cells) == len(cut.axes) == len(cut.places)
        if not there or not shapes or not np.isfinite(cut.places).all():
            raise CertificateError("Cells that are there are cut, once each, at finite numbers", "others", REMEDY)
        if count + cut.places.size > MOST or not ((cut.axes >= 0) & (cut.axes < self._low.shape[1])).all():
            raise CertificateError(f"A cover has up to {MOST:,} cells, cut across their axes", "more", REMEDY)

    def bounds(self) -> Array:
        """On every cell; infinite where nothing is known."""
        missing = np.isnan(self._bound)
        if missing.any():
            found = self._evaluate(self._which[missing], self._low[missing], self._high[missing])
            self._bound[missing] = np.where(np.isnan(found), np.inf, found)
        return self._bound.copy()

    def largest(self) -> Up:
        """On each box (h,)."""
        found, bounds = np.zeros(self._boxes), self.bounds()
        np.maximum.at(found, self._which, bounds)
        return Up(found)
