r"""More registers than dimensions: every hidden stream in the fewest directions that its readers can tell apart.

A reader sees zW, and nothing else of z. Let the columns of E be an orthonormal basis of a space that holds all columns
of all matrices that read the stream: $E E^T W = W$ for each of them. Then the stream zE, of fewer features, is read by
$E^T W$ as before (:mod:`.streams`, E and R = $E^T$, a left inverse of R): registers are no longer orthogonal, but share
directions, as many as the rank of what is read leaves out. A sum of a hundred terms of which only the sum is read, say,
takes one direction; nothing is approximated, so nothing is to be suppressed by a non-linearity.

What cannot be had without error is refused: with fewer directions than that rank, some reader would get another number.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from attnforge.errors import RefusalError, TargetError
from attnforge.network import Network
from attnforge.zoo.knobs.streams import Coordinates, Hidden, carried, hidden_streams, readers

Array = npt.NDArray[np.float64]


def superposed(network: Network, amount: int | float, rng: np.random.Generator) -> Network:
    """The network with streams of fewer features.

    Args:
        network: whatever network with a hidden stream.
        amount: features fewer in all, an int, taken where there is most to spare; or a fraction of all that can be
            spared, above 0 and at most 1.
        rng: draws the directions that nobody reads and that are kept, where fewer are spared than could be.
    """
    streams = hidden_streams(network)
    spaces = [_read_space(readers(network, stream)) for stream in streams]
    spare = [stream.width - space.shape[1] for stream, space in zip(streams, spaces, strict=True)]
    fewer = _shared(_wanted(amount, sum(spare)), spare)
    return carried(
        network,
        {
            stream: _coordinates(stream, space, stream.width - less, rng)
            for stream, space, less in zip(streams, spaces, fewer, strict=True)
            if less
        },
    )


def _wanted(amount: int | float, most: int) -> int:
    if isinstance(amount, bool) or not isinstance(amount, int | float):
        raise TargetError("`superposed` is a number of features, or a fraction of those to spare", repr(amount)[:40])
    if isinstance(amount, float):
        if not 0 < amount <= 1:
            raise TargetError(
                "`superposed` as a fraction is above 0 and at most 1", f"{amount:g}", "Use an int, or 1.0"
            )
        wanted = round(amount * most)
    else:
        wanted = amount
    if not 1 <= wanted <= most:
        requirement = f"What is read of this network's streams leaves {most} features to spare"
        raise RefusalError(requirement, f"superposed={amount}", f"Ask for 1 to {most}" if most else "Leave it alone")
    return wanted


def _shared(wanted: int, spare: list[int]) -> list[int]:
    """Features fewer, stream by stream, those with most to spare first."""
    fewer = [0] * len(spare)
    for i in sorted(range(len(spare)), key=lambda i: -spare[i]):
        fewer[i] = min(spare[i], wanted - sum(fewer))
    return fewer


def _read_space(weights: Array) -> Array:
    """An orthonormal basis (m, rank) of the columns, each taken at unit length: those of sharp heads are long."""
    sizes = np.linalg.norm(weights, axis=0)
    columns = weights[:, sizes > 0] / sizes[sizes > 0]
    if not columns.size:
        return np.eye(len(weights), 1)
    left, singular, _ = np.linalg.svd(columns, full_matrices=False)
    rank = int(np.sum(singular > singular[0] * max(columns.shape) * np.finfo(np.float64).eps))
    return np.asarray(left[:, :rank])


def _coordinates(stream: Hidden, space: Array, width: int, rng: np.random.Generator) -> Coordinates:
    """What is read, and random directions beside it up to the width."""
    beside = rng.normal(size=(stream.width, width - space.shape[1]))
    directions = np.linalg.qr(np.hstack([space, beside]))[0]
    return Coordinates(directions, directions.T)
