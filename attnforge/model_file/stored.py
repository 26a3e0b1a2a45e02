"""What a model file holds."""

from __future__ import annotations

from dataclasses import dataclass

from attnforge.certification.certificate import Certificate
from attnforge.certification.program_certificate import ProgramCertificate
from attnforge.network import Network
from attnforge.targets import Target
from attnforge.targets.programs.stored import Program

FORMAT = 3
READ = (
    2,
    FORMAT,
)  # formats that are read: 2 has the same parts, and was written before networks were checked when made
KEY = "attnforge"


@dataclass(frozen=True, eq=False)
class StoredModel:
    """Network, target, certificate, and how it came about.

    ``is_intact`` is whether the file's digest matches its content; a model that is still to be written is. ``format``
    is the version of the format it was read from, or will be written in.
    """

    network: Network
    target: Target | Program
    certificate: Certificate | ProgramCertificate | None
    construction: str
    dtype: str
    reason: str
    is_intact: bool = True
    format: int = FORMAT
