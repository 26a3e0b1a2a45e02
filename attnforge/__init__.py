"""attnforge compiles functions into softmax-attention weights, and proves how close they are."""

from importlib.metadata import PackageNotFoundError, version

from attnforge.certification import Certificate
from attnforge.compiler import Compiled, certify, compile, load, measure
from attnforge.errors import (
    AttnforgeError,
    CertificateError,
    DomainError,
    FileFormatError,
    RefusalError,
    TargetError,
    ToleranceError,
)
from attnforge.network import Network
from attnforge.targets import Box, Lipschitz

from . import anchors, constructions, plot

try:
    __version__ = version("attnforge")
except PackageNotFoundError:
    __version__ = "0+unknown"

__all__ = [
    "AttnforgeError",
    "Box",
    "Certificate",
    "CertificateError",
    "Compiled",
    "DomainError",
    "FileFormatError",
    "Lipschitz",
    "Network",
    "RefusalError",
    "TargetError",
    "ToleranceError",
    "anchors",
    "certify",
    "compile",
    "constructions",
    "load",
    "measure",
    "plot",
]
