"""The figures of the truncated linear constructions: rates, the papers' own setting, dtypes, layouts, memory.

Run ``.venv/bin/python benchmarks/truncated_linear.py``; the tables go to ``benchmarks/results/truncated_linear.md``.
"""

from __future__ import annotations

import time
import tracemalloc
from pathlib import Path

import numpy as np
import torch

import attnforge as af

RESULTS = Path(__file__).parent / "results" / "truncated_linear.md"
PAPER = {"lower": -25.0, "upper": 25.0, "domain": af.Box(-5, 5)}
D, N = 10, 50


def slope(counts: list[int], errors: list[float]) -> float:
    """Least-squares slope of log error against log count."""
    return float(np.polyfit(np.log(counts), np.log(errors), 1)[0])


def anchors_rate() -> list[str]:
    """Sup error against p, hard and tuned, one head."""
    counts = [16, 32, 64, 128, 256, 512, 1024, 2048, 4096]
    rows, errors = [], {"hard": [], "tuned": []}
    for p in counts:
        cells = [str(p)]
        for sharpness in ("hard", "tuned"):
            net = af.constructions.truncated_linear(
                [1.0], 0.0, -1, 1, anchors=p, sharpness=sharpness, domain=af.Box(-2, 2)
            )
            found = af.measure(net, points=50_000).sup
            errors[sharpness].append(found)
            cells += [f"{found:.4g}", f"{net.certificate.bound:.4g}"]
        rows.append(" | ".join([*cells, f"{errors['hard'][-1] / errors['tuned'][-1]:.2f}"]))
    head = "p | hard: measured | hard: bound | tuned: measured | tuned: bound | hard / tuned"
    slopes = ", ".join(f"{name} {slope(counts, values):.4f}" for name, values in errors.items())
    return ["## Error against anchors, one head, clamp(y, -1, 1)", "", *table(head, rows), "", f"Slopes: {slopes}."]


def heads_rate() -> list[str]:
    """Sup error against H, borders included."""
    counts, rows, errors = [1, 2, 4, 8, 16, 32, 64], [], []
    rng = np.random.default_rng(0)
    w = rng.normal(size=D)
    for h in counts:
        cells = [str(h)]
        for r, sharpness in ((1, "hard"), (2, "tuned")):
            net = af.constructions.multihead_truncated_linear(
                w, 0.3, **PAPER, tokens=N, heads=h, sentinels=r, sharpness=sharpness
            )
            found = af.measure(net, points=50_000).sup
            if r == 1:
                errors.append(found)
            cells += [f"{found:.4g}", f"{net.certificate.bound:.4g}"]
        rows.append(" | ".join(cells))
    head = "H | r=1 hard: measured | bound | r=2 tuned: measured | bound"
    line = f"Slope of the hard column: {slope(counts, errors):.4f} (every border is searched)."
    return ["## Error against heads, n = 50 keys each, [a, b] = [-25, 25]", "", *table(head, rows), "", line]


def paper_setting() -> list[str]:
    """MSE and largest error on the authors' data."""
    rng = np.random.default_rng(0)
    w, t = rng.normal(size=(N, D)), rng.normal(size=N)
    x = rng.uniform(-5, 5, size=(2000, N, D))
    h = 50 / 59
    cases = {
        "one head, p = 60, hard": af.constructions.truncated_linear(w, t, **PAPER, anchors=60, sharpness="hard"),
        "one head, p = 60, c = 1.4": af.constructions.truncated_linear(w, t, **PAPER, anchors=60, sharpness=1.4 / h**2),
        "one head, p = 60, tuned": af.constructions.truncated_linear(w, t, **PAPER, anchors=60),
        "16 heads, r = 2, c = 2": af.constructions.multihead_truncated_linear(
            w[0], t, **PAPER, tokens=N, heads=16, sentinels=2, sharpness=2 / (50 / (16 * 46 - 1)) ** 2
        ),
        "gate": af.constructions.gate(w, t, **PAPER),
    }
    rows = []
    for name, net in cases.items():
        error = net(x) - net.target.values(x)
        rows.append(f"{name} | {np.mean(error**2):.3g} | {np.abs(error).max():.3g} | {net.certificate.bound:.3g}")
    head = "construction | MSE | max error | certified bound"
    return ["## The papers' setting: d = 10, n = 50, x ~ U[-5, 5], w, t ~ N(0, 1)", "", *table(head, rows)]


def dtypes() -> list[str]:
    """Low precision: measured against certified."""
    rows = []
    for dtype, p in (
        ("float64", 256),
        ("float32", 256),
        ("float16", 32),
        ("float16", 256),
        ("bfloat16", 8),
        ("bfloat16", 64),
    ):
        for domain in (af.Box(-2, 2), af.Box(-10, 10)):
            net = af.constructions.truncated_linear([1.0], 0.0, -1, 1, anchors=p, dtype=dtype, domain=domain)
            found, bound = af.measure(net, points=50_000).sup, net.certificate.bound
            reach = float(domain.upper)
            rows.append(f"{dtype} | {p} | [-{reach:g}, {reach:g}] | {found:.4g} | {bound:.4g} | {bound / found:.2f}")
    return ["## Dtypes, tuned", "", *table("dtype | p | domain | measured | bound | ratio", rows)]


def layouts() -> list[str]:
    """The paper's padded self-attention against the memory form, side by side in one run."""
    torch.set_num_threads(1)
    rng, rows = np.random.default_rng(0), []
    for n in (50, 200, 800):
        w, t = rng.normal(size=(n, D)), rng.normal(size=n)
        x = torch.tensor(rng.uniform(-5, 5, size=(8, n, D)))
        seconds, outputs, peak = {}, {}, {}
        for layout in ("literal", "memory"):
            net = af.constructions.truncated_linear(w, t, **PAPER, anchors=1000, layout=layout)
            module = net.module()
            outputs[layout] = module(x)
            times = []
            for _ in range(5):
                start = time.perf_counter()
                module(x)
                times.append(time.perf_counter() - start)
            seconds[layout] = min(times)
            peak[layout] = net.parameters
        gap = float((outputs["literal"] - outputs["memory"]).abs().max()) / 25
        rows.append(
            f"{n} | {seconds['literal'] / seconds['memory']:.1f} | {peak['literal'] / peak['memory']:.0f} | {gap:.1e}"
        )
    head = "tokens n | time literal / memory | parameters literal / memory | relative difference"
    return ["## Layouts, p = 1000, d = 10, one thread", "", *table(head, rows)]


def memory() -> list[str]:
    """Python memory of building and certifying a large head."""
    tracemalloc.start()
    start = time.perf_counter()
    af.constructions.truncated_linear([1.0], 0.0, -1, 1, anchors=100_000)
    elapsed, peak = time.perf_counter() - start, tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    line = f"Build and certify p = 100,000: {elapsed:.1f} s, {peak / 2**20:.0f} MiB peak."
    return ["## Memory", "", line]


def table(head: str, rows: list[str]) -> list[str]:
    """Markdown."""
    rule = "|".join("---" for _ in head.split("|"))
    return [f"| {head} |", f"|{rule}|", *(f"| {row} |" for row in rows)]


def main() -> None:
    """Write all tables."""
    command = "Made by `.venv/bin/python benchmarks/truncated_linear.py`."
    lines = ["# Truncated linear constructions, measured", "", command]
    for part in (anchors_rate, heads_rate, paper_setting, dtypes, layouts, memory):
        lines += ["", *part()]
        print("\n".join(lines[-12:]))
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
