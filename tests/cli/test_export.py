import numpy as np

import attnforge as af


def test_a_saved_model_in_every_format(run, tmp_path) -> None:
    net = af.compile("sin(3*x)", {"x": (-1, 1)}, 1e-4)
    net.save(tmp_path / "f.safetensors")
    for name, output in (("onnx", "f.onnx"), ("torch", "f_torch"), ("jax", "f_jax")):
        result = run("export", tmp_path / "f.safetensors", "--to", name, "-o", tmp_path / output)
        assert result.exit_code == 0
        assert "wrote" in result.stderr
    import onnxruntime

    session = onnxruntime.InferenceSession(tmp_path / "f.onnx")
    (found,) = session.run(None, {"x": np.array([[0.25]])})
    np.testing.assert_allclose(found, [net(0.25)], atol=1e-13)
    assert (tmp_path / "f_torch/weights.pt").exists()


def test_wrong_formats_and_places(run, tmp_path) -> None:
    af.compile("x", {"x": (-1, 1)}, 1e-2).save(tmp_path / "f.safetensors")
    assert run("export", tmp_path / "f.safetensors", "--to", "vhdl", "-o", "f").exit_code == 2
    refused = run("export", tmp_path / "f.safetensors", "--to", "onnx", "-o", tmp_path / "no" / "f.onnx")
    assert refused.exit_code != 0
    assert "writable place" in refused.stderr
