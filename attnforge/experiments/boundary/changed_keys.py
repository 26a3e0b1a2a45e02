"""Networks with keys taken away or moved, to see what they are for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

import attnforge as af


def without(network: af.Network, role: str) -> af.Network:
    """The network without its keys of this role.

    >>> import attnforge as af
    >>> net = af.constructions.max_affine("x", {"x": (0, 1)}, cells=8)
    >>> net.network.heads[0].memory_size, without(net.network, "ghost").heads[0].memory_size
    (16, 8)
    """

    def kept(head: Any) -> Any:
        keep = np.array([each != role for each in head.claims.roles])
        roles = tuple(each for each in head.claims.roles if each != role)
        claims = replace(head.claims, positions=head.claims.positions[keep], roles=roles)
        keys, values = head.memory_keys[keep], head.memory_values[keep]
        return replace(head, memory_keys=keys, memory_values=values, claims=claims)

    return _with_heads(network, kept)


def shifted(network: af.Network, steps: float) -> af.Network:
    """The network with its sentinels moved outwards; keys are (kappa, kappa^2), counted in steps."""

    def moved(head: Any) -> Any:
        outwards = np.array([role == "sentinel" for role in head.claims.roles]) * np.sign(head.memory_keys[:, 0])
        kappa = head.memory_keys[:, 0] + steps * outwards
        return replace(head, memory_keys=np.stack([kappa, kappa**2], axis=1))

    return _with_heads(network, moved)


def _with_heads(network: af.Network, change: Callable[[Any], Any]) -> af.Network:
    from attnforge.network import Attention

    def changed(layer: Any) -> Any:
        is_attention = isinstance(layer, Attention)
        return replace(layer, heads=tuple(change(head) for head in layer.heads)) if is_attention else layer

    return replace(network, layers=tuple(changed(layer) for layer in network.layers))
