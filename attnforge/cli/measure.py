"""``attnforge measure``: search for the worst point of a saved model, and hold it against the bound."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from attnforge.cli.attack import attack_model
from attnforge.cli.failure import ExitCode
from attnforge.cli.model import read_model
from attnforge.cli.options import AsJson, EffortName, HowHard, ModelFile, Timeout
from attnforge.cli.screen import print_facts, print_json, progress
from attnforge.cli.worst_point import bound_data, bound_facts, finite, place, verdict_style, within_bound

if TYPE_CHECKING:
    from attnforge import Compiled
    from attnforge.measurement import Measurement

MOST_POINTS = 10_000_000  # held in memory all at once
SECONDS, LONGEST = 20.0, 86_400.0  # of an attack

EPILOG = """\
Example:

\b
  attnforge measure f.safetensors --points 1000000
  attnforge measure f.safetensors --seed 7 --json
  attnforge measure f.safetensors --attack --seconds 60

An attack climbs the error by its gradient from many starts, and leaves out what is proved to hold no larger error.

A measured error is a lower bound of the true one: it can refute a certificate, never replace it. Exit code 4: it does
exceed the stored bound."""


def run(
    file: ModelFile,
    points: Annotated[int, typer.Option(min=1, max=MOST_POINTS, help="How many random points.")] = 100_000,
    effort: HowHard = EffortName.normal,
    attack: Annotated[bool, typer.Option("--attack", help="Try hard to beat the bound, for some seconds.")] = False,
    seconds: Annotated[
        float | None, typer.Option(min=0.1, max=LONGEST, show_default=f"{SECONDS:g}", help="How long to attack.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of the random points.")] = 0,
    timeout: Timeout = None,
    as_json: AsJson = False,
) -> None:
    """Search for a saved model's largest error.

    It is run on random points and where such networks err most, and climbs from the worst points found.
    """
    if seconds is not None and not attack:
        raise typer.BadParameter("only an attack takes a given time; add --attack", param_hint="--seconds")
    model = read_model(file)
    if attack:
        error = attack_model(str(file), model, SECONDS if seconds is None else seconds, seed, as_json)
    else:
        error = _measure(str(file), model, points, seed, as_json, {"effort": effort.value, "timeout": timeout})
    if within_bound(error, model.certificate) is False:
        raise typer.Exit(ExitCode.NOT_CONFIRMED)


def _measure(file: str, model: Compiled, points: int, seed: int, as_json: bool, asked: dict[str, Any]) -> float:
    from attnforge.compiler import measure

    with progress("measuring") as advance:
        found = measure(model, points=points, seed=seed, progress=advance, **asked)
    if as_json:
        _print_data(file, model, found, seed)
    else:
        _print_report(model, found)
    return found.sup


def _print_report(model: Compiled, found: Measurement) -> None:
    facts = {
        "largest error found": f"{found.sup:.6g}",
        "at": place(model, found.at),
        "rms error": f"{found.rms:.6g}",
        "evaluations": f"{found.points:,}",
        **bound_facts(found.sup, model.certificate),
    }
    print_facts(facts, verdict_style(found.sup, model.certificate))


def _print_data(file: str, model: Compiled, found: Measurement, seed: int) -> None:
    print_json(
        {
            "file": file,
            "sup": finite(found.sup),
            "at": found.at.tolist(),
            "rms": finite(found.rms),
            "evaluations": found.points,
            "seed": seed,
            **bound_data(found.sup, model.certificate),
        }
    )
