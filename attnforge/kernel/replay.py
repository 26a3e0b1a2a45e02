"""Derivations as data: what a rule recorded becomes a theorem again, or a refusal, without any search.

A derivation is a mapping of plain fields, ``rule`` and what that rule reads. As bytes it is JSON, compressed, with keys
in order and floats in hexadecimal: the same derivation has the same bytes, and nothing is lost. It comes from anywhere;
so its length is limited before it is unpacked and before it is read, and rules check every field against its limits.
What a hostile one can reach is a large bound, or a :class:`.CertificateError`.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from attnforge.kernel import cells
from attnforge.kernel.reading import refuse
from attnforge.kernel.theorem import Data, Statement, Theorem

PACKED, PLAIN, DEPTH = 2**22, 2**24, 32  # bytes as stored and unpacked, and levels of lists, at most

RULES: Mapping[str, Callable[[Statement, Any], Theorem]] = MappingProxyType({cells.RULE: cells.replayed})


def replay(statement: Statement, derivation: Any) -> Theorem:
    """The theorem that a derivation proves about a statement."""
    rule = derivation.get("rule") if isinstance(derivation, Mapping) else None
    if not isinstance(rule, str) or rule not in RULES:
        refuse(f"A derivation ends in one of the rules {', '.join(RULES)}", rule)
    return RULES[rule](statement, derivation)


def to_bytes(derivation: Data) -> bytes:
    """The derivation as it is stored.

    >>> from_bytes(to_bytes({"rule": "cells", "edge": 0.1}))
    {'edge': 0.1, 'rule': 'cells'}
    """
    text = json.dumps(_spelt(derivation), sort_keys=True, separators=(",", ":"), allow_nan=False)
    return zlib.compress(text.encode("ascii"), 9)


def from_bytes(stored: bytes) -> dict[str, Any]:
    """The derivation that was stored; anything else is refused."""
    if len(stored) > PACKED:
        refuse(f"A derivation has at most {PACKED} bytes", len(stored))
    try:
        unpacker = zlib.decompressobj()
        text = unpacker.decompress(stored, PLAIN)
        if not unpacker.eof or unpacker.unused_data:
            refuse(f"A derivation is one stream of at most {PLAIN} bytes", f"{len(text)} and more")
        found = _read(json.loads(text.decode("ascii"), parse_float=_refused, parse_constant=_refused), DEPTH)
    except (zlib.error, ValueError, OverflowError, RecursionError) as error:
        refuse("A derivation is compressed JSON, with floats in hexadecimal", error)
    if not isinstance(found, dict):
        refuse("A derivation is a mapping", type(found).__name__)
    return found


def _spelt(value: Any) -> Any:
    """With floats as text behind a sign of equality, and other text that begins with one behind an apostrophe."""
    match value:
        case float():
            return "=" + value.hex()
        case str() if value.startswith(("=", "'")):
            return "'" + value
        case Mapping():
            return {key: _spelt(each) for key, each in value.items()}
        case list() | tuple():
            return list(map(_spelt, value))
    return value


def _read(value: Any, depth: int) -> Any:
    """The inverse."""
    if depth == 0:
        raise ValueError("too many levels")
    match value:
        case str() if value.startswith("="):
            return float.fromhex(value[1:])
        case str() if value.startswith("'"):
            return value[1:]
        case dict():
            return {key: _read(each, depth - 1) for key, each in value.items()}
        case list():
            return [_read(each, depth - 1) for each in value]
    return value


def _refused(text: str) -> Any:
    raise ValueError(f"{text[:40]} is not in hexadecimal")
