"""A compiled target as the verbs need it: read from a file, shown to people, described to programs."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attnforge.cli.screen import print_facts
from attnforge.errors import FileFormatError

if TYPE_CHECKING:
    from attnforge import Certificate, Compiled
    from attnforge.labels import HeadLabel, LayerLabel
    from attnforge.network import Head, Layer


def read_model(path: Path) -> Compiled:
    """The model, or a FileFormatError, also where the system does not let us read."""
    from attnforge.compiler import load

    try:
        return load(path)
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


def certificate_data(certificate: Certificate | None) -> dict[str, Any] | None:
    """The certificate as plain data, as its schema says."""
    return None if certificate is None else certificate.to_data()


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
