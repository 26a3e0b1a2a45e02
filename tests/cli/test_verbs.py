"""The other verbs: ``bench``, ``constructions``, ``explore``, ``export``, ``report`` and ``zoo``."""

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import httpx
import numpy as np
import pytest

import attnforge as af

CHECKOUT = Path(__file__).resolve().parents[2]


def test_every_benchmark_is_listed_and_has_a_quick_run(data) -> None:
    listed = data("bench", "--list")["benchmarks"]
    assert listed
    assert all(listed.values())
    assert all('"--quick"' in (CHECKOUT / f"benchmarks/{name}.py").read_text() for name in listed)


def test_benchmarks_are_run_by_one_thread_and_failures_are_told(run, data, tmp_path, monkeypatch, capfd) -> None:
    monkeypatch.setattr("attnforge.cli.bench.FOLDER", tmp_path)
    monkeypatch.setattr("attnforge.cli.bench.SCRIPTS", ("toy", "broken"))
    (tmp_path / "toy.py").write_text(
        '"""A toy."""\nimport os, sys\nprint(sys.argv[1:], os.environ["OMP_NUM_THREADS"])\n'
    )
    (tmp_path / "broken.py").write_text('"""Fails."""\nraise SystemExit(3)\n')
    assert run("bench", "toy", "--quick").exit_code == 0
    assert "['--quick'] 1" in capfd.readouterr().out
    assert list(data("bench", "toy")["seconds"]) == ["toy"]
    assert run("bench", "broken").exit_code == 1
    assert run("bench", "nonsense").exit_code == 2
    monkeypatch.setattr("attnforge.cli.bench.FOLDER", tmp_path / "absent")
    assert run("bench").exit_code != 0


def test_every_construction_has_a_line(run, data) -> None:
    header, *lines = run("constructions").stdout.splitlines()
    told = data("constructions")["constructions"]
    assert header.split() == ["name", "function", "class", "rate", "reference"]
    for line, entry in zip(lines, told, strict=True):
        assert [entry[key] in line for key in ("name", "function_class", "rate", "reference")] == [True] * 4


def test_the_explorer_answers_and_ends_with_the_interrupt() -> None:
    command = [sys.executable, "-m", "attnforge", "explore", "--port", "0", "--no-browser", "--json"]
    surroundings = {**os.environ, "PYTHONPATH": str(CHECKOUT)}
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "env": surroundings}
    with subprocess.Popen(command, **streams) as server:
        told = ""
        while not told.endswith("}\n"):
            told += server.stdout.readline()
        address = next(word for word in told.split('"') if word.startswith("http://127.0.0.1:"))
        assert "attnforge" in httpx.get(address, timeout=60).text
        server.send_signal(signal.SIGINT)
        assert "Traceback" not in server.communicate(timeout=60)[1]


def test_what_the_explorer_cannot_do_is_refused_at_once(run, tmp_path: Path, monkeypatch) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        assert run("explore", "--port", taken.getsockname()[1], "--no-browser").exit_code == 2
    for words in (("page.png",), ("page.html", "--domain", "x"), ("page.html", "--domain", "x=0:1,y=0:1")):
        assert run("explore", "--export", tmp_path / words[0], *words[1:]).exit_code == 2
    assert not list(tmp_path.iterdir())
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    assert "attnforge[web]" in run("explore", "--port", "0", "--no-browser").stderr


def test_a_saved_model_in_every_format(run, tmp_path: Path) -> None:
    net = af.compile("sin(3*x)", {"x": (-1, 1)}, 1e-4)
    net.save(tmp_path / "f.safetensors")
    made = {"onnx": "f.onnx", "torch": "f_torch", "jax": "f_jax", "transformer-lens": "f_lens", "vnnlib": "f_vnnlib"}
    for name, output in made.items():
        result = run("export", tmp_path / "f.safetensors", "--to", name, "-o", tmp_path / output)
        assert (result.exit_code, (tmp_path / output).exists()) == (0, True)
    words = ("compile", "sin(3*x)", "--domain", "x=-1:1", "--tol", "1e-4", "-o")
    assert run(*words, tmp_path / "made.ONNX").exit_code == 0
    onnx = pytest.importorskip("onnxruntime")
    for path in ("f.onnx", "made.ONNX"):
        (found,) = onnx.InferenceSession(tmp_path / path).run(None, {"x": np.array([[0.25]])})
        np.testing.assert_allclose(found, [net(0.25)], atol=1e-13)
    assert run(*words, tmp_path / "half.onnx", "--dtype", "bfloat16").exit_code == 3
    assert run("export", tmp_path / "f.safetensors", "--to", "vhdl", "-o", "f").exit_code == 2


def test_missing_extras_are_told_before_the_model_is_read(run, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "onnx", None)
    for words in (("export", "no.safetensors", "--to", "onnx"), ("compile", "x", "--domain", "x=-1:1")):
        refused = run(*words, "-o", tmp_path / "f.onnx")
        assert (refused.exit_code, "attnforge[onnx]" in refused.stderr) == (3, True)


def test_a_report_is_one_page_the_same_every_time(run, data, model: Path, overflowing: Path, tmp_path: Path) -> None:
    assert run("report", model, "--no-timing").exit_code == 0
    first = model.with_suffix(".html").read_text("utf-8")
    model.with_suffix(".html").unlink()
    place = tmp_path / "report.html"
    place.write_text("old")  # replaced, as compile does
    told = data("report", model, "-o", place, "--no-timing")
    assert told == {"file": str(model), "report": str(place), "bytes": place.stat().st_size}
    assert place.read_text("utf-8") == first
    assert first.startswith("<!DOCTYPE html>")
    assert f"attnforge inspect {model.name}" in first
    assert data("report", model, "-o", place)["bytes"] > told["bytes"]  # with the times of this machine
    assert run("report", overflowing, "-o", place, "--no-timing").exit_code == 0  # NaN is a page, too
    assert run("report", model, "-o", tmp_path / "report.safetensors").exit_code == 2


def test_the_zoo_is_listed_told_saved_and_exported(run, data, tmp_path: Path) -> None:
    assert len(run("zoo", "list").stdout.splitlines()) == 1 + len(af.zoo.list())
    kernels = data("zoo", "list", "--kind", "kernel")["networks"]
    assert [each["name"] for each in kernels] == ["nadaraya_watson", "softmax_kernel"]
    told = run("zoo", "get", "gate", "-o", tmp_path / "gate.safetensors").stdout
    assert "L0H0 gate <- x0, x1" in told
    assert af.load(tmp_path / "gate.safetensors").certificate.digest == af.zoo.get("gate").certificate.digest
    nodes = data("zoo", "get", "induction")["causal_graph"]["nodes"]
    assert [node["formula"] for node in nodes if node["kind"] == "head"] == ["previous", "next"]
    for name in ("gate", "histogram"):
        assert run("zoo", "get", name, "--to", "torch", "-o", tmp_path / name).exit_code == 0
        assert (tmp_path / name / "model.py").exists()


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (("lorens",), 2, "lorenz"),
        (("gate", "--to", "torch"), 2, "-o"),
        (("gate", "--to", "vhdl", "-o", "f"), 2, "onnx"),
        (("gate", "-o", "f.docx"), 2, ".safetensors"),
    ],
)
def test_what_the_zoo_refuses(run, tmp_path, monkeypatch, words: tuple[str, ...], code: int, text: str) -> None:
    monkeypatch.chdir(tmp_path)
    result = run("zoo", "get", *words)
    assert (result.exit_code, text in " ".join(result.stderr.split())) == (code, True)
    assert not list(tmp_path.iterdir())
