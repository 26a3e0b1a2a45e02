"""One dialect of certificates: of every kind, read by us and by jsonschema alike, wrong ones refused by both."""

import json
from copy import deepcopy
from dataclasses import fields
from functools import cache

import jsonschema
import numpy as np
import pytest

import attnforge as af
from attnforge.balls import MACHINES
from attnforge.certification import Certificate
from attnforge.certification.certificate import Estimate, LocalBound
from attnforge.certification.dialect import schema
from attnforge.certification.programs import ProgramCertificate, RegisterBound
from attnforge.errors import CertificateError
from tests.readers.built import built

X = np.array([[0.5, -0.25], [0.25, 1.0], [-1.0, 0.5]])
Y = np.array([0.5, 0.25, -0.5])


def _program():
    p = af.programs
    return p.compile(p.selector_width(p.select(p.tokens, p.tokens, "==")), ["a", "b"], max_length=4).certificate


def _regression(data_bound=None):
    return af.in_context.LeastSquares(steps=2, learning_rate=0.1).build(features=2, data_bound=data_bound)


KINDS = {
    "function": lambda: built("sine").certificate,
    "conditional": lambda: built("two layers").certificate,
    "sampled": lambda: built("callable on a sparse grid").certificate,
    "graph": lambda: built("graph").certificate,
    "relu network": lambda: built("relu").certificate,
    "half type": lambda: built("gate [float16]").certificate,
    "mean": lambda: af.constructions.max_affine("sign(x)", af.Box(-1.0, 1.0), cells=4, norm=2.5).certificate,
    "prompt": lambda: _regression().certify(X, Y),
    "data box": lambda: _regression(data_bound=1.0).certificate,
    "kernel": lambda: af.in_context.KernelRegression().build(features=2).certify(X, Y, X),
    "function of a prompt": lambda: (
        af.compile("tokens.mean(x)*q", dict.fromkeys("xq", (0, 1)), 0.1, query=["q"]).certificate
    ),
    "function as a prompt": lambda: af.in_context.function_prompt("x^2", {"x": (0, 1)}, 0.1)[1].certificate,
    "program": _program,
}


@cache
def made(name):
    return KINDS[name]()


@cache
def standard():
    return jsonschema.Draft202012Validator(schema())


def accepts(text: str, reader: type) -> bool:
    try:
        reader.from_json(text)
    except CertificateError:
        return False
    return True


@pytest.mark.parametrize("name", KINDS)
def test_certificates_of_every_kind_keep_to_the_schema(name):
    found = made(name)
    for text in (found.to_json(), json.dumps(found.to_data())):
        standard().validate(json.loads(text))
        assert type(found).from_json(text) == found
    assert not accepts(found.to_json(), Certificate if isinstance(found, ProgramCertificate) else ProgramCertificate)


def test_the_schema_is_one_and_knows_every_field():
    jsonschema.Draft202012Validator.check_schema(schema())
    drift = {"step", "contraction", "minimiser"}
    assert set(schema()["$defs"]["network"]["properties"]) == (
        {each.name for each in fields(Certificate)} - drift | {"kind", "drift"}
    )
    assert set(schema()["$defs"]["network"]["properties"]["drift"]["properties"]) == drift
    assert set(schema()["$defs"]["program"]["properties"]) == {each.name for each in fields(ProgramCertificate)} | {
        "kind"
    }
    for kind, entry in (("network", LocalBound), ("program", RegisterBound)):
        listed = schema()["$defs"][kind]["properties"]["registers"]["items"]["prefixItems"]
        assert len(listed) == len(entry._fields)
    assert set(schema()["$defs"]["dtype"]["enum"]) == set(MACHINES)
    assert set(schema()["$defs"]["network"]["properties"]["estimate"]["anyOf"][1]["properties"]) == {
        each.name for each in fields(Estimate)
    }


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
    found, refused = made(name), 0
    data = found.to_data()
    for at in [at for at in places(data) if at]:
        for value in WRONG:
            text = json.dumps(edited(data, at, value))
            ours = accepts(text, type(found))
            standards = "NaN" not in text and standard().is_valid(json.loads(text))
            refused += not standards
            if ours != standards:
                assert standards, (at, value)
                with pytest.raises(CertificateError, match=r"add up|lower end"):
                    type(found).from_json(text)
    assert refused > 100


def test_unknown_fields_are_refused_by_both():
    data = made("function").to_data() | {"guaranteed": True}
    assert not standard().is_valid(data)
    with pytest.raises(CertificateError, match="guaranteed"):
        Certificate.from_json(json.dumps(data))


def test_certificates_without_a_kind_are_of_networks():
    """As those in files of earlier versions."""
    data = json.loads(made("function").to_json())
    del data["kind"]
    assert standard().is_valid(data)
    assert Certificate.from_json(json.dumps(data)) == made("function")


def test_the_shell_prints_this_dialect(tmp_path):
    from typer.testing import CliRunner

    from attnforge.cli import app

    net = built("sine")
    net.save(tmp_path / "f.safetensors")
    printed = json.loads(CliRunner().invoke(app, ["inspect", str(tmp_path / "f.safetensors"), "--json"]).stdout)
    assert Certificate.from_json(json.dumps(printed["certificate"])) == net.certificate
