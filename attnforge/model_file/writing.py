"""One safetensors file a model: weights, target, domain, certificate, construction, digest and format version."""

from __future__ import annotations

import json
import os
from typing import Any

import numpy as np
import numpy.typing as npt

from attnforge.errors import FileFormatError
from attnforge.files import write_whole
from attnforge.model_file.stored import FORMAT, KEY, StoredModel
from attnforge.network import content_digest, flatten


def write(model: StoredModel, path: str | os.PathLike[str]) -> None:
    """Write the file, in one step: a reader never sees half of it."""
    data = serialised(model)
    try:
        write_whole(path, data)
    except OSError as error:
        raise FileFormatError(
            "The model must be written to a writable place", str(error), "Choose another path"
        ) from error


def save(model: StoredModel, path: str | os.PathLike[str]) -> None:
    """The same under a name that says what it is; a name of another format is refused."""
    if not isinstance(path, str | os.PathLike):
        raise FileFormatError("A model is saved to a path", type(path).__name__, 'Write net.save("f.safetensors")')
    suffix = os.path.splitext(path)[1]
    if suffix[1:].isalpha() and suffix.lower() != ".safetensors":
        wanted = "A model is saved as a safetensors file, and its name must not say otherwise"
        raise FileFormatError(wanted, os.fspath(path), "Use .safetensors; other formats are exported")
    write(model, path)


def serialised(model: StoredModel) -> bytes:
    """What the file holds."""
    from safetensors.numpy import save as serialise

    metadata, arrays = _content(model)
    metadata["digest"] = content_digest(metadata, arrays)
    data: bytes = serialise(arrays, metadata={KEY: json.dumps(metadata, sort_keys=True)})
    return data


def _content(model: StoredModel) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
    skeleton, weights = flatten(model.network)
    target, numbers = model.target.to_data()
    arrays = {f"network.{name}": np.ascontiguousarray(array) for name, array in weights.items()}
    arrays |= {f"target.{name}": np.ascontiguousarray(array) for name, array in numbers.items()}
    metadata = {
        "format": FORMAT,
        "construction": model.construction,
        "reason": model.reason,
        "dtype": model.dtype,
        "network": skeleton,
        "target": target,
        "certificate": None if model.certificate is None else model.certificate.to_json(),
    }
    return metadata, arrays
