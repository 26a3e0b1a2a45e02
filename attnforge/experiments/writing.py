"""Files of an experiment: written in one step, the same bytes for the same results."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

DOTS = 200  # an inch of a PNG
KINDS: dict[str, dict[str, Any]] = {  # no dates: the same figure is the same file
    "svg": {"metadata": {"Date": None}},
    "pdf": {"metadata": {"CreationDate": None}},
    "png": {"dpi": DOTS},
}
LOOK: dict[Any, Any] = {
    "svg.hashsalt": "attnforge",
    "pdf.fonttype": 42,
}  # ids that do not change; letters that editors can edit


def write_text(path: Path, text: str) -> None:
    """Replace the file in one step."""
    _write(path, text.encode("utf-8"))


def save_figure(figure: Any, path: Path) -> None:
    """The figure as SVG, PDF and PNG; the path has no suffix."""
    import matplotlib

    for kind, options in KINDS.items():
        out = io.BytesIO()
        with matplotlib.rc_context(LOOK):
            figure.savefig(out, format=kind, **options)
        _write(path.with_name(f"{path.name}.{kind}"), out.getvalue())


def _write(path: Path, data: bytes) -> None:
    part = path.with_name(path.name + ".part")
    try:
        part.write_bytes(data)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)  # also where it was interrupted
