import json

import pytest

import attnforge as af
from attnforge.cli.failure import ExitCode


def test_the_list(run) -> None:
    rows = run("zoo", "list").stdout.splitlines()
    assert rows[0].split() == ["name", "kind", "keys", "inputs", "computes"]
    assert len(rows) == 1 + len(af.zoo.list())
    data = json.loads(run("zoo", "list", "--kind", "kernel", "--json").stdout)
    assert [each["name"] for each in data["networks"]] == ["nadaraya_watson", "softmax_kernel"]
    assert data["networks"][0]["size"]["heads"] == 1


def test_a_network_is_told_saved_and_found_again(run, tmp_path) -> None:
    result = run("zoo", "get", "gate", "-o", tmp_path / "gate.safetensors")
    assert result.exit_code == 0, result.output
    assert "mechanism    three keys, low, self and high" in result.stdout
    assert "certificate  proved" in result.stdout
    assert "L0H0 gate <- x0, x1" in result.stdout
    assert "wrote" in result.stderr
    assert af.load(tmp_path / "gate.safetensors").certificate.digest == af.zoo.get("gate").certificate.digest


def test_as_data(run) -> None:
    data = json.loads(run("zoo", "get", "induction", "--json").stdout)
    assert data["certificate"]["status"] == "proved"
    assert [node["formula"] for node in data["causal_graph"]["nodes"] if node["kind"] == "head"] == ["previous", "next"]


@pytest.mark.parametrize(("name", "to"), [("gate", "torch"), ("histogram", "torch")])
def test_exported(run, tmp_path, name: str, to: str) -> None:
    result = run("zoo", "get", name, "--to", to, "-o", tmp_path / "out")
    assert result.exit_code == 0, result.output
    assert (tmp_path / "out" / "model.py").exists()


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (("lorens",), ExitCode.WRONG_INPUT, "Did you mean lorenz"),
        (("gate", "--to", "torch"), ExitCode.WRONG_INPUT, "Add -o PATH"),
        (("gate", "--to", "vhdl", "-o", "f"), ExitCode.WRONG_INPUT, "must be one of onnx"),
        (("gate", "-o", "f.docx"), ExitCode.WRONG_INPUT, "must end in .safetensors"),
        (("histogram", "-o", "f.safetensors"), ExitCode.REFUSED, "holds Python functions"),
    ],
)
def test_refused(run, tmp_path, monkeypatch, words: tuple[str, ...], code: ExitCode, text: str) -> None:
    monkeypatch.chdir(tmp_path)
    result = run("zoo", "get", *words)
    assert result.exit_code == code
    assert text in " ".join(result.stderr.split())
    assert not list(tmp_path.iterdir())
