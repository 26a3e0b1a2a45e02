"""Files of an experiment: written in one step, the same bytes for the same results."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from attnforge.errors import TargetError

DOTS = 200  # an inch of a PNG
KINDS: dict[str, dict[str, Any]] = {  # no dates: the same figure is the same file
    "svg": {"metadata": {"Date": None}},
    "pdf": {"metadata": {"CreationDate": None}},
    "png": {"dpi": DOTS},
}
SHOWN = ("png",)  # by the verdicts
LOOK: dict[Any, Any] = {
    "svg.hashsalt": "attnforge",
    "pdf.fonttype": 42,
}  # ids that do not change; letters that editors can edit


def write_text(path: Path, text: str) -> None:
    """Replace the file in one step."""
    _write(path, text.encode("utf-8"))


def check_formats(formats: Sequence[str]) -> None:
    """Raise unless every format is one that figures are written in."""
    unknown = [kind for kind in formats if kind not in KINDS]
    if unknown or not formats:
        got = ", ".join(map(repr, unknown)) or "none"
        raise TargetError(f"`formats` must be some of {', '.join(KINDS)}", got, "Leave it out for PNG")


def save_figure(figure: Any, path: Path, formats: Sequence[str] = SHOWN) -> None:
    """The figure in some formats, by default the one that pages show; the path has no suffix."""
    import matplotlib

    for kind, options in ((kind, KINDS[kind]) for kind in formats):
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
