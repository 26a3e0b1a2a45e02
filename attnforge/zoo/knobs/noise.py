r"""Noise in every weight: W becomes $W \circ (1 + s\,\xi)$, with $\xi$ uniform on [-1, 1], entry by entry.

This knob alone changes the function, by about s times what the network's condition makes of it: sharp heads feel it
most, since their scores are differences of large numbers. So the new bound is not the old one with something added: it
is proved of the noisy numbers, and where they are too far from what was built nothing is proved, and that is what the
certificate says. In a random basis every entry takes its share; in the plain one, zeros stay zeros.
"""

from __future__ import annotations

import numpy as np

from attnforge.errors import TargetError
from attnforge.network import Network, flatten, unflatten
from attnforge.network.flatten import is_weight


def with_noise(network: Network, size: float, rng: np.random.Generator) -> Network:
    """The network with independent relative noise of at most ``size`` in every weight.

    >>> import attnforge as af
    >>> network = af.constructions.multiplier(keys=3).network
    >>> noisy = with_noise(network, 1e-9, np.random.default_rng(0))
    >>> moved, built = (each.layers[1].heads[0].memory_keys for each in (noisy, network))
    >>> bool(np.all(abs(moved - built) <= 1.1e-9 * abs(built))), bool(np.any(moved != built))
    (True, True)
    """
    if not 0 < size < 1:
        raise TargetError("`noise` is relative to each weight: above 0 and below 1", f"{size!r:.40}", "Try 1e-9")
    skeleton, arrays = flatten(network)
    noisy = {
        name: array * (1 + size * rng.uniform(-1.0, 1.0, size=array.shape)) if is_weight(name) else array
        for name, array in arrays.items()
    }
    return unflatten(skeleton, noisy)
