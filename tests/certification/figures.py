"""What prover and checker say in numbers: of networks as they were built, and of others near them.

``./test --golden`` writes ``golden/figures.json``: for every network of the catalogue, and for more of those that read
prompts, parts and registers of certificates, what the checker reaches, and ranges of outputs; then the same with all
weights moved a little, which the theorems' proofs must charge, and by so much that only enclosures are left.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

import attnforge as af
from attnforge.network import Network, flatten, unflatten
from tests.catalogue import ENTRIES, network
from tests.laws.forms import GAPS, form, given, of_one_length, prompts
from tests.laws.in_context_mutations import ALGORITHMS, build

GOLDEN = Path(__file__).parents[1] / "golden" / "figures.json"
FEW = af.Effort(points=100, climbers=2, rounds=2, tries=2, boxes=100, intervals=400, pairs=2e5, cells=60)
LEFT_OUT = ("kind", "norm", "assumptions", "dtype", "domain", "digest", "target", "estimate", "kernels", "bound")
NARROW = {"float32": ("row of 84", "grid", "ridge", "graph", "relu", "deep relu", "truncated", "multihead", "gate",
                      "partition", "multiplier", "logistic", "exponential"),
          "bfloat16": ("sine", "graph", "leaky relu", "hardtanh", "truncated, tokens", "multihead", "gate, literal",
                       "partition, hard", "multiplier")}  # fmt: skip

LONG = ("Franke", "maximum", "maximum of three", "angle", "minimum", "random 12")  # to check, and like others
ROUTES = ("small_sharpness", "interpolation")
READERS = ("functional", "in-context", "kernel", "prompt", "program")  # kinds of the zoo that no other entry has


def _subjects() -> dict[str, Callable[[], Any]]:
    names = [name for name, entry in ENTRIES.items() if name[:5] != "zoo: " or entry.kind in READERS]
    built = {name: lambda name=name: network(name) for name in names if name not in LONG}
    narrow = {
        f"{name} [{dtype}]": lambda name=name, dtype=dtype: network(name, dtype)
        for dtype, names in NARROW.items()
        for name in names
    }
    readers = {
        f"{algorithm}, {route} [{dtype}]": lambda asked=(algorithm, route, dtype): build(*asked)
        for algorithm, route, dtype in itertools.product(ALGORITHMS, ROUTES, ("float64", "float32", "bfloat16"))
        if algorithm != "Poisson" and (algorithm, route) != ("softmax", "interpolation")
        if (route == ROUTES[0] if "kernel" in algorithm else dtype != "bfloat16")
    }
    return built | narrow | readers


SUBJECTS = _subjects()
MOVES = {"as built": None, "moved a little": (2.0**-24, False), "moved": (1e-3, True)}


def moved(whole: Network, size: float, zeros: bool) -> Network:
    """All weights times nearly one; or all entries, zeros too, by a part of the largest of their array."""
    skeleton, arrays = flatten(whole)
    rng, found = np.random.default_rng(0), {}
    for name, array in arrays.items():
        found[name] = array
        if array.dtype == np.float64 and "claims" not in name:
            by = size * rng.choice([-1.0, 1.0], array.shape) * rng.uniform(0.5, 1.0, array.shape)
            found[name] = array + by * (np.abs(array).max(initial=0.0) if zeros else array)
    return unflatten(skeleton, found)


# What is said of one network


@dataclass(frozen=True)
class Said:
    """Of one network: its figures, the bound that is claimed of it and the largest error that is seen."""

    figures: dict[str, Any]
    bound: float
    error: float


def said(name: str) -> Iterator[tuple[str, Said]]:
    """Of a network and of those near it, by the name of the move."""
    net = SUBJECTS[name]()
    for move, how in MOVES.items() if net is not None else ():
        yield move, said_of(net, move == "as built", net.network if how is None else moved(net.network, *how))


def said_of(net: Any, as_built: bool, changed: Network) -> Said:
    """Of these weights against the network's target."""
    try:
        told = net if as_built else replace(net, network=changed)
        certificates = list(certified(told, as_built))
    except af.AttnforgeError as refusal:
        return Said({"status": type(refusal).__name__}, math.inf, 0.0)
    figures: dict[str, Any] = {}
    for certificate in certificates:
        figures |= _numbers(certificate.to_data())
    kind, last = form(net), certificates[-1]
    if kind not in ("program", "prompt"):
        told = replace(told, certificate=last)
        figures |= _ranges(told)
    if kind != "program" and certificates[0].bound is not None and certificates[0].domain:
        figures |= checked(replace(told, certificate=certificates[0]), as_built)
    bound = getattr(last, "bound", None)
    return Said(figures, math.inf if bound is None else bound, 0.0 if as_built else error_of(told))


def certified(net: Any, as_built: bool) -> Iterator[Any]:
    """Its certificates, proved anew: for all inputs, and of networks that read examples for one prompt too."""
    match form(net):
        case "program":
            yield net.certify()
        case "prompt":
            if net.certificate is not None:
                yield net.certificate if as_built else net.with_network(net.network).certificate
            if not hasattr(net.target, "query"):
                yield net.certify(*one_prompt(net))
        case _:
            yield af.certify(net, effort=FEW)


def one_prompt(net: Any) -> tuple[Any, ...]:
    """Examples, and queries, of a fixed seed."""
    return tuple(each[0] for each in prompts(net, np.random.default_rng(0), 1))


def checked(net: Any, too_little: bool) -> dict[str, Any]:
    """What the checker says of the file, and which bound it reaches itself; of less than is true too, if asked."""
    if (form(net), "save") in GAPS:
        return {}
    found: dict[str, Any] = {}
    for part in (1.0, 0.3) if too_little else (1.0,):
        bound, of = part * net.certificate.bound, "" if part == 1.0 else " of less"
        told = net.certificate if part == 1.0 else replace(net.certificate, bound=bound, parts={"all": bound})
        with TemporaryDirectory() as folder:
            path = Path(folder) / "net"
            replace(net, certificate=told).save(path)
            verdict = af.check(path, effort=FEW)
        found[f"check{of}"] = verdict.verdict
        if verdict.outcome is not None:
            found[f"reached{of}"] = float(verdict.outcome.reached if part == 1.0 else verdict.outcome.seen)
    return found


def _ranges(net: Any) -> dict[str, Any]:
    """Of the outputs, on the lower part of the domain."""
    if form(net) not in ("point", "tokens"):
        return {}
    box = of_one_length(net)
    try:
        low, high = net.range(af.Box(box.lower, box.lower + 0.375 * (box.upper - box.lower)), effort=FEW)
    except af.AttnforgeError as refusal:
        return {"range": type(refusal).__name__}
    return {"least": float(np.min(low)), "most": float(np.max(high))}


def error_of(net: Any) -> float:
    """The largest error that is seen in some runs."""
    match form(net):
        case "program" | "head in a prompt":
            return 0.0
        case "prompt":
            if hasattr(net.target, "query"):
                return 0.0
            given_prompt = one_prompt(net)
            exact = "average" if hasattr(net.target, "average") else "weights"
            known = getattr(net.target, exact, None)
            return 0.0 if known is None else float(np.abs(net(*given_prompt) - known(*given_prompt)).max())
        case "two inputs":
            return 0.0
    points = given(net, 60, seed=5)[0]
    with np.errstate(all="ignore"):
        return float(np.abs(np.asarray(net(points)) - net.target.values(points)).max())


def _numbers(data: Any, at: str = "") -> dict[str, Any]:
    """What stands in a certificate, by the way that leads there; lists without their words."""
    if isinstance(data, dict):
        found: dict[str, Any] = {}
        for name, value in data.items():
            if name not in LEFT_OUT:
                found |= _numbers(value, f"{at} {name}".strip())
        return found
    if isinstance(data, list):
        flat = [float(x) for row in data for x in (row if isinstance(row, list) else [row]) if not isinstance(x, str)]
        return {at: flat} if flat else {}
    return {} if data is None else {at: data}


# What is kept of it


def account(found: dict[str, Said]) -> dict[str, Any]:
    """All figures of a name, to four digits."""
    return {move: {key: _digits(value) for key, value in each.figures.items()} for move, each in found.items()}


def _digits(value: Any) -> Any:
    if isinstance(value, list):
        return [_digits(each) for each in value]
    return value if isinstance(value, str | bool) or not math.isfinite(value) else float(f"{value:.4g}")


@cache
def golden() -> dict[str, Any]:
    """The file."""
    found: dict[str, Any] = json.loads(GOLDEN.read_text("utf-8"))
    return found


def write() -> None:
    """One line a network, so that a difference is read line by line."""
    rows = [f"{json.dumps(name, ensure_ascii=False)}: {json.dumps(account(dict(said(name))))}" for name in SUBJECTS]
    GOLDEN.write_text("{\n" + ",\n".join(rows) + "\n}\n", "utf-8")


if __name__ == "__main__":
    write()
