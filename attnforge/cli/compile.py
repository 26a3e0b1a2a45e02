"""``attnforge compile``: from a formula, or a table of points and values, to certified weights."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from attnforge.cli.destination import check_destination
from attnforge.cli.intervals import Domain, read_domain
from attnforge.cli.model import model_data, show_model
from attnforge.cli.numbers import number_or_constant
from attnforge.cli.options import AsJson, Cluster, EffortName, HowHard, Require, Timeout, Workers
from attnforge.cli.saving import FIGURES, check_models, save_figure, save_model
from attnforge.cli.screen import note, print_json, progress

if TYPE_CHECKING:
    from attnforge import Compiled
    from attnforge.targets.table import Table

EPILOG = """\
Example:

\b
  attnforge compile "clamp(2*x + 0.3*y - 1, -1, 1)" \\
      --domain x=-1:1,y=0:2 --tol 1e-6 -o f.safetensors --figure f.png
  attnforge compile "sin(x)" "cos(x)" --domain x=-pi:pi -o g.safetensors
  attnforge compile --table data.csv --inputs x,y --outputs z \\
      --tol 1e-3 -o f.safetensors

A proved bound holds at every point of the domain, rounding in the chosen dtype included; of a table, the error at its
points is stated. `attnforge constructions` lists
what can be built; a target that none of them takes is refused with the reasons."""


class DType(StrEnum):
    """What the network runs in."""

    float64 = "float64"
    float32 = "float32"
    bfloat16 = "bfloat16"
    float16 = "float16"


def run(
    expressions: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="EXPR...",
            help='The function, in quotes: "clamp(2*x - 0.5, -1, 1)"; several, one an output; or a file net.onnx.',
        ),
    ] = None,
    domain: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=LOWER:UPPER", help="Where it must hold, x=-1:1 or x=-pi:pi. Repeat it, or separate by commas."
        ),
    ] = None,
    table: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Points and values instead of EXPR: .csv, .npy, .parquet, or - for stdin."),
    ] = None,
    inputs: Annotated[
        str | None, typer.Option(metavar="A,B", help="Columns of the table: its inputs. All but the outputs.")
    ] = None,
    outputs: Annotated[
        str | None, typer.Option(metavar="A,B", help="Columns of the table: its values. The last one.")
    ] = None,
    tol: Annotated[float, typer.Option(help="The largest error you accept.")] = 1e-3,
    construction: Annotated[str, typer.Option(help="A name, or auto: the smallest that reaches tol.")] = "auto",
    dtype: Annotated[DType, typer.Option(help="What the network runs in.")] = DType.float64,
    max_anchors: Annotated[int | None, typer.Option(min=1, help="Refuse rather than use more keys.")] = None,
    effort: HowHard = EffortName.normal,
    timeout: Timeout = None,
    workers: Workers = 1,
    cluster: Cluster = None,
    require: Require = None,
    polish: Annotated[bool, typer.Option(help="Minimise the sup error of a fitted head over its values.")] = False,
    given: Annotated[
        list[str] | None,
        typer.Option(metavar="MEANS=LOW:HIGH", help="A condition on means over tokens; one end may be left out."),
    ] = None,
    query: Annotated[str | None, typer.Option(metavar="A,B", help="Names of the query that only means have.")] = None,
    tokens: Annotated[int | None, typer.Option(min=1, help="The most of a prompt. A million, unless given.")] = None,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="FILE", help="Save it: .safetensors, or .onnx.")
    ] = None,
    figure: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw it: a name ending in .png, .svg or .pdf.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Compile an expression or a table, with a certificate.

    The result is a network of linear maps and softmax attention only, constructed and not trained.
    """
    read = _reader(expressions or [], domain, table, (inputs, outputs))
    _check_tolerance(tol)
    _check_files(output, figure, dtype)
    _check_name(construction)
    with progress("compiling and proving") as advance:
        from attnforge.compiler import compile

        target, where = read()
        model = compile(
            target,
            where,
            tol,
            construction=construction,
            dtype=dtype.value,
            max_anchors=max_anchors,
            effort=effort.value,
            timeout=timeout,
            workers=workers,
            cluster=cluster,
            require=None if require is None else require.value,
            polish=polish,
            progress=advance,
            given=_conditions(given),
            query=None if query is None else query.split(","),
            tokens=tokens,
        )
        _save(model, output, figure)
    if as_json:
        print_json(model_data(model) | {"tol": tol, "file": _text(output), "figure": _text(figure)})
    else:
        show_model(model)
        _say_what_was_written(output, figure)


def _conditions(given: list[str] | None) -> dict[str, tuple[float | None, float | None]] | None:
    """Conditions on means, as compile takes them."""
    found = {}
    for each in given or ():
        text, _, ends = each.rpartition("=")
        pair = [end.strip() for end in ends.split(":")]
        try:
            low, high = (number_or_constant(end) if end else None for end in pair)
        except ValueError:
            message = f"A condition is MEANS=LOW:HIGH. Got {each!r:.80}. Write 'tokens.mean(x^2)=0.1:'."
            raise typer.BadParameter(message, param_hint="--given") from None
        found[text.strip()] = low, high
    return found or None


def _reader(
    expressions: list[str], domain: list[str] | None, table: Path | None, columns: tuple[str | None, str | None]
) -> Callable[[], tuple[Any, Domain | None]]:
    """What gives the target and its domain: the texts and their intervals, or the table's file; exactly one of them."""
    if (not expressions) == (table is None):
        got = "Missing argument 'EXPR'" if table is None else f"Got both EXPR and --table {table}"
        raise typer.BadParameter(f"{got}. Give a function in quotes, or --table FILE.", param_hint="EXPR")
    if table is not None:
        return lambda: (_read_table(table, domain, columns), None)
    if columns != (None, None):
        raise typer.BadParameter(
            "choose columns of a table. Got EXPR. Leave them out.", param_hint="--inputs, --outputs"
        )
    if not domain:
        message = "Missing option '--domain'. Write --domain x=-1:1, and one for each variable."
        raise typer.BadParameter(message, param_hint="--domain")
    texts, intervals = [text.removeprefix(" ") for text in expressions], read_domain(domain)  # a blank: a mark, of `-x`
    if len(texts) > 1:
        return lambda: (texts, intervals)
    return lambda: (Path(texts[0]) if texts[0].endswith(".onnx") else texts[0], intervals)


def _read_table(path: Path, domain: list[str] | None, columns: tuple[str | None, str | None]) -> Table:
    """The table of a file; a domain, if given, must be the bounding box of its points."""
    from attnforge.cli.table_files import read_table
    from attnforge.targets.table import as_table

    chosen = [None if text is None else [name.strip() for name in text.split(",")] for text in columns]
    points, values, names = read_table(path, *chosen)
    return as_table((points, values), read_domain(domain) if domain else None, names)


def _check_tolerance(tol: float) -> None:
    """What is wrong whatever the target is: usage, not a refusal."""
    if not 0 < tol < float("inf"):
        raise typer.BadParameter(f"must be a positive number. Got {tol}. Ask for 1e-3, say.", param_hint="--tol")


def _check_files(output: Path | None, figure: Path | None, dtype: DType) -> None:
    check_models(output, "--output", dtype.value)
    check_destination(figure, "--figure", FIGURES)


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
