"""Networks in ONNX files as targets: the graph is run on symbols; nothing in the file is executed."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from attnforge.errors import AttnforgeError, TargetError
from attnforge.targets.comparing import compared
from attnforge.targets.domain import Box
from attnforge.targets.formula import Formula
from attnforge.targets.formulas import Formulas
from attnforge.targets.relu_network import Activation, Affine, ReluNetwork, Stage
from attnforge.targets.tracing.arrays import check_count, refuse
from attnforge.targets.tracing.network import input_names, network_target
from attnforge.targets.tracing.onnx_file import finite, read_model, to_array
from attnforge.targets.tracing.symbol import Symbol, call

FLOAT32 = 1e-4  # of the largest value: what an evaluation in float32, as files have it, may be off by
LEAK = float(np.float32(0.01))  # the slope of LeakyRelu where none is given: ONNX's numbers are float32
FLOATING = (1, 11)  # float32 and float64: of half types, ranges and roundings are not those of the numbers meant
SOFTMAX = 13  # the first opset whose softmax is one along an axis, and not of all axes from there


def is_onnx_file(target: Any) -> bool:
    """Whether this is the path of an ONNX file."""
    return isinstance(target, os.PathLike) and Path(target).suffix == ".onnx"


def from_onnx(
    path: str | os.PathLike[str], domain: Box, names: tuple[str, ...] | None = None
) -> ReluNetwork | Formula | Formulas:
    """The network in a file, of one input (N, d) and one output; its weights and operations are meant exactly.

    A chain of affine maps and ReLUs is a ReluNetwork. All else becomes formulas, which are compared with ONNX's own
    evaluation at random points.
    """
    graph = _Graph(*read_model(Path(path)))
    if (stages := graph.stages()) is not None:
        return compared(ReluNetwork(stages, domain), graph.reference, FLOAT32)
    named = input_names(domain, names, graph.features)
    nodes = graph.run(Symbol(Symbol.variables(named).nodes[None])).nodes
    return compared(network_target(nodes, domain, named), graph.reference, FLOAT32)


class _Graph:
    """The graph of a model: one input, constants, operations in their order, one output."""

    def __init__(self, model: Any, opset: int) -> None:
        self.model, self.graph, self.opset = model, model.graph, opset
        self.constants: dict[str, Any] = {tensor.name: to_array(tensor) for tensor in self.graph.initializer}
        inputs = [each for each in self.graph.input if each.name not in self.constants]
        if len(inputs) != 1 or len(self.graph.output) != 1:
            got = f"{len(inputs)} inputs and {len(self.graph.output)} outputs"
            raise TargetError("A network has one input, a vector, and one output", got, "Export a part of it")
        self.input, self.output = inputs[0], self.graph.output[0].name
        kinds = {each.type.tensor_type.elem_type for each in (self.input, self.graph.output[0])}
        if len(kinds) > 1 or not kinds <= set(FLOATING):
            raise TargetError("Input and output are of float32 or of float64", f"types {kinds}", "Export it so")
        sides = self.input.type.tensor_type.shape.dim
        sizes = [side.dim_value for side in sides]  # zero is any
        if any(side.HasField("dim_value") and not side.dim_value for side in sides[1:]):
            raise TargetError("An input has at least one feature", f"shape {sizes}", "Export a network of inputs")
        if len(sizes) > 1 and sizes[0] > 1:
            raise TargetError("A network takes points one by one", f"a batch of {sizes[0]}", "Export it with any batch")
        self.shape = (1, *sizes[1:]) if len(sizes) > 1 else tuple(sizes)  # of one point
        self.features = math.prod(self.shape) or None

    def run(self, x: Symbol) -> Symbol:
        """What it gives for a batch of one point of symbols."""
        known: dict[str, Any] = self.constants | {self.input.name: self._shaped(x)}
        held = 0
        for node in self.graph.node:
            try:
                found = _result(node, [known[name] if name else None for name in node.input], self.opset)
            except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
                if isinstance(error, AttnforgeError):
                    raise
                got = f"{node.op_type} with {type(error).__name__}: {error}"[:200]
                raise TargetError(
                    "A network in ONNX is made of layers of vectors", got, "Export a simpler one"
                ) from error
            known[node.output[0]], held = found, held + int(np.size(getattr(found, "nodes", found)))
            check_count(held)
        if self.output not in known:
            refuse(f"the output {self.output!r:.80}", "Export a network of one output, a vector")
        result = Symbol.of(known[self.output])
        points = len(self.shape) > 1 and result.ndim == 1 and result.nodes.size > 1  # more than the one given
        if points or max(result.shape, default=1) != result.nodes.size:
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
        rank = 2  # biases of more axes than two give more to all that follows
        for node in self.graph.node:
            if node.op_type == "Constant":
                known[node.output[0]] = _result(node, [], self.opset)
                continue
            others = [name for name in node.input if name != current]
            if len(others) != len(node.input) - 1 or not set(others) <= set(known):
                return None
            rank = max([rank, *(np.ndim(known[name]) for name in others)])
            longer = _extended(found, node, node.input[0] == current, [known[name] for name in others])
            if longer is None or (node.op_type == "Gemm" and rank > 2):
                return None
            found, current = longer, node.output[0]
        is_network = current == self.output and any(isinstance(stage, Affine) for stage in found)
        return tuple(found) if is_network else None

    def reference(self, points: Any) -> Any:
        """What ONNX's own evaluation gives, point by point: some graphs fix the size of the batch."""
        import onnx
        from onnx.reference import ReferenceEvaluator

        kind = onnx.helper.tensor_dtype_to_np_dtype(self.input.type.tensor_type.elem_type)
        rows = [row.reshape(self.shape) if self.features else row[None] for row in points.astype(kind)]
        try:
            evaluator = ReferenceEvaluator(self.model)
            with np.errstate(all="ignore"):  # what has no value there is compared, too
                found: list[Any] = [evaluator.run(None, {self.input.name: row}) for row in rows]
            return np.stack([np.ravel(outputs[0]) for outputs in found]).astype(np.float64)
        except Exception as error:  # operators have errors of their own kinds
            got = f"{type(error).__name__}: {error}"[:200]
            raise TargetError("ONNX's own evaluation must take a point", got, "Export it again") from error


def _attributes(node: Any) -> dict[str, Any]:
    from onnx import helper

    found = {each.name: helper.get_attribute_value(each) for each in node.attribute}
    if len(found) != len(node.attribute):
        refuse(f"{node.op_type} with an attribute given twice", "Export it again")
    for name, value in found.items():
        if np.asarray(value).dtype.kind == "f":
            finite(value, name)
    return found


def _result(node: Any, inputs: Sequence[Any], opset: int) -> Any:
    """What an operation gives."""
    options = _attributes(node)
    if node.op_type == "Constant":
        return _constant(options)
    if node.op_type not in OPERATIONS:
        known = ", ".join(sorted(OPERATIONS))
        raise TargetError(
            f"Operations of a network in ONNX are {known}", f"{node.op_type!r:.80}", "Export a simpler one"
        )
    if node.op_type != "Identity" and getattr(inputs[0], "dtype", None) is not None and inputs[0].dtype.kind != "f":
        refuse(f"{node.op_type} of whole numbers", "Export a network of floating point")  # 7/2 is 3 there
    if node.op_type == "Softmax" and opset < SOFTMAX:
        return _joint_softmax(*inputs, **options)
    return OPERATIONS[node.op_type](*inputs, **options)


def _constant(attributes: dict[str, Any]) -> Any:
    if len(attributes) != 1:
        refuse(f"a constant of {len(attributes)} values", "Export it again")
    ((name, value),) = attributes.items()
    return to_array(value) if name == "value" else finite(value, name)


def _joint_softmax(x: Any, axis: int = 1) -> Any:
    """Softmax before opset 13: of all axes from the given one (where ONNX's own evaluation differs, it is refused)."""
    return call("reshape", (call("softmax", (_flatten(x, axis), -1)), x.shape))


def _clip(x: Any, lower: Any = None, upper: Any = None, **older: float) -> Any:
    """min(max(x, lower), upper), which is upper where the ends are exchanged, as in ONNX Runtime."""
    ends = [older.get(name, end) for name, end in (("min", lower), ("max", upper))]  # attributes before opset 11
    sizes = [Symbol.of(end).nodes.size for end in ends if end is not None]
    exchanged = len(sizes) == 2 and not _in_order(*ends)
    if any(size != 1 for size in sizes) or (older and exchanged) or not set(older) <= {"min", "max"}:
        refuse(f"Clip with {[*older, *sizes]} as ends", "Give two numbers in order")
    if exchanged:
        return call("clip", (call("clip", (x, ends[0], None)), None, ends[1]))
    return call("clip", (x, *ends))


def _in_order(lower: Any, upper: Any) -> bool:
    """Whether two ends are numbers of which the first is not larger."""
    numbers = [isinstance(end, (float, np.ndarray)) for end in (lower, upper)]
    return all(numbers) and bool(np.all(np.asarray(lower) <= np.asarray(upper)))


def _gemm(
    a: Any, b: Any, c: Any = None, alpha: float = 1.0, beta: float = 1.0, transA: int = 0, transB: int = 0
) -> Any:
    """Alpha a b + beta c: scales are float32 numbers, meant exactly."""
    if Symbol.of(a).ndim != 2 or Symbol.of(b).ndim != 2:
        refuse("Gemm of other arrays than matrices", "Use MatMul")
    product = call("matmul", (_turned(a, transA), _turned(b, transB)))
    shape = product.shape if c is None else np.broadcast_shapes(product.shape, c.shape)
    if a.ndim != 2 or b.ndim != 2 or shape != product.shape:
        refuse(f"Gemm of shapes {a.shape}, {b.shape} into {shape}", "Export it with matrices")
    scaled = call("multiply", (alpha, product))
    return scaled if c is None else call("add", (scaled, call("multiply", (beta, c))))


def _turned(x: Any, turn: int) -> Any:
    return x.T if turn else x


def _reshape(x: Any, shape: Any, allowzero: int = 0) -> Any:
    given = [int(side) for side in np.ravel(shape)]
    if np.ndim(shape) != 1 or min(given, default=0) < -1:
        refuse(f"a reshape to {given}", "Give sizes, of which one may be -1")
    return call("reshape", (x, [x.shape[i] if side == 0 and not allowzero else side for i, side in enumerate(given)]))


def _flatten(x: Any, axis: int = 1) -> Any:
    """A matrix: axes before the given one joined, and the others."""
    if not -x.ndim <= axis <= x.ndim:
        refuse(f"Flatten from axis {axis} of shape {x.shape}", "Export it again")
    return call("reshape", (x, (math.prod(x.shape[:axis]), math.prod(x.shape[axis:]))))


def _gelu(x: Any, approximate: bytes = b"none") -> Any:
    if approximate not in (b"none", b"tanh"):
        refuse(f"Gelu approximated by {approximate!r:.80}", "Use none or tanh")
    return call("gelu", (x, approximate.decode()))


def _dropout(x: Any, ratio: Any = None, training: Any = None, seed: Any = None) -> Any:
    if isinstance(ratio, Symbol) or np.ndim(ratio):
        refuse("dropout whose ratio is not one number", "Export the network as it is evaluated")
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
    "Clip": _clip,
    "LeakyRelu": lambda x, alpha=LEAK: call("leaky_relu", (x, alpha)),
    "Elu": lambda x, alpha=1.0: call("elu", (x, alpha)),
    "Gelu": _gelu,
    "Softmax": lambda x, axis=-1: call("softmax", (x, axis)),
    "Flatten": _flatten,
    "Reshape": _reshape,
    "Identity": lambda x: x,
    "Dropout": _dropout,
    "Concat": lambda *parts, axis: call("concatenate", (parts, axis)),
}


def _extended(found: list[Stage], node: Any, first: bool, others: Sequence[Any]) -> list[Stage] | None:
    """The layers with an operation on (N, d), and constants, as one more of them; None where it is none."""
    options, arrays = _attributes(node), [np.asarray(each, np.float64) for each in others]
    if not first and node.op_type != "Add":
        return None
    match node.op_type, arrays:
        case "Dropout", [ratio, *training] if ratio.ndim or np.any(training):
            return None
        case (("Identity" | "Dropout"), _):
            return found
        case "Flatten", _ if options.get("axis", 1) == 1:
            return found
        case "Relu", _:
            return [*found, Activation(0.0, None)]
        case "LeakyRelu", _:
            return [*found, Activation(0.0, None, float(options.get("alpha", LEAK)))]
        case "Gemm", [_, bias] if bias.ndim > 2:
            return None
        case (("MatMul" | "Gemm"), [weight, *bias]) if weight.ndim == 2 and set(options) <= {"transB"}:
            return _with_affine(found, weight.T if options.get("transB") else weight, *bias)
        case "Add", [bias] if found and isinstance(found[-1], Affine) and not np.any(found[-1].bias):
            return _with_affine(found[:-1], found[-1].weight, bias)
    return None


def _with_affine(found: list[Stage], weight: Any, given: Any = 0.0) -> list[Stage] | None:
    """The layers and x W + b, where b is a row: a column would make more rows."""
    bias = np.asarray(given)
    if bias.size not in (1, weight.shape[1]) or bias.shape[-1:] not in ((), (bias.size,)):
        return None
    return [*found, _affine(weight, bias)]


def _affine(weight: Any, bias: Any) -> Affine:
    return Affine(np.ascontiguousarray(weight), np.broadcast_to(np.ravel(bias), weight.shape[1]).copy())
