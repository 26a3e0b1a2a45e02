"""What a person wants to know of a compiled target, in a dozen lines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from attnforge.certification import Certificate
from attnforge.certification.certificate import LocalBound
from attnforge.compiler.registers import Register, registers
from attnforge.display import Card, Fact, shares
from attnforge.network import count_parameters
from attnforge.targets import Box, Formula, Formulas

SHOWN = 24  # registers that are listed
COLUMNS = ("register", "layer", "keys", "range", "local bound", "sensitivity", "share", "formula")

if TYPE_CHECKING:
    from attnforge.compiler.compiled import Compiled


def facts(compiled: Compiled) -> dict[str, Fact]:
    """Label and value of every entry of the report."""
    total, nonzero = count_parameters(compiled.network)
    certificate: Certificate | None = compiled.certificate
    lines: dict[str, Fact] = {"target": compiled.target.describe()}
    if isinstance(compiled.target, Formula | Formulas) and compiled.target.unused:
        lines["unused"] = f"{', '.join(compiled.target.unused)}: not in the formula"
    if certificate is not None and certificate.bound is None:
        lines["certificate"] = "SAMPLED: no error bound is proved, the error below is the largest one seen"
    lines |= {
        "domain": _domain(compiled.domain, compiled.target.names),
        "construction": compiled.construction,
        "because": compiled.reason,
        "size": f"{_count(compiled.layers, 'layer')} of attention, {_count(compiled.heads, 'head')}, "
        f"{compiled.anchors:,} keys",
        **_heads(compiled),
        "parameters": f"{total:,} ({nonzero:,} non-zero)",
        "dtype": compiled.dtype,
    }
    if certificate is None:
        one = compiled.target.certify
        lines["certificate"] = f"none: see `because`; {one} certifies one prompt"
        return lines
    if certificate.bound is not None:
        reach = f"{compiled.target.call} - {compiled.target.exact}"
        lines["certificate"] = f"{certificate.status}: |{reach}| <= {certificate.bound:.4g} on the whole domain"
        lines["parts"] = ", ".join(f"{name} {value:.3g}" for name, value in certificate.parts.items())
    if certificate.estimate is not None:
        what = "largest error found" if certificate.norm == "sup" else f"{certificate.norm} error, by quadrature, about"
        lines["measured"] = f"{what} {certificate.estimate.error:.4g}"
    lines["kernels"] = ", ".join(certificate.kernels)
    lines["assuming"] = "; ".join(certificate.assumptions) or "nothing"
    lines["digest"] = certificate.digest[:16]
    return lines


def _heads(compiled: Compiled) -> dict[str, Fact]:
    """The registers of a graph, one a line; of other networks how sharp the heads are."""
    known = registers(compiled.network)
    if not known:
        return {"sharpness": _sharpness(compiled)}
    return {"registers": tuple(_table(known, compiled.certificate))}


def _table(known: Sequence[Register], certificate: Certificate | None) -> list[str]:
    """A line a register; of many those that add most to the bound."""
    proved = {} if certificate is None else {each.name: each for each in certificate.registers}
    order = sorted(known, key=lambda each: -proved[each.name].share if each.name in proved else 0.0)
    kept = {each.name for each in order[:SHOWN]}
    rows = [COLUMNS]
    for each in known:
        if each.name in kept:
            local = proved.get(each.name)
            numbers = ("",) * 4 if local is None else _numbers(local)
            rows.append((each.name, str(each.layer), str(each.keys), *numbers, each.formula))
    widths = [max(len(row[i]) for row in rows) for i in range(len(COLUMNS) - 1)]
    lines = ["  ".join([*(f"{cell:<{w}}" for cell, w in zip(row, widths, strict=False)), row[-1]]) for row in rows]
    return [*lines, *([f"and {len(known) - SHOWN} more, which add less"] if len(known) > SHOWN else [])]


def _numbers(local: LocalBound) -> tuple[str, str, str, str]:
    inside = f"[{local.lower:.3g}, {local.upper:.3g}]"
    return inside, f"{local.error:.1e}", f"{local.sensitivity:.2g}", f"{local.share:.0%}"


def report(compiled: Compiled) -> str:
    """The facts as aligned text."""
    return "\n".join(aligned(facts(compiled)))


def card(compiled: Compiled) -> Card:
    """What a notebook shows: the facts, and of the certificate the statement and, folded, the details."""
    certificate: Certificate | None = compiled.certificate
    known = facts(compiled)
    elsewhere = {"construction", "certificate", "parts", "kernels", "assuming", "digest"}
    rest = {label: value for label, value in known.items() if label not in elsewhere}
    if certificate is None:
        return Card(compiled.construction, "no certificate", "for all prompts", rest)
    details = [section for section in certificate.details() if section.title not in known]
    if certificate.bound is None:
        said = "no error bound is proved; the error is the largest one seen"
        return Card(compiled.construction, certificate.status, said, rest, sections=details)
    said = str(known["certificate"]).removeprefix(f"{certificate.status}: ")
    grids = [shares(certificate.parts, certificate.bound)]
    return Card(compiled.construction, certificate.status, said, rest, grids, details)


def aligned(lines: Mapping[str, Fact]) -> Iterator[str]:
    """Labels and values in two columns.

    >>> list(aligned({"a": "1", "both": ("2", "3")}))
    ['a     1', 'both  2', '      3']
    """
    width = max(len(label) for label in lines)
    for label, value in lines.items():
        first, *others = (value,) if isinstance(value, str) else value
        yield f"{label:<{width}}  {first}"
        yield from (f"{'':<{width}}  {other}" for other in others)


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'s' * (number != 1)}"


def _domain(box: Box, names: tuple[str, ...] | None) -> str:
    lower, upper = box.lower, box.upper
    if not box.shape and -lower == upper == np.finfo(np.float64).max:
        return "every number"
    if not box.shape:
        return f"every number in [{float(lower):g}, {float(upper):g}]"
    if names is not None:
        return ", ".join(f"{n} in [{a:g}, {b:g}]" for n, a, b in zip(names, lower, upper, strict=True))
    if np.all(lower == lower.flat[0]) and np.all(upper == upper.flat[0]):
        return f"[{lower.flat[0]:g}, {upper.flat[0]:g}]^{box.shape}"
    return f"a box of shape {box.shape} between {lower.min():g} and {upper.max():g}"


def _sharpness(compiled: Compiled) -> str:
    claims = [each for head in compiled.network.heads if (each := head.claims) is not None and each.sharpness]
    if not claims:
        return "not claimed"
    beta = claims[-1].sharpness
    if claims[-1].positions.ndim == 2:
        return f"c = beta h^2 = {beta:.4g}"
    steps = np.diff(np.unique(claims[0].positions))
    if "anchor" in claims[0].roles and len(steps):
        h = float(steps.mean())
        return f"beta = {beta:.5g}, spacing h = {h:.4g}, c = beta h^2 = {beta * h * h:.3g}"
    return f"beta = {beta:.5g}"
