"""Certificates: exact JSON, and inconsistent ones refused."""

import json
import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attnforge.certification import Certificate
from attnforge.certification.certificate import Estimate
from attnforge.errors import CertificateError

positive = st.floats(0, 1e300)
finite = st.floats(-1e300, 1e300)


def certificate(**changes):
    parts = changes.pop("parts", {"spacing": 0.1, "leakage": 0.2, "rounding": 1e-17})
    fields = {
        "status": "proved",
        "bound": 0.30000000000000004,
        "norm": "sup",
        "parts": parts,
        "assumptions": ("IEEE rounding",),
        "dtype": "float64",
        "domain": ((-1.0, 1.0), (0.1, 0.3)),
        "digest": "ab" * 32,
        "target": "cd" * 32,
        "estimate": Estimate(0.25, (0.5, 0.2)),
    }
    return Certificate(**(fields | changes))


@given(st.lists(positive, min_size=1, max_size=4), st.lists(st.tuples(finite, finite), max_size=3), st.text(max_size=9))
def test_json_round_trip_is_exact(values, domain, text):
    parts = {f"part {i}": value for i, value in enumerate(values)}
    bound = math.fsum(values) * (1 + 1e-15)
    made = certificate(
        parts=parts, bound=bound, domain=tuple((min(side), max(side)) for side in domain), assumptions=(text,)
    )
    again = Certificate.from_json(made.to_json())
    assert again == made
    assert again.to_json() == made.to_json()


def test_sampled_certificates_have_no_bound():
    made = certificate(status="sampled", bound=None, parts={})
    assert Certificate.from_json(made.to_json()) == made
    assert "no bound" in str(made)
    assert "0.25" in str(made)


def test_text_names_status_bound_and_parts():
    assert str(certificate()) == (
        "proved: |net(x) - f(x)| <= 0.3 on the whole domain, in float64 (spacing 0.1 + leakage 0.2 + rounding 1e-17)"
    )


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"status": "guessed"}, "guessed"),
        ({"status": "sampled"}, "sampled ones none"),
        ({"bound": None}, "have a bound"),
        ({"bound": 0.29}, "add up to its bound"),
        ({"parts": {"spacing": 1.0}}, "add up to its bound"),
    ],
)
def test_inconsistent_certificates_are_refused(changes, match):
    made = certificate(**changes)
    with pytest.raises(CertificateError, match=match):
        made.check()
    with pytest.raises(CertificateError, match=f"{match}|certificate.schema.json"):
        Certificate.from_json(made.to_json())


def edited(**changes):
    return json.dumps(json.loads(certificate().to_json()) | changes)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "null",
        "{}",
        edited(bound="nan"),
        edited(bound="inf"),
        edited(bound="0x1p5000"),
        edited(bound="0.5"),
        edited(bound=True),
        edited(domain=[["0x1.0p+0", "0x0.0p+0"]]),
        edited(parts={"spacing": "nan"}),
        edited(parts=[1]),
        edited(domain=[["0x1p0"]]),
        edited(domain=7),
        edited(estimate={"error": "0x1p0"}),
        edited(estimate=3),
    ],
)
def test_other_json_is_refused(text):
    with pytest.raises(CertificateError):
        Certificate.from_json(text)


def test_deep_json_is_refused():
    with pytest.raises(CertificateError):
        Certificate.from_json("[" * 100_000)


@pytest.mark.parametrize("changes", [{"parts": {"spacing": -1.0}, "bound": -0.5}, {"parts": {"a": -5.0, "b": 5.1}}])
def test_negative_numbers_are_refused(changes):
    with pytest.raises(CertificateError):
        certificate(**changes).check()


def test_equality_sees_every_field():
    made = certificate()
    assert made == certificate()
    for changes in ({"bound": 0.4}, {"dtype": "float32"}, {"digest": "cd"}, {"domain": ()}, {"estimate": None}):
        assert replace(made, **changes) != made
