"""ONNX: a graph of products, softmaxes and moves, for ONNX Runtime and verifiers; dynamic batch and sequence."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np

from attnforge.errors import RefusalError
from attnforge.export.interface import Exported, exported, write_file
from attnforge.export.lowering import Program, Step, lowered

if TYPE_CHECKING:
    from attnforge.outward import DType

OPSET, IR = 18, 8  # the oldest that has all of it, so that most tools read it
LARGEST = 2**31 - 2**20  # bytes that a protocol buffer holds


def onnx(model: Any, path: str | os.PathLike[str], dtype: DType | None = None) -> None:
    """Write a compiled target, or a Network, as an ONNX model of the same shapes.

    A function of d inputs takes ``x`` (batch, d), tokens (batch, n, d); two inputs are ``X`` and ``Y``.
    """
    write_file(path, onnx_model(exported(model, dtype)))


def onnx_model(found: Exported) -> bytes:
    """The file's contents."""
    import onnx as library

    program = lowered(found.network)
    size = sum(array.nbytes for array in program.constants.values())
    if size > LARGEST:
        raise RefusalError("An ONNX file holds at most 2 GB", f"{size:,} bytes of weights", "Use the torch format")
    proto = _Graph(library, found, program).model()
    library.checker.check_model(proto)
    return bytes(proto.SerializeToString())


class _Graph:
    """The nodes of a program, one or a few a step."""

    def __init__(self, library: Any, found: Exported, program: Program) -> None:
        self.make, self.found, self.program = library.helper, found, program
        self.kind = library.TensorProto.DOUBLE if found.dtype == "float64" else library.TensorProto.FLOAT
        self.numpy = np.float64 if found.dtype == "float64" else np.float32
        self.nodes: list[Any] = []
        self.tensors = [
            library.numpy_helper.from_array(np.ascontiguousarray(array, self.numpy), name)
            for name, array in program.constants.items()
        ]
        self.from_array = library.numpy_helper.from_array

    def model(self) -> Any:
        """The whole model."""
        found, network = self.found, self.found.network
        inputs = [self._input("tokens", found.input, found.alone, network.tokens, network.features)]
        if found.context is not None and network.context is not None:
            inputs.append(self._input("context", found.context, found.told_alone, *network.context))
        for step in self.program.steps:
            self._step(step)
        out = self.program.output
        if found.alone:
            out = self._node("Squeeze", [out, self._numbers([1])], "first_token")
        if found.scalar:
            out = self._node("Squeeze", [out, self._numbers([-1])], "one_number")
        self._node("Identity", [out], "y")
        axes = ["batch", *([] if found.alone else ["rows"]), *([] if found.scalar else ["outputs"])]
        result = self.make.make_tensor_value_info("y", self.kind, axes)
        graph = self.make.make_graph(self.nodes, "attnforge", inputs, [result], self.tensors, doc_string=found.about)
        opset = [self.make.make_opsetid("", OPSET)]
        return self.make.make_model(graph, opset_imports=opset, ir_version=IR, producer_name="attnforge")

    def _input(self, state: str, name: str, alone: bool, rows: int | None, features: int) -> Any:
        """An input, and its tokens under the name that steps know."""
        axes: list[int | str] = ["batch", features] if alone else ["batch", rows or f"{name}_rows", features]
        if alone:
            self._node("Unsqueeze", [name, self._numbers([1])], state)
        elif name != state:
            self._node("Identity", [name], state)
        return self.make.make_tensor_value_info(name, self.kind, axes)

    def _step(self, step: Step) -> None:
        first, *others = step.inputs
        match step.operation:
            case "matmul":
                self._node("MatMul", step.inputs, step)
            case "rows":
                row = self._node("Unsqueeze", [first, self._numbers([-2])], f"{step.name}_row")
                product = self._node("MatMul", [row, *others], f"{step.name}_product")
                self._node("Squeeze", [product, self._numbers([-2])], step)
            case "add":
                self._node("Add", step.inputs, step)
            case "multiply":
                self._node("Mul", step.inputs, step)
            case "sum":
                self._node("ReduceSum", [first, self._numbers([-1])], step, keepdims=1)
            case "softmax":
                self._node("Softmax", [first], step, axis=-1)
            case "transpose":
                self._node("Transpose", [first], step, perm=[0, 2, 1])
            case "concat":
                self._node("Concat", step.inputs, step, axis=-1)
            case "slice":
                start, stop = step.span
                ends = [self._numbers([start]), self._numbers([2**62 if stop < 0 else stop]), self._numbers([-1])]
                self._node("Slice", [first, *ends], step)
            case "take":
                self._node("Gather", [first, self._numbers(list(step.rows))], step, axis=1)
            case "place":
                self._place(step)

    def _place(self, step: Step) -> None:
        """Rows into zeros: a product with the matrix of zeros and ones that says which goes where."""
        rows, like = step.inputs
        shape = self._node("Shape", [like], f"{step.name}_shape", start=1, end=2)
        count = self._node("Squeeze", [shape], f"{step.name}_count")
        zero, one = (self._numbers(value) for value in (0, 1))
        every = self._node("Range", [zero, count, one], f"{step.name}_every")
        column = self._node("Unsqueeze", [every, self._numbers([1])], f"{step.name}_column")
        equal = self._node("Equal", [column, self._numbers([list(step.rows)])], f"{step.name}_equal")
        matrix = self._node("Cast", [equal], f"{step.name}_matrix", to=self.kind)
        self._node("MatMul", [matrix, rows], step)

    def _node(self, kind: str, inputs: Any, output: Step | str, **attributes: Any) -> str:
        name, note = (output, "") if isinstance(output, str) else (output.name, output.note)
        self.nodes.append(self.make.make_node(kind, list(inputs), [name], name=name, doc_string=note, **attributes))
        return name

    def _numbers(self, values: Any) -> str:
        """Whole numbers as a constant of the graph."""
        name = f"whole_numbers_{len(self.tensors)}"
        self.tensors.append(self.from_array(np.array(values, dtype=np.int64), name))
        return name
