"""An independent reading of what an export wrote: VNN-LIB as S-expressions, ONNX as arithmetic of balls."""

import operator
import re
from dataclasses import dataclass
from fractions import Fraction
from functools import reduce

import numpy as np
import onnx
from flint import arb
from onnx import numpy_helper


@dataclass(frozen=True)
class Property:
    """The names declared, and what all must hold of a counterexample."""

    inputs: list
    outputs: list
    asserted: list

    def satisfied(self, x, y):
        """Of numbers: exactly, if they are fractions. Of arrays (points, ..): at each point."""
        values = {**dict(zip(self.inputs, np.moveaxis(x, -1, 0), strict=True)),
                  **dict(zip(self.outputs, np.moveaxis(y, -1, 0), strict=True))}  # fmt: skip
        number = Fraction if np.asarray(x).dtype == object else float
        return reduce(operator.and_, (value(each, values, number) for each in self.asserted))

    def box(self):
        """Of the inputs, from the bounds that stand alone."""
        sides = {name: [None, None] for name in self.inputs}
        for relation, name, number in (each for each in self.asserted if each[0] in (">=", "<=")):
            sides[name][relation == "<="] = float(Fraction(number))
        return np.array(list(sides.values()))

    def mixed(self):
        """Whether outputs are compared with anything but numbers."""
        return any(isinstance(each[2], list) for each in comparisons(self.asserted))


def comparisons(tree):
    for each in tree:
        if isinstance(each, list) and each[0] in (">=", "<="):
            yield each
        elif isinstance(each, list):
            yield from comparisons(each)


def value(tree, values, number):
    if isinstance(tree, str):
        return values[tree] if tree in values else number(Fraction(tree))
    head, *rest = tree
    parts = [value(each, values, number) for each in rest]
    match head:
        case ">=" | "<=":
            return (operator.ge if head == ">=" else operator.le)(*parts)
        case "and" | "or":
            return reduce(operator.and_ if head == "and" else operator.or_, parts)
        case "+" | "*":
            return reduce(operator.add if head == "+" else operator.mul, parts)
    raise ValueError(head)


def read(path):
    words = re.findall(r"[()]|[^\s()]+", re.sub(r";[^\n]*", "", path.read_text()))
    stack = [[]]
    for word in words:
        if word == "(":
            stack.append([])
        elif word == ")":
            done = stack.pop()
            stack[-1].append(done)
        else:
            stack[-1].append(word)
    (statements,) = stack
    names = [name for kind, name, *_ in statements if kind == "declare-const"]
    asserted = [rest[0] for kind, *rest in statements if kind == "assert"]
    assert all(kind in ("declare-const", "assert") for kind, *_ in statements)
    return Property([n for n in names if n[0] == "X"], [n for n in names if n[0] == "Y"], asserted)


def exact(path, x):
    """The outputs of an ONNX file at one point, as balls of 200 bits."""
    graph = onnx.load(path).graph
    values = {each.name: numpy_helper.to_array(each) for each in graph.initializer}
    values = {name: balls(array) if array.dtype.kind == "f" else array for name, array in values.items()}
    values["x"] = balls(np.asarray(x)[None])
    for node in graph.node:
        (values[node.output[0]],) = (computed(node, [values[name] for name in node.input]),)
    return values["y"].ravel()


def balls(array):
    return np.vectorize(lambda number: arb(float(number)), otypes=[object])(array)


def computed(node, given):
    options = {each.name: onnx.helper.get_attribute_value(each) for each in node.attribute}
    match node.op_type:
        case "MatMul":
            return given[0] @ given[1]
        case "Add":
            return given[0] + given[1]
        case "Mul":
            return given[0] * given[1]
        case "Softmax":
            weights = np.vectorize(arb.exp, otypes=[object])(given[0] - given[0].max(axis=-1, keepdims=True))
            return weights / weights.sum(axis=-1, keepdims=True)
        case "ReduceSum":
            return given[0].sum(axis=tuple(given[1].tolist()), keepdims=True)
        case "Squeeze":
            return np.squeeze(given[0], tuple(given[1].tolist()))
        case "Unsqueeze":
            return np.expand_dims(given[0], tuple(given[1].tolist()))
        case "Concat":
            return np.concatenate(given, axis=options["axis"])
        case "Transpose":
            return np.transpose(given[0], options["perm"])
        case "Gather":
            return np.take(given[0], given[1], axis=options["axis"])
        case "Slice":
            start, stop, axis = (int(part[0]) for part in given[1:])
            return np.take(given[0], np.arange(given[0].shape[axis])[start:stop], axis=axis)
        case "Identity":
            return given[0]
    raise ValueError(node.op_type)
