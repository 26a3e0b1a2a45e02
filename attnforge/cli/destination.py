"""Where results are written: checked before the work, written in one step after it."""

from __future__ import annotations

from pathlib import Path

import typer

from attnforge.files import write_whole


def check_destination(
    path: Path | None, option: str, suffixes: tuple[str, ...] = (), remedy: str = "The ending chooses the format"
) -> None:
    """Refuse, before anything is computed, a place that cannot be a file or a name that says no known format."""
    if path is None:
        return
    if path.is_dir():
        raise typer.BadParameter(f"must name a file. Got the directory {path}. Add a file name.", param_hint=option)
    if not path.parent.is_dir():
        message = f"must lie in a directory that exists. Got {path}. Create {path.parent} first."
        raise typer.BadParameter(message, param_hint=option)
    if suffixes and path.suffix.lower() not in suffixes:
        message = f"must end in {' or '.join(suffixes)}. Got {path}. {remedy}."
        raise typer.BadParameter(message, param_hint=option)


def write(path: Path, data: bytes, option: str) -> None:
    """Write the file so that a reader never sees half of it; what was there is replaced."""
    try:
        write_whole(path, data)
    except OSError as error:
        message = f"must be a place that can be written. Got {path}: {error.strerror}. Choose another."
        raise typer.BadParameter(message, param_hint=option) from error
