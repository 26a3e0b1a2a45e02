import json
from pathlib import Path

import numpy as np
import pytest

import attnforge as af

CLAMP = "clamp(2*x + 0.3*y - 1, -1, 1)"


def test_report_and_saved_model_agree(run, tmp_path: Path) -> None:
    file = tmp_path / "f.safetensors"
    result = run("compile", CLAMP, "--domain", "x=-1:1", "--domain", "y=0:2", "--tol", "1e-6", "-o", file)
    assert result.exit_code == 0
    net = af.load(file)
    assert net.certificate.bound <= 1e-6
    assert f"<= {net.certificate.bound:.4g} on the whole domain" in result.stdout
    assert "x in [-1, 1], y in [0, 2]" in result.stdout
    assert f"wrote {file}" in result.stderr


def test_registers_stand_on_lines_of_their_own(run) -> None:
    lines = run("compile", "x*y*z", "--domain", "x=0:1,y=0:1,z=0:1", "--tol", "1e-3").stdout.splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("registers"))
    assert [line.split()[0] for line in lines[start + 1 : start + 3]] == ["r[4]", "r[5]"]
    assert lines[start + 3].startswith("parameters")


def test_a_function_of_a_prompt(run) -> None:
    words = ["tokens.mean(y*exp(-(x - q)^2))/tokens.mean(x^2)", "--domain", "x=-1:1,y=0:1,q=0:1", "--tol", "1e-6"]
    options = ["--query", "q", "--tokens", 1000, "--given", "tokens.mean(x^2)=0.3:"]
    data = json.loads(run("compile", *words, *options, "--json").stdout)
    assert data["certificate"]["bound"] <= 1e-6
    assert "at most 1,000 tokens in the box, with 0.3 <= tokens.mean(x^2)" in " ".join(
        data["certificate"]["assumptions"]
    )
    assert "tokens.mean(x^2)" in run("compile", *words, "--query", "q").stderr
    wrong = run("compile", *words, "--given", "tokens.mean(x^2)>0.3")
    assert wrong.exit_code == 2
    assert "MEANS=LOW:HIGH" in wrong.stderr


def test_json_is_the_whole_of_stdout_and_exact(run, tmp_path: Path) -> None:
    file = tmp_path / "f.safetensors"
    result = run(
        "compile", CLAMP, "--domain", "x=-1:1,y=0:2", "--construction", "truncated_linear", "-o", file, "--json"
    )
    data, net = json.loads(result.stdout), af.load(file)
    assert data["certificate"]["bound"] == net.certificate.bound <= data["tol"] == 1e-3
    assert data["domain"] == {"names": ["x", "y"], "lower": [-1, 0], "upper": [1, 2]}
    assert (data["construction"], data["anchors"], data["file"]) == ("truncated_linear", net.anchors, str(file))


def test_options_reach_the_compiler(run) -> None:
    words = ["clamp(x, 0, 1)", "--domain", "x=-1:1", "--dtype", "float32", "--construction", "truncated_linear"]
    data = json.loads(run("compile", *words, "--json").stdout)
    assert data["dtype"] == "float32"
    refused = run("compile", *words, "--max-anchors", data["anchors"] - 1)
    assert refused.exit_code == 3
    assert f"max_anchors={data['anchors'] - 1}" in refused.stderr
    assert run("compile", *words, "--max-anchors", data["anchors"]).exit_code == 0


@pytest.mark.parametrize(
    "words", [["-x + 0.5", "--domain", "x=-1:1", "--json"], ["--json", "--domain", "x=-1:1", "-2*x"]]
)
def test_an_expression_may_begin_with_a_minus(run, words: list[str]) -> None:
    assert json.loads(run("compile", *words).stdout)["target"] in words


def test_columns_are_counted_from_the_minus(run) -> None:
    assert "column 3" in run("compile", "-x$", "--domain", "x=-1:1").stderr


def test_constants_in_domains(run) -> None:
    data = json.loads(run("compile", "sin(x)", "--domain", "x=-pi:pi", "--tol", "1e-2", "--json").stdout)
    assert data["domain"] == {"names": ["x"], "lower": [-np.pi], "upper": [np.pi]}


def test_several_formulas_are_outputs(run, tmp_path: Path) -> None:
    file = tmp_path / "f.safetensors"
    result = run("compile", "sin(x)", "-x*y", "--domain", "x=-1:1,y=0:1", "-o", file)
    assert result.exit_code == 0
    net = af.load(file)
    assert net.certificate.status == "proved"
    assert np.abs(net(x=0.5, y=0.25) - [np.sin(0.5), -0.125]).max() <= net.certificate.bound <= 1e-3


@pytest.mark.parametrize(("suffix", "magic"), [("png", b"\x89PNG"), ("pdf", b"%PDF"), ("svg", b"<?xml")])
def test_figures_in_the_format_their_name_says(run, tmp_path: Path, suffix: str, magic: bytes) -> None:
    figure = tmp_path / f"f.{suffix}"
    result = run("compile", "clamp(x, 0, 1)", "--domain", "x=-1:1", "--figure", figure)
    assert figure.read_bytes().startswith(magic)
    assert f"wrote {figure}" in result.stderr
    assert "not saved: add -o" in result.stderr


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["x"], "Missing option '--domain'"),
        (["x", "--domain", "x=-1:1", "--tol", "0"], "must be a positive number. Got 0.0"),
        (["x", "--domain", "x=-1:1", "--tol", "nan"], "must be a positive number. Got nan"),
        (["x", "--domain", "x=-1:1", "--dtype", "float8"], "float8"),
        (["x", "--domain", "x=-1:1", "--construction", "magic"], "auto, gate"),
        (["x", "--domain", "x=1:-1"], "lower <= upper"),
        (["x", "--domain", "y=-1:1"], "x in the formula, y in the domain"),
        (["x +", "--domain", "x=-1:1"], "column 4"),
        (["x", "--domain", "x=-1:1", "-o", "/"], "Got the directory /"),
        (["x", "--domain", "x=-1:1", "-o", "no/such/f"], "Create no/such first"),
        (["x", "--domain", "x=-1:1", "--figure", "f.gif"], ".png or .svg or .pdf"),
        (["x", "--domain", "x=-1:1", "-o", "f.pt"], "must end in .safetensors or .onnx. Got f.pt"),
        (["x", "--domain", "x=-1:1", "--tool", "1"], "No such option: --tool"),
    ],
)
def test_wrong_usage_or_input_is_code_2(run, words: list[str], complaint: str) -> None:
    result = run("compile", *words)
    assert result.exit_code == 2
    assert complaint in result.stderr
    assert result.stdout == ""


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["sin(8*x)", "--domain", "x=-1:1", "--tol", "1e-16"], "A tolerance must exceed rounding"),
        (["clamp(x, 0, 1)", "--domain", "x=-1:1", "--tol", "1e-30"], "No construction reached tol=1e-30"),
        (["clamp(x, 0, 1)", "--domain", "x=-1:1", "--tol", "1e-9", "--dtype", "float16"], "float16"),
    ],
)
def test_a_refusal_is_code_3(run, words: list[str], complaint: str) -> None:
    result = run("compile", *words)
    assert result.exit_code == 3
    assert result.stderr.startswith("refused: ")
    assert complaint in result.stderr


def test_networks_in_onnx_files(run, tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx", reason="the extra onnx is not installed")
    helper, numbers = onnx.helper, np.array([[1.0, -1.0], [0.5, 2.0]], dtype=np.float32)
    x, y = (helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["N", 2]) for name in "xy")
    nodes = [helper.make_node("MatMul", ["x", "W"], ["h"]), helper.make_node("Relu", ["h"], ["y"])]
    graph = helper.make_graph(nodes, "g", [x], [y], [onnx.numpy_helper.from_array(numbers, "W")])
    file = tmp_path / "net.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)]), file)
    result = run("compile", str(file), "--domain", "a=-1:1,b=-1:1", "--tol", "1e-6", "--json")
    assert result.exit_code == 0
    assert json.loads(result.stdout)["construction"] == "relu_network"
    assert "no file" in run("compile", str(tmp_path / "missing.onnx"), "--domain", "x=-1:1").stderr


def test_a_cluster_that_does_not_answer_is_refused(run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("attnforge.parallel.PATIENCE", 0.5)
    result = run("compile", "relu(x)", "--domain", "x=-1:1", "--cluster", "tcp://127.0.0.1:1")
    assert result.exit_code != 0
    assert "address of a Dask scheduler" in result.stderr
