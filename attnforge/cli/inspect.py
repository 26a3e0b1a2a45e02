"""``attnforge inspect``: what a saved model is, without running it."""

from __future__ import annotations

from typing import Annotated

import typer

from attnforge.cli.model import is_program, layer_data, model_data, program_data, read_any, show_model
from attnforge.cli.options import AsJson, ModelFile
from attnforge.cli.screen import note, print_json, say

EPILOG = """\
Example:

\b
  attnforge inspect f.safetensors
  attnforge inspect f.safetensors --json | jq .certificate.bound
  attnforge inspect f.safetensors --labels
  attnforge inspect f.safetensors --labels --json | jq .labels.layers[1].heads

Labels say what every head, key and column is, and whether the weights bear that out.
The certificate shown is the stored one; `attnforge certify` proves it again."""


def run(
    file: ModelFile,
    labels: Annotated[bool, typer.Option("--labels", help="Say what every head, key and column is.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show a saved model and its layers."""
    model = read_any(file)
    found = model.labels()
    if as_json:
        layers = [layer_data(*each) for each in zip(model.network.layers, found.layers, strict=True)]
        more = {"labels": found.to_data()} if labels else {}
        data = program_data(model) if is_program(model) else model_data(model)  # type: ignore[arg-type]
        print_json({"file": str(file)} | data | {"network": layers} | more)
        return
    if is_program(model):
        say(model.report())
    else:
        show_model(model)  # type: ignore[arg-type]
    say(f"\n{found if labels else model.network}")
    note("\nThe certificate is the stored one: `attnforge certify` proves it again.", "dim")
