"""Domains of the constructions by name: boxes, lists of intervals, named intervals."""

import numpy as np
import pytest

import attnforge as af
from tests.refusals import refused

MADE = [
    lambda f, domain: af.constructions.two_layer(f, domain, grid=4, lipschitz=2),
    lambda f, domain: af.constructions.softmax_tail(f, domain, grid=4, lipschitz=2),
    lambda f, domain: af.constructions.max_affine(f, domain, cells=4, lipschitz=2),
    lambda f, domain: af.constructions.max_affine(f, domain, cells=4, norm=1),
]
NAMES = ["two_layer", "softmax_tail", "max_affine", "max_affine in L1"]


def product(x: np.ndarray) -> np.ndarray:
    return x[..., 0] * x[..., 1]


@pytest.mark.parametrize("make", MADE, ids=NAMES)
def test_every_way_to_write_a_domain_means_the_same(make) -> None:
    named = make(product, {"a": (0, 1), "b": (0, 1)})
    listed, boxed = make(product, [(0, 1), (0, 1)]), make(product, af.Box(0, 1, shape=(2,)))
    x = np.array([[0.3, 0.6], [0.9, 0.2]])
    assert named(x).tolist() == listed(x).tolist() == boxed(x).tolist()
    assert named(a=0.3, b=0.6) == pytest.approx(named(x)[0], abs=1e-12)


@pytest.mark.parametrize("make", MADE, ids=NAMES)
def test_what_is_no_domain_is_refused(make) -> None:
    with refused(af.DomainError):
        make(product, 3)


@pytest.mark.parametrize("make", MADE, ids=NAMES)
def test_a_formula_as_text_is_its_own_callable(make) -> None:
    domain, x = {"a": (0, 1), "b": (0, 1)}, np.array([[0.3, 0.6], [0.9, 0.2]])
    assert make("a*b", domain)(x) == pytest.approx(make(product, domain)(x), abs=1e-12)


def test_a_table_of_samples_that_cannot_be_had_is_refused() -> None:
    with refused(af.RefusalError):
        af.compile("abs(x - 1/3)", {"x": (0, 1)}, tol=1e-12, construction="table")
