"""A wrong argument of any verb is refused by an error of the project's own in three parts, before anything is done."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas
import pytest
import torch

import attnforge as af
from tests.catalogue import network
from tests.refusals import refused

LINE, SQUARE = {"x": (-1, 1)}, {"x": (-1, 1), "y": (-1, 1)}
ODD: tuple[Any, ...] = (None, "no", float("nan"), float("inf"), -1, 0, 10**400, [], {}, b"x", 1j, np.nan)


def sine() -> Any:
    """One input."""
    return network("sine")


def plane() -> Any:
    """Two inputs."""
    return network("grid")


MAKE, ICL, P = af.constructions, af.in_context, af.programs
DOMAINS = (None, {}, [], "no", {"x": (1, -1)}, {"x": (0, float("nan"))}, {"x": 3}, {"y": (0, 1)}, {"x": (0,)}, 7,
           {1: (0, 1)}, [(0, 1), (0, 1), (0, 1)], {"x": (-np.inf, 1)}, {"x": ("a", "b")})  # fmt: skip
TARGETS = (None, "", "x +", "foo(x)", "x.real", "__import__('os')", 7, {}, object(), b"x", [1, 2], ("x", "y"), "z",
           lambda x: "text", lambda x: x[..., :0], torch.nn.Conv1d(1, 1, 1), (np.zeros(3), np.zeros(4)),
           "1/x", "log(x)")  # fmt: skip
POINTS = (None, "no", np.array(2.0), np.full(3, np.nan), np.full((2, 3), 0.5), {"x": 0.5}, [[["a"]]], np.array([1j]),
          object(), np.array([np.inf]))  # fmt: skip


GAPS: tuple[Callable[[], Any], ...] = (
    lambda: np.ma.masked_array([[0.5, 0.1]], [[False, True]]),
    lambda: torch.eye(2).to_sparse(),
    lambda: torch.eye(2).to_sparse_csr(),
    lambda: pandas.Series({"x": 0.5, "z": 0.85}),
)


def tried(call: Callable[..., Any], given: Any) -> dict[str, Callable[[], Any]]:
    """A call with each of these arguments, by name."""
    named = [
        f"{i}: {type(each).__name__ if ' at 0x' in repr(each) else repr(each):.40}" for i, each in enumerate(given)
    ]
    return {name: (lambda each=each: call(each)) for name, each in zip(named, given, strict=True)}


VERBS: dict[str, dict[str, Callable[[], Any]]] = {
    "compile's target": tried(lambda given: af.compile(given, LINE), TARGETS),
    "compile's domain": tried(lambda given: af.compile("sin(x)", given), DOMAINS),
    "compile's tolerance": tried(lambda given: af.compile("sin(x)", LINE, given), ODD),
    "compile's construction": tried(lambda given: af.compile("sin(x)", LINE, construction=given), ("no", "", None, 7)),
    "compile's dtype": tried(lambda given: af.compile("sin(x)", LINE, dtype=given), ("float8", "", 7, None)),
    "compile's norm": tried(lambda given: af.compile("sin(x)", LINE, norm=given), ("L2", 3, None)),
    "compile's effort": tried(lambda given: af.compile("sin(x)", LINE, effort=given), ("most", 7, [])),
    "compile's limits": {
        name: (lambda name=name, given=given: af.compile("sin(x)", LINE, **{name: given}))
        for name, given in {"max_anchors": 0, "workers": 0, "require": "sure"}.items()
    },
    "certify": {
        "nothing": lambda: af.certify(None),
        "a bare network": lambda: af.certify(sine().network),
        "another target": lambda: af.certify(sine(), "x +"),
        "a kernel": lambda: af.certify(sine(), kernel="no"),
        "an effort": lambda: af.certify(sine(), effort="no"),
        "a domain beyond": lambda: af.certify(sine().network, "sin(x)", {"x": (1, 0)}),
    },
    "measure": {
        "nothing": lambda: af.measure(None),
        "no points": lambda: af.measure(sine(), points=0),
        "a text of points": lambda: af.measure(sine(), points="many"),
        "an effort": lambda: af.measure(sine(), effort="no"),
    },
    "attack": {
        "nothing": lambda: af.attack("net", seconds=None, evaluations=10),
        "no evaluations": lambda: af.attack(sine(), seconds=None, evaluations=0),
    },
    "diagnose": {"nothing": lambda: af.diagnose(3), "no points": lambda: af.diagnose(sine(), points=0)},
    "optimality": {"nothing": lambda: af.optimality(None), "a graph": lambda: af.optimality(network("deep graph"))},
    "load": tried(af.load, (None, 7, "/nowhere", "/", b"x", [])),
    "check": tried(af.check, (None, 7, "/nowhere", "/", [])),
    "save": tried(lambda given: sine().save(given), (None, 7, "/nowhere/at/all", [])),
    "polish": tried(lambda given: af.polish(given), (None, "net", 3)),
    "a call of one input": tried(lambda given: sine()(given), (*POINTS[:4], *POINTS[6:], 3.0, [2.0])),
    "a call of two inputs": tried(lambda given: plane()(given), (*POINTS, [0.5], [[0.5], [0.5]], [3.0, 0.0])),
    "an array with gaps": tried(lambda given: plane()(given()), GAPS),
    "an array with gaps by name": tried(lambda given: plane()(x=given(), y=0.1), GAPS[:3]),
    "a call by names": {
        "of one missing": lambda: plane()(x=0.5),
        "of one too many": lambda: plane()(x=0.5, y=0.5, z=0.5),
        "of both ways": lambda: plane()([0.5, 0.5], x=0.5),
    },
    "a range": tried(lambda given: plane().range(given), ("no", 7, {"z": (0, 1)}, {"x": (0, 9)}, {"x": (1, 0)})),
    "other weights": tried(lambda given: sine().with_network(given), (None, "net", 3)),
    "a module": tried(lambda given: sine().module(kernel=given), ("no", 7)),
    "a box": {
        "exchanged": lambda: af.Box(1, 0),
        "not a number": lambda: af.Box(0, np.nan),
        "of two shapes": lambda: af.Box(np.zeros(2), np.ones(3)),
        "of text": lambda: af.Box("a", "b"),
    },
    "a Lipschitz constant": tried(af.Lipschitz, (-1, float("nan"), "steep", None)),
    "an effort": {
        "no points": lambda: af.Effort(points=0),
        "half a worker": lambda: af.Effort(workers=0.5),
        "no boxes": lambda: af.Effort(boxes=0),
    },
    "a formula": tried(af.formula, ("x +", "foo(x)", "", 7, None, lambda x: "a")),
    "a formula's values": {
        "another input": lambda: af.formula("x*y")(x=1.0),
        "no value": lambda: af.formula("1/x")(x=0.0),
        "no box": lambda: af.formula("1/x").enclose({"x": (-1, 1)}),
    },
    "truncated_linear": {
        "one anchor": lambda: MAKE.truncated_linear([1.0], 0, -1, 1, anchors=1),
        "ends exchanged": lambda: MAKE.truncated_linear([1.0], 0, 1, -1, anchors=4),
        "no weights": lambda: MAKE.truncated_linear([], 0, -1, 1, anchors=4),
        "a sharpness": lambda: MAKE.truncated_linear([1.0], 0, -1, 1, anchors=4, sharpness="sharp"),
    },
    "in_context": {
        "no steps": lambda: ICL.LeastSquares(steps=0, learning_rate=0.1).build(2),
        "no rate": lambda: ICL.LeastSquares(steps=2, learning_rate=-1.0).build(2),
        "no features": lambda: ICL.Ridge(steps=2, learning_rate=0.1, alpha=0.1).build(0),
        "a route": lambda: ICL.Lasso(steps=2, learning_rate=0.1, alpha=0.1, route="no").build(2),
        "examples of another width": lambda: network("zoo: lasso")(np.zeros((4, 9)), np.zeros(4)),
        "values of another length": lambda: network("zoo: lasso")(np.zeros((4, 2)), np.zeros(5)),
    },
    "programs": {
        "no vocabulary": lambda: P.compile(P.tokens, [], 3),
        "no length": lambda: P.compile(P.tokens, ["a"], 0),
        "no program": lambda: P.compile("sort", ["a"], 3),
        "an unknown token": lambda: network("zoo: sort")(["no such token"]),
        "too long": lambda: network("zoo: sort")(list(network("zoo: sort").vocabulary)[:1] * 99),
    },
    "zoo": tried(af.zoo.get, ("no", "", None, 7)),
    "export": {
        "nothing": lambda: af.export.onnx(None, "/tmp/none.onnx"),
        "a dtype": lambda: af.export.torch(sine(), "/tmp/none", dtype="float8"),
    },
    "editing": {
        "no such head": lambda: af.network.without_head(sine().network, 9, 0),
        "no such array": lambda: af.network.moved(sine().network, "layer9.head0.query", lambda array: array),
        "another shape": lambda: af.network.moved(sine().network, "layer1.head0.query", lambda array: array[:0]),
    },
}  # fmt: skip
CALLS = {f"{verb} of {given}": call for verb, table in VERBS.items() for given, call in table.items()}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", CALLS)
def test_a_wrong_argument_is_refused_in_three_parts(name):
    with refused():
        CALLS[name]()


@pytest.mark.parametrize("error", [af.DomainError("It must be so"), af.TargetError("", "this", "Do that")])
def test_an_error_without_its_parts_is_seen(error):
    with pytest.raises(AssertionError), refused():
        raise error
