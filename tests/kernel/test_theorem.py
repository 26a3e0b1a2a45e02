"""Theorems are made by the rules of the kernel alone, do not change, and say what they rest on."""

from __future__ import annotations

import ast
import copy
import pickle
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from attnforge.errors import CertificateError, RefusalError
from attnforge.expression import parse
from attnforge.kernel import theorem as kernel
from attnforge.kernel.cells import Cover, cells
from attnforge.kernel.plan import Plan
from attnforge.kernel.theorem import Domain, Formulas, Output, Run, Statement, Theorem, arithmetic
from attnforge.network import Linear, Network, Term
from tests.kernel.subjects import statement

UNIT = Domain(np.zeros((1, 1)), np.ones((1, 1)))


def tripled(dtype="float64", domain=UNIT, tree="3*x + 1", row=0, feature=0, inputs=(("x", 0),)) -> Statement:
    """3 x against 3 x + 1, on [0, 1]: the error is 1, and a rounding."""
    network = Network((Linear((Term(np.array([[3.0]])),)),), 1)
    return Statement(Run(network, dtype), Formulas((Output(row, feature, parse(tree), dict(inputs)),)), domain)


def proved(stated: Statement) -> Theorem:
    inputs = stated.inputs
    return cells(stated, [Cover(stated, Plan((0,), ((),) * inputs, 2))])


@pytest.fixture(scope="module")
def theorem() -> Theorem:
    return proved(tripled())


def test_a_theorem_says_what_it_rests_on(theorem):
    assert theorem.hypotheses == (arithmetic("float64"),)
    assert theorem.status == "proved"
    assert 1.0 <= theorem.bound <= 1.0 + 1e-13
    assert sum(theorem.parts.values()) <= theorem.bound
    assert list(theorem.parts) == ["exact", "rounding"]


def test_what_is_given_makes_it_conditional(theorem):
    given = kernel.concluded(theorem.statement, 1.5, "toy", {"toy": 1.5}, {}, ("the target is Lipschitz",))
    assert given.status == "conditional"


def test_nobody_else_makes_one(theorem):
    fields = (theorem.statement, 0.0, "cells", theorem.hypotheses, {}, {})
    ways = [
        lambda: Theorem(*fields, object()),
        lambda: Theorem(*fields, None),
        lambda: Theorem(*fields),
        lambda: replace(theorem, bound=0.0),
        lambda: type("Forged", (Theorem,), {}),
        lambda: copy.copy(theorem),
        lambda: copy.deepcopy(theorem),
        lambda: pickle.dumps(theorem),
    ]
    for way in ways:
        with pytest.raises((CertificateError, TypeError, ValueError)):
            way()


def test_none_changes(theorem):
    for name in (*Theorem.__slots__, "status", "new"):
        with pytest.raises((AttributeError, TypeError)):
            setattr(theorem, name, 0.0)
    with pytest.raises(TypeError):
        theorem.parts["exact"] = 0.0
    with pytest.raises(ValueError, match="read-only"):
        theorem.statement.domain.upper[0, 0] = 0.5
    with pytest.raises(TypeError):
        theorem.statement.target.outputs[0].inputs["x"] = 1


@pytest.mark.parametrize("bound", [-1.0, np.inf, np.nan])
def test_a_bound_is_finite_and_not_negative(theorem, bound):
    with pytest.raises(CertificateError):
        kernel.concluded(theorem.statement, bound, "toy", {"toy": 0.0}, {})


@pytest.mark.parametrize("parts", [{"a": 1.0, "b": 2.0**-60}, {"a": -1.0, "b": 2.0}])
def test_parts_add_up_to_no_more_than_the_bound(theorem, parts):
    with pytest.raises(CertificateError):
        kernel.concluded(theorem.statement, 1.0, "toy", parts, {})


def test_only_the_kernel_concludes():
    """The one door is named in the kernel alone, and so is what opens it."""
    root = Path(kernel.__file__).parents[1]
    names = {"concluded", "_KEY"}
    for path in root.rglob("*.py"):
        if path.parent.name == "kernel":
            continue
        tree = ast.parse(path.read_text("utf-8"))
        imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for alias in node.names
                    if (node.module or "").startswith("attnforge.kernel")}  # fmt: skip
        used = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
        assert not names & (imported | used), path


@pytest.mark.parametrize(
    "how",
    [
        {"row": -1}, {"feature": -1}, {"inputs": (("x", 1),)}, {"inputs": (("x", -1),)}, {"inputs": ()},
        {"tree": "3*x + y"}, {"domain": Domain(np.zeros((1, 2)), np.ones((1, 2)))},
    ],
    ids=str,
)  # fmt: skip
def test_statements_are_about_the_networks_inputs(how):
    with pytest.raises(CertificateError):
        tripled(**how)


def test_a_statement_compares_something():
    with pytest.raises(CertificateError):
        Statement(tripled().run, Formulas(()), UNIT)


@pytest.mark.parametrize("how", [{"tokens": 2}, {"context": (None, 1)}, {"features": 2}], ids=str)
def test_statements_are_about_one_input_that_the_network_takes(how):
    features = how.pop("features", 1)
    network = Network((Linear((Term(np.ones((features, 1))),)),), features, **how)
    with pytest.raises(CertificateError):
        Statement(Run(network, "float64"), tripled().target, UNIT)


@pytest.mark.parametrize("how", [{"row": 1}, {"feature": 1}], ids=str)
def test_no_theorem_speaks_of_outputs_that_are_not_there(how):
    with pytest.raises(CertificateError):
        proved(tripled(**how))


@pytest.mark.parametrize(
    ("lower", "upper"),
    [([[1.0]], [[0.0]]), ([[0.0]], [[np.nan]]), ([[-np.inf]], [[0.0]]), ([0.0], [1.0]), ([[0.0]], [[0.0, 1.0]])],
)
def test_domains_are_boxes(lower, upper):
    with pytest.raises(CertificateError):
        Domain(np.array(lower), np.array(upper))


def test_a_run_is_of_the_weights_as_the_dtype_holds_them():
    network = Network((Linear((Term(np.array([[0.1]])),)),), 1)
    target = Formulas((Output(0, 0, parse("0.1*x"), {"x": 0}),))
    bounds = {dtype: proved(Statement(Run(network, dtype), target, UNIT)).bound for dtype in ("float64", "bfloat16")}
    assert bounds["float64"] < 1e-15
    assert bounds["bfloat16"] >= abs(0.10009765625 - 0.1)
    with pytest.raises(RefusalError):
        proved(tripled(dtype="float8"))


@pytest.mark.parametrize(("dtype", "weight"), [("float32", 1.0 + 2.0**-25), ("bfloat16", 1.0 + 2.0**-9)])
def test_networks_with_the_same_held_weights_have_the_same_theorem(dtype, weight):
    def bound(entry):
        network = Network((Linear((Term(np.array([[entry]])),)),), 1)
        target = Formulas((Output(0, 0, parse("x"), {"x": 0}),))
        return proved(Statement(Run(network, dtype), target, UNIT)).bound

    assert bound(weight) == bound(1.0)


def test_statements_of_public_targets_compare_every_output():
    assert [(each.row, each.feature) for each in statement("row").target.outputs] == [(0, 0)]
    assert len(statement("two outputs").target.outputs) == 2
