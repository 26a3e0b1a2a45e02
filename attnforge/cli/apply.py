"""``attnforge apply``: run a saved model on the points of a file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from attnforge.cli.destination import check_destination, write
from attnforge.cli.model import read_model
from attnforge.cli.options import AsJson, ModelFile
from attnforge.cli.screen import note, print_json, progress
from attnforge.errors import CertificateError

if TYPE_CHECKING:
    from attnforge import Compiled
    from attnforge.cli.points import AnyArray

SCORES = 2**22  # attention scores held at a time: 32 MiB in float64

EPILOG = """\
Example:

\b
  attnforge apply f.safetensors points.csv
  attnforge apply f.safetensors points.npy -o values.npy
  printf 'x,y\\n0.5,1\\n' | attnforge apply f.safetensors -

CSV: one point a row; a header names the inputs in any order, without one they come in the model's order. The answer
repeats the inputs and adds the output. NPY: shape (..., d), or (..., n, d) for models that work on tokens; pickled
arrays are refused. So are NaN and points outside the certified domain, by row."""


def run(
    file: ModelFile,
    points: Annotated[Path, typer.Argument(metavar="INPUT", help="Points: .csv, .npy, or - for CSV from stdin.")],
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="FILE", help="Write .csv or .npy instead of CSV to stdout.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Run a saved model on a CSV or NPY file."""
    from attnforge.cli.point_files import read_points
    from attnforge.cli.points import check_points

    check_destination(output, "--output", (".csv", ".npy"))
    model = read_model(file)
    found = read_points(points, model)
    check_points(found, model)
    with progress("applying") as advance:
        values = _evaluate(model, found.values, advance)
    if output is not None:
        _write(output, model, found.values, values)
    if as_json:
        print_json(_data(file, points, output, model, values))
    elif output is None:
        from attnforge.cli.value_files import as_csv

        typer.echo(as_csv(found.values, values, model), nl=False)


def _evaluate(model: Compiled, points: AnyArray, advance: Callable[[float], None]) -> AnyArray:
    """The model's values, a batch at a time, so that memory does not grow with the file."""
    import numpy as np

    from attnforge.cli.points import check_shape

    shaped = check_shape(points, model)
    own = 1 if model.target.layout == "function" else 2
    leading, single = shaped.shape[:-own], shaped.shape[-own:]
    rows = shaped.reshape(-1, *single)
    batch = max(1, SCORES // max(1, model.anchors * (single[0] if own == 2 else 1)))
    parts = []
    for i in range(0, len(rows), batch):
        parts.append(np.asarray(model(rows[i : i + batch])))
        advance(min(1.0, (i + batch) / len(rows)))
    values = np.concatenate(parts)
    if not np.all(np.isfinite(values)):
        raise CertificateError(
            "A certified model has finite outputs", "NaN or infinity", "Certify it, or build it anew"
        )
    return values.reshape(*leading, *values.shape[1:])


def _write(output: Path, model: Compiled, points: AnyArray, values: AnyArray) -> None:
    from attnforge.cli.value_files import as_csv, as_npy

    npy = output.suffix.lower() == ".npy"
    write(output, as_npy(values) if npy else as_csv(points, values, model).encode(), "--output")
    note(f"wrote {values.size:,} value{'s' * (values.size != 1)} to {output}")


def _data(file: Path, points: Path, output: Path | None, model: Compiled, values: AnyArray) -> dict[str, Any]:
    from attnforge.cli.points import input_names

    where: dict[str, Any] = {"values": values.tolist()} if output is None else {"output": str(output)}
    names = None if model.target.layout == "tokens" else list(input_names(model))
    shape = list(values.shape)
    bound = model.certificate.bound
    return {"file": str(file), "input": str(points), "inputs": names, "bound": bound, "shape": shape} | where
