"""The statement |net(x) - f(x)| <= bound for every x of the domain, with its parts, assumptions and a digest."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from attnforge.certification.dialect import number, numbers, read, written
from attnforge.display import Card, Displayed, Fact, Grid, Section, shares
from attnforge.errors import CertificateError
from attnforge.kernel.theorem import arithmetic as arithmetic
from attnforge.network import content_digest
from attnforge.targets import Target

Status = Literal["proved", "conditional", "sampled"]

KIND = "network"  # in the schema of certificates
SIDES, REGISTERS = 4, 40  # of a domain, and of a graph, that a card lists


def target_digest(target: Target) -> str:
    """SHA-256 of the target as it is stored: its text or numbers, and its domain."""
    return content_digest(*target.to_data())


@dataclass(frozen=True)
class Estimate:
    """The largest error seen, and where: a lower bound of the true error. In L_p, an integral, and no point."""

    error: float
    at: tuple[float, ...]


class LocalBound(NamedTuple):
    """A register of a graph: its range in a run, how far its head may be from its formula, and what that does.

    ``sensitivity`` is the largest derivative of an output by the register, ``share`` the part of the bound that is due
    to the register.
    """

    name: str
    lower: float
    upper: float
    error: float
    sensitivity: float
    share: float


@dataclass(frozen=True, repr=False)
class Certificate(Displayed):
    """What is known of a network's error.

    ``status``: ``proved``; ``conditional`` on ``assumptions`` about the target; or ``sampled``, then ``bound`` is None
    and only ``estimate`` is known. ``parts`` add up to ``bound``. ``domain`` lists (lower, upper) flat, ``digest``
    identifies the network and ``target`` what it is compared with.

    Of one prompt ``domain`` is empty; of an algorithm there is also ``step``, the parts of the largest error of
    one step, ``contraction``, the Lipschitz constant q of a step, and ``minimiser``, a bound of the Euclidean distance
    to the minimiser, None where q = 1: nothing then says how fast the exact iteration converges.

    Of a graph ``registers`` says what each of its heads adds. ``kernels`` are the ways of running attention that the
    bound covers, whatever the batch.
    """

    status: Status
    bound: float | None
    norm: str
    parts: Mapping[str, float]
    assumptions: tuple[str, ...]
    dtype: str
    domain: tuple[tuple[float, float], ...]
    digest: str
    target: str
    estimate: Estimate | None = field(default=None)
    step: Mapping[str, float] | None = None
    contraction: float | None = None
    minimiser: float | None = None
    registers: tuple[LocalBound, ...] = ()
    kernels: tuple[str, ...] = ("dense",)

    def __str__(self) -> str:
        if self.bound is None:
            what = "largest error seen" if self.norm == "sup" else f"{self.norm} error, by quadrature, about"
            seen = "" if self.estimate is None else f"; {what} {self.estimate.error:.3g}"
            return f"sampled: no bound{seen}"
        parts = " + ".join(f"{name} {value:.3g}" for name, value in self.parts.items())
        near = "" if self.minimiser is None else f"; within {self.minimiser:.3g} of the minimiser"
        return f"{self.status}: {self.statement(3)}, in {self.dtype} ({parts}){near}"

    def __repr__(self) -> str:
        return f"<Certificate {self}>"

    def _card(self) -> Card:
        said = "no bound is proved" if self.bound is None else f"{self.statement()}, in {self.dtype}"
        grids = [shares(self.parts, self.bound)] if self.bound is not None else []
        return Card("Certificate", self.status, said, self._known(), grids, self.details())

    def _known(self) -> dict[str, Fact]:
        """What there is to know besides the bound."""
        known: dict[str, Fact] = {}
        if self.norm != "sup":
            known["norm"] = self.norm
        if self.domain:
            sides = [f"[{low:.6g}, {high:.6g}]" for low, high in self.domain[:SIDES]]
            known["domain"] = " × ".join(sides) + f" × … ({len(self.domain)} intervals)" * (len(self.domain) > SIDES)
        if self.estimate is not None:
            place = f" at ({', '.join(f'{x:.6g}' for x in self.estimate.at[:SIDES])})" if self.estimate.at else ""
            what = "largest error seen" if self.norm == "sup" else f"{self.norm} error, by quadrature, about"
            known["measured"] = f"{what} {self.estimate.error:.4g}{place * (len(self.estimate.at) <= SIDES)}"
        if self.contraction is not None:
            known["a step"] = f"contracts by {self.contraction:.6g}"
        if self.minimiser is not None:
            known["minimiser"] = f"within {self.minimiser:.3g}"
        return known

    def details(self) -> list[Section]:
        """What is folded away on a card: registers, assumptions, kernels and digests."""
        found = []
        if self.registers:
            header = ("register", "range", "local bound", "sensitivity", "share")
            rows = [
                (each.name, f"[{each.lower:.3g}, {each.upper:.3g}]", f"{each.error:.1e}", f"{each.sensitivity:.2g}",
                 f"{each.share:.0%}")
                for each in self.registers[:REGISTERS]
            ]  # fmt: skip
            left = len(self.registers) - REGISTERS
            grid = Grid(header, rows, f"and {left:,} more" if left > 0 else "")
            found.append(Section("registers", grids=[grid], folded=True))
        facts: dict[str, Fact] = {f"assumed ({i})": text for i, text in enumerate(self.assumptions, 1)}
        facts |= {"kernels": ", ".join(self.kernels), "network": self.digest, "target": self.target}
        return [*found, Section("assumptions, kernels, digests", facts=facts, folded=True)]

    def statement(self, digits: int = 4) -> str:
        """The bound as a formula in words."""
        if not self.domain:
            what = "net(X, y, X_query) - exact average" if self.step is None else "net(X, y) - exact weights"
            return f"|{what}| <= {self.bound:.{digits}g} on this prompt"
        return f"|net(x) - f(x)| <= {self.bound:.{digits}g} on the whole domain"

    def to_data(self) -> dict[str, Any]:
        """Plain data that the schema describes (:mod:`.dialect`), numbers as they are."""
        data: dict[str, Any] = {
            "kind": KIND,
            "status": self.status,
            "bound": self.bound,
            "norm": self.norm,
            "parts": dict(self.parts),
            "assumptions": list(self.assumptions),
            "dtype": self.dtype,
            "domain": [list(side) for side in self.domain],
            "digest": self.digest,
            "target": self.target,
            "estimate": None,
            "kernels": list(self.kernels),
        }
        if self.estimate is not None:
            data["estimate"] = {"error": self.estimate.error, "at": list(self.estimate.at)}
        if self.step is not None and self.contraction is not None:
            known = {"step": dict(self.step), "contraction": self.contraction, "minimiser": self.minimiser}
            data["drift"] = known
        if self.registers:
            data["registers"] = [list(each) for each in self.registers]
        return data

    def to_json(self) -> str:
        """JSON with floats in hexadecimal, so that nothing is lost."""
        return written(self.to_data())

    @classmethod
    def from_json(cls, text: str) -> Certificate:
        """The inverse of :meth:`to_json`, also of :meth:`to_data` as JSON; anything else is refused."""
        data = read(text, KIND)
        bound, estimate, drift = data["bound"], data["estimate"], data.get("drift")
        certificate = cls(
            status=data["status"],
            bound=None if bound is None else number(bound),
            norm=data["norm"],
            parts=numbers(data["parts"]),
            assumptions=tuple(data["assumptions"]),
            dtype=data["dtype"],
            domain=tuple((number(low), number(high)) for low, high in data["domain"]),
            digest=data["digest"],
            target=data["target"],
            estimate=None if estimate is None else _estimate(estimate),
            registers=tuple(LocalBound(name, *map(number, rest)) for name, *rest in data.get("registers", [])),
            kernels=tuple(data.get("kernels", ["dense"])),
            **({} if drift is None else _drift(drift)),
        )
        certificate.check()
        return certificate

    def check(self) -> None:
        """Raise unless status and bound belong together and the parts do not add up to more than the bound."""
        if self.status not in ("proved", "conditional", "sampled") or (self.bound is None) != (
            self.status == "sampled"
        ):
            raise CertificateError("Proved and conditional certificates have a bound, sampled ones none", self.status)
        numbers = [*self.parts.values(), *([] if self.bound is None else [self.bound])]
        if not all(math.isfinite(value) and value >= 0 for value in numbers):
            raise CertificateError("Bounds and their parts are finite and not negative", str(numbers))
        if self.bound is not None:
            check_sum(self.parts, self.bound)
        if any(low > high for low, high in self.domain):
            raise CertificateError("Of every interval the lower end comes first", f"domain {self.domain}"[:200])


def check_sum(parts: Mapping[str, float], bound: float) -> None:
    """Raise where the parts add up to more than the bound."""
    if math.fsum(parts.values()) > bound:
        got = f"parts {dict(parts)}, bound {bound}"
        raise CertificateError("The parts of a certificate add up to its bound", got, "Certify the network again")


def _estimate(data: Mapping[str, Any]) -> Estimate:
    return Estimate(number(data["error"]), tuple(map(number, data["at"])))


def _drift(data: Mapping[str, Any]) -> dict[str, Any]:
    minimiser = None if data["minimiser"] is None else number(data["minimiser"])
    return {"step": numbers(data["step"]), "contraction": number(data["contraction"]), "minimiser": minimiser}
