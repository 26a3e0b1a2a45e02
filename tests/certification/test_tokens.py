"""Error bounds of linear maps against real low-precision execution and exact rational arithmetic."""

from fractions import Fraction

import numpy as np
import pytest
import torch

from attnforge.balls import MACHINES, machine, round_to
from attnforge.certification.tokens import inner, input_tokens, linear, project, whole_input
from attnforge.errors import CertificateError
from attnforge.network import Linear, Term
from attnforge.runtime.module import LinearLayer

rng = np.random.default_rng(12)


def exact(x, layer):
    """The map in rational arithmetic: (n, d) to (n', m)."""
    rows = [[Fraction(float(v)) for v in row] for row in x]
    term = layer.terms[0]
    if term.map is not None:
        maps = np.broadcast_to(term.map, (len(rows), *term.map.shape[-2:]))
        rows = [
            [sum(v * Fraction(float(p)) for v, p in zip(row, column, strict=True)) for column in each.T]
            for row, each in zip(rows, maps, strict=True)
        ]
    if term.mix is not None:
        width = range(len(rows[0]))
        rows = [[sum(int(q) * row[j] for q, row in zip(m, rows, strict=True)) for j in width] for m in term.mix]
    constant = np.broadcast_to(layer.constant, (len(rows), len(rows[0])))
    return [
        [v + Fraction(float(c)) for v, c in zip(row, line, strict=True)]
        for row, line in zip(rows, constant, strict=True)
    ]


def layers(dtype):
    shared = Linear((Term(round_to(rng.normal(size=(3, 4)), dtype)),), round_to(rng.normal(size=(1, 4)), dtype))
    each = Linear((Term(round_to(rng.normal(size=(2, 3, 4)), dtype)),), round_to(rng.normal(size=(2, 4)), dtype))
    longer = Linear(
        (Term(round_to(rng.normal(size=(2, 3, 4)), dtype), np.eye(5, 2)),), round_to(rng.normal(size=(5, 4)), dtype)
    )
    powers = Linear((Term(np.diag([1.0, 0.5, -2.0])),), np.zeros((1, 3)))
    return {"shared": shared, "each": each, "longer": longer, "powers": powers}


@pytest.mark.parametrize("dtype", MACHINES)
@pytest.mark.parametrize("kind", ["shared", "each", "longer", "powers"])
def test_error_covers_the_run_and_the_affine_form_is_exact(kind, dtype):
    layer = layers(dtype)[kind]
    lower, upper = -np.abs(rng.normal(size=(2, 3))), np.abs(rng.normal(size=(2, 3)))
    tokens = linear(layer, input_tokens(lower, upper, machine(dtype)), machine(dtype))
    module = LinearLayer(layer, getattr(torch, dtype), False)
    x = rng.uniform(lower, upper, size=(200, 2, 3))
    ran = module(torch.from_numpy(x).to(getattr(torch, dtype))).to(torch.float64).numpy()
    largest = 0.0
    for point, out in zip(x, ran, strict=True):
        wanted = exact(point, layer)
        for i, row in enumerate(wanted):
            for j, value in enumerate(row):
                gap = abs(Fraction(float(out[i, j])) - value)
                assert gap <= Fraction(float(tokens.error[i, j]))
                assert abs(value) <= Fraction(float(tokens.magnitude()[i, j]))
                largest = max(largest, float(gap) / max(tokens.error[i, j], 1e-300))
                slope, constant, read = tokens.slope.mid[i, :, j], tokens.constant.mid[i, j], point[tokens.source[i]]
                form = sum(Fraction(float(s)) * Fraction(float(v)) for s, v in zip(slope, read, strict=True))
                slack = tokens.slope.rad[i, :, j] @ np.abs(read) + tokens.constant.rad[i, j]
                assert abs(form + Fraction(float(constant)) - value) <= Fraction(float(slack) * (1 + 1e-12))
    if dtype != "float64" or kind != "powers":
        assert largest > 0.02  # not absurdly loose: some run comes within a factor of fifty


def test_products_with_powers_of_two_are_exact_in_float64():
    box = -np.ones((1, 2)), np.ones((1, 2))
    tokens = project(input_tokens(*box, machine("float64")), np.diag([0.5, -4.0]), machine("float64"))
    assert not tokens.error.any()
    tokens = project(input_tokens(*box, machine("float64")), np.diag([0.3, -4.0]), machine("float64"))
    assert tokens.error[0, 0] > 0 == tokens.error[0, 1]


def test_inner_encloses_the_form_on_the_box():
    tokens = input_tokens(np.array([[-1.0, 2.0]]), np.array([[3.0, 2.5]]), machine("float64"))
    found = inner(tokens.slope, tokens.box, tokens.constant)
    assert np.all(found.mid - found.rad <= [-1.0, 2.0])
    assert np.all(found.mid + found.rad >= [3.0, 2.5])


@pytest.mark.parametrize(
    "layer",
    [
        Linear((Term(np.eye(2)), Term(None, np.eye(2)[::-1].copy()))),
        Linear((Term(None, np.eye(3)),)),
        Linear((Term(None, np.ones((2, 2))),)),
        Linear((Term(None, np.array([[0.5, 0.0]])),)),
    ],
)
def test_maps_the_proof_cannot_read_are_refused(layer):
    tokens = input_tokens(-np.ones((2, 2)), np.ones((2, 2)), machine("float64"))
    with pytest.raises(CertificateError, match=r"This proof|all rows"):
        linear(layer, tokens, machine("float64"))


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_terms_add_up_and_rows_of_one_input_mix(dtype):
    rng, model = np.random.default_rng(0), machine(dtype)
    terms = [Term(rng.normal(size=(2, 3)), rng.normal(size=(4, 3))) for _ in range(2)]
    layer = Linear(tuple(Term(round_to(t.map, dtype), round_to(t.mix, dtype)) for t in terms), np.ones((1, 3)))
    rows = linear(layer, whole_input(-np.ones((3, 2)), np.ones((3, 2)), model), model)
    x = rng.uniform(-1, 1, size=(500, 3, 2))
    exact = sum(t.mix @ x @ t.map for t in layer.terms) + 1
    seen = np.einsum("bi,rim->brm", x.reshape(500, 6), rows.slope.mid) + rows.constant.mid
    assert np.abs(seen - exact).max() < 1e-12
    small = np.float32 if dtype == "float32" else np.float64
    run = sum(t.mix.astype(small) @ (x.astype(small) @ t.map.astype(small)) for t in layer.terms) + small(1)
    assert np.all(np.abs(run - exact) <= rows.error + 1e-15)


@pytest.mark.parametrize("terms", [1, 2, 3, 6])
def test_no_order_of_adding_products_leaves_the_error(terms):
    """In float32, of inputs that are its numbers, with a constant 1, and powers of two among the weights.

    Of random sums that nearly cancel, some lose as much as one rounding in all of those that are charged.
    """
    single, worst = machine("float32"), 0.0
    for _ in range(300):
        at = np.append(1.0, round_to(rng.normal(size=terms), "float32"))[None]
        weights = round_to(rng.normal(size=(terms + 1, 1)), "float32")
        weights[-1] = round_to(-(at[0, :-1] @ weights[:-1]) / at[0, -1], "float32") if terms > 1 else 0.5
        if rng.random() < 0.3:
            weights[1] = 2.0
        error = project(whole_input(at, at, single, exact=True), weights, single).error[0, 0]
        wanted = sum(Fraction(float(a)) * Fraction(float(w)) for a, w in zip(at[0], weights[:, 0], strict=True))
        products = [np.float32(a) * np.float32(w) for a, w in zip(at[0], weights[:, 0], strict=True)]
        for order in (rng.permutation(terms + 1) for _ in range(6)):
            total = np.float32(0.0)
            for i in order:
                total = np.float32(total + products[i])
            off = float(abs(Fraction(float(total)) - wanted))
            assert off <= error
            worst = max(worst, off / error if error else 0.0)
    assert worst > 0.5 / (terms + 1)


def test_a_constant_input_is_one():
    """What does not vary is known to the run: its products by powers of two are exact, as are those of 1."""
    ends = np.array([[1.0, -3.0]]), np.array([[1.0, 2.0]])
    tokens = whole_input(*ends, machine("float32"), exact=True)
    assert tokens.is_simple().tolist() == [[True, False]]
    assert not whole_input(*ends, machine("float32")).is_simple().any()  # where inputs are rounded, it is only near
    assert project(tokens, np.array([[0.3, 0.3], [0.0, 2.0]]), machine("float32")).error[0].tolist()[0] == 0.0
