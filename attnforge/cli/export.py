"""``attnforge export``: a saved model in another format."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from attnforge import export
from attnforge.cli.model import read_model
from attnforge.cli.options import AsJson, ModelFile
from attnforge.cli.screen import note, print_json

EPILOG = """\
Example:

\b
  attnforge compile "sin(8*x)" --domain x=-1:1 --tol 1e-8 -o f.safetensors
  attnforge export f.safetensors --to onnx -o f.onnx
  attnforge export f.safetensors --to torch -o f_torch

onnx is one file; torch and jax are folders of weights and a script that runs without attnforge."""


Format = StrEnum("Format", list(export.FORMATS))  # type: ignore[misc]


def run(
    file: ModelFile,
    to: Annotated[Format, typer.Option(help="The format.")],
    output: Annotated[Path, typer.Option("-o", "--output", metavar="PATH", help="The file or folder to write.")],
    dtype: Annotated[str | None, typer.Option(help="float64 or float32; as compiled, unless given.")] = None,
    as_json: AsJson = False,
) -> None:
    """Write a saved model for ONNX Runtime, stock torch or JAX."""
    model = read_model(file)
    getattr(export, to.value)(model, output, dtype=dtype)
    if as_json:
        print_json({"file": str(file), "format": to.value, "output": str(output)})
    note(f"wrote {output}")
