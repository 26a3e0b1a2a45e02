"""What is suggested for functions that the parser does not know."""

import pytest

from attnforge.targets.expression.parse import CALLED, parse
from attnforge.targets.expression.suggestions import WRITTEN, instead_of


@pytest.mark.parametrize("name", WRITTEN)
def test_what_is_to_be_written_can_be_read(name):
    parse(WRITTEN[name])
    assert name not in CALLED


@pytest.mark.parametrize(
    ("slip", "meant"),
    [
        ("sni", "sin"),
        ("Sin", "sin"),
        ("csoh", "cosh"),
        ("exo", "exp"),
        ("sigmod", "sigmoid"),
        ("sinx", "sin"),
        ("lg", "log"),
    ],
)
def test_one_slip(slip, meant):
    assert instead_of(slip, CALLED) == f"Did you mean `{meant}`?"


@pytest.mark.parametrize("name", ["foo", "rand", "argmax", "zeta", "f", "lambertw", "x" * 500])
def test_nothing_comes_near(name):
    assert instead_of(name, CALLED) is None


@pytest.mark.parametrize("name", ["ceil", "round", "trunc", "mod", "frac", "heaviside", "sgn"])
def test_jumps_have_their_reason(name):
    assert "it jumps, and attention is continuous" in str(instead_of(name, CALLED))


def test_what_is_continuous_has_none():
    assert instead_of("log2", CALLED) == "Write `log(x)/log(2)`"
