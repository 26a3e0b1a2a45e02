"""Proofs: certificates, the methods that compute them from a network and a target alone, and the checker."""

from attnforge.certification.certificate import Certificate

__all__ = ["Certificate"]
