"""Settings of an experiment: typed, with a quick variant, from TOML and from flags."""

from __future__ import annotations

import json
import math
import tomllib
from collections.abc import Mapping
from dataclasses import MISSING, Field, dataclass, field, fields
from pathlib import Path
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from attnforge.errors import TargetError

S = TypeVar("S", bound="Settings")
KINDS: dict[type, tuple[str, str]] = {  # one of a kind, and many
    int: ("a whole number", "whole numbers"),
    float: ("a number", "numbers"),
    str: ("a text", "texts"),
    bool: ("true or false", "truths"),
}


def setting(default: Any, quick: Any = MISSING, *, explain: str, least: int = 1) -> Any:
    """A field of settings: its value in a full run, in a quick one where that differs, and a line of explanation.

    Whole numbers are counts: they are refused below ``least``.
    """
    quick = default if quick is MISSING else quick
    return field(default=default, metadata={"quick": quick, "explain": explain, "least": least})


@dataclass(frozen=True)
class Settings:
    """What an experiment can be told. Subclasses add fields made by :func:`setting`: numbers, texts, tuples of them."""

    seed: int = setting(0, explain="Of everything random.", least=0)


def quick(kind: type[S]) -> S:
    """The settings of a quick run."""
    return kind(**{each.name: each.metadata["quick"] for each in fields(kind)})


def explained(kind: type[Settings]) -> list[tuple[Field[Any], Any]]:
    """Every field with its type, in order, the seed last."""
    hints = get_type_hints(kind)
    first, *rest = fields(kind)
    return [(each, hints[each.name]) for each in (*rest, first)]


def read_settings(path: Path) -> dict[str, Mapping[str, Any]]:
    """The sections of a TOML file, one an experiment; ``seed`` may also stand above all sections, for all of them."""
    try:
        found = tomllib.loads(path.read_text("utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise TargetError("Settings must be a readable TOML file", f"{path}: {error}", "Correct the file") from error
    loose = [name for name, value in found.items() if not isinstance(value, Mapping) and name != "seed"]
    if loose:
        requirement = "Settings stand in a section named after their experiment, such as [rate-anchors]"
        raise TargetError(requirement, f"{', '.join(loose)} outside of one", "Move them into a section")
    sections = {name: value for name, value in found.items() if isinstance(value, Mapping)}
    if "seed" not in found:
        return sections
    return {"": {"seed": found["seed"]}, **sections}


def changed(settings: S, given: Mapping[str, Any]) -> S:
    """The settings with some of them replaced, each checked against its type; lists become tuples.

    Names may be written with dashes, as in flags.
    """
    kinds = {each.name: kind for each, kind in explained(type(settings))}
    least = {each.name: each.metadata["least"] for each, _ in explained(type(settings))}
    values = {each: getattr(settings, each) for each in kinds}
    for name, value in given.items():
        plain = name.replace("-", "_")
        if plain not in kinds:
            raise TargetError(f"The settings are {', '.join(kinds)}", f"`{name}`", "Use one of these")
        values[plain] = _checked(plain, kinds[plain], value)
        _counted(plain, values[plain], least[plain])
    return type(settings)(**values)


def parsed(name: str, kind: Any, text: str) -> Any:
    """A value from the text of a flag; several are separated by commas, those in parentheses apart.

    >>> parsed("anchors", tuple[int, ...], "10,20")
    (10, 20)
    >>> parsed("targets", tuple[str, ...], "sin(x),max(x, min(0, 1))")
    ('sin(x)', 'max(x, min(0, 1))')
    """
    if get_origin(kind) is tuple:
        parts = [part.strip() for part in _split(text) if part.strip()]
        return _checked(name, kind, [_scalar(get_args(kind)[0], part) for part in parts])
    return _checked(name, kind, _scalar(kind, text.strip()))


def to_toml(name: str, settings: Settings) -> str:
    """The settings as a section of a TOML file, which writes numbers, texts and lists of them as JSON does.

    >>> print(to_toml("selection", Settings(seed=3)), end="")
    [selection]
    seed = 3
    """
    lines = [f"{each.name} = {json.dumps(getattr(settings, each.name))}" for each, _ in explained(type(settings))]
    return "\n".join([f"[{name}]", *lines]) + "\n"


def _split(text: str) -> list[str]:
    """The text at its commas outside of parentheses."""
    parts, depth = [""], 0
    for letter in text:
        depth += (letter == "(") - (letter == ")")
        if letter == "," and depth <= 0:
            parts.append("")
        else:
            parts[-1] += letter
    return parts


def _scalar(kind: type, text: str) -> Any:
    """The text as a value of the kind where it can be read as one; else the text itself, which is then refused."""
    if kind is bool:
        return {"true": True, "false": False}.get(text.lower(), text)
    try:
        return kind(text)
    except ValueError:
        return text


def _checked(name: str, kind: Any, value: Any) -> Any:
    if get_origin(kind) is tuple:
        of = get_args(kind)[0]
        if not isinstance(value, list | tuple) or not value:
            raise TargetError(f"`{name}` must be a list of {KINDS[of][1]}, not empty", repr(value), "Name some")
        return tuple(_one(name, of, each) for each in value)
    return _one(name, kind, value)


def _one(name: str, kind: type, value: Any) -> Any:
    fits = isinstance(value, int | float if kind is float else kind) and (kind is bool) == isinstance(value, bool)
    if not fits or (kind is float and not math.isfinite(value)):
        raise TargetError(f"`{name}` must be {KINDS[kind][0]}", repr(value), "Correct it")
    return kind(value)


def _counted(name: str, value: Any, least: int) -> None:
    for each in value if isinstance(value, tuple) else (value,):
        if isinstance(each, int) and not isinstance(each, bool) and each < least:
            raise TargetError(f"`{name}` must be at least {least}", str(each), "Ask for more")
