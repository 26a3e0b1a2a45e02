"""The public ``check``: a model file, read without trust and handed to the independent checker."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from dataclasses import replace

from attnforge.certification.certificate import Certificate
from attnforge.certification.checker.check import Verdict
from attnforge.certification.checker.check import check as check_certificate
from attnforge.certification.program_certificate import ProgramCertificate, check_program
from attnforge.effort import Effort, as_effort, at_least, until
from attnforge.model_file.reading import MAX_FILE, read
from attnforge.model_file.stored import StoredModel
from attnforge.progress import Progress, watched
from attnforge.targets.programs.stored import Program


def check(
    path: str | os.PathLike[str],
    *,
    cells: int | None = None,
    effort: str | Effort | None = None,
    timeout: float | None = None,
    workers: int = 1,
    progress: Progress = False,
    max_bytes: int = MAX_FILE,
) -> Verdict:
    """Is the stored bound true of the stored weights and the stored target? Nothing that builds networks is used.

    A malformed file raises FileFormatError. One whose content does not match its digest is rejected in any case; the
    verdict names what was altered, as far as that can be told.

    Args:
        path: the model file.
        cells: that may be looked at before the answer is ``undecided``; by default those of the effort, 100,000.
        effort: ``"low"``, ``"normal"``, ``"high"`` or an ``af.Effort``.
        timeout: seconds after which the answer is ``undecided``.
        workers: processes, started for long checks only; -1 is one a processor.
        progress: True shows the fraction of the domain that is settled; a callable is told (fraction, text).
        max_bytes: larger files are not read.
    """
    asked = as_effort(effort, workers)
    asked = asked if cells is None else replace(asked, cells=cells)
    with until(timeout), watched(progress) as watch:
        with at_least(math.inf):  # there is no verdict on half a file
            model = read(path, max_bytes=max_bytes)
        found = _verdict(model, asked, watch.step("checking"))
    if model.is_intact or found.verdict == "rejected":
        return found
    reason = "the file was altered: its digest does not match, though network, target, domain and bound fit together"
    return replace(found, verdict="rejected", reason=reason, what="certificate")


def _verdict(model: StoredModel, effort: Effort, report: Callable[[float], None]) -> Verdict:
    """What is to be said of network, target and certificate, whatever the digest of the file says."""
    target, certificate = model.target, model.certificate
    if isinstance(target, Program):
        if not isinstance(certificate, ProgramCertificate):
            return Verdict("rejected", "the certificate is about another target", "target")
        return Verdict(*check_program(model.network, target.layout, certificate, model.dtype))
    if not isinstance(certificate, Certificate | None):
        return Verdict("rejected", "the certificate is about another target", "target")
    return check_certificate(model.network, target, certificate, model.dtype, effort, report)
