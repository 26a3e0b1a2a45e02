"""The public ``check``: a model file, read without trust and handed to the independent checker."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace

from attnforge.certification.checker.check import CELLS, Effort, Verdict
from attnforge.certification.checker.check import check as check_certificate
from attnforge.model_file.reading import MAX_FILE, read


def check(
    path: str | os.PathLike[str],
    *,
    cells: int = CELLS,
    workers: int | None = None,
    progress: Callable[[float], None] | None = None,
    max_bytes: int = MAX_FILE,
) -> Verdict:
    """Is the stored bound true of the stored weights and the stored target? Nothing that builds networks is used.

    A malformed file raises FileFormatError. One whose content does not match its digest is rejected in any case; the
    verdict names what was altered, as far as that can be told.

    Args:
        path: the model file.
        cells: that may be looked at before the answer is ``undecided``.
        workers: processes; None is as many as there are processors. They are started for long checks only.
        progress: told the fraction of the domain that is settled.
        max_bytes: larger files are not read.
    """
    model = read(path, max_bytes=max_bytes)
    effort = Effort(cells, workers or os.cpu_count() or 1, progress or (lambda _: None))
    if model.certificate is None:
        return Verdict("unprovable", "without a bound of the data there is no certificate for all prompts")
    found = check_certificate(model.network, model.target, model.certificate, model.dtype, effort)
    if model.is_intact or found.verdict == "rejected":
        return found
    reason = "the file was altered: its digest does not match, though network, target, domain and bound fit together"
    return replace(found, verdict="rejected", reason=reason, what="certificate")
