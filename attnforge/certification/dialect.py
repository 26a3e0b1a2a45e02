"""The JSON that certificates are written in: one published schema, by which they are read, too.

``certificate.schema.json`` beside this file is a JSON Schema (draft 2020-12). :func:`read` holds what is given to it,
by the few words of JSON Schema that it uses, so that what we take and what is published cannot differ; a test compares
that with another implementation of the standard. Numbers are float64, in hexadecimal or in decimals that read back as
the same number: :func:`written` spells them in hexadecimal.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any

from attnforge.errors import CertificateError

TYPES: dict[str, tuple[type, ...]] = {
    "null": (type(None),),
    "boolean": (bool,),
    "integer": (int,),
    "number": (int, float),
    "string": (str,),
    "array": (list,),
    "object": (dict,),
}


@cache
def schema() -> dict[str, Any]:
    """The published schema."""
    text = files("attnforge.certification").joinpath("certificate.schema.json").read_text("utf-8")
    found: dict[str, Any] = json.loads(text)
    return found


def written(data: Mapping[str, Any]) -> str:
    """A certificate as JSON, numbers in hexadecimal."""
    return json.dumps(_spelt(data), allow_nan=False)


def read(text: str, kind: str) -> dict[str, Any]:
    """The certificate of that kind that a text holds; anything else is refused, with the place and what is wrong."""
    try:
        data = json.loads(text, parse_constant=_refuse)
    except (TypeError, ValueError, RecursionError) as error:
        raise _refused(repr(error)) from error
    for problem in _problems(data, schema()["$defs"][kind], "it"):
        raise _refused(problem)
    found: dict[str, Any] = data
    return found


def number(spelt: str | float) -> float:
    """The float64 that is spelt."""
    return float.fromhex(spelt) if isinstance(spelt, str) else float(spelt)


def numbers(spelt: Mapping[str, str | float]) -> dict[str, float]:
    """Named float64s."""
    return {name: number(value) for name, value in spelt.items()}


def _refuse(word: str) -> float:
    raise ValueError(f"{word} is no JSON")


def _refused(problem: str) -> CertificateError:
    wanted = "A certificate is JSON as to_json() writes it and certificate.schema.json says"
    return CertificateError(wanted, problem[:200], "Write it with to_json()")


def _spelt(part: Any) -> Any:
    if isinstance(part, float):
        return (part + 0.0).hex()  # no negative zero, which is no size
    if isinstance(part, Mapping):
        return {name: _spelt(value) for name, value in part.items()}
    return [_spelt(each) for each in part] if isinstance(part, Sequence) and not isinstance(part, str) else part


def _problems(data: Any, rules: Any, place: str) -> Iterator[str]:
    """What the rules say against the data; the words are those of JSON Schema."""
    if "$ref" in rules:
        yield from _problems(data, schema()["$defs"][rules["$ref"].rpartition("/")[2]], place)
    if "anyOf" in rules and all(any(_problems(data, each, place)) for each in rules["anyOf"]):
        yield f"{place} is {data!r:.80}"
    if "const" in rules and not _equal(data, rules["const"]):
        yield f"{place} is {data!r:.80}, not {rules['const']!r}"
    if "enum" in rules and not any(_equal(data, each) for each in rules["enum"]):
        yield f"{place} is {data!r:.80}, none of {rules['enum']}"
    if "type" in rules and not _is(data, rules["type"]):
        yield f"{place} is {data!r:.80}, no {rules['type']}"
    if "if" in rules:
        yield from _problems(data, rules["else" if any(_problems(data, rules["if"], place)) else "then"], place)
    if isinstance(data, str):
        yield from _of_text(data, rules, place)
    elif isinstance(data, dict):
        yield from _of_object(data, rules, place)
    elif isinstance(data, list):
        yield from _of_array(data, rules, place)
    elif isinstance(data, int | float) and not rules.get("minimum", data) <= data <= rules.get("maximum", data):
        yield f"{place} is {data!r:.80}, out of range"


def _of_text(data: str, rules: Any, place: str) -> Iterator[str]:
    if "pattern" in rules and not re.search(rules["pattern"].removesuffix("$") + r"\Z", data):
        yield f"{place} is {data!r:.80}, not {rules['pattern']}"


def _of_object(data: dict[str, Any], rules: Any, place: str) -> Iterator[str]:
    known, others = rules.get("properties", {}), rules.get("additionalProperties", {})
    yield from (f"{place} has no `{name}`" for name in rules.get("required", ()) if name not in data)
    for name, value in data.items():
        if name in known:
            yield from _problems(value, known[name], f"`{name}`")
        elif others is False:
            yield f"{place} has a `{name:.40}`"
        else:
            yield from _problems(value, others, f"`{name:.40}`")


def _of_array(data: list[Any], rules: Any, place: str) -> Iterator[str]:
    if not rules.get("minItems", 0) <= len(data) <= rules.get("maxItems", len(data)):
        yield f"{place} has {len(data)} entries"
    first = rules.get("prefixItems", ())
    for i, value in enumerate(data):
        yield from _problems(value, first[i] if i < len(first) else rules.get("items", {}), f"{place}[{i}]")


def _is(data: Any, kind: str) -> bool:
    """Truths are no numbers; a number without a fraction is an integer, however it is spelt."""
    if isinstance(data, bool) or kind == "boolean":
        return isinstance(data, bool) and kind == "boolean"
    return isinstance(data, TYPES[kind]) or (kind == "integer" and isinstance(data, float) and data.is_integer())


def _equal(data: Any, wanted: Any) -> bool:
    return type(data) is type(wanted) and bool(data == wanted)
