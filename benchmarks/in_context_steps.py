"""Chebyshev steps and kernel ridge regression in context: how many blocks, how close, and what is proved.

Run ``OMP_NUM_THREADS=1 .venv/bin/python -m benchmarks.in_context_steps``: three tables go to
``benchmarks/results/in_context_steps.md``.

- *Chebyshev steps*: least squares whose X^T X / n has eigenvalues from 0.001 to 1, against steps of constant size.
- *Kernel ridge regression*: alpha = 1, Gaussian kernel, against scikit-learn's closed form.
- *Changed networks*: entries, arrays, heads, rows and residuals of a block or of all, and numbers of the target, drawn
  from a seed as in ``in_context_mutations.py``; the prover certifies each anew on a prompt, and its bound is compared
  with a run of the torch module against the exact iteration in extended precision.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.kernel_ridge import KernelRidge as Judge

from attnforge.errors import AttnforgeError
from attnforge.in_context import KernelRidge, LeastSquares, Ridge
from attnforge.targets.in_context import Iteration, KernelSystem
from tests.laws.in_context_mutations import changed_layer, factor_of

Array = npt.NDArray[np.float64]
Rng = np.random.Generator

RESULTS = Path(__file__).parent / "results" / "in_context_steps.md"
EXAMPLES, FEATURES, SPECTRUM = 100, 5, (1e-3, 1.0)
BANDWIDTH = 0.7


def conditioned(seed: int, n: int = EXAMPLES, d: int = FEATURES, spectrum: Any = SPECTRUM) -> tuple[Array, Array]:
    """Examples whose X^T X / n has eigenvalues from m to L, spread evenly in the logarithm, and noisy values."""
    rng = np.random.default_rng(seed)
    q, v = np.linalg.qr(rng.normal(size=(n, d)))[0], np.linalg.qr(rng.normal(size=(d, d)))[0]
    x = q * np.sqrt(n * np.geomspace(*spectrum, d)) @ v.T
    return x, x @ rng.normal(size=d) + 0.1 * rng.normal(size=n)


def scattered(seed: int, n: int) -> tuple[Array, Array]:
    """Points of a square, and a smooth function of them with noise."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-2, 2, (n, 2))
    return x, np.sin(2 * x[:, 0]) * x[:, 1] + 0.1 * rng.normal(size=n)


def exact(net: Any, *data: Array) -> npt.NDArray[Any]:
    """The exact iteration in extended precision."""
    wide = [each.astype(np.longdouble) for each in data]
    return np.asarray(net.target.values(np.concatenate([wide[0], wide[1].reshape(len(wide[0]), -1)], axis=-1)))


def chebyshev_rows(seeds: int, plain: int) -> Iterator[str]:
    """The first table."""
    for steps in (100, 200, 300, 369, 400):
        net = LeastSquares(steps=steps, schedule="chebyshev", spectrum=SPECTRUM).build(FEATURES)
        found = []
        for seed in range(seeds):
            x, y = conditioned(seed)
            w, best, certificate = net(x, y), np.linalg.lstsq(x, y, rcond=None)[0], net.certify(x, y)
            away, drift = np.linalg.norm(w - best), np.abs(w - exact(net, x, y)).max()
            assert drift <= certificate.bound
            assert away <= certificate.minimiser
            found.append((away, certificate.minimiser, drift, certificate.bound))
        worst = " | ".join(f"{number:.1e}" for number in np.array(found, dtype=np.float64).max(axis=0))
        yield f"| {steps} Chebyshev steps | {worst} |"
    net = LeastSquares(steps=plain, learning_rate=2 / sum(SPECTRUM)).build(FEATURES)  # the best constant size
    x, y = conditioned(0)
    w, best = net(x, y), np.linalg.lstsq(x, y, rcond=None)[0]
    drift = float(np.abs(w - exact(net, x, y)).max())
    yield f"| {plain:,} steps of size 2 / (m + L) (one data set) | {np.linalg.norm(w - best):.1e} | | {drift:.1e} | |"


def ridge_rows(sizes: list[tuple[int, int]]) -> Iterator[str]:
    """The second table."""
    for n, steps in sizes:
        x, y = scattered(0, n)
        net = KernelRidge(alpha=1.0, bandwidth=BANDWIDTH, steps=steps).build(2, n)
        judge = Judge(alpha=1.0, kernel="rbf", gamma=1 / (2 * BANDWIDTH**2)).fit(x, y)
        start = time.perf_counter()
        a = net(x, y)
        ran = time.perf_counter()
        certificate = net.certify(x, y)
        proved = time.perf_counter() - ran
        drift, away = np.abs(a - exact(net, x, y)).max(), np.abs(a - judge.dual_coef_).max()
        assert drift <= certificate.bound
        assert away <= certificate.minimiser + 1e-13
        numbers = (away, certificate.minimiser, drift, certificate.bound)
        heads = len(net.network.heads) // steps
        text = " | ".join(f"{float(each):.1e}" for each in numbers)
        yield f"| {n:,} | {steps} | {heads} | {text} | {ran - start:.0f} s, {proved:.0f} s |"


CASES: dict[str, tuple[Any, Any]] = {
    "least squares, step sizes and first weights": (
        LeastSquares(steps=4, learning_rate=(0.9, 0.4, 0.7, 0.2), initial=(0.3, -0.1, 0.2)),
        lambda: conditioned(0, 20, 3, (0.1, 1.0)),
    ),
    "least squares, Chebyshev": (
        LeastSquares(steps=8, schedule="chebyshev", spectrum=(0.05, 1.2)),
        lambda: conditioned(0, 20, 3, (0.1, 1.0)),
    ),
    "ridge, Chebyshev": (
        Ridge(steps=8, schedule="chebyshev", spectrum=(0.1, 1.5), alpha=0.1),
        lambda: conditioned(0, 20, 3, (0.1, 1.0)),
    ),
    "ridge, Chebyshev, float32": (
        Ridge(steps=5, schedule="chebyshev", spectrum=(0.5, 1.0), alpha=0.2, dtype="float32"),
        lambda: conditioned(0, 20, 3, (0.3, 0.8)),
    ),
    "ridge, two outputs, Chebyshev": (
        Ridge(steps=6, schedule="chebyshev", spectrum=(0.1, 1.5), alpha=0.1, outputs=2),
        lambda: (conditioned(0, 20, 3, (0.1, 1.0))[0], np.random.default_rng(1).normal(size=(20, 2))),
    ),
    "kernel ridge": (KernelRidge(alpha=1.0, bandwidth=BANDWIDTH, steps=12), lambda: scattered(0, 12)),
    "kernel ridge, float32": (
        KernelRidge(alpha=2.0, bandwidth=BANDWIDTH, steps=8, dtype="float32"),
        lambda: scattered(0, 12),
    ),
}


def changed_target(target: Iteration | KernelSystem, rng: Rng) -> tuple[str, Iteration | KernelSystem]:
    """A change of what is asked for."""
    factor, rates = factor_of(rng), list(target.rates)
    place = int(rng.integers(len(rates)))
    kind = str(rng.choice(["rate", "penalty", "spectrum", "more"]))
    if kind == "rate":
        rates[place] *= factor
        more = {}
        if isinstance(target, Iteration) and place == 0:
            more["algorithm"] = replace(target.algorithm, learning_rate=rates[0])
        return f"a step size * {factor:.3g}", replace(target, rates=tuple(rates), **more)
    if kind == "spectrum" and target.spectrum is not None:
        low, high = target.spectrum
        return f"spectrum * {factor:.3g}", replace(target, spectrum=(low * factor, high))
    if isinstance(target, KernelSystem):
        name = str(rng.choice(["alpha", "bandwidth"]))
        return f"{name} * {factor:.3g}", replace(target, **{name: getattr(target, name) * factor})
    if kind == "more" and target.initial is not None:
        return f"first weights * {factor:.3g}", replace(target, initial=target.initial * factor)
    return f"l2 * {factor:.3g}", replace(target, algorithm=replace(target.algorithm, l2=target.algorithm.l2 * factor))


def changed_network(net: Any, rng: Rng) -> tuple[str, Any]:
    """A layer of one block changed, or of all blocks alike."""
    size, steps = len(net.block), net.steps
    place, layers = int(rng.integers(size)), list(net.network.layers)
    chosen = range(steps) if rng.random() < 0.3 else [int(rng.integers(steps))]
    seed = int(rng.integers(2**31))
    what = ""
    for t in chosen:
        what, layers[t * size + place] = changed_layer(
            layers[t * size + place], np.random.default_rng(seed), net.network
        )
    return f"{what} in {len(chosen)} of {steps} blocks", replace(net.network, layers=tuple(layers))


def judged(net: Any, x: Array, y: Array) -> tuple[float, float | None]:
    """The error of a run on a prompt, and what is proved of it: None where it is refused."""
    import torch

    with torch.no_grad(), np.errstate(all="ignore"):
        try:
            found = net._module(torch.from_numpy(x), torch.from_numpy(y)).double().numpy()
            error = float(np.abs(found - exact(net, x, y)).max())
        except (AttnforgeError, IndexError, RuntimeError):
            error = math.nan
        try:
            return error, net.certify(x, y).bound
        except AttnforgeError:
            return error, None


def mutation_rows(count: int) -> Iterator[tuple[str, list[str]]]:
    """The third table, and false proofs."""
    for name, (made, data) in CASES.items():
        x, y = data()
        net = made.build(x.shape[1], len(x)) if isinstance(made, KernelRidge) else made.build(x.shape[1])
        honest, false, refused, wrong, tried, seed = net.certify(x, y).bound, [], 0, 0, 0, 0
        while tried < count:
            seed += 1
            rng = np.random.default_rng(seed)
            try:
                if rng.random() < 0.2:
                    what, target = changed_target(net.target, rng)
                    mutant = type(net)(net.network, target, None, net.construction, net.dtype)
                else:
                    what, network = changed_network(net, rng)
                    mutant = type(net)(network, net.target, None, net.construction, net.dtype)
            except (AttnforgeError, ValueError, IndexError, ZeroDivisionError, AssertionError):
                continue  # such a network cannot be made
            tried += 1
            error, bound = judged(mutant, x, y)
            refused += bound is None
            wrong += not error <= honest
            if bound is not None and not error <= bound:
                false.append(f"{name}, seed {seed}: {what}: {error:.3g} above {bound:.3g}")
        yield f"| {name} | {honest:.1e} | {wrong} | {refused} | {count - refused} | {len(false)} |", false


def main() -> None:
    """Measure, and write the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--plain", type=int, default=11_513)
    parser.add_argument("--mutants", type=int, default=500)
    parser.add_argument("--sizes", type=int, nargs="*", default=[100, 130, 300, 230, 1000, 400], help="n, steps, ...")
    parser.add_argument("--out", type=Path, default=RESULTS)
    given = parser.parse_args()
    sizes = list(zip(given.sizes[::2], given.sizes[1::2], strict=True))
    lines = [
        "# Chebyshev steps and kernel ridge regression in context\n",
        "Made by `OMP_NUM_THREADS=1 .venv/bin/python -m benchmarks.in_context_steps`; what is measured, and how: the "
        "heading of that file.\n",
        f"## Least squares of condition 1000: n = {EXAMPLES}, d = {FEATURES}, worst of {given.seeds} data sets\n",
        "Distances to the optimum in the Euclidean norm, drift (from the exact iteration) by the largest weight.\n",
        "| blocks | to the optimum | certified | drift | certified |\n|---|---|---|---|---|",
    ]
    for row in chebyshev_rows(given.seeds, given.plain):
        lines.append(row)
        print(row, flush=True)
    lines += [
        "\n## Kernel ridge regression, alpha = 1, bandwidth 0.7, two features, float64\n",
        "Distances of the worst coefficient; certified are the Euclidean distance to the solution, and the drift.\n",
        "| examples | steps | heads a step | to scikit-learn | certified | drift | certified | run, proof |\n"
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in ridge_rows(sizes):
        lines.append(row)
        print(row, flush=True)
    lines += [
        f"\n## Changed networks and targets, {given.mutants} each\n",
        "| network | bound, as built | mutants seen above it | refused | proved anew | false proofs |\n"
        "|---|---|---|---|---|---|",
    ]
    false: list[str] = []
    for row, found in mutation_rows(given.mutants):
        lines.append(row)
        false += found
        print(row, *found, sep="\n", flush=True)
    lines += [f"\n- {each}" for each in false]
    given.out.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
