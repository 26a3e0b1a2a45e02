"""Knobs for interpretability benchmarks: networks that compute what they did, and no longer show how.

:func:`apply` turns four of them, each a file of its own that says what it does to the weights and why the function is
kept: registers in :mod:`.superposition`, :mod:`.distractors`, a random :mod:`.basis` of every hidden stream, and
:mod:`.noise`, in this order, so that the basis hides what the first two leave to be seen. What comes out is certified
anew, from its own numbers. :func:`mechanism` reads from them, in whatever basis, who reads whom: the answer.
"""

from __future__ import annotations

from typing import Any, Literal, Protocol, TypeVar

import numpy as np

from attnforge.errors import CertificateError, RefusalError, TargetError
from attnforge.network import Network
from attnforge.zoo.knobs.basis import in_random_basis
from attnforge.zoo.knobs.distractors import with_distractors
from attnforge.zoo.knobs.mechanism import mechanism
from attnforge.zoo.knobs.noise import with_noise
from attnforge.zoo.knobs.superposition import superposed as in_superposition

__all__ = ["apply", "mechanism"]


class Net(Protocol):
    """What is certified anew when its weights change: compiled targets, networks of prompts, programs."""

    @property
    def network(self) -> Network: ...

    def with_network(self, network: Network) -> Any: ...


N = TypeVar("N", bound=Net)


def apply(
    net: N,
    *,
    basis: int | Literal["random"] | None = None,
    distractors: int = 0,
    superposed: int | float | None = None,
    noise: float = 0.0,
    seed: int = 0,
) -> N:
    """The same function by weights that hide how, with a certificate of its own.

    Args:
        net: what ``compile``, ``constructions``, ``programs.compile`` and regressions in context build.
        basis: ``"random"``, or the seed of one: every hidden stream in a random orthogonal basis.
        distractors: heads more in every layer that writes into a hidden stream, which nothing that counts reads.
        superposed: features fewer, an int, or a fraction of all that can be spared: registers share directions.
        noise: relative size of independent noise in every weight; the only knob that changes the function.
        seed: of all that is random.

    Returns:
        The same kind of object. Its ``certificate`` is proved of the new numbers: never the old one.

    Raises:
        RefusalError: where the network has no hidden stream, nothing to spare, or where nothing is proved of the new
            weights: with the prover's reason.

    >>> import attnforge as af
    >>> net = af.constructions.graph("sin(x + y)*x", {"x": (-1, 1), "y": (-1, 1)}, 1e-3)
    >>> hidden = apply(net, basis="random", distractors=2)
    >>> hidden.certificate.status, hidden.heads - net.heads, hidden.certificate.bound <= 1.001*net.certificate.bound
    ('proved', 4, True)
    """
    if not isinstance(getattr(net, "network", None), Network) or not hasattr(net, "with_network"):
        raise TargetError(
            "Knobs turn what can be certified anew: it has a network, and with_network",
            type(net).__name__,
            "Of a prompt, pass its .compiled",
        )
    network = net.network
    if superposed is not None:
        network = in_superposition(network, superposed, _drawing(seed, 0))
    if distractors:
        network = with_distractors(network, distractors, _drawing(seed, 1))
    if basis is not None:
        network = in_random_basis(network, _drawing(seed if basis == "random" else basis, 2))
    if noise:
        network = with_noise(network, noise, _drawing(seed, 3))
    if network is net.network:
        return net
    try:
        turned: N = net.with_network(network)
    except (CertificateError, RefusalError) as reason:
        requirement = (
            f"What knobs make of a network is certified anew, and of this {type(net).__name__} nothing is proved"
        )
        got = f"the prover's word: {reason.requirement}; it has {reason.got}"
        raise RefusalError(requirement, got, "Leave a knob alone, or use less noise") from reason
    return turned


def _drawing(seed: object, knob: int) -> np.random.Generator:
    """Independent random numbers for every knob."""
    if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
        raise TargetError('A seed is an int from 0 on, a basis such a seed or "random"', repr(seed)[:40], "Use 0")
    return np.random.default_rng([seed, knob])
