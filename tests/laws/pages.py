"""Laws with more draws, and their pages: ``./test laws --examples N`` after the tests.

N random networks of every construction are measured (``soundness.md``, and its table as CSV; lines go to
``soundness/soundness.jsonl``, and a run that was stopped goes on where it was). N random networks of the whole
representation are compared by all readers, and N / 500 mutations of every array and field of built ones are judged
(``readers.md``). Names are erased and weights moved by N / 2000 seeds (``erasing.md``). All readers run the catalogue
(``parity.md``). Networks that read prompts are changed in N / 100 ways each (``in_context_mutations.md``). With 10,000
these are the pages of ``benchmarks/results``. Exit code 1 where a law does not hold.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import json
import math
import multiprocessing
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import attnforge as af
from scripts.journal import Line, append, machine, mend, one_thread, read, table
from tests.laws import in_context_mutations as changes
from tests.laws import soundness
from tests.readers import parity
from tests.readers.built import BUILT, built
from tests.readers.comparison import DTYPES, compare_prover, compare_readers
from tests.readers.erasing import SIZES, Proved, erased, perturbed, proved, written_size
from tests.readers.judging import Tally, judge_mutations

ROOT = Path(__file__).resolve().parents[2]
COMMAND = "./test laws --examples"
POINTS, SECONDS, BATCH = 100_000, 8.0, 64  # of a network; of the processor, to build it; networks between two notes
LINES = Path("soundness") / "soundness.jsonl"
Page = tuple[list[str], list[str]]  # its lines, and what breaks the law


def mapped(work: Callable[[Any], Any], items: Iterable[Any], workers: int) -> Iterator[Any]:
    """In order, by so many processes."""
    if workers == 1:
        yield from map(work, items)
        return
    with multiprocessing.get_context("spawn").Pool(workers, one_thread) as pool:
        yield from pool.imap(work, items)


# Soundness


def sound(examples: int, workers: int, path: Path = LINES, points: int = POINTS, lowered: float = 1.0) -> Page:
    """Lines until there are as many networks with a bound as asked for; then the page."""
    path.parent.mkdir(parents=True, exist_ok=True)
    mend(path)
    lines = read(path)
    seeds = itertools.count(max((each["seed"] for each in lines), default=-1) + 1)
    work = partial(soundness.line, count=points, lowered=lowered, limit=SECONDS)
    with path.open("a") as file:
        while (done := sum(each["status"] in ("ok", "violation") for each in lines)) < examples:
            batch = itertools.islice(seeds, max(1, min(BATCH * workers, examples - done)))
            for line in mapped(work, batch, workers):
                append(file, line)
                lines.append(line)
            print(f"{len(lines):,} networks drawn", file=sys.stderr, flush=True)
    return soundness_page(lines, examples)


def soundness_page(lines: Sequence[Line], examples: int) -> Page:
    """What was drawn and seen, by construction and dtype."""
    good, status = [each for each in lines if each["status"] == "ok"], Counter(each["status"] for each in lines)
    wrong = [_failure(each) for each in lines if each["status"] in ("error", "violation") or each.get("violations")]
    broken = sum(each["violations"] > 0 for each in good) + status["violation"]
    points = sum(each["points"] for each in good)
    head = ("construction", "dtype", "networks", "points", "violations", "bound / measured: 5 %", "median", "95 %")
    return [
        "# Random networks against their certificates", "", f"Made by `{COMMAND} {examples}`. {machine()}", "",
        f"**{len(good):,} networks, {points:,} points: {broken} networks with an error above the bound.**", "",
        f"Beside them {status['refused']:,} draws were refused before anything was built, {status['unproved']:,} came "
        f"with a measurement and no bound, {status['slow']:,} took longer than {SECONDS:g} s to prove and were left "
        f"out, {status['error']:,} failed.", "",
        "What is drawn, how points are placed and when an error counts as above the bound: the heading of "
        "`tests/laws/soundness.py`. Each network has a seed, and `--only SEED` repeats it.", "",
        *table(head, *by_construction(lines)), "",
        "Targets compiled by `auto` are listed under the construction that was chosen.", *wrong,
    ], wrong  # fmt: skip


def by_construction(lines: Iterable[Line]) -> Iterator[list[Any]]:
    """Rows of the table."""
    groups: dict[tuple[str, str], list[Line]] = {}
    for each in lines:
        if each["status"] == "ok":
            groups.setdefault((each["chosen"], each["dtype"]), []).append(each)
    names = list(dict.fromkeys([*soundness.MAKERS, *(name for name, _ in groups)]))  # `auto` may choose others
    for name, dtype in sorted(groups, key=lambda key: (names.index(key[0]), list(DTYPES).index(key[1]))):
        group = groups[name, dtype]
        ratios = [each["ratio"] for each in group if each["ratio"]]
        quantiles = np.quantile(ratios, [0.05, 0.5, 0.95]) if ratios else [math.nan] * 3
        points, broken = sum(each["points"] for each in group), sum(each["violations"] > 0 for each in group)
        yield [name, dtype, len(group), f"{points:,}", broken, *(f"{value:.3g}" for value in quantiles)]


def _failure(line: Line) -> str:
    got = line.get("text") or f"error {line['measured']:g} above bound {line['bound']:g}"
    said = got.strip().splitlines()[-1]
    return f"- seed {line['seed']}, {line.get('construction')}, {line.get('dtype')}: {said}"


def write_table(path: Path, lines: Iterable[Line]) -> None:
    """The same as CSV."""
    names = ["construction", "dtype", "networks", "points", "violations", "ratio_5", "ratio_50", "ratio_95"]
    with path.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerows([names, *([str(entry).replace(",", "") for entry in row] for row in by_construction(lines))])


# Readers


def readers(examples: int, workers: int) -> Page:
    """Random networks, and mutations of built ones."""
    each = max(1, examples // 500)
    found = _added(mapped(compare_readers, range(examples), workers))
    found = found.plus(_added(mapped(compare_prover, range(examples), workers)))
    mutated = dict(zip(BUILT, mapped(partial(judge_mutations, each=each), BUILT, workers), strict=True))
    total = _added(mutated.values())
    names = ("torch", "numpy", "narrow enclosures", "wide enclosures", "refused")
    runs = [[dtype, *(f"{found.counts[f'{dtype}: {name}']:,}" for name in names)] for dtype in DTYPES]
    said = [f"{n:,} {name.removeprefix('prover: ')}" for name, n in found.counts.items() if name.startswith("prover: ")]
    head = ("network", "mutations", "cannot be made", "prover: bound", "no bound", "refused",
            "checker, of a false bound: rejected", "undecided", "unprovable", "violations")  # fmt: skip
    return [
        "# One meaning", "", f"Made by `{COMMAND} {examples}`.", "",
        "## Random networks of the whole representation", "",
        f"{found.counts['networks']:,} networks, each with its box of inputs; {found.counts['exact values']:,} exact",
        "values by balls. An enclosure is narrow if it is less than 1,000 times as wide as the values are large.", "",
        *table(("dtype", "runs of torch", "of NumPy", "narrow enclosures", "wide", "refused"), *runs), "",
        f"Prover: {found.counts['networks for the prover']:,} networks against formulas:",
        f"{', '.join(sorted(said))}.", "",
        f"Violations: {len(found.violations)}.", "", *(f"- {text}" for text in found.violations),
        "## Mutations of built networks", "",
        "A false bound is the old one of a network whose error now exceeds it, in a certificate written anew.", "",
        *table(head, *(_judged(name, tally) for name, tally in {**mutated, "all": total}.items())), "",
        *(f"- {text}" for text in total.violations),
    ], found.violations + total.violations  # fmt: skip


def _added(tallies: Iterable[Tally]) -> Tally:
    total = Tally()
    for tally in tallies:
        total = total.plus(tally)
    return total


def _judged(name: str, tally: Tally) -> list[str]:
    counts, checked = tally.counts, "checker, of a false bound: "
    bounded = counts["prover: proved"] + counts["prover: conditional"]
    told = [
        counts["mutations"],
        counts["cannot be made"],
        bounded,
        counts["prover: sampled"],
        counts["prover: refused"],
    ]
    told += [counts[checked + verdict] for verdict in ("rejected", "undecided", "unprovable")]
    return [name, *(f"{n:,}" for n in told), str(len(tally.violations))]


# Names erased, weights moved


def erasing(examples: int, workers: int) -> Page:
    """Of every built network."""
    seeds = max(1, examples // 2000)
    found = list(mapped(partial(_erased, seeds=seeds), BUILT, workers))
    wrong, refusals = ([text for _, *texts in found for text in texts[at]] for at in (0, 1))
    sizes = [f"{what}, {size:.0e}".replace("e-0", "e-") for what in ("values", "all") for size in SIZES]
    about = f"""*Bound*: as built. *Without its name*, *without claims*: the bound of the same weights, relative to it.
*Values moved*, *all moved*: numbers times 1 + eps u, u in [-1, 1]; the largest of {seeds} seeds. What values that moved
add to the bound is given in units of eps times the largest sum of |value| that a head may write; of all weights that
moved the bound over the measured error. A refusal says why, below."""
    rows = [("network", "bound", "without its name", "without claims", *sizes), *(row for row, *_ in found)]
    page = ["# Names erased, weights moved", "", f"Made by `{COMMAND} {examples}`. {about}", "", *table(*rows)]
    return [*page, "", f"Errors above a bound: {len(wrong)}.", "", *wrong, *refusals], wrong


def _erased(name: str, seeds: int) -> tuple[list[str], list[str], list[str]]:
    """A row; errors above a bound; refusals."""
    net, wrong, refusals = built(name), list[str](), list[str]()
    bound = net.certificate.bound

    def shown(found: list[Proved], added: float | None = None, ratio: bool = False) -> str:
        wrong.extend(f"- {name}: error {each.error} above {each.bound}" for each in found if _is_false(each))
        if refused := [each.reason.splitlines()[0] for each in found if each.status == "refused"]:
            refusals[:] = [f"- {name}: {refused[0]}"]
            return "refused"
        if bound is None:
            return found[0].status
        bounds = [math.inf if each.bound is None else each.bound for each in found]
        if ratio:
            return f"{max(b / max(each.error, 1e-300) for b, each in zip(bounds, found, strict=True)):.3g}x"
        return f"{max(bounds) / bound:.3g}x" if added is None else f"+{max((b - bound) / added for b in bounds):.2g}"

    cells = [shown([proved(net, erased(net.network, claims=claims))]) for claims in (False, True)]
    for everything, size in itertools.product((False, True), SIZES):
        moved = [proved(net, perturbed(net.network, size, seed, everything=everything)) for seed in range(seeds)]
        cells.append(shown(moved, None if everything else size * written_size(net), everything))
    return [name, net.certificate.status if bound is None else f"{bound:.3g}", *cells], wrong, refusals


def _is_false(found: Proved) -> bool:
    return found.bound is not None and not found.error <= found.bound


# Every reader on the catalogue


def agreeing(examples: int, workers: int) -> Page:
    """Every format, kernel and NumPy on every network of the catalogue, in two dtypes."""
    places = list(itertools.product(parity.CASES, ("float64", "float32")))
    found = dict(zip(places, mapped(_outcomes, places, workers), strict=True))
    held = [each for outcomes in found.values() for each in outcomes.values()]
    refusals = sorted({each.refusal for each in held if each.refusal})
    wrong = [f"- {name}, {dtype}, {reader}: {each.difference:.3g}, beyond {each.allowed:.3g}"
             for (name, dtype), row in found.items() for reader, each in row.items() if not each.holds]  # fmt: skip
    about = f"""Each number is the largest difference between a run of the network in that dtype and NumPy in float64 on
the same weights and inputs, as rounded to the dtype (`numpy` itself in float64: from exact values by balls of 400 bits,
at {parity.EXACT} of them). In float64 it is relative to values above 1 and must not exceed {parity.SAME:g}. In float32
it must not exceed what the certificate of the network in float32 charges for the roundings of a run (of windows and
shards: what is proved of these). A star says that nothing is proved of the network in that dtype, or less than the
difference: there the independent checker bounds the run at every input, and the number is that of the input with the
least room. A number in brackets is a refusal, in the words below."""
    titles = [reader.replace("_", "-") for reader in parity.READERS]
    rows = [(*place, *(_cell(each, refusals) for each in row.values())) for place, row in found.items()]
    return [
        "# Parity", "", f"Made by `{COMMAND} {examples}`.", "", about, "",
        f"{sum(not each.refusal for each in held):,} comparisons of {len(found) // 2} networks, of which",
        f"{len(wrong)} are further apart than they may be.", "", *table(("network", "dtype", *titles), *rows), "",
        "## Refusals", "", *(f"{i}. {text}" for i, text in enumerate(refusals, 1)),
        *(["", "## Too far apart", "", *wrong] if wrong else []),
    ], wrong  # fmt: skip


def _outcomes(place: tuple[str, str]) -> dict[str, parity.Outcome]:
    try:
        case = parity.compared(*place)
    except af.AttnforgeError as error:  # no such network in this dtype
        return dict.fromkeys(parity.READERS, parity.Outcome(refusal=str(error)))
    with tempfile.TemporaryDirectory() as folder:
        return {reader: parity.compare(case, reader, Path(folder)) for reader in parity.READERS}


def _cell(outcome: parity.Outcome, refusals: list[str]) -> str:
    if outcome.refusal:
        return f"({refusals.index(outcome.refusal) + 1})"
    number = f"{outcome.difference:.1e}" + r"\*" * outcome.by_checker
    return number if outcome.holds else f"**{number}**"


# Networks that read prompts


def in_context(examples: int, workers: int) -> Page:
    """Changes of every algorithm, route and dtype."""
    count = max(1, examples // 100)
    places = list(itertools.product(changes.ALGORITHMS, changes.ROUTES, ("float64", "float32")))
    found = list(mapped(partial(_changed, count=count), places, workers))
    wrong = [text for _, texts in found for text in texts]
    made = count * sum(row[4] != "" for row, _ in found)
    head = ("algorithm", "route", "dtype", "bound, as built", "mutants seen above it", "confirmed", "rejected",
            "undecided", "proved anew")  # fmt: skip
    return [
        "# Changed in-context networks", "",
        f"Made by `{COMMAND} {examples}`; what is changed and how it is judged: the heading of "
        "`tests/laws/in_context_mutations.py`.", "",
        f"**{made:,} mutants: {len(wrong)} false proofs by checker or prover.**", "",
        *table(head, *(row for row, _ in found)), "", *wrong,
    ], wrong  # fmt: skip


def _changed(place: tuple[str, str, str], count: int) -> tuple[list[Any], list[str]]:
    net = changes.build(*place)
    if net is None or net.certificate is None or net.certificate.bound is None:
        return [*place, "no certificate for all prompts", *[""] * 5], []
    bound, wrong, said, above, anew = net.certificate.bound, list[str](), Counter[str](), 0, 0
    for mutant in changes.mutants(net, count):
        found = changes.judged(net, mutant)
        said[found.verdict] += 1
        above, anew = above + (not found.error <= bound), anew + (found.bound is not None)
        if names := found.false_proofs(bound):
            wrong.append(f"- {', '.join(place)}: {mutant.what} ({', '.join(names)}): {found}")
    verdicts = [said[each] for each in ("confirmed", "rejected", "undecided")]
    return [*place, f"{bound:.3g}", above, *verdicts, anew], wrong


PAGES: dict[str, Callable[[int, int], Page]] = {
    "soundness": sound, "readers": readers, "erasing": erasing, "parity": agreeing,
    "in_context_mutations": in_context,
}  # fmt: skip


def main(arguments: list[str] | None = None) -> int:
    """Run the laws that are asked for, print and write their pages."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--examples", type=int, default=200)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--page", nargs="*", choices=list(PAGES), default=list(PAGES))
    parser.add_argument("--results", type=Path, default=ROOT / "benchmarks" / "results", help="folder of the pages")
    parser.add_argument("--only", type=int, metavar="SEED", help="this network of soundness alone; prints its line")
    asked = parser.parse_args(arguments)
    one_thread()
    if asked.only is not None:
        print(json.dumps(soundness.line(asked.only, POINTS), indent=1))
        return 0
    asked.results.mkdir(parents=True, exist_ok=True)
    broken = 0
    for name in asked.page:
        page, wrong = PAGES[name](asked.examples, asked.workers)
        text = "\n".join(page).rstrip() + "\n"
        print(text)
        (asked.results / f"{name}.md").write_text(text)
        if name == "soundness":
            write_table(asked.results / "soundness_by_construction.csv", read(LINES))
        broken += len(wrong)
    return int(broken > 0)


if __name__ == "__main__":
    sys.exit(main())
