"""A saved model as a Compiled: read without trust, and refused where its parts do not belong together."""

from __future__ import annotations

import os
from typing import Any

from attnforge.certification.checker.agreement import disagreements
from attnforge.certification.program_certificate import ProgramCertificate
from attnforge.compiler.certifying import certified
from attnforge.compiler.compiled import Compiled
from attnforge.compiler.in_context import InContextNetwork
from attnforge.compiler.kernel import KernelNetwork
from attnforge.compiler.kernel_ridge import KernelRidgeNetwork
from attnforge.compiler.prompt_formula import PromptFunction
from attnforge.errors import AttnforgeError, FileFormatError
from attnforge.model_file import FORMAT, MAX_FILE, StoredModel, read
from attnforge.programs.running import ProgramNetwork
from attnforge.targets import Iteration, KernelAverage, KernelSystem, PromptFormula, Target
from attnforge.targets.programs.stored import Program

OF_EXAMPLES: dict[type, type[Compiled]] = {
    Iteration: InContextNetwork,
    KernelAverage: KernelNetwork,
    PromptFormula: PromptFunction,
    KernelSystem: KernelRidgeNetwork,
}


def load(path: str | os.PathLike[str], *, max_bytes: int = MAX_FILE) -> Any:
    """Read what ``save`` of a ``Compiled`` or a program wrote; anything malformed, altered or too large is refused.

    A file of format 2 was written before networks were checked when they are made: its certificate is not relied on,
    the network is certified anew, which takes as long as it took when it was compiled.

    >>> load("missing.safetensors")
    Traceback (most recent call last):
    attnforge.errors.FileFormatError: A model file must exist. Got missing.safetensors. Check the path.
    """
    stored = read(path, max_bytes=max_bytes)
    if not stored.is_intact:
        got = "a file that was altered or damaged"
        raise FileFormatError("The digest must match the content", got, "Build it anew")
    target, certificate = stored.target, stored.certificate
    if isinstance(target, Program) or isinstance(certificate, ProgramCertificate):
        return ProgramNetwork.of_file(stored)
    for what in disagreements(stored.network, target, certificate, stored.dtype):
        raise FileFormatError(f"The certificate must be about the stored {what}", f"another {what}", "Certify again")
    if stored.format < FORMAT:
        return _certified_anew(stored, target)
    make = next((kind for of, kind in OF_EXAMPLES.items() if isinstance(target, of)), Compiled)
    return make(stored.network, target, certificate, stored.construction, stored.dtype, stored.reason)  # type: ignore[arg-type]


def _certified_anew(stored: StoredModel, target: Target) -> Compiled:
    try:
        anew = certified(stored.network, target, stored.construction, stored.dtype, reason=stored.reason)
    except AttnforgeError as error:
        wanted = f"A file of format {stored.format} is certified anew when it is loaded"
        raise FileFormatError(wanted, str(error)[:500], "Build it anew") from error
    return anew
