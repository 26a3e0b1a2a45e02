"""What the page can ask for: one job a file, a pure function from a checked request to data for JSON.

:mod:`attnforge.web.index` lists their requests and limits; it is apart, so that the server itself does not load torch.
"""

from collections.abc import Callable
from typing import Any

from attnforge.progress import Told
from attnforge.web.jobs.certificate import certificate, download
from attnforge.web.jobs.comparison import comparison
from attnforge.web.jobs.diagnosis import diagnosis
from attnforge.web.jobs.graph import graph
from attnforge.web.jobs.in_context import in_context
from attnforge.web.jobs.line import line
from attnforge.web.jobs.plane import plane
from attnforge.web.jobs.program import program
from attnforge.web.jobs.temperature import temperature

ANSWERS: dict[str, Callable[[Any, Told], dict[str, Any]]] = {
    "certificate": certificate,
    "comparison": comparison,
    "diagnosis": diagnosis,
    "download": download,
    "graph": graph,
    "in_context": in_context,
    "line": line,
    "plane": plane,
    "program": program,
    "temperature": temperature,
}

__all__ = ["ANSWERS"]
