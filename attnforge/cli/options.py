"""Arguments that several verbs share."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

ModelFile = Annotated[Path, typer.Argument(metavar="FILE", help="A model saved by `attnforge compile -o` or net.save.")]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON object on stdout, errors included.")]


class EffortName(StrEnum):
    """How hard to search and prove."""

    low = "low"
    normal = "normal"
    high = "high"


class Status(StrEnum):
    """What a certificate must be at least."""

    proved = "proved"
    conditional = "conditional"


HowHard = Annotated[EffortName, typer.Option("--effort", help="How hard to search and to prove.")]
Timeout = Annotated[
    float | None, typer.Option(min=0.01, metavar="SECONDS", help="Then the best so far, with its honest status.")
]
Workers = Annotated[int, typer.Option(min=-1, help="Processes for long work; -1: one a processor.")]
Cluster = Annotated[
    str | None, typer.Option(metavar="ADDRESS", help="A Dask scheduler, tcp://host:8786, whose workers do it instead.")
]
Require = Annotated[Status | None, typer.Option("--require", help="Refuse a certificate that says less.")]
