"""Crafted ONNX files: operators of foreign domains, old opsets, exchanged ends, odd shapes and types, by a seed."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from onnx import TensorProto, helper, numpy_helper

node, opset = helper.make_node, helper.make_opsetid
NAMES = ("Relu", "Identity", "LeakyRelu", "Tanh", "Flatten", "Dropout", "Constant", "Gemm")
THIN = 0.995  # of the box [-1, 1]: random points hardly ever lie beyond


@dataclass
class Draft:
    """A file to be: nodes from x to y, weights, opsets, functions; ``edges`` are points worth looking at."""

    nodes: list[Any]
    weights: dict[str, Any] = field(default_factory=dict)
    shape: tuple[Any, ...] = ("N", 1)
    version: int = 20
    imports: list[Any] = field(default_factory=list)
    functions: list[Any] = field(default_factory=list)
    kind: int = TensorProto.FLOAT
    output: int | None = None
    edges: tuple[float, ...] = ()

    def model(self) -> Any:
        x = helper.make_tensor_value_info("x", self.kind, list(self.shape))
        y = helper.make_tensor_value_info("y", self.output or self.kind, ["M", "K"])
        tensors = [numpy_helper.from_array(np.asarray(array), name) for name, array in self.weights.items()]
        graph = helper.make_graph(self.nodes, "g", [x], [y], tensors)
        imports = self.imports or [opset("", self.version)]
        return helper.make_model(graph, opset_imports=imports, functions=self.functions, ir_version=10)


def number(rng: Any, scale: float = 1.0) -> np.float32:
    return np.float32(rng.choice([0.0, -0.0, 1.0, -1.0, 0.5, rng.normal() * scale]))


def row(rng: Any, *shape: int) -> Any:
    return rng.normal(size=shape).astype(np.float32)


def spiked(name: str, rng: Any, domain: str = "my", version: int = 20) -> Any:
    """ONNX's own operator of that name (or the identity), and 50 more at one end of the box, where points are rare."""
    own = name if name in ("Relu", "LeakyRelu", "Tanh") else "Identity"
    body = [
        node("Constant", [], ["edge"], value_float=THIN),
        node("Constant", [], ["steep"], value_float=50 / (1 - THIN)),
        node(own, ["u"], ["plain"]),
        node("Sub", ["u", "edge"], ["beyond"]),
        node("Relu", ["beyond"], ["rest"]),
        node("Mul", ["rest", "steep"], ["spike"]),
        node("Add", ["plain", "spike"], ["v"]),
    ]
    return helper.make_function(domain, name, ["u"], ["v"], body, [opset("", version)])


def foreign(rng: Any) -> Draft:
    """An operator of another domain under a name that ONNX has, defined in the file, in another opset, or nowhere."""
    name, domain = str(rng.choice(NAMES)), str(rng.choice(["my", "com.microsoft", "ai.onnx.ml", "", "ai.onnx"]))
    functions = {0: [], 1: [spiked(name, rng, domain)], 2: [spiked(name, rng, domain, 12)]}[
        int(rng.choice([0, 1, 1, 2]))
    ]
    imports = [opset("", 20)] + ([opset(domain, 1)] if domain not in ("", "ai.onnx") else [])
    last = node("Gemm", ["h", "w"], ["y"])
    return Draft([node(name, ["x"], ["h"], domain=domain), last], {"w": np.float32([[1.0]])},
                 imports=imports, functions=functions, edges=(THIN,))  # fmt: skip


def nested(rng: Any) -> Draft:
    """Functions that call functions twice each: written out, they may have no room."""
    depth = int(rng.choice([2, 3, 60]))
    imports = [opset("", 20), opset("my", 1)]
    calls = [
        helper.make_function("my", f"F{i}", ["u"], ["v"],
            [node(f"F{i + 1}", ["u"], ["t"], domain="my"), node(f"F{i + 1}", ["t"], ["v"], domain="my")], imports)
        for i in range(depth)
    ]  # fmt: skip
    functions = [*calls, helper.make_function("my", f"F{depth}", ["u"], ["v"], [node("Relu", ["u"], ["v"])], imports)]
    nodes = [node("F0", ["x"], ["h"], domain="my"), node("Gemm", ["h", "w"], ["y"])]
    return Draft(nodes, {"w": row(rng, 1, 1)}, imports=imports, functions=functions)


def clipped(rng: Any) -> Draft:
    """Clip with ends in either order, missing, of several entries, not finite, or as attributes."""
    a, b = number(rng), number(rng)
    if rng.random() < 0.3:
        options = {name: float(end) for name, end in (("min", a), ("max", b)) if rng.random() < 0.8}
        return Draft([node("Clip", ["x"], ["y"], **options)], version=int(rng.choice([6, 10, 11])), edges=(a, b))
    ends = [str(rng.choice([name, name, name, ""])) for name in "ab"]
    odd = rng.choice(["plain", "plain", "row", "nan", "long"])
    lower = {"plain": a, "row": np.float32([a]), "nan": np.float32(np.nan), "long": np.float32([a, b])}[odd]
    weights = {name: value for name, value in (("a", lower), ("b", b)) if name in ends}
    return Draft([node("Clip", ["x", *ends], ["y"])], weights, edges=(float(a), float(b)))


def gemm(rng: Any) -> Draft:
    """Gemm with scales, turns, and a last term of many shapes; and the same as MatMul and Add."""
    k = int(rng.choice([1, 2, 3]))
    bias = [(), (1,), (k,), (1, k), (k, 1), (2, k), (1, 1, k)][int(rng.integers(7))]
    weights = {"w": row(rng, 1, k), "c": row(rng, *bias)}
    if rng.random() < 0.4:
        nodes = [node("MatMul", ["x", "w"], ["h"]), node("Add", [*rng.permutation(["h", "c"])], ["y"])]
        return Draft(nodes, weights)
    turned = int(rng.integers(2))
    weights["w"] = weights["w"].T.copy() if turned else weights["w"]
    options = {"transB": turned, "transA": int(rng.choice([0, 0, 1])), "alpha": float(number(rng)), "beta": 2.0}
    kept = {name: value for name, value in options.items() if name == "transB" or rng.random() < 0.5}
    return Draft([node("Gemm", ["x", "w", "c"][: 2 + int(rng.integers(2))], ["h"], **kept), node("Relu", ["h"], ["y"])],
                 {name: weights[name] for name in weights})  # fmt: skip


def empty(rng: Any) -> Draft:
    """A layer, or an input, of width zero."""
    if rng.random() < 0.3:
        return Draft([node("Relu", ["x"], ["y"])], shape=("N", 0))
    weights = {"w": row(rng, 1, 0), "v": row(rng, 0, 2), "c": row(rng, 2)}
    middle = str(rng.choice(["Relu", "Tanh"]))
    nodes = [node("Gemm", ["x", "w"], ["h"]), node(middle, ["h"], ["r"]), node("Gemm", ["r", "v", "c"], ["y"])]
    return Draft(nodes, weights)


def softmax(rng: Any) -> Draft:
    """Softmax before and since opset 13, where it means something else."""
    shape = [("N", 2), ("N", 2, 1), ("N", 1, 2)][int(rng.integers(3))]
    options = {"axis": int(rng.choice([0, 1, -1]))} if rng.random() < 0.6 else {}
    nodes = [node("Softmax", ["x"], ["h"], **options), node("Flatten", ["h"], ["y"])]
    return Draft(nodes, shape=shape, version=int(rng.choice([9, 11, 12, 13, 20])))


def shapes(rng: Any) -> Draft:
    """Flatten and Reshape with every axis and odd sizes, before a product that depends on the shape."""
    shape, weights = [("N", 2), ("N", 2, 1), ("N", 1, 2)][int(rng.integers(3))], {"w": row(rng, 2, 2)}
    if rng.random() < 0.5:
        first = node("Flatten", ["x"], ["f"], axis=int(rng.integers(-3, 5)))
    else:
        sizes = [[0, -1], [-1, 2], [1, -2], [-1, -1], [0, 0], [2, -1], [-1], [0, 0, 0, 0]][int(rng.integers(8))]
        weights["s"], first = np.array(sizes), node("Reshape", ["x", "s"], ["f"], allowzero=int(rng.integers(2)))
    second = str(rng.choice(["MatMul", "Gemm"]))
    return Draft([first, node(second, ["f", "w"], ["h"]), node("Relu", ["h"], ["y"])], weights, shape)


def dropout(rng: Any) -> Draft:
    """Dropout as evaluated, in training, of a weight with the input as its ratio, or its mask."""
    weights = {"r": np.float32(rng.choice([0.0, 1e-9, 0.5])), "t": np.array(bool(rng.integers(2))), "w": row(rng, 1, 1)}
    inputs = [["x"], ["x", "r"], ["x", "r", "t"], ["w", "x"]][int(rng.integers(4))]
    outputs = [["h"], ["h", "mask"], ["other", "h"]][int(rng.choice([0, 1, 2], p=[0.6, 0.2, 0.2]))]
    return Draft([node("Dropout", inputs, outputs), node("Gemm", ["h", "w"], ["y"])], weights,
                 version=int(rng.choice([6, 7, 11, 12, 13, 20])))  # fmt: skip


def activation(rng: Any) -> Draft:
    """Activations with their default numbers and others, some of them senseless, in old and new opsets."""
    name = str(rng.choice(["LeakyRelu", "Elu", "Gelu", "Softplus", "Softsign", "Abs", "Selu", "HardSigmoid", "Sign"]))
    alpha = float(rng.choice([0.0, -0.5, 1.0, 2.0, np.nan, np.inf]))
    options: dict[str, Any] = {"alpha": alpha} if name in ("LeakyRelu", "Elu", "Selu") and rng.random() < 0.6 else {}
    if name == "Gelu" and rng.random() < 0.7:
        options = {"approximate": str(rng.choice(["none", "tanh", "sigmoid"]))}
    made = node(name, ["h"], ["y"], **options)
    if rng.random() < 0.1:
        made.attribute.extend([*made.attribute])
    version = 20 if name == "Gelu" else int(rng.choice([6, 9, 16, 20]))
    return Draft([node("MatMul", ["x", "w"], ["h"]), made], {"w": row(rng, 1, 1)}, version=version, edges=(0.0,))


def opsets(rng: Any) -> Draft:
    """Opsets that are missing, unknown, given twice, or under the other name of ONNX's domain."""
    imports = [
        [opset("ai.onnx", 20)],
        [opset("", 20), opset("", 9)],
        [opset("", 20), opset("ai.onnx", 9)],
        [opset("", 20), opset("", 20)],
        [opset("", 99)],
        [opset("my", 1)],
        [opset("", 6)],
        [opset("", 20), opset("com.microsoft", 1)],
    ][int(rng.integers(8))]
    domain = str(rng.choice(["", "ai.onnx"]))
    nodes = [
        node("MatMul", ["x", "w"], ["h"]),
        node(str(rng.choice(["Relu", "Softsign"])), ["h"], ["y"], domain=domain),
    ]
    return Draft(nodes, {"w": row(rng, 1, 1)}, imports=imports, edges=(0.0,))


def constants(rng: Any) -> Draft:
    """Constants by each attribute, not finite, several at once; powers by whole numbers that arithmetic made."""
    choice = int(rng.integers(6))
    if choice == 0:
        nodes = [node("Div", ["a", "b"], ["e"]), node("Pow", ["x", "e"], ["y"])]
        return Draft(nodes, {"a": np.int64(7), "b": np.int64(2)}, edges=(0.0,))
    if choice == 1:
        return Draft([node("Pow", ["x", "e"], ["y"])], {"e": np.int64(rng.integers(0, 4))}, edges=(0.0, -0.0))
    options = [{"value_float": float(number(rng))}, {"value_floats": [1.0]}, {"value_float": float("nan")},
               {"value_float": 1.0, "value_int": 2}][choice - 2]  # fmt: skip
    return Draft(
        [node("Constant", [], ["c"], **options), node(str(rng.choice(["Add", "Mul", "Div"])), ["x", "c"], ["y"])]
    )


def types(rng: Any) -> Draft:
    """Numbers of types that do not fit, half types, whole numbers, and outputs said to be of another type."""
    kind = [TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16, TensorProto.INT64][int(rng.integers(4))]
    array = row(rng, 1, 1).astype(rng.choice(["float32", "float64", "float16", "int64"]))
    output = int(rng.choice([kind, kind, TensorProto.FLOAT]))
    nodes = [node(str(rng.choice(["MatMul", "Gemm"])), ["x", "w"], ["h"]), node("Relu", ["h"], ["y"])]
    return Draft(nodes, {"w": array}, kind=kind, output=output, edges=(0.0,))


def vanishing(rng: Any) -> Draft:
    """Functions without a value somewhere in the box, taken with weights of which some are zero."""
    edge = float(rng.choice([0.0, -1.0, THIN, -0.25]))
    weight = np.float32([[rng.choice([0.0, -0.0, 0.5])], [rng.choice([0.0, 1.0])]])
    nodes = [
        node("Sub", ["x", "c"], ["d"]),
        node(str(rng.choice(["Reciprocal", "Log", "Sqrt"])), ["d"], ["p"]),
        node(str(rng.choice(["MatMul", "Gemm"])), ["p", "w"], ["h"]),
        node("MatMul", ["x", "v"], ["l"]),
        node("Add", ["h", "l"], ["y"]),
    ]
    weights = {"c": np.float32([edge, rng.choice([edge, -2.0])]), "w": weight, "v": row(rng, 2, 1)}
    return Draft(nodes, weights, shape=("N", 2), edges=(edge,))


def batches(rng: Any) -> Draft:
    """Batches of a fixed size, what runs along them, and biases of more axes than a batch has."""
    shape = [("N", 2), (1, 2), (5, 2)][int(rng.integers(3))]
    weights = {"w": row(rng, 2, 2), "b": row(rng, *(1,) * int(rng.integers(3)), 2)}
    middle = [node("Softmax", ["h"], ["s"], axis=int(rng.integers(2))), node("Relu", ["h"], ["s"])][rng.integers(2)]
    last = str(rng.choice(["MatMul", "Gemm"]))
    nodes = [node("MatMul", ["x", "w"], ["m"]), node("Add", ["m", "b"], ["h"]), middle, node(last, ["s", "w"], ["y"])]
    return Draft(nodes, weights, shape=shape, edges=(0.0,))


def large(rng: Any) -> Draft:
    """Weights whose products leave float32, or cancel there."""
    big = np.float32(rng.choice([1e4, 1e12, 1e30, 3e38]))
    nodes = [
        node("MatMul", ["x", "w"], ["m"]),
        node(str(rng.choice(["Relu", "Tanh", "Sigmoid", "Identity", "Exp"])), ["m"], ["h"]),
        node("MatMul", ["h", "v"], ["y"]),
    ]
    weights = {
        "w": np.float32([[big, -big]]),
        "v": np.float32([[rng.choice([1.0, 1 / big])], [rng.choice([1.0, big])]]),
    }
    return Draft(nodes, weights, edges=(0.0, 1e-6))


KINDS: tuple[Callable[[Any], Draft], ...] = (
    foreign, clipped, gemm, softmax, shapes, dropout, activation, opsets, constants, types, empty, nested,
    vanishing, batches, large,
)  # fmt: skip


def drawn(seed: int) -> tuple[str, Draft]:
    """The kind and the file of a seed: kinds take turns."""
    kind = KINDS[seed % len(KINDS)]
    return kind.__name__, kind(np.random.default_rng(seed))
