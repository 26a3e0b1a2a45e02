"""VNN-LIB: instances for verifiers whose answers are known, by proof.

Each asks whether the network stays within a threshold of affine pieces near its target, on all of a box
(:mod:`attnforge.certification.known_answers`): with a threshold above what is proved a verifier must answer ``unsat``,
with one below what the network certainly reaches at a point ``sat``. Pieces are of several kinds, thresholds as close
to these as the margins say.
"""

from __future__ import annotations

import csv
import io
import json
import math
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from attnforge.balls import down, round_to, up
from attnforge.certification.certificate import arithmetic
from attnforge.certification.known_answers import Question, Subject, close_box, question
from attnforge.effort import Effort, as_effort
from attnforge.errors import DomainError, RefusalError
from attnforge.export.interface import exported, one_line, write_folder
from attnforge.export.to_onnx import onnx_model
from attnforge.export.vnnlib_text import property_text
from attnforge.network import digest
from attnforge.targets import Box, Formula, Formulas, ReluNetwork, Target, part_of

if TYPE_CHECKING:
    from attnforge.balls import DType

Array = npt.NDArray[np.float64]


class Kind(NamedTuple):
    """Which pieces: constants or affine ones, in one cell or several, on the box or on a small one inside it."""

    affine: bool
    several: bool
    small: bool
    says: str


KINDS = {
    "range": Kind(False, False, False, "one constant"),
    "steps": Kind(False, True, False, "a constant on each cell"),
    "slopes": Kind(True, True, False, "an affine function on each cell"),
    "close": Kind(True, True, True, "an affine function on each cell of a small box, as near to f as the network is"),
}
"""In the order in which they are written; constants read ``X`` by box and ``Y`` by number alone, as all tools do."""

NETWORK, FOLDER = "network.onnx", "vnnlib"
MEANING = (
    "unsat: no input of the box satisfies the file, the network stays within `threshold` of the pieces; sat: the "
    "witness satisfies it. `arithmetic` says of what that is proved: exact arithmetic with the weights of the file, and "
    "every run in the dtype that keeps to the assumptions. If the network stays within the threshold of the pieces, it "
    "stays within threshold + radius of the target; if not, it is off by at least threshold - radius somewhere"
)


def vnnlib(
    model: Any,
    path: str | os.PathLike[str],
    dtype: DType | None = None,
    *,
    kinds: Sequence[str] = tuple(KINDS),
    box: Any = None,
    margins: Sequence[float] = (1.0, 0.1, 0.01),
    cells: int = 16,
    timeout: float = 300.0,
    effort: str | Effort | None = None,
) -> None:
    r"""Write the network of a compiled target as ONNX, and properties of it whose answers are known.

    Args:
        model: what ``af.compile`` or ``af.load`` returns, of a formula or a ReLU network.
        path: the folder.
        dtype: of the network and of all numbers in the files.
        kinds: of pieces that the network is compared with: ``range``, ``steps``, ``slopes``, ``close``.
        box: of the domain, on which it is; all of it where left out. ``close`` takes a small one inside.
        margins: how far thresholds are from what is known: a property that holds has $(1 + m)(b + r)$, one that fails
            $d/(1 + m)$, where $|\mathrm{net} - f| \le b$, pieces are within r of f and the network reaches distance d.
        cells: at most so many pieces.
        timeout: seconds that ``instances.csv`` gives a verifier for each.
        effort: of proofs and searches.
    """
    found = exported(model, dtype)
    target = _target(model)
    _check_settings(kinds, margins, cells, timeout)
    domain = _held(target.domain if box is None else _part(target, box), found.dtype)
    subject = Subject.proved(found.network, target, domain, found.dtype, as_effort(effort))
    written, left_out = list[Instance](), list[str]()
    for kind in kinds:
        asked = _asked(subject, KINDS[kind], cells)
        if asked is None:
            left_out.append(f"{kind}: numbers of {found.dtype} are too far apart for so small a box")
            continue
        made = list(_instances(kind, asked, found.dtype, sorted(set(margins))))
        missing = 2 * len(set(margins)) - len(made)
        if missing:
            left_out.append(f"{kind}: {missing} of which no answer is certain in numbers of {found.dtype}")
        written += made
    about = one_line(target.describe())
    answers = {
        "network": NETWORK,
        "digest": digest(found.network),
        "dtype": found.dtype,
        "target": about,
        "domain": _sides(domain),
        "meaning": MEANING,
        "assumptions": [arithmetic(found.dtype), *([target.extension] if target.extension else [])],
        "instances": [each.answer(timeout) for each in written],
        "left_out": left_out,
    }
    write_folder(
        path,
        {
            NETWORK: onnx_model(found),
            **{each.place: each.text(about).encode() for each in written},
            "instances.csv": _table(written, timeout),
            "answers.json": (json.dumps(answers, indent=1, ensure_ascii=False) + "\n").encode(),
        },
    )


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
        said = f"does the network leave {KINDS[self.kind].says}, by {self.threshold:.6g} or more? Pieces near"
        return property_text([f"{self.name}: {said} f: {about:.200}"], self.asked.pieces, self.lower, self.upper)

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
            "box": _sides(asked.box),
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


def _instances(kind: str, asked: Question, dtype: str, margins: Sequence[float]) -> Iterator[Instance]:
    """Those that fail, then those that hold, the nearest to what is known in the middle."""
    away = 0.0 if asked.witness is None else float(asked.witness.distance)
    fail = [(away / (1 + margin), margin, False) for margin in reversed(margins) if away > 0]
    hold = [(asked.most * (1 + margin), margin, True) for margin in margins]
    number = 0
    for threshold, margin, holds in (*fail, *hold):
        upper, lower = (
            sign * _directed(sign * asked.pieces.offsets + threshold, dtype, up=holds) for sign in (1.0, -1.0)
        )
        if (asked.holds if holds else asked.fails)(lower, upper):
            number += 1
            yield Instance(f"{kind}_{number}", kind, asked, margin, holds, lower, upper)


def _directed(numbers: Array, dtype: str, *, up: bool) -> Array:
    """The next numbers of the dtype on one side, beyond what a sum of two may have been rounded by."""
    way = np.inf if up else -np.inf
    beyond = np.nextafter(numbers, way)
    found = round_to(beyond, dtype)
    further = np.nextafter(found.astype(dtype), np.dtype(dtype).type(way)).astype(np.float64)
    return np.where(found >= beyond if up else found <= beyond, found, further)


def _asked(subject: Subject, kind: Kind, cells: int) -> Question | None:
    place = close_box(subject, cells) if kind.small else subject.box
    return None if place is None else question(subject, place, cells if kind.several else 1, affine=kind.affine)


def _target(model: Any) -> Target:
    """The target, of which enclosures on boxes are known."""
    target = getattr(model, "target", None)
    wanted, remedy = "Properties compare a network with a function of one point", "Pass what af.compile returns"
    if not isinstance(target, Target):
        raise RefusalError(wanted, f"{type(model).__name__}, which has no target", remedy)
    if target.layout != "function" or len(target.domain.shape) != 1:
        raise RefusalError(wanted, f"{target.describe():.80}, of several tokens or a prompt", "Export it as onnx")
    if not isinstance(target, Formula | Formulas | ReluNetwork):
        got = f"{target.describe():.80}, of which nothing is known between points"
        raise RefusalError("Properties need a target that can be enclosed: a formula, a ReLU network", got, "Give one")
    return target


def _part(target: Target, given: Any) -> Box:
    found = part_of(target.domain, target.names, given).fixed(target.domain.shape)
    target.domain.check(np.stack([found.lower, found.upper]))
    return found


def _held(box: Box, dtype: str) -> Box:
    """The box with ends in the dtype, inside it, so that no cast takes a point out of it."""
    lower, upper = round_to(box.lower, dtype), round_to(box.upper, dtype)
    lower = np.where(lower < box.lower, _directed(box.lower, dtype, up=True), lower)
    upper = np.where(upper > box.upper, _directed(box.upper, dtype, up=False), upper)
    if not np.all(lower <= upper):
        got = f"none between {box.lower} and {box.upper}"
        raise DomainError(f"Every side of a box must hold numbers of {dtype}", got, "Pass dtype='float64'")
    return Box(lower, upper)


def _sides(box: Box) -> list[list[float]]:
    return np.stack([box.lower, box.upper], axis=1).tolist()


def _table(written: Sequence[Instance], timeout: float) -> bytes:
    """As VNN-COMP lists instances: network, property, seconds."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows((NETWORK, each.place, f"{timeout:g}") for each in written)
    return text.getvalue().encode()


def _check_settings(kinds: Sequence[str], margins: Sequence[float], cells: int, timeout: float) -> None:
    if not kinds or not set(kinds) <= set(KINDS):
        raise RefusalError(f"`kinds` are some of {', '.join(KINDS)}", repr(kinds)[:80], "Leave it out for all of them")
    if not len(margins) or not all(math.isfinite(each) and each >= 0 for each in margins):
        raise RefusalError("`margins` are numbers from 0 on", repr(margins)[:80], "Use 1.0, 0.1, 0.01")
    if not (isinstance(cells, int) and cells >= 1):
        raise RefusalError("`cells` is a whole number from 1 on", repr(cells)[:80], "Use 16")
    if not (math.isfinite(timeout) and timeout > 0):
        raise RefusalError("`timeout` is a positive number of seconds", repr(timeout)[:80], "Use 300")
