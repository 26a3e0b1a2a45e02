"""A compiled target into files: the model, and its figure."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from attnforge.cli.destination import write
from attnforge.errors import FileFormatError

if TYPE_CHECKING:
    from attnforge import Compiled

MODELS = (".safetensors",)
FIGURES = (".png", ".svg", ".pdf")


def save_model(model: Compiled, path: Path, option: str) -> None:
    """Save; a place that cannot be written is wrong usage, not an unreadable file."""
    try:
        model.save(path)
    except FileFormatError as error:
        raise typer.BadParameter(str(error), param_hint=option) from error


def save_figure(model: Compiled, path: Path, option: str) -> None:
    """Draw target, output, error and attention map, in the format the ending names."""
    buffer = BytesIO()
    model.plot().savefig(buffer, format=path.suffix.lower().removeprefix("."), dpi=150)
    write(path, buffer.getvalue(), option)
