"""``attnforge measure --attack``: try to beat the stored bound, and say how hard it was tried."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attnforge.cli.screen import print_facts, print_json, progress
from attnforge.cli.worst_point import bound_data, bound_facts, finite, place, verdict_style

if TYPE_CHECKING:
    from attnforge import Compiled
    from attnforge.measurement import Attack


def attack_model(file: str, model: Compiled, seconds: float, seed: int, as_json: bool) -> float:
    """Attack the model, print the report, and return the largest error found."""
    from attnforge.compiler import attack

    with progress("attacking") as advance:
        found = attack(model, seconds=seconds, seed=seed, progress=advance)
    if as_json:
        _print_data(file, model, found, seconds, seed)
    else:
        _print_report(model, found)
    return found.error


def _print_report(model: Compiled, found: Attack) -> None:
    facts = {
        "largest error found": f"{found.error:.6g}",
        "at": place(model, found.at),
        "evaluations": f"{found.evaluations:,}",
        "climbs": f"{found.starts:,}",
        "pruned": found.coverage,
        **bound_facts(found.error, model.certificate),
    }
    print_facts(facts, verdict_style(found.error, model.certificate))


def _print_data(file: str, model: Compiled, found: Attack, seconds: float, seed: int) -> None:
    print_json(
        {
            "file": file,
            "error": finite(found.error),
            "at": found.at.tolist(),
            "evaluations": found.evaluations,
            "starts": found.starts,
            "boxes": found.boxes,
            "pruned": found.pruned,
            "largest_left": finite(found.largest_left),
            "seconds": seconds,
            "seed": seed,
            **bound_data(found.error, model.certificate),
        }
    )
