"""``attnforge zoo``: named networks whose function, mechanism and error are known."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from attnforge.cli.export import chosen_format
from attnforge.cli.options import AsJson
from attnforge.cli.saving import check_models, save_model, write_model
from attnforge.cli.screen import note, print_facts, print_json, print_table, say, working
from attnforge.errors import RefusalError

if TYPE_CHECKING:
    from attnforge.zoo.entry import Built

EPILOG = """\
Example:

\b
  attnforge zoo list
  attnforge zoo list --kind graph --json
  attnforge zoo get lorenz
  attnforge zoo get gravity -o gravity.safetensors
  attnforge zoo get gravity --to transformer-lens -o gravity_lens

Every network is built here and now, the same bytes every time, with its
certificate; `get` says what it computes and by which heads, who thought of
it, and who reads whom. A saved one is a model as any other: certify it, attack
it, export it."""

app = typer.Typer(
    rich_markup_mode=None,
    no_args_is_help=True,
    help="Named networks whose mechanism is known: list them, build one (both take --json).",
    short_help="Named networks whose mechanism is known.",
    epilog=EPILOG,
)


@app.command("list")
def show(
    kind: Annotated[str | None, typer.Option(help="Only those of a kind: ramp, graph, program, ...")] = None,
    as_json: AsJson = False,
) -> None:
    """List the networks: name, kind, keys, inputs, what each computes."""
    from attnforge.zoo import entries
    from attnforge.zoo.entry import COLUMNS

    found = entries.of_kind(kind)
    if as_json:
        print_json({"networks": [record.to_data() for record in found.values()]})
        return
    print_table(COLUMNS, found.rows())
    note(f"{len(found)} networks; `attnforge zoo get NAME` builds one", "dim")


@app.command("get")
def get(
    name: Annotated[str, typer.Argument(metavar="NAME", help="As `attnforge zoo list` names it.")],
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="PATH", help="Save it: .safetensors, .onnx, or what --to says."),
    ] = None,
    to: Annotated[str | None, typer.Option(metavar="FORMAT", help="Export it: see `attnforge export --help`.")] = None,
    as_json: AsJson = False,
) -> None:
    """Build a network, and say what is known of it."""
    from attnforge.zoo import entries

    record = entries.find(name)
    _check_place(output, to)
    with working(f"building {record.name}"):
        net = record.build()
    if output is not None:
        _write(net, output, to)
    certificate, graph = net.certificate, net.causal_graph()
    if as_json:
        proved = {"status": certificate.status, "bound": certificate.bound, "statement": str(certificate)}
        written = {} if output is None else {"output": str(output)}
        print_json(record.to_data() | {"certificate": proved, "causal_graph": graph.to_data()} | written)
        return
    print_facts(
        {"name": record.name} | record.facts() | {"certificate": str(certificate)}, {"certificate": "bold green"}
    )
    say(f"\n{graph}")
    note(f"wrote {output}" if output is not None else "\nBuilt and not kept: -o FILE saves it.", "dim")


def _check_place(output: Path | None, to: str | None) -> None:
    """Refuse, before anything is built, what cannot be written."""
    if to is None:
        check_models(output, "--output", "float64")
    elif output is None:
        message = f"needs a place. Got --to {to!r:.20} alone. Add -o PATH."
        raise typer.BadParameter(message, param_hint="--to")
    else:
        chosen_format(to).require()


def _write(net: Built, output: Path, to: str | None) -> None:
    if to is not None:
        write_model(partial(chosen_format(to).writer, net), output, "--output")
        return
    model: Any = net
    if not hasattr(model, "save"):
        remedy = "Export its weights, --to transformer-lens say, or take attnforge.zoo.get(name) in Python"
        raise RefusalError("A model file holds data alone", "a program, which holds Python functions", remedy)
    save_model(model, output, "--output")
