"""Files that are no models, places that cannot be written: every verb says so in a line, and leaves nothing behind."""

import pytest

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
        "tensors alone": shortest(),
    }
    for name, content in made.items():
        (folder / f"{name}.safetensors").write_bytes(content)
    (folder / "folder.safetensors").mkdir()
    return [
        *(folder / f"{name}.safetensors" for name in made),
        folder / "folder.safetensors",
        folder / "none.safetensors",
    ]


def shortest():
    import numpy as np
    from safetensors.numpy import save

    return save({"weight": np.ones(3)})


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
        found = run(words[0], file, *words[1:], *options)
        assert found.exit_code in (2, 5), (file.name, found.output)
        assert "Traceback" not in found.output
        assert found.stderr.strip(), file.name
        assert isinstance(found.exception, SystemExit), file.name
    assert sorted(path.name for path in tmp_path.iterdir()) == before


@pytest.mark.parametrize("verb", WRITERS)
@pytest.mark.parametrize("place", ["no/such/place", "file/below", "folder"])
def test_places_that_cannot_be_written(run, model, tmp_path, verb, place):
    suffix, words = WRITERS[verb]
    (tmp_path / "file").write_bytes(b"mine")
    goal = tmp_path / f"{place}{suffix}"
    if place.startswith("folder"):
        if verb == "export to a folder":
            goal.write_bytes(b"mine")  # a file where a folder shall be
        else:
            goal.mkdir()
    before = sorted(tmp_path.rglob("*"))
    found = run(*words(model, goal))
    assert found.exit_code in (2, 5), found.output
    assert "Traceback" not in found.output
    assert found.stderr.strip()
    assert sorted(tmp_path.rglob("*")) == before
    assert (tmp_path / "file").read_bytes() == b"mine"


@pytest.mark.parametrize("verb", WRITERS)
def test_a_disk_that_is_full_leaves_what_was_there(run, model, tmp_path, monkeypatch, verb):
    """Or nothing, where nothing was."""
    from pathlib import Path

    suffix, words = WRITERS[verb]
    goal = tmp_path / f"made{suffix}"
    assert run(*words(model, goal)).exit_code == 0
    contents = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}

    def full(self, *given):
        raise OSError(28, "No space left on device")

    for name in ("rename", "replace"):
        monkeypatch.setattr(Path, name, full)
    monkeypatch.setattr("os.replace", full)
    found = run(*words(model, goal))
    monkeypatch.undo()
    assert found.exit_code in (2, 5), found.output
    assert "No space left" in found.stderr.replace("\n", " ")
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == contents
