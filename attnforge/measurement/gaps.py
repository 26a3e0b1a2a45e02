"""What is searched for: run(x) - target(x), with the target's own rounding out of the way."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from attnforge.network import Network
from attnforge.targets import Box, Target

Array = npt.NDArray[np.float64]
Run = Callable[[Array], npt.NDArray[Any]]

CHUNK = 20_000  # tokens evaluated at a time


def gaps(run: Run, target: Target, points: Array, rough: bool = False) -> Array:
    """run(x) - target(x) at N points, (N, M) for M numbers a point, whatever the tokens and outputs.

    The target is evaluated in extended precision where it has one, and a formula by balls where that is not enough, so
    that its own rounding does not count as error, nor hide one; ``rough``: in float64, for larger gaps.

    >>> from attnforge.targets import Formula
    >>> gaps(lambda x: x[:, 0] + 0.5, Formula("x", Box(0, 1, shape=(1,))), np.array([[0.0], [0.25]]))
    array([[0.5],
           [0.5]])
    """
    found = run(points) - (target.values(points) if rough else target.accurate(points))
    return np.asarray(found.reshape(len(points), -1).astype(np.float64))


def point_box(target: Target, network: Network) -> tuple[Box, int | None]:
    """The box a single point lives in, and the number of tokens (None for functions)."""
    if target.layout == "function":
        return target.domain, None
    tokens = network.tokens or target.together
    return target.domain.fixed((tokens, network.features)), tokens
