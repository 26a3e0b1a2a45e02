"""``x=-1:1,y=0:2*pi`` into a domain."""

from __future__ import annotations

import re
from collections.abc import Sequence

import typer

from attnforge.cli.numbers import number_or_constant
from attnforge.errors import TargetError

Domain = dict[str, tuple[float, float]]
REMEDY = "Write --domain x=-1:1 or x=-pi:pi, and one for each variable."
COMMA = re.compile(r",(?=[^,=]*=)")  # before the next name, not between the arguments of a function


def read_domain(texts: Sequence[str]) -> Domain:
    """The intervals of all texts, in the order given, which is the order of the network's inputs.

    >>> read_domain(["x=-1:1,y=0:2*pi"])
    {'x': (-1.0, 1.0), 'y': (0.0, 6.283185307179586)}
    """
    domain: Domain = {}
    for entry in (part.strip() for text in texts for part in COMMA.split(text)):
        name, interval = _interval(entry)
        if name in domain:
            raise _wrong(f"must name each variable once. Got {name} twice. Keep one.")
        domain[name] = interval
    return domain


def _interval(entry: str) -> tuple[str, tuple[float, float]]:
    name, equals, rest = entry.partition("=")
    lower, colon, upper = rest.partition(":")
    if not (name.strip() and equals and colon):
        raise _wrong(f"must be NAME=LOWER:UPPER. Got {entry!r}. {REMEDY}")
    try:
        return name.strip(), (number_or_constant(lower), number_or_constant(upper))
    except TargetError as wrong:
        got = f"{entry!r}: {wrong.requirement[0].lower()}{wrong.requirement[1:]}"
        raise _wrong(f"must have a number on each side of the colon. Got {got}. {REMEDY}") from None


def _wrong(message: str) -> typer.BadParameter:
    return typer.BadParameter(message, param_hint="--domain")
