"""HTML that cannot be injected into: every string is escaped when it becomes a child or an attribute."""

from __future__ import annotations

import html
from dataclasses import dataclass

from attnforge.errors import printable as printable

VOID = ("br", "img", "meta")  # elements without children and without an end tag


@dataclass(frozen=True)
class Markup:
    """HTML that is complete already. Only this module makes it, from escaped parts."""

    text: str


Part = Markup | str


def element(tag: str, /, *children: Part, **attributes: str) -> Markup:
    """An element; strings among its children and attributes are shown as they are. ``class_`` writes ``class``.

    >>> element("a", "x < y", title='"').text
    '<a title="&quot;">x &lt; y</a>'
    """
    listed = "".join(f' {key.rstrip("_")}="{escaped(value)}"' for key, value in attributes.items())
    if tag in VOID:
        return Markup(f"<{tag}{listed}>")
    return Markup(f"<{tag}{listed}>{joined(*children).text}</{tag}>")


def joined(*parts: Part) -> Markup:
    """Parts one after the other."""
    return Markup("".join(part.text if isinstance(part, Markup) else escaped(part) for part in parts))


def stylesheet(rules: str) -> Markup:
    """Rules of our own, which are no user's text: they stand unescaped, as browsers read them."""
    return Markup(f"<style>{rules}</style>")


def document(*parts: Part) -> str:
    """The whole page."""
    return f"<!DOCTYPE html>\n{joined(*parts).text}\n"


def escaped(text: str) -> str:
    """Text for children and attributes alike: markup and quotes escaped, control characters spelt out."""
    return html.escape(printable(text), quote=True)
