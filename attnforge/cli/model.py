"""A compiled target as the verbs need it: read from a file, shown to people, described to programs."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeGuard

from attnforge.cli.screen import print_facts
from attnforge.errors import FileFormatError, TargetError

if TYPE_CHECKING:
    from attnforge import Certificate, Compiled
    from attnforge.labels import HeadLabel, LayerLabel
    from attnforge.network import Head, Layer
    from attnforge.programs import ProgramCertificate, ProgramNetwork


def read_model(path: Path) -> Compiled:
    """The compiled function of a file, or a refusal: also where the system does not let us read."""
    model = read_any(path)
    if is_program(model):
        remedy = "`attnforge inspect` and `attnforge certify` take it; in Python, af.load(path)(tokens)"
        raise TargetError("This verb takes functions of numbers", "a program over sequences", remedy)
    return model  # type: ignore[return-value]


def is_program(model: Compiled | ProgramNetwork) -> TypeGuard[ProgramNetwork]:
    """Whether it computes a program."""
    from attnforge.programs import ProgramNetwork

    return isinstance(model, ProgramNetwork)


def read_any(path: Path) -> Compiled | ProgramNetwork:
    """What a file holds, also a program."""
    from attnforge.compiler import load

    try:
        model: Compiled | ProgramNetwork = load(path)
        return model
    except OSError as error:
        raise FileFormatError("A model file must be readable", f"{path}: {error.strerror}", "Check it") from error


def show_model(model: Compiled) -> None:
    """The report."""
    from attnforge.compiler.report import facts

    print_facts(facts(model), {"certificate": "bold green", "target": "bold"})


def model_data(model: Compiled) -> dict[str, Any]:
    """The report as plain data. Numbers are exact: JSON's shortest decimals read back as the same float64."""
    from attnforge.network import count_parameters

    total, nonzero = count_parameters(model.network)
    return {
        "target": model.target.describe(),
        "domain": {
            "names": None if model.target.names is None else list(model.target.names),
            "lower": model.domain.lower.tolist(),
            "upper": model.domain.upper.tolist(),
        },
        "construction": model.construction,
        "dtype": model.dtype,
        "layers": model.layers,
        "heads": model.heads,
        "anchors": model.anchors,
        "parameters": total,
        "nonzero_parameters": nonzero,
        "certificate": certificate_data(model.certificate),
    }


def certificate_data(certificate: Certificate | ProgramCertificate | None) -> dict[str, Any] | None:
    """The certificate as plain data, as its schema says."""
    return None if certificate is None else certificate.to_data()


def program_data(model: ProgramNetwork) -> dict[str, Any]:
    """The same of a program."""
    return {
        "target": model.program.title or model.program.operation,
        "vocabulary": [str(token) for token in model.vocabulary],
        "max_length": model.max_length,
        "construction": "program",
        "dtype": model.dtype,
        "layers": model.layers,
        "heads": model.heads,
        "parameters": model.parameters,
        "certificate": certificate_data(model.certificate),
    }


def layer_data(layer: Layer, label: LayerLabel) -> dict[str, Any]:
    """A layer as plain data: its kind, and for attention what each head holds."""
    from attnforge.network import Attention

    if not isinstance(layer, Attention):
        return {"kind": label.kind}
    return {"kind": label.kind, "heads": [_head(*each) for each in zip(layer.heads, label.heads, strict=True)]}


def _head(head: Head, label: HeadLabel) -> dict[str, Any]:
    return {
        "construction": label.construction,
        "sharpness": None if head.claims is None else head.claims.sharpness,
        "keys": dict(Counter(label.roles)),
        "memory_keys": head.memory_size,
        "score_width": head.query.shape[1],
    }
