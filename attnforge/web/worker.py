"""What a process of its own does: one job after the other, until its connection is closed or it is ended."""

from __future__ import annotations

import json
import re
import resource
import socket
import sys
import time
import traceback
from typing import Any

from attnforge.errors import AttnforgeError
from attnforge.web.index import INDEX
from attnforge.web.jobs import ANSWERS
from attnforge.web.limits import MEMORY
from attnforge.web.requests import Network

PAUSE = 0.1  # seconds between two reports of how far a job is


def warm() -> None:
    """Load what is loaded when first used, by answering a request: processes forked afterwards have it."""
    import torch

    torch.set_num_threads(1)  # also for the sake of forks, which no second thread survives
    for construction in ("max_affine", "tensor_grid"):
        request = {"function": "sin(3*x)", "domain": {"x": (-1, 1)}, "construction": construction, "p": 9}
        ANSWERS["line"](Network.model_validate(request), lambda fraction, text: None)


def serve(connection: socket.socket) -> None:
    """Read requests and write answers, one line of JSON each."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    with connection, connection.makefile("rwb") as stream:
        for request in stream:
            asked = json.loads(request)
            _send(stream, _answer(asked["job"], asked["request"], stream))


def _answer(name: str, request: str, stream: Any) -> dict[str, Any]:
    """The result of a job, or its error in words."""
    try:
        return {"result": ANSWERS[name](INDEX[name].request.model_validate_json(request), _Teller(stream).tell)}
    except AttnforgeError as error:
        return {"error": described(error)}
    except MemoryError:
        return {"error": {"kind": "limit", "message": "This takes more memory than a request may. Ask for less."}}
    except Exception as error:
        print(traceback.format_exc(), file=sys.stderr, flush=True)
        return {"error": {"kind": "unexpected", "message": f"A defect of attnforge: {type(error).__name__}: {error}"}}


def described(error: AttnforgeError) -> dict[str, Any]:
    """An error for the page: its parts, and the column of the formula that it points at, counted from 1."""
    column = re.search(r"\(column (\d+)\)", error.requirement)
    parts = (error.requirement, None if column else error.got and f"Got {error.got}", error.remedy)
    message = " ".join(part.strip().rstrip(".") + "." for part in parts if part)
    return {"kind": type(error).__name__, "message": message, "column": int(column[1]) if column else None}


class _Teller:
    """Who is told how far a job is, and passes it on now and then."""

    def __init__(self, stream: Any) -> None:
        self.stream, self.last = stream, time.monotonic()

    def tell(self, fraction: float, text: str) -> None:
        now = time.monotonic()
        if now - self.last >= PAUSE:
            self.last = now
            _send(self.stream, {"progress": min(max(fraction, 0.0), 1.0), "text": text})


def _send(stream: Any, message: dict[str, Any]) -> None:
    stream.write(json.dumps(message, allow_nan=False).encode("ascii") + b"\n")
    stream.flush()
