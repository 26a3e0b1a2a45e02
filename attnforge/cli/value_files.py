"""Values of a model as CSV or NPY."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING

import numpy as np

from attnforge.cli.points import AnyArray, check_shape, input_names
from attnforge.cli.screen import line

if TYPE_CHECKING:
    from attnforge import Compiled


def as_npy(values: AnyArray) -> bytes:
    """The values alone, in the shape a call gives."""
    buffer = io.BytesIO()
    np.save(buffer, values, allow_pickle=False)
    return buffer.getvalue()


def as_csv(points: AnyArray, values: AnyArray, model: Compiled) -> str:
    """Inputs and outputs side by side; for tokens the outputs alone, one line a sequence. Every digit is kept."""
    shaped = check_shape(points, model)
    tokens = model.target.layout == "tokens"
    names = () if tokens else input_names(model)
    batch = shaped.ndim - (2 if tokens else 1)  # leading axes: one line for each of their entries
    outputs = _output_names(values.shape[batch:], names)
    rows = values.reshape(-1, len(outputs))
    if not tokens:
        rows = np.column_stack([shaped.reshape(-1, len(names)), rows])
    return _text([*map(line, names), *outputs], rows)


def _output_names(shape: tuple[int, ...], names: tuple[str, ...]) -> list[str]:
    """``output``, or ``output[0]`` and so on; never the name of an input."""
    stem = "output"
    while stem in names:
        stem += "_"
    return [f"{stem}{list(where)}" if where else stem for where in np.ndindex(*shape)]


def _text(header: list[str], rows: AnyArray) -> str:
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows.tolist())
    return buffer.getvalue()
