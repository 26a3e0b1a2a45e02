"""Model files taken apart and put together again, as an attacker would."""

from __future__ import annotations

import copy
import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load as parse
from safetensors.numpy import save as serialise

from attnforge.certification.certificate import arithmetic as arithmetic
from attnforge.certification.certificate import target_digest as target_digest
from attnforge.network import content_digest
from attnforge.targets import target_from_data


def split(path: Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Metadata and tensors of a model file."""
    data = path.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + length])
    return json.loads(header["__metadata__"]["attnforge"]), {k: v.copy() for k, v in parse(data).items()}


def join(path: Path, metadata: dict[str, Any], arrays: dict[str, np.ndarray], *, honest: bool = False) -> Path:
    """Write them; ``honest`` recomputes the digest, as anyone who can write a file can."""
    metadata = copy.deepcopy(metadata)
    if honest:
        metadata.pop("digest", None)
        metadata["digest"] = content_digest(metadata, arrays)
    path.write_bytes(serialise(arrays, metadata={"attnforge": json.dumps(metadata, sort_keys=True)}))
    return path


def raw(path: Path, header: bytes, body: bytes = b"", length: int | None = None) -> Path:
    """A file with any header, any body and any length field."""
    path.write_bytes(struct.pack("<Q", len(header) if length is None else length) + header + body)
    return path


def certificate(metadata: dict[str, Any]) -> dict[str, Any]:
    """The stored certificate as a dictionary."""
    return json.loads(metadata["certificate"])


def with_certificate(metadata: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """The metadata with some of its certificate's fields replaced."""
    return metadata | {"certificate": json.dumps(certificate(metadata) | changes, sort_keys=True)}


def agreeing(metadata: dict[str, Any], arrays: dict[str, np.ndarray]) -> dict[str, Any]:
    """The metadata with a certificate about what is stored: network, target, domain and dtype, as anyone can write."""
    target = target_from_data(metadata["target"], under("target.", arrays))
    ends = zip(target.domain.lower.ravel().tolist(), target.domain.upper.ravel().tolist(), strict=True)
    return with_certificate(
        metadata,
        digest=content_digest(metadata["network"], under("network.", arrays)),
        target=target_digest(target),
        domain=[[low.hex(), high.hex()] for low, high in ends],
        dtype=metadata["dtype"],
    )


def under(prefix: str, arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The tensors whose names begin so, without that beginning."""
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}


class Bomb:
    """Unpickling this would create a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return open, (str(self.path), "w")
