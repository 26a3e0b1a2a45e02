"""``attnforge export``: a saved model in another format."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from attnforge.cli.model import read_model
from attnforge.cli.options import AsJson, ModelFile
from attnforge.cli.saving import write_model
from attnforge.cli.screen import note, print_json
from attnforge.export import FORMATS
from attnforge.export.formats import Format

EPILOG = """\
Example:

\b
  attnforge compile "sin(8*x)" --domain x=-1:1 --tol 1e-8 -o f.safetensors
  attnforge export f.safetensors --to onnx -o f.onnx
  attnforge export f.safetensors --to torch -o f_torch
  attnforge export f.safetensors --to transformer-lens -o f_lens
  attnforge export f.safetensors --to vnnlib -o f_instances

onnx is one file; other formats are folders, of weights and a script that runs without attnforge. vnnlib is a folder
of an ONNX file and properties of it for verifiers, with known answers."""


def run(
    file: ModelFile,
    to: Annotated[str, typer.Option(metavar="FORMAT", help=f"{', '.join(each.option for each in FORMATS.values())}.")],
    output: Annotated[Path, typer.Option("-o", "--output", metavar="PATH", help="The file or folder to write.")],
    dtype: Annotated[str | None, typer.Option(help="float64 or float32; as compiled, unless given.")] = None,
    as_json: AsJson = False,
) -> None:
    """Write a saved model in another format."""
    chosen = chosen_format(to)
    chosen.require()
    model = read_model(file)
    write_model(partial(chosen.writer, model), output, "--output", dtype=dtype)
    if as_json:
        print_json({"file": str(file), "format": chosen.option, "output": str(output)})
    note(f"wrote {output}")


def chosen_format(option: str) -> Format:
    """The format by its name."""
    names = {each.option: each for each in FORMATS.values()}
    if option not in names:
        message = f"must be one of {', '.join(names)}. Got {option!r:.40}. Choose one of these."
        raise typer.BadParameter(message, param_hint="--to")
    return names[option]
