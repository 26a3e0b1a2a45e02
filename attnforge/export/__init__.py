"""Weights where people work: one file a format, each a reader of what a network means.

``af.export.onnx(net, path)`` writes a compiled target, or a bare Network; likewise the other formats, which
:mod:`attnforge.export.registry` lists.
"""

from __future__ import annotations

from attnforge.export.formats import Writer
from attnforge.export.registry import FORMATS

__all__ = ["FORMATS"]


def __getattr__(name: str) -> Writer:
    """The function of a format, whose libraries are imported when it is first used."""
    if name not in FORMATS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}: formats are {', '.join(FORMATS)}")
    return FORMATS[name].writer


def __dir__() -> list[str]:
    return [*__all__, *FORMATS]
