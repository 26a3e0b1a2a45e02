"""``x=-1:1,y=0:2`` into a domain."""

from __future__ import annotations

from collections.abc import Sequence

import typer

from attnforge.cli.numbers import number

Domain = dict[str, tuple[float, float]]
REMEDY = "Write --domain x=-1:1, and one for each variable."


def read_domain(texts: Sequence[str]) -> Domain:
    """The intervals of all texts, in the order given, which is the order of the network's inputs.

    >>> read_domain(["x=-1:1,y=0:2"])
    {'x': (-1.0, 1.0), 'y': (0.0, 2.0)}
    """
    domain: Domain = {}
    for entry in (part.strip() for text in texts for part in text.split(",")):
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
        return name.strip(), (number(lower), number(upper))
    except ValueError:
        raise _wrong(f"must have a number on each side of the colon. Got {entry!r}. {REMEDY}") from None


def _wrong(message: str) -> typer.BadParameter:
    return typer.BadParameter(message, param_hint="--domain")
