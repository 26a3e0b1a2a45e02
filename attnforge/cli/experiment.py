"""``attnforge experiment``: the papers' experiments and ours, each a verb of its own with its settings as flags."""

from __future__ import annotations

import inspect
import shlex
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from attnforge.cli.failure import ExitCode
from attnforge.cli.options import AsJson, Cluster
from attnforge.cli.screen import note, print_facts, print_json, print_table, progress, say

if TYPE_CHECKING:
    from attnforge.experiments import Experiment, Finding, Result, Settings

OUT = Path("attnforge-experiments")

EPILOG = """\
Example:

\b
  attnforge experiment list --json
  attnforge experiment rate-anchors --quick
  attnforge experiment temperature --named 10,100,1000 --out results
  attnforge experiment all --config settings.toml --workers 4
  attnforge experiment all --cluster tcp://host:8786

An experiment writes a folder of its name: results.csv (tidy), figures (SVG, PDF, PNG), verdict.md and settings.toml.
Finished cases are kept in cases.jsonl, so that an interrupted run goes on where it was. A refuted claim is a result and
no failure; exit code 4: an error was measured above its certified bound.

Settings come from flags, else from the section of the experiment in a TOML file, else from --quick or the defaults."""


class Experiments(TyperGroup):
    """A verb an experiment, made when asked for: the help of other verbs does not wait for them."""

    def list_commands(self, ctx: Any) -> list[str]:
        """``list``, ``all``, then the experiments."""
        return [*super().list_commands(ctx), *(each.name for each in _experiments())]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The verb of an experiment."""
        found = super().get_command(ctx, cmd_name)
        if found is not None:
            return found
        return next((_verb(each) for each in _experiments() if each.name == cmd_name), None)


app = typer.Typer(
    cls=Experiments,
    rich_markup_mode=None,
    no_args_is_help=True,
    help="Run an experiment: table, figures, verdict.",
    epilog=EPILOG,
)

Quick = Annotated[bool, typer.Option("--quick", help="Small settings: all experiments in under ten minutes.")]
Config = Annotated[Path | None, typer.Option(help="Settings, in TOML: a section an experiment.")]
Seed = Annotated[int | None, typer.Option(min=0, help="Of everything random.")]
Out = Annotated[Path, typer.Option(help="Folder for results.")]
Workers = Annotated[int | None, typer.Option(min=1, help="Processes; by default one a core.")]
Formats = Annotated[str, typer.Option(metavar="A,B,...", help="Of figures: png, svg, pdf.")]
Again = Annotated[bool, typer.Option("--again", help="Measure all cases anew, also finished ones.")]


@app.command("list")
def show(as_json: AsJson = False) -> None:
    """List the experiments."""
    if as_json:
        print_json({"experiments": [{"name": e.name, "question": e.question} for e in _experiments()]})
        return
    print_table(["experiment", "what it measures"], [[each.name, each.summary] for each in _experiments()])


@app.command("all")
def run_all(
    quick: Quick = False,
    config: Config = None,
    seed: Seed = None,
    out: Out = OUT,
    workers: Workers = None,
    cluster: Cluster = None,
    formats: Formats = "png",
    again: Again = False,
    as_json: AsJson = False,
) -> None:
    """Run all of them, and write an index.

    One after the other; the index, README.md, lists every claim with what became of it.
    """
    from attnforge.experiments.verdict import index
    from attnforge.experiments.writing import write_text

    chosen = {each: _settings(each, quick, config, {"seed": seed}) for each in _experiments()}
    results = []
    for each, settings in chosen.items():
        results.append(_run(each, settings, out, workers, cluster, formats, again))
        if not as_json:
            say(f"{each.name:<24} {_tally(results[-1].findings):<42} {results[-1].seconds:6.0f} s")
    write_text(out / "README.md", index([(each.experiment, each.findings) for each in results], _command()))
    if as_json:
        print_json({"experiments": [_data(each) for each in results]})
    else:
        say(f"\nwrote {out / 'README.md'}")
    _leave(results)


def _verb(experiment: Experiment[Any]) -> Any:
    """The verb of one experiment: what all have in common, and its settings as flags."""
    from attnforge.experiments.settings import explained, parsed

    kinds = {each.name: kind for each, kind in explained(experiment.settings)}

    def run_one(**given: Any) -> None:
        flags = {name: parsed(name, kinds[name], text) for name in kinds if (text := given.pop(name)) is not None}
        settings = _settings(experiment, given.pop("quick"), given.pop("config"), flags)
        as_json = given.pop("as_json")
        result = _run(experiment, settings, **given)
        if as_json:
            print_json(_data(result))
        else:
            _show(result)
        _leave([result])

    shared = inspect.signature(run_all, eval_str=True).parameters.values()
    common = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in shared if each.name != "seed"]
    own = [_flag(each, kind) for each, kind in explained(experiment.settings)]
    run_one.__signature__ = inspect.Signature([*own, *common])  # type: ignore[attr-defined]
    run_one.__annotations__ = {}
    holder = typer.Typer(rich_markup_mode=None, add_completion=False)
    holder.command(experiment.name, help=experiment.question, short_help=experiment.summary)(run_one)
    return typer.main.get_command(holder)


def _flag(each: Any, kind: Any) -> inspect.Parameter:
    """A setting as an option that takes text, so that a wrong one is refused in the words of the settings."""
    several = isinstance(each.default, tuple)
    default = ",".join(str(value) for value in each.default) if several else str(each.default)
    option = typer.Option(
        f"--{each.name.replace('_', '-')}",
        metavar="A,B,..." if several else getattr(kind, "__name__", "value").upper(),
        help=each.metadata["explain"],
        show_default=default,
    )
    keyword = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(each.name, keyword, default=None, annotation=Annotated[str | None, option])


def _settings(experiment: Experiment[Any], quick: bool, config: Path | None, flags: dict[str, Any]) -> Settings:
    """The defaults, or the quick ones; over them the file's; over these the flags."""
    from attnforge.experiments.settings import changed, read_settings
    from attnforge.experiments.settings import quick as quick_settings

    settings: Settings = quick_settings(experiment.settings) if quick else experiment.settings()
    if config is not None:
        sections = read_settings(config)
        _known(sections, config)
        for section in ("", experiment.name):
            settings = changed(settings, sections.get(section, {}))
    return changed(settings, {name: value for name, value in flags.items() if value is not None})


def _known(sections: dict[str, Any], config: Path) -> None:
    names = [each.name for each in _experiments()]
    unknown = [name for name in sections if name and name not in names]
    if unknown:
        message = f"has a section for no experiment: {', '.join(unknown)} in {config}. The experiments are {names}."
        raise typer.BadParameter(message, param_hint="--config")


def _run(
    experiment: Experiment[Any],
    settings: Settings,
    out: Path,
    workers: int | None,
    cluster: str | None,
    formats: str,
    again: bool,
) -> Result:
    from attnforge.experiments import run

    try:
        with progress(experiment.name) as advance:
            return run(
                experiment,
                settings,
                out=out,
                workers=workers,
                cluster=cluster,
                formats=[kind.strip() for kind in formats.split(",")],
                again=again,
                command=_command(),
                progress=lambda done, total: advance(done / total),
            )
    except KeyboardInterrupt:
        note(f"interrupted: finished cases are in {out / experiment.name}; the same command goes on from there")
        raise


def _command() -> str:
    """The words that were typed."""
    return shlex.join(["attnforge", *sys.argv[1:]])


def _show(result: Result) -> None:
    say(result.experiment.question)
    say("")
    print_table(
        ["claim", "verdict", "evidence"], [[each.claim, each.verdict, each.evidence] for each in result.findings]
    )
    say("")
    print_facts(
        {
            "cases measured": f"{result.measured:,}, in {result.seconds:.0f} s with figures; others were known",
            "wrote": str(result.folder),
        }
    )


def _tally(findings: Sequence[Finding]) -> str:
    return ", ".join(f"{count} {word}" for word, count in Counter(each.verdict for each in findings).items())


def _data(result: Result) -> dict[str, Any]:
    return {
        "experiment": result.experiment.name,
        "folder": str(result.folder),
        "rows": len(result.table),
        "measured": result.measured,
        "findings": [{"claim": f.claim, "verdict": f.verdict, "evidence": f.evidence} for f in result.findings],
    }


def _leave(results: Sequence[Result]) -> None:
    """With a code that tells of a broken promise."""
    if any(finding.law and finding.verdict == "refuted" for result in results for finding in result.findings):
        raise typer.Exit(ExitCode.NOT_CONFIRMED)


def _experiments() -> tuple[Experiment[Any], ...]:
    from attnforge.experiments import EXPERIMENTS

    return EXPERIMENTS
