"""Whether what is built hangs on the processor: ``python -m scripts.processors`` builds networks under other settings.

BLAS, NumPy and torch choose their kernels by the processor, and sums come in another order with each. Values may differ
in their last bits by that; what is decided may not: construction, keys, ghosts, heads, layers, sharpness and places to
three digits, status. A bound may differ by 1 %, and by a factor of two where an entry is marked in ``ROUNDED``, because
the rounding of its fit is all that is left of its error.

One setting is varied at a time, in a process of its own, and compared with the processor's own choice. A setting that
changes the bits of nothing is said to: then it shows nothing. Exit code 1 where a decision or a bound differs.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import json
import math
import os
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from threadpoolctl import threadpool_info, threadpool_limits

ROOT = Path(__file__).resolve().parent.parent
Facts = dict[str, Any]
Builders = Mapping[str, Callable[[], Any]]

DEFAULT = "default"
WIDE = "X86_V4 AVX512_ICL AVX512_SPR"  # NumPy's names of its kernels of 512 bits
SETTINGS: dict[str, dict[str, str]] = {
    DEFAULT: {},
    "Haswell": {"OPENBLAS_CORETYPE": "Haswell"},
    "Zen": {"OPENBLAS_CORETYPE": "Zen"},
    "Nehalem": {"OPENBLAS_CORETYPE": "Nehalem"},
    "Sandybridge": {"OPENBLAS_CORETYPE": "Sandybridge"},
    "SkylakeX": {"OPENBLAS_CORETYPE": "SkylakeX"},
    "torch default": {"ATEN_CPU_CAPABILITY": "default"},
    "torch avx2": {"ATEN_CPU_CAPABILITY": "avx2"},
    "NumPy AVX2": {"NPY_DISABLE_CPU_FEATURES": WIDE},
    "NumPy SSE4.2": {"NPY_DISABLE_CPU_FEATURES": f"X86_V3 {WIDE}"},
    "MKL AVX2": {"MKL_ENABLE_INSTRUCTIONS": "AVX2"},
    "MKL SSE4.2": {"MKL_ENABLE_INSTRUCTIONS": "SSE4_2"},
    "MKL compatible": {"MKL_CBWR": "COMPATIBLE"},  # which processors of other makers obey, too
    "2 threads": {"OMP_NUM_THREADS": "2"},
}
NEEDS = {"SkylakeX": "AVX512F"}  # elsewhere its kernels are illegal instructions

ROUNDED = frozenset({"rounding: exp(3*x), 8 anchors"})  # by the last bits of the exp that is its target
CLOSE, CLOSE_BOUND, CLOSE_ROUNDED = 1e-3, 1.01, 2.0  # three digits; bounds, and bounds of what is only rounding


def networks() -> Builders:
    """What is built, by name: each builder gives a compiled network, or the network of a program."""
    return {**_of_the_catalogue(), **_of_the_pages(), **_near_rounding()}


def main(arguments: list[str] | None = None) -> int:
    """Compare settings, or, in a process of one setting, build."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("settings", nargs="*", help=f"those to compare: {', '.join(SETTINGS)}; all where none is named")
    parser.add_argument("--only", default="", help="a regular expression that names of networks must match")
    parser.add_argument("--jobs", type=int, default=1, help="settings at a time")
    parser.add_argument("--folder", type=Path, help="where what was built under each setting is written as JSON")
    parser.add_argument("--build", action="store_true", help="print what is built under the setting in force as JSON")
    parser.add_argument("--list", action="store_true", help="print the names of the networks")
    asked = parser.parse_args(arguments)
    chosen = {name: build for name, build in networks().items() if re.search(asked.only, name)}
    if asked.list:
        print(*chosen, sep="\n")
        return 0
    if asked.build:
        print(json.dumps(built(chosen)))
        return 0
    return compared(asked.settings or list(SETTINGS), asked.only, asked.jobs, asked.folder)


def compared(settings: list[str], only: str, jobs: int, folder: Path | None) -> int:
    """Build under every setting, print what took effect and what differs; 1 where a decision or a bound does."""
    named = [DEFAULT, *(name for name in settings if name != DEFAULT)]
    with ThreadPoolExecutor(jobs) as pool:
        dumps = dict(zip(named, pool.map(partial(under, only=only), named), strict=True))
    for name, dump in dumps.items():
        if folder is not None and dump is not None:
            folder.mkdir(parents=True, exist_ok=True)
            (folder / f"{name.replace(' ', '-')}.json").write_text(json.dumps(dump, indent=1), "utf-8")
    reference, wrong = dumps[DEFAULT], 0
    assert reference is not None
    for name, dump in dumps.items():
        print(f"== {name}: {_effect(dump, reference)}")
        rows = [] if dump is None else list(differences(reference["networks"], dump["networks"]))
        wrong += sum(counts for *_, counts in rows)
        for entry, what, here, there, counts in rows:
            print(f"   {'DIFFERS' if counts else 'within'}  {entry}  {what}: {here} -> {there}")
    print(f"{len(reference['networks'])} networks, {wrong} differences")
    return int(wrong > 0)


def under(setting: str, only: str = "") -> dict[str, Any] | None:
    """What a process of that setting builds; None where this processor cannot run it."""
    from numpy._core._multiarray_umath import __cpu_features__ as features

    if setting in NEEDS and not features.get(NEEDS[setting]):
        return None
    environment = {name: text for name, text in os.environ.items() if name not in VARIED}
    environment |= {"OMP_NUM_THREADS": "1"} | SETTINGS[setting]
    command = [sys.executable, "-m", "scripts.processors", "--build", "--only", only]
    run = subprocess.run(command, env=environment, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    return dict(json.loads(run.stdout.splitlines()[-1]))


VARIED = {name for setting in SETTINGS.values() for name in setting}


def differences(here: Facts, there: Facts) -> Iterator[tuple[str, str, Any, Any, bool]]:
    """Entry, what of it, both, and whether that is wrong: of bounds within what is allowed, those 0.1 % apart."""
    for entry, first in here.items():
        second = there.get(entry, {})
        for what in sorted({*first, *second} - {"seconds", "error"}):
            a, b = first.get(what), second.get(what)
            if what == "bound" and a and b:
                ratio = max(a / b, b / a)
                if ratio > CLOSE + 1:
                    yield entry, what, a, b, ratio > (CLOSE_ROUNDED if entry in ROUNDED else CLOSE_BOUND)
            elif not alike(a, b):
                yield entry, what, a, b, True


def alike(a: Any, b: Any) -> bool:
    """Whether two facts agree: numbers to three digits, all else exactly."""
    if isinstance(a, float) and isinstance(b, float):
        return math.isclose(a, b, rel_tol=CLOSE)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(alike, a, b))
    return bool(a == b)


def built(builders: Builders) -> dict[str, Any]:
    """What is in force, and the facts of every network."""
    return {"machine": machine(), "networks": {name: _facts_or_refusal(build) for name, build in builders.items()}}


def machine() -> dict[str, Any]:
    """What libraries say of themselves, and the bits of one product or function of each: what took effect."""
    threads = int(os.environ["OMP_NUM_THREADS"])
    torch.set_num_threads(threads)
    threadpool_limits(threads)  # OpenBLAS starts with no more than the processors it may use
    return {"says": _says(), "bits": _bits()}


def _says() -> dict[str, Any]:
    import scipy.linalg  # noqa: F401  (it brings a BLAS of its own)

    pools = [pool for pool in threadpool_info() if pool["user_api"] == "blas"]
    exp = np.lib.introspect.opt_func_info("^exp$", "float64")["exp"]["dd"]["current"]
    return {
        "BLAS": ", ".join(sorted({f"{pool['architecture']} x {pool['num_threads']}" for pool in pools})),
        "NumPy's exp": exp,
        "torch": f"{torch.backends.cpu.get_cpu_capability()} x {torch.get_num_threads()}",
    }


def _bits() -> dict[str, str]:
    from scipy.linalg import qr

    table = np.random.default_rng(0).normal(size=(300, 300))
    tensor = torch.from_numpy(table)
    results = {
        "NumPy's products": table @ table,
        "NumPy's decompositions": np.linalg.svd(table[:, :40], full_matrices=False)[0],
        "SciPy's decompositions": qr(table[:, :40], mode="economic")[0],
        "NumPy's exp": np.exp(table),
        "NumPy's tanh": np.tanh(table),
        "NumPy's sums": table.sum(axis=1),
        "torch's products": (tensor @ tensor).numpy(),
        "torch's softmax": torch.softmax(tensor, 1).numpy(),
    }
    return {name: hashlib.sha256(array.tobytes()).hexdigest()[:16] for name, array in results.items()}


def _effect(dump: dict[str, Any] | None, reference: dict[str, Any]) -> str:
    """What libraries say under a setting, and which bits differ."""
    if dump is None:
        return "not for this processor"
    says = "; ".join(f"{name} {text}" for name, text in dump["machine"]["says"].items())
    bits, usual = dump["machine"]["bits"], reference["machine"]["bits"]
    changed = [name for name in bits if bits[name] != usual[name]]
    return says if dump is reference else f"{says}; other bits: {', '.join(changed) or 'none'}"


def _facts_or_refusal(build: Callable[[], Any]) -> Facts:
    from attnforge.errors import AttnforgeError

    start = time.process_time()
    try:
        facts = facts_of(build())
    except AttnforgeError as error:
        facts = {"refused": type(error).__name__}
    return {**facts, "seconds": round(time.process_time() - start, 2)}


def facts_of(net: Any) -> Facts:
    """What was decided of a network, and its bound."""
    from tests.accounts import certificate_of

    network, certificate = net.network, certificate_of(net)
    claims = [head.claims for head in network.heads if head.claims is not None]
    estimate = getattr(certificate, "estimate", None)
    return {
        "construction": getattr(net, "construction", ""),
        "keys": sum(head.memory_size for head in network.heads),
        "heads": len(network.heads),
        "layers": len(network.layers),
        "roles": dict(sorted(Counter(role for claim in claims for role in claim.roles).items())),
        "sharpness": [claim.sharpness for claim in claims],
        "reach": [end for claim in claims if claim.positions.size for end in _ends(claim.positions)],
        "structure": _structure(network),
        "status": certificate.status,
        "bound": certificate.bound,
        "error": None if estimate is None else estimate.error,
    }


def _ends(positions: Any) -> list[float]:
    return [float(positions.min()), float(positions.max())]


def _structure(network: Any) -> str:
    """A digest of layers, heads, row sets and shapes: of all but numbers."""
    from attnforge.network import flatten

    skeleton, arrays = flatten(network)
    outline = re.sub(r'"sharpness": "[^"]*"', "", json.dumps(skeleton, sort_keys=True))
    shapes = {name: array.shape for name, array in arrays.items()}
    return hashlib.sha256(f"{outline}{shapes}".encode()).hexdigest()[:16]


def _of_the_catalogue() -> Builders:
    """All small networks that tests and golden certificates are about, in every dtype that they are built in."""
    from tests.accounts import title
    from tests.catalogue import ENTRIES

    return {title(name, dtype): partial(each.make, dtype) for name, each in ENTRIES.items() for dtype in each.dtypes}


def _of_the_pages() -> Builders:
    """The formulas that README and docs compile."""
    import attnforge as af
    from scripts.documentation.fences import blocks

    found: dict[str, Callable[[], Any]] = {}
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]:
        for block in blocks(page.read_text("utf-8")):
            for given, named in _compiled(block.code) if block.language == "python" and block.runs else ():
                found[f"pages: {given} {named or ''}".strip()] = partial(af.compile, *given, **named)
    return found


def _compiled(code: str) -> Iterator[tuple[list[Any], dict[str, Any]]]:
    """The arguments of calls of ``af.compile`` with literals only; the clock is left out."""
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "af.compile":
            try:
                given = [ast.literal_eval(each) for each in node.args]
                named = {each.arg or "": ast.literal_eval(each.value) for each in node.keywords}
            except ValueError:
                continue
            yield given, {name: value for name, value in named.items() if name != "timeout"}


def _near_rounding() -> Builders:
    """Tolerances close to rounding; and numbers of anchors without a tolerance, where only rounding ends the fit."""
    import attnforge as af

    grid, square, line = af.constructions.tensor_grid, {"x": (0, 1), "y": (0, 1)}, {"x": (-1, 1)}
    counts = [("exp(x*y)", square, 4), ("exp(x*y)", square, 6), ("log(x + 2)", line, 4), ("exp(3*x)", line, 8)]
    tols = [("exp(3*x)", 1e-11), ("x^7", 1e-11), ("log(x + 2)", 1e-13)]
    return {f"rounding: {f}, {n} anchors": partial(grid, f, box, anchors=n, effort="low") for f, box, n in counts} | {
        f"rounding: {f}, {tol:g}": partial(grid, f, line, tol=tol, effort="low") for f, tol in tols
    }


if __name__ == "__main__":
    sys.exit(main())
