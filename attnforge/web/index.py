"""All jobs by name: what each takes, and how long it may run."""

from __future__ import annotations

from dataclasses import dataclass

from attnforge.web.limits import LONG, QUICK
from attnforge.web.requests import Examples, Graph, Model, Network, Patient, Plane, Sequence, Strict


@dataclass(frozen=True)
class Entry:
    """A job's request, the seconds after which its process is ended, and whether it waits until others are served."""

    request: type[Strict]
    seconds: float = QUICK
    is_long: bool = False


INDEX = {
    "line": Entry(Network),
    "comparison": Entry(Network),
    "temperature": Entry(Network, LONG, is_long=True),
    "plane": Entry(Plane),
    "in_context": Entry(Examples),
    "graph": Entry(Graph, LONG, is_long=True),
    "program": Entry(Sequence),
    "diagnosis": Entry(Patient, LONG, is_long=True),
    "certificate": Entry(Model, LONG, is_long=True),
    "download": Entry(Model, LONG, is_long=True),
}
