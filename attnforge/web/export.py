"""The explorer as one file: a page with its scripts and the answers to some positions of its controls, for lectures.

It needs no server and asks nothing of the network: its own policy forbids it.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from attnforge.errors import TargetError
from attnforge.programs import library
from attnforge.progress import Told
from attnforge.web.index import INDEX
from attnforge.web.jobs import ANSWERS
from attnforge.web.requests import Network

STATIC = Path(__file__).resolve().parent / "static"
POLICY = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:"

# Positions of the sliders.
ANCHORS = (9, 17, 33, 65)
SHARPNESSES = (0.1, 0.25, 0.5, 1.0, 2.7, 8.0, 30.0)
GRIDS = (4, 8, 16)
HEADS, SENTINELS = (1, 2, 4, 8), (1, 2, 3)
FAULTS = ("none", "missing ghosts", "too soft", "float16")
LENGTH = 5  # tokens of the sequence of a program: the first ones of its vocabulary, there and back
TOL = 1e-6

Request = tuple[str, dict[str, Any]]


def exported(function: str, domain: dict[str, tuple[float, float]], tell: Told) -> str:
    """The page, for a function of one input; other views show their first examples."""
    try:
        Network.model_validate({"function": function, "domain": domain})
    except ValidationError as error:
        got = error.errors(include_url=False)[0]["msg"]
        raise TargetError("An exported page shows a function of one input", got, "Use x=-1:1, say") from error
    asked = list(positions(function, domain))
    answers = []
    for i, (job, request) in enumerate(asked):
        tell(i / len(asked), f"{job}: {i + 1} of {len(asked)}")
        checked = INDEX[job].request.model_validate(request)
        answers.append([job, request, ANSWERS[job](checked, lambda fraction, text: None)])
    return page(answers)


def positions(function: str, domain: dict[str, tuple[float, float]]) -> Iterator[Request]:
    """All requests that the page can answer."""
    base = {"function": function, "domain": domain, "dtype": "float64", "tol": TOL}
    for p in ANCHORS:
        yield "comparison", {**base, "p": p}
        for construction, named in (("max_affine", ("tuned", "hard")), ("tensor_grid", ("tolerance",))):
            at = {**base, "construction": construction, "p": p}
            yield "temperature", {**at, "sharpness": "tuned"}
            yield from _proved("line", ({**at, "sharpness": c} for c in (*named, *SHARPNESSES)))
    clamp = {**base, "function": "clamp(x, -1, 1)", "domain": {"x": (-1.5, 1.5)}, "p": 24, "sharpness": "tuned"}
    several = {**clamp, "construction": "multihead_truncated_linear"}
    yield from _proved("line", ({**several, "heads": heads, "sentinels": r} for heads in HEADS for r in SENTINELS))
    square = {**base, "function": "sin(3*x)*cos(2*y)", "domain": {"x": (-1, 1), "y": (-1, 1)}}
    for construction, named in (("max_affine", ("hard", "tuned")), ("tensor_grid", ("tolerance",))):
        at = {**square, "construction": construction}
        yield from _proved("plane", ({**at, "p": p, "sharpness": c} for p in GRIDS for c in named))
    yield "graph", {**square, "function": "exp(-x^2)*sin(y) + x*y"}
    yield from (("program", {"program": name, "tokens": _tokens(name)}) for name in library)
    fitted = {**base, "construction": "tensor_grid", "sharpness": 0.5}
    yield from (("diagnosis", {**fitted, "fault": fault, "p": 400 if fault == "float16" else 33}) for fault in FAULTS)
    yield "diagnosis", {**several, "fault": "shifted sentinel"}
    yield from _examples()


def _proved(kind: str, requests: Iterator[dict[str, Any]]) -> Iterator[Request]:
    """Pictures with their certificates."""
    for request in requests:
        yield kind, request
        yield "certificate", {"of": {"kind": kind, **request}}


def _tokens(name: str) -> list[str]:
    known = [str(token) for token in library[name].vocabulary]
    return [known[k % len(known)] for k in (*range(LENGTH - 2), 1, 0)]


def _examples() -> Iterator[Request]:
    """A line with some noise, fitted by every algorithm that fits lines."""
    x = [-1.0 + i / 6 for i in range(13)]
    y = [0.3 - 0.5 * at + 0.12 * (-1) ** i for i, at in enumerate(x)]
    for algorithm in ("LeastSquares", "Ridge", "Lasso", "Huber"):
        for steps in (1, 5, 20, 50):
            points = {"x": [[at] for at in x], "y": y}
            numbers = {"steps": steps, "learning_rate": 0.5, "alpha": 0.1}
            yield "in_context", {"algorithm": algorithm, **points, **numbers}


def page(answers: list[Any]) -> str:
    """The page with everything inside of it."""
    html = (STATIC / "index.html").read_text("utf-8")
    icon = base64.b64encode((STATIC / "favicon.svg").read_bytes()).decode("ascii")
    plotly = (STATIC / "vendor/plotly-cartesian.min.js").read_text("utf-8")
    data = json.dumps(answers, allow_nan=False).replace("<", "\\u003c")
    scripts = f"{_script(plotly)}{_script(f'globalThis.ATTNFORGE_ANSWERS = {data};')}{_script(bundled('main.js'))}"
    policy = f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
    style = f"<style>{(STATIC / 'style.css').read_text('utf-8')}</style>"
    replacements = {
        '<meta charset="utf-8">': f'<meta charset="utf-8">\n{policy}',
        'href="/static/favicon.svg"': f'href="data:image/svg+xml;base64,{icon}"',
        '<link rel="stylesheet" href="/static/style.css">': style,
        '<script src="/static/vendor/plotly-cartesian.min.js" defer></script>\n': "",
        '<script type="module" src="/static/main.js"></script>\n': "",
        "</body>": f"{scripts}</body>",
    }
    for old, new in replacements.items():
        if html.count(old) != 1:
            raise ValueError(f"the page must hold {old} once")
        html = html.replace(old, new)
    return html


def _script(text: str) -> str:
    """A script inside of the page; nothing in it may look like its end."""
    return "<script>" + re.sub(r"</(?=script)", r"<\\/", text, flags=re.IGNORECASE) + "</script>\n"


IMPORT = re.compile(r'^import \{ ([^}]*) \} from "([^"]*)";\n', re.MULTILINE)
EXPORT = re.compile(r"^export ((?:async )?(?:const|let|function|class) (\w+))", re.MULTILINE)


def bundled(entry: str) -> str:
    """A module and all that it imports as one plain script: a function each, in the order in which they are needed."""
    modules: dict[str, str] = {}

    def add(name: str) -> None:
        if name in modules:
            return
        text = (STATIC / name).read_text("utf-8")
        needed = [(names, _resolved(name, path)) for names, path in IMPORT.findall(text)]
        for _, other in needed:
            add(other)
        head = "".join(f"const {{ {names} }} = modules[{other!r}];\n" for names, other in needed)
        public = ", ".join(found for _, found in EXPORT.findall(text))
        body = EXPORT.sub(r"\1", IMPORT.sub("", text))
        modules[name] = f"modules[{name!r}] = (() => {{\n{head}{body}\nreturn {{ {public} }};\n}})();\n"

    add(entry)
    return '"use strict";\nconst modules = {};\n' + "".join(modules.values())


def _resolved(name: str, path: str) -> str:
    """The name below ``static/`` of what a module imports."""
    return ((STATIC / name).parent / path).resolve().relative_to(STATIC).as_posix()
