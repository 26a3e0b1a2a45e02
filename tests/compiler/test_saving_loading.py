"""One file a model: the same outputs bit for bit, the same certificate, the same report."""

import numpy as np
import pytest

import attnforge as af

NETS = {
    "formula": lambda: af.compile("clamp(2*x + 0.3*y, -1, 1)", {"x": (-1, 1), "y": (-1, 1)}, 1e-2),
    "anchors": lambda: af.compile("relu(x)", {"x": (-1, 1)}, 1e-2, construction="truncated_linear"),
    "heads": lambda: af.constructions.multihead_truncated_linear([1.0, 0.5], 0.1, -1, 2, tokens=10, heads=4),
    "literal": lambda: af.constructions.truncated_linear(
        [[1.0, 0.5], [0.3, 0.1]], [0.1, 0.2], -1, 2, anchors=9, layout="literal"
    ),
    "literal heads": lambda: af.constructions.multihead_truncated_linear(
        [1.0, 0.5], 0.1, -1, 2, tokens=8, heads=2, layout="literal"
    ),
    "literal gate": lambda: af.constructions.gate([[1.0, 0.5]] * 3, 0.1, -1, 2, layout="literal"),
    "outputs": lambda: af.constructions.gate([1.0, 0.5], 0.1, -1, 2, output=1, outputs=3),
    "float32": lambda: af.constructions.truncated_linear([1.0, 0.5], 0.1, -1, 2, anchors=50, dtype="float32"),
    "bfloat16": lambda: af.constructions.truncated_linear([1.0, 0.5], 0.1, -1, 2, anchors=8, dtype="bfloat16"),
    "float16": lambda: af.constructions.gate([1.0, 0.5], 0.1, -1, 2, dtype="float16"),
}


def test_a_model_does_not_go_by_the_name_of_another_format(tmp_path):
    net = af.compile("clamp(x, 0, 1)", {"x": (-1, 2)}, 1e-3)
    with pytest.raises(af.FileFormatError, match=r"must not say otherwise.*f\.onnx"):
        net.save(tmp_path / "f.onnx")
    net.save(tmp_path / "f.SafeTensors")
    net.save(tmp_path / "f")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["f", "f.SafeTensors"]


@pytest.mark.parametrize("kind", NETS)
def test_round_trip(kind, tmp_path):
    net = NETS[kind]()
    net.save(tmp_path / "net.safetensors")
    again = af.load(tmp_path / "net.safetensors")
    assert again.certificate == net.certificate
    assert (again.construction, again.dtype, again.anchors) == (net.construction, net.dtype, net.anchors)
    assert again.report() == net.report()
    assert np.array_equal(again.domain.lower, net.domain.lower)
    box = (
        net.domain.fixed((net.network.tokens or 1, net.network.features))
        if net.target.layout == "tokens"
        else net.domain
    )
    x = np.random.default_rng(0).uniform(box.lower, box.upper, size=(200, *box.shape))
    assert np.array_equal(again(x), net(x))
    assert af.certify(again).bound == net.certificate.bound
    again.save(tmp_path / "again.safetensors")
    assert (tmp_path / "again.safetensors").read_bytes() == (tmp_path / "net.safetensors").read_bytes()


def test_names_survive(tmp_path):
    NETS["formula"]().save(tmp_path / "net")
    again = af.load(str(tmp_path / "net"))
    assert again.target.names == ("x", "y")
    assert again(x=0.25, y=0.0) == pytest.approx(0.5, abs=1e-2)
