"""Networks in ONNX files as targets: the graph is run on symbols; nothing in the file is executed."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from attnforge.errors import FileFormatError, TargetError
from attnforge.targets.domain import Box
from attnforge.targets.formula import Formula
from attnforge.targets.formulas import Formulas
from attnforge.targets.relu_network import Activation, Affine, ReluNetwork, Stage
from attnforge.targets.tracing.arrays import check_count, refuse
from attnforge.targets.tracing.network import input_names, network_target
from attnforge.targets.tracing.symbol import Symbol, call
from attnforge.targets.tracing.traced import compared

MAX_BYTES = 2**26  # more weights than formulas may have nodes
FLOAT32 = 1e-4  # of the largest value: what an evaluation in float32, as files have it, may be off by
LEAK = float(np.float32(0.01))  # the slope of LeakyRelu where none is given: ONNX's numbers are float32
EXTERNAL = 1  # the place of a tensor that lies in another file


def is_onnx_file(target: Any) -> bool:
    """Whether this is the path of an ONNX file."""
    return isinstance(target, os.PathLike) and Path(target).suffix == ".onnx"


def from_onnx(
    path: str | os.PathLike[str], domain: Box, names: tuple[str, ...] | None = None
) -> ReluNetwork | Formula | Formulas:
    """The network in a file, of one input (N, d) and one output; its weights are meant exactly.

    A chain of affine maps and ReLUs is a ReluNetwork. All else becomes formulas, which are compared with ONNX's own
    evaluation at random points.
    """
    graph = _Graph(_model(Path(path)))
    if (stages := graph.stages()) is not None:
        return compared(ReluNetwork(stages, domain), graph.reference, FLOAT32)
    named = input_names(domain, names, graph.features)
    nodes = graph.run(Symbol(Symbol.variables(named).nodes[None])).nodes
    return compared(network_target(nodes, domain, named), graph.reference, FLOAT32)


class _Graph:
    """The graph of a model: one input, constants, operations in their order, one output."""

    def __init__(self, model: Any) -> None:
        self.model, self.graph = model, model.graph
        self.constants: dict[str, Any] = {tensor.name: _array(tensor) for tensor in self.graph.initializer}
        inputs = [each for each in self.graph.input if each.name not in self.constants]
        if len(inputs) != 1 or len(self.graph.output) != 1:
            got = f"{len(inputs)} inputs and {len(self.graph.output)} outputs"
            raise TargetError("A network has one input, a vector, and one output", got, "Export a part of it")
        self.input, self.output = inputs[0], self.graph.output[0].name
        sizes = [side.dim_value for side in self.input.type.tensor_type.shape.dim]  # zero is any
        self.shape = (1, *sizes[1:]) if len(sizes) > 1 else tuple(sizes)  # of one point
        self.features = math.prod(self.shape) or None

    def run(self, x: Symbol) -> Symbol:
        """What it gives for a batch of one point of symbols."""
        known: dict[str, Any] = self.constants | {self.input.name: self._shaped(x)}
        held = 0
        for node in self.graph.node:
            try:
                found = _result(node, [known[name] if name else None for name in node.input])
            except (KeyError, IndexError, TypeError, AttributeError) as error:
                got = f"{node.op_type} with {type(error).__name__}: {error}"[:200]
                raise TargetError(
                    "A network in ONNX is made of layers of vectors", got, "Export a simpler one"
                ) from error
            known[node.output[0]], held = found, held + int(np.size(getattr(found, "nodes", found)))
            check_count(held)
        result = Symbol.of(known[self.output])
        if max(result.shape, default=1) != result.nodes.size:
            refuse(f"an output of shape {result.shape}", "Export a network of one output, a vector")
        return result if len(self.shape) > 1 else result[None]

    def _shaped(self, x: Symbol) -> Symbol:
        """The inputs as the graph takes them."""
        return call("reshape", (x, self.shape)) if self.features else x

    def stages(self) -> tuple[Stage, ...] | None:
        """The layers, where every operation is an affine map or a ReLU of the one before; None where not."""
        flattens = bool(self.graph.node) and self.graph.node[0].op_type == "Flatten"
        if len(self.shape) == 1 or (len(self.shape) > 2 and not flattens):
            return None
        current, known = self.input.name, dict(self.constants)
        found: list[Stage] = []
        for node in self.graph.node:
            if node.op_type == "Constant":
                known[node.output[0]] = _result(node, [])
                continue
            others = [name for name in node.input if name != current]
            if len(others) != len(node.input) - 1 or not set(others) <= set(known):
                return None
            longer = _extended(found, node, node.input[0] == current, [known[name] for name in others])
            if longer is None:
                return None
            found, current = longer, node.output[0]
        is_network = current == self.output and any(isinstance(stage, Affine) for stage in found)
        return tuple(found) if is_network else None

    def reference(self, points: Any) -> Any:
        """What ONNX's own evaluation gives, point by point: some graphs fix the size of the batch."""
        import onnx
        from onnx.reference import ReferenceEvaluator

        evaluator = ReferenceEvaluator(self.model)
        kind = onnx.helper.tensor_dtype_to_np_dtype(self.input.type.tensor_type.elem_type)
        rows = [row.reshape(self.shape) if self.features else row[None] for row in points.astype(kind)]
        found: list[Any] = [evaluator.run(None, {self.input.name: row}) for row in rows]
        return np.stack([np.ravel(outputs[0]) for outputs in found]).astype(np.float64)


def _model(path: Path) -> Any:
    try:
        import onnx
    except ImportError:
        remedy = "Install it: pip install 'attnforge[onnx]'"
        raise FileFormatError("Reading .onnx files needs the package onnx", "none", remedy) from None
    if not path.is_file() or path.stat().st_size > MAX_BYTES:
        got = f"{path.stat().st_size:,} bytes" if path.is_file() else f"no file {path}"
        raise FileFormatError(f"An ONNX file of at most {MAX_BYTES:,} bytes is needed", got, "Check the path")
    try:
        model = onnx.load(path, load_external_data=False)
        onnx.checker.check_model(model)
    except Exception as error:  # protobuf has errors of its own kinds
        raise FileFormatError("The file must be a valid ONNX model", str(error)[:200], "Export it again") from error
    return model


def _array(tensor: Any) -> Any:
    from onnx import numpy_helper

    if tensor.data_location == EXTERNAL:
        raise FileFormatError("Weights must lie in the file itself", f"{tensor.name!r:.80} outside", "Export one file")
    array = numpy_helper.to_array(tensor)
    if array.dtype.kind not in "fiub" or not np.all(np.isfinite(array)):
        raise FileFormatError("Weights must be finite real numbers", f"{tensor.name!r:.80}", "Export it again")
    return array


def _attributes(node: Any) -> dict[str, Any]:
    from onnx import helper

    return {each.name: helper.get_attribute_value(each) for each in node.attribute}


def _result(node: Any, inputs: Sequence[Any]) -> Any:
    """What an operation gives."""
    if node.op_type == "Constant":
        return _constant(_attributes(node))
    if node.domain not in ("", "ai.onnx") or node.op_type not in OPERATIONS:
        known = ", ".join(sorted(OPERATIONS))
        raise TargetError(
            f"Operations of a network in ONNX are {known}", f"{node.op_type!r:.80}", "Export a simpler one"
        )
    return OPERATIONS[node.op_type](*inputs, **_attributes(node))


def _constant(attributes: dict[str, Any]) -> Any:
    for name, value in attributes.items():
        return _array(value) if name == "value" else np.asarray(value)
    return refuse("a constant without a value", "Export it again")


def _gemm(
    a: Any, b: Any, c: Any = None, alpha: float = 1.0, beta: float = 1.0, transA: int = 0, transB: int = 0
) -> Any:
    """Alpha a b + beta c: scales are float32 numbers, meant exactly."""
    product = call("matmul", (_turned(a, transA), _turned(b, transB)))
    scaled = call("multiply", (alpha, product))
    return scaled if c is None else call("add", (scaled, call("multiply", (beta, c))))


def _turned(x: Any, turn: int) -> Any:
    return x.T if turn else x


def _reshape(x: Any, shape: Any, allowzero: int = 0) -> Any:
    given = [int(side) for side in np.ravel(shape)]
    return call("reshape", (x, [x.shape[i] if side == 0 and not allowzero else side for i, side in enumerate(given)]))


def _dropout(x: Any, ratio: Any = None, training: Any = None, seed: Any = None) -> Any:
    if training is not None and np.any(training):
        refuse("dropout in training", "Export the network as it is evaluated")
    return x


def _elementwise(name: str) -> Callable[..., Any]:
    return lambda *inputs: call(name, inputs)


OPERATIONS: dict[str, Callable[..., Any]] = {
    **{name: _elementwise(name.lower()) for name in ("Add", "Sub", "Mul", "Div", "Pow", "Neg", "Abs", "Sqrt", "Exp")},
    **{
        name: _elementwise(name.lower()) for name in ("Log", "Sin", "Cos", "Relu", "Tanh", "Sigmoid", "Erf", "Softplus")
    },
    "Reciprocal": _elementwise("reciprocal"),
    "Softsign": _elementwise("softsign"),
    "Mish": _elementwise("mish"),
    "MatMul": lambda a, b: call("matmul", (a, b)),
    "Gemm": _gemm,
    "Clip": lambda x, lower=None, upper=None: call("clip", (x, lower, upper)),
    "LeakyRelu": lambda x, alpha=LEAK: call("leaky_relu", (x, alpha)),
    "Elu": lambda x, alpha=1.0: call("elu", (x, alpha)),
    "Gelu": lambda x, approximate=b"none": call("gelu", (x, approximate.decode())),
    "Softmax": lambda x, axis=-1: call("softmax", (x, axis)),
    "Flatten": lambda x, axis=1: call("flatten", (x, axis)),
    "Reshape": _reshape,
    "Identity": lambda x: x,
    "Dropout": _dropout,
    "Concat": lambda *parts, axis: call("concatenate", (parts, axis)),
}


def _extended(found: list[Stage], node: Any, first: bool, others: Sequence[Any]) -> list[Stage] | None:
    """The layers with an operation on (N, d), and constants, as one more of them; None where it is none."""
    options, arrays = _attributes(node), [np.asarray(each, np.float64) for each in others]
    match node.op_type, arrays:
        case (("Identity" | "Dropout"), _):
            return found
        case "Flatten", _ if options.get("axis", 1) == 1:
            return found
        case "Relu", _:
            return [*found, Activation(0.0, None)]
        case "LeakyRelu", _:
            return [*found, Activation(0.0, None, float(options.get("alpha", LEAK)))]
        case (("MatMul" | "Gemm"), [weight, *bias]) if first and weight.ndim == 2 and set(options) <= {"transB"}:
            return [*found, _affine(weight.T if options.get("transB") else weight, *bias)]
        case "Add", [bias] if found and isinstance(found[-1], Affine) and not np.any(found[-1].bias):
            return [*found[:-1], _affine(found[-1].weight, bias)]
    return None


def _affine(weight: Any, bias: Any = 0.0) -> Affine:
    return Affine(np.ascontiguousarray(weight), np.broadcast_to(np.ravel(bias), weight.shape[1]).copy())
