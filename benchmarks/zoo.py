"""Every network of the zoo: built, proved, checked, measured, and built again by another process.

Run ``OMP_NUM_THREADS=1 .venv/bin/python benchmarks/zoo.py``: the table goes to ``benchmarks/results/zoo.md``, sizes to
``attnforge/zoo/sizes.json``. With names as arguments only these are built, and their rows replaced.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import platform
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

import attnforge as af
from attnforge.compiler.kernel import KernelNetwork
from attnforge.compiler.prompt_formula import PromptFunction
from attnforge.in_context import InContextNetwork
from attnforge.network import digest
from attnforge.programs import ProgramNetwork
from attnforge.zoo import Entry, Size
from attnforge.zoo.entry import SIZES

Built = af.Compiled | ProgramNetwork

RESULTS = Path(__file__).parent / "results" / "zoo.md"
COMMAND = "OMP_NUM_THREADS=1 .venv/bin/python benchmarks/zoo.py"
CHECKING = 60.0  # seconds for the checker
POINTS = 20_000  # of functions on a box; beside them risky places, and a climb from the worst
LENGTHS, PROMPTS = (1, 3, 30, 300), 10  # tokens or examples, and prompts of each number
LISTED = "listed points"
COLUMNS = (
    "network", "kind", "layers", "heads", "keys", "status", "bound", "measured", "checker", "seconds", "same bytes",
)  # fmt: skip
PROGRAMS = "not asked: programs hold Python functions and have no file; proved once more from the weights"


@dataclass(frozen=True)
class Row:
    """What became of an entry, as the page has it: cells of a line."""

    cells: tuple[str, ...]

    @staticmethod
    def read(line: str) -> Row:
        """A line of the table."""
        return Row(tuple(cell.strip() for cell in line.strip().strip("|").split(" | ")))

    def __getitem__(self, column: str) -> str:
        return self.cells[COLUMNS.index(column)]

    @property
    def name(self) -> str:
        """Of the network."""
        return self["network"].strip("`")

    @property
    def kept(self) -> bool:
        """Whether the measured error is within the bound; of tables, which have none, what the checker confirms."""
        if self["bound"] == LISTED:
            return self["checker"] == "confirmed"
        return 0 <= float(self["measured"]) <= float(self["bound"])

    def __str__(self) -> str:
        return f"| {' | '.join(self.cells)} |"


def fingerprint(net: Built) -> str:
    """SHA-256 of all bytes of the saved model; of a program, which is not saved, of its network."""
    if isinstance(net, ProgramNetwork):
        return digest(net.network)
    with tempfile.TemporaryDirectory() as folder:
        net.save(path := Path(folder) / "net.safetensors")
        return hashlib.sha256(path.read_bytes()).hexdigest()


def checked(net: Built) -> str:
    """What the independent checker says, and why it does not confirm."""
    if isinstance(net, ProgramNetwork):
        again = net.certify()
        return PROGRAMS if again.bound == net.certificate.bound else f"proved anew with another bound, {again.bound}"
    with tempfile.TemporaryDirectory() as folder:
        net.save(path := Path(folder) / "net.safetensors")
        found = af.check(path, timeout=CHECKING)
    return found.verdict if found.verdict == "confirmed" else f"{found.verdict}: {found.reason}".replace("|", r"\|")


def measured(net: Built, points: int = POINTS, prompts: int = PROMPTS, seed: int = 0) -> float:
    """The largest error that was found: a lower bound of the true one."""
    rng = np.random.default_rng(seed)
    match net:
        case ProgramNetwork():
            return max(
                _of_program(net, rng.integers(1, net.max_length, endpoint=True), seed + i) for i in range(prompts)
            )
        case PromptFunction():
            return max(_of_functional(net, rng, length, prompts) for length in LENGTHS)
        case KernelNetwork() | InContextNetwork():
            lengths = LENGTHS if net.target.examples is None else (net.target.examples,)
            return max(_of_examples(net, rng, length, prompts) for length in lengths)
        case _:
            return af.measure(net, points=points, seed=seed).sup


def _of_program(net: ProgramNetwork, length: int, seed: int) -> float:
    """Of the features of the result, on one sequence."""
    tokens = random.Random(seed).choices(net.vocabulary, k=int(length))
    return net.trace(tokens).registers[-1].error


def _of_functional(net: PromptFunction, rng: np.random.Generator, length: int, prompts: int) -> float:
    target, own = net.target, len(net.target.features)
    shares = rng.uniform(-1, 1, (prompts, length, len(target.names)))
    shares[::2] = np.sign(shares[::2]) * np.abs(shares[::2]) ** 0.2  # spread out, as conditions on variances ask
    tokens = target.box.lower + (target.box.upper - target.box.lower) * (1 + shares) / 2
    tokens[..., own:] = tokens[:, :1, own:]
    tokens = tokens[target.meets(tokens)]
    if not len(tokens):
        return -np.inf  # no prompt of this length meets the conditions
    found = net(tokens[..., :own], tokens[:, 0, own:] if target.query else None)
    return float(np.abs(found - target.values(tokens.astype(np.longdouble))).max())


def _of_examples(net: Any, rng: np.random.Generator, length: int, prompts: int) -> float:
    target, bound = net.target, net.target.data_bound
    if isinstance(net, KernelNetwork):
        x, queries = rng.uniform(-bound, bound, (2, prompts, length, target.features))
        y = rng.uniform(-bound, bound, (prompts, length))
        return float(np.abs(net(x, y, queries) - target.average(*map(np.longdouble, (x, y, queries)))).max())
    features = target.features
    x = rng.uniform(-bound, bound, (prompts, length, features.inputs - target.fit_intercept))
    if target.has_numbers:
        y = rng.uniform(-bound, bound, (prompts, length, *(features.outputs,) * target.has_columns))
    else:
        y = rng.integers(0, max(2, features.outputs), (prompts, length)).astype(float)
    exact = target.weights(np.longdouble(x), np.longdouble(y))
    return float(np.abs(net(x, y) - exact).max())


def built_elsewhere(names: list[str]) -> dict[str, str]:
    """Fingerprints of the same networks, built by a process of its own."""
    words = [sys.executable, __file__, "--fingerprints", *names]
    found: dict[str, str] = json.loads(subprocess.run(words, check=True, capture_output=True, text=True).stdout)
    return found


def row(entry: Entry, elsewhere: str) -> tuple[Row, Size]:
    """Build, check and measure."""
    started = time.process_time()
    net = entry.build()
    seconds = time.process_time() - started
    size, certificate, same = Size.of(net), net.certificate, fingerprint(net) == elsewhere
    bound = LISTED if certificate.bound is None else f"{certificate.bound:.2g}"
    counts = (f"{size.layers}", f"{size.heads}", f"{size.keys:,}")
    known = (certificate.status, bound, f"{measured(net):.2g}", checked(net))
    return Row((f"`{entry.name}`", entry.kind, *counts, *known, f"{seconds:.2f}", "yes" if same else "NO")), size


def page(rows: list[Row]) -> str:
    """The table, with what made it and what it comes to."""
    verdicts = Counter(each["checker"].partition(":")[0] for each in rows)
    tally = ", ".join(f"{count} {verdict}" for verdict, count in verdicts.items())
    statuses = ", ".join(f"{count} {status}" for status, count in Counter(each["status"] for each in rows).items())
    kinds, same = len({each["kind"] for each in rows}), sum(each["same bytes"] == "yes" for each in rows)
    return f"""# The zoo, built

Made by `{COMMAND}`. Python {platform.python_version()}, attnforge {af.__version__}, numpy {np.__version__}, torch
{torch.__version__}; one thread. *Seconds* are of the processor, to build and prove. *Measured* is the largest error
found: of functions by `af.measure` ({POINTS:,} points, risky places, a climb), of prompts over {PROMPTS} random ones of
each of {LENGTHS} tokens or examples, of programs over {PROMPTS} random sequences, feature by feature of the result.
*Same bytes*: another process built it again, and the saved models (of programs, which have no file, the networks'
digests) are equal. The checker has {CHECKING:.0f} s for each.

- {len(rows)} networks of {kinds} kinds, built in {sum(float(each["seconds"]) for each in rows):.0f} s of one processor;
- status: {statuses} (*sampled* are tables: nothing is said between the listed points, where the error is checked);
- measured within the bound: {sum(each.kept for each in rows)}; same bytes: {same};
- the checker: {tally}.

| {" | ".join(COLUMNS)} |
|{"---|" * len(COLUMNS)}
{chr(10).join(map(str, rows))}
"""


def write(rows: dict[str, Row], sizes: dict[str, Size]) -> None:
    """The page and the sizes: those of before, with these in place of theirs."""
    before = RESULTS.read_text(encoding="utf-8").splitlines() if RESULTS.exists() else []
    known = {each.name: each for each in map(Row.read, before) if each.cells[0].startswith("`")} | rows
    RESULTS.write_text(page([known[name] for name in af.zoo.list() if name in known]), encoding="utf-8")
    counts = json.loads(SIZES.read_text(encoding="utf-8")) | {name: asdict(size) for name, size in sizes.items()}
    lines = ",\n".join(f'  "{name}": {json.dumps(counts[name])}' for name in af.zoo.list() if name in counts)
    SIZES.write_text(f"{{\n{lines}\n}}\n", encoding="utf-8")


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--fingerprints", action="store_true", help="print these, as JSON")
    given = parser.parse_args()
    names = given.names or af.zoo.list()
    if given.fingerprints:
        print(json.dumps({name: fingerprint(af.zoo.get(name)) for name in names}))
        return
    elsewhere, rows, sizes = built_elsewhere(names), {}, {}
    for name in names:
        rows[name], sizes[name] = row(af.zoo.entries[name], elsewhere[name])
        print(rows[name], flush=True)
    write(rows, sizes)


if __name__ == "__main__":
    main()
