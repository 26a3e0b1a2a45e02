"""The search: bounds close to errors, whatever limits it; what it guesses is of use, and never needed to be true."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import attnforge as af
from attnforge.effort import NORMAL, Effort, until
from attnforge.errors import CertificateError, OutOfTimeError
from attnforge.expression import parse
from attnforge.kernel.cells import Cover
from attnforge.kernel.theorem import Domain, Formulas, Output, Run, Statement
from attnforge.network import Linear, Network, Term
from attnforge.proving import cells as proving
from attnforge.proving.cells import prove_by_cells
from attnforge.proving.statements import outputs_of, statement_of, tokens_of
from tests.kernel.subjects import NAMES, largest_error, statement

CLOSE = {"gate": 12.0, "kink": 1.4}  # bfloat16 rounds by less than it may, and no point is the kink


@pytest.mark.parametrize("name", NAMES)
def test_the_bound_is_close_to_the_error(name):
    found = prove_by_cells(statement(name))
    assert found.limit is None
    assert found.theorem.bound <= proving.CLOSE_ROUNDING * found.attained
    error = largest_error(statement(name))
    assert error <= found.theorem.bound <= CLOSE.get(name, 1.1) * error


@pytest.mark.parametrize("name", NAMES)
def test_the_same_search_finds_the_same(name):
    first, second = (prove_by_cells(statement(name)).theorem for _ in range(2))
    assert first.bound == second.bound
    assert first.derivation == second.derivation


def test_a_limit_gives_a_larger_bound_that_holds():
    stated = statement("gate")
    few, many = prove_by_cells(stated, Effort(boxes=1)), prove_by_cells(stated)
    assert few.limit == "1 cells"
    assert few.theorem.bound > many.theorem.bound
    assert few.looked_at < many.looked_at


def test_time_that_is_up_before_there_is_a_bound_is_said():
    with until(1e-9), pytest.raises(OutOfTimeError):
        prove_by_cells(statement("fit"))


def test_time_that_is_up_later_leaves_the_bound_so_far(monkeypatch):
    """The cells of the grid cover the domain already."""
    stated, blocks = statement("gate"), []

    def check(what, seconds=0.0):
        blocks.append(what)
        if len(blocks) > 1:
            raise OutOfTimeError("The work must end", "no time", "Raise it")

    monkeypatch.setattr(proving, "check_time", check)
    found = prove_by_cells(stated)
    assert found.limit == proving.TIME
    assert found.theorem.bound >= largest_error(stated)


def test_progress_comes_to_its_end():
    fractions: list[float] = []
    prove_by_cells(statement("two outputs"), progress=fractions.append)
    assert fractions == sorted(fractions)
    assert fractions[-1] == 1.0


def test_the_axis_that_matters_is_cut():
    """Of a function of one of three inputs, the others are left as they are."""
    network = Network((Linear((Term(np.array([[0.0], [1.0], [0.0]])),)),), 3)
    target = Formulas((Output(0, 0, parse("y + sin(9*y)/9"), {"x": 0, "y": 1, "z": 2}),))
    stated = Statement(Run(network, "float64"), target, Domain(-np.ones((1, 3)), np.ones((1, 3))))
    found = prove_by_cells(stated)
    assert found.limit is None
    assert found.looked_at <= 2000


def test_forms_are_followed_where_network_and_formula_do():
    row = statement("row")
    form = proving._form(row, row.target.outputs[0])
    assert form is not None
    assert form[0] == 1
    assert form[1] == (-0.5, 1.0)
    across = replace(row.target.outputs[0], tree=parse("x + 2*y"), inputs={"x": 0, "y": 1})
    assert proving._form(row, across) is None


def test_outputs_along_other_forms_have_covers_of_their_own():
    network = Network((Linear((Term(np.array([[1.0, 1.0], [1.0, -1.0]])),)),), 2)
    trees = {0: "sin(x + y) - (x + y)^3/7", 1: "x - y + 1"}
    target = Formulas(tuple(Output(0, i, parse(tree), {"x": 0, "y": 1}) for i, tree in trees.items()))
    stated = Statement(Run(network, "float64"), target, Domain(-np.ones((1, 2)), np.ones((1, 2))))
    found = prove_by_cells(stated)
    assert [cover["plan"]["outputs"] for cover in found.theorem.derivation["covers"]] == [[1], [0]]
    assert largest_error(stated) <= found.theorem.bound <= 1.06 * largest_error(stated)


@pytest.mark.parametrize("hint", ["first_edges", "_last", "_far", "_form", "_table"])
def test_no_guess_is_trusted(hint, monkeypatch):
    """Guesses that are of no use make proofs longer or bounds larger."""
    stated = statement("row")
    others = {
        "first_edges": lambda *_: ((0.125,), ()),
        "_last": lambda table: np.zeros(len(table), dtype=np.bool_),
        "_far": lambda *_: 0.5,
        "_form": lambda *_: (0, (1.0, 0.25)),
        "_table": lambda stated, plan: replace(plan, degree=1),
    }
    monkeypatch.setattr(proving, hint, others[hint])
    try:
        bound = prove_by_cells(stated, replace(NORMAL, boxes=2000)).theorem.bound
    except CertificateError:
        return
    assert bound >= largest_error(stated)


def test_more_inputs_than_cells_are_cut_in_are_refused():
    network = Network((Linear((Term(np.ones((17, 1))),)),), 17)
    target = Formulas((Output(0, 0, parse("x"), {"x": 0}),))
    with pytest.raises(CertificateError):
        prove_by_cells(Statement(Run(network, "float64"), target, Domain(np.zeros((1, 17)), np.ones((1, 17)))))


def test_public_targets_become_statements():
    net = af.constructions.truncated_linear([1.0, -2.0], 0.3, -1.0, 1.0, anchors=4, domain=af.Box(-2, 2, shape=(3, 2)))
    stated = statement_of(net.network, "float64", net.target, net.domain)
    assert stated.domain.shape == (tokens_of(net.network, net.target), 2)
    assert [output.row for output in stated.target.outputs] == list(range(stated.domain.shape[0]))
    vector = af.compile(["sin(x)", "x^2"], {"x": (-1, 1)}, 1e-2)
    assert [each.feature for each in outputs_of(vector.target, 1)] == [0, 1]


def test_values_of_a_table_are_no_statement():
    with pytest.raises(CertificateError):
        list(outputs_of(af.compile((np.arange(3.0), np.arange(3.0)), tol=1e-2).target, 1))


def test_covers_record_what_the_search_cut():
    stated = statement("kink")
    found = prove_by_cells(stated)
    covers = [Cover.replayed(stated, data) for data in found.theorem.derivation["covers"]]
    assert max(cover.bound for cover in covers) == pytest.approx(found.theorem.bound, rel=1e-12)
