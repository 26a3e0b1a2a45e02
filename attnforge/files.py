"""Files that are there in whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path


def write_whole(path: str | os.PathLike[str], data: bytes) -> None:
    """Write a file in one step: a reader never sees half of it, and what was there is replaced."""
    destination = Path(path)
    temporary = destination.with_name(destination.name + ".part")
    try:
        temporary.write_bytes(data)
        temporary.replace(destination)
    finally:
        temporary.unlink(missing_ok=True)  # also where it was interrupted
