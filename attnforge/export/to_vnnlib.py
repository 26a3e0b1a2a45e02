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
from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from attnforge.certification.certificate import arithmetic
from attnforge.certification.known_answers import Question, Subject, close_box, question
from attnforge.effort import Effort, as_effort
from attnforge.errors import DomainError, RefusalError
from attnforge.export.instances import KINDS, NETWORK, Instance, Kind, instances, rounded_to, sides
from attnforge.export.interface import exported, one_line, write_folder
from attnforge.export.to_onnx import onnx_model
from attnforge.network import digest
from attnforge.targets import Box, Formula, Formulas, ReluNetwork, Target, part_of

if TYPE_CHECKING:
    from attnforge.outward import DType

WIDEST = 1e6  # margin: what is farther away is no question any more, and may not fit the dtype
MEANING = (
    "unsat: no input of the box satisfies the file, the network stays within `threshold` of the pieces; sat: the "
    "witness satisfies it. `arithmetic` says of what that is proved: exact arithmetic with the weights of the file, "
    "and every run in the dtype that keeps to the assumptions. If the network stays within the threshold of the "
    "pieces, it stays within threshold + radius of the target; if not, it is off by at least threshold - radius "
    "somewhere"
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
    written, left_out = _written(subject, kinds, sorted(set(margins)), cells)
    about = one_line(target.describe())
    answers = {
        "network": NETWORK,
        "digest": digest(found.network),
        "dtype": found.dtype,
        "target": about,
        "domain": sides(domain),
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


def _written(
    subject: Subject, kinds: Sequence[str], margins: Sequence[float], cells: int
) -> tuple[list[Instance], list[str]]:
    """All instances, and what is left out of them."""
    written, left_out = list[Instance](), list[str]()
    for kind in kinds:
        asked = _asked(subject, KINDS[kind], cells)
        made = [] if asked is None else list(instances(kind, asked, subject.dtype, margins))
        if asked is None:
            left_out.append(f"{kind}: numbers of {subject.dtype} are too far apart for so small a box")
        elif len(made) < 2 * len(margins):
            left_out.append(f"{kind}: {2 * len(margins) - len(made)} of which no answer is certain")
        written += made
    return written, left_out


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
    lower = np.array([rounded_to(Fraction(end), dtype, up=True) for end in box.lower])
    upper = np.array([rounded_to(Fraction(end), dtype, up=False) for end in box.upper])
    if not np.all(lower <= upper):
        got = f"none between {box.lower} and {box.upper}"
        raise DomainError(f"Every side of a box must hold numbers of {dtype}", got, "Pass dtype='float64'")
    return Box(lower, upper)


def _table(written: Sequence[Instance], timeout: float) -> bytes:
    """As VNN-COMP lists instances: network, property, seconds."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows((NETWORK, each.place, f"{timeout:g}") for each in written)
    return text.getvalue().encode()


def _check_settings(kinds: Sequence[str], margins: Sequence[float], cells: int, timeout: float) -> None:
    if not kinds or not set(kinds) <= set(KINDS):
        raise RefusalError(f"`kinds` are some of {', '.join(KINDS)}", repr(kinds)[:80], "Leave it out for all of them")
    if not len(margins) or not all(0 <= each <= WIDEST for each in margins):
        raise RefusalError(f"`margins` are numbers from 0 to {WIDEST:g}", repr(margins)[:80], "Use 1.0, 0.1, 0.01")
    if not cells >= 1:
        raise RefusalError("`cells` is a whole number from 1 on", repr(cells)[:80], "Use 16")
    if not (math.isfinite(timeout) and timeout > 0):
        raise RefusalError("`timeout` is a positive number of seconds", repr(timeout)[:80], "Use 300")
