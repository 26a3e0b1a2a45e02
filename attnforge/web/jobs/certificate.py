"""What is proved of the network of a view, and the model as a file."""

from __future__ import annotations

import base64
from typing import Any

from attnforge.certification import Certificate
from attnforge.model_file import StoredModel, serialised
from attnforge.progress import Told
from attnforge.web.calls import call_for
from attnforge.web.limits import LONG
from attnforge.web.packing import finite
from attnforge.web.requests import Model

PROVING = 0.7 * LONG  # seconds: the rest is for building before and measuring after


def certificate(asked: Model, tell: Told) -> dict[str, Any]:
    """The certificate: for reading, and as the JSON that ``af.Certificate.from_json`` takes."""
    net = call_for(asked.of).run(timeout=PROVING, progress=tell)
    return {"certificate": described(net.certificate), "json": net.certificate.to_json()}


def download(asked: Model, tell: Told) -> dict[str, Any]:
    """The safetensors file that ``af.load`` reads, its certificate with it."""
    net = call_for(asked.of).run(timeout=PROVING, progress=tell)
    model = StoredModel(net.network, net.target, net.certificate, net.construction, net.dtype, net.reason)
    return {"name": f"{net.construction}.safetensors", "data": base64.b64encode(serialised(model)).decode("ascii")}


def described(found: Certificate) -> dict[str, Any]:
    """A certificate in plain numbers."""
    seen = found.estimate
    return {
        "status": found.status,
        "bound": found.bound,
        "statement": str(found) if found.bound is None else found.statement(),
        "parts": dict(found.parts),
        "assumptions": list(found.assumptions),
        "dtype": found.dtype,
        "estimate": None if seen is None else {"error": finite(seen.error), "at": list(seen.at)},
    }
