"""A compiled target: callable, certified, runnable in torch, printable, saveable."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from attnforge.certification import Certificate
from attnforge.certification.certify import certify as prove
from attnforge.compiler.estimating import with_estimate
from attnforge.compiler.partition import partition
from attnforge.compiler.registers import Traced, trace
from attnforge.compiler.report import report
from attnforge.compiler.runnable import Runnable, Uncertified
from attnforge.errors import CertificateError, FileFormatError
from attnforge.model_file import StoredModel, write
from attnforge.network import Network
from attnforge.targets import Target


@dataclass(frozen=True, eq=False, repr=False)
class Compiled(Runnable):
    """A network together with what it computes and the proof of how closely; what was certified does not change.

    Attributes:
        network: the weights.
        target: what they approximate, on its domain.
        certificate: what is known of the difference.
        construction: by which construction, for people.
        dtype: what it runs in.
        reason: why this construction and size were chosen.
    """

    network: Network
    target: Target
    certificate: Certificate
    construction: str
    dtype: str
    reason: str = "asked for by name"

    def __str__(self) -> str:
        return self.report()

    def __repr__(self) -> str:
        return f"<Compiled {self.construction}: {self.target.describe()}, {self.certificate}>"

    def partition(self, x: Any) -> npt.NDArray[np.int64]:
        """The index of the cell of every point, for networks that divide their domain into cells (max_affine)."""
        return partition(self, x)

    def with_network(self, network: Network) -> Compiled:
        """The same target with other weights, certified anew."""
        if self.certificate.norm != "sup":
            got = f"a certificate in {self.certificate.norm}"
            raise CertificateError("Other weights are certified in the sup norm", got, "Build the network anew")
        proved = prove(network, self.target, dtype=self.dtype)
        certificate = with_estimate(proved, Uncertified(network, self.target, self.dtype))
        return replace(self, network=network, certificate=certificate, reason="other weights, certified anew")

    def report(self) -> str:
        """Target, domain, construction, size, sharpness and certificate, as text."""
        return report(self)

    def trace(self, *inputs: Any, **named: Any) -> list[Traced]:
        """Every register of a graph at the points, beside its exact value."""
        points = np.asarray(self._gather(inputs, named), dtype=np.float64)
        return trace(self, points.reshape(-1, self.network.features))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write network, target, domain, certificate and construction to one safetensors file, whose name says so."""
        suffix = os.path.splitext(path)[1]
        if suffix[1:].isalpha() and suffix.lower() != ".safetensors":
            wanted = "A model is saved as a safetensors file, and its name must not say otherwise"
            raise FileFormatError(wanted, os.fspath(path), "Use .safetensors; other formats are exported")
        network, target, certificate = self.network, self.target, self.certificate
        write(StoredModel(network, target, certificate, self.construction, self.dtype, self.reason), path)

    def plot(self) -> Any:
        """A figure of target, output, anchors, error and attention map."""
        from attnforge.plot import overview

        return overview(self)
