"""A compiled target into files: the model, in our format or another one of one file, and its figure."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from attnforge.cli.destination import check_destination, write
from attnforge.errors import FileFormatError
from attnforge.export import FORMATS
from attnforge.export.formats import Format, check_dtype

if TYPE_CHECKING:
    from attnforge import Compiled

MODEL = ".safetensors"
FIGURES = (".png", ".svg", ".pdf")


def check_models(path: Path | None, option: str, dtype: str) -> None:
    """Refuse, before anything is computed, a name that asks for no format, or for one that cannot be written."""
    folders = ", ".join(each.option for each in FORMATS.values() if each.suffix is None)
    suffixes = (MODEL, *(each.suffix for each in FORMATS.values() if each.suffix is not None))
    check_destination(
        path, option, suffixes, f"Folders ({folders}) are exported from the saved model: attnforge export"
    )
    if path is not None and (asked := _exported(path)) is not None:
        check_dtype(dtype)
        asked.require()


def save_model(model: Compiled, path: Path, option: str) -> None:
    """Save or export, by the ending."""
    asked = _exported(path)
    write_model(model.save if asked is None else partial(asked.writer, model), path, option)


def write_model(writer: Callable[..., None], path: Path, option: str, **settings: Any) -> None:
    """Write; a place that cannot be written is wrong usage, not an unreadable file."""
    try:
        writer(path, **settings)
    except FileFormatError as error:
        raise typer.BadParameter(str(error), param_hint=option) from error


def _exported(path: Path) -> Format | None:
    """The format that a file's name asks for, where it is not our own."""
    return next((each for each in FORMATS.values() if each.suffix == path.suffix.lower()), None)


def save_figure(model: Compiled, path: Path, option: str) -> None:
    """Draw target, output, error and attention map, in the format the ending names."""
    buffer = BytesIO()
    model.plot().savefig(buffer, format=path.suffix.lower().removeprefix("."), dpi=150)
    write(path, buffer.getvalue(), option)
