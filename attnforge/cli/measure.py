"""``attnforge measure``: search for the worst point of a saved model, and hold it against the bound."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated

import typer

from attnforge.cli.failure import ExitCode
from attnforge.cli.model import read_model
from attnforge.cli.options import AsJson, ModelFile
from attnforge.cli.screen import print_facts, print_json, progress

if TYPE_CHECKING:
    from attnforge import Compiled
    from attnforge.measurement import Measurement

MOST_POINTS = 10_000_000  # held in memory all at once

EPILOG = """\
Example:

\b
  attnforge measure f.safetensors --points 1000000
  attnforge measure f.safetensors --seed 7 --json

A measured error is a lower bound of the true one: it can refute a certificate, never replace it. Exit code 4: it does
exceed the stored bound."""


def run(
    file: ModelFile,
    points: Annotated[int, typer.Option(min=1, max=MOST_POINTS, help="How many random points.")] = 100_000,
    seed: Annotated[int, typer.Option(min=0, help="Of the random points.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Search for a saved model's largest error.

    It is run on random points and where such networks err most, and climbs from the worst points found.
    """
    from attnforge.compiler import measure

    model = read_model(file)
    with progress("measuring") as advance:
        found = measure(model, points=points, seed=seed, progress=advance)
    bound = model.certificate.bound
    within = None if bound is None else bool(found.sup <= bound)
    if as_json:
        _print_data(str(file), model, found, seed, within)
    else:
        _print_report(model, found, within)
    if within is False:
        raise typer.Exit(ExitCode.NOT_CONFIRMED)


def _print_report(model: Compiled, found: Measurement, within: bool | None) -> None:
    bound = model.certificate.bound
    facts = {
        "largest error found": f"{found.sup:.6g}",
        "at": _place(model, found),
        "rms error": f"{found.rms:.6g}",
        "evaluations": f"{found.points:,}",
        "stored bound": "none" if bound is None else f"{bound:.6g} ({model.certificate.status})",
        "verdict": _verdict(found.sup, bound, within),
    }
    print_facts(facts, {"verdict": "bold red" if within is False else "bold green"})


def _verdict(error: float, bound: float | None, within: bool | None) -> str:
    if bound is None or within is None:
        return "nothing to compare with: the file states no bound"
    if not within:
        return "ABOVE the bound: the stored certificate is wrong"
    return f"within the bound ({error / bound:.0%} of it)" if bound > 0 else "within the bound"


def _place(model: Compiled, found: Measurement) -> str:
    import numpy as np

    from attnforge.cli.points import input_names

    if found.at.ndim == 1 and found.at.size <= 8:
        return ", ".join(f"{name} = {value:.6g}" for name, value in zip(input_names(model), found.at, strict=True))

    return np.array2string(found.at, precision=6, threshold=8, separator=", ").replace("\n", "")


def _finite(value: float) -> float | None:
    """JSON has no NaN: a broken network has no largest error."""
    return value if math.isfinite(value) else None


def _print_data(file: str, model: Compiled, found: Measurement, seed: int, within: bool | None) -> None:
    print_json(
        {
            "file": file,
            "sup": _finite(found.sup),
            "at": found.at.tolist(),
            "rms": _finite(found.rms),
            "evaluations": found.points,
            "seed": seed,
            "bound": model.certificate.bound,
            "status": model.certificate.status,
            "within_bound": within,
        }
    )
