"""Run the tutorials again and store what they show: ``.venv/bin/python scripts/notebooks.py [NAME ...]``.

Every notebook of ``docs/notebooks`` is executed from top to bottom in a fresh kernel, and written with its outputs.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import nbformat
from nbclient import NotebookClient

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "notebooks"
SECONDS = 300  # of one cell, on a busy machine


def executed(path: Path) -> nbformat.NotebookNode:
    """The notebook with the outputs of a fresh run; times, settings and warnings of libraries are left out."""
    book = nbformat.read(path, as_version=4)
    NotebookClient(
        book, timeout=SECONDS, startup_timeout=SECONDS, kernel_name="python3", coalesce_streams=True
    ).execute(cwd=str(FOLDER))
    book.metadata = {key: book.metadata[key] for key in ("kernelspec",) if key in book.metadata}
    for cell in book.cells:
        cell.metadata = {}
        if cell.cell_type == "code":
            cell.outputs = [output for output in cell.outputs if output.get("name") != "stderr"]
    return book


def main() -> None:
    """Execute all notebooks, or those named."""
    for path in sorted(FOLDER.glob("*.ipynb")):
        if sys.argv[1:] and path.stem not in sys.argv[1:]:
            continue
        started = time.perf_counter()
        nbformat.write(executed(path), path)
        print(f"{path.stem}: {time.perf_counter() - started:.0f} s")


if __name__ == "__main__":
    main()
