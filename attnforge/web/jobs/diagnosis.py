"""Diagnosis: a fault switched on in a sound network, its signature, and what the diagnosis says."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

import attnforge as af
from attnforge.errors import TargetError
from attnforge.network import Attention, Head, Network
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
        "python": call.lines(*_lines(asked.fault)),
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
    return _changed(network, lambda head: replace(head, query=head.query / SOFTER))


def _without_ghosts(network: Network) -> Network:
    """Keys beyond the domain removed."""

    def without(head: Head) -> Head:
        claims, keys, values = head.claims, head.memory_keys, head.memory_values
        if claims is None or keys is None or values is None or "ghost" not in claims.roles:
            raise TargetError("Missing ghosts need a head that has some", "none", "Use tuned or fitted anchors")
        kept = np.array([role != "ghost" for role in claims.roles])
        roles = tuple(role for role in claims.roles if role != "ghost")
        return replace(
            head,
            memory_keys=keys[kept],
            memory_values=values[kept],
            claims=replace(claims, positions=claims.positions[kept], roles=roles),
        )

    return _changed(network, without)


def _shifted(network: Network) -> Network:
    """The first sentinel moved by half a step: keys are (kappa, kappa^2), steps counted by kappa."""
    moved = False

    def shift(head: Head) -> Head:
        nonlocal moved
        claims, keys = head.claims, head.memory_keys
        if moved or claims is None or keys is None or "sentinel" not in claims.roles:
            return head
        moved, changed, k = True, keys.copy(), claims.roles.index("sentinel")
        kappa = keys[k, 0] + SHIFT
        changed[k, :2] = kappa, kappa * kappa
        return replace(head, memory_keys=changed)

    found = _changed(network, shift)
    if not moved:
        raise TargetError("A shifted sentinel needs several heads", "one", "Use the multi-head construction")
    return found


CHANGES: dict[str, Callable[[Network], Network]] = {
    "missing ghosts": _without_ghosts,
    "too soft": _softer,
    "shifted sentinel": _shifted,
}


def _changed(network: Network, change: Callable[[Head], Head]) -> Network:
    """The network with its heads changed, one after the other."""
    layers = [
        replace(layer, heads=tuple(change(head) for head in layer.heads)) if isinstance(layer, Attention) else layer
        for layer in network.layers
    ]
    return replace(network, layers=tuple(layers))


def _lines(fault: str) -> list[str]:
    """How the findings come about in Python."""
    if fault not in CHANGES:
        return [f"print(af.diagnose(net{', dtype=' + repr(fault) if fault == 'float16' else ''}))"]
    return [
        "",
        "from attnforge.web.jobs.diagnosis import CHANGES  # the fault, as it is switched on here",
        f"faulty = net.with_network(CHANGES[{fault!r}](net.network))",
        "print(af.diagnose(faulty))",
    ]
