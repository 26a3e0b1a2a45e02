"""One property of a network, with its known answer and where that comes from, as close to what is known as asked.

A property says that outputs lie between the pieces of a question, moved by a threshold up and down
(:mod:`attnforge.certification.known_answers`). The offsets in the file are numbers of the dtype, rounded so that the
answer stays true, and the answer is decided from these, in rational arithmetic.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from attnforge.certification.known_answers import Question
from attnforge.export.vnnlib_text import property_text
from attnforge.outward import down, up
from attnforge.targets import Box

Array = npt.NDArray[np.float64]

NETWORK, FOLDER = "network.onnx", "vnnlib"


class Kind(NamedTuple):
    """Which pieces: constants or affine ones, in one cell or several, on the box or on a small one inside it."""

    affine: bool
    several: bool
    small: bool
    says: str


KINDS = {
    "range": Kind(False, False, False, "one constant near f"),
    "steps": Kind(False, True, False, "a constant near f on each cell"),
    "slopes": Kind(True, True, False, "an affine function near f on each cell"),
    "close": Kind(True, True, True, "an affine function on each cell, as near to f as the network is"),
}
"""In the order in which they are written; constants bound each ``X`` and each ``Y`` by numbers alone."""


@dataclass(frozen=True, eq=False)
class Instance:
    """A property with its offsets (C, K), and whether it holds."""

    name: str
    kind: str
    asked: Question
    margin: float
    holds: bool
    lower: Array
    upper: Array

    @property
    def threshold(self) -> float:
        """What the offsets of the file keep from those of the pieces: at most, where it holds, else at least."""
        ends = np.stack([self.upper - self.asked.pieces.offsets, self.asked.pieces.offsets - self.lower])
        return up(float(ends.max())) if self.holds else down(float(ends.min()))

    @property
    def place(self) -> str:
        """Of its file."""
        return f"{FOLDER}/{self.name}.vnnlib"

    def text(self, about: str) -> str:
        """Of its file."""
        said = f"is the network, at any point of the box, {self.threshold:.6g} or more from {KINDS[self.kind].says}?"
        return property_text([f"{self.name}: {said}", f"f = {about:.200}"], self.asked.pieces, self.lower, self.upper)

    def answer(self, timeout: float) -> dict[str, Any]:
        """What is known, and from where."""
        asked, witness = self.asked, self.asked.witness
        exact_only = not self.holds and witness is not None and witness.exact_only
        return {
            "onnx": NETWORK,
            "vnnlib": self.place,
            "timeout": timeout,
            "answer": "unsat" if self.holds else "sat",
            "arithmetic": "exact" if exact_only else "exact and as it runs",
            "kind": self.kind,
            "margin": self.margin,
            "threshold": self.threshold,
            "box": sides(asked.box),
            "cells": len(asked.pieces.lower),
            "radius": asked.radius,
            "bound": asked.bound,
            "because": "|net - pieces| <= bound + radius, both proved, is less than the threshold" if self.holds else
            "an enclosure of the output at the witness is at least the threshold away from the piece of its cell",
            "witness": None if self.holds or witness is None else {
                "x": witness.point.tolist(),
                "output": witness.output,
                "between": list(witness.between),
            },
        }  # fmt: skip


def instances(kind: str, asked: Question, dtype: str, margins: Sequence[float]) -> Iterator[Instance]:
    """Those that fail, then those that hold, the nearest to what is known in the middle."""
    away, most = Fraction(0) if asked.witness is None else asked.witness.distance, Fraction(asked.most)
    fail = [(away / (1 + Fraction(margin)), margin, False) for margin in reversed(margins) if away > 0]
    hold = [(most * (1 + Fraction(margin)), margin, True) for margin in margins]
    number = 0
    for threshold, margin, holds in (*fail, *hold):
        lower, upper = (_offsets(asked.pieces.offsets, way * threshold, dtype, up=(way > 0) == holds, strict=holds)
                        for way in (-1, 1))  # fmt: skip
        if (asked.holds if holds else asked.fails)(lower, upper):
            number += 1
            yield Instance(f"{kind}_{number}", kind, asked, margin, holds, lower, upper)


def _offsets(offsets: Array, more: Fraction, dtype: str, *, up: bool, strict: bool) -> Array:
    """Offsets and so much more, rounded to the dtype so that an answer stays true: outward where a property holds."""
    found = [rounded_to(Fraction(each) + more, dtype, up=up, strict=strict) for each in offsets.ravel()]
    return np.reshape(found, offsets.shape)


def rounded_to(number: Fraction, dtype: str, *, up: bool, strict: bool = False) -> float:
    """The next number of the dtype from there on, upward or downward, or beyond it.

    >>> rounded_to(Fraction(1, 10), "float32", up=True), rounded_to(Fraction(1, 2), "float64", up=False, strict=True)
    (0.10000000149011612, 0.49999999999999994)
    """
    kind = np.dtype(dtype).type
    found, way = kind(float(number)), kind(np.inf if up else -np.inf)
    while (apart := (Fraction(float(found)) - number) * (1 if up else -1)) < 0 or (strict and apart == 0):
        found = np.nextafter(found, way)
    return float(found)


def sides(box: Box) -> list[list[float]]:
    """Lower and upper ends, side by side."""
    return [[float(low), float(high)] for low, high in zip(box.lower, box.upper, strict=True)]
