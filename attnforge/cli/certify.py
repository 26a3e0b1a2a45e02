"""``attnforge certify``: prove a saved model's bound again, and compare it with the one in the file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from attnforge.cli.check import check_file
from attnforge.cli.failure import ExitCode
from attnforge.cli.model import certificate_data, read_any
from attnforge.cli.options import AsJson, Cluster, EffortName, HowHard, ModelFile, Require, Timeout, Workers
from attnforge.cli.screen import note, print_facts, print_json, progress
from attnforge.errors import AttnforgeError
from attnforge.parallel import check_cluster

if TYPE_CHECKING:
    from attnforge import Certificate, Compiled
    from attnforge.programs import ProgramCertificate, ProgramNetwork

    Model = Compiled | ProgramNetwork
    Stated = Certificate | ProgramCertificate

WORTH_SAYING = 2.0  # seconds
CELLS = 100_000  # of the checker at normal effort, not imported: help should not wait for NumPy

EPILOG = """\
Example:

\b
  attnforge certify f.safetensors
  attnforge certify f.safetensors --json && echo "still true"
  attnforge certify f.safetensors --check

The proof uses the stored weights and the stored target only, not how the model was built. With --check it is another
program that decides, small enough to be read: it shares no code with what builds networks or with the proof, and cuts
the domain into cells until every one confirms the bound or a point refutes it. A file in which network, domain, target
or bound was altered is rejected, naming what.

Exit code 4: the stored bound is smaller than what can be proved, or nothing can be proved, or the file is rejected.
With --check, 6: intact, not re-provable (the target is a callable, or there is no bound); 7: not settled within the
limit of cells, or of time."""


def run(
    file: ModelFile,
    check: Annotated[bool, typer.Option("--check", help="Decide by the independent checker.")] = False,
    cells: Annotated[
        int | None, typer.Option(min=1, show_default=f"{CELLS}", help="With --check: how many cells at most.")
    ] = None,
    effort: HowHard = EffortName.normal,
    timeout: Timeout = None,
    workers: Workers = 1,
    cluster: Cluster = None,
    require: Require = None,
    as_json: AsJson = False,
) -> None:
    """Prove a saved model's bound again.

    The proof is compared with the certificate in the file.
    """
    if cells is not None and not check:
        raise typer.BadParameter("only the checker counts cells; add --check", param_hint="--cells")
    if cluster is not None and check:
        raise typer.BadParameter("the checker runs on one machine; leave out --check", param_hint="--cluster")
    asked = {"effort": effort.value, "timeout": timeout, "workers": workers}
    if check:
        raise typer.Exit(check_file(file, as_json, cells, asked))
    check_cluster(cluster)
    model = read_any(file)
    _say_cost(model, effort.value)
    with progress("proving") as advance:
        least = None if require is None else require.value
        proved, problem = _prove(model, {**asked, "cluster": cluster, "require": least, "progress": advance})
    problem = problem or disagreement(model.certificate, proved)
    if as_json:
        _print_data(str(file), model.certificate, proved, problem)
    else:
        _print_verdict(model.certificate, proved, problem)
    if problem is not None:
        raise typer.Exit(ExitCode.NOT_CONFIRMED)


def _say_cost(model: Model, effort: str) -> None:
    """On stderr, before a proof that takes long."""
    from attnforge.compiler import proof_cost

    found = proof_cost(model, effort)
    if found is not None and found.seconds >= WORTH_SAYING:
        note(f"about {found.cells:,} cells, {found.seconds:.0f} s; at most {found.most_cells:,} cells")


def _prove(model: Model, asked: dict[str, Any]) -> tuple[Stated | None, str | None]:
    """The certificate, or the reason why there is none."""
    from attnforge.compiler import certify

    try:
        return certify(model, **asked), None
    except AttnforgeError as error:
        return None, f"no bound can be proved: {str(error).strip()}"


def disagreement(stored: Stated | None, proved: Stated | None) -> str | None:
    """None where everything the stored certificate says follows from what was proved, else what does not."""
    if stored is None or stored.bound is None:
        return "the stored certificate states no bound"
    if proved is None or proved.bound is None:
        return "no bound can be proved"
    if not proved.bound <= stored.bound:
        return f"the stored bound {stored.bound!r} is below the proved one, {proved.bound!r}"
    if stored.status == "proved" and proved.status != "proved":
        return f"it is stored as proved, but holds only as {proved.status}"
    norms = [getattr(each, "norm", "sup") for each in (stored, proved)]
    if norms[0] != norms[1]:
        return f"it is stored for the norm {norms[0]}, but proved for {norms[1]}"
    missing = [entry for entry in proved.assumptions if entry not in stored.assumptions]
    return f"it leaves out an assumption: {missing[0]}" if missing else None


def _print_verdict(stored: Stated | None, proved: Stated | None, problem: str | None) -> None:
    facts = {
        "stored": str(stored),
        "recomputed": "none" if proved is None else str(proved),
        "assuming": "; ".join(() if proved is None else proved.assumptions) or "nothing",
        "verdict": "confirmed: the stored bound follows from the stored weights and target"
        if problem is None
        else f"NOT confirmed: {problem}",
    }
    print_facts(facts, {"verdict": "bold green" if problem is None else "bold red"})


def _print_data(file: str, stored: Stated | None, proved: Stated | None, problem: str | None) -> None:
    print_json(
        {
            "file": file,
            "confirmed": problem is None,
            "problem": problem,
            "stored": certificate_data(stored),
            "recomputed": None if proved is None else certificate_data(proved),
        }
    )
