"""Knobs: networks of every kind in a random basis, with distractors, superposed registers, noise; proofs attacked.

Run ``OMP_NUM_THREADS=1 .venv/bin/python benchmarks/knobs.py``: the tables go to ``benchmarks/results/knobs.md``.
``--each`` says how many mutations, ``--seed`` which, of every array and field of every network behind a knob,
``--workers`` by how many
processes, ``--only table`` or ``--only attacks`` runs one half and only prints. What is turned, and what is done to it,
is in ``tests/zoo/knobbed.py``, of which ``./test`` runs a slice.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

ROOT = Path(__file__).parent
sys.path.insert(0, str(ROOT.parent))

from attnforge.errors import AttnforgeError  # noqa: E402
from tests.readers.judging import Tally  # noqa: E402
from tests.zoo.knobbed import KINDS, KNOBS, judged, knobbed, measured, plain  # noqa: E402

COMMAND = "OMP_NUM_THREADS=1 .venv/bin/python benchmarks/knobs.py"
ATTACKED = ("basis", "distractors", "superposed", "basis, distractors", "all")
LARGE = ("ReLU network, 16 x 16",)  # not attacked: proofs of seconds, by the rules of the small one


def row(kind: str, knob: str) -> tuple[str, ...]:
    """A kind of network behind a knob: status, bounds before and after, error after, seconds; or why not."""
    before = plain(kind).certificate
    start = time.perf_counter()
    try:
        net = knobbed(kind, knob)
    except AttnforgeError as reason:
        return kind, knob, "refused", _number(before.bound), "", "", "", _words(reason)
    seconds, error, after = time.perf_counter() - start, measured(net), net.certificate
    if after is None:
        return kind, knob, "none", _number(before.bound), "", _number(error), f"{seconds:.1f}", net.reason
    found = _number(before.bound), _number(after.bound), _number(error)
    return kind, knob, after.status, *found, f"{seconds:.1f}", ""


def _words(reason: AttnforgeError) -> str:
    return (reason.got if reason.__cause__ is not None else reason.requirement) or ""


def _number(number: float | None) -> str:
    return "" if number is None else f"{number:.4g}"


def attacked(place: tuple[str, str], each: int, seed: int) -> Tally | None:
    """Mutations of a kind of network behind a knob; None where the knob refuses, or where errors are not measured."""
    try:
        net = knobbed(*place)
    except AttnforgeError:
        return None
    return None if measured(net) is None else judged(net, each, seed)


def attacks(each: int, seed: int, workers: int) -> Iterator[tuple[str, Tally]]:
    """By kind and knob."""
    places = [(kind, knob) for kind in KINDS if kind not in LARGE for knob in ATTACKED]
    for (kind, knob), tally in zip(places, _run(partial(attacked, each=each, seed=seed), places, workers), strict=True):
        if tally is not None:
            print(kind, knob, dict(tally.counts), tally.violations, flush=True)
            yield f"{kind} | {knob}", tally


def _run(work: partial[Tally | None], items: Iterable[tuple[str, str]], workers: int) -> Iterator[Tally | None]:
    if workers == 1:
        yield from map(work, items)
        return
    with ProcessPoolExecutor(workers) as pool:
        yield from pool.map(work, items)


def table(rows: list[tuple[str, ...]]) -> list[str]:
    """The first half of the page."""
    lines = ["| network | knobs | status | bound before | bound after | measured after | seconds | why not |"]
    lines += ["|" + "---|" * 8, *("| " + " | ".join(each) + " |" for each in rows), ""]
    said = ", ".join(f"{knob}: {', '.join(f'{k}={v!r}' for k, v in each.items())}" for knob, each in KNOBS.items())
    return ["## Certified anew", "", "Seconds include the proof. Errors are the largest found on points of the domain,",
            f"or on all sequences of up to three tokens. Knobs: {said}.", "", *lines]  # fmt: skip


def broken(found: dict[str, Tally]) -> list[str]:
    """The second half."""
    lines = ["## Attacked", ""]
    lines += ["Every array and field changed, and besides: heads that claim to be distractors, distractors that claim"]
    lines += ["nothing or write elsewhere, streams written in one basis and read in another. A violation is an error"]
    lines += ["above what is proved of the changed network, or a false bound that the checker confirms.", ""]
    lines += [
        "| network | knobs | mutations | cannot be made | bound | no bound | refused | violations |",
        "|" + "---|" * 8,
    ]
    total = Tally()
    for name, tally in found.items():
        lines.append(_row(name, tally))
        total = total.plus(tally)
    return [*lines, _row("all | all", total), "", *(f"- {text}" for text in total.violations)]


def _row(name: str, tally: Tally) -> str:
    counts = tally.counts
    bounded = counts["prover: proved"] + counts["prover: conditional"]
    told = counts["mutations"], counts["cannot be made"], bounded, counts["prover: sampled"], counts["prover: refused"]
    return "| " + " | ".join([name, *(f"{n:,}" for n in told), str(len(tally.violations))]) + " |"


def main() -> None:
    """Run both halves, print or write, and fail if there is a violation."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--each", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--only", choices=("table", "attacks"))
    asked = parser.parse_args()
    rows = [] if asked.only == "attacks" else [row(kind, knob) for kind in KINDS for knob in KNOBS]
    found = {} if asked.only == "table" else dict(attacks(asked.each, asked.seed, asked.workers))
    lines = [
        "# Knobs",
        "",
        f"Made by `{COMMAND} --each {asked.each} --seed {asked.seed}`.",
        "",
        *table(rows),
        *broken(found),
    ]
    text = "\n".join(lines).rstrip() + "\n"
    if asked.only is None:
        (ROOT / "results" / "knobs.md").write_text(text)
    print(text)
    sys.exit(1 if any(tally.violations for tally in found.values()) else 0)


if __name__ == "__main__":
    main()
