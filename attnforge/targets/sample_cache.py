"""Samples of a function in a file that only ever grows: what was computed before a crash is not computed again.

The file is a header of 512 bytes of JSON (name and version of the format, number of inputs, shape of one value; padded
with blanks), and then rows of little-endian float64: the inputs, followed by the value. Nothing in it is unpickled or
believed: a header for other shapes is refused, and rows with NaN or infinity are skipped.

A batch is one write in append mode, behind whole rows only: a row cut short by a crash is cut off first. Writers take
turns by a lock where the system has one, so that two of them mix batches and never bytes.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import numpy as np
import numpy.typing as npt

from attnforge.errors import FileFormatError

Array = npt.NDArray[np.float64]
FilePath = str | os.PathLike[str]

FORMAT, VERSION = "attnforge samples", 1
HEADER = 512  # bytes
LARGEST_VALUE = 2**31  # numbers in one value, beyond which a header is nonsense
OPENING = json.dumps({"format": FORMAT})[:-1].encode("ascii")  # how every header starts
BINARY = getattr(os, "O_BINARY", 0)  # Windows would change the ends of lines
ANOTHER = "Give another cache path, or remove the file"


def read_samples(path: FilePath, inputs: int, shape: tuple[int, ...] | None, most: int) -> tuple[Array, Array] | None:
    """The finite samples in the file, points (N, inputs) and values (N, *shape); None where nothing is stored yet.

    The file is made where it does not exist, so that a path that cannot be written is refused before anything
    expensive is computed.

    Args:
        path: of the file.
        inputs: numbers in one point.
        shape: of one value; None takes what the file says.
        most: rows read; those behind are left alone.
    """
    with _opened(path) as descriptor:
        stored = _stored_shape(descriptor, path, inputs, shape)
        if stored is None:
            return None
        width = inputs + math.prod(stored)
        count = min((os.fstat(descriptor).st_size - HEADER) // (8 * width), most)
        rows = np.frombuffer(_read(descriptor, count * 8 * width, HEADER), dtype="<f8").reshape(-1, width)
    rows = rows[np.isfinite(rows).all(axis=1)].astype(np.float64)
    return rows[:, :inputs], rows[:, inputs:].reshape(-1, *stored)


def append_samples(path: FilePath, points: Array, values: Array) -> None:
    """Add points (N, inputs) and their values (N, ...) behind what is stored, leaving out values that are not finite.

    The whole batch is one write, handed to the system at once: a crash of this process afterwards loses none of it.
    """
    inputs, shape = points.shape[1], values.shape[1:]
    rows = np.concatenate([points, values.reshape(len(values), math.prod(shape))], axis=1)
    data = rows[np.isfinite(rows).all(axis=1)].astype("<f8").tobytes()
    with _opened(path) as descriptor, _turn(descriptor):
        size = os.fstat(descriptor).st_size
        if _stored_shape(descriptor, path, inputs, shape) is None:
            end, data = 0, _header(inputs, shape) + data
        else:
            end = size - (size - HEADER) % (8 * rows.shape[1])
        os.ftruncate(descriptor, end)
        if os.write(descriptor, data) != len(data):
            os.ftruncate(descriptor, end)
            raise FileFormatError("The cache must have room for the samples", f"a full disk at {path}", "Make room")


def _header(inputs: int, shape: tuple[int, ...]) -> bytes:
    known = {"format": FORMAT, "version": VERSION, "dtype": "<f8", "inputs": inputs, "shape": list(shape)}
    return json.dumps(known).encode("ascii").ljust(HEADER - 1) + b"\n"


def _stored_shape(
    descriptor: int, path: FilePath, inputs: int, shape: tuple[int, ...] | None
) -> tuple[int, ...] | None:
    """The shape of one value; None where no whole header was written yet; a file that is not ours is refused."""
    head = _read(descriptor, min(os.fstat(descriptor).st_size, HEADER), 0)
    if not head.startswith(OPENING[: len(head)]):
        raise FileFormatError("The cache must be a file of samples", f"something else at {path}", ANOTHER)
    if len(head) < HEADER:
        return None
    known = _parsed(head)
    stored = _sizes(known.get("shape"))
    if stored is None or head != _header(inputs, stored) or shape not in (None, stored):
        wanted = f"The cache must hold samples of {inputs} inputs"
        wanted += "" if shape is None else f" and values of shape {shape}, in version {VERSION} of the format"
        names = ("version", "inputs", "shape")
        got = ", ".join(f"{name} {str(known.get(name))[:80]}" for name in names) if known else "an unreadable header"
        raise FileFormatError(wanted, f"{got} at {path}", ANOTHER)
    return stored


def _parsed(head: bytes) -> dict[str, Any]:
    try:
        found = json.loads(head.decode("ascii"))
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _sizes(shape: Any) -> tuple[int, ...] | None:
    """A stored shape, if it is one: at most tokens and outputs, each at least 1, of a sane size."""
    if not isinstance(shape, list) or len(shape) > 2:
        return None
    fits = all(isinstance(size, int) and not isinstance(size, bool) and size >= 1 for size in shape)
    return tuple(shape) if fits and math.prod(shape) <= LARGEST_VALUE else None


def _read(descriptor: int, size: int, offset: int) -> bytes:
    """Bytes from the offset on; the system may hand them over in pieces."""
    parts: list[bytes] = []
    os.lseek(descriptor, offset, os.SEEK_SET)  # writes go to the end wherever that is
    while size > 0 and (part := os.read(descriptor, size)):
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


@contextmanager
def _opened(path: FilePath) -> Iterator[int]:
    descriptor = -1
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | BINARY, 0o644)
        yield descriptor
    except OSError as error:
        got = f"{type(error).__name__}: {error}"
        remedy = "Give a path in an existing folder that can be written"
        raise FileFormatError("The cache must be a file that can be read and written", got, remedy) from error
    finally:
        if descriptor >= 0:
            os.close(descriptor)


@contextmanager
def _turn(descriptor: int) -> Iterator[None]:
    """Wait for other writers. Where the system or the disk knows no locks, append mode alone must do."""
    with suppress(ImportError, OSError):
        import fcntl

        fcntl.flock(descriptor, fcntl.LOCK_EX)  # released when the descriptor is closed
    yield
