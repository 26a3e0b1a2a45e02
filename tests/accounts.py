"""Golden certificates: what was proved of every network of the catalogue, and how large it was.

``./test --golden`` writes the file anew; its difference is read before it is committed. ``golden/start.json`` is the
file as it was before the redesign, which stays: what the redesign may cost in all is counted from there.
"""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import Any

import numpy as np

from attnforge.network import count_keys
from tests.catalogue import ENTRIES, built

GOLDEN = Path(__file__).parent / "golden" / "certificates.json"
START = GOLDEN.with_name("start.json")
STATUSES = ("proved", "conditional", "sampled", "refused")  # from the strongest to none
SIZES = ("keys", "heads", "layers")
RISE = 1.01  # times a bound that was, within which another one is the same
ROUNDING = 2.0  # the same of entries whose bound is the rounding of a fit: they are listed below

ROUNDED: frozenset[str] = frozenset()
UNSETTLED: dict[str, str] = {}
"""Entries whose size still hangs on the processor, and why."""

LOOSER, MOST, LARGER = 1.1, 3.0, 1.05  # bounds since the start, those of exceptions, and keys
SHARE = 0.05  # of all entries that may be exceptions
EXCEPTIONS: dict[str, str] = {}
"""Entries whose bound is more than LOOSER times what it was at the start, or whose keys more than LARGER times; why."""

Account = dict[str, Any]


def accounts() -> dict[str, Account]:
    """Of every network in every dtype, built where it is not there."""
    return {title(name, dtype): account(name, dtype) for name, entry in ENTRIES.items() for dtype in entry.dtypes}


def title(name: str, dtype: str) -> str:
    """The name in the file."""
    return name if len(ENTRIES[name].dtypes) == 1 else f"{name} [{dtype}]"


def account(name: str, dtype: str) -> Account:
    """Status, bound and parts of one network, its size, and the seconds that building and proving it took."""
    result = built(name, dtype)
    if result.net is None:
        return {"status": "refused", "seconds": round(result.seconds, 2)}
    net, certificate = result.net, certificate_of(result.net)
    sizes = dict(zip(SIZES, (count_keys(net.network), net.heads, net.layers), strict=True))
    parts = {part: _digits(value) for part, value in certificate.parts.items()}
    proof = {"status": certificate.status, "bound": _digits(certificate.bound), "parts": parts}
    return {**proof, **sizes, "seconds": round(result.seconds, 2)}


def certificate_of(net: Any) -> Any:
    """The certificate of the network, or, where there is none for all prompts, of one prompt."""
    if net.certificate is not None:
        return net.certificate
    x = np.random.default_rng(0).uniform(-1.0, 1.0, size=(8, 2))
    return net.certify(x, np.abs(x).sum(axis=1))


def worse(name: str, before: Account, now: Account) -> list[str]:
    """What is worse than it was: a weaker status, a larger bound, more keys, heads or layers."""
    if STATUSES.index(now["status"]) > STATUSES.index(before["status"]):
        return [f"{name}: {before['status']} became {now['status']}"]
    found = [
        f"{name}: {before[size]} {size} became {now[size]}"
        for size in SIZES
        if now.get(size, 0) > before.get(size, 9e9)
    ]
    if before.get("bound") is not None:
        rise = ROUNDING if name.partition(" [")[0] in ROUNDED else RISE
        if now["bound"] > rise * before["bound"]:
            found.append(f"{name}: the bound {before['bound']:g} became {now['bound']:g}")
    return found


def departed(start: dict[str, Account], now: dict[str, Account], exceptions: dict[str, str]) -> list[str]:
    """What has become worse since the start by more than a redesign may cost."""
    wrong = [f"{name}: gone" for name in start if name not in now]
    for name in start.keys() & now.keys():
        before, after = start[name], now[name]
        if STATUSES.index(after["status"]) > STATUSES.index(before["status"]):
            wrong.append(f"{name}: {before['status']} became {after['status']}")
        elif before.get("bound") is not None:
            rise = MOST if name in exceptions else LOOSER
            if after["bound"] > rise * before["bound"]:
                wrong.append(f"{name}: the bound {before['bound']:g} became {after['bound']:g}")
        if name not in exceptions and after.get("keys", 0) > LARGER * before.get("keys", math.inf):
            wrong.append(f"{name}: {before['keys']} keys became {after['keys']}")
    return sorted(wrong)


def read(path: Path = GOLDEN) -> dict[str, Account]:
    """A file of certificates."""
    content: dict[str, Account] = json.loads(path.read_text("utf-8"))
    return content


def write(path: Path = GOLDEN) -> None:
    """One line an entry, so that a difference is read line by line."""
    rows = [f"{json.dumps(name, ensure_ascii=False)}: {json.dumps(row)}" for name, row in accounts().items()]
    path.write_text("{\n" + ",\n".join(rows) + "\n}\n", "utf-8")


def _digits(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.6g}")


if __name__ == "__main__":
    write(*map(Path, sys.argv[1:]))
