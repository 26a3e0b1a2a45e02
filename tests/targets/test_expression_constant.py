"""Numbers written as constants."""

import math

import pytest

import attnforge as af
from attnforge.targets.expression.constant import constant


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("pi", math.pi),
        ("-pi", -math.pi),
        ("2*pi", 2 * math.pi),
        ("-pi/2", -math.pi / 2),
        ("1e-3", 1e-3),
        ("sqrt(2)", math.sqrt(2)),
        ("0.1 + 0.2 - 0.3", 2.0**-55),  # of the float64 numbers written, exactly
        ("10^20*(sin(pi))", 0.0),
        (" 7 ", 7.0),
    ],
)
def test_the_nearest_number(text, value):
    assert constant(text) == value


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("x", "no variables. Got 'x' in 'x'"),
        ("1/0", "finite value. Got '1/0'"),
        ("log(-1)", "finite value"),
        ("", "ends where a value is needed"),
        ("nan", "no variables"),
        ("1_0", "operator is missing"),
        ("__import__('os')", "cannot contain"),
        ("9^9^9", "exponent must lie"),
    ],
)
def test_what_is_none(text, match):
    with pytest.raises(af.TargetError, match=match):
        constant(text)
