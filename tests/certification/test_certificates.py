"""Certificates as data: of every kind, exact, of one dialect that jsonschema reads as we do, wrong ones refused."""

from __future__ import annotations

import json
from copy import deepcopy
from dataclasses import fields, replace
from functools import cache
from pathlib import Path

import jsonschema
import pytest
from typer.testing import CliRunner

import attnforge as af
from attnforge.cli import app
from tests.catalogue import network
from tests.certification.figures import one_prompt
from tests.refusals import refused

SCHEMA = json.loads((Path(af.__file__).parent / "certification" / "certificate.schema.json").read_text("utf-8"))
KINDS = {
    "function": lambda: network("sine").certificate,
    "conditional": lambda: network("two layers").certificate,
    "sampled": lambda: network("callable on a sparse grid").certificate,
    "graph": lambda: network("graph").certificate,
    "half type": lambda: network("gate", "float16").certificate,
    "mean": lambda: network("cell averages").certificate,
    "prompt": lambda: network("Poisson").certify(*one_prompt(network("Poisson"))),
    "data box": lambda: network("least squares, float32").certificate,
    "kernel": lambda: network("zoo: softmax_kernel").certify(*one_prompt(network("zoo: softmax_kernel"))),
    "function of a prompt": lambda: network("mean of a prompt").certificate,
    "function as a prompt": lambda: network("zoo: function_as_prompt").certificate,
    "program": lambda: network("zoo: histogram").certificate,
}


@cache
def made(name: str):
    return KINDS[name]()


@cache
def standard() -> jsonschema.Draft202012Validator:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    return jsonschema.Draft202012Validator(SCHEMA)


def accepts(text: str, reader: type) -> bool:
    try:
        reader.from_json(text)
    except af.CertificateError:
        return False
    return True


@pytest.mark.parametrize("name", KINDS)
def test_certificates_of_every_kind_come_back_exactly_and_keep_to_the_schema(name):
    found = made(name)
    for text in (found.to_json(), json.dumps(found.to_data())):
        standard().validate(json.loads(text))
        assert type(found).from_json(text) == found
    other = af.Certificate if name == "program" else type(made("program"))
    assert not accepts(found.to_json(), other)


def test_the_schema_knows_every_field():
    drift = {"step", "contraction", "minimiser"}
    listed = SCHEMA["$defs"]["network"]["properties"]
    assert set(listed) == {each.name for each in fields(af.Certificate)} - drift | {"kind", "drift"}
    assert set(listed["drift"]["properties"]) == drift
    assert set(SCHEMA["$defs"]["program"]["properties"]) == {each.name for each in fields(made("program"))} | {"kind"}
    for kind, name in (("network", "graph"), ("program", "program")):
        entries = SCHEMA["$defs"][kind]["properties"]["registers"]["items"]["prefixItems"]
        assert len(entries) == len(made(name).registers[0])


def places(data, at=()):
    """Every part of a certificate, by the way that leads there."""
    yield at
    for name, value in data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ():
        yield from places(value, (*at, name))


def edited(data, at, value):
    """With another part, or without it."""
    found = deepcopy(data)
    parent = found
    for name in at[:-1]:
        parent = parent[name]
    if value is ...:
        del parent[at[-1]]
    else:
        parent[at[-1]] = value
    return found


WRONG = (
    None, True, "", "x", "nan", "inf", "0x1p5000", "0x1.0p+1024", "-0x1.0p+0", -1.0, 0, 1.5, [], {}, [1], {"a": 1},
    float("nan"), 10**400, "sampled", ...,
)  # fmt: skip


@pytest.mark.parametrize("name", ["graph", "sampled", "prompt", "program"])
def test_wrong_certificates_are_refused_by_both(name):
    """Every part replaced by everything: both agree, but for sums and order, which a schema cannot say."""
    found, said = made(name), 0
    data = found.to_data()
    for at in [at for at in places(data) if at]:
        for value in WRONG:
            text = json.dumps(edited(data, at, value))
            standards = "NaN" not in text and standard().is_valid(json.loads(text))
            said += not standards
            if accepts(text, type(found)) != standards:
                assert standards, (at, value)
                with pytest.raises(af.CertificateError, match=r"add up|lower end"):
                    type(found).from_json(text)
    assert said > 100


@pytest.mark.parametrize("text", ["", "[]", "null", "{}", "[" * 100_000, '{"guaranteed": true}'])
def test_other_json_is_refused(text):
    with refused(af.CertificateError):
        af.Certificate.from_json(text)


@pytest.mark.parametrize(
    "changes",
    [
        {"status": "guessed"},
        {"status": "sampled"},
        {"bound": None},
        {"bound": 1e-4},
        {"parts": {"fit": 1.0}},
        {"parts": {"a": -5.0, "b": 5.1}},
        {"parts": {"fit": -1.0}, "bound": -0.5},
    ],
)
def test_certificates_that_contradict_themselves_are_refused(changes):
    wrong = replace(made("function"), **changes)
    with refused(af.CertificateError):
        wrong.check()
    with refused(af.CertificateError):
        af.Certificate.from_json(wrong.to_json())


def test_the_shell_prints_this_dialect(tmp_path):
    network("sine").save(tmp_path / "net")
    printed = json.loads(CliRunner().invoke(app, ["inspect", str(tmp_path / "net"), "--json"]).stdout)
    assert af.Certificate.from_json(json.dumps(printed["certificate"])) == made("function")
