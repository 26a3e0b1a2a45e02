"""Proofs about programs: every register of a network, layer by layer, from its own weights."""

from attnforge.certification.program_certificate import ProgramCertificate, RegisterBound
from attnforge.certification.programs.certify import certify_program

__all__ = ["ProgramCertificate", "RegisterBound", "certify_program"]
