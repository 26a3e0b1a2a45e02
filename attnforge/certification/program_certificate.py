"""The statement about a program: for every sequence up to a length, every value is right, with a margin."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal, NamedTuple

from attnforge.certification.certificate import arithmetic, check_sum
from attnforge.certification.dialect import number, numbers, read, written
from attnforge.display import Card, Displayed, Fact, Grid, Section, shares
from attnforge.errors import CertificateError, RefusalError
from attnforge.kernel.program import HALF as MARGIN  # labels are the largest of their features, integers the nearest
from attnforge.kernel.program import prove_program
from attnforge.network import Network, digest
from attnforge.proving.programs import read as witness_of
from attnforge.proving.programs import stated
from attnforge.targets.programs.registers import Layout

Judged = tuple[Literal["confirmed", "rejected"], str, str | None]

KIND = "program"  # in the schema of certificates
REGISTERS = 40  # that a card lists


class RegisterBound(NamedTuple):
    """A register: its name, the layer that writes it, and how far it may be from what the program says.

    ``error`` is that of any value; of numbers whose error grows with them it is that of the largest.
    """

    name: str
    layer: int
    leakage: float
    rounding: float

    @property
    def error(self) -> float:
        """Both parts."""
        return self.leakage + self.rounding


@dataclass(frozen=True, repr=False)
class ProgramCertificate(Displayed):
    """What is proved of a network that runs a program, for every sequence of 1 to ``max_length`` tokens.

    ``bound`` is how far a feature of the result may be from the exact one (1 or 0 of a label, or the number), with its
    ``parts``: leakage of attention to what is not selected, and rounding of the dtype. Labels and integers are read off
    without error if it is below 1/2: ``margin`` is what is left. ``is_exact`` says whether results are; means are
    fractions, and right up to ``bound``. ``registers`` are those that have features of their own; none are listed where
    they are directions of a stream in another basis.
    """

    status: str
    bound: float
    parts: Mapping[str, float]
    max_length: int
    vocabulary: int
    dtype: str
    digest: str
    is_exact: bool
    registers: tuple[RegisterBound, ...]
    assumptions: tuple[str, ...]

    def to_data(self) -> dict[str, Any]:
        """Plain data that the schema of certificates describes (:mod:`attnforge.certification.dialect`)."""
        plain = {each.name: getattr(self, each.name) for each in fields(self)}
        registers, assumptions = [list(each) for each in self.registers], list(self.assumptions)
        return {"kind": KIND, **plain, "parts": dict(self.parts), "registers": registers, "assumptions": assumptions}

    def to_json(self) -> str:
        """JSON with floats in hexadecimal, so that nothing is lost."""
        return written(self.to_data())

    @classmethod
    def from_json(cls, text: str) -> ProgramCertificate:
        """The inverse of :meth:`to_json`, also of :meth:`to_data` as JSON; anything else is refused."""
        data = read(text, KIND)
        del data["kind"]
        made = {
            "bound": number(data["bound"]),
            "parts": numbers(data["parts"]),
            "max_length": int(data["max_length"]),
            "vocabulary": int(data["vocabulary"]),
            "registers": tuple(
                RegisterBound(name, int(at), *map(number, rest)) for name, at, *rest in data["registers"]
            ),
            "assumptions": tuple(data["assumptions"]),
        }
        found = cls(**data | made)
        check_sum(found.parts, found.bound)
        return found

    def disagreements(self, network: Network, dtype: str, max_length: int, vocabulary: int) -> list[str]:
        """What it is not about: of a network, a dtype, a length and a number of tokens."""
        agreement = {
            "network": self.digest == digest(network),
            "dtype": self.dtype == dtype,
            "target": (self.max_length, self.vocabulary) == (max_length, vocabulary),
        }
        return [what for what, agrees in agreement.items() if not agrees]

    def says_no_more(self, proved: ProgramCertificate) -> bool:
        """Whether all that it says follows from another one about the same network: result, parts, registers."""
        pairs = list(zip(self.registers, proved.registers, strict=False))
        named = len(pairs) == len(self.registers) and all(
            one[:2] == two[:2] and two.error <= one.error for one, two in pairs
        )
        return proved.bound <= self.bound and self.is_exact <= proved.is_exact and named

    @property
    def margin(self) -> float:
        """How much larger the error could be before a label or an integer is read wrongly."""
        return MARGIN - self.bound

    def statement(self) -> str:
        """The theorem in words."""
        many = f"every sequence of 1 to {self.max_length:,} tokens over {self.vocabulary}"
        what = "every result is the program's" if self.is_exact else "every result is the program's number"
        return f"on {many}, {what}, up to {self.bound:.3g} in each feature"

    def __repr__(self) -> str:
        return f"<ProgramCertificate {self}>"

    def _card(self) -> Card:
        facts: dict[str, Fact] = {"dtype": self.dtype}
        if self.is_exact:
            facts["read off"] = f"exactly, with a margin of {self.margin:.3g}"
        said = self.statement()
        return Card("Certificate", self.status, said, facts, [shares(self.parts, self.bound)], self.details())

    def details(self) -> list[Section]:
        """What is folded away on a card: registers, assumptions and digest."""
        rows = [(each.name, str(each.layer), f"{each.error:.2g}") for each in self.registers[:REGISTERS]]
        left = len(self.registers) - REGISTERS
        grid = Grid(("register", "layer", "within"), rows, f"and {left:,} more" if left > 0 else "")
        facts: dict[str, Fact] = {f"assumed ({i})": text for i, text in enumerate(self.assumptions, 1)}
        rest = Section("assumptions, digest", facts=facts | {"network": self.digest}, folded=True)
        return [Section("registers", grids=[grid], folded=True), rest]

    def __str__(self) -> str:
        parts = " + ".join(f"{name} {value:.3g}" for name, value in self.parts.items())
        read = f"; read off exactly, with a margin of {self.margin:.3g}" if self.is_exact else ""
        return f"{self.status}: {self.statement()}, in {self.dtype} ({parts}){read}"


def certify_program(network: Network, layout: Layout, dtype: str) -> ProgramCertificate:
    """The certificate of a network for every sequence, or a CertificateError that says where the proof fails."""
    typed = layout.typed
    proved = prove_program(network, stated(layout), dtype, witness_of(network, layout))
    named = zip(layout.registers.values(), proved.registers, strict=False)
    return ProgramCertificate(
        status="proved",
        bound=proved.bound,
        parts={"leakage": proved.leakage, "rounding": proved.rounding},
        max_length=typed.max_length,
        vocabulary=len(typed.vocabulary),
        dtype=dtype,
        digest=digest(network),
        is_exact=proved.is_exact,
        registers=tuple(RegisterBound(register.name, register.layer, *parts) for register, parts in named),
        assumptions=(arithmetic(dtype),),
    )


def check_program(network: Network, layout: Layout, certificate: ProgramCertificate, dtype: str) -> Judged:
    """Verdict, reason, and what does not fit: the certificate is about what is stored, and is proved again from it.

    Nothing is searched: the program says which registers there are, and the heads are read in order.
    """
    typed = layout.typed
    for what in certificate.disagreements(network, dtype, typed.max_length, len(typed.vocabulary)):
        return "rejected", f"the certificate is about another {what}", what
    try:
        proved = certify_program(network, layout, dtype)
    except (CertificateError, RefusalError) as error:
        return "rejected", f"nothing is proved: {error}", "network"
    return _verdict(certificate, proved)


def _verdict(stored: ProgramCertificate, proved: ProgramCertificate) -> Judged:
    if left_out := [each for each in proved.assumptions if each not in stored.assumptions]:
        return "rejected", f"the certificate leaves out an assumption: {left_out[0]}", "assumptions"
    if not stored.says_no_more(proved):
        return "rejected", f"it says more than is proved: {proved}", "bound"
    return "confirmed", f"the kernel proves it again, up to {proved.bound:.6g}", None
