"""``attnforge certify``: prove a saved model's bound again, and compare it with the one in the file."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from attnforge.cli.failure import ExitCode
from attnforge.cli.model import certificate_data, read_model
from attnforge.cli.options import AsJson, ModelFile
from attnforge.cli.screen import print_facts, print_json, working
from attnforge.errors import AttnforgeError

if TYPE_CHECKING:
    from attnforge import Certificate, Compiled

EPILOG = """\
Example:

\b
  attnforge certify f.safetensors
  attnforge certify f.safetensors --json && echo "still true"

The proof uses the stored weights and the stored target only, not how the model was built. Exit code 4: the stored
bound is smaller than what can be proved, or nothing can be proved."""


def run(file: ModelFile, as_json: AsJson = False) -> None:
    """Prove a saved model's bound again.

    The proof is compared with the certificate in the file.
    """
    model = read_model(file)
    with working("proving"):
        proved, problem = _prove(model)
    problem = problem or disagreement(model.certificate, proved)
    if as_json:
        _print_data(str(file), model.certificate, proved, problem)
    else:
        _print_verdict(model.certificate, proved, problem)
    if problem is not None:
        raise typer.Exit(ExitCode.NOT_CONFIRMED)


def _prove(model: Compiled) -> tuple[Certificate | None, str | None]:
    """The certificate, or the reason why there is none."""
    from attnforge.compiler import certify

    try:
        return certify(model), None
    except AttnforgeError as error:
        return None, f"no bound can be proved: {str(error).strip()}"


def disagreement(stored: Certificate, proved: Certificate | None) -> str | None:
    """None where everything the stored certificate says follows from what was proved, else what does not."""
    if stored.bound is None:
        return "the stored certificate states no bound"
    if proved is None or proved.bound is None:
        return "no bound can be proved"
    if not proved.bound <= stored.bound:
        return f"the stored bound {stored.bound!r} is below the proved one, {proved.bound!r}"
    if stored.status == "proved" and proved.status != "proved":
        return f"it is stored as proved, but holds only as {proved.status}"
    if stored.norm != proved.norm:
        return f"it is stored for the norm {stored.norm}, but proved for {proved.norm}"
    missing = [entry for entry in proved.assumptions if entry not in stored.assumptions]
    return f"it leaves out an assumption: {missing[0]}" if missing else None


def _print_verdict(stored: Certificate, proved: Certificate | None, problem: str | None) -> None:
    facts = {
        "stored": str(stored),
        "recomputed": "none" if proved is None else str(proved),
        "assuming": "; ".join(() if proved is None else proved.assumptions) or "nothing",
        "verdict": "confirmed: the stored bound follows from the stored weights and target"
        if problem is None
        else f"NOT confirmed: {problem}",
    }
    print_facts(facts, {"verdict": "bold green" if problem is None else "bold red"})


def _print_data(file: str, stored: Certificate, proved: Certificate | None, problem: str | None) -> None:
    print_json(
        {
            "file": file,
            "confirmed": problem is None,
            "problem": problem,
            "stored": certificate_data(stored),
            "recomputed": None if proved is None else certificate_data(proved),
        }
    )
