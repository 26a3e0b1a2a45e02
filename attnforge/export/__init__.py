"""Weights where people work: one file a format, each a reader of what a network means.

``af.export.onnx(net, path)`` writes a compiled target, or a bare Network; likewise the other formats.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from attnforge.export.to_jax import jax as jax
    from attnforge.export.to_onnx import onnx as onnx
    from attnforge.export.to_torch import torch as torch

FORMATS = ("jax", "onnx", "torch")

__all__ = [*FORMATS]


def __getattr__(name: str) -> Any:
    """The function of a format, whose libraries are imported when it is first used."""
    if name == "jax":
        from attnforge.export.to_jax import jax as found
    elif name == "onnx":
        from attnforge.export.to_onnx import onnx as found
    elif name == "torch":
        from attnforge.export.to_torch import torch as found
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return found
