"""Proofs: certificates, and the methods that compute them from a network and a target alone."""

from attnforge.certification.certificate import Certificate
from attnforge.certification.certify import certify

__all__ = ["Certificate", "certify"]
