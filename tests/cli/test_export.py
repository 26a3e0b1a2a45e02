import sys

import numpy as np

import attnforge as af
from attnforge.cli.failure import ExitCode
from attnforge.export import FORMATS
from attnforge.export.formats import Format
from attnforge.export.interface import write_file
from scripts.tables import TABLES


def test_a_saved_model_in_every_format(run, tmp_path) -> None:
    net = af.compile("sin(3*x)", {"x": (-1, 1)}, 1e-4)
    net.save(tmp_path / "f.safetensors")
    formats = (("onnx", "f.onnx"), ("torch", "f_torch"), ("jax", "f_jax"), ("transformer-lens", "f_lens"))
    formats = (*formats, ("vnnlib", "f_vnnlib"))
    for name, output in formats:
        result = run("export", tmp_path / "f.safetensors", "--to", name, "-o", tmp_path / output)
        assert result.exit_code == 0
        assert "wrote" in result.stderr
    import onnxruntime

    session = onnxruntime.InferenceSession(tmp_path / "f.onnx")
    (found,) = session.run(None, {"x": np.array([[0.25]])})
    np.testing.assert_allclose(found, [net(0.25)], atol=1e-13)
    for folder in ("f_torch", "f_lens"):
        assert (tmp_path / folder / "weights.pt").exists()
    assert (tmp_path / "f_vnnlib" / "instances.csv").read_text().startswith("network.onnx,vnnlib/range_1.vnnlib,")


def test_wrong_formats_and_places(run, tmp_path) -> None:
    af.compile("x", {"x": (-1, 1)}, 1e-2).save(tmp_path / "f.safetensors")
    wrong = run("export", tmp_path / "f.safetensors", "--to", "vhdl", "-o", "f")
    assert wrong.exit_code == 2
    assert "must be one of onnx, torch, jax" in wrong.stderr
    refused = run("export", tmp_path / "f.safetensors", "--to", "onnx", "-o", tmp_path / "no" / "f.onnx")
    assert refused.exit_code == ExitCode.WRONG_INPUT
    assert "writable place" in refused.stderr
    malformed = tmp_path / "malformed.safetensors"
    malformed.write_bytes(b"not a model")
    refused = run("export", malformed, "--to", "torch", "-o", tmp_path / "f_torch")
    assert refused.exit_code == ExitCode.UNREADABLE
    assert not (tmp_path / "f_torch").exists()


def test_missing_extras_are_told_before_the_model_is_read(run, tmp_path, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "onnx", None)
    for words in (("export", "no.safetensors", "--to", "onnx"), ("compile", "x", "--domain", "x=-1:1")):
        refused = run(*words, "-o", tmp_path / "f.onnx")
        assert "pip install 'attnforge[onnx]'" in refused.stderr.replace("\n", " ")
        assert refused.exit_code == ExitCode.REFUSED


def test_compile_exports_by_the_ending(run, tmp_path) -> None:
    words = ("compile", "sin(3*x)", "--domain", "x=-1:1", "--tol", "1e-4")
    assert run(*words, "-o", tmp_path / "f.ONNX").exit_code == 0
    import onnxruntime

    (found,) = onnxruntime.InferenceSession(tmp_path / "f.ONNX").run(None, {"x": np.array([[0.25]])})
    assert abs(found[0] - np.sin(0.75)) < 1e-4
    wrong = run(*words, "-o", tmp_path / "f.pt")
    assert wrong.exit_code == 2
    told = " ".join(wrong.stderr.split())
    assert "must end in .safetensors or .onnx" in told
    assert "Folders (torch, jax" in told
    half = run(*words, "--dtype", "bfloat16", "-o", tmp_path / "f.onnx")
    assert half.exit_code == ExitCode.REFUSED
    assert "float64 or float32" in half.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["f.ONNX"]


def test_a_format_is_a_file_and_a_record(run, tmp_path, monkeypatch) -> None:
    """A toy one: its name is the function's, the shell's, and, as it writes a file, the ending's."""

    def key_count(model, path, dtype=None):
        write_file(path, str(model.anchors).encode())

    record = Format("key_count", lambda: key_count, "a file", "nothing", "nothing", "nothing", suffix=".count")
    monkeypatch.setitem(FORMATS, record.name, record)
    net = af.compile("x^2", {"x": (-1, 1)}, 1e-2)
    net.save(tmp_path / "f.safetensors")
    af.export.key_count(net, tmp_path / "called")
    assert run("export", tmp_path / "f.safetensors", "--to", "key-count", "-o", tmp_path / "exported").exit_code == 0
    assert run("compile", "x^2", "--domain", "x=-1:1", "--tol", 1e-2, "-o", tmp_path / "f.count").exit_code == 0
    read = [(tmp_path / name).read_text() for name in ("called", "exported", "f.count")]
    assert read == [str(net.anchors)] * 3
    assert "| `key-count` | a file | nothing |" in TABLES["formats"]()
