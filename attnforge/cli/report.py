"""``attnforge report``: a saved model as one HTML page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from attnforge.cli.destination import check_destination, write
from attnforge.cli.model import read_model
from attnforge.cli.options import AsJson, ModelFile
from attnforge.cli.screen import note, print_json, working

PAGES = (".html", ".htm")

EPILOG = """\
Example:

\b
  attnforge report f.safetensors
  attnforge report f.safetensors -o report.html --no-timing

One page that needs no other file and no connection: what the model is, its certificate and the certificate's parts,
the error measured, figures, what it costs to run, how to load it and how to check it. The certificate is the stored
one; `attnforge certify` proves it again, unless the target is a callable: files hold no code, and neither errors nor
bounds can be told without it. Without timing, the same file gives the same page."""


def run(
    file: ModelFile,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="PAGE", show_default="FILE with .html", help="Where to write the page."),
    ] = None,
    timing: Annotated[bool, typer.Option(help="Measure the time an evaluation takes.")] = True,
    as_json: AsJson = False,
) -> None:
    """Write a saved model's report as an HTML page."""
    place = file.with_suffix(".html") if output is None else output
    check_destination(place, "--output", PAGES)
    model = read_model(file)
    with working("measuring and drawing"):
        from attnforge.compiler.page import page

        data = page(model, file=file.name, timing=timing).encode("utf-8")
        write(place, data, "--output")
    if as_json:
        print_json({"file": str(file), "report": str(place), "bytes": len(data)})
    else:
        note(f"wrote {place}")
