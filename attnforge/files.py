"""Files and folders that are there in whole or not at all."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Mapping
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


def write_folder_whole(path: str | os.PathLike[str], files: Mapping[str, bytes]) -> None:
    """Write a folder of files, named by their paths inside it, in one step.

    It is filled beside its place and moved there. A folder that exists keeps what else is in it, and gets the new
    entries, or, where one of them cannot be put in place, its old ones back.
    """
    destination = Path(path)
    exists = destination.is_dir()
    holder = Path(tempfile.mkdtemp(prefix=".part-", dir=destination if exists else destination.absolute().parent))
    try:
        made = holder / "made"
        for name, data in files.items():
            place = made / name
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(data)
        if exists:
            _exchange(made, destination, holder / "replaced")
        else:
            made.rename(destination)
    finally:
        shutil.rmtree(holder, ignore_errors=True)


def _exchange(made: Path, destination: Path, replaced: Path) -> None:
    """Move every entry into a folder, those of the same names out of it; all, or none."""
    replaced.mkdir()
    moved: list[tuple[Path, Path]] = []
    try:
        for entry in sorted(made.iterdir()):
            place = destination / entry.name
            if os.path.lexists(place):
                moved.append((place, replaced / entry.name))
                place.rename(replaced / entry.name)
            moved.append((entry, place))
            entry.rename(place)
    except BaseException:
        for source, goal in reversed(moved):
            if os.path.lexists(goal):
                goal.rename(source)
        raise
