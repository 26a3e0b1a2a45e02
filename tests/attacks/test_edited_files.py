"""Edits by someone who recomputes the digest: what a file says of itself is checked, and certifying tells the truth.

A digest is integrity, not authenticity: whoever can write a file can write its digest. Such a file loads where it is
consistent, and then a lowered bound or another target shows as soon as the network is certified again.
"""

import json

import numpy as np
import pytest

import attnforge as af
from tests.attacks.files import agreeing, certificate, join, split, with_certificate
from tests.laws.cases import SMALL

DOMAIN = {"x": (-2, 2)}


@pytest.fixture(scope="module")
def net():
    return af.compile("clamp(x, -1, 1)", DOMAIN, tol=0.05, construction="truncated_linear")


@pytest.fixture(scope="module")
def saved(net, tmp_path_factory):
    path = tmp_path_factory.mktemp("models") / "net.safetensors"
    net.save(path)
    return path


@pytest.fixture
def parts(saved):
    return split(saved)


def refused(path, match=None):
    with pytest.raises(af.FileFormatError, match=match):
        af.load(path)


LOWERED = {"bound": (1e-9).hex(), "parts": {"spacing": (1e-9).hex(), "leakage": (0.0).hex(), "rounding": (0.0).hex()}}
EDITS = {
    "lowered bound": lambda m: with_certificate(m, **LOWERED),
    "edited target": lambda m: m | {"target": m["target"] | {"text": "clamp(x, -1, 1.5)"}},
    "another name": lambda m: m | {"target": m["target"] | {"text": "clamp(y, -1, 1)", "names": ["y"]}},
    "another dtype": lambda m: m | {"dtype": "bfloat16"},
    "another construction": lambda m: m | {"construction": "gate"},
}


@pytest.mark.parametrize("edit", EDITS)
def test_edits_break_the_digest(parts, tmp_path, edit):
    metadata, arrays = parts
    refused(join(tmp_path / "net", EDITS[edit](metadata), arrays), "digest")


def test_a_lowered_bound_with_its_digest_is_found_by_certifying(parts, tmp_path, net):
    """Loading cannot see it: the file is consistent. Certifying gives the true bound, far above the stored one."""
    metadata, arrays = parts
    loaded = af.load(join(tmp_path / "net", EDITS["lowered bound"](metadata), arrays, honest=True))
    assert loaded.certificate.bound == 1e-9
    assert af.certify(loaded).bound == net.certificate.bound > loaded.certificate.bound
    assert af.measure(loaded, points=1000).sup > loaded.certificate.bound


def test_a_bound_below_its_parts_is_refused(parts, tmp_path):
    metadata, arrays = parts
    lower = with_certificate(metadata, bound=(1e-9).hex())
    refused(join(tmp_path / "net", lower, arrays, honest=True), "add up")


@pytest.mark.parametrize("text", ["clamp(x, -1, 1.5)", "clamp(1.5*x, -1, 1)", "x"])
def test_an_edited_target_with_its_digest_is_found_by_certifying(parts, tmp_path, text):
    metadata, arrays = parts
    edited = metadata | {"target": metadata["target"] | {"text": text}}
    refused(join(tmp_path / "net", edited, arrays, honest=True), "stored target")
    loaded = af.load(join(tmp_path / "net", agreeing(edited, arrays), arrays, honest=True))
    error = af.measure(loaded, points=1000).sup
    assert error > loaded.certificate.bound
    try:
        bound = af.certify(loaded).bound
    except (af.CertificateError, af.RefusalError):
        return
    assert bound >= error


HOSTILE = [
    "__import__('os').system('true')",
    "open('/etc/passwd')",
    "().__class__",
    "lambda: 0",
    "9**9**9**9",
    "(" * 5000 + "x" + ")" * 5000,
    "x" * 10**6,
    "clamp(x, -1",
    "",
    "\0",
    "x; y",
    "{x}",
    "clamp(z, -1, 1)",
]


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_stored_text_is_parsed_again_and_refused(parts, tmp_path, text):
    metadata, arrays = parts
    edited = metadata | {"target": metadata["target"] | {"text": text}}
    refused(join(tmp_path / "net", edited, arrays, honest=True), "valid target")


@pytest.mark.parametrize(
    "target",
    [
        {},
        {"kind": "pickle"},
        {"kind": ["formula"]},
        {"kind": "formula"},
        {"kind": "truncated_linear"},
        [],
        "formula",
        None,
    ],
)
def test_targets_of_no_kind_are_refused(parts, tmp_path, target):
    metadata, arrays = parts
    refused(join(tmp_path / "net", metadata | {"target": target}, arrays, honest=True))


def test_a_widened_domain_is_refused(parts, tmp_path):
    metadata, arrays = parts
    wide = arrays | {"target.domain.upper": arrays["target.domain.upper"] * 10}
    refused(join(tmp_path / "net", metadata, wide), "digest")
    refused(join(tmp_path / "net", metadata, wide, honest=True), "stored domain")


def test_a_domain_widened_everywhere_is_certified_anew(parts, tmp_path, net):
    """Consistent, so it loads; the bound that certifying gives is for the wider domain."""
    metadata, arrays = parts
    wide = arrays | {"target.domain.upper": np.array([1e9])}
    loaded = af.load(join(tmp_path / "net", agreeing(metadata, wide), wide, honest=True))
    assert af.certify(loaded).bound > net.certificate.bound


def test_an_upside_down_domain_is_refused(parts, tmp_path):
    metadata, arrays = parts
    swapped = arrays | {
        "target.domain.lower": arrays["target.domain.upper"],
        "target.domain.upper": arrays["target.domain.lower"],
    }
    refused(join(tmp_path / "net", metadata, swapped, honest=True), "lower <= upper")


def test_another_networks_certificate_is_refused(parts, tmp_path):
    metadata, arrays = parts
    other = af.compile("clamp(x, -1, 1)", DOMAIN, tol=1e-9, construction="gate")
    borrowed = metadata | {"certificate": other.certificate.to_json()}
    refused(join(tmp_path / "net", borrowed, arrays, honest=True), "stored network")


def test_a_certificate_for_another_dtype_is_refused(parts, tmp_path):
    metadata, arrays = parts
    refused(join(tmp_path / "net", metadata | {"dtype": "float32"}, arrays, honest=True), "stored dtype")
    refused(join(tmp_path / "net", metadata | {"dtype": "int8"}, arrays, honest=True), "dtype")


def test_a_perturbed_weight_is_refused_even_with_its_digest(parts, tmp_path):
    """The certificate names the network it is about."""
    metadata, arrays = parts
    for name in arrays:
        if name.startswith("network."):
            changed = arrays[name].copy()
            changed.flat[0] += 1
            refused(join(tmp_path / "net", metadata, arrays | {name: changed}, honest=True))


def test_a_missing_or_misshapen_tensor_is_refused(parts, tmp_path):
    metadata, arrays = parts
    for name, array in arrays.items():
        less = {key: value for key, value in arrays.items() if key != name}
        refused(join(tmp_path / "net", metadata, less, honest=True))
        for shape in ((-1,), (1, 1, -1), (-1, 1)):
            if name.startswith("network.") and array.reshape(shape).shape != array.shape:
                refused(join(tmp_path / "net", metadata, arrays | {name: array.reshape(shape)}, honest=True))
        refused(join(tmp_path / "net", metadata, arrays | {name: array[:0]}, honest=True))


def test_a_literal_file_with_misshapen_rows_is_refused(tmp_path):
    SMALL["gate"](layout="literal").save(tmp_path / "honest")
    metadata, arrays = split(tmp_path / "honest")
    name = next(name for name in arrays if name.endswith("query_rows"))
    for rows in (arrays[name] + 100, arrays[name] - 100, arrays[name].astype(np.float64), arrays[name][None]):
        refused(join(tmp_path / "net", metadata, arrays | {name: rows}, honest=True))


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"bound": "0x1p5000"}),
        {"bound": "nan"},
        {"bound": None},
        {"status": "true"},
        {"parts": {"spacing": "-0x1p0"}, "bound": "-0x1p-1"},
        {"domain": []},
        {"digest": 5},
        {"estimate": []},
    ],
)
def test_certificates_of_nonsense_are_refused(parts, tmp_path, changes):
    metadata, arrays = parts
    refused(join(tmp_path / "net", with_certificate(metadata, **changes), arrays, honest=True))


@pytest.mark.parametrize("text", ["", "[]", "7", "null", "[" * 100_000, 5, None, ["x"], {}])
def test_certificates_that_are_none_are_refused(parts, tmp_path, text):
    metadata, arrays = parts
    refused(join(tmp_path / "net", metadata | {"certificate": text}, arrays, honest=True))


def skeletons(network):
    yield {}
    yield []
    yield None
    yield network | {"layers": 5}
    yield network | {"layers": []}
    yield network | {"layers": [{"kind": "relu"}, *network["layers"]]}
    yield network | {"layers": network["layers"][:1]}
    yield network | {"features": "many"}
    yield network | {"features": 10**9}
    yield network | {"tokens": "abc"}
    yield network | {"tokens": 10**12}
    yield network | {"tokens": -1}
    yield network | {"context": [1]}
    yield network | {"context": "ab"}
    changed = json.loads(json.dumps(network))
    changed["layers"][0]["terms"] = 10**9
    yield changed
    changed = json.loads(json.dumps(network))
    changed["layers"][1]["heads"][0]["query_rows"] = {"kind": "odd", "source": "state"}
    yield changed
    changed = json.loads(json.dumps(network))
    changed["layers"][1]["heads"][0]["claims"]["roles"] = 5
    yield changed
    changed = json.loads(json.dumps(network))
    changed["layers"][1]["heads"][0]["claims"]["sharpness"] = "0x1p5000"
    yield changed
    for claim in ({"roles": [["anchor"]]}, {"roles": ["a\nb"]}, {"construction": "gate\nverdict  confirmed"}):
        changed = json.loads(json.dumps(network))
        changed["layers"][1]["heads"][0]["claims"] |= claim
        yield changed
    for rows in ({"kind": ["own"], "source": "state"}, {"kind": "own", "source": ["state"]}):
        changed = json.loads(json.dumps(network))
        changed["layers"][1]["heads"][0]["query_rows"] = rows
        yield changed


@pytest.mark.parametrize("index", range(23))
def test_networks_of_nonsense_are_refused(parts, tmp_path, index):
    metadata, arrays = parts
    network = list(skeletons(metadata["network"]))[index]
    refused(join(tmp_path / "net", metadata | {"network": network}, arrays, honest=True))


@pytest.mark.parametrize("outputs", [*(pytest.param(n) for n in (10**12, 2.5, True)), -1, 0, "3", [1]])
def test_absurd_outputs_are_refused(tmp_path, outputs):
    af.constructions.gate([1.0], 0.0, -1, 1).save(tmp_path / "honest")
    metadata, arrays = split(tmp_path / "honest")
    edited = metadata | {"target": metadata["target"] | {"outputs": outputs}}
    refused(join(tmp_path / "net", edited, arrays, honest=True))


def test_the_tools_of_this_file_change_nothing_by_themselves(parts, tmp_path, net):
    """Taking a file apart and putting it together gives a file that loads: refusals are due to the edits."""
    metadata, arrays = parts
    assert af.load(join(tmp_path / "net", metadata, arrays)).certificate == net.certificate
    assert af.load(join(tmp_path / "net", metadata, arrays, honest=True)).certificate == net.certificate
    same = with_certificate(metadata, **certificate(metadata))
    assert af.load(join(tmp_path / "net", same, arrays, honest=True)).certificate == net.certificate
