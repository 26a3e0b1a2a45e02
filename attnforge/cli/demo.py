"""The command without a verb: the whole path once, from a formula to a certificate, a file and a figure."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from pathlib import Path
from typing import Annotated

import typer

from attnforge.cli.destination import check_destination
from attnforge.cli.failure import EXIT_CODES
from attnforge.cli.model import show_model
from attnforge.cli.saving import save_figure, save_model
from attnforge.cli.screen import say, working

EXPRESSION, TOLERANCE = "sin(8*x) + abs(x)", 1e-6
MODEL, FIGURE = Path("attnforge-demo.safetensors"), Path("attnforge-demo.png")

NEXT = (
    f"inspect {MODEL}",
    f"measure {MODEL} --points 1000000",
    'compile "clamp(2*x + 0.3*y - 1, -1, 1)" --domain x=-1:1,y=0:2 --tol 1e-9 -o f.safetensors',
)

EPILOG = f"""\
Example:

\b
  attnforge compile "clamp(2*x + 0.3*y - 1, -1, 1)" \\
      --domain x=-1:1,y=0:2 --tol 1e-6 -o f.safetensors
  attnforge certify f.safetensors
  attnforge measure f.safetensors

{EXIT_CODES}"""


def _print_version(wanted: bool) -> None:
    if wanted:
        from attnforge import __version__

        typer.echo(f"attnforge {__version__}")
        raise typer.Exit


def run(
    ctx: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and leave.")
    ] = False,
) -> None:
    """Compile functions into softmax-attention weights, and prove how close they are.

    Without a verb: compiles sin(8*x) + abs(x) to 1e-6, proves its error bound, and writes attnforge-demo.safetensors
    and attnforge-demo.png into the current directory.
    """
    if ctx.invoked_subcommand is None:
        _demonstrate()


def _demonstrate() -> None:
    from attnforge.compiler import compile

    check_destination(MODEL, str(MODEL))
    check_destination(FIGURE, str(FIGURE))
    with working("compiling and proving"):
        model = compile(EXPRESSION, {"x": (-1, 1)}, TOLERANCE)
        save_model(model, MODEL, str(MODEL))
        save_figure(model, FIGURE, str(FIGURE))
    show_model(model)
    say("")
    say(f"wrote {MODEL}   the model")
    say(f"wrote {FIGURE}           target, output, error and attention, drawn")
    say("\nNext, try:", "bold")
    for line in NEXT:
        say(f"  {_command()} {line}")


def _command() -> str:
    """How this command can be called again: by its name where the shell finds it, else by its path."""
    if shutil.which("attnforge"):
        return "attnforge"
    if Path(sys.argv[0]).name == "__main__.py":
        return "python -m attnforge"
    return shlex.quote(min(sys.argv[0], os.path.relpath(sys.argv[0]), key=len))
