"""``attnforge compile`` and the main job: what is built, said, saved, drawn and refused."""

import re
from pathlib import Path

import numpy as np
import pytest

import attnforge as af

CLAMP = "clamp(2*x + 0.3*y - 1, -1, 1)"
LINE = ("--domain", "x=-1:1")


def test_report_data_and_saved_model_agree(run, data, tmp_path: Path) -> None:
    file = tmp_path / "f.safetensors"
    words = ("compile", CLAMP, "--domain", "x=-1:1", "--domain", "y=0:2", "--tol", "1e-6", "-o", file)
    result, told = run(*words), data(*words)
    net = af.load(file)
    assert told["certificate"]["bound"] == net.certificate.bound <= told["tol"] == 1e-6
    assert told["domain"] == {"names": ["x", "y"], "lower": [-1, 0], "upper": [1, 2]}
    assert (told["construction"], told["anchors"], told["file"]) == (net.construction, net.anchors, str(file))
    for part in (f"<= {net.certificate.bound:.4g}", "x in [-1, 1], y in [0, 2]"):
        assert part in result.stdout
    assert str(file) in result.stderr


def test_registers_stand_on_lines_of_their_own(run) -> None:
    lines = run("compile", "x*y*z", "--domain", "x=0:1,y=0:1,z=0:1", "--tol", "1e-3").stdout.splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("registers"))
    assert [line.split()[0] for line in lines[start + 1 : start + 3]] == ["r[4]", "r[5]"]


def test_a_function_of_a_prompt(run, data) -> None:
    words = ["tokens.mean(y*exp(-(x - q)^2))/tokens.mean(x^2)", "--domain", "x=-1:1,y=0:1,q=0:1", "--tol", "1e-6"]
    told = data("compile", *words, "--query", "q", "--tokens", 1000, "--given", "tokens.mean(x^2)=0.3:")
    assert told["certificate"]["bound"] <= 1e-6
    assert "1,000 tokens" in " ".join(told["certificate"]["assumptions"])
    assert "tokens.mean(x^2)" in run("compile", *words, "--query", "q").stderr  # which mean needs a bound
    assert run("compile", *words, "--given", "tokens.mean(x^2)>0.3").exit_code == 2


def test_options_reach_the_compiler(run, data) -> None:
    words = ["compile", "clamp(x, 0, 1)", *LINE, "--dtype", "float32", "--construction", "truncated_linear"]
    told = data(*words)
    assert told["dtype"] == "float32"
    assert run(*words, "--max-anchors", told["anchors"] - 1).exit_code == 3
    assert run(*words, "--max-anchors", told["anchors"]).exit_code == 0


def test_an_expression_may_begin_with_a_minus(run, data) -> None:
    assert data("compile", "-x + 0.5", *LINE)["target"] == "-x + 0.5"
    assert data("compile", *LINE, "-2*x")["target"] == "-2*x"
    assert "column 3" in run("compile", "-x$", *LINE).stderr


def test_several_formulas_are_outputs(run, tmp_path: Path) -> None:
    file = tmp_path / "f.safetensors"
    assert run("compile", "sin(x)", "-x*y", "--domain", "x=-1:1,y=0:1", "-o", file).exit_code == 0
    net = af.load(file)
    assert np.abs(net(x=0.5, y=0.25) - [np.sin(0.5), -0.125]).max() <= net.certificate.bound <= 1e-3


@pytest.mark.parametrize(("suffix", "magic"), [("png", b"\x89PNG"), ("pdf", b"%PDF"), ("svg", b"<?xml")])
def test_figures_in_the_format_their_name_says(run, tmp_path: Path, suffix: str, magic: bytes) -> None:
    figure = tmp_path / f"f.{suffix}"
    assert str(figure) in run("compile", "clamp(x, 0, 1)", *LINE, "--figure", figure).stderr
    assert figure.read_bytes().startswith(magic)


def test_networks_in_onnx_files(run, data, tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx", reason="the extra onnx is not installed")
    helper, numbers = onnx.helper, np.array([[1.0, -1.0], [0.5, 2.0]], dtype=np.float32)
    x, y = (helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["N", 2]) for name in "xy")
    nodes = [helper.make_node("MatMul", ["x", "W"], ["h"]), helper.make_node("Relu", ["h"], ["y"])]
    graph = helper.make_graph(nodes, "g", [x], [y], [onnx.numpy_helper.from_array(numbers, "W")])
    file = tmp_path / "net.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)]), file)
    told = data("compile", str(file), "--domain", "a=-1:1,b=-1:1", "--tol", "1e-6")
    assert told["construction"] == "relu_network"
    assert run("compile", str(tmp_path / "missing.onnx"), *LINE).exit_code == 5


@pytest.mark.parametrize(
    ("texts", "domain"),
    [
        (["x=-1e-3:-.5e-3", "y=+0:2"], {"x": (-1e-3, -0.5e-3), "y": (0, 2)}),
        ([" x = -1 : 1 , y=0:2"], {"x": (-1, 1), "y": (0, 2)}),
        (["x=-pi:pi,y=-pi/2:2*pi"], {"x": (-np.pi, np.pi), "y": (-np.pi / 2, 2 * np.pi)}),
        (["x=0:max(1, sqrt(4)),y=1e-3:1"], {"x": (0, 2), "y": (1e-3, 1)}),
    ],
)
def test_domains_are_read(data, texts: list[str], domain: dict[str, tuple[float, float]]) -> None:
    told = data("compile", f"0.5*({' + '.join(domain)})", *(word for text in texts for word in ("--domain", text)))
    assert told["domain"] == {
        "names": list(domain),
        "lower": [low for low, _ in domain.values()],
        "upper": [high for _, high in domain.values()],
    }


NO_DOMAINS = [
    "", "x", "x=1", "=0:1", "x=0:1,", "x=a:b", "x=0:1:2", "x=1_0:20", "x=\u0661:2", "-1:1", "x=0:x", "x=0:1/0",
    "x=0:max(1", "x=0:1,x=0:2", "x=1:-1", "y=-1:1",
]  # fmt: skip


WRONG = [
    ["x"], [], ["--table", "t.xlsx"], ["x", "--table", "t.csv"],
    *(["x", "--domain", text] for text in NO_DOMAINS),
    *(["x", *LINE, *words.split()] for words in (
        "--tol 0", "--tol nan", "--tol -1", "--dtype float8", "--construction magic", "-o /", "-o no/such/f",
        "--figure f.gif", "-o f.pt", "--tool 1", "--inputs x",
    )),
    ["x +", *LINE],
]  # fmt: skip


@pytest.mark.parametrize("words", WRONG, ids=" ".join)
def test_wrong_usage_or_input_is_code_2(run, tmp_path: Path, monkeypatch, words: list[str]) -> None:
    monkeypatch.chdir(tmp_path)
    result = run("compile", *words)
    assert result.exit_code == 2, result.output
    assert "error: " in result.stderr
    assert "Traceback" not in result.stderr
    assert result.stdout == ""
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "words",
    [
        ["sin(8*x)", "--tol", "1e-16"],
        ["clamp(x, 0, 1)", "--tol", "1e-30"],
        ["clamp(x, 0, 1)", "--tol", "1e-09", "--dtype", "float16"],
    ],
)
def test_a_refusal_is_code_3(run, words: list[str]) -> None:
    result = run("compile", *words, *LINE)
    assert result.exit_code == 3
    assert result.stderr.startswith("refused: ")
    assert words[2] in result.stderr


def test_a_cluster_is_asked_for_before_any_work(run, model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("attnforge.parallel.PATIENCE", 0.5)
    for words in (("compile", "relu(x)", *LINE), ("certify", model), ("certify", model, "--check")):
        result = run(*words, "--cluster", "tcp://127.0.0.1:1")
        assert result.exit_code == 2
        assert result.stdout == ""


def test_the_main_job_proves_a_bound_and_replaces_both_files(run, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "attnforge-demo.safetensors").write_text("old")
    result = run()
    assert result.exit_code == 0
    bound = float(re.search(r"proved: \|net\(x\) - f\(x\)\| <= (\S+) on the whole domain", result.stdout)[1])
    assert {path.name for path in tmp_path.iterdir()} == {"attnforge-demo.safetensors", "attnforge-demo.png"}
    assert (tmp_path / "attnforge-demo.png").read_bytes().startswith(b"\x89PNG")
    assert af.load("attnforge-demo.safetensors").certificate.bound == pytest.approx(bound, rel=1e-3)
    assert 0 < bound <= 1e-6


@pytest.mark.parametrize(("found", "name"), [("/usr/bin/attnforge", "attnforge"), (None, "'.venv x/bin/attnforge'")])
def test_the_main_job_says_what_to_do_next(run, tmp_path: Path, monkeypatch, found, name: str) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("shutil.which", lambda _: found)
    monkeypatch.setattr("sys.argv", [str(tmp_path / ".venv x/bin/attnforge")])
    assert f"  {name} inspect attnforge-demo.safetensors" in run().stdout


def test_a_directory_in_the_way_is_named_before_anything_is_written(run, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "attnforge-demo.png").mkdir()
    result = run()
    assert (result.exit_code, "attnforge-demo.png" in result.stderr) == (2, True)
    assert not (tmp_path / "attnforge-demo.safetensors").exists()
