"""Networks of every construction without their names and claims, and with moved weights: what is proved of them.

Run ``OMP_NUM_THREADS=1 .venv/bin/python benchmarks/erasing.py``: the tables go to ``benchmarks/results/erasing.md``.
What is erased and moved is in ``tests/readers/erasing.py``, of which ``./test`` runs a slice.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent
sys.path.insert(0, str(ROOT.parent))

from tests.readers.built import BUILT, built  # noqa: E402
from tests.readers.erasing import SIZES, Proved, erased, perturbed, proved, written_size  # noqa: E402

COMMAND = "OMP_NUM_THREADS=1 .venv/bin/python benchmarks/erasing.py"
HEADING = """# Names erased, weights moved

Made by `{command} --seeds {seeds}`. *Bound*: as built. *Without its name*,
*without claims*: the bound of the same weights, relative to it. *Values moved*, *all moved*: numbers times 1 + eps u, u
in [-1, 1]; the largest of {seeds} seeds. What values that moved add to the bound is given in units of eps times the
largest sum of |value| that a head may write; of all weights that moved the bound over the measured error. A refusal
says why, below.

| network | bound | without its name | without claims | values, 1e-6 | values, 1e-3 | all, 1e-6 | all, 1e-3 |
|---|---|---|---|---|---|---|---|"""


def row(name: str, seeds: int, violations: list[str], refusals: dict[str, str]) -> str:
    """One network; errors above a bound and refusals are collected."""
    net = built(name)
    bound = net.certificate.bound

    def shown(found: list[Proved], *, added: float | None = None, ratio: bool = False) -> str:
        violations.extend(f"{name}: error {each.error} above {each.bound}" for each in found if _is_false(each))
        refused = [each.reason for each in found if each.status == "refused"]
        if refused:
            refusals[name] = refused[0]
            return "refused"
        if bound is None:
            return found[0].status
        bounds = [each.bound if each.bound is not None else float("inf") for each in found]
        if ratio:
            return f"{max(b / max(each.error, 1e-300) for b, each in zip(bounds, found, strict=True)):.3g}x"
        return f"{max(bounds) / bound:.3g}x" if added is None else f"+{max((b - bound) / added for b in bounds):.2g}"

    cells = [shown([proved(net, erased(net.network, claims=claims))]) for claims in (False, True)]
    for everything in (False, True):
        for size in SIZES:
            moved = [proved(net, perturbed(net.network, size, seed, everything=everything)) for seed in range(seeds)]
            cells.append(shown(moved, added=None if everything else size * written_size(net), ratio=everything))
    stated = net.certificate.status if bound is None else f"{bound:.3g}"
    return f"| {name} | {stated} | " + " | ".join(cells) + " |"


def _is_false(found: Proved) -> bool:
    return found.bound is not None and not found.error <= found.bound


def lines(seeds: int, violations: list[str]) -> Iterator[str]:
    """The page, line by line."""
    refusals: dict[str, str] = {}
    yield HEADING.format(command=COMMAND, seeds=seeds)
    for name in BUILT:
        yield row(name, seeds, violations, refusals)
    yield f"\nErrors above a bound: {len(violations)}.\n"
    yield from (f"- {text}" for text in violations)
    yield from (f"- {name}: {reason.splitlines()[0]}" for name, reason in refusals.items())


def main() -> None:
    """Print and write the page; fail if an error exceeds a bound."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=5)
    asked = parser.parse_args()
    violations: list[str] = []
    page = []
    for line in lines(asked.seeds, violations):
        print(line, flush=True)
        page.append(line)
    (ROOT / "results" / "erasing.md").write_text("\n".join(page) + "\n")
    sys.exit(1 if violations else 0)


if __name__ == "__main__":
    main()
