"""``attnforge inspect``: what a saved model is, without running it."""

from __future__ import annotations

from attnforge.cli.model import layer_data, model_data, read_model, show_model
from attnforge.cli.options import AsJson, ModelFile
from attnforge.cli.screen import note, print_json, say

EPILOG = """\
Example:

\b
  attnforge inspect f.safetensors
  attnforge inspect f.safetensors --json | jq .certificate.bound

The certificate shown is the stored one; `attnforge certify` proves it again."""


def run(file: ModelFile, as_json: AsJson = False) -> None:
    """Show a saved model and its layers."""
    model = read_model(file)
    if as_json:
        layers = [layer_data(layer) for layer in model.network.layers]
        print_json({"file": str(file)} | model_data(model) | {"network": layers})
        return
    show_model(model)
    say(f"\n{model.network}")
    note("\nThe certificate is the stored one: `attnforge certify` proves it again.", "dim")
