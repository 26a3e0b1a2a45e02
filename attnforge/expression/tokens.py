"""Text into tokens, and errors that point into the text."""

from __future__ import annotations

import re
from typing import NamedTuple

from attnforge.errors import TargetError
from attnforge.expression.limits import MAX_CHARACTERS

TOKEN = re.compile(
    r"[ \t\r\n]*(?:"
    r"(?P<number>(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)"
    r"|(?P<name>tokens\.mean(?![A-Za-z0-9_.])|[A-Za-z_][A-Za-z0-9_]*)"
    r"|(?P<sign>\*\*|[<>]=?|[-+*/^(),\[\]])"
    r"|(?P<end>\Z))",
    re.ASCII,
)
WINDOW = 30  # characters shown on either side of the place an error points at

REMEDIES = {
    ".": "An expression has no attributes, and a number has one decimal point",
    "=": "Give only the right-hand side",
    ";": "Give one expression",
    "'": "Names are written without quotes",
    '"': "Names are written without quotes",
    ":": "Give one expression, without `lambda` or slices",
    "|": "Write `abs(...)`",
    "_": "Names start with a letter",
    "\N{MINUS SIGN}": "Write `-`",
    "\N{MULTIPLICATION SIGN}": "Write `*`",
    "\N{MIDDLE DOT}": "Write `*`",
    "\N{SUPERSCRIPT TWO}": "Write `^2`",
    "\N{GREEK SMALL LETTER PI}": "Write `pi`",
}
ASCII_REMEDY = "Use ASCII letters, digits and + - * / ^ ( ) [ ] < > , only"


class Token(NamedTuple):
    """A piece of the text: its kind (number, name, sign or end), its characters, and where it starts."""

    kind: str
    text: str
    start: int


def tokenize(text: str, characters: int = MAX_CHARACTERS, start: int = 0, end: int | None = None) -> list[Token]:
    """The tokens of a text of at most so many characters, or of a part of it, ``end`` last; ``**`` becomes ``^``.

    >>> [token.text for token in tokenize("2*x[0]**3")]
    ['2', '*', 'x', '[', '0', ']', '^', '3', '']
    """
    if len(text) > characters:
        requirement = f"An expression may have at most {characters} characters, this one has {len(text)}"
        raise error_at(text, characters, requirement, "Shorten it, or give a callable")
    tokens: list[Token] = []
    position, last = start, len(text) if end is None else end
    while not tokens or tokens[-1].kind != "end":
        match = TOKEN.match(text, position, last)
        if match is None:
            raise _unknown_character(text, position)
        kind = str(match.lastgroup)
        tokens.append(Token(kind, "^" if match[kind] == "**" else match[kind], match.start(kind)))
        position = match.end()
    return tokens


def error_at(text: str, position: int, requirement: str, remedy: str) -> TargetError:
    """An error that shows the text around a position with a caret below it.

    Characters that do not print, or print with another width, are shown escaped.
    """
    left, right = max(0, position - WINDOW), position + WINDOW
    before = ("... " if left else "") + "".join(map(_printable, text[left:position]))
    after = "".join(map(_printable, text[position:right])) + (" ..." if right < len(text) else "")
    shown = f"\n    {before}{after}\n    {' ' * len(before)}^\n"
    return TargetError(f"{requirement} (column {position + 1})", shown, remedy)


def _unknown_character(text: str, position: int) -> TargetError:
    while text[position] in " \t\r\n":
        position += 1
    character = text[position]
    requirement = f"An expression cannot contain `{_printable(character)}`"
    return error_at(text, position, requirement, REMEDIES.get(character, ASCII_REMEDY))


def _printable(character: str) -> str:
    return character if " " <= character <= "~" else character.encode("unicode_escape").decode("ascii")
