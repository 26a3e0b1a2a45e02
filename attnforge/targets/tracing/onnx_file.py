"""ONNX files as they are trusted: ONNX's own operators of one opset, functions written out, types that fit."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from attnforge.errors import AttnforgeError, FileFormatError, TargetError
from attnforge.targets.tracing.arrays import check_count

MAX_BYTES = 2**26  # more weights than formulas may have nodes
EXTERNAL = 1  # the place of a tensor that lies in another file
ALIAS = "ai.onnx"  # of ONNX's own domain, whose name is empty
BROADCAST = 7  # the first opset whose arithmetic broadcasts by itself, and whose dropout is one of evaluation
ARITHMETIC = ("Add", "Sub", "Mul", "Div", "Pow", "Gemm", "Dropout")


def read_model(path: Path) -> tuple[Any, int]:
    """The model in a file, all of whose operators are ONNX's own, and their opset.

    A name means nothing without its domain: `my.Relu` is what the file's function says, and is written out, or it is
    refused. What a graph computes is decided by the opset, of which there must be one that the package onnx knows.
    """
    try:
        import onnx
        import onnx.inliner
    except ImportError:
        remedy = "Install it: pip install 'attnforge[onnx]'"
        raise FileFormatError("Reading .onnx files needs the package onnx", "none", remedy) from None
    if not path.is_file() or path.stat().st_size > MAX_BYTES:
        got = f"{path.stat().st_size:,} bytes" if path.is_file() else f"no file {path}"
        raise FileFormatError(f"An ONNX file of at most {MAX_BYTES:,} bytes is needed", got, "Check the path")
    try:
        model = _one_name(onnx.load(path, load_external_data=False))
        for tensor in model.graph.initializer:
            _check_inside(tensor)
        onnx.checker.check_model(model)
        opset = _opset(model, onnx.defs.onnx_opset_version())
        check_count(_count(model, opset))
        model = onnx.inliner.inline_local_functions(model)
        onnx.shape_inference.infer_shapes(model, check_type=True)
    except AttnforgeError:
        raise
    except Exception as error:  # protobuf has errors of its own kinds
        raise FileFormatError("The file must be a valid ONNX model", str(error)[:200], "Export it again") from error
    for node in model.graph.node:  # a function of another opset is not written out
        _check_node(node, opset)
    return model, opset


def _check_inside(tensor: Any) -> None:
    if tensor.data_location == EXTERNAL:
        raise FileFormatError("Weights must lie in the file itself", f"{tensor.name!r:.80} outside", "Export one file")


def to_array(tensor: Any) -> Any:
    """The finite numbers of a tensor."""
    from onnx import numpy_helper

    _check_inside(tensor)
    try:
        return finite(numpy_helper.to_array(tensor), tensor.name)
    except (TypeError, ValueError) as error:
        if isinstance(error, AttnforgeError):
            raise
        got = f"{tensor.name!r:.80}: {error}"[:200]
        raise FileFormatError("Weights must be as many as their shape says", got, "Export it again") from error


def finite(value: Any, name: str) -> Any:
    """Numbers as an array, where they are real and finite."""
    array = np.asarray(value)
    if array.dtype.kind not in "fiub" or not np.all(np.isfinite(array)):
        raise FileFormatError("Weights must be finite real numbers", f"{name!r:.80}", "Export it again")
    return array


def _one_name(model: Any) -> Any:
    """The model with ONNX's own domain under one of its two names."""
    for part in (model, *model.functions):
        for each in (*part.opset_import, *(part.graph if part is model else part).node):
            each.domain = "" if each.domain == ALIAS else each.domain
    return model


def _opset(model: Any, newest: int) -> int:
    versions = {each.version for each in model.opset_import if not each.domain}
    if len(versions) != 1 or max(versions) > newest:
        got = f"versions {sorted(versions)}"
        raise FileFormatError(f"ONNX's operators are of one opset, at most {newest}", got, "Export it again")
    return int(versions.pop())


def _count(model: Any, opset: int) -> int:
    """How many operators there are once functions are written out, which may be more than there is room for."""
    bodies = {(each.domain, each.name, each.overload): each.node for each in model.functions}
    if any(domain in ("", ALIAS) for domain, _, _ in bodies):
        got = f"{', '.join(name for _, name, _ in bodies)[:80]} in ONNX's own"
        raise FileFormatError("Functions in a file have domains of their own", got, "Rename their domain")
    counts: dict[tuple[str, str, str], int] = {}

    def count(nodes: Iterable[Any]) -> int:
        found = 0
        for node in nodes:
            key = (node.domain, node.op_type, node.overload)
            if key in bodies and key not in counts:
                counts[key] = 1  # in a circle, which the inliner refuses
                counts[key] = count(bodies[key])
            if key not in bodies:
                _check_node(node, opset)
            found += counts.get(key, 1)
        return found

    return count(model.graph.node)


def _check_node(node: Any, opset: int) -> None:
    """Refuse an operator that is not ONNX's own, or of an opset in which it means something else."""
    got = f"{node.domain or 'ONNX'}.{node.op_type} of the node {node.name or node.output[0]!r}"[:120]
    if node.domain:
        raise TargetError(
            "Operators are ONNX's own, or functions in the file of the same opset", got, "Export it without this domain"
        )
    if any(each.g.node or each.graphs for each in node.attribute):
        raise TargetError("A network in ONNX has no branches and loops", got, "Export a simpler one")
    if node.op_type in ARITHMETIC and opset < BROADCAST:
        raise TargetError(f"Arithmetic is of opset {BROADCAST} or later", f"{got}, opset {opset}", "Export it again")
