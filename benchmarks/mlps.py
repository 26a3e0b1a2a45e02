"""Trained torch networks of published sizes: compiled, proved, checked and timed.

Run ``OMP_NUM_THREADS=1 .venv/bin/python benchmarks/mlps.py``: the table goes to ``benchmarks/results/mlps.md``. Three
shapes: 8-64-64-1 with tanh, GELU and SiLU; that of the ACAS Xu networks (5-50x6-5, ReLU) of Katz et al. (2017),
Reluplex, CAV; and 784-256x6-10 (ReLU), as mnist networks of the verification competition have it. Weights are trained
by Adam from a fixed seed on made-up data: a smooth function of the inputs, or blobs on a grid of 28 x 28 pixels.
Seconds are of the processor, by one thread. Errors are looked for at fresh uniform points of the box.
"""

from __future__ import annotations

import argparse
import platform
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TypeVar

import torch
from torch import Tensor, nn

import attnforge as af

T = TypeVar("T")

COMMAND = "OMP_NUM_THREADS=1 .venv/bin/python benchmarks/mlps.py"
RESULTS = Path(__file__).parent / "results"
STEPS, BATCH, RATE = 300, 256, 2e-3  # of Adam
FRESH, TIMED, REPEATS = (
    20_000,
    4096,
    7,
)  # points for errors, points of one evaluation that is timed, the best of so many
CHECKING = 120.0  # seconds for the checker
HEADING = """# Torch networks of published sizes

Made by `{command}`. {machine} Weights: {steps} steps of Adam from seed {seed}.

*compile* is all of `af.compile`, its proof included; *proof* is `af.certify` once more. *error*: the largest at
{fresh:,} fresh points. *evaluation*: seconds of the compiled module over those of the torch network, {timed:,} points.

| network | units | dtype | tol | status | bound | error | heads | keys | compile, s | proof, s | checker | evaluation |
|---|---|---|---|---|---|---|---|---|---|---|---|---|"""


@dataclass(frozen=True)
class Case:
    """A shape on a box, what is asked of it, and the most seconds that compiling may take."""

    sizes: tuple[int, ...]
    activation: type[nn.Module]
    tol: float
    dtype: str
    low: float
    seconds: float
    checked: bool = False

    @property
    def name(self) -> str:
        """As people write it."""
        inner = self.sizes[1:-1]
        middle = f"{inner[0]}x{len(inner)}" if len(inner) > 2 else "-".join(map(str, inner))
        return f"{self.sizes[0]}-{middle}-{self.sizes[-1]}"

    @property
    def box(self) -> af.Box:
        """The same range for every input."""
        return af.Box([self.low] * self.sizes[0], [1.0] * self.sizes[0])


SMOOTH, ACAS, DIGITS = (8, 64, 64, 1), (5, *[50] * 6, 5), (784, *[256] * 6, 10)
CASES = (
    *(Case(SMOOTH, each, 1e-6, "float64", -1.0, 60.0) for each in (nn.Tanh, nn.GELU, nn.SiLU)),
    Case(ACAS, nn.ReLU, 1e-9, "float64", -1.0, 30.0, checked=True),
    Case(ACAS, nn.ReLU, 1e-1, "float32", -1.0, 30.0),
    Case(DIGITS, nn.ReLU, 1e-4, "float64", 0.0, 30.0),
)


@dataclass(frozen=True)
class Row:
    """What became of a case."""

    case: Case
    status: str
    bound: float | None
    error: float
    heads: int
    keys: int
    compiling: float
    proving: float
    verdict: str
    ratio: float

    @property
    def kept(self) -> bool:
        """Whether it is proved within the tolerance and the time."""
        return self.bound is not None and self.bound <= self.case.tol and self.compiling <= self.case.seconds

    @property
    def text(self) -> str:
        """A line of the table."""
        case, bound = self.case, "none" if self.bound is None else f"{self.bound:.2g}"
        first = f"| {case.name} | {case.activation.__name__} | {case.dtype} | {case.tol:g} | {self.status} | {bound}"
        counts = f"{self.error:.2g} | {self.heads:,} | {self.keys:,} | {self.compiling:.1f} | {self.proving:.1f}"
        return f"{first} | {counts} | {self.verdict} | {self.ratio:.0f} |"


def network(case: Case, seed: int) -> nn.Sequential:
    """Linear maps and activations, trained for a short while."""
    torch.manual_seed(seed)
    parts: list[nn.Module] = []
    for a, b in zip(case.sizes, case.sizes[1:], strict=False):
        parts += [nn.Linear(a, b), case.activation()]
    net = nn.Sequential(*parts[:-1])
    data = blobs if case.sizes[0] == DIGITS[0] else smooth
    optimizer = torch.optim.Adam(net.parameters(), lr=RATE)
    for _ in range(STEPS):
        inputs, wanted = data(case)
        loss = nn.functional.mse_loss(net(inputs), wanted)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return net.double().requires_grad_(requires_grad=False)


def smooth(case: Case) -> tuple[Tensor, Tensor]:
    """Uniform inputs, and waves of their sums."""
    inputs = 2 * torch.rand(BATCH, case.sizes[0]) - 1
    phases = torch.arange(case.sizes[-1])
    return inputs, torch.sin(2 * inputs.sum(dim=1, keepdim=True) / case.sizes[0] ** 0.5 + phases)


def blobs(case: Case) -> tuple[Tensor, Tensor]:
    """A blob at one of ten places of a picture, with noise; which place it is."""
    places = torch.randint(case.sizes[-1], (BATCH,))
    angle = 2 * torch.pi * places / case.sizes[-1]
    pixels = torch.linspace(-1, 1, 28)
    across = (pixels - 0.6 * torch.cos(angle)[:, None]) ** 2
    down = (pixels - 0.6 * torch.sin(angle)[:, None]) ** 2
    picture = torch.exp(-20 * (across[:, None, :] + down[:, :, None])).flatten(1)
    noisy = (picture + 0.1 * torch.randn(BATCH, case.sizes[0])).clamp(0, 1)
    return noisy, nn.functional.one_hot(places, case.sizes[-1]).float()


def measured(case: Case, seed: int) -> Row:
    """Train, compile, prove, check and time one case."""
    net = network(case, seed)
    compiled, compiling = timed(lambda: af.compile(net, case.box, tol=case.tol, dtype=case.dtype))
    proof, proving = timed(lambda: af.certify(compiled))
    points = case.low + (1 - case.low) * torch.rand(FRESH, case.sizes[0], dtype=torch.float64)
    error = float((compiled(points).reshape(FRESH, -1) - net(points)).abs().max())
    ratio = best(compiled.module(), points[:TIMED]) / best(net.to(getattr(torch, case.dtype)), points[:TIMED])
    verdict = checked(compiled) if case.checked else ""
    return Row(
        case, proof.status, proof.bound, error, compiled.heads, compiled.anchors, compiling, proving, verdict, ratio
    )


def checked(compiled: af.Compiled) -> str:
    """What the independent checker says of the file."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "network.safetensors"
        compiled.save(path)
        verdict, seconds = timed(lambda: af.check(path, timeout=CHECKING))
    return f"{verdict.verdict}, {seconds:.1f} s"


def timed(work: Callable[[], T]) -> tuple[T, float]:
    """The result, and seconds of the processor."""
    start = time.process_time()
    return work(), time.process_time() - start


def best(module: nn.Module, points: Tensor) -> float:
    """The fewest seconds of an evaluation."""
    given = points.to(next(iter(module.state_dict().values())).dtype)
    with torch.no_grad():
        return min(timed(lambda: module(given))[1] for _ in range(REPEATS))


def machine() -> str:
    """Versions and processor."""
    model = next((line for line in Path("/proc/cpuinfo").read_text().splitlines() if "model name" in line), "")
    versions = ", ".join(f"{name} {version(name)}" for name in ("attnforge", "numpy", "torch", "python-flint"))
    return f"Python {platform.python_version()}, {versions}; {model.split(':')[-1].strip() or 'CPU'}, one thread."


def page(rows: Iterable[Row], command: str, seed: int) -> str:
    """Heading, table, and what was not kept."""
    found = list(rows)
    head = HEADING.format(command=command, machine=machine(), steps=STEPS, seed=seed, fresh=FRESH, timed=TIMED)
    kept = f"\n{sum(row.kept for row in found)} of {len(found)} are proved within their tolerance and their time."
    return "\n".join([head, *(row.text for row in found), kept]) + "\n"


def main(arguments: Sequence[str] | None = None) -> None:
    """Print and write the page; fail if an error exceeds a bound."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", metavar="TEXT", help="networks or activations whose name contains it; prints alone")
    parser.add_argument("--seed", type=int, default=0, help="of weights and data")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    rows = []
    for case in CASES:
        if not options.only or options.only in f"{case.name} {case.activation.__name__}":
            rows.append(measured(case, options.seed))
            print(rows[-1].text, flush=True)
    command = COMMAND + (f" --seed {options.seed}" if options.seed else "")
    if not options.only:
        (RESULTS / "mlps.md").write_text(page(rows, command, options.seed))
    sys.exit(1 if any(row.bound is not None and row.error > row.bound for row in rows) else 0)


if __name__ == "__main__":
    main()
