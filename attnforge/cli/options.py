"""Arguments that several verbs share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

ModelFile = Annotated[Path, typer.Argument(metavar="FILE", help="A model saved by `attnforge compile -o` or net.save.")]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON object on stdout, errors included.")]
