"""Every format, kernel and NumPy on networks of every construction: how far each run is from what the network means.

Run ``OMP_NUM_THREADS=1 .venv/bin/python benchmarks/parity.py``: the table goes to ``benchmarks/results/parity.md``.
``--only TEXT`` takes the networks whose name holds it, and only prints. What is compared, and how, is in
``tests/readers/parity.py``, of which ``./test`` runs a slice.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent
sys.path.insert(0, str(ROOT.parent))

from attnforge.errors import AttnforgeError  # noqa: E402
from tests.readers.parity import CASES, EXACT, READERS, SAME, Outcome, compare  # noqa: E402

COMMAND = "OMP_NUM_THREADS=1 .venv/bin/python benchmarks/parity.py"
DTYPES = ("float64", "float32")
ABOUT = f"""Each number is the largest difference between a run of the network in that dtype and NumPy in float64 on
the same weights and inputs, as rounded to the dtype (`numpy` itself in float64: from exact values by balls of 400 bits,
at {EXACT} of them). In float64 it is relative to values above 1 and must not exceed {SAME:g}. In float32 it must not
exceed *rounding*, what the certificate of the network in float32 charges for the roundings of a run (of windows and
shards: what is proved of these). A star says that nothing is proved of the network in float32, or that its proof counts
roundings of scores to the choice of a cell: there the independent checker bounds the run at every input, and the number
is that of the input with the least room. Columns: NumPy; the torch module by each kernel; the export formats. A number
in brackets is a refusal, in the words below."""


@dataclass(frozen=True)
class Row:
    """A network in a dtype, as every reader runs it."""

    name: str
    dtype: str
    rounding: float | None
    outcomes: dict[str, Outcome]


def rows(only: str) -> list[Row]:
    """All networks in both dtypes."""
    found = []
    for name in CASES:
        for dtype in DTYPES if only in name else ():
            found.append(_row(name, dtype))
            print(_line(found[-1], []), file=sys.stderr, flush=True)
    return found


def _row(name: str, dtype: str) -> Row:
    try:
        case = CASES[name](dtype)
    except AttnforgeError as error:  # no such network in this dtype
        return Row(name, dtype, None, dict.fromkeys(READERS, Outcome(refusal=str(error))))
    outcomes = {}
    for reader in READERS:
        with tempfile.TemporaryDirectory() as folder:
            outcomes[reader] = compare(case, reader, Path(folder))
    return Row(name, dtype, case.charged(None), outcomes)


def page(found: list[Row]) -> str:
    """The results as Markdown."""
    refusals = sorted({each.refusal for row in found for each in row.outcomes.values() if each.refusal})
    held = [outcome for row in found for outcome in row.outcomes.values()]
    lines = ["# Parity", "", f"Made by `{COMMAND}`.", "", ABOUT, ""]
    lines += [f"{sum(not each.refusal for each in held):,} comparisons of {len(found) // 2} networks, of which"]
    lines += [f"{sum(not each.holds for each in held)} are further apart than they may be.", ""]
    lines += [
        "| reader | largest in float64 | largest in float32, as a share of *rounding* | refused |",
        "|---|---|---|---|",
    ]
    lines += [_summary(reader, found) for reader in READERS]
    lines += ["", "| network | dtype | rounding | " + " | ".join(map(_title, READERS)) + " |"]
    lines += ["|" + "---|" * (len(READERS) + 3)]
    lines += [_line(row, refusals) for row in found]
    lines += ["", "## Refusals", ""]
    lines += [f"{i}. {text}" for i, text in enumerate(refusals, 1)]
    wrong = [f"- {row.name}, {row.dtype}, {reader}: {each.difference:.3g}, beyond {each.allowed:.3g}"
             for row in found for reader, each in row.outcomes.items() if not each.holds]  # fmt: skip
    return "\n".join([*lines, *(["", "## Too far apart", "", *wrong] if wrong else [])]) + "\n"


def _title(reader: str) -> str:
    return reader.replace("_", "-")


def _summary(reader: str, found: list[Row]) -> str:
    ran = [(row.dtype, row.outcomes[reader]) for row in found if not row.outcomes[reader].refusal]
    doubles = [each.difference for dtype, each in ran if dtype == "float64"]
    shares = [each.difference / each.allowed for dtype, each in ran if dtype == "float32" and each.allowed]
    numbers = [f"{max(doubles):.1e}" if doubles else "", f"{max(shares):.1%}" if shares else ""]
    return "| " + " | ".join([_title(reader), *numbers, str(len(found) - len(ran))]) + " |"


def _line(row: Row, refusals: list[str]) -> str:
    rounding = "" if row.dtype == "float64" else "—" if row.rounding is None else f"{row.rounding:.1e}"
    return (
        "| " + " | ".join([row.name, row.dtype, rounding, *(_cell(row.outcomes[r], refusals) for r in READERS)]) + " |"
    )


def _cell(outcome: Outcome, refusals: list[str]) -> str:
    if outcome.refusal:
        return f"({refusals.index(outcome.refusal) + 1})" if refusals else "refused"
    number = f"{outcome.difference:.1e}" + r"\*" * outcome.by_checker
    return number if outcome.holds else f"**{number}**"


def main() -> None:
    """Compare, print or write, and fail if anything is too far apart."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="")
    only = parser.parse_args().only
    found = rows(only)
    text = page(found)
    if not only:
        (ROOT / "results" / "parity.md").write_text(text)
    print(text)
    sys.exit(0 if all(each.holds for row in found for each in row.outcomes.values()) else 1)


if __name__ == "__main__":
    main()
