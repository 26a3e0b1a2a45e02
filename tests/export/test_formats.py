"""Every format is a reader of a network: it computes what NumPy does, to rounding, on networks of every kind."""

import importlib.util
import itertools
import subprocess
import sys

import numpy as np
import pytest
import torch

import attnforge as af
from attnforge.export import FORMATS
from attnforge.network import apply, rounded
from attnforge.targets import JointFunction
from tests.network.examples import NETWORKS, inputs
from tests.readers.built import BUILT, built, points_of
from tests.readers.networks import random_case

SEEDS = range(40)
UNITS = {"float64": 1e-12, "float32": 1e-4}


def script(folder):
    spec = importlib.util.spec_from_file_location("exported_model", folder / "model.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run_onnx(path, given):
    import onnxruntime

    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    return session.run(None, {each.name: array for each, array in zip(session.get_inputs(), given, strict=True)})[0]


def run_torch(path, given):
    return script(path).load()(*map(torch.from_numpy, given)).numpy()


def run_jax(path, given):
    module = script(path)
    return np.asarray(module.apply(module.load(), *given))


RUN = {"onnx": run_onnx, "torch": run_torch, "jax": run_jax}


def ran(name, model, given, path, dtype=None):
    """What the exported model computes."""
    getattr(af.export, name)(model, path, dtype=dtype)
    return RUN[name](path, [np.ascontiguousarray(array) for array in given])


def test_every_format_is_run_here():
    assert set(RUN) == set(FORMATS)


@pytest.mark.parametrize("name", FORMATS)
def test_layers_of_every_kind(name, tmp_path):
    for what, network in NETWORKS.items():
        given = [np.stack([array, 0.5 * array]) for array in inputs(network)]
        found = ran(name, network, given, tmp_path / "model")
        np.testing.assert_allclose(found, apply(network, *given), rtol=1e-12, atol=1e-13, err_msg=what)


@pytest.mark.parametrize("dtype", UNITS)
@pytest.mark.parametrize("name", FORMATS)
def test_random_networks(name, dtype, tmp_path):
    for seed in SEEDS if name != "jax" else SEEDS[:3]:  # which compiles every operation
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
        with pytest.raises(af.RefusalError, match="float64 or float32"):
            af.export.onnx(net, tmp_path / "model.onnx")
        return
    for points, to in itertools.product(points_of(net, 60), ("onnx", "torch")):
        given = net.target.split(points) if isinstance(net.target, JointFunction) else (points,)
        given = [np.asarray(each, dtype=net.dtype) for each in given]
        wanted = np.asarray(net(*given))
        order = given[::-1] if isinstance(net.target, JointFunction) else given  # queries come first
        found = ran(to, net, order, tmp_path / f"model_{to}")
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
    assert float(done.stdout) == pytest.approx(float(net(0.5)), abs=1e-14)
    assert "attnforge" not in "".join(
        line for line in (tmp_path / "model/model.py").read_text().splitlines() if "import" in line
    )


def test_unwritable_places_and_missing_extras(tmp_path, monkeypatch):
    net = af.compile("x^2", {"x": (-1, 1)}, 1e-2)
    for name in FORMATS:
        with pytest.raises(af.FileFormatError, match="writable place"):
            getattr(af.export, name)(net, tmp_path / "no" / "such" / "place")
    assert list(tmp_path.iterdir()) == []
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(af.RefusalError, match=r"pip install 'attnforge\[onnx\]'"):
        af.export.onnx(net, tmp_path / "x.onnx")
    with pytest.raises(AttributeError, match="vhdl"):
        af.export.vhdl  # noqa: B018
