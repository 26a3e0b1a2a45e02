"""Diagnosis: a fault switched on in a sound network, its signature, and what the diagnosis says."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

import attnforge as af
from attnforge.errors import TargetError
from attnforge.network import Network, head_places, moved, with_heads, without_keys
from attnforge.plot.sampling import Sample
from attnforge.progress import Told
from attnforge.web.calls import SKETCH, call_for
from attnforge.web.jobs.line import (
    as_points,
    attention_along,
    facts,
    first_heads,
    inputs_along,
    keys_of,
    sample_along,
    worst,
)
from attnforge.web.packing import packed
from attnforge.web.requests import Patient

Array = npt.NDArray[np.float64]

SOFTER = 64.0  # what the query maps of a head that is too soft are divided by
SHIFT = 0.5  # steps by which a sentinel is moved


def diagnosis(asked: Patient, tell: Told) -> dict[str, Any]:
    """Errors of the sound and of the faulty network side by side, the faulty one's attention, and the findings."""
    call = call_for(asked)
    sound: Any = call.run(effort=SKETCH, progress=tell)
    tell(0.5, "diagnosing")
    change = CHANGES.get(asked.fault)
    net: Any = sound if change is None else sound.with_network(change(sound.network))
    dtype = "float16" if asked.fault == "float16" else None
    along = inputs_along(asked, first_heads(sound))
    healthy = sample_along(sound, along)
    ill = sample_along(net, along) if dtype is None else _run_in(net, dtype, along)
    return {
        "x": packed(along),
        "target": packed(ill.wanted[:, 0]),
        "output": packed(ill.found[:, 0]),
        "error": packed(ill.error),
        "sound": packed(healthy.error),
        "worst": worst(along, ill),
        "keys": [keys_of(head) for head in first_heads(net)],
        "map": attention_along(net, asked),
        "diagnosis": af.diagnose(net, dtype=dtype).to_dict(),
        "facts": facts(net),
        "python": call.lines(*_lines(asked.fault, sound.network)),
    }


def _run_in(net: Any, dtype: str, along: Array) -> Sample:
    """The network in another dtype than it was built for, whatever becomes of it."""
    import torch

    points, module = as_points(net, along), net.module(dtype=dtype)
    with torch.no_grad():
        found = module(torch.from_numpy(points)).double().numpy().reshape(len(along), 1)
    wanted = np.asarray(net.target.values(points), dtype=np.float64).reshape(len(along), 1)
    return Sample(points, wanted, found, np.abs(found - wanted).max(axis=1))


def _softer(network: Network) -> Network:
    """All scores divided by a number."""
    return with_heads(network, lambda head: replace(head, query=head.query / SOFTER))


def _without_ghosts(network: Network) -> Network:
    """Keys beyond the domain removed."""
    if not any(head.claims is not None and "ghost" in head.claims.roles for head in network.heads):
        raise TargetError("Missing ghosts need a head that has some", "none", "Use tuned or fitted anchors")
    return without_keys(network, "ghost")


def _shifted(network: Network) -> Network:
    """The first sentinel moved by half a step: keys are (kappa, kappa^2), steps counted by kappa."""
    layer, head, key = _sentinel(network)

    def shift(keys: Array) -> Array:
        kappa = keys[key, 0] + SHIFT
        keys[key, :2] = kappa, kappa * kappa
        return keys

    return moved(network, _keys_of(layer, head), shift)


def _sentinel(network: Network) -> tuple[int, int, int]:
    """Layer, head and key of the first one."""
    for (layer, number), head in zip(head_places(network), network.heads, strict=True):
        if head.claims is not None and "sentinel" in head.claims.roles:
            return layer, number, head.claims.roles.index("sentinel")
    raise TargetError("A shifted sentinel needs several heads", "one", "Use the multi-head construction")


def _keys_of(layer: int, head: int) -> tuple[str | int, ...]:
    """The way to a head's constant keys."""
    return "layers", layer, "heads", head, "memory_keys"


CHANGES: dict[str, Callable[[Network], Network]] = {
    "missing ghosts": _without_ghosts,
    "too soft": _softer,
    "shifted sentinel": _shifted,
}


def _lines(fault: str, network: Network) -> list[str]:
    """How the findings come about in Python."""
    if fault not in CHANGES:
        return [f"print(af.diagnose(net{', dtype=' + repr(fault) if fault == 'float16' else ''}))"]
    return ["", *_editing(fault, network), "print(af.diagnose(net.with_network(faulty)))"]


def _editing(fault: str, network: Network) -> list[str]:
    """The same fault in Python, as it is switched on here."""
    if fault == "missing ghosts":
        return ['faulty = af.network.without_keys(net.network, "ghost")']
    if fault == "too soft":
        return [
            "faulty = net.network",
            "for layer, head in af.network.head_places(faulty):",
            f"    faulty = af.network.scaled(faulty, layer, head, {1 / SOFTER!r})",
        ]
    layer, head, key = _sentinel(network)
    return [
        "def shifted(keys):",
        f"    kappa = keys[{key}, 0] + {SHIFT!r}  # a key is (kappa, kappa^2), counted in steps",
        f"    keys[{key}, :2] = kappa, kappa * kappa",
        "    return keys",
        "",
        f"faulty = af.network.moved(net.network, {_keys_of(layer, head)!r}, shifted)",
    ]
