"""Reading a saved model without trusting it.

Reading runs no code and trusts nothing: sizes are capped before memory is spent, every number must be finite, the
stored text is parsed again. A digest over all metadata and all tensors says whether anything was altered: integrity
(a damaged or edited file is told), not authenticity, as whoever can write a file can also write its digest. To know
that the bound is true, certify or check it again.
"""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from attnforge.certification.certificate import Certificate
from attnforge.certification.program_certificate import ProgramCertificate
from attnforge.errors import AttnforgeError, FileFormatError
from attnforge.model_file.stored import KEY, READ, StoredModel
from attnforge.network import Network, check_architecture, content_digest, digest, unflatten
from attnforge.outward import machine
from attnforge.targets import PromptTarget, target_from_data
from attnforge.targets.programs.stored import Program

MAX_HEADER = 2**24  # bytes of JSON: a network of 10,000 heads needs about half of it
MAX_REASON = 1000  # characters shown of why a construction was chosen
MAX_NAME = 100  # characters of a construction or a role
MAX_TENSORS = 100_000
MAX_FILE = 2**32
TYPES = {"F64": np.float64, "I64": np.int64}  # weights and targets; indices of rows

AnyArray = npt.NDArray[Any]


def read(path: str | os.PathLike[str], *, max_bytes: int = MAX_FILE) -> StoredModel:
    """Read a model file; anything malformed or too large is refused. Whether it was altered is in ``is_intact``."""
    try:
        place = Path(path)
    except TypeError:
        got, remedy = type(path).__name__, "Pass the path of a file; net.save(path) writes one"
        raise FileFormatError("A model file is named by its path", got, remedy) from None
    _check_header(place, max_bytes)
    text, arrays = _read(place)
    metadata = _metadata(text)
    stored = metadata.pop("digest", None)
    try:
        found = content_digest(metadata, arrays)
    except ValueError as error:
        raise FileFormatError("The metadata must be plain JSON", str(error)[:200], "Build it anew") from error
    for name, array in arrays.items():
        _check_array(name, array)
    return _rebuild(metadata, arrays, stored == found)


def _check_array(name: str, array: AnyArray) -> None:
    """What holds of every array; that weights are float64 and indices int64, each in its place, a network checks."""
    if not np.all(np.isfinite(array)):
        raise FileFormatError(
            "Every stored number must be finite", f"NaN or infinity in {name[:80]!r}", "Build it anew"
        )
    if not name.startswith("network.") and not (name.startswith("target.") and array.dtype == np.float64):
        got = f"{array.dtype} in {name[:80]!r}"
        raise FileFormatError(
            "A file holds arrays of the network, and float64 ones of the target", got, "Build it anew"
        )


def _rebuild(metadata: Mapping[str, Any], arrays: Mapping[str, AnyArray], is_intact: bool) -> StoredModel:
    try:
        weights = _under("network.", arrays)
        network = unflatten(metadata["network"], weights)
        width = check_architecture(network)
        _check_words(network)
        target = target_from_data(metadata["target"], _under("target.", arrays))
        stored = metadata["certificate"]
        kind = ProgramCertificate if isinstance(target, Program) else Certificate
        certificate = None if stored is None else kind.from_json(stored)
        if certificate and certificate.digest == content_digest(
            metadata["network"], weights
        ):  # about the network as it is stored,
            certificate = replace(
                certificate, digest=digest(network)
            )  # so about what was read of it: claims may be less
        construction, dtype = str(metadata["construction"]), str(metadata["dtype"])
        reason = str(metadata["reason"])[:MAX_REASON]
        machine(dtype)
    except FileFormatError as error:
        got = None if error.got is None else error.got[:500]
        raise FileFormatError(error.requirement, got, error.remedy) from error
    except (AttnforgeError, KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise FileFormatError("The file must hold a valid model", str(error)[:500], "Build it anew") from error
    if certificate is None and not isinstance(target, PromptTarget):
        raise FileFormatError("A model without examples has a certificate", "none", "Build it anew")
    if isinstance(target, Program) and network.features != sum(each.size for each in target.layout.inputs):
        got = f"{network.features} features"
        raise FileFormatError("The network must take the program's tokens", got, "Build it anew")
    if width != target.written:
        got = f"{width} features for {target.written} outputs"
        raise FileFormatError("The network must write the target's outputs", got, "Build it anew")
    return StoredModel(network, target, certificate, construction, dtype, reason, is_intact, metadata["format"])


def _check_words(network: Network) -> None:
    """Names of keys and heads are one line of text: they are counted and shown."""
    for head in network.heads:
        for name in () if head.claims is None else (head.claims.construction, *head.claims.roles):
            if not (len(name) <= MAX_NAME and name.isprintable()):
                wanted = f"Heads and keys are named by at most {MAX_NAME} characters that print"
                raise FileFormatError(wanted, f"{name!r:.80}", "Build it anew")


def _check_header(path: Path, max_bytes: int) -> None:
    """Sizes before anything is read: of the file, the header, the tensors' number, types and bytes."""
    if not os.path.isfile(path):  # a path may be too long for the system to say so
        raise FileFormatError("A model file must exist", f"{path!s:.200}", "Check the path")
    try:
        with path.open("rb"):
            size = path.stat().st_size
    except OSError as error:
        raise FileFormatError("A model file must be readable", str(error), "Check its permissions") from error
    if not 8 < size <= max_bytes:
        raise FileFormatError(f"A model file has between 9 and {max_bytes:,} bytes", f"{size:,}", "Raise max_bytes")
    with path.open("rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        if not 2 <= length <= min(MAX_HEADER, size - 8):
            got = f"a header of {length:,} bytes in a file of {size:,}"
            raise FileFormatError("The header must fit the file and 16 MiB", got, "This is not a model of attnforge")
        header = _json(file.read(length), "The header")
    entries = {name: entry for name, entry in header.items() if name != "__metadata__"}
    if len(entries) > MAX_TENSORS:
        raise FileFormatError(f"A model has at most {MAX_TENSORS:,} tensors", f"{len(entries):,}")
    for name, entry in entries.items():
        _check_entry(name, entry, size - 8 - length)


def _check_entry(name: str, entry: Any, available: int) -> None:
    try:
        start, end = entry["data_offsets"]
        shape = [int(n) for n in entry["shape"]]
        count = int(np.prod([float(n) for n in shape])) if shape else 1
        fits = entry["dtype"] in TYPES and min(shape, default=1) >= 0 and 0 <= start <= end <= available
        fits = fits and end - start == 8 * count
    except (KeyError, TypeError, ValueError, OverflowError):
        fits = False
    if not fits:
        raise FileFormatError(
            "Tensors are float64 or int64 and lie inside the file", f"{name[:80]!r}: {str(entry)[:120]}"
        )


def _read(path: Path) -> tuple[str | None, dict[str, AnyArray]]:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="numpy") as file:
            metadata = file.metadata() or {}
            return metadata.get(KEY), {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError, ValueError) as error:
        raise FileFormatError("The file must be a whole safetensors file", str(error)[:200], "Copy it again") from error


def _metadata(text: str | None) -> dict[str, Any]:
    if text is None:
        raise FileFormatError("A model file carries attnforge's metadata", "none", "Save it with net.save(path)")
    metadata = _json(text.encode(), "The metadata")
    found = metadata.get("format")
    if type(found) is not int or found not in READ:
        wanted = f"This attnforge reads format versions {' and '.join(map(str, READ))}"
        raise FileFormatError(wanted, f"version {found!r:.40}", "Use a matching attnforge")
    return metadata


def _json(data: bytes, what: str) -> dict[str, Any]:
    try:
        found = json.loads(data, object_pairs_hook=_once)
    except (ValueError, RecursionError) as error:
        raise FileFormatError(f"{what} must be JSON", str(error)[:200], "This is not a model of attnforge") from error
    if not isinstance(found, dict):
        raise FileFormatError(f"{what} must be a JSON object", type(found).__name__)
    return found


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object without a repeated name: another reader might see the first value where we see the last."""
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name occurs twice")
    return found


def _under(prefix: str, arrays: Mapping[str, AnyArray]) -> dict[str, AnyArray]:
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
