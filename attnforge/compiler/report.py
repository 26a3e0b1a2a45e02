"""What a person wants to know of a compiled target, in a dozen lines."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from attnforge.certification import Certificate
from attnforge.compiler.registers import registers
from attnforge.network import count_parameters
from attnforge.targets import Box, Formula, Formulas

SHOWN = 24  # registers that are listed

if TYPE_CHECKING:
    from attnforge.compiler.compiled import Compiled


def facts(compiled: Compiled) -> dict[str, str]:
    """Label and value of every line of the report."""
    total, nonzero = count_parameters(compiled.network)
    certificate: Certificate | None = compiled.certificate
    lines = {"target": compiled.target.describe()}
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
        one = compiled.target.call.replace("net", "net.certify")
        lines["certificate"] = f"none: see `because`; {one} certifies one prompt"
        return lines
    if certificate.bound is not None:
        reach = f"{compiled.target.call} - {compiled.target.exact}"
        lines["certificate"] = f"{certificate.status}: |{reach}| <= {certificate.bound:.4g} on the whole domain"
        lines["parts"] = ", ".join(f"{name} {value:.3g}" for name, value in certificate.parts.items())
    if certificate.estimate is not None:
        what = "largest error found" if certificate.norm == "sup" else f"{certificate.norm} error, by quadrature, about"
        lines["measured"] = f"{what} {certificate.estimate.error:.4g}"
    lines["assuming"] = "; ".join(certificate.assumptions) or "nothing"
    lines["digest"] = certificate.digest[:16]
    return lines


def _heads(compiled: Compiled) -> dict[str, str]:
    """The registers of a graph, one a line; of other networks how sharp the heads are."""
    known = registers(compiled.network)
    if not known:
        return {"sharpness": _sharpness(compiled)}
    shown = [f"{each.name} = {each.formula}  (layer {each.layer}, {each.keys} keys)" for each in known[:SHOWN]]
    more = [f"and {len(known) - SHOWN} more"] if len(known) > SHOWN else []
    return {"registers": ("\n" + " " * 14).join([*shown, *more])}


def report(compiled: Compiled) -> str:
    """The facts as aligned text."""
    lines = facts(compiled)
    width = max(len(label) for label in lines)
    return "\n".join(f"{label:<{width}}  {value}" for label, value in lines.items())


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'s' * (number != 1)}"


def _domain(box: Box, names: tuple[str, ...] | None) -> str:
    lower, upper = box.lower, box.upper
    if not box.shape:
        return f"every number in [{float(lower):g}, {float(upper):g}]"
    if names is not None:
        return ", ".join(f"{n} in [{a:g}, {b:g}]" for n, a, b in zip(names, lower, upper, strict=True))
    if np.all(lower == lower.flat[0]) and np.all(upper == upper.flat[0]):
        return f"[{lower.flat[0]:g}, {upper.flat[0]:g}]^{box.shape}"
    return f"a box of shape {box.shape} between {lower.min():g} and {upper.max():g}"


def _sharpness(compiled: Compiled) -> str:
    claims = [head.claims for head in compiled.network.heads if head.claims is not None]
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
