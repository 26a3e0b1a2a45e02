"""``attnforge explore``: the page on which one types a function and watches attention compute it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from attnforge.cli.destination import check_destination, write
from attnforge.cli.intervals import read_domain
from attnforge.cli.options import AsJson
from attnforge.cli.screen import note, print_json, progress
from attnforge.web.extra import needed

PORT = 8642
PAGES = (".html", ".htm")

EPILOG = """\
Example:

\b
  attnforge explore          opens http://127.0.0.1:8642/ in the browser
  attnforge explore --port 0 --no-browser
  attnforge explore --export page.html --function "sin(8*x)" --domain x=-1:1

Type a function, drag anchors, heads and temperature, and see anchors, cells,
registers, attention and error move, with the certificate beside them. The server
answers to this machine alone, asks nothing of the network, and ends with Ctrl-C. It
needs fastapi and uvicorn: pip install 'attnforge[web]' (`./run explore` does it by itself)."""


def run(
    port: Annotated[int, typer.Option(min=0, max=65535, help="Where to listen on loopback; 0: any free port.")] = PORT,
    browser: Annotated[bool, typer.Option(help="Open the page in the browser.")] = True,
    export: Annotated[
        Path | None, typer.Option(metavar="PAGE", help="Write a page for lectures instead, which needs no server.")
    ] = None,
    function: Annotated[str, typer.Option(help="Of the exported page: a formula of one input.")] = "sin(8*x)",
    domain: Annotated[str, typer.Option(metavar="NAME=LOW:HIGH", help="Of that input.")] = "x=-1:1",
    as_json: AsJson = False,
) -> None:
    """Explore networks in the browser."""
    if export is not None:
        _export(export, function, domain, as_json)
        return
    from attnforge.web.serve import listening, serve

    def started(address: str) -> None:
        if as_json:
            print_json({"address": address})
        else:
            note(f"exploring at {address} (Ctrl-C ends it)")

    with listening(port) as bound:
        serve(bound, browser=browser, started=started)


def _export(place: Path, function: str, domain: str, as_json: bool) -> None:
    """The page with the answers to some positions of its controls."""
    check_destination(place, "--export", PAGES)
    intervals = read_domain([domain])
    with needed():
        from attnforge.web.export import exported
    with progress("computing the positions of the page") as tell:
        data = exported(function, intervals, tell).encode("utf-8")
    write(place, data, "--export")
    if as_json:
        print_json({"page": str(place), "bytes": len(data)})
    else:
        note(f"wrote {place}")
