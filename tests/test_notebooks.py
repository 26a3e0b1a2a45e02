"""The tutorials run from top to bottom, and what is stored of them is what they show."""

from itertools import groupby
from pathlib import Path

import nbformat
import pytest

from scripts.notebooks import FOLDER, executed

CHECKOUT = Path(__file__).resolve().parents[1]
BOOKS = sorted(FOLDER.glob("*.ipynb"))


def shown(book):
    """Of every cell of code, the kinds of its outputs: texts, images, tables; how a stream was cut does not count."""
    return [
        [kind for kind, _ in groupby(sorted(out.get("data", {out.output_type: ""})) for out in cell.outputs)]
        for cell in book.cells
        if cell.cell_type == "code"
    ]


@pytest.mark.slow
@pytest.mark.parametrize("path", BOOKS, ids=lambda path: path.stem)
def test_a_tutorial_runs_and_shows_what_is_stored(path, monkeypatch):
    monkeypatch.delenv("MPLBACKEND", raising=False)  # notebooks choose their own
    monkeypatch.setenv("PYTHONPATH", str(CHECKOUT))
    stored = nbformat.read(path, as_version=4)
    assert any(cell.outputs for cell in stored.cells if cell.cell_type == "code")
    assert shown(executed(path)) == shown(stored)


@pytest.mark.parametrize("path", BOOKS, ids=lambda path: path.stem)
def test_a_tutorial_is_small_and_says_nothing_of_the_machine(path):
    text = path.read_text("utf-8")
    assert len(text) < 2_000_000
    assert not any(place in text for place in ("/tmp/", "/home/", "/root/", str(CHECKOUT)))
    outputs = [output for cell in nbformat.reads(text, 4).cells for output in cell.get("outputs", [])]
    assert not [output for output in outputs if output.get("name") == "stderr"]
