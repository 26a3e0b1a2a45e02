"""A compiled target: callable, certified, runnable in torch, printable, saveable."""

from __future__ import annotations

import os
from dataclasses import dataclass, fields
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from attnforge.arrays import float64
from attnforge.certification import Certificate
from attnforge.certification.certify import certify as prove
from attnforge.compiler.estimating import with_estimate
from attnforge.compiler.inside import inside
from attnforge.compiler.partition import partition
from attnforge.compiler.ranges import Range, range_on
from attnforge.compiler.registers import Traced, trace
from attnforge.compiler.report import card, report
from attnforge.compiler.runnable import Runnable, Uncertified
from attnforge.compiler.targets import compared_with
from attnforge.display import Card, Displayed
from attnforge.effort import Effort
from attnforge.errors import CertificateError
from attnforge.labels import Labels, named_graph, target_labels
from attnforge.model_file import StoredModel, save
from attnforge.network import CausalGraph, Network
from attnforge.targets import Target
from attnforge.targets.function import check_importable

UNNAMED = (
    "Use net.save(path), which stores weights and certificate, or net.module(), which does without the function; or "
    "compile a formula, or a function that a module defines by def"
)
OTHER = ", other weights"  # behind the name of a construction, whose weights they were


@dataclass(frozen=True, eq=False, repr=False)
class Compiled(Runnable, Displayed):
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

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, _memo: object) -> Self:
        return self

    def __reduce_ex__(self, protocol: Any) -> Any:
        check_importable(self.target.code, UNNAMED)
        return super().__reduce_ex__(protocol)

    def __getstate__(self) -> dict[str, Any]:
        return {each.name: getattr(self, each.name) for each in fields(self)}

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.construction}: {self.target.describe()}, {self.certificate}>"

    def _card(self) -> Card:
        return card(self)

    def partition(self, x: Any) -> npt.NDArray[np.int64]:
        """The index of the cell of every point, for networks that divide their domain into cells (max_affine)."""
        return partition(self, x)

    def with_network(self, network: Network, target: Any = None) -> Compiled:
        """The same target with other weights, certified anew: those of a trained module, ``module.network()``.

        No construction answers for them, which their name then says. The bound may be larger than it was, or the
        certificate ``sampled``, where nothing is proved of them any more. Weights that were trained towards another
        ``target`` on the same domain, as :func:`attnforge.certify` takes it, are certified against that.
        """
        _check_network(network)
        if self.certificate.norm != "sup":
            got = f"a certificate in {self.certificate.norm}"
            raise CertificateError("Other weights are certified in the sup norm", got, "Build the network anew")
        against = compared_with(self.target, target)
        proved = prove(network, against, dtype=self.dtype)
        certificate = with_estimate(proved, Uncertified(network, against, self.dtype))
        name = self.construction.removesuffix(OTHER) + OTHER
        reason = "other weights, certified anew"
        return Compiled(network, against, certificate, name, self.dtype, reason)

    def labels(self) -> Labels:
        """What every head, key and column is: which anchor, ghost, sentinel, token, register, formula.

        Read from the weights and from what heads claim, as far as the weights bear it out: ``evidence`` of a key says
        which. ``print`` it, or take ``to_data()``, plain lists and dicts.
        """
        return target_labels(self.network, self.target, tried=True)

    def causal_graph(self) -> CausalGraph:
        """Who reads whom, read from the weights: inputs by their names, heads, outputs; ``print`` it, or take the data.

        >>> from attnforge import compile
        >>> net = compile("x*y*exp(-z^2)", {"x": (-1, 1), "y": (-1, 1), "z": (-1, 1)}, tol=1e-2)
        >>> print(net.causal_graph())
        L0H0 row: -z^2 <- z
        L0H1 multiplier: (3 + x)*y <- x, y
        L1H0 exponential: (r[5] + -3*y)*exp(r[4]) <- y, L0H0, L0H1
        output <- L1H0
        """
        return named_graph(self.network, target_labels(self.network, self.target))

    def range(self, box: Any = None, *, effort: str | Effort | None = None) -> Range:
        """The proved range of the outputs on a box of the domain: ``lower <= net(x) <= upper`` for every x in it.

        Read from the network's numbers, roundings in its dtype included, and from the target where a bound is proved of
        it on the box; no certificate is needed. A caller's narrower dtype rounds once more.

        Args:
            box: ``{"x": (0, 0.5)}`` (inputs that are not named keep their whole interval), ``[(0, 0.5), ...]`` or an
                ``af.Box``; the whole domain where it is left out. Outside the domain it raises DomainError.
            effort: how hard to look for the tightest: ``"low"``, ``"normal"``, ``"high"`` or an ``af.Effort``.

        The ends are numbers, or arrays of the shape of one value, (k,), (n,) or (n, k).
        """
        return range_on(self, box, effort, of_target=False)

    def target_range(self, box: Any = None, *, effort: str | Effort | None = None) -> Range:
        """The proved range of the target itself on a box of the domain, as :meth:`range` is of the network.

        Of formulas, truncated linear functions, ReLU networks and attention heads; TargetError for callables and
        tables, of which nothing is known between points.
        """
        return range_on(self, box, effort, of_target=True)

    def report(self) -> str:
        """Target, domain, construction, size, sharpness and certificate, as text."""
        return report(self)

    def trace(self, *inputs: Any, **named: Any) -> list[Traced]:
        """Every register of a graph at the points, beside its exact value."""
        points = inside(self._shaped(float64(self._gather(inputs, named))), self.domain)
        self.target.check_points(points)
        return trace(self, points.reshape(-1, self.network.features))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write network, target, domain, certificate and construction to one safetensors file, whose name says so."""
        network, target, certificate = self.network, self.target, self.certificate
        save(StoredModel(network, target, certificate, self.construction, self.dtype, self.reason), path)

    def plot(self, *, ax: Any = None, figsize: tuple[float, float] | None = None) -> Any:
        """A figure of target, output, anchors, error and attention map: :func:`attnforge.plot.overview`."""
        from attnforge.plot import overview

        return overview(self, ax=ax, figsize=figsize)


def _check_network(given: Any) -> None:
    if not isinstance(given, Network):
        remedy = "Pass module.network(), or replace layers of net.network"
        raise CertificateError("Other weights are a Network", type(given).__name__, remedy)
