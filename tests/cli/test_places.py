"""Files that are no models, places that cannot be written: every verb says so in a line, and leaves nothing behind."""

from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save

READERS = {
    "inspect": (),
    "certify": (),
    "certify --check": (),
    "measure": (),
    "diagnose": (),
    "apply": ("points.csv",),
    "report": ("-o", "made.html"),
    "export": ("--to", "onnx", "-o", "made"),
}
COMPILE = ("compile", "x^2", "--domain", "x=-1:1", "--tol", "0.1")
WRITERS = {
    "compile": (".safetensors", lambda model, goal: (*COMPILE, "-o", goal)),
    "compile, exported": (".onnx", lambda model, goal: (*COMPILE, "-o", goal)),
    "compile, a figure": (".png", lambda model, goal: (*COMPILE, "--figure", goal)),
    "apply": (".csv", lambda model, goal: ("apply", model, model.parent / "points.csv", "-o", goal)),
    "report": (".html", lambda model, goal: ("report", model, "-o", goal)),
    "export to a file": (".onnx", lambda model, goal: ("export", model, "--to", "onnx", "-o", goal)),
    "export to a folder": ("", lambda model, goal: ("export", model, "--to", "torch", "-o", goal)),
}


@pytest.fixture(autouse=True)
def _points(model):
    (model.parent / "points.csv").write_text("x\n0.5\n", "utf-8")


def spoilt(model, folder):
    """Files that are no models, each in a way of its own."""
    data = model.read_bytes()
    made = {
        "empty": b"",
        "text": b"not a model",
        "cut short": data[: len(data) // 2],
        "header too long": b"\xff" * 8 + data[8:],
        "no JSON": data[:8] + b"[" * 100 + data[108:],
        "tensors alone": save({"weight": np.ones(3)}),
    }
    for name, content in made.items():
        (folder / f"{name}.safetensors").write_bytes(content)
    (folder / "folder.safetensors").mkdir()
    return [folder / f"{name}.safetensors" for name in (*made, "folder", "none")]


def said(result):
    """The words of a refusal, which is no crash."""
    assert result.exit_code in (2, 5), result.output
    assert isinstance(result.exception, SystemExit)
    assert "Traceback" not in result.output
    assert result.stderr.strip()
    return result.stderr.replace("\n", " ")


@pytest.mark.parametrize("verb", READERS)
def test_what_is_no_model_is_refused_in_a_line(run, model, tmp_path, monkeypatch, verb):
    words, options = verb.split(), READERS[verb]
    monkeypatch.chdir(tmp_path)
    (tmp_path / "points.csv").write_text("x\n0.5\n", "utf-8")
    assert run(words[0], model, *words[1:], *options).exit_code == 0  # an intact one is taken
    for path in tmp_path.glob("made*"):
        path.unlink()
    files = spoilt(model, tmp_path)
    before = sorted(path.name for path in tmp_path.iterdir())
    for file in files:
        said(run(words[0], file, *words[1:], *options))
    assert sorted(path.name for path in tmp_path.iterdir()) == before


@pytest.mark.parametrize("verb", WRITERS)
@pytest.mark.parametrize("place", ["no/such/place", "file/below", "folder"])
def test_places_that_cannot_be_written(run, model, tmp_path, verb, place):
    suffix, words = WRITERS[verb]
    (tmp_path / "file").write_bytes(b"mine")
    goal = tmp_path / f"{place}{suffix}"
    if place == "folder" and verb == "export to a folder":
        goal.write_bytes(b"mine")  # a file where a folder shall be
    elif place == "folder":
        goal.mkdir()
    before = sorted(tmp_path.rglob("*"))
    said(run(*words(model, goal)))
    assert sorted(tmp_path.rglob("*")) == before
    assert (tmp_path / "file").read_bytes() == b"mine"


@pytest.mark.parametrize("verb", WRITERS)
def test_a_disk_that_is_full_or_an_interrupt_leaves_what_was_there(run, model, tmp_path, monkeypatch, verb):
    suffix, words = WRITERS[verb]
    goal = tmp_path / f"made{suffix}"
    assert run(*words(model, goal)).exit_code == 0
    contents = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    for error in (OSError(28, "No space left on device"), KeyboardInterrupt()):

        def fail(*_, error=error):
            raise error

        with monkeypatch.context() as patch:
            for name in ("rename", "replace"):
                patch.setattr(Path, name, fail)
            patch.setattr("os.replace", fail)
            for place in (goal, tmp_path / f"new{suffix}"):
                found = run(*words(model, place))
                if isinstance(error, OSError):
                    assert "No space left" in said(found)
                else:
                    assert found.exit_code == 130
        assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == contents
