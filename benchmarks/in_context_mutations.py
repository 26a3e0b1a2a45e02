"""Networks that read the examples of a prompt, changed in every way: is a bound ever believed that is not true?

Run ``OMP_NUM_THREADS=1 .venv/bin/python benchmarks/in_context_mutations.py --count 100``: so many changes of every
algorithm, route and dtype go to ``benchmarks/results/in_context_mutations.md``. A change is drawn from its seed: an
entry of an array (by a unit in the last place up to a hundredfold, or out of nothing), a whole array or a pair of them,
rows, heads, a residual, in all blocks or in one; or the target: a level, an answer, steps, step size, penalties, bound,
bandwidth, kernel.

The checker is handed the changed network with the old bound and fresh digests. The prover certifies it anew, for the
data box and for single prompts. All of them are compared with runs of the torch module, in the network's dtype, on
prompts of the box, against the exact iteration or average in extended precision.
"""

from __future__ import annotations

import argparse
import math
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from attnforge import in_context
from attnforge.certification.certificate import target_digest
from attnforge.certification.checker.check import check
from attnforge.certification.checker.in_context import sample
from attnforge.compiler.in_context import InContextNetwork
from attnforge.compiler.kernel import KernelNetwork
from attnforge.errors import AttnforgeError, RefusalError
from attnforge.network import Attention, Head, Layer, Linear, Network, Rows, digest
from attnforge.targets.in_context import Iteration, KernelAverage

Array = npt.NDArray[np.float64]
Rng = np.random.Generator

RESULTS = Path(__file__).parent / "results" / "in_context_mutations.md"
PROMPTS = 6  # of the box, beside those the checker tries itself
Net = InContextNetwork | KernelNetwork
Goal = Iteration | KernelAverage
ARRAYS = ("query", "key", "value", "output", "memory_keys", "memory_values")


def _kernel(kernel: Any) -> Callable[..., in_context.KernelRegression]:
    """Kernel regression has one route and no steps."""

    def made(route: str, dtype: str, **_: Any) -> in_context.KernelRegression:
        if route != "small_sharpness":
            raise RefusalError("A kernel is one head, by no other route", route)
        return in_context.KernelRegression(0.7, kernel, dtype)

    return made


ALGORITHMS: dict[str, Callable[..., Any]] = {
    "least squares": in_context.LeastSquares,
    "ridge": lambda **more: in_context.Ridge(alpha=0.2, **more),
    "lasso": lambda **more: in_context.Lasso(alpha=0.1, **more),
    "elastic net": lambda **more: in_context.ElasticNet(alpha=0.2, **more),
    "Huber": lambda **more: in_context.Huber(delta=0.5, **more),
    "logistic": lambda **more: in_context.Logistic(alpha=0.1, **more),
    "softmax": lambda **more: in_context.SoftmaxRegression(classes=3, **more),
    "Poisson": lambda **more: in_context.Poisson(learning_rate=0.1, **more),
    "Gaussian kernel": _kernel("gaussian"),
    "softmax kernel": _kernel("softmax"),
}


def build(algorithm: str, route: str, dtype: str, steps: int = 2, anchors: int = 12) -> Net | None:
    """A small network; None where there is none."""
    more = {"anchors": anchors} if route == "interpolation" else {}
    try:
        made: Net = ALGORITHMS[algorithm](steps=steps, route=route, dtype=dtype, **more).build(
            features=2, examples=3, data_bound=1.0
        )
    except AttnforgeError:
        return None
    return made


@dataclass(frozen=True, eq=False)
class Mutant:
    """A changed network or target, and what was changed."""

    what: str
    network: Network
    target: Goal


@dataclass(frozen=True)
class Outcome:
    """What was said of a mutant, and the largest error seen; ``bound`` and ``prompts`` are the prover's."""

    verdict: str
    error: float
    bound: float | None
    prompts: tuple[tuple[float, float], ...]

    def false_proofs(self, stored: float) -> list[str]:
        """Who believed a bound that is not true."""
        found = ["checker"] * (self.verdict == "confirmed" and not self.error <= stored)
        found += ["prover, box"] * (self.bound is not None and not self.error <= self.bound)
        return found + ["prover, prompt"] * any(not error <= bound for error, bound in self.prompts)


def mutants(net: Net, count: int, seed: int = 0) -> Iterator[Mutant]:
    """So many changes of a network or its target that can be made at all."""
    made, draw = 0, seed * 1_000_003
    while made < count:
        draw += 1
        rng = np.random.default_rng(draw)
        try:
            if rng.random() < 0.2:
                what, target = _changed_target(net.target, rng)
                yield Mutant(what, net.network, target)
            else:
                what, network = _changed_network(net, rng)
                yield Mutant(what, network, net.target)
        except (AttnforgeError, ValueError, IndexError, ZeroDivisionError):
            continue  # such a network cannot be made
        made += 1


def judged(net: Net, mutant: Mutant) -> Outcome:
    """What checker and prover say of a mutant, and what it does."""
    assert net.certificate is not None
    bound = mutant.target.domain
    stored = replace(
        net.certificate,
        digest=digest(mutant.network),
        target=target_digest(mutant.target),
        domain=((float(bound.lower), float(bound.upper)),),
    )
    verdict = check(mutant.network, mutant.target, stored, net.dtype).verdict
    run: Any = type(net)(mutant.network, mutant.target, None, net.construction, net.dtype)  # type: ignore[arg-type]
    prompts = [sample(mutant.target, seed) for seed in range(PROMPTS)]
    errors = [_error(run, each) for each in prompts]
    try:
        proved = run.with_network(mutant.network).certificate
    except AttnforgeError:
        proved = None
    single = []
    for prompt, error in zip(prompts[:2], errors, strict=False):
        try:
            single.append((error, float(run.certify(*prompt).bound or math.inf)))
        except AttnforgeError:
            continue
    worst = max(errors, key=lambda each: math.inf if math.isnan(each) else each)
    return Outcome(verdict, worst, None if proved is None else proved.bound, tuple(single))


def _error(run: Net, prompt: tuple[Array, ...]) -> float:
    import torch

    data, wide = [torch.from_numpy(each) for each in prompt], [each.astype(np.longdouble) for each in prompt]
    with torch.no_grad(), np.errstate(all="ignore"):
        try:
            inputs = run.target.prompt(*data) if isinstance(run, KernelNetwork) else data
            found = run._module(*inputs).double().numpy()
        except (AttnforgeError, IndexError, RuntimeError):
            return math.nan  # it does not run
        exact = run.target.average if isinstance(run, KernelNetwork) else run.target.weights
        return float(np.abs(found - exact(*wide)).max())


def _changed_target(target: Goal, rng: Rng) -> tuple[str, Goal]:
    factor = factor_of(rng)
    if isinstance(target, KernelAverage):
        return _changed_average(target, factor, rng)
    algorithm, features = target.algorithm, target.features
    kinds = ["learning_rate", "l2", "l1", "delta", "data_bound", "steps", "examples"]
    kind = rng.choice(kinds + ["level", "answer"] * bool(features.levels))
    if kind in ("learning_rate", "l2", "l1", "delta"):
        old = getattr(algorithm, kind)
        return f"{kind} * {factor:.3g}", replace(target, algorithm=replace(algorithm, **{kind: old * factor}))
    if kind == "data_bound":
        return f"data_bound * {factor:.3g}", replace(target, data_bound=abs((target.data_bound or 1.0) * factor))
    if kind == "steps":
        return "steps", replace(
            target, steps=int(rng.choice([1, target.steps - 1, target.steps + 1, target.steps * 2]))
        )
    if kind == "examples":
        return "examples", replace(target, examples=int(rng.choice([1, 2, 30])))
    held = list(features.levels if kind == "level" else features.answers)
    held[rng.integers(len(held))] *= factor
    name = "levels" if kind == "level" else "answers"
    return f"{kind} * {factor:.3g}", replace(target, features=replace(features, **{name: tuple(held)}))


def _changed_average(target: KernelAverage, factor: float, rng: Rng) -> tuple[str, KernelAverage]:
    kind = str(rng.choice(["bandwidth", "data_bound", "examples", "kernel"]))
    if kind == "examples":
        return kind, replace(target, examples=int(rng.choice([1, 2, 30])))
    if kind == "kernel":
        return kind, replace(target, kernel="softmax" if target.kernel == "gaussian" else "gaussian")
    return f"{kind} * {factor:.3g}", replace(target, **{kind: abs(getattr(target, kind) * factor)})


def _changed_network(net: Net, rng: Rng) -> tuple[str, Network]:
    """One layer of the block is changed: in all blocks, or in one of them."""
    block, steps = (list(net.block), net.steps) if isinstance(net, InContextNetwork) else (list(net.network.layers), 1)
    place = int(rng.integers(len(block)))
    what, layer = changed_layer(block[place], rng)
    layers, everywhere = list(net.network.layers), rng.random() < 0.5
    chosen = range(steps) if everywhere else [int(rng.integers(steps))]
    for t in chosen:
        layers[t * len(block) + place] = layer
    where = f"layer {place} of {'all blocks' if everywhere else 'one block'}"
    return f"{what} in {where}", replace(net.network, layers=tuple(layers))


def changed_layer(layer: Layer, rng: Rng) -> tuple[str, Layer]:
    """A change of a layer, and what it is."""
    if not isinstance(layer, Attention):
        assert isinstance(layer, Linear)
        term = layer.terms[0]
        assert term.map is not None
        if layer.constant is not None and rng.random() < 0.5:
            what, constant = _changed_array(layer.constant, rng)
            return f"constant: {what}", replace(layer, constant=constant)
        what, changed = _changed_array(term.map, rng)
        return f"map: {what}", replace(layer, terms=(replace(term, map=changed),))
    heads, i = list(layer.heads), int(rng.integers(len(layer.heads)))
    kind = rng.choice(["head", "head", "head", "head", "outputs", "again", "without", "residual", "opposite"])
    if kind == "head":
        what, heads[i] = _changed_head(heads[i], rng)
    elif kind == "outputs":
        what, heads = "all outputs * 1.5", [replace(head, output=head.output * 1.5) for head in heads]
    elif kind == "again":
        what, heads = "a head twice", [*heads, heads[i]]
    elif kind == "without":
        what, heads = "a head less", heads[:i] + heads[i + 1 :]
    elif kind == "opposite":
        large = heads[i].output * 1.1 * 10.0 ** rng.integers(0, 13)
        what = "a head, and its opposite"
        heads = [*heads, replace(heads[i], output=large), replace(heads[i], output=-large)]
    else:
        return "no residual", replace(layer, residual=False)
    return what, replace(layer, heads=tuple(heads))


def _changed_head(head: Head, rng: Rng) -> tuple[str, Head]:
    names = [name for name in ARRAYS if getattr(head, name) is not None]
    kind = rng.choice(["array", "array", "array", "pair", "query_rows", "key_rows"])
    if kind == "array":
        name = str(rng.choice(names))
        what, changed = _changed_array(getattr(head, name), rng)
        return f"{name}: {what}", replace(head, **{name: changed})
    if kind == "pair":
        factor = float(rng.choice([-1.0, 1.37, 2.0**40, 2.0**120, 2.0**1000, 2.0**1022]))
        pairs = [("query", "key", "memory_keys"), ("output", "value", "memory_values")]
        first, *others = pairs[int(rng.integers(2))]
        more = {name: getattr(head, name) * factor for name in others if getattr(head, name) is not None}
        return f"{first} / {factor:.3g}, {others[0]} * it", replace(
            head, **{first: getattr(head, first) / factor}, **more
        )
    told = head.key_rows is not None and head.key_rows.source == "context" and kind == "key_rows"
    source: Any = "context" if told else "state"
    some = ([0], [1], [0, 1], [1, 0], [0, 0], [2], [0, 1, 2])
    rows = [Rows(source=source), Rows("own"), *(Rows.some(each, source) for each in some)]
    return kind, replace(head, **{kind: rows[int(rng.integers(len(rows)))]})


def _changed_array(array: Array, rng: Rng) -> tuple[str, Array]:
    found = np.array(array)
    kind = rng.choice(["entry", "entry", "entry", "new entry", "scaled", "negated", "rows", "columns"])
    nonzero, zero = np.argwhere(found != 0), np.argwhere(found == 0)
    if kind == "entry" and len(nonzero):
        where, factor = tuple(rng.choice(nonzero)), factor_of(rng)
        found[where] *= factor
        return f"an entry * (1 {factor - 1:+.2g})", found
    if kind == "new entry" and len(zero):
        where, size = tuple(rng.choice(zero)), float(rng.choice([-1, 1]) * 10.0 ** rng.uniform(-17, 2))
        found[where] = size
        return f"an entry {size:.2g}", found
    if kind == "rows":
        return "rows permuted", found[rng.permutation(len(found))]
    if kind == "columns":
        return "columns permuted", found[:, rng.permutation(found.shape[1])]
    if kind == "negated":
        return "negated", -found
    factor = factor_of(rng)
    return f"all entries * (1 {factor - 1:+.2g})", found * factor


def factor_of(rng: Rng) -> float:
    """What a number is multiplied by."""
    if rng.random() < 0.2:
        return float(rng.choice([-1.0, 0.0, 0.5, 1.5, 2.0, 100.0]))
    return 1.0 + float(rng.choice([-1, 1]) * 10.0 ** rng.uniform(-15.9, 0))


def main() -> None:
    """Draw, judge, and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", nargs="*", choices=list(ALGORITHMS), default=list(ALGORITHMS))
    parser.add_argument("--out", type=Path, default=RESULTS)
    given = parser.parse_args()
    lines, false, total = [], [], 0
    for algorithm in given.only:
        for route in ("small_sharpness", "interpolation"):
            for dtype in ("float64", "float32"):
                net = build(algorithm, route, dtype)
                if net is None or net.certificate is None or net.certificate.bound is None:
                    lines.append(f"| {algorithm} | {route} | {dtype} | no certificate for all prompts | | | | | |")
                    continue
                bound = net.certificate.bound
                honest, said, proved, wrong = (
                    check(net.network, net.target, net.certificate, dtype),
                    Counter[str](),
                    0,
                    0,
                )
                for mutant in mutants(net, given.count, given.seed):
                    found = judged(net, mutant)
                    said[found.verdict] += 1
                    proved += found.bound is not None
                    wrong += not found.error <= bound
                    names = found.false_proofs(bound)
                    false += [f"{algorithm}, {route}, {dtype}: {mutant.what} ({', '.join(names)}): {found}"] * bool(
                        names
                    )
                total += given.count
                counts = " | ".join(str(said[each]) for each in ("confirmed", "rejected", "undecided"))
                facts = (algorithm, route, dtype, f"{bound:.3g}, {honest.verdict}", wrong, counts, proved)
                row = f"| {' | '.join(map(str, facts))} |"
                lines.append(row)
                print(row, flush=True)
    head = (
        "| algorithm | route | dtype | bound, as built | mutants seen above it | confirmed | rejected | undecided "
        "| proved anew |\n|---|---|---|---|---|---|---|---|---|"
    )
    text = (
        "# Changed in-context networks\n\nMade by `OMP_NUM_THREADS=1 .venv/bin/python "
        f"benchmarks/in_context_mutations.py --count {given.count} --seed {given.seed}`; what is changed and how it is "
        "judged: the heading of that file.\n\n"
        f"**{total:,} mutants: {len(false)} false proofs by checker or prover.**\n\n{head}\n" + "\n".join(lines) + "\n"
    )
    given.out.write_text(text + "".join(f"\n- {each}" for each in false))
    print("\n".join(false) or "no false proof")


if __name__ == "__main__":
    main()
