"""A saved model as a Compiled: read without trust, and refused where its parts do not belong together."""

from __future__ import annotations

import os

from attnforge.certification.checker.agreement import disagreements
from attnforge.compiler.compiled import Compiled
from attnforge.errors import FileFormatError
from attnforge.model_file import MAX_FILE, read


def load(path: str | os.PathLike[str], *, max_bytes: int = MAX_FILE) -> Compiled:
    """Read a model written by :meth:`Compiled.save`; anything malformed, altered or too large is refused.

    >>> load("missing.safetensors")
    Traceback (most recent call last):
    attnforge.errors.FileFormatError: A model file must exist. Got missing.safetensors. Check the path.
    """
    found = read(path, max_bytes=max_bytes)
    if not found.is_intact:
        got = "a file that was altered or damaged"
        raise FileFormatError("The digest must match the content", got, "Build it anew")
    for what in disagreements(found.network, found.target, found.certificate, found.dtype):
        raise FileFormatError(f"The certificate must be about the stored {what}", f"another {what}", "Certify again")
    return Compiled(found.network, found.target, found.certificate, found.construction, found.dtype, found.reason)
