"""``attnforge diagnose``: look at a saved model for the known failures of softmax attention."""

from __future__ import annotations

from typing import Annotated

import typer

from attnforge.cli.failure import ExitCode
from attnforge.cli.model import read_model
from attnforge.cli.options import AsJson, ModelFile
from attnforge.cli.screen import print_json, say, working

MOST_POINTS = 1_000_000

EPILOG = """\
Example:

\b
  attnforge diagnose f.safetensors
  attnforge diagnose f.safetensors --dtype float16
  attnforge diagnose f.safetensors --points 4096 --seed 7 --json

Signatures: uniform attention, boundary artefacts, interpolation drift, score
overflow, lost argmax, underflow. Healthy means that none was seen; only a
certificate proves anything. Exit code 8: a fault or a warning was found."""


def run(
    file: ModelFile,
    points: Annotated[int, typer.Option(min=1, max=MOST_POINTS, help="How many points to look at.")] = 1024,
    seed: Annotated[int, typer.Option(min=0, help="Of these points.")] = 0,
    dtype: Annotated[
        str | None, typer.Option(help="What it would run in, instead of its own dtype.", show_default=False)
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Find what is wrong with a saved model.

    Each finding names the place, the evidence, the likely cause and how to mend it.
    """
    from attnforge.compiler.diagnosing import diagnose

    model = read_model(file)
    with working("diagnosing"):
        found = diagnose(model, points=points, seed=seed, dtype=dtype)
    if as_json:
        print_json({"file": str(file), "seed": seed, **found.to_dict()})
    else:
        say(str(found))
    if not found.healthy:
        raise typer.Exit(ExitCode.DIAGNOSED)
