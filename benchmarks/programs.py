"""Every program of the library against its plain Python reference, how far each is proved, and sizes beside tracr's.

``PYTHONPATH=. python benchmarks/programs.py`` writes ``benchmarks/results/programs.md``; ``--quick`` takes a hundredth
of the sequences and prints.
"""

from __future__ import annotations

import argparse
import itertools
import random
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from itertools import repeat
from pathlib import Path
from typing import Any

import torch

from attnforge import programs as p
from attnforge.targets.programs.language import Positions

RESULTS = Path(__file__).resolve().parent / "results" / "programs.md"
MANY, LONG = 256, 2000  # lengths of 10,000 and of 100 sequences, as far as proved
POSITIONS = 512  # largest length tried where a program reads codes of positions: their weights are n x n
COUNTS = 2048  # and of the others

# Sizes of tracr's models, 8 tokens (2 of Dyck-1), up to 16 positions: computed by running tracr's passes from a program
# of its compiler/lib.py to its craft model, and counting weights as its compiler/assemble.py shapes them (biases left
# out; empty half-layers are filled with zeros there), at commit 9ce2b8c of github.com/google-deepmind/tracr.
TRACR = {
    "sort": ("make_sort", 3, 2, 181, 427_703),
    "histogram": ("make_hist", 1, 1, 45, 6_840),
    "reverse": ("make_reverse", 4, 3, 117, 322_335),
    "balanced": ("make_shuffle_dyck, one pair", 6, 6, 71, 926_905),
}


def short(entry: p.Entry) -> list[list[Any]]:
    """All sequences of up to six tokens of the small vocabulary."""
    return [list(each) for n in range(1, 7) for each in itertools.product(entry.small, repeat=n)]


def drawn(entry: p.Entry, length: int, count: int, seed: int) -> list[list[Any]]:
    """Random sequences; every other one of a kind that is rare among them: see ``unusual``."""
    source = random.Random(seed)
    return [
        unusual(entry, length, source) if i % 2 else source.choices(entry.vocabulary, k=length) for i in range(count)
    ]


def unusual(entry: p.Entry, length: int, source: random.Random) -> list[Any]:
    """Brackets that match until a late mistake, or to the end; sums with long carries; one token more often."""
    tokens = entry.vocabulary
    if entry.name == "addition":
        nine = [token for token in tokens if int(token[0]) + int(token[2]) == 9]
        return [source.choice(nine if source.random() < 0.9 else tokens) for _ in range(length)]
    if entry.name in ("dyck1", "dyck2", "balanced"):
        return nested(tokens, length, source, deepest=4 if entry.name == "dyck2" else length)
    return source.choices(tokens, [3.0] + [1.0] * (len(tokens) - 1), k=length)


def nested(tokens: tuple[Any, ...], length: int, source: random.Random, deepest: int) -> list[Any]:
    """Brackets that match; in half of the cases all are closed at the end, in others one token is replaced."""
    pairs = [(tokens[i], tokens[i + 1]) for i in range(0, len(tokens) - 1, 2)]
    found: list[Any] = []
    stack: list[Any] = []
    while len(found) < length:
        left = length - len(found)
        may_open = len(stack) < min(deepest, left - 1)
        if stack and (not may_open or source.random() < 0.5):
            found.append(stack.pop())
        elif may_open:
            opening, closing = source.choice(pairs)
            found.append(opening)
            stack.append(closing)
        else:
            found.append(tokens[-1] if len(tokens) % 2 else tokens[0])
    if source.random() < 0.5:
        found[source.randrange(length // 2, length)] = source.choice(tokens)
    return found


def wrong(net: p.ProgramNetwork, entry: p.Entry, sequences: list[list[Any]], vocabulary: tuple[Any, ...]) -> int:
    """How many sequences have a wrong value."""
    found = net.many(sequences)
    return sum(each != entry.reference(given, vocabulary) for given, each in zip(sequences, found, strict=True))


def correctness(name: str, share: float) -> tuple[str, ...]:
    """The row of a program: lengths, sequences, wrong ones, margin, seconds."""
    torch.set_num_threads(1)
    entry, start = p.library[name], time.perf_counter()
    all_short, small = short(entry), p.compile(entry, entry.small, max_length=6)
    net = p.compile(entry, max_length=min(LONG, limit_of(entry)))
    many, long = MANY, net.max_length
    first = wrong(small, entry, all_short, entry.small)
    second = wrong(net, entry, drawn(entry, many, max(1, int(10_000 * share)), 1), entry.vocabulary)
    third = wrong(net, entry, drawn(entry, long, max(1, int(100 * share)), 2), entry.vocabulary)
    seconds = time.perf_counter() - start
    return (
        f"`{entry.name}`",
        f"{first} of {len(all_short):,}",
        f"{second} of {max(1, int(10_000 * share)):,} (n = {many})",
        f"{third} of {max(1, int(100 * share)):,} (n = {long:,})",
        f"{net.certificate.bound:.1e}",
        f"{net.layers}",
        f"{net.heads}",
        f"{net.features}",
        f"{seconds:.0f} s",
    )


def limit_of(entry: p.Entry) -> int:
    """The largest length that is tried."""
    reads = any(isinstance(node, Positions) for node, _ in p.compile(entry, max_length=3).layout.registers)
    return POSITIONS if reads else COUNTS


def proved(name: str) -> tuple[str, ...]:
    """The largest length that is proved in each dtype; one that reaches the limit of the search is marked."""
    entry = p.library[name]
    limit = limit_of(entry)
    found = p.proved_lengths(entry, limit=limit)
    cells = [f"{length:,} or more" if length == limit else f"{length:,}" for length in found.values()]
    return (f"`{entry.name}`", f"{len(entry.vocabulary)}", *cells)


def beside_tracr() -> Iterator[tuple[str, ...]]:
    """Sizes for the same vocabulary and length as tracr's."""
    for key, (name, layers, mlps, width, weights) in TRACR.items():
        tokens = ("(", ")") if key == "balanced" else tuple(range(1, 9)) if key == "sort" else tuple("abcdefgh")
        net = p.compile(p.library[key], tokens, max_length=16)
        yield (
            f"`{key}`",
            "attnforge",
            f"{net.layers}",
            "0",
            f"{net.features}",
            f"{net.parameters:,}",
            "every sequence",
        )
        yield (f"`{key}`", f"tracr, `{name}`", f"{layers}", f"{mlps}", f"{width}", f"{weights:,}", "nothing: tested")


def table(header: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    """Markdown."""
    return "".join(f"| {' | '.join(row)} |\n" for row in (header, ("---",) * len(header), *rows))


def page(share: float, workers: int) -> str:
    """The whole page, programs shared out among processes."""
    with ProcessPoolExecutor(workers) as pool:
        rows = list(pool.map(correctness, p.library, repeat(share)))
        lengths = list(pool.map(proved, p.library))
    columns = ("program", "all sequences of up to 6 tokens", "random", "random, long", "bound", "layers", "heads")
    return f"""# Programs, measured

Made by `PYTHONPATH=. python benchmarks/programs.py`. Every library program, in float64, against its plain Python
reference: how many sequences have a wrong value (every other random one is of a rare kind: brackets that match until a
late mistake, sums with long carries, one token more frequent). *Bound* is the proved error of a feature of the result;
below 1/2 every value is read off exactly.

{table((*columns, "features", "time"), rows)}
## The largest length that is proved

By doubling and bisection; one token more is not proved. The search stops at {COUNTS:,} tokens, or {POSITIONS} where a
program compares positions by order, since their weights are n x n.

{table(("program", "tokens", "float64", "float32", "bfloat16"), lengths)}
## Beside tracr

Eight tokens (two for brackets), up to 16 positions. tracr's sizes come from running its own passes on programs of its
library and counting weights in the shapes of its `compiler/assemble.py`, without biases, at commit 9ce2b8c. Its layers
are all as large as the largest, filled up with zeros. It adds MLPs to attention, assumes attention that is as good as
hard (a fixed inverse temperature of 100) and approximates functions by steps of ReLUs (`mlp_exactness` 100); its tests
compare within `rtol=0.005` (Lindner et al. 2023, arXiv:2301.05062, and its code).

{table(("program", "compiler", "layers", "MLPs", "width", "weights", "what is proved"), list(beside_tracr()))}"""


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--workers", type=int, default=1, help="processes")
    options = parser.parse_args()
    quick = options.quick
    text = page(0.01 if quick else 1.0, options.workers)
    if quick:
        sys.stdout.write(text)
    else:
        RESULTS.write_text(text, encoding="utf-8")
