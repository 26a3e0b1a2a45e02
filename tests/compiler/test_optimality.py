"""Lower bounds for every choice of values on the same keys: below the errors of polished values, and close to them."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

import attnforge as af
from attnforge.network import with_head
from tests.refusals import refused

FUNCTIONS = {
    "sin(8*x)": ((-1, 1), 1e-6),
    "1/(1 + 25*x^2)": ((-1, 1), 1e-6),
    "exp(x)": ((-1, 1), 1e-9),
    "sqrt(x)": ((0, 1), 1e-4),
    "cos(20*x)": ((0, 1), 1e-6),
    "abs(x)": ((-1, 1), 1e-3),
}


def compiled(text, polish=False, **options):
    interval, tol = FUNCTIONS[text]
    return af.compile(text, {"x": interval}, tol, construction="tensor_grid", polish=polish, **options)


@pytest.mark.parametrize("text", FUNCTIONS)
def test_polished_values_are_nearly_the_best(text):
    found = af.optimality(compiled(text, polish=True))
    assert 0 < found.lower <= found.error
    assert found.gap <= 1.5
    assert len(found.points) == found.keys + 1
    assert np.all(np.diff(found.points) > 0)


@cache
def known(text):
    """A network, and its lower bound."""
    net = compiled(text, effort="low")
    return net, af.optimality(net).lower


def test_one_key_is_a_constant():
    """Whose best error is half the range of the function."""
    net = af.constructions.max_affine("x^2", af.Box(-1.0, 2.0), cells=1, sharpness="hard")
    found = af.optimality(net)
    assert found.keys == 1
    assert 1.99 <= found.lower <= 2.0


def test_two_keys_of_one_slope_count_once():
    net, lower = known("exp(x)")
    head = net.network.heads[0]
    keys, values = (np.repeat(part, 2, axis=0) for part in (head.memory_keys, head.memory_values))
    doubled = net.with_network(with_head(net.network, 1, 0, memory_keys=keys, memory_values=values, claims=None))
    found = af.optimality(doubled)
    assert found.keys == af.optimality(net).keys == doubled.anchors // 2
    assert found.lower == pytest.approx(lower, rel=1e-6)


REFUSED = {
    "two inputs": lambda: af.compile("x*y", {"x": (0, 1), "y": (0, 1)}, 1e-2),
    "a truncated form": lambda: af.constructions.truncated_linear([1.0], 0.0, -1, 1, anchors=9),
    "a gate": lambda: af.compile("clamp(x, -1, 1)", {"x": (-2, 2)}, 1e-9),
    "a table": lambda: af.compile(([0.0, 0.5, 1.0], [0.0, 1.0, 0.0]), tol=1e-3),
    "outputs": lambda: af.compile("[x, sin(x)]", {"x": (0, 1)}, 1e-2),
    "errors in the mean": lambda: af.constructions.max_affine("x^2", af.Box(-1.0, 1.0), cells=4, norm=2),
    "text": lambda: "sin(x)",
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_no_single_head_of_one_input_is_refused(what):
    with refused(af.TargetError if what in ("errors in the mean", "text") else af.RefusalError):
        af.optimality(REFUSED[what]())
