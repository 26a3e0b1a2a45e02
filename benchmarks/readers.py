"""One meaning: random networks read by NumPy, torch in four dtypes, prover and checker; mutations of built networks.

Run ``OMP_NUM_THREADS=1 .venv/bin/python benchmarks/readers.py``: the table goes to ``benchmarks/results/readers.md``.
``--count``, ``--seed`` and ``--each`` say how many, ``--workers`` by how many processes, ``--only networks`` or
``--only mutations`` runs one half and only prints. What is compared, and how, is in ``tests/readers``, of which
``./test`` runs a slice.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

ROOT = Path(__file__).parent
sys.path.insert(0, str(ROOT.parent))

from tests.readers.built import BUILT  # noqa: E402
from tests.readers.comparison import Tally, compare_prover, compare_readers  # noqa: E402
from tests.readers.judging import judge_mutations  # noqa: E402

COMMAND = "OMP_NUM_THREADS=1 .venv/bin/python benchmarks/readers.py"
DTYPES = ("float64", "float32", "bfloat16", "float16")


def networks(count: int, seed: int, workers: int) -> Tally:
    """Random networks of the whole representation, and as many of the shape that the prover reads by any name."""
    seeds = range(seed, seed + count)
    return _added(_run(compare_readers, seeds, workers)).plus(_added(_run(compare_prover, seeds, workers)))


def mutations(each: int, seed: int, workers: int) -> dict[str, Tally]:
    """Mutations of every field and array of every built network."""
    found = _run(partial(judge_mutations, each=each, seed=seed), BUILT, workers)
    return dict(zip(BUILT, found, strict=True))


def _run(work: Callable[..., Tally], items: Iterable[object], workers: int) -> Iterator[Tally]:
    if workers == 1:
        yield from map(work, items)
        return
    with ProcessPoolExecutor(workers) as pool:
        yield from pool.map(work, items)


def _added(tallies: Iterable[Tally]) -> Tally:
    total = Tally()
    for tally in tallies:
        total = total.plus(tally)
    return total


def page(found: Tally, mutated: dict[str, Tally], options: str) -> str:
    """The results as Markdown."""
    lines = ["# One meaning", "", f"Made by `{COMMAND} {options}`.", ""]
    lines += ["## Random networks of the whole representation", ""]
    exact = found.counts["exact values"]
    lines += [f"{found.counts['networks']:,} networks, each with its box of inputs; {exact:,} exact values by"]
    lines += ["balls. An enclosure is narrow if it is less than 1,000 times as wide as the values are large.", ""]
    lines += ["| dtype | runs of torch | of NumPy | narrow enclosures | wide | refused |", "|---|---|---|---|---|---|"]
    for dtype in DTYPES:
        names = ("torch", "numpy", "narrow enclosures", "wide enclosures")
        counts = [found.counts[f"{dtype}: {name}"] for name in names]
        refused = sum(n for name, n in found.counts.items() if name.startswith(f"{dtype}: refused"))
        lines.append("| " + " | ".join([dtype, *(f"{n:,}" for n in counts), f"{refused:,}"]) + " |")
    said = [f"{n:,} {name.removeprefix('prover: ')}" for name, n in found.counts.items() if name.startswith("prover: ")]
    lines += ["", f"Prover: {found.counts['networks for the prover']:,} networks against formulas:"]
    lines += [", ".join(sorted(said)) + ".", "", f"Violations: {len(found.violations)}.", ""]
    lines += [f"- {text}" for text in found.violations]
    lines += ["## Mutations of built networks", ""]
    lines += [
        "A false bound is the old one of a network whose error now exceeds it, in a certificate written anew.",
        "",
    ]
    lines += ["| network | mutations | cannot be made | prover: bound | no bound | refused |"]
    lines[-1] += " checker, of a false bound: rejected | undecided | unprovable | violations |"
    lines += ["|" + "---|" * 10]
    lines += [_row(name, tally) for name, tally in mutated.items()]
    total = _added(mutated.values())
    lines += [_row("all", total), ""]
    return "\n".join([*lines, *(f"- {text}" for text in total.violations)]).rstrip() + "\n"


def _row(name: str, tally: Tally) -> str:
    counts, checked = tally.counts, "checker, of a false bound: "
    numbers = [
        counts["mutations"],
        counts["cannot be made"],
        counts["prover: proved"] + counts["prover: conditional"],
        counts["prover: sampled"],
        counts["prover: refused"],
        *(counts[checked + verdict] for verdict in ("rejected", "undecided", "unprovable")),
        len(tally.violations),
    ]
    return "| " + " | ".join([name, *(f"{n:,}" for n in numbers)]) + " |"


def main() -> None:
    """Run both halves, print or write, and fail if there is a violation."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--each", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--only", choices=("networks", "mutations"))
    asked = parser.parse_args()
    found = Tally() if asked.only == "mutations" else networks(asked.count, asked.seed, asked.workers)
    mutated = {} if asked.only == "networks" else mutations(asked.each, asked.seed, asked.workers)
    text = page(found, mutated, f"--count {asked.count} --each {asked.each} --seed {asked.seed}")
    if asked.only is None:
        (ROOT / "results" / "readers.md").write_text(text)
    print(text)
    sys.exit(1 if found.violations or any(tally.violations for tally in mutated.values()) else 0)


if __name__ == "__main__":
    main()
