"""Every format is a reader of a network: it computes what NumPy does, to rounding, on networks of every kind."""

import itertools
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch

import attnforge as af
from attnforge.export import FORMATS
from attnforge.network import Linear, Term, apply, rounded, with_head
from tests.export.running import RUN, ran, run_onnx, script
from tests.network.examples import NETWORKS, inputs
from tests.readers.built import BUILT, built, points_of
from tests.readers.networks import random_case
from tests.refusals import refused

UNITS = {"float64": 1e-12, "float32": 1e-4}
RANDOM = {"jax": 3, "transformer_lens": 12, "onnx": 40, "torch": 40}  # networks; few where each is compiled or booted
ELSEWHERE = {"vnnlib"}  # properties of an ONNX file: test_vnnlib


def test_every_format_is_run_here():
    assert {*RUN} | ELSEWHERE == {*FORMATS}
    assert {*FORMATS} <= {*dir(af.export)}


@pytest.mark.parametrize("name", RUN)
def test_layers_of_every_kind(name, tmp_path):
    for what, network in NETWORKS.items():
        given = [np.stack([array, 0.5 * array]) for array in inputs(network)]
        found = ran(name, network, given, tmp_path / "model")
        np.testing.assert_allclose(found, apply(network, *given), rtol=1e-12, atol=1e-13, err_msg=what)


@pytest.mark.parametrize("dtype", UNITS)
@pytest.mark.parametrize("name", RUN)
def test_random_networks(name, dtype, tmp_path):
    for seed in range(RANDOM[name]):
        case = random_case(seed)
        given = [part for part in case.split(case.points(np.random.default_rng(seed), 4)) if part is not None]
        given = [array.astype(dtype) for array in given]
        wanted = apply(rounded(case.network, dtype), *(array.astype(np.float64) for array in given))
        found = ran(name, case.network, given, tmp_path / "model", dtype)
        assert found.dtype == dtype
        if dtype == "float64":
            scale = max(1.0, float(np.abs(wanted).max()))
            np.testing.assert_allclose(found, wanted, rtol=1e-10, atol=1e-12 * scale, err_msg=str(seed))


@pytest.mark.parametrize("name", BUILT)
def test_every_construction_with_the_shapes_of_its_target(name, tmp_path):
    net = built(name)
    if net.dtype not in UNITS:
        with refused(af.RefusalError):
            af.export.onnx(net, tmp_path / "model.onnx")
        return
    for points, to in itertools.product(points_of(net, 60), ("onnx", "torch", "transformer_lens")):
        given = net.target.split(points) if net.network.context is not None else (points,)
        given = [np.asarray(each, dtype=net.dtype) for each in given]
        wanted = np.asarray(net(*given))
        found = ran(to, net, given[::-1], tmp_path / f"model_{to}")  # queries come first
        assert found.shape == wanted.shape
        unit = UNITS[net.dtype] * max(1.0, float(np.abs(wanted).max()))
        np.testing.assert_allclose(found, wanted, rtol=0, atol=unit)


def test_batches_and_lengths_are_dynamic(tmp_path):
    net = af.compile("tokens.mean(x*y)*q", {"x": (0, 1), "y": (0, 1), "q": (0, 1)}, 1e-6)
    path = tmp_path / "prompt.onnx"
    af.export.onnx(net, path)
    for batch, n in ((1, 1), (3, 7), (2, 500)):
        tokens = np.random.default_rng(n).uniform(size=(batch, n, 3))
        tokens[..., 2] = tokens[:, :1, 2]
        found = run_onnx(path, [tokens])[:, 0, 0]
        np.testing.assert_allclose(found, net(tokens[..., :2], tokens[:, 0, 2]), rtol=0, atol=1e-13)


def test_scripts_run_without_attnforge(tmp_path):
    """In a process that cannot import it."""
    net = af.compile("sin(3*x)", {"x": (-1, 1)}, 1e-4)
    af.export.torch(net, tmp_path / "model")
    code = (
        "import sys; sys.modules['attnforge'] = None; sys.path.insert(0, 'model')\n"
        "import torch, model\n"
        "print(float(model.load()(torch.tensor([[0.5]], dtype=torch.float64))[0]))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert float(done.stdout) == pytest.approx(float(net(0.5)), abs=UNITS["float64"])
    assert "attnforge" not in "".join(
        line for line in (tmp_path / "model/model.py").read_text().splitlines() if "import" in line
    )


@pytest.fixture(scope="module")
def parabola():
    return af.compile("x^2", {"x": (-1, 1)}, 1e-2)


@pytest.mark.parametrize("name", FORMATS)
def test_places_that_cannot_be_written_stay_as_they_are(name, parabola, tmp_path):
    write, folder = getattr(af.export, name), FORMATS[name].suffix is None
    (tmp_path / "mine").write_bytes(b"mine")
    for place in ("no/such/place", "mine/model", "mine" if folder else ""):
        with refused(af.FileFormatError):
            write(parabola, tmp_path / place)
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]
    assert (tmp_path / "mine").read_bytes() == b"mine"


@pytest.mark.parametrize("name", FORMATS)
def test_a_second_export_replaces_the_first(name, parabola, tmp_path):
    other = af.compile("x^3", {"x": (-1, 1)}, 1e-2)
    for net in (parabola, other):
        getattr(af.export, name)(net, tmp_path / "model")
    fresh = tmp_path / "fresh"
    getattr(af.export, name)(other, fresh)
    read = [{each.name: each.read_bytes() for each in place.rglob("*") if each.is_file()} or place.read_bytes()
            for place in (tmp_path / "model", fresh)]  # fmt: skip
    assert read[0] == read[1]
    assert {path.name for path in tmp_path.iterdir()} == {"model", "fresh"}


@pytest.mark.parametrize("model", [None, "f.safetensors", np.ones(3), torch.nn.Linear(1, 1)], ids=repr)
@pytest.mark.parametrize("name", FORMATS)
def test_what_is_no_model_is_refused(name, model, tmp_path):
    with refused(af.TargetError):
        getattr(af.export, name)(model, tmp_path / "model")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", FORMATS)
def test_weights_that_do_not_fit_the_dtype(name, tmp_path):
    network = af.Network((Linear((Term(np.array([[1e39]])),)),), 1)
    with refused(af.RefusalError):
        getattr(af.export, name)(network, tmp_path / "model", dtype="float32")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("name", "package"), [(f.name, each) for f in FORMATS.values() for each in f.packages])
def test_a_missing_extra_is_answered_by_the_line_that_installs_it(name, package, parabola, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(af.RefusalError, match=rf"pip install 'attnforge\[{FORMATS[name].extra}\]'"):
        getattr(af.export, name)(parabola, tmp_path / "model")
    assert list(tmp_path.iterdir()) == []


def test_text_of_a_file_cannot_become_code(tmp_path, parabola):
    """A model file may claim any formula for a head; scripts show it as a comment."""
    code = "x\rraise SystemExit('ran') #\n\x0c\u2028raise SystemExit"
    claims = replace(parabola.network.heads[0].claims, formula=code)
    for name in ("torch", "jax"):
        getattr(af.export, name)(with_head(parabola.network, 1, 0, claims=claims), tmp_path / name)
        script(tmp_path / name)


def test_programs_take_the_tokens_they_encode(tmp_path):
    p = af.programs
    net = p.compile(p.selector_width(p.select(p.tokens, p.tokens, "==")), ["a", "b"], max_length=6)
    tokens = net.encode(["a", "b", "a"]).numpy()[None]
    np.testing.assert_allclose(ran("onnx", net, [tokens], tmp_path / "m.onnx")[0, :, 0], [2, 1, 2], atol=1e-9)


def test_unknown_formats():
    with pytest.raises(AttributeError, match=r"vhdl.*formats are onnx"):
        af.export.vhdl  # noqa: B018
    assert {*FORMATS} <= {*dir(af.export)}
