"""``attnforge compile``: from a formula to certified weights."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from attnforge.cli.destination import check_destination
from attnforge.cli.intervals import read_domain
from attnforge.cli.model import model_data, show_model
from attnforge.cli.options import AsJson
from attnforge.cli.saving import FIGURES, save_figure, save_model
from attnforge.cli.screen import note, print_json, working

if TYPE_CHECKING:
    from attnforge import Compiled

EPILOG = """\
Example:

\b
  attnforge compile "clamp(2*x + 0.3*y - 1, -1, 1)" \\
      --domain x=-1:1,y=0:2 --tol 1e-6 -o f.safetensors --figure f.png

The bound holds at every point of the domain, rounding in the chosen dtype included. `attnforge constructions` lists
what can be built; a target that none of them takes is refused with the reasons."""


class DType(StrEnum):
    """What the network runs in."""

    float64 = "float64"
    float32 = "float32"
    bfloat16 = "bfloat16"
    float16 = "float16"


def run(
    expression: Annotated[
        str, typer.Argument(metavar="EXPR", help='The function, in quotes: "clamp(2*x - 0.5, -1, 1)".')
    ],
    domain: Annotated[
        list[str],
        typer.Option(metavar="NAME=LOWER:UPPER", help="Where it must hold. Repeat it, or separate by commas."),
    ],
    tol: Annotated[float, typer.Option(help="The largest error you accept.")] = 1e-3,
    construction: Annotated[str, typer.Option(help="A name, or auto: the smallest that reaches tol.")] = "auto",
    dtype: Annotated[DType, typer.Option(help="What the network runs in.")] = DType.float64,
    max_anchors: Annotated[int | None, typer.Option(min=1, help="Refuse rather than use more keys.")] = None,
    output: Annotated[Path | None, typer.Option("-o", "--output", metavar="FILE", help="Save the model here.")] = None,
    figure: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw it: a name ending in .png, .svg or .pdf.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Compile an expression, with a proved bound.

    The result is a network of linear maps and softmax attention only, constructed and not trained.
    """
    intervals = read_domain(domain)
    _check_tolerance(tol)
    _check_files(output, figure)
    _check_name(construction)
    with working("compiling and proving"):
        from attnforge.compiler import compile

        text = expression.removeprefix(" ")  # the mark of ExpressionCommand
        model = compile(text, intervals, tol, construction=construction, dtype=dtype.value, max_anchors=max_anchors)
        _save(model, output, figure)
    if as_json:
        print_json(model_data(model) | {"tol": tol, "file": _text(output), "figure": _text(figure)})
    else:
        show_model(model)
        _say_what_was_written(output, figure)


def _check_tolerance(tol: float) -> None:
    """What is wrong whatever the target is: usage, not a refusal."""
    if not 0 < tol < float("inf"):
        raise typer.BadParameter(f"must be a positive number. Got {tol}. Ask for 1e-3, say.", param_hint="--tol")


def _check_files(output: Path | None, figure: Path | None) -> None:
    check_destination(output, "--output")
    check_destination(figure, "--figure", FIGURES)
    if output is not None and output == figure:
        message = f"must not be the figure's file. Got {output} for both. Choose another."
        raise typer.BadParameter(message, param_hint="--output")


def _check_name(construction: str) -> None:
    from attnforge.theorems.registry import CONSTRUCTIONS

    names = ["auto", *(entry.name for entry in CONSTRUCTIONS)]
    if construction not in names:
        message = f"must be one of {', '.join(names)}. Got {construction!r}. Choose one of these."
        raise typer.BadParameter(message, param_hint="--construction")


def _save(model: Compiled, output: Path | None, figure: Path | None) -> None:
    if output is not None:
        save_model(model, output, "--output")
    if figure is not None:
        save_figure(model, figure, "--figure")


def _say_what_was_written(output: Path | None, figure: Path | None) -> None:
    written = [str(path) for path in (output, figure) if path is not None]
    if written:
        note(f"\nwrote {' and '.join(written)}")
    if output is None:
        note("\nThe model was not saved: add -o f.safetensors to keep it.", "dim")


def _text(path: Path | None) -> str | None:
    return None if path is None else str(path)
