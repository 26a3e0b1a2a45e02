"""The door for the shell: one verb a file, put together here."""

from __future__ import annotations

import io
import sys

import typer

from attnforge.cli import (
    apply,
    bench,
    certify,
    compile,
    constructions,
    demo,
    diagnose,
    experiment,
    explore,
    export,
    inspect,
    measure,
    report,
    zoo,
)
from attnforge.cli.command import ExpressionCommand, Group

__all__ = ["app", "main"]

app = typer.Typer(
    name="attnforge",
    cls=Group,
    add_completion=False,
    rich_markup_mode=None,  # plain help: panels wrap examples and colour -1 as an option
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.callback(invoke_without_command=True, epilog=demo.EPILOG)(demo.run)
app.command("compile", cls=ExpressionCommand, epilog=compile.EPILOG)(compile.run)
app.command("inspect", epilog=inspect.EPILOG)(inspect.run)
app.command("certify", epilog=certify.EPILOG)(certify.run)
app.command("measure", epilog=measure.EPILOG)(measure.run)
app.command("diagnose", epilog=diagnose.EPILOG)(diagnose.run)
app.command("report", epilog=report.EPILOG)(report.run)
app.command("apply", epilog=apply.EPILOG)(apply.run)
app.command("export", epilog=export.EPILOG)(export.run)
app.command("constructions", epilog=constructions.EPILOG)(constructions.run)
app.command("explore", epilog=explore.EPILOG)(explore.run)
app.command("bench", epilog=bench.EPILOG)(bench.run)
app.add_typer(experiment.app, name="experiment")
app.add_typer(zoo.app, name="zoo")


def main() -> None:
    """Run the command line and leave with its exit code. A character the terminal cannot show is shown escaped."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # as stderr is from the start
    app(prog_name="attnforge")
